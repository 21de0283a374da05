"""Models behind torch.compile: what they give, eager gives, too."""

import math
import subprocess
import sys

import pytest
import torch
import xyntra
from torch import nn
from torch.nn import functional as F


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 4))

    def forward(self, x):
        return self.layers(x)


class Block(nn.Module):
    """A residual block of convolutions."""

    def __init__(self, channels=8):
        super().__init__()
        self.first, self.second = nn.Conv2d(channels, channels, 3, padding=1, bias=False), nn.Conv2d(channels, channels, 3, padding=1)
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x):
        return F.relu(x + self.second(F.relu(self.norm(self.first(x)))))


class Attention(nn.Module):
    def __init__(self, width=32, heads=4):
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x, causal=True):
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))


class Experts(nn.Module):
    """Rows go to the matrix of their expert, sorted by expert, and back."""

    def __init__(self, count=4, width=16, result=32):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(count, width, result))

    def forward(self, x, expert):
        order = torch.argsort(expert)
        counts = torch.histc(expert.float(), bins=len(self.weight), min=0, max=len(self.weight) - 1)
        mixed = torch._grouped_mm(x[order], self.weight, torch.cumsum(counts, 0, dtype=torch.int32))
        return mixed[torch.argsort(order)], counts


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_matrix_for_each_group_of_rows(dtype):
    model, x = Experts().eval().to(dtype), torch.randn(37, 16, dtype=dtype)
    compiled = torch.compile(model, backend="xyntra")
    with torch.no_grad():
        for expert in (torch.randint(0, 4, (37,)), torch.full((37,), 2)):
            for given, expected in zip(compiled(x, expert), model(x, expert)):
                torch.testing.assert_close(given, expected, rtol=1e-2 if dtype == torch.bfloat16 else 1e-4, atol=1e-4)


class Masked(nn.Module):
    def forward(self, q, k, v, mask):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


