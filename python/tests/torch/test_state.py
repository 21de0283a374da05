"""What changes: inputs, buffers, parameters."""

import pytest
import torch
from torch import nn
from xyntra.torch.capture import Compiler
from xyntra.torch.options import Options


def test_inputs_are_changed_in_place(compiled):
    def run(x, y):
        x.add_(1)
        y[:, 0] = x.sum(1)
        return x * y

    with torch.no_grad():
        model = compiled(run)
        for _ in range(2):
            model.agrees(torch.randn(3, 4), torch.randn(3, 4))


def test_running_statistics(compiled):
    eager, model = nn.BatchNorm1d(4), compiled(nn.BatchNorm1d(4))
    with torch.no_grad():
        for _ in range(3):
            x = torch.randn(8, 4)
            torch.testing.assert_close(model(x), eager(x), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(model.model.state_dict(), eager.state_dict(), rtol=1e-4, atol=1e-5)


class Cached(nn.Module):
    """A step of decoding: keys are written to a buffer at a position."""

    def __init__(self):
        super().__init__()
        self.register_buffer("keys", torch.zeros(1, 8, 4))
        self.project = nn.Linear(4, 4)

    def forward(self, token, position):
        self.keys.index_copy_(1, position, self.project(token))
        scores = (token @ self.keys.transpose(1, 2)).masked_fill(torch.arange(8, device=token.device) > position, float("-inf"))
        return scores.softmax(-1) @ self.keys


def test_kv_cache_in_a_buffer(partly):
    eager, model = Cached(), partly(Cached())
    model.model.load_state_dict(eager.state_dict())
    with torch.no_grad():
        for step in range(5):
            token, position = torch.randn(1, 1, 4), torch.tensor([step])
            torch.testing.assert_close(model(token, position), eager(token, position), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(model.model.keys, eager.keys, rtol=1e-4, atol=1e-5)


def changes():
    def fill(model):
        with torch.no_grad():
            model.weight.mul_(3.0)

    def load(model):
        model.load_state_dict({"weight": torch.full((4, 4), 0.5), "bias": torch.ones(4)})

    def replace(model):
        model.weight = nn.Parameter(torch.eye(4))

    def swap_data(model):
        model.weight.data = torch.eye(4) * 2

    def through_data(model):
        model.weight.data.mul_(2.0)

    def through_numpy(model):
        model.weight.detach().numpy()[...] = 0.25

    return [fill, load, replace, swap_data, through_data, through_numpy]


@pytest.mark.parametrize("change", changes(), ids=lambda one: one.__name__)
def test_parameters_that_change_after_compiling(compiled, change):
    module = nn.Linear(4, 4)
    model = compiled(module)
    x = torch.randn(2, 4)
    with torch.no_grad():
        for _ in range(5):
            model.agrees(x)
            change(module)
            model.agrees(x)


@pytest.mark.parametrize("change", [lambda one: one.mul_(2), lambda one: setattr(one, "data", one * 2)], ids=["in place", "other memory"])
def test_parameters_that_change_between_compiling_and_the_first_call(change):
    """The compiler begins with those that it sees, and the first call looks at them again."""
    model, reports = nn.Sequential(nn.Linear(4, 4), nn.ReLU()), []

    def backend(graph, examples):
        made = Compiler(Options(), reports, lambda report: None)(graph, examples)
        with torch.no_grad():
            for one in model.parameters():
                change(one)
        return made

    x = torch.randn(3, 4)
    with torch.no_grad():
        made = torch.compile(model, backend=backend)(x)
        torch.testing.assert_close(made, model(x), rtol=1e-4, atol=1e-5)
    [segment] = reports[0].segments
    assert segment.frozen == 2 and segment.rebinds == 0


def test_often_changed_parameters_become_inputs(compiled):
    module = nn.Linear(4, 4)
    model = compiled(module)
    with torch.no_grad():
        for _ in range(6):
            module.weight.add_(0.5)
            model.agrees(torch.randn(2, 4))
    [segment] = model.reports[0].segments
    assert segment.rebinds == 2 and segment.frozen == 1  # the bias stays a constant


def test_parameters_may_stay_inputs(compiled):
    module = nn.Linear(4, 4)
    model = compiled(module, freeze=False)
    with torch.no_grad():
        model.agrees(torch.randn(2, 4))
        module.weight.data[1, 1] = 9.0  # a write that nothing counts
        model.agrees(torch.randn(2, 4))
    assert model.reports[0].segments[0].frozen == 0


def test_parameters_of_inference_mode(compiled):
    with torch.inference_mode():
        module = nn.Linear(4, 4)
        model = compiled(module)
        model.agrees(torch.randn(2, 4))
        module.weight.mul_(2)
        model.agrees(torch.randn(2, 4))


class Registers(nn.Module):
    """Tokens before those of an image, of which there may be none; what is computed of none."""

    def __init__(self):
        super().__init__()
        self.first, self.registers, self.norm = nn.Parameter(torch.randn(1, 1, 8)), nn.Parameter(torch.empty(1, 0, 8)), nn.LayerNorm(8)
        self.patches = nn.Conv2d(3, 8, 4, 4)

    def forward(self, x):
        registers = self.registers.expand(x.shape[0], -1, -1)
        tokens = torch.cat([self.first.expand(x.shape[0], -1, -1), registers, self.patches(x).flatten(2).transpose(1, 2)], 1)
        return self.norm(tokens), self.norm(registers), registers.sum(1)


def test_parameters_without_elements(compiled):
    """torch has no address for them."""
    with torch.no_grad():
        made = compiled(Registers().eval())
        for batch in (1, 3):
            made.agrees(torch.randn(batch, 3, 16, 16))


def test_tied_weights(compiled):
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(10, 8)
            self.head = nn.Linear(8, 10, bias=False)
            self.head.weight = self.table.weight

        def forward(self, ids):
            return self.head(self.table(ids))

    with torch.no_grad():
        compiled(Tied()).agrees(torch.tensor([[1, 2, 9]]))
