"""Graphs of tensors on a GPU, without one: tensors that are described and not there, and the CUDA driver for tests."""

import ctypes
import json
import os
from pathlib import Path

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional as F
from xyntra.torch.capture import prepare
from xyntra.torch.decompositions import decompositions
from xyntra.torch.devices import device_of
from xyntra.torch.options import Options
from xyntra.torch.program import Bound
from xyntra.torch.support import Support

ROOT = Path(__file__).resolve().parent.parent.parent.parent
DRIVERS = [Path(os.environ["XYNTRA_FAKE_CUDA"])] if "XYNTRA_FAKE_CUDA" in os.environ else sorted(ROOT.glob("build/*/libxyntra_fake_cuda.so"))


def captured(function, *inputs):
    """The graph of a function of (shape, device, dtype)."""
    with FakeTensorMode(), torch.no_grad():
        graph = make_fx(function, decomposition_table=decompositions())(*(torch.empty(shape, device=device, dtype=dtype) for shape, device, dtype in inputs))
    prepare(graph)
    return graph


def divided(function, *inputs):
    """What is compiled, and what torch runs, by operator with the reason."""
    graph = captured(function, *inputs)
    device = device_of(graph.graph)
    segments, fallbacks = Support().segments(graph.graph, set(), device)
    return graph, device, [one for one in segments if one.compiled], {one.target.split(".")[1]: one.reason for one in fallbacks}


def on(device, *shape, dtype=torch.float32):
    return shape, device, dtype


@pytest.mark.parametrize("function, inputs, backend, reasons", [
    (lambda x: x * 2, [on("cpu", 4)], "cpu", {}),
    (lambda x: x * 2, [on("cuda", 4)], "ptx", {}),
    (lambda x, y: (x * 2, y.sin()), [on("cuda", 4), on("cpu", 4)], "ptx", {"sin": "its tensors lie on cpu"}),
    (lambda x, y: x + y.to("cuda"), [on("cuda", 4), on("cpu", 4)], "ptx", {"_to_copy": "its tensors lie on cpu and cuda:0"}),
    (lambda x, y: (x * 2, y * 2), [on("cuda:0", 4), on("cuda:1", 4)], "ptx", {"mul": "its tensors lie on cuda:1"}),
    (lambda x: x.sum().cpu(), [on("cuda", 4)], "ptx", {"_to_copy": "it makes a number on the CPU"}),
    (lambda x, y: x * y, [on("cuda", 4), on("cpu")], "ptx", {}),
    (lambda x: torch.where(x > 0, x, torch.tensor(2.0)) * torch.full((), 3.0), [on("cuda", 4)], "ptx", {}),
    (lambda x: x * 2, [on("meta", 4)], "cpu", {"mul": "its tensors lie on meta"}),
])
def test_where_a_graph_runs(function, inputs, backend, reasons):
    _, device, _, found = divided(function, *inputs)
    assert (device.backend, found) == (backend, reasons)


@pytest.mark.parametrize("call", [
    lambda q, k, v: torch.ops.aten._scaled_dot_product_flash_attention(q, k, v, 0.0, True, scale=0.3)[0],
    lambda q, k, v: torch.ops.aten._scaled_dot_product_efficient_attention(q, k, v, None, False, 0.0, True, scale=0.3)[0],
    lambda q, k, v: torch.ops.aten._scaled_dot_product_cudnn_attention(q, k, v, None, False, 0.0, True, False, scale=0.3)[0]])
def test_attention_of_any_kernel_is_attention(call):
    graph = captured(call, *[on("cuda", 2, 4, 16, 64, dtype=torch.bfloat16)] * 3)
    [node] = [one for one in graph.graph.nodes if "attention" in str(one.target)]
    assert node.target is torch.ops.aten.scaled_dot_product_attention.default and node.args[3:] == (None, 0.0, True) and node.kwargs == {"scale": 0.3}


def test_matmuls_follow_the_precision_that_torch_may_use():
    device = device_of(captured(lambda x: x * 2, on("cuda", 4)).graph)
    before = torch.get_float32_matmul_precision()
    try:
        found = []
        for precision in ("highest", "high"):
            torch.set_float32_matmul_precision(precision)
            found += [device.precision(None), device.precision("f16")]
    finally:
        torch.set_float32_matmul_precision(before)
    assert found == ["f32", "f16", "tf32", "f16"]


# ---- the CUDA driver for tests: its memory is the host's, and launches compute nothing

class Counts(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("linked", "loaded_code", "loaded_text", "launches", "written", "read", "moved", "waits")]


class Driver:
    def __init__(self, path):
        self.library = ctypes.CDLL(str(path))
        self.library.fake_cuda_counts.restype = Counts

    def counts(self):
        counts = self.library.fake_cuda_counts()
        return {name: getattr(counts, name) for name, _ in Counts._fields_}

    def memory(self, count):
        address = ctypes.c_uint64()
        assert self.library.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(count)) == 0
        return address.value


@pytest.fixture(scope="module")
def driver():
    if torch.cuda.is_available():
        pytest.skip("there is a GPU: test_cuda.py runs on it")
    if not DRIVERS:
        pytest.skip("libxyntra_fake_cuda.so is not built")
    os.environ.update(XYNTRA_CUDA=str(DRIVERS[0]), XDG_CACHE_HOME="/proc/none")
    return Driver(DRIVERS[0])


def bound(function, *inputs):
    graph, device, [segment], _ = divided(function, *inputs)
    made = Bound(graph, segment.nodes, segment.inputs, segment.outputs, set(), [None] * len(segment.inputs), device.threads(None), Options(), device)
    made.finish()
    return made


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_graphs_are_compiled_for_the_gpu(driver, dtype):
    def attention(x, w):
        q, k, v = (x @ w).view(2, 16, 3, 4, 16).permute(2, 0, 3, 1, 4)
        return F.layer_norm(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(2, 16, 64) + x, (64,))

    def residual(x, w, mean, variance):
        return F.relu(x + F.batch_norm(F.conv2d(x, w, padding=1), mean, variance))

    for function, shapes in ((attention, [(2, 16, 64), (64, 192)]), (residual, [(1, 8, 9, 9), (8, 8, 3, 3), (8,), (8,)])):
        plan = json.loads(bound(function, *(on("cuda", *shape, dtype=dtype) for shape in shapes)).explain())
        assert plan["backend"] == "ptx" and plan["fallbacks"] == [] and plan["totals"]["kernels"] < 5


def test_tensors_stay_on_the_gpu(driver):
    made = bound(lambda x, w: (x @ w).softmax(-1), on("cuda", 8, 64), on("cuda", 64, 32))
    x, w, y = driver.memory(8 * 64 * 4), driver.memory(64 * 32 * 4), driver.memory(8 * 32 * 4)
    before = driver.counts()
    made._run([x, w], [(8, 64), (64, 32)], [y], [(8, 32)], 0)
    after = driver.counts()
    assert after["launches"] > before["launches"]
    assert [after[name] - before[name] for name in ("written", "read", "moved")] == [0, 0, 0]
    assert after["waits"] - before["waits"] == 2  # our stream for torch's, and the other way round
