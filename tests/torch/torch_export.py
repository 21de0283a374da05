"""One model of the draw: made, given random weights, exported, run by eager."""

from __future__ import annotations

import json
import pathlib
import warnings

import numpy
import torch
import zoo_export
import zoo_transformers

MOST_PARAMETERS = 45_000_000


def model_and_arguments(source: str, name: str, sdpa: bool):
    """The model, its arguments by name, and for each the axes whose sizes may be open."""
    if source == "transformers":
        model, named, axes = zoo_transformers.model_of(name)
        if sdpa:
            try:
                model.set_attn_implementation("sdpa")
            except (ValueError, AttributeError, NotImplementedError):
                pass  # the kind has no other than its own
        return model, list(named), list(named.values()), [0, *axes]
    model, arguments, _, batch = zoo_export.image_model(source, name)
    return model, None, arguments, [0] if batch else []


def save(folder: pathlib.Path, values: dict[str, torch.Tensor]) -> None:
    folder.mkdir(parents=True)
    for name, value in values.items():
        numpy.save(folder / f"{name}.npy", (value if isinstance(value, torch.Tensor) else torch.tensor(value)).detach().numpy())


def main(source: str, name: str, decomposed: bool, dynamic: bool, sdpa: bool, seed: int, folder: pathlib.Path) -> None:
    warnings.filterwarnings("ignore")
    torch.manual_seed(seed)
    torch.set_num_threads(2)
    model, names, arguments, axes = model_and_arguments(source, name, sdpa)
    if sum(p.numel() for p in model.parameters()) > MOST_PARAMETERS:
        raise SystemExit("too many parameters")
    model.eval()
    zoo_export.randomize(model)
    wrapped = zoo_export.Tensors(model, names).eval()
    cases = [arguments]
    shapes = None
    if dynamic and axes:
        cases = [[zoo_export.resized(a, {axis: 2 if axis == 0 else a.shape[axis] for axis in axes}) for a in arguments],
                 [zoo_export.resized(a, {axis: 3 if axis == 0 else a.shape[axis] * 5 // 4 for axis in axes}) for a in arguments]]
        shapes = (tuple({axis: torch.export.Dim.AUTO for axis in axes} for _ in arguments),)
    with torch.no_grad():
        program = torch.export.export(wrapped, tuple(cases[0]), dynamic_shapes=shapes, strict=False)
        if decomposed:
            program = program.run_decompositions()
        inputs = [spec.arg.name for spec in program.graph_signature.input_specs if spec.kind.name == "USER_INPUT"]
        torch.export.save(program, folder / "model.pt2")
        for number, case in enumerate(cases):
            outputs = wrapped(*case)
            if number == 1:  # sizes that the exporter made constants of do not change
                try:
                    program.module()(*case)
                except Exception:  # noqa: BLE001: whatever guard it is
                    break
            labels = ["output"] if len(outputs) == 1 else [f"output_{i}" for i in range(len(outputs))]
            save(folder / f"case{number}" / "inputs", dict(zip(inputs, case)))
            save(folder / f"case{number}" / "expected", dict(zip(labels, outputs)))
    (folder / "nodes.json").write_text(json.dumps(sum(node.op == "call_function" for node in program.graph.nodes)))
