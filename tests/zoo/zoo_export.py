"""One model of the draw: made, given random weights, exported."""

from __future__ import annotations

import json
import pathlib
import warnings

import torch

MOST_PARAMETERS = 45_000_000  # so that fifty of them take an hour on two cores
LARGEST_IMAGE = 300
OPSET = {"torchscript": 17, "dynamo": 18}


class Tensors(torch.nn.Module):
    """The model with tensors for arguments and a tuple of tensors for results."""

    def __init__(self, model: torch.nn.Module, names: list[str] | None) -> None:
        super().__init__()
        self.model, self.names = model, names

    def forward(self, *arguments):
        result = self.model(**dict(zip(self.names, arguments))) if self.names else self.model(*arguments)
        return tuple(flat(result))[:4]


def flat(result):
    if isinstance(result, torch.Tensor):
        yield result
    elif isinstance(result, dict):
        for value in result.values():
            yield from flat(value)
    elif isinstance(result, (list, tuple)):
        for value in result:
            yield from flat(value)


def randomize(model: torch.nn.Module) -> None:
    """No weight stays at zero and no statistic at one: what is multiplied by zero would not be compared."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.is_floating_point() and parameter.numel():
                scale = float(parameter.float().std()) if parameter.numel() > 1 else 0.0
                parameter.add_(torch.randn_like(parameter) * (0.05 if scale == 0 else 0.1 * scale))
        for module in model.modules():
            if isinstance(module, torch.nn.modules.batchnorm._BatchNorm) and module.running_mean is not None:
                module.running_mean.normal_(0, 0.1)
                module.running_var.uniform_(0.8, 1.2)


def resized(argument: torch.Tensor, sizes: dict[int, int]) -> torch.Tensor:
    """Elements of the argument, drawn again, with other sizes along these axes."""
    shape = [sizes.get(axis, size) for axis, size in enumerate(argument.shape)]
    return argument.flatten()[torch.randint(argument.numel(), shape)]


def sizes_of(names: list[str], arguments: list[torch.Tensor]) -> dict:
    return {"shapes": {name: list(argument.shape) for name, argument in zip(names, arguments)},
            "values": {name: argument.tolist() for name, argument in zip(names, arguments) if not argument.is_floating_point()}}


def image_model(source: str, name: str):
    if source == "timm":
        import timm

        size = timm.get_pretrained_cfg(name).input_size if timm.get_pretrained_cfg(name) else (3, 224, 224)
        build = lambda: timm.create_model(name, pretrained=False)  # noqa: E731
    else:
        import torchvision

        size = (3, 224, 224)
        extra = {"weights_backbone": None} if name in torchvision.models.list_models(module=torchvision.models.detection) + torchvision.models.list_models(module=torchvision.models.segmentation) else {}
        if name in torchvision.models.list_models(module=torchvision.models.video):
            size = (3, 16, 112, 112) if not name.startswith(("mvit", "swin")) else (3, 16, 224, 224)
        if name == "inception_v3":
            size = (3, 299, 299)
        build = lambda: torchvision.models.get_model(name, weights=None, **extra)  # noqa: E731
    if max(size) > LARGEST_IMAGE:
        raise SystemExit(f"images of {max(size)}")
    try:
        with torch.device("meta"):
            parameters = sum(p.numel() for p in build().parameters())
    except Exception:  # noqa: BLE001: some cannot be built without memory; they are built with it
        parameters = 0
    if parameters > MOST_PARAMETERS:
        raise SystemExit(f"{parameters / 1e6:.0f} million parameters")
    model = build()
    if source == "torchvision":
        import torchvision

        if name in torchvision.models.list_models(module=torchvision.models.detection):
            return model, [torch.rand(1, 3, 160, 160)], None, False
        if name in torchvision.models.list_models(module=torchvision.models.optical_flow):
            return model, [torch.rand(1, 3, 128, 128), torch.rand(1, 3, 128, 128)], None, False
    return model, [torch.randn(1, *size)], None, True


def main(source: str, name: str, exporter: str, dynamic: bool, seed: int, out: pathlib.Path) -> None:
    warnings.filterwarnings("ignore")
    torch.manual_seed(seed)
    torch.set_num_threads(2)
    if source == "transformers":
        import zoo_transformers

        model, named, open_axes = zoo_transformers.model_of(name)
        names, arguments = list(named), list(named.values())
        batch = True
    else:
        model, arguments, names, batch = image_model(source, name)
        open_axes = []
    if sum(p.numel() for p in model.parameters()) > MOST_PARAMETERS:
        raise SystemExit("too many parameters")
    model.eval()
    randomize(model)
    wrapped = Tensors(model, names).eval()
    inputs = names or [f"x{i}" for i in range(len(arguments))]
    with torch.no_grad():
        outputs = wrapped(*arguments)
        labels = [f"y{i}" for i in range(len(outputs))]
        axes = ([0] if batch else []) + open_axes
        extra = {}
        if dynamic and exporter == "dynamo" and batch:  # which takes a size of 1 for a constant
            arguments = [resized(argument, {0: 2}) for argument in arguments]
        if dynamic and exporter == "torchscript":
            extra["dynamic_axes"] = {label: {axis: f"n{axis}" if axis == 0 else f"{label}_{axis}" for axis in axes} for label in inputs}
            if len(open_axes) and len(inputs) == 2 and inputs[1] == "attention_mask":
                extra["dynamic_axes"]["attention_mask"] = extra["dynamic_axes"]["input_ids"]
        elif dynamic:
            extra["dynamic_shapes"] = (tuple({axis: torch.export.Dim.AUTO for axis in axes} for _ in inputs),)
        torch.onnx.export(wrapped, tuple(arguments), str(out), input_names=inputs, output_names=labels, opset_version=OPSET[exporter],
                          dynamo=exporter == "dynamo", **extra)
    import onnx

    nodes = len(onnx.load(str(out), load_external_data=False).graph.node)
    sizes = [sizes_of(inputs, arguments)]
    if dynamic and axes:
        other = [resized(argument, {axis: 3 if axis == 0 else argument.shape[axis] * 5 // 4 for axis in axes}) for argument in arguments]
        sizes.append(sizes_of(inputs, other))
    (out.parent / "inputs.json").write_text(json.dumps({"sizes": sizes, "nodes": nodes}))
