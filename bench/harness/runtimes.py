"""Who runs a model: Xyntra and its peers, each at its fastest setting for these threads.

A runtime has `outputs(feed)`, and `ready(feed)`, which returns a callable that runs once; only that is timed.
"""

from __future__ import annotations

import importlib.util
import logging
import pathlib
import re
import sys
from collections.abc import Callable, Iterator

import numpy as np

from harness import library
from harness.models import Feed, Job

NAME = re.compile(r"[A-Za-z_][\w.]*")  # exporters also write '?'; what is no letter or digit is an underscore to Xyntra
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


class Absent(Exception):
    """This runtime cannot take part, and why."""


class Ours:
    name = "xyntra"

    def __init__(self, job: Job, library_path: pathlib.Path, backend: str, donated: tuple[str, ...] = ()) -> None:
        loaded = library.Library(library_path)
        named = {re.sub(r"\W", "_", name): size for name, size in job.dims.items() if NAME.fullmatch(name)}
        precision = "f32" if backend == "float64" else job.precision
        self.model = library.Model(loaded, job.path, backend, job.threads, named, precision, donated)
        self.version = loaded.c.xyntra_version().decode()

    def outputs(self, feed: Feed) -> list[np.ndarray]:
        return self.model.outputs(feed)

    def ready(self, feed: Feed) -> Callable[[], None]:
        arguments, release = self.model.arguments(feed), self.model.library.c.xyntra_release_result
        return lambda feed=feed: release(self.model.call(arguments))  # arguments point into the feed


class Before(Ours):
    """Another build of ours."""

    name = "before"


class OnnxRuntime:
    """All graph optimisations, sizes fixed by name, one thread pool of N that spins, as its documentation advises."""

    name = "onnxruntime"

    def __init__(self, job: Job, path: pathlib.Path | None = None, optimised: bool = True) -> None:
        if job.precision == "bf16":
            raise Absent("onnxruntime runs this model in f32 only")
        import onnxruntime
        onnxruntime.set_default_logger_severity(3)
        options = onnxruntime.SessionOptions()
        levels = onnxruntime.GraphOptimizationLevel
        options.graph_optimization_level = levels.ORT_ENABLE_ALL if optimised else levels.ORT_DISABLE_ALL
        options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
        options.intra_op_num_threads, options.inter_op_num_threads = job.threads, 1
        for name, size in job.dims.items():
            options.add_free_dimension_override_by_name(name, size)
        self.session = onnxruntime.InferenceSession(str(path or job.path), options, providers=["CPUExecutionProvider"])
        self.version = onnxruntime.__version__

    def outputs(self, feed: Feed) -> list[np.ndarray]:
        return self.session.run(None, feed)

    def ready(self, feed: Feed) -> Callable[[], None]:
        return lambda: self.session.run(None, feed)


class OnnxRuntimeTransformers(OnnxRuntime):
    """After its own optimiser for transformers, which fuses attention, layer norm and GELU into operators of its own.

    It knows the patterns of torch's older exporter, so it gets the model as that one wrote it, where there is such a file.
    """

    name = "onnxruntime-transformers"

    def __init__(self, job: Job) -> None:
        if job.transformer is None:
            raise Absent("its transformers optimizer has nothing for this model")
        if job.precision == "bf16":
            raise Absent("onnxruntime runs this model in f32 only")
        scratch = ROOT / "build/peers"
        scratch.mkdir(parents=True, exist_ok=True)
        source = job.path.with_name(job.path.name.replace("_dynamo", "_torchscript"))
        source = source if source.exists() else job.path
        path = scratch / f"{source.stem}.transformers.onnx"
        if not path.exists() or path.stat().st_mtime < source.stat().st_mtime:
            try:
                from onnxruntime.transformers import optimizer
            except ImportError as error:
                raise Absent(f"onnxruntime.transformers: {error}") from error
            logging.disable(logging.WARNING)
            kind, heads, width = job.transformer
            made = optimizer.optimize_model(str(source), model_type=kind, num_heads=heads, hidden_size=width, opt_level=1,
                                            use_gpu=False)
            made.save_model_to_file(str(path), use_external_data_format=False)
        super().__init__(job, path)


class OpenVino:
    name = "openvino"

    def __init__(self, job: Job) -> None:
        try:
            import openvino
        except ImportError as error:
            raise Absent("not installed; type: build/venv/bin/pip install openvino") from error
        core = openvino.Core()
        model = core.read_model(str(job.path))
        feed = job.feeds[0]
        model.reshape({name: list(array.shape) for name, array in feed.items()})
        precision = "bf16" if job.precision == "bf16" else "f32"
        self.model = core.compile_model(model, "CPU", {"INFERENCE_NUM_THREADS": job.threads, "NUM_STREAMS": 1,
                                                       "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": precision})
        self.request = self.model.create_infer_request()
        self.version = openvino.__version__.split("-")[0]

    def outputs(self, feed: Feed) -> list[np.ndarray]:
        made = self.request.infer(feed)
        return [np.array(made[output]) for output in self.model.outputs]

    def ready(self, feed: Feed) -> Callable[[], None]:
        return lambda: self.request.infer(feed, share_inputs=True, share_outputs=True)


class TorchCompile:
    """The module that the zoo exported, through torch.compile with its default backend."""

    name = "torch"

    def __init__(self, job: Job) -> None:
        if job.zoo_name is None:
            raise Absent("there is no torch module of this model")
        try:
            import torch
        except ImportError as error:
            raise Absent("not installed; type: build/venv/bin/pip install torch torchvision timm transformers onnxscript") from error
        specification = importlib.util.spec_from_file_location("make_zoo", ROOT / "bench/zoo/make_zoo.py")
        zoo = importlib.util.module_from_spec(specification)
        sys.modules["make_zoo"] = zoo
        specification.loader.exec_module(zoo)
        torch.set_num_threads(job.threads)
        torch.manual_seed(zoo.SEED)
        entry = zoo.ZOO[job.zoo_name]()
        self.torch, self.precision, self.names = torch, job.precision, list(entry.inputs)
        self.module = torch.compile(entry.module.eval())
        self.version = torch.__version__.split("+")[0]

    def run(self, tensors: list) -> list:
        with self.torch.inference_mode(), self.torch.autocast("cpu", self.torch.bfloat16, enabled=self.precision == "bf16"):
            made = self.module(*tensors)
        return list(made) if isinstance(made, tuple) else [made]

    def tensors(self, feed: Feed) -> list:
        return [self.torch.from_numpy(feed[name]) for name in self.names]

    def outputs(self, feed: Feed) -> list[np.ndarray]:
        return [tensor.float().numpy() for tensor in self.run(self.tensors(feed))]

    def ready(self, feed: Feed) -> Callable[[], None]:
        tensors = self.tensors(feed)
        return lambda: self.run(tensors)


# onnxruntime stands for both ways of running it: the faster one counts.
PEERS = {"onnxruntime": [OnnxRuntime, OnnxRuntimeTransformers], "openvino": [OpenVino], "torch": [TorchCompile]}


def peers(names: list[str], job: Job, say: Callable[[str], None]) -> Iterator:
    for name in names:
        for kind in PEERS[name]:
            try:
                yield kind(job)
            except Absent as why:
                say(f"{job.name}: {kind.name} left out: {why}")
            except Exception as error:  # a peer that fails is reported, the others go on
                say(f"{job.name}: {kind.name} failed: {type(error).__name__}: {str(error).strip().splitlines()[0][:200]}")
