"""Graphs: sizes, breaks, what is left to torch, and what must hold."""

import pytest
import torch
import xyntra
import xyntra.torch
from test_backend import MLP, Attention, Block
from torch import nn


@pytest.mark.parametrize("dynamic", [None, True])
def test_twenty_sizes_compile_at_most_twice(compiled, dynamic):
    model = compiled(Attention().eval(), dynamic)
    with torch.no_grad():
        for size in range(2, 22):
            model.agrees(torch.randn(2, size, 32))
    assert len(model.reports) <= 2
    assert sum(segment.rebinds for report in model.reports for segment in report.segments) == 0


def test_sizes_of_images(compiled):
    model = compiled(Block().eval(), True)
    with torch.no_grad():
        for height, width in ((7, 9), (12, 5), (16, 16)):
            model.agrees(torch.randn(2, 8, height, width))
    assert len(model.reports) == 1


def test_sizes_in_arithmetic(compiled):
    def run(x):
        batch, length = x.shape
        return x.reshape(-1) * length + batch, x.new_zeros(batch, 2 * length) + x.shape[0], torch.arange(length) + batch // 2

    model = compiled(run, True)
    with torch.no_grad():
        for shape in ((3, 5), (6, 4), (7, 11)):
            model.agrees(torch.randn(shape))
    assert len(model.reports) == 1


def test_numbers_as_inputs(compiled):
    model = compiled(lambda x, n: x * n + n, True)
    with torch.no_grad():
        for n in (2, 3, 5, 8):
            model.agrees(torch.randn(3, 4), n)


def test_graph_breaks(compiled):
    def run(x):
        y = (x * 2).relu()
        torch._dynamo.graph_break()
        return y.softmax(-1) + 1

    model = compiled(run)
    with torch.no_grad():
        model.agrees(torch.randn(3, 4))
    assert len(model.reports) == 2
    assert any("graph_break" in reason for reason in xyntra.torch.explain(run, torch.randn(3, 4)).breaks)


def test_random_numbers_are_those_of_torch(partly):
    def run(x):
        y = torch.rand_like(x) + x.exp()
        return y * torch.randn(4), nn.functional.dropout(y, 0.5, training=True)

    model = partly(run)
    with torch.no_grad():
        for _ in range(3):
            model.agrees(torch.randn(3, 4))
    assert any("rand" in one for one in model.fallbacks)


def test_dropout_of_inference_is_nothing(compiled):
    with torch.no_grad():
        compiled(nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)).eval()).agrees(torch.randn(3, 4))


