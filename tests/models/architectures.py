"""The networks behind tests/models: each is what a real exporter meets, reduced to a few thousand weights.

An entry of MODELS gives a module, the arrays it is called with, and the dimensions that stay symbolic.
Widths are small and inputs short so that every export together stays within a few megabytes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn


@dataclasses.dataclass
class Example:
    module: nn.Module
    inputs: dict[str, torch.Tensor]
    dynamic: dict[str, dict[int, str]] = dataclasses.field(default_factory=dict)
    exporters: tuple[str, ...] = ("dynamo", "torchscript")


def _normal(*shape: int) -> torch.Tensor:
    return torch.randn(*shape)


class BertLayer(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.output = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape

        def split(t: torch.Tensor) -> torch.Tensor:
            return t.view(batch, length, self.heads, width // self.heads).transpose(1, 2)

        q, k, v = split(self.query(x)), split(self.key(x)), split(self.value(x))
        scores = q @ k.transpose(-1, -2) / (width // self.heads) ** 0.5 + mask
        context = (scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, length, width)
        x = self.norm1(x + self.output(context))
        return self.norm2(x + self.down(F.gelu(self.up(x))))


class Bert(nn.Module):
    """Post-norm encoder with token, position and type embeddings, an additive mask and a tanh pooler."""

    def __init__(self, vocabulary: int = 60, width: int = 24, heads: int = 3, layers: int = 2) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(32, width)
        self.types, self.norm = nn.Embedding(2, width), nn.LayerNorm(width)
        self.layers = nn.ModuleList(BertLayer(width, heads) for _ in range(layers))
        self.pooler = nn.Linear(width, width)

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor, token_type_ids: torch.Tensor):
        position = torch.arange(input_ids.shape[1], device=input_ids.device)
        x = self.norm(self.tokens(input_ids) + self.positions(position) + self.types(token_type_ids))
        mask = (1.0 - attention_mask[:, None, None, :].to(x.dtype)) * -1e4
        for layer in self.layers:
            x = layer(x, mask)
        return x, torch.tanh(self.pooler(x[:, 0]))


def bert(symbolic: bool = False) -> Example:
    mask = torch.ones(2, 7, dtype=torch.int64)
    mask[1, 5:] = 0
    inputs = {"input_ids": torch.randint(0, 60, (2, 7)), "attention_mask": mask,
              "token_type_ids": torch.randint(0, 2, (2, 7))}
    dynamic = {name: {0: "batch", 1: "seq"} for name in inputs} if symbolic else {}
    return Example(Bert(), inputs, dynamic)


class Gpt2Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.output = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor, past: torch.Tensor):
        batch, length, width = x.shape
        q, k, v = (t.view(batch, length, self.heads, -1).transpose(1, 2)
                   for t in self.qkv(self.norm1(x)).split(width, dim=2))
        k, v = torch.cat([past[0], k], dim=2), torch.cat([past[1], v], dim=2)
        total = k.shape[2]
        causal = torch.ones(length, total, dtype=torch.bool).tril(total - length)
        scores = (q @ k.transpose(-1, -2) * (width // self.heads) ** -0.5).masked_fill(~causal, float("-inf"))
        x = x + self.output((scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh")), torch.stack([k, v])


class Gpt2(nn.Module):
    """Pre-norm decoder with a key/value cache, tanh GELU and tied output weights."""

    def __init__(self, vocabulary: int = 50, width: int = 24, heads: int = 2, layers: int = 2) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(32, width)
        self.blocks = nn.ModuleList(Gpt2Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    def forward(self, input_ids: torch.Tensor, past0: torch.Tensor, past1: torch.Tensor):
        start = past0.shape[3]
        position = torch.arange(start, start + input_ids.shape[1])
        x = self.tokens(input_ids) + self.positions(position)
        presents = []
        for block, past in zip(self.blocks, (past0, past1)):
            x, present = block(x, past)
            presents.append(present)
        return self.norm(x) @ self.tokens.weight.t(), *presents


def gpt2() -> Example:
    inputs = {"input_ids": torch.randint(0, 50, (1, 4)), "past0": _normal(2, 1, 2, 3, 12),
              "past1": _normal(2, 1, 2, 3, 12)}
    return Example(Gpt2(), inputs)


class VisionTransformer(nn.Module):
    """Patches by convolution, a class token, scaled_dot_product_attention and a classifier."""

    def __init__(self, width: int = 24, heads: int = 3, layers: int = 2) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 4, stride=4)
        self.token = nn.Parameter(_normal(1, 1, width))
        self.position = nn.Parameter(_normal(1, 17, width))
        layer = nn.TransformerEncoderLayer(width, heads, 2 * width, 0.0, "gelu", batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 10)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        x = self.patches(image).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], dim=1) + self.position
        return self.head(self.norm(self.encoder(x))[:, 0])


class RmsNorm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(width) + 0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


class QwenBlock(nn.Module):
    """Grouped-query attention with rotary positions, query/key norms and a gated feed-forward part."""

    def __init__(self, width: int = 32, heads: int = 4, groups: int = 2, size: int = 8, hidden: int = 48) -> None:
        super().__init__()
        self.heads, self.groups, self.size = heads, groups, size
        self.q, self.o = nn.Linear(width, heads * size, bias=False), nn.Linear(heads * size, width, bias=False)
        self.k, self.v = (nn.Linear(width, groups * size, bias=False) for _ in range(2))
        self.gate, self.up = (nn.Linear(width, hidden, bias=False) for _ in range(2))
        self.down = nn.Linear(hidden, width, bias=False)
        self.norm1, self.norm2 = RmsNorm(width), RmsNorm(width)
        self.q_norm, self.k_norm = RmsNorm(size), RmsNorm(size)

    def _rotate(self, t: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        frequency = 1.0 / (1e6 ** (torch.arange(0, self.size, 2).to(t.dtype) / self.size))
        angle = position[..., None].to(t.dtype) * frequency
        angle = torch.cat([angle, angle], dim=-1)[:, None]
        low, high = t.chunk(2, dim=-1)
        return t * angle.cos() + torch.cat([-high, low], dim=-1) * angle.sin()

    def forward(self, x: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        batch, length, _ = x.shape
        h = self.norm1(x)
        q = self._rotate(self.q_norm(self.q(h).view(batch, length, self.heads, self.size)).transpose(1, 2), position)
        k = self._rotate(self.k_norm(self.k(h).view(batch, length, self.groups, self.size)).transpose(1, 2), position)
        v = self.v(h).view(batch, length, self.groups, self.size).transpose(1, 2)
        k, v = (t.repeat_interleave(self.heads // self.groups, dim=1) for t in (k, v))
        context = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(context.transpose(1, 2).reshape(batch, length, -1))
        h = self.norm2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


def qwen() -> Example:
    return Example(QwenBlock(), {"x": _normal(1, 6, 32), "position": torch.arange(6)[None] + 3})


def conv_bn(inputs: int, outputs: int, size: int = 3, activation: type[nn.Module] | None = nn.ReLU, **kwargs):
    kwargs.setdefault("padding", size // 2)
    layers = [nn.Conv2d(inputs, outputs, size, bias=False, **kwargs), nn.BatchNorm2d(outputs)]
    return nn.Sequential(*layers, *([activation()] if activation else []))


class Residual(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(conv_bn(inputs, outputs, stride=stride), conv_bn(outputs, outputs, activation=None))
        self.skip = conv_bn(inputs, outputs, 1, None, stride=stride) if stride > 1 else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.body(x) + self.skip(x))


def resnet() -> Example:
    module = nn.Sequential(conv_bn(3, 8, 7, stride=2), nn.MaxPool2d(3, 2, 1), Residual(8, 8, 1), Residual(8, 16, 2),
                           nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10))
    return Example(module, {"image": _normal(2, 3, 32, 32)})


class InvertedResidual(nn.Module):
    def __init__(self, width: int, expanded: int) -> None:
        super().__init__()
        self.body = nn.Sequential(conv_bn(width, expanded, 1, nn.ReLU6),
                                  conv_bn(expanded, expanded, 3, nn.Hardswish, groups=expanded),
                                  SqueezeExcite(expanded), conv_bn(expanded, width, 1, None))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.body(x)


class SqueezeExcite(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.down, self.up = nn.Conv2d(width, width // 4, 1), nn.Conv2d(width // 4, width, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * F.hardsigmoid(self.up(F.relu(self.down(F.adaptive_avg_pool2d(x, 1)))))


def mobilenet() -> Example:
    module = nn.Sequential(conv_bn(3, 8, stride=2, activation=nn.Hardswish), InvertedResidual(8, 24),
                           conv_bn(8, 8, 5, nn.ReLU6, stride=2, groups=8), conv_bn(8, 16, 1, nn.SiLU),
                           nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10))
    return Example(module, {"image": _normal(1, 3, 24, 24)})


class Recurrent(nn.Module):
    def __init__(self, kind: type[nn.RNNBase], **kwargs) -> None:
        super().__init__()
        self.cell = kind(6, 8, batch_first=True, **kwargs)
        self.head = nn.Linear(16 if kwargs.get("bidirectional") else 8, 3)

    def forward(self, x: torch.Tensor):
        sequence, state = self.cell(x)
        states = state if isinstance(state, tuple) else (state,)
        return self.head(sequence), *states


def recurrent(kind: type[nn.RNNBase], **kwargs) -> Callable[[], Example]:
    return lambda: Example(Recurrent(kind, **kwargs), {"x": _normal(2, 5, 6)})


class UNet(nn.Module):
    """Group norm going down, instance norm going up, dilated middle, transposed convolution and skips."""

    def __init__(self) -> None:
        super().__init__()
        self.down1 = nn.Sequential(nn.Conv2d(2, 8, 3, padding=1), nn.GroupNorm(4, 8), nn.SiLU())
        self.down2 = nn.Sequential(nn.Conv2d(8, 12, 3, 2, 1), nn.GroupNorm(3, 12), nn.SiLU())
        self.middle = nn.Sequential(nn.Conv2d(12, 12, 3, padding=2, dilation=2), nn.InstanceNorm2d(12, affine=True),
                                    nn.LeakyReLU(0.1))
        self.up = nn.ConvTranspose2d(12, 8, 3, 2, 1, output_padding=1)
        self.join = nn.Sequential(nn.Conv2d(16, 8, 3, padding=1), nn.InstanceNorm2d(8), nn.Mish())
        self.head = nn.Conv2d(8, 2, 1)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        fine = self.down1(image)
        coarse = self.middle(self.down2(fine))
        return torch.sigmoid(self.head(self.join(torch.cat([fine, self.up(coarse)], dim=1))))


class Convolutions(nn.Module):
    """Every kind of convolution that changes how windows are walked."""

    def __init__(self) -> None:
        super().__init__()
        self.dilated = nn.Conv2d(4, 6, 3, padding=(2, 3), dilation=(2, 3), stride=(1, 2))
        self.grouped = nn.Conv2d(6, 6, (1, 3), groups=3, padding=(0, 1))
        self.transposed = nn.ConvTranspose2d(6, 4, 4, stride=(2, 3), padding=1, output_padding=(0, 1), groups=2)
        self.transposed_dilated = nn.ConvTranspose2d(4, 2, 3, dilation=2)
        self.line = nn.Conv1d(2, 3, 5, padding=4, dilation=2)
        self.volume = nn.Conv3d(1, 2, (2, 3, 3), padding=(0, 1, 1))

    def forward(self, image: torch.Tensor, volume: torch.Tensor):
        x = self.grouped(torch.relu(self.dilated(image)))
        x = self.transposed_dilated(torch.relu(self.transposed(x)))
        return self.line(x.mean(2)), F.max_pool3d(self.volume(volume), 2), F.avg_pool2d(x, 3, 2, 1, True, False)


class Resizes(nn.Module):
    def forward(self, image: torch.Tensor):
        return (F.interpolate(image, scale_factor=2.0, mode="nearest"),
                F.interpolate(image, size=(7, 5), mode="bilinear", align_corners=False),
                F.interpolate(image, size=(9, 11), mode="bilinear", align_corners=True),
                F.interpolate(image, size=(9, 4), mode="bicubic", align_corners=False),
                F.interpolate(image[:, :, 0], scale_factor=1.5, mode="linear", align_corners=False))


class GridSampling(nn.Module):
    def forward(self, image: torch.Tensor, grid: torch.Tensor):
        return (F.grid_sample(image, grid, mode="bilinear", padding_mode="zeros", align_corners=False),
                F.grid_sample(image, grid, mode="bicubic", padding_mode="border", align_corners=True),
                F.grid_sample(image, grid, mode="nearest", padding_mode="reflection", align_corners=False),
                F.pixel_shuffle(image.repeat(1, 2, 1, 1), 2))


class Einsums(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor):
        return (torch.einsum("bhid,bhjd->bhij", a, b), torch.einsum("bhid,hde->bie", a, c),
                torch.einsum("...id,...jd->...j", a, b), torch.einsum("hdd->hd", c), torch.einsum("hde->", c))


class Ordering(nn.Module):
    def forward(self, x: torch.Tensor):
        values, places = torch.topk(x, 3, dim=-1)
        small, small_places = torch.topk(x, 2, dim=0, largest=False)
        ordered, order = torch.sort(x, dim=1, descending=True)
        return (values, places, small, small_places, ordered, order, torch.cumsum(x, dim=1), x.argmax(-1), x.argmin(0),
                x.amax(dim=(0, 1)), torch.logsumexp(x, dim=-1), x.std(dim=1), x.cumsum(0).flip(1))


class Scattering(nn.Module):
    def forward(self, x: torch.Tensor, index: torch.Tensor, value: torch.Tensor, row: torch.Tensor):
        placed = x.clone()
        placed[row] = value[: row.shape[0]]
        added = x.index_put((row,), value[: row.shape[0]], accumulate=True)
        sliced = x.clone()
        sliced[:, 1:4:2] = 7.0
        return (x.scatter(1, index, value), x.scatter_add(0, index, value), placed, added, sliced,
                x.gather(1, index), x.index_select(0, row), x[row, 2], torch.where(x > 0, x, value))


def scattering() -> Example:
    index = torch.stack([torch.randperm(5) for _ in range(5)])
    inputs = {"x": _normal(5, 5), "index": index, "value": _normal(5, 5), "row": torch.tensor([3, 0, 4])}
    return Example(Scattering(), inputs)


class Elementwise(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor):
        positive = x.abs() + 0.5
        return (torch.erf(x) * torch.exp(-y.abs()), torch.log(positive) + torch.sqrt(positive), torch.sin(x) * torch.cos(y),
                torch.atan(x) + torch.asin(y.tanh()), F.elu(x) + F.selu(y), F.softplus(x), F.celu(y, 0.7), F.gelu(x),
                torch.floor(x * 3) + torch.ceil(y * 3) + torch.round(x * 5 + 0.1), torch.fmod(x * 4, 1.5),
                torch.remainder(x * 4, 1.5), torch.clamp(x, -0.5, 0.5), torch.maximum(x, y), torch.sign(y), torch.pow(positive, y),
                (x > y) & (x < 1), torch.isnan(torch.log(x)), x.to(torch.int32), x.to(torch.float16).to(torch.float32))


class Movement(nn.Module):
    def forward(self, x: torch.Tensor):
        return (x.permute(2, 0, 1).contiguous().view(-1, 6), x.unsqueeze(1).expand(-1, 2, -1, -1), x[:, ::2, 1:-1],
                F.pad(x, (1, 2, 0, 1), value=0.5), F.pad(x, (2, 1), mode="reflect"), F.pad(x, (1, 1), mode="replicate"),
                torch.roll(x, 1, 2), x.repeat(1, 2, 1), torch.stack(x.unbind(0), 2), torch.cat(x.split([1, 2], 1), 1),
                x.flip(2), torch.tril(x), torch.triu(x, 1), x.unfold(2, 3, 2), F.one_hot(x.argmax(-1), 6))


class ControlFlow(nn.Module):
    """A loop whose length is data, with a branch inside: only scripting keeps both."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(_normal(4, 4) * 0.3)

    def forward(self, x: torch.Tensor, turns: torch.Tensor) -> torch.Tensor:
        count = int(turns.item())
        for turn in range(count):
            if turn % 2 == 0:
                x = torch.tanh(x @ self.weight) + 1.0
            else:
                x = x - 0.1 * x.sum(dim=1, keepdim=True)
        return x


