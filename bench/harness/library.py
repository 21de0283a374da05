"""libxyntra through its C ABI, as include/xyntra/xyntra.h declares it."""

from __future__ import annotations

import ctypes
import pathlib

import numpy as np

# ONNX's numbers of the dtypes that NumPy has.
DTYPES = {1: np.float32, 2: np.uint8, 3: np.int8, 4: np.uint16, 5: np.int16, 6: np.int32, 7: np.int64, 9: np.bool_,
          10: np.float16, 11: np.float64, 12: np.uint32, 13: np.uint64}
NUMBERS = {np.dtype(dtype): number for number, dtype in DTYPES.items()}


class Tensor(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("name", ctypes.c_char_p), ("dtype", ctypes.c_int), ("rank", ctypes.c_size_t),
                ("dims", ctypes.POINTER(ctypes.c_int64)), ("data", ctypes.c_void_p), ("bytes", ctypes.c_size_t)]


class Options(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("backend", ctypes.c_char_p), ("threads", ctypes.c_int),
                ("dims", ctypes.POINTER(ctypes.c_char_p)), ("dim_count", ctypes.c_size_t), ("max_memory", ctypes.c_size_t),
                ("precision", ctypes.c_char_p), ("donated", ctypes.POINTER(ctypes.c_char_p)), ("donated_count", ctypes.c_size_t)]


class Donation(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("memory", ctypes.POINTER(Tensor)), ("length", ctypes.c_int64), ("in_place", ctypes.c_int), ("unchanged", ctypes.c_int)]


class Counts(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("compiles", ctypes.c_uint64), ("runs", ctypes.c_uint64), ("bindings", ctypes.c_uint64),
                ("copies", ctypes.c_uint64)]


class XyntraError(Exception):
    """What xyntra_last_message says."""


class Library:
    def __init__(self, path: pathlib.Path) -> None:
        self.c = ctypes.CDLL(str(path))
        for name in ("xyntra_version", "xyntra_last_message"):
            getattr(self.c, name).restype = ctypes.c_char_p
        for name in ("xyntra_release", "xyntra_release_result"):
            getattr(self.c, name).restype = None
            getattr(self.c, name).argtypes = [ctypes.c_void_p]
        self.c.xyntra_result_count.restype = ctypes.c_size_t
        self.c.xyntra_result_count.argtypes = [ctypes.c_void_p]
        self.c.xyntra_result_tensor.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.POINTER(Tensor)]
        self.c.xyntra_run.argtypes = [ctypes.c_void_p, ctypes.POINTER(Tensor), ctypes.c_size_t, ctypes.POINTER(ctypes.c_void_p)]
        self.c.xyntra_run_into.argtypes = [ctypes.c_void_p, ctypes.POINTER(Tensor), ctypes.c_size_t, ctypes.POINTER(Tensor),
                                           ctypes.c_size_t]
        self.c.xyntra_run_donating.argtypes = [ctypes.c_void_p, ctypes.POINTER(Tensor), ctypes.c_size_t, ctypes.POINTER(Donation),
                                               ctypes.c_size_t, ctypes.POINTER(ctypes.c_void_p)]
        self.c.xyntra_count.argtypes = [ctypes.c_void_p, ctypes.POINTER(Counts)]

    def check(self, status: int) -> None:
        if status:
            raise XyntraError(self.c.xyntra_last_message().decode(errors="replace"))

    def compile(self, path: pathlib.Path, output: pathlib.Path, dims: dict[str, int | str], precision: str = "f32",
                donated: list[str] | None = None) -> None:
        """Writes an artifact for this machine; sizes as numbers, to count costs with, or as ranges: "1..512"."""
        options = options_of("cpu", 0, dims, precision, donated or [])
        self.check(self.c.xyntra_compile(str(path).encode(), str(output).encode(), ctypes.byref(options), None, 0))


