#!/usr/bin/env python3
"""Writes the small .pt2 archives of this folder with their inputs and what eager makes of them.

usage: python tests/models_pt2/make_models.py [NAME ...]     (needs torch; the result is checked in)

Each is NAME/model.pt2, NAME/inputs/*.npy by the names of its inputs, NAME/expected/*.npy by those of its outputs. Weights are those of seed 1.
"""

from __future__ import annotations

import pathlib
import shutil
import sys
import warnings

import numpy
import torch
from torch import nn
from torch.export import Dim

HERE = pathlib.Path(__file__).parent


class Convolutions(nn.Module):
    """In-place calls, batch normalisation, pooling: as a vision model is exported, without decompositions."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(2, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.Conv2d(4, 6, 3, groups=2))
        self.head = nn.Linear(6, 3)

    def forward(self, x):
        x = self.layers(x)
        x += 1
        return self.head(nn.functional.adaptive_avg_pool2d(x, 1).flatten(1))


class Encoder(nn.Module):
    """Attention with open sizes, a tied weight, a nested dictionary as result."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(11, 8)
        self.norm = nn.LayerNorm(8)
        self.qkv = nn.Linear(8, 24)
        self.out = nn.Linear(8, 11, bias=False)
        self.out.weight = self.words.weight

    def forward(self, ids, mask):
        x = self.norm(self.words(ids))
        q, k, v = (part.view(*part.shape[:2], 2, 4).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        y = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None, None, :])
        y = x + y.transpose(1, 2).reshape(x.shape)
        return {"logits": self.out(y), "states": (x, y)}


class Views(nn.Module):
    """What is written through views: rows, slices and transposes of one tensor."""

    def forward(self, x):
        y = torch.zeros(4, 6)
        y[1] = x
        y[:, 2:4].mul_(3).add_(1)
        turned = y.t()
        turned[5] = 7.0
        y.unsqueeze(0)[:, 3].neg_()
        x.clone().relu_()
        return y, turned.sum(0)


class Branches(nn.Module):
    """cond, while_loop and scan."""

    def forward(self, x):
        from torch._higher_order_ops.scan import scan
        from torch._higher_order_ops.while_loop import while_loop

        y = torch.cond(x.sum() > 0, lambda a: a * 2, lambda a: a - 1, (x,))
        count, z = while_loop(lambda n, a: n < 3, lambda n, a: (n + 1, a * 0.5 + n), (torch.tensor(0), y))
        last, all_of_them = scan(lambda carry, row: (carry + row, carry * row), torch.ones(3), x, dim=0)
        return y, count, z, last, all_of_them


