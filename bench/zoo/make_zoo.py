#!/usr/bin/env python3
"""Exports full-size models with random weights, for measurements: speed does not depend on what a model has learned.

    python bench/zoo/make_zoo.py [--out build/zoo] [NAME ...]

Writes OUT/NAME_EXPORTER.onnx, weights inside, with torch's newer exporter (dynamo) and its older one (torchscript).
Batch and sequence stay symbolic. The seed is fixed. Needs torch, torchvision, timm, transformers, onnxscript.
"""

from __future__ import annotations

import argparse
import dataclasses
import logging
import pathlib
import sys
import time
import warnings
from collections.abc import Callable

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from harness import setup  # noqa: E402

if __name__ == "__main__" and (missing := setup.lacking(["torch", "torchvision", "timm", "transformers", "onnxscript"])):
    sys.exit(f"make_zoo.py: Python has no {', '.join(missing)}; type: {sys.executable} -m pip install {' '.join(missing)}")
import torch  # noqa: E402
from torch import nn  # noqa: E402

SEED = 2026
OPSET = {"dynamo": 20, "torchscript": 17}


@dataclasses.dataclass
class Entry:
    module: nn.Module
    inputs: dict[str, torch.Tensor]
    dynamic: dict[str, dict[int, str]]
    exporters: tuple[str, ...] = ("dynamo", "torchscript")


class Logits(nn.Module):
    """Calls a transformers model without cache and keeps one tensor, which both exporters can follow."""

    def __init__(self, model: nn.Module, output: str) -> None:
        super().__init__()
        self.model, self.output = model, output

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        return getattr(self.model(input_ids=input_ids, attention_mask=attention_mask), self.output)


def text(model: nn.Module, output: str, length: int, vocabulary: int) -> Entry:
    inputs = {"input_ids": torch.randint(0, vocabulary, (1, length)), "attention_mask": torch.ones(1, length, dtype=torch.int64)}
    return Entry(Logits(model, output), inputs, {name: {0: "batch", 1: "seq"} for name in inputs})


def bert_base() -> Entry:
    from transformers import BertConfig, BertModel
    return text(BertModel(BertConfig(attn_implementation="eager")), "last_hidden_state", 128, 30522)


def bert_2_layers() -> Entry:
    """Two layers of BERT-base: what a browser on a software adapter runs in seconds."""
    from transformers import BertConfig, BertModel
    config = BertConfig(attn_implementation="eager", num_hidden_layers=2)
    return text(BertModel(config), "last_hidden_state", 128, 30522)


def gpt2() -> Entry:
    from transformers import GPT2Config, GPT2LMHeadModel
    return text(GPT2LMHeadModel(GPT2Config(attn_implementation="eager", use_cache=False)), "logits", 64, 50257)


