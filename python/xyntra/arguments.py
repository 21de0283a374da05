"""What a caller hands in, checked before it reaches the library: every wrong one is a UsageError that says what it is."""

from __future__ import annotations

import operator
import os
from collections.abc import Mapping, Sequence
from typing import Any

from xyntra import dtypes
from xyntra.errors import UsageError

_MOST = 2**63 - 1  # of sizes and counts


def whole(name: str, value: object, most: int = _MOST) -> int:
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise UsageError(f"{name} is a whole number, not {type(value).__name__}") from None
    if not 0 <= number <= most:
        raise UsageError(f"{name} is {number}; it must be from 0 to {most}")
    return number


def shown(name: str) -> str:
    """A model's name, with what could change how a terminal shows it escaped."""
    return name if name.isprintable() else repr(name)[1:-1]


def text(what: str, value: object) -> str:
    if not isinstance(value, str):
        raise UsageError(f"{what} is a string, not {type(value).__name__}")
    if "\0" in value:
        raise UsageError(f"{what} has a NUL character in it: {value!r}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise UsageError(f"{what} is no Unicode text: {value!r}") from None
    return value


def texts(what: str, values: object) -> list[str]:
    if isinstance(values, str):
        values = [values]
    if not isinstance(values, (Sequence, set, frozenset)):
        raise UsageError(f"{what} are strings, not {type(values).__name__}")
    return [text(f"one of {what}", value) for value in values]


def path(given: object) -> bytes:
    try:
        made = os.fsencode(given)  # type: ignore[arg-type]
    except (TypeError, UnicodeEncodeError) as problem:
        raise UsageError(f"this is no path: {problem}") from None
    if b"\0" in made:
        raise UsageError(f"the path has a NUL character in it: {given!r}")
    return made


def sizes(dims: object, ranges: bool = False) -> list[str]:
    """ "seq=128", or "seq=1..512" where the size is a pair and ranges are allowed."""
    if dims is None:
        return []
    if not isinstance(dims, Mapping):
        raise UsageError(f"dims are sizes by name, not {type(dims).__name__}")
    made = []
    for name, size in dims.items():
        name = text("the name of a size", name)
        pair = ranges and isinstance(size, (tuple, list)) and len(size) == 2
        numbers = [whole(f"the size {name!r}", one) for one in (size if pair else [size])]
        made.append(f"{name}={'..'.join(map(str, numbers))}")
    return made


def inputs(known: object) -> list[str]:
    """ "x=f32[1, 128]" of an array, of sizes or of a text that says so; "rate=16000" of a value."""
    if known is None:
        return []
    if not isinstance(known, Mapping):
        raise UsageError(f"inputs are sizes, arrays or values by name, not {type(known).__name__}")
    return [f"{text('the name of an input', name)}={_of_input(name, value)}" for name, value in known.items()]


def _of_input(name: str, value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, str):
        return text(f"the value of input {name!r}", value)
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        # torch's dtypes say where they are from; the library has names of its own for NumPy's.
        array: Any = value
        dtype = dtypes.SHORT.get(str(array.dtype).removeprefix("torch."))
        if dtype is None:
            raise UsageError(f"input {name!r} has the dtype {array.dtype}, which no model takes")
        return f"{dtype}{[int(size) for size in array.shape]}"
    if isinstance(value, Sequence):
        return f"f32{[whole(f'a size of input {name!r}', size) for size in value]}"
    raise UsageError(f"input {name!r} is given as {type(value).__name__}; give an array, its sizes, a text such as 'i64[1, 128]', or a value")
