"""Inputs and outputs that are bound to memory once and run many times."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from xyntra import dtypes
from xyntra.device import DeviceTensor, device_tensor, is_on_device
from xyntra.errors import UsageError

if TYPE_CHECKING:
    from xyntra.session import Session


class IOBinding:
    """Arrays that a run reads and writes where they are: `session.io_binding()` makes one, `session.run_with_iobinding` runs on it.

    Arrays are NumPy's, or others that speak DLPack, such as torch tensors on the CPU. Those of outputs are dense, writable, and of the shape that the
    result will have; an output that is bound by its name alone gets memory of its own: `get_outputs` has it after the run.
    With the backend "ptx" they may also be tensors on the GPU that speak DLPack, which are used where they are; all wanted outputs are bound to memory then.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._inputs: dict[str, object] = {}
        self._outputs: dict[str, np.ndarray | None] = {}
        self._on_device: dict[str, DeviceTensor] = {}  # of both
        self._results: dict[str, np.ndarray] = {}

    def bind_input(self, name: str, array: object) -> None:
        """The array is read at every run, as it is then."""
        self._check(name, [value.name for value in self._session.get_inputs()], "input")
        self._on_device.pop(name, None)
        self._inputs[name] = array
        if is_on_device(array):
            self._on_device[name] = device_tensor(name, array)

    def bind_output(self, name: str, array: object | None = None) -> None:
        """The array is written at every run; without one, the result gets memory."""
        self._check(name, [value.name for value in self._session.get_outputs()], "output")
        self._on_device.pop(name, None)
        if is_on_device(array):
            self._on_device[name] = device_tensor(name, array)
            self._outputs[name] = array  # type: ignore[assignment]
            return
        self._outputs[name] = None if array is None else _writable(name, array)

    def clear_binding_inputs(self) -> None:
        self._forget(self._inputs)

    def clear_binding_outputs(self) -> None:
        self._forget(self._outputs)
        self._results.clear()

    def get_outputs(self) -> list[np.ndarray]:
        """What the last run wrote, in the order the outputs were bound."""
        missing = [name for name in self._outputs if name not in self._results]
        if missing:
            raise UsageError(f"output {missing[0]!r} is bound, but nothing was run yet")
        return [self._results[name] for name in self._outputs]

    def _forget(self, bound: dict) -> None:
        for name in bound:
            self._on_device.pop(name, None)
        bound.clear()

    @staticmethod
    def _check(name: object, known: list[str], what: str) -> None:
        if name not in known:
            raise UsageError(f"the model has no {what} {name!r}; it has {', '.join(known)}")


def _writable(name: str, array: object) -> np.ndarray:
    """The memory of an array, as NumPy shows it."""
    if not isinstance(array, np.ndarray):
        try:
            array = np.from_dlpack(getattr(array, "detach", lambda: array)())  # type: ignore[arg-type]
        except (TypeError, AttributeError, BufferError, RuntimeError) as problem:
            raise UsageError(f"output {name!r} is bound to something that is no array in main memory: {problem}") from None
    made = dtypes.plain_array(array, name)
    if made is not array or not made.flags.c_contiguous or not made.flags.writeable:
        raise UsageError(f"output {name!r} is bound to an array that is not dense, writable and of this machine's byte order")
    return made
