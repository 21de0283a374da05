"""What the tests of the torch.compile backend share."""

import warnings

import pytest
import torch
import xyntra.torch
from xyntra.torch.capture import Compiler
from xyntra.torch.options import Options


class Compiled:
    """A model behind the backend, with what became of its graphs."""

    def __init__(self, model, dynamic=None, **options):
        self.reports, self.model = [], model
        torch._dynamo.reset()
        self.run = torch.compile(model, backend=Compiler(Options.of(options), self.reports, lambda report: None), dynamic=dynamic)

    def __call__(self, *args, **kwargs):
        return self.run(*args, **kwargs)

    @property
    def fallbacks(self):
        return [one.target for report in self.reports for one in report.fallbacks]

    def agrees(self, *args, rtol=1e-4, atol=1e-5, **kwargs):
        """One call of each, on the same inputs; results are the same in values, dtypes, shapes and strides."""
        copies = torch.utils._pytree.tree_map(lambda one: one.clone() if isinstance(one, torch.Tensor) else one, args)
        torch.manual_seed(3)
        expected = self.model(*args, **kwargs)
        torch.manual_seed(3)
        given = self.run(*copies, **kwargs)
        torch.testing.assert_close(given, expected, rtol=rtol, atol=atol, check_stride=True, equal_nan=True)
        torch.testing.assert_close(copies, args)  # changed in the same way
        return given


@pytest.fixture(autouse=True)
def fresh():
    torch.manual_seed(0)
    torch._dynamo.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("error", xyntra.torch.FallbackWarning)
        yield


@pytest.fixture
def compiled():
    """compiled(model, **options): whatever torch would have to run is an error."""
    return lambda model, dynamic=None, **options: Compiled(model, dynamic, **{"no_fallback": True, **options})


@pytest.fixture
def partly():
    """partly(model, **options): torch may run some of it."""
    return lambda model, dynamic=None, **options: Compiled(model, dynamic, **options)