class Decoder(nn.Module):
    """A step of decoding: the cache goes in as one tensor of keys and one of values for each layer, and comes out longer by its own."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: torch.Tensor, *past: torch.Tensor) -> tuple[torch.Tensor, ...]:
        from transformers import DynamicCache
        cache = DynamicCache(list(zip(past[::2], past[1::2])))
        made = self.model(input_ids=input_ids, past_key_values=cache, use_cache=True)
        return (made.logits, *(tensor for layer in cache.layers for tensor in (layer.keys, layer.values)))


def gpt2_decode() -> Entry:
    from transformers import GPT2Config, GPT2LMHeadModel
    config = GPT2Config(attn_implementation="eager")
    inputs, dynamic = {"input_ids": torch.randint(0, 50257, (1, 1))}, {}
    for layer in range(config.n_layer):
        for kind in ("key", "value"):
            name = f"past_{kind}_{layer}"
            inputs[name] = torch.randn(1, config.n_head, 40, config.n_embd // config.n_head)
            dynamic[name] = {2: "past"}
    return Entry(Decoder(GPT2LMHeadModel(config)), inputs, dynamic, ("dynamo",))


def image(model: nn.Module) -> Entry:
    return Entry(model, {"image": torch.randn(1, 3, 224, 224)}, {"image": {0: "batch"}})


def vit_tiny() -> Entry:
    import timm
    return image(timm.create_model("vit_tiny_patch16_224", pretrained=False))


def resnet50() -> Entry:
    import torchvision
    return image(torchvision.models.resnet50(weights=None))


def mobilenet_v2() -> Entry:
    import torchvision
    return image(torchvision.models.mobilenet_v2(weights=None))


class Convolution(nn.Sequential):
    def __init__(self, source: int, into: int, side: int = 1, stride: int = 1) -> None:
        super().__init__(nn.Conv2d(source, into, side, stride, side // 2, bias=False), nn.BatchNorm2d(into), nn.SiLU())


class Splits(nn.Module):
    """Half of a convolution's channels goes through some pairs of convolutions; what each of them gives is joined."""

    def __init__(self, source: int, into: int, pairs: int, around: bool) -> None:
        super().__init__()
        self.half, self.around = into // 2, around
        self.first, self.last = Convolution(source, into), Convolution((2 + pairs) * self.half, into)
        self.pairs = nn.ModuleList(nn.Sequential(*(Convolution(self.half, self.half, 3) for _ in range(2))) for _ in range(pairs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = list(self.first(x).split(self.half, 1))
        for pair in self.pairs:
            made = pair(parts[-1])
            parts.append(parts[-1] + made if self.around else made)
        return self.last(torch.cat(parts, 1))


class Detector(nn.Module):
    """A detector of YOLOv8n's sizes: 80 classes, boxes as distributions over 16 distances, on maps of three strides."""

    WIDTHS, CLASSES, DISTANCES = (16, 32, 64, 128, 256), 80, 16

    def __init__(self) -> None:
        super().__init__()
        a, b, c, d, e = self.WIDTHS
        self.stem = nn.Sequential(Convolution(3, a, 3, 2), Convolution(a, b, 3, 2), Splits(b, b, 1, True))
        self.third = nn.Sequential(Convolution(b, c, 3, 2), Splits(c, c, 2, True))
        self.fourth = nn.Sequential(Convolution(c, d, 3, 2), Splits(d, d, 2, True))
        self.fifth = nn.Sequential(Convolution(d, e, 3, 2), Splits(e, e, 1, True))
        self.narrow, self.wide = Convolution(e, e // 2), Convolution(2 * e, e)
        self.pool, self.up = nn.MaxPool2d(5, 1, 2), nn.Upsample(scale_factor=2)
        self.down1, self.down2 = Splits(e + d, d, 1, False), Splits(d + c, c, 1, False)
        self.stride1, self.up1 = Convolution(c, c, 3, 2), Splits(c + d, d, 1, False)
        self.stride2, self.up2 = Convolution(d, d, 3, 2), Splits(d + e, e, 1, False)
        self.boxes = nn.ModuleList(self.head(width, 64, 4 * self.DISTANCES) for width in (c, d, e))
        self.classes = nn.ModuleList(self.head(width, self.CLASSES, self.CLASSES) for width in (c, d, e))

    @staticmethod
    def head(source: int, width: int, into: int) -> nn.Module:
        return nn.Sequential(Convolution(source, width, 3), Convolution(width, width, 3), nn.Conv2d(width, into, 1))

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        third = self.third(self.stem(image))
        fourth = self.fourth(third)
        pools = [self.narrow(self.fifth(fourth))]
        for _ in range(3):
            pools.append(self.pool(pools[-1]))
        fifth = self.wide(torch.cat(pools, 1))
        fourth = self.down1(torch.cat([self.up(fifth), fourth], 1))
        third = self.down2(torch.cat([self.up(fourth), third], 1))
        fourth = self.up1(torch.cat([self.stride1(third), fourth], 1))
        fifth = self.up2(torch.cat([self.stride2(fourth), fifth], 1))
        found = []
        for boxes, classes, x in zip(self.boxes, self.classes, (third, fourth, fifth)):
            chances = boxes(x).flatten(2).unflatten(1, (4, self.DISTANCES)).softmax(2)
            distances = (chances * torch.arange(self.DISTANCES).view(1, 1, -1, 1)).sum(2)
            found.append(torch.cat([distances, classes(x).flatten(2).sigmoid()], 1))
        return torch.cat(found, 2)


def detector() -> Entry:
    return Entry(Detector(), {"image": torch.randn(1, 3, 640, 640)}, {})


class DecoderBlock(nn.Module):
    """One layer of a Qwen3-0.6B: 16 query heads, 8 key/value heads of 128, width 1024, feed-forward 3072, with its cache."""

    def __init__(self) -> None:
        super().__init__()
        from transformers import Qwen3Config
        from transformers.models.qwen3.modeling_qwen3 import Qwen3MLP, Qwen3RMSNorm
        self.heads, self.groups, self.size, width = 16, 8, 128, 1024
        config = Qwen3Config(hidden_size=width, intermediate_size=3072)
        self.q = nn.Linear(width, self.heads * self.size, bias=False)
        self.k, self.v = (nn.Linear(width, self.groups * self.size, bias=False) for _ in range(2))
        self.o = nn.Linear(self.heads * self.size, width, bias=False)
        self.q_norm, self.k_norm = Qwen3RMSNorm(self.size), Qwen3RMSNorm(self.size)
        self.norm1, self.norm2, self.mlp = Qwen3RMSNorm(width), Qwen3RMSNorm(width), Qwen3MLP(config)

    def rotate(self, t: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        frequency = 1.0 / (1e6 ** (torch.arange(0, self.size, 2).float() / self.size))
        angle = position[..., None].float() * frequency
        angle = torch.cat([angle, angle], dim=-1)[:, None]
        low, high = t.chunk(2, dim=-1)
        return t * angle.cos() + torch.cat([-high, low], dim=-1) * angle.sin()

    def forward(self, x: torch.Tensor, position: torch.Tensor, mask: torch.Tensor, past_key: torch.Tensor, past_value: torch.Tensor):
        batch, length, _ = x.shape
        h = self.norm1(x)
        q = self.rotate(self.q_norm(self.q(h).view(batch, length, self.heads, self.size)).transpose(1, 2), position)
        k = self.rotate(self.k_norm(self.k(h).view(batch, length, self.groups, self.size)).transpose(1, 2), position)
        v = self.v(h).view(batch, length, self.groups, self.size).transpose(1, 2)
        k, v = torch.cat([past_key, k], dim=2), torch.cat([past_value, v], dim=2)
        wide_k, wide_v = (t.repeat_interleave(self.heads // self.groups, dim=1) for t in (k, v))
        scores = q @ wide_k.transpose(-1, -2) * self.size ** -0.5 + mask
        context = (scores.softmax(-1) @ wide_v).transpose(1, 2).reshape(batch, length, -1)
        x = x + self.o(context)
        return x + self.mlp(self.norm2(x)), k, v


def qwen3_block() -> Entry:
    past, length = 96, 32
    inputs = {"x": torch.randn(1, length, 1024), "position": torch.arange(past, past + length)[None],
              "mask": torch.full((length, past + length), float("-inf")).triu(past + 1)[None, None],
              "past_key": torch.randn(1, 8, past, 128), "past_value": torch.randn(1, 8, past, 128)}
    dynamic = {"x": {1: "seq"}, "position": {1: "seq"}, "mask": {2: "seq", 3: "total"}, "past_key": {2: "past"}, "past_value": {2: "past"}}
    return Entry(DecoderBlock(), inputs, dynamic)


ZOO: dict[str, Callable[[], Entry]] = {"resnet50": resnet50, "mobilenet_v2": mobilenet_v2, "vit_tiny": vit_tiny, "bert_base": bert_base,
                                       "bert_2_layers": bert_2_layers,
                                       "gpt2": gpt2, "detector": detector, "gpt2_decode": gpt2_decode, "qwen3_block": qwen3_block}


def export(name: str, exporter: str, out: pathlib.Path) -> pathlib.Path | None:
    torch.manual_seed(SEED)
    entry = ZOO[name]()
    entry.module.eval()
    if exporter not in entry.exporters:
        return None
    path = out / f"{name}_{exporter}.onnx"
    arguments = dict(input_names=list(entry.inputs), opset_version=OPSET[exporter])
    varying = tuple(entry.dynamic.get(n, {}) for n in entry.inputs)
    if isinstance(entry.module, Decoder):  # its tensors of the cache are one parameter
        arguments["output_names"] = ["logits", *(name.replace("past", "present") for name in entry.inputs if name.startswith("past"))]
        varying = (varying[0], varying[1:])
    with torch.no_grad():
        if exporter == "torchscript":
            torch.onnx.export(entry.module, tuple(entry.inputs.values()), path, dynamo=False, dynamic_axes=entry.dynamic, **arguments)
        else:
            torch.onnx.export(entry.module, tuple(entry.inputs.values()), path, dynamo=True, external_data=False, verbose=False,
                              dynamic_shapes=varying, **arguments)
    return path


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("build/zoo"))
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of {', '.join(ZOO)}")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    options.out.mkdir(parents=True, exist_ok=True)
    failed = 0
    for name in options.names or ZOO:
        for exporter in OPSET:
            started = time.monotonic()
            try:
                path = export(name, exporter, options.out)
                said = f"{path.stat().st_size / 1e6:>8.1f} MB" if path else "not by this exporter"
            except Exception as error:  # an exporter that cannot do a model is reported, the others go on
                said = f"{type(error).__name__}: {str(error).strip().splitlines()[0][:140]}"
                failed += 1
            print(f"{name:<14} {exporter:<12} {said}  {time.monotonic() - started:.0f} s", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
