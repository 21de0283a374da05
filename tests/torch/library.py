"""The C interface of the library, for models in memory."""

from __future__ import annotations

import ctypes

import torch

CODES = {torch.float32: 1, torch.uint8: 2, torch.int8: 3, torch.uint16: 4, torch.int16: 5, torch.int32: 6, torch.int64: 7, torch.bool: 9,
         torch.float16: 10, torch.float64: 11, torch.uint32: 12, torch.uint64: 13, torch.bfloat16: 16}
DTYPES = {code: dtype for dtype, code in CODES.items()}
UNSUPPORTED = 3


class Refused(Exception):
    """The model has something that is not supported, and the message says what."""


class Tensor(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("name", ctypes.c_char_p), ("dtype", ctypes.c_int), ("rank", ctypes.c_size_t),
                ("dims", ctypes.POINTER(ctypes.c_int64)), ("data", ctypes.c_void_p), ("bytes", ctypes.c_size_t)]


class Options(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("backend", ctypes.c_char_p), ("threads", ctypes.c_int), ("dims", ctypes.c_void_p),
                ("dim_count", ctypes.c_size_t), ("max_memory", ctypes.c_size_t), ("precision", ctypes.c_char_p), ("donated", ctypes.c_void_p),
                ("donated_count", ctypes.c_size_t)]


class Library:
    def __init__(self, path, backend: str) -> None:
        self.calls = ctypes.CDLL(str(path))
        self.calls.xyntra_last_message.restype = ctypes.c_char_p
        self.calls.xyntra_result_count.restype = ctypes.c_size_t
        for name in ("xyntra_release", "xyntra_release_result", "xyntra_result_count"):
            getattr(self.calls, name).argtypes = [ctypes.c_void_p]
        self.options = Options(ctypes.sizeof(Options), backend.encode(), 1)

    def check(self, status: int) -> None:
        if status == 0:
            return
        message = self.calls.xyntra_last_message().decode(errors="replace")
        raise Refused(message) if status == UNSUPPORTED else RuntimeError(message)

    def run(self, content: bytes, inputs: dict[str, torch.Tensor]) -> list[torch.Tensor]:
        model, result = ctypes.c_void_p(), ctypes.c_void_p()
        self.check(self.calls.xyntra_load_bytes(content, ctypes.c_size_t(len(content)), ctypes.byref(self.options), ctypes.byref(model)))
        try:
            given, kept = (Tensor * max(len(inputs), 1))(), []
            for slot, (name, value) in zip(given, inputs.items()):
                value = value.detach().contiguous()
                dims = (ctypes.c_int64 * max(value.dim(), 1))(*value.shape)
                kept += [value, dims]
                slot.size, slot.name, slot.dtype, slot.rank = ctypes.sizeof(Tensor), name.encode(), CODES[value.dtype], value.dim()
                slot.dims, slot.data, slot.bytes = dims, value.data_ptr() or ctypes.addressof(dims), value.numel() * value.element_size()
            self.check(self.calls.xyntra_run(model, given, ctypes.c_size_t(len(inputs)), ctypes.byref(result)))
            return [self.result(result, i) for i in range(self.calls.xyntra_result_count(result))]
        finally:
            self.calls.xyntra_release_result(result)
            self.calls.xyntra_release(model)

    def result(self, result, index: int) -> torch.Tensor:
        found = Tensor(ctypes.sizeof(Tensor))
        self.check(self.calls.xyntra_result_tensor(result, ctypes.c_size_t(index), ctypes.byref(found)))
        dims = [found.dims[i] for i in range(found.rank)]
        content = bytearray(ctypes.string_at(found.data, found.bytes))
        dtype = DTYPES[found.dtype]
        return torch.frombuffer(content, dtype=dtype).reshape(dims) if content else torch.empty(dims, dtype=dtype)