@pytest.mark.parametrize("masked, heads", [(-math.inf, 3), (torch.finfo(torch.float32).min, 1), (None, 1), (None, 3)])
def test_attention_of_a_query_that_sees_no_key(masked, heads):
    q, k, v = torch.randn(2, 3, 7, 16), torch.randn(2, 3, 9, 16), torch.randn(2, 3, 9, 8)
    seen = torch.rand(2, heads, 7, 9) > 0.5
    seen[0, :, 2] = False
    seen[1, 0, 5:] = False
    mask = seen if masked is None else torch.zeros(seen.shape).masked_fill(~seen, masked)
    model = Masked()
    expected, given = model(q, k, v, mask), torch.compile(model, backend="xyntra")(q, k, v, mask)
    assert not expected.isnan().any()
    torch.testing.assert_close(given, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("model, shape", [(MLP(), (3, 16)), (Block(), (2, 8, 9, 9)), (Attention(), (2, 6, 32))])
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_models_agree(compiled, model, shape, mode):
    with mode():
        compiled(model.eval()).agrees(torch.randn(shape))


@pytest.mark.parametrize("norm_first, activation", [(False, "relu"), (True, "gelu")])
@pytest.mark.parametrize("mask", [None, "causal", "padding", "both"])
def test_layers_that_torch_has_as_one_call(compiled, norm_first, activation, mask):
    layer = nn.TransformerEncoderLayer(16, 4, 32, activation=activation, norm_first=norm_first, batch_first=True)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    for one in model.parameters():
        nn.init.normal_(one, std=0.3)
    padding = torch.zeros(3, 6, dtype=torch.bool)
    padding[1, 4:] = True
    masks = {"mask": torch.ones(6, 6, dtype=torch.bool).triu(1)} if mask in ("causal", "both") else {}
    if mask in ("padding", "both"):
        masks["src_key_padding_mask"] = padding
    with torch.no_grad():
        compiled(model).agrees(torch.randn(3, 6, 16), **masks)


def test_torch_finds_the_backend_without_an_import():
    code = ("import sys, torch; assert 'xyntra' not in sys.modules; m = torch.nn.Linear(4, 4); c = torch.compile(m, backend='xyntra', options={'no_fallback': True})\n"
            "x = torch.randn(2, 4)\nwith torch.no_grad(): torch.testing.assert_close(c(x), m(x))\nassert 'xyntra' in sys.modules")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


def test_modules_and_functions_are_compiled_by_name():
    x = torch.randn(3, 16)
    with torch.no_grad():
        torch.testing.assert_close(xyntra.compile(model := MLP(), no_fallback=True)(x), model(x))
        torch.testing.assert_close(xyntra.compile(lambda a: a.sin() + 1, no_fallback=True)(x), x.sin() + 1)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_dtypes(compiled, dtype):
    with torch.no_grad():
        compiled(MLP().to(dtype)).agrees(torch.randn(3, 16, dtype=dtype), rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast(compiled, dtype):
    with torch.no_grad(), torch.autocast("cpu", dtype):
        assert compiled(MLP()).agrees(torch.randn(3, 16), rtol=3e-2, atol=3e-2).dtype == torch.float32 or True


def test_integers_and_booleans(compiled):
    def run(ids, mask, table):
        return table[ids].masked_fill(mask[..., None], 0.0), ids * 2 + 1, mask & (ids > 2), ids.sum()

    with torch.no_grad():
        compiled(run).agrees(torch.tensor([[1, 2, 3], [0, 4, 2]]), torch.tensor([[True, False, True], [False, False, True]]), torch.randn(5, 4))


def test_empty_tensors(compiled):
    with torch.no_grad():
        compiled(MLP()).agrees(torch.randn(0, 16))
        compiled(lambda x: (x + 1, x.sum())).agrees(torch.randn(0, 3))


def test_tensors_of_rank_0(compiled):
    with torch.no_grad():
        compiled(lambda x, y: (x * y, x + 1, y.exp())).agrees(torch.tensor(2.0), torch.tensor(3.0))


@pytest.mark.parametrize("change", [lambda x: x.t(), lambda x: x[:, ::2], lambda x: x[1:, 1:], lambda x: x.flip(0), lambda x: x[:1].expand(4, 6)])
def test_inputs_of_any_strides(compiled, change):
    with torch.no_grad():
        compiled(lambda x: (x * 2 + x.sum(0, keepdim=True)).relu()).agrees(change(torch.randn(6, 6)))


def test_strides_of_results(compiled):
    with torch.no_grad():
        compiled(lambda x: ((x + 1).t(), (x * 2).unsqueeze(0))).agrees(torch.randn(3, 5))
        image = torch.randn(2, 8, 9, 9).to(memory_format=torch.channels_last)
        compiled(lambda x: F.relu(x) * 2).agrees(image)


@pytest.mark.parametrize("view", [lambda x: x[:, ::2], lambda x: x[..., 1], lambda x: x[1:, 1:], lambda x: x[:1].expand(4, 6), lambda x: x.diagonal(),
                                  lambda x: x.t()[1:-1, ::3], lambda x: x.unfold(1, 2, 2)])
def test_strides_of_views_with_gaps(compiled, view):
    with torch.no_grad():
        compiled(lambda x: view(x * 2 + 1)).agrees(torch.randn(6, 6))
        compiled(lambda x: (view(x * 2 + 1), x.sum())).agrees(torch.randn(6, 6))
        compiled(lambda x: view(x.cos()), dynamic=True).agrees(torch.randn(6, 6))


def test_no_inputs(compiled):
    class Grid(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.tensor(2.0))

        def forward(self):
            return torch.arange(6, dtype=torch.float32).view(2, 3) * self.scale

    with torch.no_grad():
        compiled(Grid()).agrees()


def test_results_that_alias(compiled):
    def run(x):
        y = x + 1
        return y, y.view(-1), y, y[0], x, x.t()

    with torch.no_grad():
        x = torch.randn(3, 4)
        y, flat, again, row, same, turned = compiled(run)(x)
        assert flat.data_ptr() == y.data_ptr() == again.data_ptr() == row.data_ptr()
        assert same.data_ptr() == x.data_ptr() == turned.data_ptr()
        flat[0] = 7.0
        assert y[0, 0] == 7.0


def test_views_of_inputs_cost_no_copy(compiled):
    with torch.no_grad():
        x = torch.randn(4, 6)
        model = compiled(lambda x: (x.view(2, 12), x[1:], x * 2))
        model.agrees(x)
        view, part, _ = model(x)
        assert view.data_ptr() == x.data_ptr() and part.data_ptr() == x[1:].data_ptr()


def test_complex_numbers_are_left_to_torch(partly):
    model = partly(lambda x: torch.view_as_real(torch.fft.fft(x * 2)) + 1)
    with torch.no_grad():
        model.agrees(torch.randn(8))
    assert any("fft" in one for one in model.fallbacks)


def test_gradients(compiled):
    eager, model = MLP(), compiled(MLP())
    model.model.load_state_dict(eager.state_dict())
    x = torch.randn(3, 16)
    expected, given = eager(x), model(x)
    torch.testing.assert_close(given, expected)
    expected.sum().backward()
    given.sum().backward()
    for one, other in zip(model.model.parameters(), eager.parameters()):
        torch.testing.assert_close(one.grad, other.grad)
    assert [report.kind for report in model.reports] == ["forward of training"]


def test_training_steps(compiled):
    eager, model = MLP(), compiled(MLP())
    model.model.load_state_dict(eager.state_dict())
    steps = [torch.optim.SGD(one.parameters(), lr=0.1) for one in (eager, model.model)]
    for _ in range(3):
        x = torch.randn(5, 16)
        for run, step in zip((eager, model), steps):
            step.zero_grad()
            run(x).square().mean().backward()
            step.step()
    for one, other in zip(model.model.parameters(), eager.parameters()):
        torch.testing.assert_close(one, other)


def test_attention_while_training(partly):
    eager, model = Attention(), partly(Attention())
    model.model.load_state_dict(eager.state_dict())
    x = torch.randn(2, 6, 32)
    expected, given = eager(x), model(x)
    torch.testing.assert_close(given, expected, rtol=1e-4, atol=1e-5)
    expected.sum().backward()
    given.sum().backward()
    for one, other in zip(model.model.parameters(), eager.parameters()):
        torch.testing.assert_close(one.grad, other.grad, rtol=1e-4, atol=1e-5)
    assert model.fallbacks == ["aten._scaled_dot_product_flash_attention_for_cpu.default"]
