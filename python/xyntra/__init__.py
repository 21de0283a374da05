"""Runs models that Xyntra compiles; in the manner of onnxruntime.

    session = xyntra.Session("model.onnx", backend="cpu")
    [y] = session.run(None, {"x": array})
    xyntra.compile("model.onnx", "model.xyn", cpu=["avx2", "avx512"])
    session = xyntra.Session("model.xyn")  # without the compiler

    session = xyntra.Session("decoder.onnx", donate="*")
    cache = xyntra.Cache(np.empty((1, 12, 1024, 64), np.float32), axis=2)
    session.run(None, {"input_ids": ids, "past": cache})  # the result that extends `past` is written in the cache
"""

from __future__ import annotations

import contextlib
import dataclasses
import operator
import os
import threading
from collections.abc import Mapping, Sequence

import numpy as np

from xyntra import _native, dtypes, strings
from xyntra.errors import BadModelError, DeviceError, Error, InternalError, LimitError, UnsupportedError, UsageError

__all__ = ["BadModelError", "Cache", "DeviceError", "Error", "InternalError", "LimitError", "Session", "UnsupportedError", "UsageError",
           "Value", "__version__", "compile", "explain"]

__version__ = _native.version()

_MOST = 2**63 - 1  # of sizes and counts


@dataclasses.dataclass(frozen=True)
class Value:
    """A tensor that a model takes or gives; sizes that are not fixed are named. `shape` is None where the rank is open."""

    name: str
    type: str
    shape: tuple[int | str, ...] | None


class Cache:
    """Memory that is donated to a run, such as a KV cache: an input, and room for the result that appends rows to it along `axis`.

    `length` counts the rows in use; a run moves it on. Where there is no room for a result, it has memory of its own, just as
    large, and the cache takes that over; `Session.counts()["copies"]` tells how often. With `unchanged` the caller promises to write
    nothing to the memory between runs of one session: a device then keeps what it has of it. Runs of several threads that one
    cache is given to follow one another, each with the rows of those before it.
    """

    def __init__(self, memory: np.ndarray, axis: int, length: int = 0, unchanged: bool = False) -> None:
        if not isinstance(memory, np.ndarray):
            raise UsageError(f"the memory of a cache is an array of NumPy's, not {type(memory).__name__}")
        axis, length = _whole("axis", axis), _whole("length", length)
        if axis >= memory.ndim or length > memory.shape[axis]:
            raise UsageError(f"a cache of shape {memory.shape} has no {length} rows along axis {axis}")
        self.memory, self.axis, self.length, self.unchanged = memory, axis, length, bool(unchanged)
        self._given_to: object = None  # the session that last had it
        self._lock = threading.Lock()  # of the run that has it

    @property
    def capacity(self) -> int:
        return self.memory.shape[self.axis]

    @property
    def array(self) -> np.ndarray:
        """The rows in use, in the memory of the cache."""
        return self.memory[(slice(None),) * self.axis + (slice(self.length),)]


def _whole(name: str, value: object, most: int = _MOST) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise UsageError(f"{name} is a whole number, not {type(value).__name__}") from None
    if not 0 <= number <= most:
        raise UsageError(f"{name} is {number}; it must be from 0 to {most}")
    return number


def _shown(name: str) -> str:
    """A model's name, with what could change how a terminal shows it escaped."""
    return name if name.isprintable() else repr(name)[1:-1]


