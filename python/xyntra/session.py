"""Sessions: models ready to run."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import os
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from xyntra import _native, arguments, dtypes, strings
from xyntra.benchmark import Timings, time_runs
from xyntra.binding import IOBinding
from xyntra.errors import UsageError
from xyntra.explanation import Explanation, explanation


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
        axis, length = arguments.whole("axis", axis), arguments.whole("length", length)
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


def common_options(threads: object, max_memory: object, precision: object, donate: object) -> tuple[int, int, str, list[str]]:
    return (arguments.whole("threads", threads, 2**31 - 1), arguments.whole("max_memory", max_memory), arguments.text("precision", precision),
            arguments.texts("the inputs to donate", donate))


class Session:
    """A model, compiled. Several threads may run it at a time."""

    def __init__(self, path: str | os.PathLike | bytes, *, backend: str = "cpu", threads: int = 0, dims: Mapping[str, int] | None = None,
                 max_memory: int = 0, precision: str = "f32", donate: str | Sequence[str] = (), inputs: Mapping[str, object] | None = None) -> None:
        """`path` is that of a model or an artifact; bytes are the content of one. `threads` 0 is as many as this process may use; `dims` are sizes that costs are counted with, any size can be run.
        `precision` "bf16" or "f16" rounds factors of float32 matmuls, sums stay float32; "tf32" does so for matrix units of NVIDIA GPUs alone; "bf16x3" makes float32 matmuls with weights
        from a bf16x3 split of each factor, where the target has tiles; "winograd" does 3x3 convolutions with fewer multiplications. `donate` names inputs that a Cache may be given
        for, "*" all that a result extends; an artifact knows its own. `inputs` says what a TorchScript file does not: of a tensor an example,
        its sizes, or a text such as "i64[1, 128]", of any other parameter its value."""
        threads, max_memory, precision, donated = common_options(threads, max_memory, precision, donate)
        content = isinstance(path, (bytes, bytearray, memoryview))
        self._native = _native.Session(bytes(path) if content else arguments.path(path), content, arguments.text("backend", backend), threads, arguments.sizes(dims), max_memory,
                                       precision, donated, arguments.inputs(inputs))
        self._inputs, self._outputs = self._values(self._native.inputs()), self._values(self._native.outputs())
        self._numbers = {name: number for name, number, _ in self._native.inputs()}  # of dtypes

    @staticmethod
    def _values(rows: list) -> list[Value]:
        return [Value(name, f"tensor({dtypes.NAMES[dtype]})", None if sizes is None else tuple(sizes)) for name, dtype, sizes in rows]

    def explain(self) -> Explanation:
        """How the model is cut into kernels: text, which a notebook shows as a table with the graph of kernels."""
        return explanation(self._native.explain(), self._native.explain_json)

    def bench(self, feed: Mapping[str, object], *, runs: int = 100, warm_up: int = 10) -> Timings:
        """Latencies of `runs` runs on these inputs, after `warm_up` that are not counted."""
        runs, warm_up = arguments.whole("runs", runs), arguments.whole("warm_up", warm_up)
        if runs == 0:
            raise UsageError("runs is 0; it must be 1 or more")
        return time_runs(functools.partial(self.run, None, feed), runs, warm_up)

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
        feed = {arguments.text("the name of an input", name): value for name, value in feed.items()}
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

    async def run_async(self, output_names: Sequence[str] | None, feed: Mapping[str, object]) -> list[np.ndarray]:
        """The same in a thread of asyncio's, so that the loop goes on. A run that is cancelled ends by itself; its results are dropped."""
        return await asyncio.get_running_loop().run_in_executor(None, self.run, output_names, feed)

    def io_binding(self) -> IOBinding:
        """For inputs and outputs that stay where they are from run to run."""
        return IOBinding(self)

    def run_with_iobinding(self, binding: IOBinding, stream: int = 0) -> None:
        """Runs on what is bound: outputs are written to the memory that they are bound to. Where something bound lies on a GPU the run is in order with
        `stream`, a CUDA stream's number such as `torch.cuda.current_stream().cuda_stream`, and may still be on when this returns."""
        if not isinstance(binding, IOBinding) or binding._session is not self:
            raise UsageError("the binding is none of this session: io_binding() makes one")
        if binding._on_device:
            self._run_on_device(binding, arguments.whole("the stream", stream))
            return
        inputs = [self._input(name, value) for name, value in binding._inputs.items()]
        memory = {name: array for name, array in binding._outputs.items() if array is not None}
        if len(memory) == len(binding._outputs) and memory:
            self._native.run_into_arrays(inputs, [(name, *dtypes.bits_of(array)) for name, array in memory.items()])
            binding._results = dict(memory)
            return
        made = dict(zip((value.name for value in self._outputs), self._run(inputs, {})))
        for name, array in memory.items():
            if made[name].shape != array.shape or made[name].dtype != array.dtype:
                raise UsageError(f"output {name!r} is {made[name].dtype}{list(made[name].shape)}; the memory given is for {array.dtype}{list(array.shape)}")
            array[...] = made[name]
            made[name] = array
        binding._results = {name: made[name] for name in binding._outputs}

    def _run_on_device(self, binding: IOBinding, stream: int) -> None:
        held = []

        def place(name: str, value: object) -> tuple[str, int, int, list[int]]:
            there = binding._on_device.get(name)
            if there is not None:
                return name, there.number, there.address, there.dims
            if value is None:
                raise UsageError(f"output {name!r} is bound to no memory, which it needs where something else lies on a GPU")
            array = np.ascontiguousarray(dtypes.plain_array(np.asarray(value), name))
            held.append(array)
            return name, dtypes.number_of(array.dtype, name), array.ctypes.data, list(array.shape)

        inputs = [place(name, value) for name, value in binding._inputs.items()]
        outputs = [place(name, value) for name, value in binding._outputs.items()]
        self._native.run_on_device(inputs, outputs, list(binding._on_device), stream)
        binding._results = {name: array for name, array in binding._outputs.items() if array is not None}

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
                raise UsageError(f"the model has no output {name!r}; it has {', '.join(map(arguments.shown, places))}")
        return [places[name] for name in output_names]

    def _input(self, name: str, value: object) -> tuple[str, object, int]:
        if self._numbers.get(name) == strings.NUMBER:
            return name, strings.packed(value, name), strings.NUMBER
        if isinstance(value, np.ndarray):
            return (name, *dtypes.bits_of(dtypes.plain_array(value, name)))
        if hasattr(value, "__dlpack__") and not isinstance(value, np.generic):
            return name, getattr(value, "detach", lambda: value)(), 0
        return (name, *dtypes.bits_of(dtypes.array_of_numbers(value, self._numbers.get(name), name)))
