"""Models on an NVIDIA GPU behind torch.compile: results are eager's, tensors stay there, in the order of the caller's streams."""

import copy
import resource
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
import xyntra.torch
from test_backend import MLP, Attention, Block, Experts
from test_state import Cached, changes
from torch import nn
from torch.nn import functional as F
from xyntra.torch.report import ContractError

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no NVIDIA GPU, or was built without CUDA")


def random(*shape, dtype=torch.float32):
    return torch.randn(shape, device="cuda", dtype=dtype)


@pytest.fixture(autouse=True)
def exact():
    """Eager convolutions of f32 without tf32."""
    before, torch.backends.cudnn.allow_tf32 = torch.backends.cudnn.allow_tf32, False
    yield
    torch.backends.cudnn.allow_tf32 = before


@pytest.mark.parametrize("model, shape", [(MLP(), (3, 16)), (Block(), (2, 8, 9, 9)), (Attention(), (2, 6, 32))])
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_models_agree(compiled, model, shape, mode):
    with mode():
        made = compiled(copy.deepcopy(model).eval().cuda())
        for _ in range(4):
            made.agrees(random(*shape))
    [report] = made.reports
    assert {one.backend for one in report.segments} == {"ptx"}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
@pytest.mark.parametrize("model, shape", [(MLP(), (3, 16)), (Block(16), (2, 16, 9, 9)), (Attention(64, 4), (2, 40, 64))])
def test_dtypes(compiled, dtype, model, shape):
    with torch.no_grad():
        compiled(copy.deepcopy(model).eval().cuda().to(dtype)).agrees(random(*shape, dtype=dtype), rtol=3e-2, atol=3e-2)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast(compiled, dtype):
    with torch.no_grad(), torch.autocast("cuda", dtype):
        compiled(MLP().cuda()).agrees(random(3, 16), rtol=3e-2, atol=3e-2)


def test_attention_of_each_of_torchs_kernels(compiled):
    from torch.nn.attention import SDPBackend, sdpa_kernel

    for backend in (SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.CUDNN_ATTENTION, SDPBackend.MATH):
        with torch.no_grad(), sdpa_kernel(backend):
            made = compiled(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True))
            made.agrees(*[random(2, 4, 40, 64, dtype=torch.bfloat16) for _ in range(3)], rtol=3e-2, atol=3e-2)


def test_masked_attention(compiled):
    mask = torch.rand(2, 1, 40, 40, device="cuda") > 0.3
    with torch.no_grad():
        compiled(lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, attn_mask=m)).agrees(
            *[random(2, 4, 40, 64, dtype=torch.float16) for _ in range(3)], mask, rtol=1e-2, atol=1e-2)


def test_what_the_host_computes(compiled):
    """TopK has no kernel: it gets a copy."""
    with torch.no_grad():
        compiled(lambda x: (x.topk(3), (x * 2).softmax(-1))).agrees(random(4, 40))


def test_grouped_matmuls(partly):
    model, x = Experts().eval().cuda().bfloat16(), random(37, 16, dtype=torch.bfloat16)
    with torch.no_grad():
        partly(model).agrees(x, torch.randint(0, 4, (37,), device="cuda"), rtol=3e-2, atol=3e-2)


@pytest.mark.parametrize("change", [lambda x: x.t(), lambda x: x[:, ::2], lambda x: x[1:, 1:], lambda x: x.flatten()[1:], lambda x: x[:1].expand(4, 6), lambda x: x[:0]])
def test_inputs_of_any_strides_and_places(compiled, change):
    with torch.no_grad():
        compiled(lambda x: (x * 2 + x.sum(0, keepdim=True)).relu()).agrees(change(random(6, 6)))


