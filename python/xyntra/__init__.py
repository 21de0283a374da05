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

import dataclasses
import os
from collections.abc import Mapping, Sequence

import numpy as np

from xyntra import _native
from xyntra.errors import BadModelError, DeviceError, Error, InternalError, LimitError, UnsupportedError, UsageError

__all__ = ["BadModelError", "Cache", "DeviceError", "Error", "InternalError", "LimitError", "Session", "UnsupportedError", "UsageError",
           "Value", "__version__", "compile", "explain"]

__version__ = _native.version()

# ONNX's names of its dtypes, as onnxruntime spells them, by number.
_TYPES = {1: "float", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 9: "bool", 10: "float16", 11: "double",
          12: "uint32", 13: "uint64", 16: "bfloat16", 17: "float8e4m3fn", 18: "float8e4m3fnuz", 19: "float8e5m2", 20: "float8e5m2fnuz",
          21: "uint4", 22: "int4", 23: "float4e2m1", 24: "float8e8m0", 25: "uint2", 26: "int2"}
_NUMPY = {"float": np.float32, "double": np.float64}


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
    nothing to the memory between runs of one session: a device then keeps what it has of it.
    """

    def __init__(self, memory: np.ndarray, axis: int, length: int = 0, unchanged: bool = False) -> None:
        if not 0 <= axis < memory.ndim or not 0 <= length <= memory.shape[axis]:
            raise UsageError(f"a cache of shape {memory.shape} has no {length} rows along axis {axis}")
        self.memory, self.axis, self.length, self.unchanged = memory, axis, length, unchanged
        self._given_to: object = None  # the session that last had it

    @property
    def capacity(self) -> int:
        return self.memory.shape[self.axis]

    @property
    def array(self) -> np.ndarray:
        """The rows in use, in the memory of the cache."""
        return self.memory[(slice(None),) * self.axis + (slice(self.length),)]


def _names(donate: str | Sequence[str]) -> list[str]:
    return [donate] if isinstance(donate, str) else list(donate)


def _values(rows: list) -> list[Value]:
    return [Value(name, f"tensor({_TYPES[dtype]})", None if sizes is None else tuple(sizes)) for name, dtype, sizes in rows]


def compile(path: str | os.PathLike, output: str | os.PathLike | None = None, *, cpu: str | Sequence[str] = "native", threads: int = 0,
            dims: Mapping[str, int | tuple[int, int]] | None = None, max_memory: int = 0, precision: str = "f32",
            donate: str | Sequence[str] = ()) -> str:
    """Writes a model as an artifact and returns its path: `output`, or the model's with the ending .xyn.

    `cpu` names CPUs to make code for (native, generic, avx2, avx512, avx512_vnni, avx512_bf16, amx, neon, neon_bf16); the best that a machine has is taken
    when it is loaded. A size of `dims` is a number to count costs with, or the lowest and the highest that it may be run at.
    `donate` names inputs that a Cache may be given for.
    """
    path = os.fspath(path)
    output = os.path.splitext(path)[0] + ".xyn" if output is None else os.fspath(output)
    texts = [f"{name}={size}" if isinstance(size, int) else f"{name}={size[0]}..{size[1]}" for name, size in (dims or {}).items()]
    _native.compile(path, output, [cpu] if isinstance(cpu, str) else list(cpu), threads, texts, max_memory, precision, _names(donate))
    return output


def explain(path: str | os.PathLike, **options: object) -> str:
    """How a model is cut into kernels; options are those of a Session."""
    return Session(path, **options).explain()


class Session:
    """A model, compiled. Several threads may run it at a time."""

    def __init__(self, path: str | os.PathLike, *, backend: str = "cpu", threads: int = 0, dims: Mapping[str, int] | None = None,
                 max_memory: int = 0, precision: str = "f32", donate: str | Sequence[str] = ()) -> None:
        """`threads` 0 is as many as this process may use; `dims` are sizes that costs are counted with, any size can be run.
        `precision` "bf16" rounds factors of float32 matmuls, sums stay float32; "bf16x3" makes float32 matmuls with weights
        from a bf16x3 split of each factor, where the target has tiles; "winograd" does 3x3 convolutions with fewer multiplications. `donate` names inputs that a Cache may be given
        for, "*" all that a result extends; an artifact knows its own."""
        texts = [f"{name}={size}" for name, size in (dims or {}).items()]
        self._native = _native.Session(os.fspath(path), backend, threads, texts, max_memory, precision, _names(donate))
        self._inputs, self._outputs = _values(self._native.inputs()), _values(self._native.outputs())

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
        """The named outputs, or all of them. Inputs are arrays of NumPy's or of others that speak DLPack, plain numbers, or caches."""
        caches = {name: value for name, value in feed.items() if isinstance(value, Cache)}
        grown = {name: (output, axis) for name, output, axis in self._native.extensions() if name in caches}
        for name, (_, axis) in grown.items():
            if caches[name].axis != axis:
                raise UsageError(f"input {name!r} grows along axis {axis}, its cache along axis {caches[name].axis}")
        made, lengths = self._native.run({name: self._array(name, value) for name, value in feed.items() if name not in caches},
                                         [(name, cache.memory, cache.length, cache.unchanged and cache._given_to is self) for name, cache in caches.items()])
        for (name, cache), length in zip(caches.items(), lengths):
            index = next(index for index, value in enumerate(self._outputs) if value.name == grown[name][0])
            if length is None:  # there was no room
                cache.memory, length = made[index], made[index].shape[cache.axis]
            cache.length, cache._given_to = length, self
            made[index] = cache.array
        if output_names is None:
            return made
        by_name = {value.name: array for value, array in zip(self._outputs, made)}
        if unknown := [name for name in output_names if name not in by_name]:
            raise UsageError(f"the model has no output {unknown[0]!r}; it has {', '.join(by_name)}")
        return [by_name[name] for name in output_names]

    def _array(self, name: str, value: object) -> object:
        if isinstance(value, np.ndarray) and value.dtype.byteorder in "=|":
            return value
        if hasattr(value, "__dlpack__") and not isinstance(value, np.ndarray):
            return value.detach() if hasattr(value, "detach") else value
        kind = next((known.type[7:-1] for known in self._inputs if known.name == name), None)
        try:
            return np.asarray(value, _NUMPY.get(kind, kind))
        except (TypeError, ValueError) as problem:
            raise UsageError(f"input {name!r}: {problem}") from problem
