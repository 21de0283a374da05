#!/usr/bin/env python3
"""Writes the small TorchScript archives of this folder with their inputs and what eager makes of them.

usage: python tests/models_torchscript/make_models.py     (needs torch; the result is checked in)

Each is NAME/model.pt, NAME/inputs/*.npy by the names of its inputs, NAME/expected/*.npy by those of its outputs. Weights are those of seed 1.
"""

import pathlib
import shutil
import warnings
from typing import Dict, List, Optional, Tuple

import numpy
import torch
from torch import Tensor, nn

HERE = pathlib.Path(__file__).parent


class Convolutions(nn.Module):
    """Traced: submodules, in-place calls, shapes as tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(2, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.MaxPool2d(2))
        self.head = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.layers(x)
        x += 1
        return self.head(x.mean((2, 3)).reshape(x.shape[0], -1))


class Structures(nn.Module):
    """Scripted: lists, dicts, tuples, optional arguments, loops over modules, early returns, strings."""

    scale: int

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))
        self.scale = 2

    def pick(self, parts: List[Tensor], which: int) -> Tensor:
        if which >= len(parts):
            return parts[-1]
        return parts[which]

    def forward(self, x: Tensor, pair: Tuple[Tensor, Tensor], mask: Optional[Tensor] = None) -> Dict[str, Tensor]:
        if x.dim() != 2:
            raise ValueError("two dimensions, not {}".format(x.dim()))
        parts: List[Tensor] = []
        for i, block in enumerate(self.blocks):
            x = torch.relu(block(x)) if i % 2 == 0 else block(x) * self.scale
            parts.append(x)
        named: Dict[str, Tensor] = {"sum": torch.stack(parts).sum(0)}
        if mask is not None:
            named["masked"] = self.pick(parts, 7).masked_fill(mask, 0.0)
        named["pair"] = pair[0] + pair[1] * x.size(0)
        return named


class Branches(nn.Module):
    """Scripted: branches and loops that depend on what tensors hold."""

    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor]:
        n = 0
        y = x
        while bool(y.sum() < 50):
            y = y * 2 + 1
            n += 1
        if bool((y > 20).any()):
            z, k = y - 3, n
        else:
            z, k = torch.relu(y), -n
        if bool((x > 1e6).any()):
            z = z + 1
        total = torch.zeros_like(z)
        for i in range(int(z.sum().item()) % 5):
            total = total + z * i
        return total + k, z


class Views(nn.Module):
    """Scripted: what is written through views."""

    def forward(self, x: Tensor) -> Tensor:
        y = torch.zeros(4, 6)
        y[1] = x[0]
        y[:, 2:4] += 2
        row = y.select(0, 3)
        row.mul_(3)
        y.t()[0].fill_(5)
        return y + x[1]


class Stateful(nn.Module):
    """Scripted: a module that counts and remembers; every run starts as the file does."""

    seen: int
    memory: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(3, 4)
        self.memory = torch.zeros(0)
        self.seen = 0

    def forward(self, x: Tensor, rate: int) -> Tensor:
        if len(self.memory) == 0:
            self.memory = torch.zeros(2, x.size(0), 4)
        h, c = self.cell(x, (self.memory[0], self.memory[1]))
        self.memory = torch.stack([h, c])
        self.seen += 1
        return h * rate + self.seen


class Positions(nn.Module):
    """Traced: sizes that only running tells, as tensors and as numbers; positions by axis."""

    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor, Tensor, Tensor]:
        rows, columns = torch.where(x > 0)
        kept = x[rows, columns]
        count = torch._shape_as_tensor(kept)[0]
        best, _ = torch.topk(kept, int(torch.min(torch.stack([count, torch.tensor(3)]))))
        return rows, columns, count, best


def save(folder: pathlib.Path, values: dict[str, Tensor]) -> None:
    folder.mkdir(parents=True)
    for name, value in values.items():
        numpy.save(folder / f"{name}.npy", value.detach().numpy())


def write(name: str, module, inputs: dict[str, Tensor], outputs: dict[str, Tensor]) -> None:
    folder = HERE / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    module.save(str(folder / "model.pt"))
    save(folder / "inputs", inputs)
    save(folder / "expected", outputs)


def main() -> None:
    warnings.filterwarnings("ignore")
    torch.manual_seed(1)
    with torch.no_grad():
        model, x = Convolutions().eval(), torch.randn(2, 2, 6, 6)
        write("convolutions", torch.jit.trace(model, x), {"x": x}, {"output": model(x)})
        model, x, pair, mask = Structures().eval(), torch.randn(3, 4), (torch.randn(4), torch.randn(4)), torch.rand(3, 4) > 0.5
        write("structures", torch.jit.script(model), {"x": x, "pair.0": pair[0], "pair.1": pair[1], "mask": mask}, dict(model(x, pair, mask)))
        model, x = Branches().eval(), torch.rand(2, 3)
        a, b = model(x)
        write("branches", torch.jit.script(model), {"x": x}, {"output.0": a, "output.1": b})
        model, x = Views().eval(), torch.randn(2, 6)
        write("views", torch.jit.script(model), {"x": x}, {"output": model(x)})
        model, x = Stateful().eval(), torch.randn(2, 3)
        module = torch.jit.script(model)
        write("stateful", module, {"x": x}, {"output": model(x, 3)})
        model, x = Positions().eval(), torch.randn(3, 4)
        write("positions", torch.jit.trace(model, x), {"x": x}, {f"output.{i}": one for i, one in enumerate(model(x))})


if __name__ == "__main__":
    main()
