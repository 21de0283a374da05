"""Where a graph runs: torch's devices, and the backends that have kernels for them.

A graph with a tensor on an NVIDIA GPU runs there, on torch's current stream; any other one runs on the CPU. A call whose tensors lie elsewhere is torch's.
Numbers that torch keeps in CPU tensors of rank 0 may be read from anywhere, as in eager.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import torch
from torch import fx

from xyntra.torch.schema import value_of

_OLDEST = (8, 0)  # compute capability, Ampere


@dataclass(frozen=True)
class Device:
    """The CPU; `Gpu` says what is different there."""

    place: torch.device
    backend: str = "cpu"  # of Session
    alignment: int = 1  # of tensors, in bytes

    def threads(self, asked: int | None) -> int:
        """None: as many as torch has now."""
        return asked or torch.get_num_threads()

    def precision(self, asked: str | None) -> str:
        return asked or "f32"

    def stream(self) -> int:
        return 0

    def is_capturing(self) -> bool:
        """Whether calls are recorded for later, and not run."""
        return False

    def why_not(self) -> str | None:
        """Why nothing can be compiled for it."""
        return None


class Gpu(Device):
    def __init__(self, place: torch.device) -> None:
        super().__init__(place, "ptx", 16)

    def threads(self, asked: int | None) -> int:
        return asked or 0  # of what little the host computes

    def precision(self, asked: str | None) -> str:
        """None: what torch may do to its own matmuls."""
        return asked or ("f32" if torch.get_float32_matmul_precision() == "highest" else "tf32")

    def stream(self) -> int:
        return torch._C._cuda_getCurrentRawStream(self.place.index or 0)

    def is_capturing(self) -> bool:
        return torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()

    def why_not(self) -> str | None:
        return _why_not(self.place.index or 0)


@functools.cache
def _why_not(index: int) -> str | None:
    if torch.version.hip is not None:
        return "it is on an AMD GPU, kernels are for NVIDIA's"
    if not torch.cuda.is_available():
        return None  # a graph of tensors that are described and not there
    kept = [one for one in range(torch.cuda.device_count()) if torch.cuda.get_device_capability(one) >= _OLDEST]
    if not kept:
        return f"it is on a GPU of compute capability {'.'.join(map(str, torch.cuda.get_device_capability(index)))}, kernels need 8.0 or newer"
    return None if index == kept[0] else f"it is on cuda:{index}, kernels run on cuda:{kept[0]}, the first GPU"


def device_of(graph: fx.Graph) -> Device:
    """The first GPU that has a tensor of the graph, or the CPU."""
    gpus = {tensor.device.index or 0: tensor.device for node in graph.nodes for tensor in tensors_of(node) if tensor.device.type == "cuda"}
    return Gpu(gpus[min(gpus)]) if gpus else Device(torch.device("cpu"))


def reason_elsewhere(node: fx.Node, device: Device) -> str | None:
    """Why a call cannot be part of what is compiled for the device."""
    results, read = tensors_of(node), [tensor for one in node.all_input_nodes if one.op != "get_attr" for tensor in tensors_of(one)]
    constants = [tensor for one in node.all_input_nodes if one.op == "get_attr" for tensor in tensors_of(one)]
    places = {str(one.device) for one in results + read + constants if not _is_number(one)}
    if places - {str(device.place)}:
        return f"its tensors lie on {' and '.join(sorted(places))}"
    if device.place.type != "cpu" and read and any(_is_number(one) for one in results):
        return "it makes a number on the CPU"
    return device.why_not()


def tensors_of(node: fx.Node) -> list[torch.Tensor]:
    value = value_of(node)
    return [one for one in (value if isinstance(value, (tuple, list)) else [value]) if isinstance(one, torch.Tensor)]


def _is_number(tensor: torch.Tensor) -> bool:
    return tensor.dim() == 0 and tensor.device.type == "cpu"
