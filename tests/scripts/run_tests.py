"""Runs the tests of the test tools and counts them as every lane does."""
import sys
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
folder = Path(__file__).resolve().parent
suite = unittest.defaultTestLoader.discover(str(folder), pattern="*_test.py", top_level_dir=str(folder))
result = unittest.TextTestRunner(verbosity=0).run(suite)
failed = len(result.failures) + len(result.errors)
sys.stderr.flush()
print(f"{result.testsRun - failed - len(result.skipped)} passed, {failed} failed, {len(result.skipped)} skipped")
sys.exit(1 if failed else 0)
