#!/usr/bin/env python3
"""Exports the networks of architectures.py with both torch exporters, with ONNX Runtime's outputs beside them.

    python tests/models/make_models.py [--out tests/models] [NAME ...]

Writes OUT/NAME_EXPORTER/model.onnx with test_data_set_0/{input,output}_N.pb, the layout of ONNX's own backend
tests, so that `xyntra conformance tests/models` runs them. The results are checked in: tests need no torch.
Needs torch, onnxscript, onnx and onnxruntime.
"""

from __future__ import annotations

import argparse
import io
import logging
import pathlib
import shutil
import sys
import warnings

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import numpy_helper

from architectures import MODELS, Example

OPSETS = {"dynamo": None, "dynamo23": 23, "torchscript": 17}  # None: the exporter's own choice
ATTEMPTS = 200  # inputs tried until none of the outputs depends on the order of a sum


def settle(module: torch.nn.Module) -> None:
    """Gives batch norms statistics that are not the identity, as training would."""
    for layer in module.modules():
        if isinstance(layer, torch.nn.modules.batchnorm._BatchNorm):
            layer.running_mean.normal_(0, 0.3)
            layer.running_var.uniform_(0.5, 1.5)
            layer.weight.data.uniform_(0.5, 1.5)
            layer.bias.data.normal_(0, 0.2)
    module.eval()


def export(example: Example, exporter: str) -> onnx.ModelProto:
    arguments = tuple(example.inputs.values())
    names = list(example.inputs)
    if exporter == "torchscript":
        data = io.BytesIO()
        torch.onnx.export(example.module, arguments, data, dynamo=False, input_names=names,
                          opset_version=OPSETS[exporter], dynamic_axes=example.dynamic or None)
        return onnx.load_from_string(data.getvalue())
    shapes = None
    if example.dynamic:
        shapes = tuple({axis: torch.export.Dim(symbol, min=2) for axis, symbol in example.dynamic.get(name, {}).items()}
                       for name in names)
    program = torch.onnx.export(example.module, arguments, dynamo=True, input_names=names, dynamic_shapes=shapes,
                                opset_version=OPSETS[exporter], verbose=False)
    return program.model_proto


def strip(model: onnx.ModelProto) -> None:
    """Drops what only a debugger reads (stack traces hold paths of the exporting machine)."""
    for graph in [model.graph, *model.functions]:
        nodes = list(graph.node)
        while nodes:
            node = nodes.pop()
            node.doc_string = ""
            del node.metadata_props[:]
            for attribute in node.attribute:
                if attribute.HasField("g"):
                    nodes.extend(attribute.g.node)
    for value in [*model.graph.value_info, *model.graph.input, *model.graph.output, *model.graph.initializer]:
        del value.metadata_props[:]
        value.doc_string = ""
    del model.graph.metadata_props[:]


def arrays(result) -> list[np.ndarray]:
    if isinstance(result, torch.Tensor):
        return [result.detach().numpy()]
    return [array for part in result for array in arrays(part)]


def well_conditioned(expected: list[np.ndarray], exact: list[np.ndarray]) -> bool:
    """True where float32 outputs stand within a quarter of the runner's tolerance of the float64 ones."""
    for got, wanted in zip(expected, exact):
        if got.dtype.kind != "f":
            if not np.array_equal(got, wanted):
                return False
        elif not np.allclose(got, wanted, rtol=2.5e-4, atol=2.5e-8, equal_nan=True):
            return False
    return True


def double(module: torch.nn.Module, inputs: dict[str, torch.Tensor]) -> list[np.ndarray]:
    widened = [t.double() if t.is_floating_point() else t for t in inputs.values()]
    with torch.no_grad():
        return arrays(module(*widened))


def redraw(inputs: dict[str, torch.Tensor]) -> None:
    for tensor in inputs.values():
        if tensor.is_floating_point() and tensor.dim():
            tensor.normal_(0, 1)


def choose_inputs(example: Example, session: onnxruntime.InferenceSession, exact_module: torch.nn.Module | None):
    names = [value.name for value in session.get_inputs()]
    for _ in range(ATTEMPTS):
        # Exporters may drop an input nobody reads, so the feed follows the model.
        feed = {name: example.inputs[name].numpy() for name in names}
        expected = session.run(None, feed)
        if exact_module is None or well_conditioned(expected, double(exact_module, example.inputs)):
            return feed, expected, True
        if "grid" not in example.inputs:
            redraw(example.inputs)
    return feed, expected, False


def write(folder: pathlib.Path, model: onnx.ModelProto, feed: dict[str, np.ndarray], expected: list[np.ndarray]) -> int:
    shutil.rmtree(folder, ignore_errors=True)
    data = folder / "test_data_set_0"
    data.mkdir(parents=True)
    onnx.save(model, folder / "model.onnx")
    for kind, tensors in (("input", feed.items()), ("output", zip((o.name for o in model.graph.output), expected))):
        for index, (name, array) in enumerate(tensors):
            (data / f"{kind}_{index}.pb").write_bytes(numpy_helper.from_array(array, name).SerializeToString())
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def make(name: str, exporter: str, out: pathlib.Path) -> str:
    torch.manual_seed(2026)
    example = MODELS[name]()
    scripted = isinstance(example.module, torch.jit.ScriptModule)
    if not scripted:
        settle(example.module)
    with torch.no_grad():
        model = export(example, exporter)
    strip(model)
    onnx.checker.check_model(model, full_check=True)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    exact = None
    if not scripted:
        torch.manual_seed(2026)
        exact = MODELS[name]().module
        exact.load_state_dict(example.module.state_dict())
        exact.double().eval()
    try:
        if exact is not None:
            double(exact, example.inputs)
    except RuntimeError:  # a module that names float32 itself has no float64 twin
        exact = None
    feed, expected, settled = choose_inputs(example, session, exact)
    size = write(out / f"{name}_{exporter}", model, feed, expected)
    notes = [f"{size:>7} bytes", f"opset {max(o.version for o in model.opset_import)}", f"{len(model.graph.node)} nodes"]
    return ", ".join(notes + ([] if settled else ["OUTPUTS NOT WELL CONDITIONED"]) + ([] if exact else ["no float64 twin"]))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).parent)
    parser.add_argument("names", nargs="*", metavar="NAME")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    failed = 0
    for name in options.names or MODELS:
        for exporter in MODELS[name]().exporters:
            try:
                said = make(name, exporter, options.out)
            except Exception as error:  # an exporter that cannot do a model is reported, the others go on
                said = f"{type(error).__name__}: {str(error).strip().splitlines()[0][:140]}"
                failed += 1
            print(f"{name:<20} {exporter:<12} {said}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