class Indices(nn.Module):
    """Indexing by lists and masks, sorting, scattering, whole numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("order", torch.tensor([2, 0, 1]))

    def forward(self, x, i):
        y = x[:, self.order] + x.masked_fill(x > 0.5, 0.0)
        y = y.index_put((i, torch.zeros_like(i)), torch.tensor(5.0))
        values, places = torch.topk(y, 2, dim=-1)
        return values, places, torch.cumsum(i, 0), (i // -2).to(torch.int32), y.scatter_add(1, i[:, None], x)


class Broadcast(nn.Module):
    """Operands that broadcast, scalars, bools, and what is reduced without what was there before."""

    def forward(self, x, rows, i, some):
        pooled, places = nn.functional.adaptive_max_pool2d(x[None], (2, 3), return_indices=True)
        similar = nn.functional.cosine_similarity(x, rows[:, None], dim=-2)
        down, along = torch.meshgrid(rows[0], i.to(x.dtype), indexing="xy")
        masked = torch.masked_scatter(rows[0], some, x)
        parts = [rows.scatter_reduce(0, i[None].expand(3, -1), rows + 1, how, include_self=False) for how in ("sum", "prod", "mean", "amax", "amin")]
        means = (rows * 9).long().scatter_reduce(0, i[None].expand(3, -1), (rows * 7).long(), "mean")
        either = some[0].index_add(0, i, some[1])
        scalar = nn.functional.prelu(rows[0, 0], rows[0, :1]) + nn.functional.pairwise_distance(i, i + 1) + rows[1, 1].index_add(0, i[1], rows[2, 2])
        return (pooled, places, similar, down, along, masked, *parts, means, either, scalar, torch.outer(some[0], some[1]), torch.diff(rows, 0),
                torch.clamp(some, max=some[1:2]))


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(3, 4, num_layers=2, bidirectional=True, batch_first=True)
        self.gru = nn.GRU(8, 3)

    def forward(self, x):
        y, (hidden, cell) = self.lstm(x)
        return self.gru(y.transpose(0, 1))[0], hidden, cell


def floats(*shape: int) -> torch.Tensor:
    return torch.rand(*shape) * 2 - 1


class Pooled(nn.Module):
    """Decomposed: pooling to one pixel of a feature map whose channels lie innermost, which ends with as_strided."""

    def forward(self, x):
        return nn.functional.adaptive_avg_pool2d(x.permute(0, 3, 1, 2), 1) * 2


class Norms(nn.Module):
    """Norms of matrices and of vectors by the same operator, bounds the wrong way round, forms of any rank."""

    def forward(self, x, batch, mask, weight):
        norms = [torch.linalg.norm(x, order) for order in (1, -1, float("inf"), float("-inf"), "fro", None)]
        norms += [torch.linalg.norm(x, 1, dim=0).sum(), torch.linalg.norm(x[0], float("inf")), torch.linalg.matrix_norm(batch, 1).sum()]
        rows = torch.linalg.norm(batch, float("inf"), dim=(2, 0), keepdim=True)
        return torch.stack(norms), rows, torch.logit(x.abs(), 0.6), torch.signbit(mask), nn.functional.bilinear(batch, batch, weight)


class Strided(nn.Module):
    """Views that step through memory: what is written through them or under them, and elements at strides."""

    def forward(self, x):
        y = x.clone()
        windows, below, plane = y.unfold(1, 3, 2), y.diagonal(-1), y.expand(2, 4, 6).diagonal(1, 1, 2)
        rows, columns = torch.meshgrid(y[0], y[:, 0], indexing="xy")
        same, _ = torch.broadcast_tensors(y[1], x)
        copied, bits = torch.diagonal_copy(y), y.view(torch.int32)
        below.mul_(-2)
        copied.add_(1)
        bits[0, 1] = 0x40490FDB
        overlapping = x.as_strided((2, 3, 4), (4, 2, 1), 1) * y.sum()
        turned = torch.relu(x.t()).as_strided((3, 2, 4), (1, 12, 3)).sin()
        beginning = x[2:].as_strided((2, 2), (1, 5), 14) - 1
        scattered = torch.diagonal_scatter(x, y[0, :4], 2)
        return y, windows, plane, rows, columns, same, copied, overlapping, turned, beginning, scattered


def cases():
    yield "strided", Strided(), (floats(4, 6),), None, False
    yield "strided_core", Strided(), (floats(4, 6),), None, True
    yield "convolutions", Convolutions(), (floats(1, 2, 8, 8),), None, False
    yield "convolutions_core", Convolutions(), (floats(1, 2, 8, 8),), None, True
    sizes = {0: Dim("batch", min=1, max=16), 1: Dim("length", min=2, max=64)}
    mask = torch.tensor([[True, True, True, False, True], [True, False, True, True, True]])
    yield "encoder", Encoder(), (torch.randint(0, 11, (2, 5)), mask), (sizes, sizes), False
    yield "encoder_core", Encoder(), (torch.randint(0, 11, (2, 5)), mask), (sizes, sizes), True
    yield "views", Views(), (floats(6),), None, False
    yield "branches", Branches(), (floats(4, 3),), None, False
    yield "indices", Indices(), (floats(3, 3), torch.tensor([2, 0, 1])), None, False
    some = torch.tensor([[True, False, False, True], [False, False, True, True], [True, True, False, False]])
    yield "broadcast", Broadcast(), (floats(3, 5, 4), floats(3, 4), torch.tensor([2, 0, 2, 1]), some), None, False
    yield "recurrent", Recurrent(), (floats(2, 5, 3),), None, False
    yield "pooled_core", Pooled(), (floats(1, 3, 4, 5),), None, True
    yield "norms", Norms(), (floats(3, 4), floats(2, 3, 4), torch.tensor([True, False]), floats(5, 4, 4)), None, False


def main() -> None:
    warnings.filterwarnings("ignore")
    wanted = sys.argv[1:]
    for name, model, arguments, shapes, core in cases():
        if wanted and name not in wanted:
            continue
        torch.manual_seed(1)
        model.eval()
        folder = HERE / name
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "inputs").mkdir(parents=True)
        (folder / "expected").mkdir()
        with torch.no_grad():
            program = torch.export.export(model, arguments, dynamic_shapes=shapes, strict=False)
            if core:
                program = program.run_decompositions()
            result = model(*arguments)
        program._example_inputs = None  # pickled, and never read
        for module in program.graph_module.modules():
            for node in module.graph.nodes if isinstance(module, torch.fx.GraphModule) else ():
                node.meta.pop("stack_trace", None)  # places on the machine of whoever ran this
                node.meta.pop("torch_fn", None)
        torch.export.save(program, folder / "model.pt2")
        labels = {"logits": result["logits"], "states_0": result["states"][0], "states_1": result["states"][1]} if isinstance(result, dict) else (
            {"output": result} if isinstance(result, torch.Tensor) else {f"output_{i}": value for i, value in enumerate(result)})
        names = [spec.arg.name for spec in program.graph_signature.input_specs if spec.kind.name == "USER_INPUT"]
        for kind, values in (("inputs", dict(zip(names, arguments))), ("expected", labels)):
            for key, value in values.items():
                numpy.save(folder / kind / f"{key}.npy", value.numpy())
        print(name, (folder / "model.pt2").stat().st_size, "bytes")


if __name__ == "__main__":
    main()
