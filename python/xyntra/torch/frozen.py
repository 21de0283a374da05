"""Parameters that are constants of a compiled graph, watched for changes.

A change that torch counts (in-place operations, an optimizer's step, load_state_dict) moves a tensor's version; another tensor in its
place has another address. Writes that torch does not count, through `.data` or through NumPy, are noticed where they change one of the
elements that are looked at: the first, the last and some between. Those of a tensor on a GPU are not: looking would wait for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch

from xyntra import _native

_LOOKED_AT = 4  # elements of each tensor


def can_be_watched(tensor: object) -> bool:
    """Tensors of inference mode have no version."""
    return isinstance(tensor, torch.Tensor) and tensor.device.type in ("cpu", "cuda") and not tensor.is_inference()


class Watch:
    def __init__(self, tensors: Mapping[int, object]) -> None:
        """Tensors by their place among the values of a call."""
        kept = {place: tensor for place, tensor in tensors.items() if isinstance(tensor, torch.Tensor)}
        self._places = list(kept)
        # What is detached shares memory and version, and keeps both where the parameter gets other memory.
        self._kept = [tensor.detach() for tensor in kept.values()]
        self._addresses, self._versions = _addresses(kept.values()), _versions(kept.values())
        self._samples = _native.Samples([_looked_at(tensor) for tensor in kept.values()])

    def changed(self, values: Sequence[Any]) -> bool:
        """Every call asks this of every parameter."""
        now = [values[place] for place in self._places]
        return _addresses(now) != self._addresses or _versions(now) != self._versions or self._samples.changed()

    def changed_places(self, values: Sequence[Any]) -> list[int]:
        now = [values[place] for place in self._places]
        found = {place for place, *seen in zip(self._places, _addresses(now), self._addresses, _versions(now), self._versions)
                 if seen[0] != seen[1] or seen[2] != seen[3]}
        return sorted(found | {self._places[index] for index in self._samples.changed_tensors()})


def _addresses(tensors: Iterable[torch.Tensor]) -> list[int]:
    return list(map(torch.Tensor.data_ptr, tensors))


def _versions(tensors: Iterable[torch.Tensor]) -> list[int]:
    return [one._version for one in tensors]


def _looked_at(tensor: torch.Tensor) -> tuple[list[int], int]:
    """Addresses of elements, and how large they are."""
    count, size, first = tensor.numel(), tensor.element_size(), tensor.data_ptr()
    if count == 0 or tensor.device.type != "cpu":
        return [], size
    dense = torch.ops.aten.is_non_overlapping_and_dense(tensor)
    places = sorted({step * (count - 1) // (_LOOKED_AT - 1) for step in range(_LOOKED_AT)}) if dense else [0]
    return [first + place * size for place in places], size
