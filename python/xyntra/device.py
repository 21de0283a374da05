"""Tensors in the memory of a GPU, as DLPack describes them."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

from xyntra.errors import UsageError

_CUDA = 2  # kDLCUDA
_NUMBERS = {(2, 32): 1, (1, 8): 2, (0, 8): 3, (1, 16): 4, (0, 16): 5, (0, 32): 6, (0, 64): 7, (6, 8): 9, (2, 16): 10, (2, 64): 11, (1, 32): 12,
            (1, 64): 13, (4, 16): 16}  # of dtypes, by DLPack's code and bits


class _DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32), ("rank", ctypes.c_int32),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


@dataclass(frozen=True)
class DeviceTensor:
    """Where a tensor lies on the device. `owner` keeps it there."""

    address: int
    dims: list[int]
    number: int  # of its dtype
    owner: object


def is_on_device(array: object) -> bool:
    kind = getattr(array, "__dlpack_device__", None)
    return kind is not None and kind()[0] == _CUDA


def device_tensor(name: str, array: object) -> DeviceTensor:
    """The place of an array that is_on_device. No stream waits for another: the run is in order with the one that it is given."""
    array = getattr(array, "detach", lambda: array)()
    try:
        capsule = array.__dlpack__(stream=-1)  # type: ignore[attr-defined]
    except (TypeError, AttributeError, BufferError, RuntimeError) as problem:
        raise UsageError(f"{name!r} is bound to something that is no tensor on a GPU: {problem}") from None
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    tensor = _DLTensor.from_address(pointer(capsule, b"dltensor"))
    dims = [tensor.shape[axis] for axis in range(tensor.rank)]
    number = _NUMBERS.get((tensor.code, tensor.bits))
    if number is None or tensor.lanes != 1:
        raise UsageError(f"{name!r} is bound to a tensor whose elements models do not have")
    distance = 1
    for axis in reversed(range(tensor.rank) if tensor.strides else ()):
        if dims[axis] != 1 and tensor.strides[axis] != distance:
            raise UsageError(f"{name!r} is bound to a tensor on a GPU that is not dense and row-major")
        distance *= dims[axis]
    return DeviceTensor((tensor.data or 0) + tensor.byte_offset, dims, number, (array, capsule))
