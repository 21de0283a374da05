"""Decoding, a token a step, with the KV cache in memory of the caller's.

A step takes caches of `past` tokens and gives longer ones. A lent cache has two sets of memory, of which one is read and the other
written; a donated one, with room for all tokens, has one, in which new rows are appended.
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable

import numpy as np
import onnx

from harness import runtimes

VOCABULARY = 50257


class Lent:
    """Xyntra, which writes into memory of the caller's."""

    def __init__(self, ours: runtimes.Ours) -> None:
        self.model = ours.model

    def ready(self, inputs: dict[str, np.ndarray], outputs: dict[str, np.ndarray]) -> Callable[[], None]:
        given, wanted = self.model.arguments(inputs), self.model.arguments(outputs)
        return lambda: self.model.call_into(given, wanted)


class Bound:
    """ONNX Runtime with I/O binding."""

    def __init__(self, peer: runtimes.OnnxRuntime) -> None:
        self.session = peer.session

    def ready(self, inputs: dict[str, np.ndarray], outputs: dict[str, np.ndarray]) -> Callable[[], None]:
        binding = self.session.io_binding()
        for name, array in inputs.items():
            binding.bind_input(name, "cpu", 0, array.dtype, array.shape, array.ctypes.data)
        for name, array in outputs.items():
            binding.bind_output(name, "cpu", 0, array.dtype, array.shape, array.ctypes.data)
        return lambda: self.session.run_with_iobinding(binding)


def cache_shapes(path: pathlib.Path) -> dict[str, list[int]]:
    """Of the inputs that are caches; 0 stands for the length."""
    graph = onnx.load(str(path), load_external_data=False).graph
    return {value.name: [dim.dim_value for dim in value.type.tensor_type.shape.dim] for value in graph.input if value.name.startswith("past_")}


class Donated:
    """Xyntra with donated caches, which have room for all tokens."""

    def __init__(self, path: pathlib.Path, most: int, ours: runtimes.Ours, past: int = 0) -> None:
        self.model, self.result = ours.model, None
        self.caches = {name: np.zeros([size or most for size in shape], np.float32) for name, shape in cache_shapes(path).items()}
        self.donations = self.model.donations(self.caches)
        for one in self.donations:
            one.length = past

    def ready(self, token: int) -> Callable[[], None]:
        self.ids = {"input_ids": np.array([[token]], np.int64)}
        given = self.model.arguments(self.ids)
        return lambda: self.take(self.model.call_donating(given, self.donations))

    def take(self, result: object) -> None:
        if self.result is not None:
            self.model.library.c.xyntra_release_result(self.result)
        self.result = result
        for one in self.donations:
            one.unchanged = 1  # nobody but the model writes to them

    @property
    def logits(self) -> np.ndarray:
        return self.model.tensor(self.result, 0)


class Steps:
    def __init__(self, path: pathlib.Path, most: int, runner: Lent | Bound, past: int = 0) -> None:
        self.runner, self.past = runner, past
        self.shapes = cache_shapes(path)
        sizes = {name: int(np.prod([size or most for size in shape])) for name, shape in self.shapes.items()}
        self.read, self.write = ({name: np.zeros(size, np.float32) for name, size in sizes.items()} for _ in range(2))
        self.logits = np.zeros((1, 1, VOCABULARY), np.float32)

    def cache(self, memory: np.ndarray, name: str, length: int) -> np.ndarray:
        shape = [size or length for size in self.shapes[name]]
        return memory[: int(np.prod(shape))].reshape(shape)

    def ready(self, token: int) -> Callable[[], None]:
        """A step; memory is lent or bound before it is timed."""
        inputs = {"input_ids": np.array([[token]], np.int64)}
        inputs |= {name: self.cache(memory, name, self.past) for name, memory in self.read.items()}
        outputs = {"logits": self.logits}
        outputs |= {name.replace("past", "present"): self.cache(memory, name, self.past + 1) for name, memory in self.write.items()}
        self.lent = inputs, outputs  # for the time of the call
        self.read, self.write = self.write, self.read
        self.past += 1
        return self.runner.ready(inputs, outputs)