class WhileLoop(nn.Module):
    def forward(self, x: torch.Tensor, limit: torch.Tensor):
        steps = torch.zeros(1, dtype=torch.int64)
        while bool(x.abs().sum() < limit):
            x = x * 1.5
            steps = steps + 1
        if bool(steps > 3):
            y = x.mean(dim=0)
        else:
            y = x.amax(dim=0)
        return x, y, steps


class CondBranch(nn.Module):
    def forward(self, x: torch.Tensor):
        def positive(t: torch.Tensor):
            return t.relu() * 2.0

        def negative(t: torch.Tensor):
            return t.neg() - 1.0

        return torch.cond(x.sum() > 0, positive, negative, (x,))


class DynamicConv(nn.Module):
    """Symbolic batch, height and width with shape arithmetic between a pool and a resize."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 6, 3, padding=1)

    def forward(self, image: torch.Tensor):
        x = F.relu(self.conv(image))
        small = F.max_pool2d(x, 2)
        large = F.interpolate(small, size=x.shape[2:], mode="bilinear", align_corners=False)
        return (large + x).flatten(2).mean(-1), small.reshape(small.shape[0], -1, small.shape[3])


class Normalizations(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.batch, self.group, self.instance = nn.BatchNorm1d(6), nn.GroupNorm(2, 6), nn.InstanceNorm1d(6)
        self.layer, self.lrn = nn.LayerNorm([6, 5]), nn.LocalResponseNorm(3)

    def forward(self, x: torch.Tensor):
        return (self.batch(x), self.group(x), self.instance(x), self.layer(x), self.lrn(x), F.normalize(x, dim=1),
                F.softmax(x, 1), F.log_softmax(x, -1), F.softmin(x, 2), F.prelu(x, x.new_full((1,), 0.2)))


def simple(module: Callable[[], nn.Module], *names_and_shapes, **dynamic) -> Callable[[], Example]:
    shapes = dict(zip(names_and_shapes[::2], names_and_shapes[1::2]))
    return lambda: Example(module(), {name: _normal(*shape) for name, shape in shapes.items()}, dynamic)


def grid_sampling() -> Example:
    return Example(GridSampling(), {"image": _normal(1, 2, 5, 6), "grid": torch.rand(1, 3, 4, 2) * 2.2 - 1.1})


def scripted(module: nn.Module, inputs: dict[str, torch.Tensor]) -> Example:
    """Data-dependent control flow survives torch.jit.script only, which the newer exporter does not read."""
    return Example(torch.jit.script(module), inputs, exporters=("torchscript",))


def also_with(exporter: str, build: Callable[[], Example]) -> Callable[[], Example]:
    """For models that newer opsets express with ops older ones lack (Attention, RMSNormalization)."""
    return lambda: dataclasses.replace(build(), exporters=("dynamo", exporter, "torchscript"))


MODELS: dict[str, Callable[[], Example]] = {
    "bert": bert,
    "bert_dynamic": lambda: bert(symbolic=True),
    "gpt2": gpt2,
    "vit": also_with("dynamo23", simple(VisionTransformer, "image", (1, 3, 16, 16))),
    "qwen_block": also_with("dynamo23", qwen),
    "resnet": resnet,
    "mobilenet": mobilenet,
    "lstm": recurrent(nn.LSTM),
    "lstm_bidirectional": recurrent(nn.LSTM, bidirectional=True),
    "gru": recurrent(nn.GRU),
    "gru_bidirectional": recurrent(nn.GRU, bidirectional=True, num_layers=2),
    "rnn": recurrent(nn.RNN),
    "unet": simple(UNet, "image", (1, 2, 12, 12)),
    "convolutions": simple(Convolutions, "image", (1, 4, 9, 9), "volume", (1, 1, 4, 6, 6)),
    "resize": simple(Resizes, "image", (1, 2, 5, 6)),
    "grid_sample": grid_sampling,
    "einsum": simple(Einsums, "a", (2, 3, 4, 5), "b", (2, 3, 6, 5), "c", (3, 5, 5)),
    "ordering": simple(Ordering, "x", (4, 5, 6)),
    "scatter": scattering,
    "elementwise": simple(Elementwise, "x", (3, 7), "y", (1, 7)),
    "movement": simple(Movement, "x", (2, 3, 6)),
    "normalizations": simple(Normalizations, "x", (2, 6, 5)),
    "dynamic_conv": simple(DynamicConv, "image", (2, 3, 9, 8), image={0: "batch", 2: "height", 3: "width"}),
    "if_cond": lambda: Example(CondBranch(), {"x": _normal(3, 4)}, exporters=("dynamo",)),
    "loop_if": lambda: scripted(ControlFlow(), {"x": _normal(2, 4), "turns": torch.tensor(5)}),
    "while_if": lambda: scripted(WhileLoop(), {"x": _normal(3, 4), "limit": torch.tensor(40.0)}),
}
