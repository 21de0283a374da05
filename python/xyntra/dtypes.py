"""Dtypes of models in NumPy: its own, and those of ml_dtypes, where it is installed, for what NumPy does not have."""

from __future__ import annotations

import numpy as np

from xyntra import strings
from xyntra.errors import UnsupportedError, UsageError

# ONNX's names of its dtypes, as onnxruntime spells them, by number.
NAMES = {1: "float", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 8: "string", 9: "bool", 10: "float16", 11: "double",
         12: "uint32", 13: "uint64", 16: "bfloat16", 17: "float8e4m3fn", 18: "float8e4m3fnuz", 19: "float8e5m2", 20: "float8e5m2fnuz",
         21: "uint4", 22: "int4", 23: "float4e2m1", 24: "float8e8m0", 25: "uint2", 26: "int2"}
_NUMPY = {1: np.float32, 2: np.uint8, 3: np.int8, 4: np.uint16, 5: np.int16, 6: np.int32, 7: np.int64, 9: np.bool_, 10: np.float16, 11: np.float64,
          12: np.uint32, 13: np.uint64}
# The library's names, by those of NumPy and torch.
SHORT = {"float32": "f32", "float64": "f64", "float16": "f16", "bfloat16": "bf16", "bool": "bool",
         **{f"{kind}int{bits}": f"{kind or 'i'}{bits}" for kind in ("", "u") for bits in (8, 16, 32, 64)}}
# Names in ml_dtypes, by number; NumPy knows arrays of them by the same names.
_EXTENDED = {16: "bfloat16", 17: "float8_e4m3fn", 18: "float8_e4m3fnuz", 19: "float8_e5m2", 20: "float8_e5m2fnuz", 24: "float8_e8m0fnu"}
_NUMBERS = {name: number for number, name in _EXTENDED.items()}


def number_of(dtype: np.dtype, name: str) -> int:
    number = _NUMBERS.get(dtype.name) or next((number for number, known in _NUMPY.items() if np.dtype(known) == dtype), None)
    if number is None:
        raise UsageError(f"{name!r} is bound to elements of type {dtype}, which models do not have")
    return number


def bits_of(array: np.ndarray) -> tuple[np.ndarray, int]:
    """An array that NumPy can pass on, and the number of the dtype that it holds the bits of: 0 where it is the array's own."""
    number = _NUMBERS.get(array.dtype.name, 0)
    return (array.view(f"u{array.dtype.itemsize}"), number) if number else (array, 0)


def array_of(bits: np.ndarray, number: int, name: str) -> np.ndarray:
    """The inverse, for an output."""
    if number == strings.NUMBER:
        return strings.unpacked(*bits)
    if number not in _EXTENDED:
        return bits
    try:
        import ml_dtypes
    except ImportError:
        raise UnsupportedError(f"output {name!r} has elements of type {NAMES[number]}, which NumPy has only with the package ml_dtypes") from None
    return bits.view(getattr(ml_dtypes, _EXTENDED[number]))


def plain_array(array: np.ndarray, name: str) -> np.ndarray:
    """An array of the machine's byte order whose elements a model may have."""
    if isinstance(array, np.ma.MaskedArray) and array.mask.any():
        raise UsageError(f"input {name!r} has masked elements, which models do not have")
    if array.dtype.kind not in "biuf" and array.dtype.name not in _NUMBERS:
        raise UsageError(f"input {name!r} has elements of type {array.dtype}, which models do not have")
    if array.dtype.byteorder not in "=|":
        array = array.astype(array.dtype.newbyteorder("="))
    return array


def array_of_numbers(value: object, number: int | None, name: str) -> np.ndarray:
    """Numbers, or lists of them, as an input of this dtype: none of them may become another number but by rounding of floats."""
    try:
        array = np.asarray(value)
    except (TypeError, ValueError, OverflowError) as problem:
        raise UsageError(f"input {name!r}: {problem}") from problem
    array = plain_array(array, name)
    wanted = np.dtype(array.dtype if number is None else _NUMPY.get(number, array.dtype))
    if array.size == 0 or array.dtype == wanted:
        return array.astype(wanted)
    if wanted.kind in "iu" and array.dtype.kind in "iu":
        limits = np.iinfo(wanted)
        fits = limits.min <= int(array.min()) and int(array.max()) <= limits.max
    else:
        fits = wanted.kind == "f" and array.dtype.kind in "iuf"
    if not fits:
        raise UsageError(f"input {name!r}: elements of type {array.dtype} are not elements of type {wanted}")
    with np.errstate(over="ignore"):
        return array.astype(wanted)
