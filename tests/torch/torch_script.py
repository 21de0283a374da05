"""One model of the draw as TorchScript: made, given random weights, traced or scripted, run by eager."""

from __future__ import annotations

import json
import pathlib
import warnings

import numpy
import torch
import torch_export
import zoo_export


def main(source: str, name: str, scripted: bool, sdpa: bool, seed: int, folder: pathlib.Path) -> None:
    warnings.filterwarnings("ignore")
    torch.manual_seed(seed)
    torch.set_num_threads(2)
    model, names, arguments, _ = torch_export.model_and_arguments(source, name, sdpa)
    if sum(p.numel() for p in model.parameters()) > torch_export.MOST_PARAMETERS:
        raise SystemExit("too many parameters")
    model.eval()
    zoo_export.randomize(model)
    with torch.no_grad():
        wrapped = zoo_export.Tensors(model, names).eval()
        how = "traced"
        if scripted and source != "transformers":
            try:
                module, how = torch.jit.script(model), "scripted"
            except Exception:  # noqa: BLE001: TorchScript does not take its Python: it is traced
                module = torch.jit.trace(wrapped, tuple(arguments), check_trace=False)
        else:
            module = torch.jit.trace(wrapped, tuple(arguments), check_trace=False)
        module.save(str(folder / "model.pt"))
        expected = list(zoo_export.flat(module(*arguments) if how == "scripted" else wrapped(*arguments)))
        inputs = [argument.name for argument in torch.jit.load(str(folder / "model.pt")).forward.schema.arguments][1:]  # as in the code
    torch_export.save(folder / "inputs", dict(zip(inputs, arguments)))
    (folder / "expected").mkdir()
    for i, value in enumerate(expected):
        numpy.save(folder / "expected" / f"{i}.npy", value.detach().numpy())
    (folder / "how.json").write_text(json.dumps(how))