def test_strides_of_results_and_views(compiled):
    def run(x):
        y = x + 1
        return y, y.view(-1), (x * 2).t(), x[1:], x

    with torch.no_grad():
        made, x = compiled(run), random(4, 6)
        made.agrees(x)
        y, flat, _, part, same = made(x)
        assert flat.data_ptr() == y.data_ptr() and same.data_ptr() == x.data_ptr() and part.data_ptr() == x[1:].data_ptr()
        compiled(lambda x: F.relu(x) * 2).agrees(random(2, 8, 9, 9).to(memory_format=torch.channels_last))


def test_inputs_are_changed_in_place(compiled):
    def run(x, y):
        x.add_(1)
        y[:, 0] = x.sum(1)
        return x * y

    with torch.no_grad():
        made = compiled(run)
        for _ in range(2):
            made.agrees(random(3, 4), random(3, 4))


def test_kv_cache_in_a_buffer(partly):
    eager, made = Cached().cuda(), partly(Cached().cuda())
    made.model.load_state_dict(eager.state_dict())
    with torch.no_grad():
        for step in range(5):
            token, position = random(1, 1, 4), torch.tensor([step], device="cuda")
            torch.testing.assert_close(made(token, position), eager(token, position), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(made.model.keys, eager.keys, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("change", [one for one in changes() if "through" not in one.__name__], ids=lambda one: one.__name__)
def test_parameters_that_change_after_compiling(compiled, change):
    module = nn.Linear(4, 4).cuda()
    made = compiled(module)
    with torch.no_grad(), torch.device("cuda"):
        for _ in range(3):
            made.agrees(random(2, 4))
            change(module)
            made.agrees(random(2, 4))


def test_parameters_that_stay_inputs_are_used_where_they_are(compiled):
    module = nn.Linear(4, 4).cuda()
    made = compiled(module, freeze=False)
    with torch.no_grad():
        made.agrees(random(2, 4))
        module.weight.data[1, 1] = 9.0  # a write that nothing counts
        made.agrees(random(2, 4))


@pytest.mark.parametrize("dynamic", [None, True])
def test_twenty_sizes_compile_at_most_twice(compiled, dynamic):
    made = compiled(Attention().eval().cuda(), dynamic)
    with torch.no_grad():
        for size in range(2, 22):
            made.agrees(random(2, size, 32))
    assert len(made.reports) <= 2


def test_runs_are_in_order_with_the_streams_of_the_caller(compiled):
    """A long matmul before each call and after it, on streams that do not wait for one another by themselves."""
    model, large = MLP().eval().cuda(), random(4096, 4096)
    made = compiled(model)
    with torch.no_grad():
        made.agrees(random(3, 16))
        streams = [torch.cuda.Stream() for _ in range(3)]
        torch.cuda.synchronize()
        wanted, found = [], []
        for number in range(12):
            with torch.cuda.stream(streams[number % 3]):
                x = (large @ large)[:3, :16] * 0.01
                found.append(made(x) + 1)
                wanted.append(model(x) + 1)
                del x
        torch.cuda.synchronize()
    for one, other in zip(found, wanted):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


def test_calls_do_not_wait(compiled):
    """The host is back before the device is done."""
    made, large = compiled(lambda x: (x * 2).relu() + 1), random(8192, 8192)
    small = random(4, 4)
    with torch.no_grad():
        made(small)
        torch.cuda.synchronize()
        for _ in range(8):
            large @ large
        made(small)
        assert not torch.cuda.current_stream().query()
        torch.cuda.synchronize()


def test_memory_is_that_of_torchs_allocator(compiled):
    made = compiled(lambda x: x * 2 + 1)
    with torch.no_grad():
        x = random(1024, 1024)
        made(x)
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        y = made(x)
        assert torch.cuda.memory_allocated() - before == y.numel() * 4
        del y
        free = torch.cuda.mem_get_info()[0]
        for _ in range(50):
            made(x)
        torch.cuda.synchronize()
        assert free - torch.cuda.mem_get_info()[0] < 2**24


def test_many_calls_keep_no_memory(compiled):
    model = MLP().eval().cuda()
    made, x = compiled(model), random(64, 16)
    with torch.no_grad():
        for _ in range(100):
            made(x)
        torch.cuda.synchronize()
        free, held = torch.cuda.mem_get_info()[0], resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for _ in range(3000):
            made(x)
        torch.cuda.synchronize()
        assert free - torch.cuda.mem_get_info()[0] < 2**24
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - held < 2**15  # KiB


def test_two_threads_have_the_bits_of_one(compiled):
    model, inputs = Attention(64, 4).eval().cuda(), [random(2, 24, 64) for _ in range(40)]
    with torch.no_grad():
        made = compiled(model)
        wanted = [made(x).clone() for x in inputs]

    def run(x):
        with torch.no_grad(), torch.cuda.stream(torch.cuda.Stream()):
            y = made(x)
            torch.cuda.current_stream().synchronize()
            return y

    torch.cuda.synchronize()
    with ThreadPoolExecutor(2) as threads:
        for one, other in zip(threads.map(run, inputs), wanted):
            assert torch.equal(one, other)


def test_graphs_of_several_devices(partly):
    def run(x, y):
        return x * 2 + 1, y.sin(), x + y.to("cuda")

    made = partly(run)
    with torch.no_grad():
        made.agrees(random(4, 4), torch.randn(4, 4))
    assert sorted(made.fallbacks) == ["aten._to_copy.default", "aten.sin.default"]


def test_no_fallback_of_several_devices(compiled):
    with torch.no_grad(), pytest.raises(Exception, match="its tensors lie on cpu"):
        compiled(lambda x, y: (x * 2, y.sin()))(random(4), torch.randn(4))


def test_numbers_on_the_cpu_may_be_read(compiled):
    with torch.no_grad():
        made = compiled(lambda x, s: x * s + torch.tensor(0.5))
        for number in (2.0, 3.0):
            made.agrees(random(4, 4), torch.tensor(number))


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="there is one GPU")
def test_another_gpu_is_left_to_torch(partly):
    made = partly(lambda x: x * 2 + 1)
    with torch.no_grad():
        made.agrees(torch.randn(4, device="cuda:1"))
    assert made.fallbacks


def test_a_graph_that_the_caller_captures_has_torchs_kernels(partly):
    model = MLP().eval().cuda()
    made, x = partly(model), random(3, 16)
    with torch.no_grad():
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                made(x)
                model(x)
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = made(x)
        x.copy_(random(3, 16))
        graph.replay()
        torch.testing.assert_close(y, model(x), rtol=1e-4, atol=1e-5)
        made.agrees(random(3, 16))
    assert {one.reason for report in made.reports for one in report.fallbacks} == {"the caller captures a CUDA graph"}


def test_no_fallback_while_a_graph_is_captured(compiled):
    made, x = compiled(MLP().eval().cuda()), random(3, 16)
    with torch.no_grad():
        made(x)
        torch.cuda.synchronize()
        with pytest.raises(ContractError, match="captures a CUDA graph"), torch.cuda.graph(torch.cuda.CUDAGraph()):
            made(x)
        torch.cuda.synchronize()


def test_gradients(partly):
    eager, made = MLP().cuda(), partly(MLP().cuda())
    made.model.load_state_dict(eager.state_dict())
    x = random(3, 16)
    expected, given = eager(x), made(x)
    torch.testing.assert_close(given, expected, rtol=1e-4, atol=1e-5)
    expected.sum().backward()
    given.sum().backward()
    for one, other in zip(made.model.parameters(), eager.parameters()):
        torch.testing.assert_close(one.grad, other.grad, rtol=1e-4, atol=1e-5)


def test_explain_names_the_backend():
    with torch.no_grad():
        explanation = xyntra.torch.explain(MLP().eval().cuda(), random(3, 16))
    assert "backend ptx" in str(explanation) and explanation.kernels > 0 and not explanation.fallbacks
    [graph] = explanation.to_dict()["graphs"]
    assert [one["backend"] for one in graph["segments"]] == ["ptx"] and graph["segments"][0]["plan"]["backend"] == "ptx"
