"""Arrays of strings, as the C interface has them: for each element where it ends in the text, then the text of all, one behind the other."""

from __future__ import annotations

import numpy as np

from xyntra.errors import UsageError

NUMBER = 8  # ONNX's, of the dtype


def _encoded(element: object, name: str) -> bytes:
    if isinstance(element, bytes):
        element.decode()  # as text it must be UTF-8
        return element
    if not isinstance(element, str):
        raise UsageError(f"input {name!r} holds strings; one of its elements is {type(element).__name__}")
    return element.encode()


def packed(value: object, name: str) -> tuple[np.ndarray, tuple[int, ...]]:
    """The bytes of strings, or of lists of them, and their shape."""
    if isinstance(value, np.ndarray) and value.dtype.kind not in "USO":
        raise UsageError(f"input {name!r} holds strings; its elements are of type {value.dtype}")
    try:
        array = np.asarray(value, dtype=object)
        texts = [_encoded(element, name) for element in array.ravel()]
    except (UnicodeError, ValueError) as problem:
        raise UsageError(f"input {name!r}: {problem}") from problem
    ends = np.cumsum([len(text) for text in texts], dtype=np.uint64)
    return np.frombuffer(ends.tobytes() + b"".join(texts), np.uint8), array.shape


def unpacked(data: bytes, shape: tuple[int, ...]) -> np.ndarray:
    """The inverse, as an array of str."""
    made = np.empty(shape, dtype=object)
    ends = np.frombuffer(data, np.uint64, made.size).tolist()
    text, begin = data[8 * made.size:], 0
    for index, end in enumerate(ends):
        made.flat[index] = text[begin:end].decode()
        begin = end
    return made
