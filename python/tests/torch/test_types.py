"""The package's type hints hold, as pyright sees them."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
import xyntra


@pytest.mark.skipif(importlib.util.find_spec("pyright") is None, reason="pyright is not installed")
def test_pyright_has_nothing_to_say():
    package = Path(xyntra.__file__).parent
    assert (package / "py.typed").exists()
    done = subprocess.run([sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "--pythonversion", "3.10", str(package)], capture_output=True,
                          text=True, check=False)
    if "0 errors" not in done.stdout and "error" not in done.stdout:
        pytest.skip(f"pyright does not run here: {done.stderr.strip().splitlines()[-1:]}")
    assert done.returncode == 0, done.stdout
