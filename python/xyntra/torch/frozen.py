"""Parameters that are constants of a compiled graph, watched for changes.

A change that torch counts (in-place operations, an optimizer's step, load_state_dict) moves a tensor's version; another tensor in its
place has another address. Writes that torch does not count, through `.data` or through NumPy, are noticed where they change one of the
elements that are looked at: the first, the last and some between. Those of a tensor on a GPU are not: looking would wait for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from xyntra import _native

_LOOKED_AT = 4  # elements of each tensor


def can_be_watched(tensor: object) -> bool:
    """Tensors of inference mode have no version."""
    return isinstance(tensor, torch.Tensor) and tensor.device.type in ("cpu", "cuda") and not tensor.is_inference()


class Watch:
    def __init__(self, tensors: Mapping[int, object]) -> None:
        """Tensors by their place among the values of a call."""
        # What is detached shares memory and version, and keeps both where the parameter gets other memory.
        self._seen = [(place, tensor.detach(), tensor.data_ptr(), tensor._version) for place, tensor in tensors.items() if isinstance(tensor, torch.Tensor)]
        self._samples = _native.Samples([_looked_at(tensor) for _, tensor, _, _ in self._seen])

    def changed(self, values: Sequence[object]) -> bool:
        for place, _, address, version in self._seen:
            value = values[place]
            if value.data_ptr() != address or value._version != version:  # type: ignore[attr-defined]
                return True
        return self._samples.changed()

    def changed_places(self, values: Sequence[object]) -> list[int]:
        found = {place for place, _, address, version in self._seen
                 if values[place].data_ptr() != address or values[place]._version != version}  # type: ignore[attr-defined]
        return sorted(found | {self._seen[index][0] for index in self._samples.changed_tensors()})


def _looked_at(tensor: torch.Tensor) -> tuple[list[int], int]:
    """Addresses of elements, and how large they are."""
    count, size, first = tensor.numel(), tensor.element_size(), tensor.data_ptr()
    if count == 0 or tensor.device.type != "cpu":
        return [], size
    dense = torch.ops.aten.is_non_overlapping_and_dense(tensor)
    places = sorted({step * (count - 1) // (_LOOKED_AT - 1) for step in range(_LOOKED_AT)}) if dense else [0]
    return [first + place * size for place in places], size
