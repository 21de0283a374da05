import os
import subprocess
import sys
import unittest

from load_script import ROOT

SCRIPTS = ["compare", "device", "dynamic", "quanta", "report", "start", "web"]


def run(script, *flags):
    environment = {**os.environ, "XYNTRA_SETUP": "no", "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run([sys.executable, str(ROOT / "bench" / script), *flags], env=environment, text=True, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)


class BenchSetup(unittest.TestCase):
    def test_help_has_an_example_and_needs_nothing(self):
        for script in SCRIPTS:
            done = run(script, "--help")
            self.assertEqual((done.returncode, done.stderr), (0, ""), script)
            self.assertIn(f"\n    bench/{script} ", done.stdout)

    def test_every_script_compiles(self):
        for path in sorted([*(ROOT / "bench").iterdir(), *(ROOT / "scripts").iterdir(), *(ROOT / "tests").glob("*/*")]):
            if path.is_file() and not path.suffix and path.read_bytes().startswith(b"#!/usr/bin/env python3"):
                compile(path.read_text(encoding="utf-8"), path, "exec")

    def test_what_is_missing_is_one_line(self):
        for script, flags in {"start": ["no.xyn"], "device": ["--command", "no_command"], "compare": ["--models", "magika", "--library", "no.so"],
                              "web": ["--command", "no_command"]}.items():
            done = run(script, *flags)
            self.assertNotEqual(done.returncode, 0, script)
            self.assertRegex(done.stderr, rf"^bench/{script}: .*; type: .*\n$")


if __name__ == "__main__":
    unittest.main()
