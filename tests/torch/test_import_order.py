"""Xyntra in one process with torch, triton, onnxruntime and, where it is installed, numba: each has an LLVM or a C++ library of its own.

Every order of imports is a fresh process, in which each of them then compiles and runs something, in the same order. Where no C++ compiler is,
torch compiles nothing by Inductor, but runs by itself and by the backend xyntra.
"""

import importlib.util
import itertools
import os
import subprocess
import sys
from pathlib import Path

import pytest

MODEL = Path(__file__).resolve().parents[2] / "examples/models/encoder.onnx"
PEERS = ["xyntra", "torch", "triton", "onnxruntime"]

# Functions of the same name as a package: each makes machine code, runs it and checks what it gives.
USES = '''
import importlib, os, shutil, sys
import numpy as np

MODEL = sys.argv[1]
FEED = {"x": np.ones((1, 16, 64), np.float32), "mask": np.ones((1, 16), bool)}

def xyntra(module):
    session = module.Session(MODEL, threads=2)
    assert np.isfinite(session.run(None, FEED)[0]).all()
    try:
        module.Session(b"no model")
    except module.BadModelError:
        pass
    else:
        raise AssertionError("an error crossed no boundary")

def torch(module):
    def function(x):
        return module.nn.functional.gelu(x @ x.T).sum(-1)
    x = module.linspace(-1, 1, 64).reshape(8, 8)
    backends = ["inductor" if shutil.which("g++") or shutil.which("clang++") else "eager", "xyntra"]
    for backend in backends:
        module._dynamo.reset()
        module.testing.assert_close(module.compile(function, backend=backend, fullgraph=True)(x), function(x))

def triton(module):
    import kernel  # functions of Triton's are read from files
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource
    source = ASTSource(kernel.scaled, signature={"x": "*fp32", "n": "i32"}, constexprs={})
    made = module.compile(source, target=GPUTarget("cuda", 80, 32))
    assert ".visible .entry" in made.asm["ptx"]

def onnxruntime(module):
    session = module.InferenceSession(MODEL, providers=["CPUExecutionProvider"])
    assert np.isfinite(session.run(None, FEED)[0]).all()

def numba(module):
    @module.njit
    def total(values):
        result = 0.0
        for value in values:
            result += value
        return result
    assert total(np.ones(10)) == 10.0

order = sys.argv[2].split(",")
modules = {name: importlib.import_module(name) for name in order}
for name in order:
    globals()[name](modules[name])
print("all ran")
'''
KERNEL = '''
import triton
import triton.language as tl

@triton.jit
def scaled(x, n):
    at = tl.program_id(0) * 64 + tl.arange(0, 64)
    tl.store(x + at, tl.exp(tl.load(x + at, mask=at < n)) * 2, mask=at < n)
'''


def orders():
    """All of those that are always there; what may be missing takes each place in turn."""
    here = [name for name in PEERS if importlib.util.find_spec(name)]
    for number, order in enumerate(itertools.permutations(here)):
        if importlib.util.find_spec("numba"):
            place = number % (len(order) + 1)
            order = (*order[:place], "numba", *order[place:])
        yield ",".join(order)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("import_order")
    (made / "uses.py").write_text(USES, encoding="utf-8")
    (made / "kernel.py").write_text(KERNEL, encoding="utf-8")
    return made


@pytest.mark.parametrize("order", list(orders()))
def test_all_run_in_one_process(order, folder):
    # Xyntra's and Triton's caches are empty each time; Inductor's, whose compiler is another process, is kept.
    environment = {**os.environ, "XDG_CACHE_HOME": str(folder / order), "TRITON_CACHE_DIR": str(folder / f"{order}-triton"),
                   "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor")}
    done = subprocess.run([sys.executable, "uses.py", MODEL, order], cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, timeout=600, check=False)
    assert done.returncode == 0 and done.stdout.strip().endswith("all ran"), f"exit code {done.returncode}\n{done.stdout[-3000:]}"
