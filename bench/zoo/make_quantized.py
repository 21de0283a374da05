#!/usr/bin/env python3
"""Quantizes models of the zoo to 8 bit with ONNX Runtime's own tool, in the three forms that it writes.

    python bench/zoo/make_quantized.py [--zoo build/zoo] [--out build/zoo] [NAME ...]
    bench/compare --models bert_base_dynamic,resnet50_qdq --zoo build/zoo

dynamic   ranges of activations are found in each run: DynamicQuantizeLinear, MatMulInteger, and a scale after it
qdq       ranges are found now, on random inputs: QuantizeLinear and DequantizeLinear around operations on floats
qoperator the same ranges with operations on integers: QLinearConv, QLinearMatMul, QLinearAdd
weights   weights alone, as DequantizeLinear of 8 bit constants; operations stay on floats

Weights have a scale for each column or filter. Activations are u8 where the name says nothing, and i8 where it ends in _s8.
Writes OUT/NAME.onnx. The seed is fixed.
"""

from __future__ import annotations

import argparse
import dataclasses
import logging
import pathlib
import sys
import tempfile
import time
from collections.abc import Callable

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from harness import setup  # noqa: E402

setup.python_with("make_quantized.py", __doc__, ["numpy", "onnx", "onnxruntime"], ["conformance", "peers"])
import numpy as np  # noqa: E402
import onnx  # noqa: E402
from onnx import helper, numpy_helper  # noqa: E402
from onnxruntime import quantization  # noqa: E402
from onnxruntime.quantization import shape_inference  # noqa: E402

from harness import models  # noqa: E402

CALIBRATION_DRAWS = 2
U8, S8 = quantization.QuantType.QUInt8, quantization.QuantType.QInt8


class RandomInputs(quantization.CalibrationDataReader):
    """What bench/compare draws for the model."""

    def __init__(self, name: str, zoo: pathlib.Path) -> None:
        self.feeds = iter(models.feeds(name, zoo, {}, CALIBRATION_DRAWS))

    def get_next(self) -> models.Feed | None:
        return next(self.feeds, None)


@dataclasses.dataclass
class Source:
    name: str  # in bench/harness/models.py
    zoo: pathlib.Path
    prepared: pathlib.Path  # with shapes inferred and constants folded, as the tool wants it


def prepare(file: pathlib.Path, path: pathlib.Path) -> None:
    """The exporter's notes on shapes of constants do not survive the tool, which transposes some of them."""
    model = onnx.load(str(file))
    del model.graph.value_info[:]
    onnx.save(model, str(path))
    shape_inference.quant_pre_process(str(path), str(path), skip_symbolic_shape=True)


def dynamic(source: Source, path: pathlib.Path) -> None:
    quantization.quantize_dynamic(source.prepared, path, per_channel=True, weight_type=S8)


def static(form: quantization.QuantFormat, activations: quantization.QuantType) -> Callable[[Source, pathlib.Path], None]:
    def make(source: Source, path: pathlib.Path) -> None:
        quantization.quantize_static(source.prepared, path, RandomInputs(source.name, source.zoo), quant_format=form,
                                     per_channel=True, activation_type=activations, weight_type=S8)
    return make


def weights(source: Source, path: pathlib.Path) -> None:
    """Every constant matrix of a GEMM as round(w / scale) with a scale for each column."""
    model = onnx.load(str(source.prepared))
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    made = {}
    for node in model.graph.node:
        for name in node.input[1:2] if node.op_type in ("MatMul", "Gemm") else ():
            if name not in constants or len(constants[name].dims) != 2 or name in made:
                continue
            axis = 0 if any(a.name == "transB" and a.i for a in node.attribute) else 1
            real = numpy_helper.to_array(constants[name])
            scale = np.maximum(np.abs(real).max(axis=1 - axis) / 127, 1e-9).astype(np.float32)
            q = np.rint(real / np.expand_dims(scale, 1 - axis)).astype(np.int8)
            made[name] = helper.make_node("DequantizeLinear", [f"{name}_q", f"{name}_scale"], [name], axis=axis)
            model.graph.initializer.remove(constants[name])
            model.graph.initializer.extend([numpy_helper.from_array(q, f"{name}_q"), numpy_helper.from_array(scale, f"{name}_scale")])
    for node in reversed(made.values()):
        model.graph.node.insert(0, node)
    onnx.save(model, str(path))


QDQ, QOPERATOR = quantization.QuantFormat.QDQ, quantization.QuantFormat.QOperator
MODELS: dict[str, tuple[str, Callable[[Source, pathlib.Path], None]]] = {
    "bert_2_layers_dynamic": ("bert_2_layers", dynamic),
    "bert_base_dynamic": ("bert_base", dynamic),
    "gpt2_dynamic": ("gpt2", dynamic),
    "vit_tiny_dynamic": ("vit_tiny", dynamic),
    "resnet50_dynamic": ("resnet50", dynamic),
    "resnet50_qdq": ("resnet50", static(QDQ, U8)),
    "resnet50_qdq_s8": ("resnet50", static(QDQ, S8)),
    "mobilenet_v2_qdq": ("mobilenet_v2", static(QDQ, U8)),
    "bert_2_layers_qdq": ("bert_2_layers", static(QDQ, U8)),
    "vit_tiny_qdq": ("vit_tiny", static(QDQ, U8)),
    "resnet50_qoperator": ("resnet50", static(QOPERATOR, U8)),
    "mobilenet_v2_qoperator": ("mobilenet_v2", static(QOPERATOR, U8)),
    "vit_tiny_qoperator": ("vit_tiny", static(QOPERATOR, U8)),
    "bert_2_layers_weights": ("bert_2_layers", weights),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--zoo", type=pathlib.Path, default=pathlib.Path("build/zoo"))
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("build/zoo"))
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(MODELS)}; all of them where none is given")
    options = parser.parse_args()
    if unknown := [name for name in options.names if name not in MODELS]:
        parser.error(f"there is no model {', '.join(unknown)}")
    logging.disable(logging.WARNING)
    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        for name in options.names or MODELS:
            before = time.time()
            zoo_name, make = MODELS[name]
            prepared = pathlib.Path(folder) / f"{zoo_name}.onnx"
            if not prepared.exists():
                prepare(models.find(models.KNOWN[zoo_name].file, options.zoo), prepared)
            path = options.out / f"{name}.onnx"
            make(Source(zoo_name, options.zoo, prepared), path)
            onnx.checker.check_model(str(path))
            print(f"{path}  {path.stat().st_size / 1e6:.1f} MB  {time.time() - before:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
