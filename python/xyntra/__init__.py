"""Runs models that Xyntra compiles; in the manner of onnxruntime.

    session = xyntra.Session("model.onnx", backend="cpu")
    [y] = session.run(None, {"x": array})
    xyntra.compile("model.onnx", "model.xyn", cpu=["avx2", "avx512"])
    session = xyntra.Session("model.xyn")  # without the compiler

    session = xyntra.Session("decoder.onnx", donate="*")
    cache = xyntra.Cache(np.empty((1, 12, 1024, 64), np.float32), axis=2)
    session.run(None, {"input_ids": ids, "past": cache})  # the result that extends `past` is written in the cache
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, overload

from xyntra import _native, arguments
from xyntra.benchmark import Timings
from xyntra.binding import IOBinding
from xyntra.errors import BadModelError, DeviceError, Error, InternalError, LimitError, UnsupportedError, UsageError
from xyntra.explanation import Explanation
from xyntra.session import Cache, Session, Value, common_options

__all__ = ["BadModelError", "Cache", "DeviceError", "Error", "Explanation", "IOBinding", "InternalError", "LimitError", "Session", "Timings",
           "UnsupportedError", "UsageError", "Value", "__version__", "compile", "explain"]

__version__ = _native.version()


@overload
def compile(model: str | os.PathLike, output: str | os.PathLike | None = None, *, cpu: str | Sequence[str] = "native", threads: int = 0,
            dims: Mapping[str, int | tuple[int, int]] | None = None, max_memory: int = 0, precision: str = "f32",
            donate: str | Sequence[str] = (), inputs: Mapping[str, object] | None = None) -> str: ...
@overload
def compile(model: Callable[..., Any], **options: Any) -> Any: ...
def compile(model: str | os.PathLike | Callable[..., Any], output: str | os.PathLike | None = None, **options: Any) -> Any:
    """Writes a model as an artifact and returns its path: `output`, or the model's with the ending .xyn. A torch module or function
    becomes one that Xyntra runs, as torch.compile makes it; options are those of `xyntra.torch.compile`.

    `cpu` names CPUs to make code for (native, generic, avx2, avx512, avx512_vnni, avx512_vnni_1m, avx512_bf16, amx, neon, neon_bf16); the best that a machine has is taken
    when it is loaded. A size of `dims` is a number to count costs with, or the lowest and the highest that it may be run at.
    `donate` names inputs that a Cache may be given for; `inputs` says what a TorchScript file does not, as for a Session.
    """
    if callable(model) and not isinstance(model, (str, os.PathLike)):
        if output is not None:
            raise UsageError("a torch module is compiled in memory: it has no output file")
        from xyntra import torch as for_torch

        return for_torch.compile(model, **options)
    return _write_artifact(model, output, **options)


def _write_artifact(path: str | os.PathLike, output: str | os.PathLike | None, *, cpu: str | Sequence[str] = "native", threads: int = 0,
                    dims: Mapping[str, int | tuple[int, int]] | None = None, max_memory: int = 0, precision: str = "f32",
                    donate: str | Sequence[str] = (), inputs: Mapping[str, object] | None = None) -> str:
    threads, max_memory, precision, donated = common_options(threads, max_memory, precision, donate)
    source = arguments.path(path)
    target = os.path.splitext(source)[0] + b".xyn" if output is None else arguments.path(output)
    _native.compile(source, target, arguments.texts("the CPUs", cpu), threads, arguments.sizes(dims, ranges=True), max_memory, precision, donated,
                    arguments.inputs(inputs))
    return os.fsdecode(target)


def explain(path: str | os.PathLike, **options: Any) -> Explanation:
    """How a model is cut into kernels; options are those of a Session."""
    return Session(path, **options).explain()