def options_of(backend: str, threads: int, dims: dict[str, int | str], precision: str, donated: list[str] = []) -> Options:
    texts = [f"{name}={size}".encode() for name, size in dims.items()]
    return Options(ctypes.sizeof(Options), backend.encode(), threads, (ctypes.c_char_p * len(texts))(*texts), len(texts), 0,
                   precision.encode(), (ctypes.c_char_p * len(donated))(*(name.encode() for name in donated)), len(donated))


class Model:
    def __init__(self, library: Library, path: pathlib.Path, backend: str, threads: int, dims: dict[str, int],
                 precision: str, donated: tuple[str, ...] = ()) -> None:
        self.library = library
        self.handle = ctypes.c_void_p()
        options = options_of(backend, threads, dims, precision, list(donated))
        library.check(library.c.xyntra_load(str(path).encode(), ctypes.byref(options), ctypes.byref(self.handle)))

    def __del__(self) -> None:
        if self.handle:
            self.library.c.xyntra_release(self.handle)

    @staticmethod
    def arguments(feed: dict[str, np.ndarray]) -> ctypes.Array:
        tensors = (Tensor * len(feed))()
        for tensor, (name, array) in zip(tensors, feed.items()):
            dims = (ctypes.c_int64 * array.ndim)(*array.shape)
            tensor.size = ctypes.sizeof(Tensor)
            tensor.name, tensor.dtype, tensor.rank, tensor.dims = name.encode(), NUMBERS[array.dtype], array.ndim, dims
            tensor.data, tensor.bytes = array.ctypes.data, array.nbytes
        return tensors

    def call(self, tensors: ctypes.Array) -> ctypes.c_void_p:
        """Runs; the result is to be released."""
        result = ctypes.c_void_p()
        self.library.check(self.library.c.xyntra_run(self.handle, tensors, len(tensors), ctypes.byref(result)))
        return result

    def call_into(self, tensors: ctypes.Array, wanted: ctypes.Array) -> None:
        """Runs with results in memory of the caller's."""
        self.library.check(self.library.c.xyntra_run_into(self.handle, tensors, len(tensors), wanted, len(wanted)))

    def donations(self, caches: dict[str, np.ndarray]) -> ctypes.Array:
        """Memory to be donated again and again, none of it in use at first."""
        made = (Donation * len(caches))()
        for one, tensor in zip(made, self.arguments(caches)):
            one.size, one.memory = ctypes.sizeof(Donation), ctypes.pointer(tensor)
        return made

    def call_donating(self, tensors: ctypes.Array, donations: ctypes.Array) -> ctypes.c_void_p:
        """Runs with donated inputs; the result is to be released."""
        result = ctypes.c_void_p()
        self.library.check(self.library.c.xyntra_run_donating(self.handle, tensors, len(tensors), donations, len(donations),
                                                              ctypes.byref(result)))
        return result

    def counts(self) -> dict[str, int]:
        counts = Counts(ctypes.sizeof(Counts))
        self.library.check(self.library.c.xyntra_count(self.handle, ctypes.byref(counts)))
        return {name: getattr(counts, name) for name in ("compiles", "runs", "bindings", "copies")}

    def outputs(self, feed: dict[str, np.ndarray]) -> list[np.ndarray]:
        result = self.call(self.arguments(feed))
        arrays = []
        for index in range(self.library.c.xyntra_result_count(result)):
            arrays.append(self.tensor(result, index))
        self.library.c.xyntra_release_result(result)
        return arrays

    def tensor(self, result: ctypes.c_void_p, index: int) -> np.ndarray:
        """A copy of a tensor of a result."""
        tensor = Tensor(ctypes.sizeof(Tensor))
        self.library.check(self.library.c.xyntra_result_tensor(result, index, ctypes.byref(tensor)))
        raw = ctypes.string_at(tensor.data, tensor.bytes) if tensor.bytes else b""
        return np.frombuffer(raw, DTYPES[tensor.dtype]).reshape(tensor.dims[:tensor.rank])