@torch.library.custom_op("xyntra_test::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@twice.register_fake
def _(x):
    return torch.empty_like(x)


def in_the_middle(x):
    y = (x + 1).relu()
    z = twice(y) - y.sum()
    return (z * 3).sigmoid(), y


def test_an_operator_of_somebody_else_in_the_middle(partly):
    model = partly(in_the_middle, True)
    with torch.no_grad():
        model.agrees(torch.randn(3, 4))
        model.agrees(torch.randn(5, 6))
    assert set(model.fallbacks) == {"xyntra_test.twice.default"}
    assert [len(report.segments) for report in model.reports] == [2]


def test_fallbacks_are_said(partly):
    with pytest.warns(xyntra.torch.FallbackWarning, match="xyntra_test.twice"), torch.no_grad():
        torch.compile(in_the_middle, backend=xyntra.torch.backend)(torch.randn(3, 4))
    with torch.no_grad():
        explanation = xyntra.torch.explain(in_the_middle, torch.randn(3, 4))
    [fallback] = explanation.fallbacks
    assert fallback.target == "xyntra_test.twice.default" and "twice" in fallback.reason
    assert "torch runs xyntra_test.twice.default" in str(explanation)


def test_no_fallback_is_a_contract(compiled):
    with pytest.raises(Exception, match="no_fallback: 1 of .* xyntra_test.twice.default"), torch.no_grad():
        compiled(in_the_middle)(torch.randn(3, 4))


def test_kernels_are_a_contract(compiled):
    with torch.no_grad():
        compiled(MLP(), max_kernels=3).agrees(torch.randn(3, 16))
        with pytest.raises(xyntra.torch.ContractError, match="max_kernels: the graph has"):
            compiled(MLP(), max_kernels=0)(torch.randn(3, 16))


def test_options_are_checked():
    for options, why in (({"thread": 1}, "is it 'threads'"), ({"threads": "two"}, "int or NoneType, not str"), ({"threads": True}, "not bool"),
                         ({"max_kernels": -1}, "0 or more")):
        with pytest.raises(xyntra.UsageError, match=why):
            xyntra.torch.compile(MLP(), **options)
    with pytest.raises(Exception, match="is it 'threads'"):
        torch.compile(MLP(), backend=xyntra.torch.backend, options={"thread": 1})(torch.randn(1, 16))


def test_explanations():
    with torch.no_grad():
        explanation = xyntra.torch.explain(MLP(), torch.randn(3, 16))
    assert explanation.kernels >= 1 and not explanation.fallbacks
    assert "MatMul" in str(explanation) and "<table>" in explanation._repr_html_()
    data = explanation.to_dict()
    assert data["kernels"] == explanation.kernels and data["graphs"][0]["kind"] == "inference"
    assert "torch runs the backward pass" in str(xyntra.torch.explain(MLP(), torch.randn(3, 16)))


def test_explanations_do_not_use_up_recompilations():
    for _ in range(12):
        with torch.no_grad():
            assert xyntra.torch.explain(in_the_middle, torch.randn(3, 4)).kernels


def test_strides_of_dynamic_shapes(compiled):
    model = compiled(Block().eval(), True)
    with torch.no_grad():
        for size in (7, 10):
            model.agrees(torch.randn(2, 8, size, size + 4).to(memory_format=torch.channels_last))
    assert len(model.reports) == 1


def test_elements_at_strides(compiled, partly):
    """as_strided looks at memory, whatever lies between its tensor and that: views with gaps, transposed results, inputs."""
    def run(x):
        y = torch.relu(x)
        inner, turned = y[:, 1:], torch.exp(x.t())
        return inner.as_strided((2, 3), (1, 2), 1) + 1, inner * 2, turned.as_strided((3, 4), (2, 1)).sin(), x.as_strided((2, 3, 4), (4, 2, 1)) - 1, x[:, 2:].as_strided((2, 2), (6, 1)) * 3

    model = compiled(run)
    with torch.no_grad():
        model.agrees(torch.randn(4, 6))
        given = torch.randn(8, 12)[::2, ::2]  # no copy of which has its gaps
        partly_torch = partly(run)
        torch.testing.assert_close(partly_torch(given), run(given))


class Recurrent(nn.Module):
    def __init__(self, **options):
        super().__init__()
        self.before, self.layers = nn.Linear(6, 8), nn.LSTM(8, 5, 2, batch_first=True, bidirectional=True, **options)

    def forward(self, x):
        y, (hidden, cell) = self.layers(self.before(x))
        return y.relu(), hidden, cell


@pytest.mark.parametrize("bias", [True, False])
def test_recurrent_layers_that_dynamo_is_let_see(compiled, bias):
    with torch._dynamo.config.patch(allow_rnn=True), torch.no_grad():
        model = compiled(Recurrent(bias=bias).eval())
        model.agrees(torch.randn(3, 7, 6))
    assert len(model.reports) == 1


@pytest.mark.parametrize("call", [lambda x: torch.prod(x, 1, dtype=torch.bool, keepdim=True), lambda x: torch.sum(x, 0, dtype=torch.bool)])
def test_sums_and_products_as_bools(compiled, call):
    with torch.no_grad():
        compiled(call).agrees(torch.tensor([[0, 0.5, 0], [1, 2, 0]]))


class TwiceInTheMiddle(nn.Module):
    """torch runs something between products whose weights are transposed, tied and normalised."""

    def __init__(self):
        super().__init__()
        self.tied = nn.Linear(16, 16)
        self.last = nn.Linear(16, 16)

    def forward(self, x):
        y = twice(self.tied(x).relu())
        y = twice(self.tied(y).tanh())
        return nn.functional.linear(y, self.last.weight / self.last.weight.norm(), self.last.bias)


def test_weights_are_constants_behind_what_torch_runs(partly):
    model = partly(TwiceInTheMiddle().eval())
    with torch.no_grad():
        model.agrees(torch.randn(4, 16))
    segments = model.reports[0].segments
    assert [segment.frozen for segment in segments] == [2, 2, 2]
    assert [len(segment.plan["groups"]) for segment in segments] == [1, 1, 1]  # no weight is transposed or divided when it runs


def test_views_of_an_input_for_several_calls(partly):
    def run(x):
        rows = x.t().reshape(2, -1)
        return twice(rows.exp()) + rows, rows[0] * 2, x.t()

    model = partly(run)
    with torch.no_grad():
        model.agrees(torch.randn(4, 6))
    assert model.fallbacks == ["xyntra_test.twice.default"]