def _text(what: str, value: object) -> str:
    if not isinstance(value, str):
        raise UsageError(f"{what} is a string, not {type(value).__name__}")
    if "\0" in value:
        raise UsageError(f"{what} has a NUL character in it: {value!r}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise UsageError(f"{what} is no Unicode text: {value!r}") from None
    return value


def _texts(what: str, values: object) -> list[str]:
    if isinstance(values, str):
        values = [values]
    if not isinstance(values, (Sequence, set, frozenset)):
        raise UsageError(f"{what} are strings, not {type(values).__name__}")
    return [_text(f"one of {what}", value) for value in values]


def _path(path: object) -> bytes:
    try:
        made = os.fsencode(path)
    except (TypeError, UnicodeEncodeError) as problem:
        raise UsageError(f"this is no path: {problem}") from None
    if b"\0" in made:
        raise UsageError(f"the path has a NUL character in it: {path!r}")
    return made


def _sizes(dims: object, ranges: bool = False) -> list[str]:
    """ "seq=128", or "seq=1..512" where the size is a pair and ranges are allowed."""
    if dims is None:
        return []
    if not isinstance(dims, Mapping):
        raise UsageError(f"dims are sizes by name, not {type(dims).__name__}")
    texts = []
    for name, size in dims.items():
        name = _text("the name of a size", name)
        pair = ranges and isinstance(size, (tuple, list)) and len(size) == 2
        numbers = [_whole(f"the size {name!r}", one) for one in (size if pair else [size])]
        texts.append(f"{name}={'..'.join(map(str, numbers))}")
    return texts


def _options(threads: object, max_memory: object, precision: object, donate: object) -> tuple[int, int, str, list[str]]:
    return (_whole("threads", threads, 2**31 - 1), _whole("max_memory", max_memory), _text("precision", precision),
            _texts("the inputs to donate", donate))


def compile(path: str | os.PathLike, output: str | os.PathLike | None = None, *, cpu: str | Sequence[str] = "native", threads: int = 0,
            dims: Mapping[str, int | tuple[int, int]] | None = None, max_memory: int = 0, precision: str = "f32",
            donate: str | Sequence[str] = ()) -> str:
    """Writes a model as an artifact and returns its path: `output`, or the model's with the ending .xyn.

    `cpu` names CPUs to make code for (native, generic, avx2, avx512, avx512_vnni, avx512_bf16, amx, neon, neon_bf16); the best that a machine has is taken
    when it is loaded. A size of `dims` is a number to count costs with, or the lowest and the highest that it may be run at.
    `donate` names inputs that a Cache may be given for.
    """
    threads, max_memory, precision, donated = _options(threads, max_memory, precision, donate)
    source = _path(path)
    target = os.path.splitext(source)[0] + b".xyn" if output is None else _path(output)
    _native.compile(source, target, _texts("the CPUs", cpu), threads, _sizes(dims, ranges=True), max_memory, precision, donated)
    return os.fsdecode(target)


def explain(path: str | os.PathLike, **options: object) -> str:
    """How a model is cut into kernels; options are those of a Session."""
    return Session(path, **options).explain()


class Session:
    """A model, compiled. Several threads may run it at a time."""

    def __init__(self, path: str | os.PathLike | bytes, *, backend: str = "cpu", threads: int = 0, dims: Mapping[str, int] | None = None,
                 max_memory: int = 0, precision: str = "f32", donate: str | Sequence[str] = ()) -> None:
        """`path` is that of a model or an artifact; bytes are the content of one. `threads` 0 is as many as this process may use; `dims` are sizes that costs are counted with, any size can be run.
        `precision` "bf16" rounds factors of float32 matmuls, sums stay float32; "bf16x3" makes float32 matmuls with weights
        from a bf16x3 split of each factor, where the target has tiles; "winograd" does 3x3 convolutions with fewer multiplications. `donate` names inputs that a Cache may be given
        for, "*" all that a result extends; an artifact knows its own."""
        threads, max_memory, precision, donated = _options(threads, max_memory, precision, donate)
        content = isinstance(path, (bytes, bytearray, memoryview))
        self._native = _native.Session(bytes(path) if content else _path(path), content, _text("backend", backend), threads, _sizes(dims), max_memory,
                                       precision, donated)
        self._inputs, self._outputs = self._values(self._native.inputs()), self._values(self._native.outputs())
        self._numbers = {name: number for name, number, _ in self._native.inputs()}  # of dtypes

    @staticmethod
    def _values(rows: list) -> list[Value]:
        return [Value(name, f"tensor({dtypes.NAMES[dtype]})", None if sizes is None else tuple(sizes)) for name, dtype, sizes in rows]

    def explain(self) -> str:
        """How the model is cut into kernels."""
        return self._native.explain()

    def get_inputs(self) -> list[Value]:
        return list(self._inputs)

    def get_outputs(self) -> list[Value]:
        return list(self._outputs)

    def get_extensions(self) -> list[tuple[str, str, int]]:
        """Inputs that a Cache may be given for, the results that extend them, and the axes along which they do."""
        return self._native.extensions()

    def counts(self) -> dict[str, int]:
        """What the model has done so far: compiles, runs, bindings of other sizes, copies of inputs that could not be extended in place."""
        return self._native.counts()

    def run(self, output_names: Sequence[str] | None, feed: Mapping[str, object]) -> list[np.ndarray]:
        """The named outputs, or all of them. Inputs are arrays of NumPy's or of others that speak DLPack, plain numbers, strings, or caches."""
        if not isinstance(feed, Mapping):
            raise UsageError(f"inputs are arrays by name, not {type(feed).__name__}")
        feed = {_text("the name of an input", name): value for name, value in feed.items()}
        wanted = self._wanted(output_names)
        caches = {name: value for name, value in feed.items() if isinstance(value, Cache)}
        inputs = [self._input(name, value) for name, value in feed.items() if name not in caches]
        if not caches:
            made = self._run(inputs, caches)
        else:
            with contextlib.ExitStack() as held:
                # In one order everywhere, so that runs that share several caches do not wait for one another forever.
                for cache in sorted({id(cache): cache for cache in caches.values()}.values(), key=id):
                    held.enter_context(cache._lock)
                made = self._run(inputs, caches)
        return made if wanted is None else [made[index] for index in wanted]

    def _run(self, inputs: list, caches: dict[str, Cache]) -> list[np.ndarray]:
        grown = {name: (output, axis) for name, output, axis in (self._native.extensions() if caches else ()) if name in caches}
        for name, (_, axis) in grown.items():
            if caches[name].axis != axis:
                raise UsageError(f"input {name!r} grows along axis {axis}, its cache along axis {caches[name].axis}")
        for name, cache in caches.items():
            if cache.memory.dtype.byteorder not in "=|":
                raise UsageError(f"input {name!r} is donated, but has another byte order than this machine")
        donated = [(name, *dtypes.bits_of(dtypes.plain_array(cache.memory, name)), cache.length, cache.unchanged and cache._given_to is self)
                   for name, cache in caches.items()]
        results, lengths = self._native.run(inputs, donated)
        made = [dtypes.array_of(bits, number, value.name) for (bits, number), value in zip(results, self._outputs)]
        for (name, cache), length in zip(caches.items(), lengths):
            index = next(index for index, value in enumerate(self._outputs) if value.name == grown[name][0])
            if length is None:  # there was no room
                cache.memory, length = made[index], made[index].shape[cache.axis]
            cache.length, cache._given_to = length, self
            made[index] = cache.array
        return made

    def _wanted(self, output_names: object) -> list[int] | None:
        """The places of the named outputs."""
        if output_names is None:
            return None
        places = {value.name: place for place, value in enumerate(self._outputs)}
        if isinstance(output_names, str) or not isinstance(output_names, Sequence):
            raise UsageError(f"the names of outputs are a list or None, not {type(output_names).__name__}")
        for name in output_names:
            if not isinstance(name, str) or name not in places:
                raise UsageError(f"the model has no output {name!r}; it has {', '.join(map(_shown, places))}")
        return [places[name] for name in output_names]

    def _input(self, name: str, value: object) -> tuple[str, object, int]:
        if self._numbers.get(name) == strings.NUMBER:
            return name, strings.packed(value, name), strings.NUMBER
        if isinstance(value, np.ndarray):
            return (name, *dtypes.bits_of(dtypes.plain_array(value, name)))
        if hasattr(value, "__dlpack__") and not isinstance(value, np.generic):
            return name, value.detach() if hasattr(value, "detach") else value, 0
        return (name, *dtypes.bits_of(dtypes.array_of_numbers(value, self._numbers.get(name), name)))
