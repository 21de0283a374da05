"""What torch.compile(..., backend="xyntra", options={...}) takes."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping

from xyntra.errors import UsageError


@dataclasses.dataclass(frozen=True)
class Options:
    """How graphs are compiled, and what must hold of them."""

    threads: int | None = None  # None: as many as torch.get_num_threads() says when it runs
    precision: str | None = None  # of Session; None: "f32", and on a GPU "tf32" where torch.set_float32_matmul_precision allows it
    max_memory: int = 0  # of Session
    freeze: bool = True  # parameters that no graph changes are constants while no gradients are needed: packed once
    no_fallback: bool = False  # a node that torch would have to run is an error
    max_kernels: int | None = None  # more kernels than that in one graph are an error

    @staticmethod
    def of(given: Mapping[str, object] | None) -> Options:
        """The options by name; a wrong name or kind is an error that says which."""
        known = {field.name: field for field in dataclasses.fields(Options)}
        for name, value in (given or {}).items():
            if name not in known:
                close = difflib.get_close_matches(str(name), known, 1)
                raise UsageError(f"there is no option {name!r}" + (f"; is it {close[0]!r}?" if close else f"; there are {', '.join(known)}"))
            kinds = _KINDS[name]
            if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
                raise UsageError(f"the option {name!r} is {' or '.join(kind.__name__ for kind in kinds)}, not {type(value).__name__}")
            if isinstance(value, int) and value < 0:
                raise UsageError(f"the option {name!r} is {value}; it must be 0 or more")
        return Options(**dict(given or {}))  # type: ignore[arg-type]


_KINDS: dict[str, tuple[type, ...]] = {"threads": (int, type(None)), "precision": (str, type(None)), "max_memory": (int,), "freeze": (bool,), "no_fallback": (bool,),
                                       "max_kernels": (int, type(None))}
