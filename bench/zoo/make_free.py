#!/usr/bin/env python3
"""Exports models whose sizes are free, with random weights: what people run at dynamic shapes.

    python bench/zoo/make_free.py [--out build/zoo/free] [NAME ...]

Writes OUT/NAME.onnx, and OUT/NAME.json: the sizes it is to be measured at, for bench/twins. The seed is fixed. Needs torch, torchvision, transformers, onnx.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import sys
import warnings

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import make_zoo  # noqa: E402
import torch  # noqa: E402
from torch import nn  # noqa: E402

SEED, OPSET = 7, 17
WINDOW, HOP, MELS = 400, 160, 80


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        from transformers import BertConfig, BertModel
        self.model = BertModel(BertConfig(hidden_size=256, num_hidden_layers=4, num_attention_heads=4, intermediate_size=1024, vocab_size=2000,
                                          attn_implementation="eager"))

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return self.model(input_ids=ids, attention_mask=mask).last_hidden_state


class Attention(nn.Module):
    def __init__(self, width: int, heads: int = 8) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.feed = nn.Sequential(nn.Linear(width, 2 * width), nn.SiLU(), nn.Linear(2 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(self.before(x)).reshape(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        weights = ((q * (width // self.heads) ** -0.5) @ k.transpose(-1, -2)).softmax(-1)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(batch, length, width))
        return x + self.feed(self.between(x))


def separable(source: int, into: int, stride: tuple[int, int] = (1, 1), window: int = 3) -> nn.Module:
    return nn.Sequential(nn.Conv2d(source, source, window, stride, window // 2, groups=source, bias=False), nn.BatchNorm2d(source), nn.Hardswish(),
                         nn.Conv2d(source, into, 1, bias=False), nn.BatchNorm2d(into), nn.Hardswish())


class Recogniser(nn.Module):
    """Lines of text: a convolutional stem over images 48 pixels high, then an LSTM or attention along the width."""

    def __init__(self, recurrent: bool) -> None:
        super().__init__()
        self.recurrent = recurrent
        self.stem = nn.Sequential(nn.Conv2d(3, 32, 3, 2, 1, bias=False), nn.BatchNorm2d(32), nn.Hardswish(), separable(32, 64), separable(64, 128, (2, 1)),
                                  separable(128, 128), separable(128, 256, (2, 1)), separable(256, 256, window=5), separable(256, 256, window=5),
                                  separable(256, 512, (2, 1), 5), separable(512, 512, window=5), nn.AvgPool2d((3, 2)))
        self.along = nn.LSTM(512, 96, 2, bidirectional=True) if recurrent else nn.Sequential(nn.Linear(512, 192), Attention(192), Attention(192))
        self.letters = nn.Linear(192, 1000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x).squeeze(2)
        x = self.along(x.permute(2, 0, 1))[0].transpose(0, 1) if self.recurrent else self.along(x.permute(0, 2, 1))
        return self.letters(x).softmax(-1)


class MelFrontEnd(nn.Module):
    """A Fourier transform as a convolution, as exporters of speech models write it."""

    def __init__(self) -> None:
        super().__init__()
        times, frequencies, window = torch.arange(WINDOW).float(), torch.arange(WINDOW // 2 + 1).float(), torch.hann_window(WINDOW)
        angles = 2 * torch.pi * frequencies[:, None] * times / WINDOW
        self.register_buffer("waves", torch.cat([angles.cos() * window, -angles.sin() * window])[:, None])
        self.register_buffer("mel", torch.rand(MELS, WINDOW // 2 + 1))
        self.lines = nn.Sequential(nn.Conv1d(MELS, 128, 3, padding=1), nn.GELU(), nn.Conv1d(128, 128, 3, 2, padding=1), nn.GELU())
        self.out = nn.Linear(128, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        padded = nn.functional.pad(x[:, None], (WINDOW // 2, WINDOW // 2), mode="reflect")
        real, imaginary = nn.functional.conv1d(padded, self.waves, stride=HOP).chunk(2, 1)
        mel = torch.log10(torch.clamp(self.mel @ (real * real + imaginary * imaginary), min=1e-10))
        mel = torch.maximum(mel, mel.amax((1, 2), keepdim=True) - 8)
        return self.out(self.lines((mel + 4) / 4).transpose(1, 2))


class Spectrogram(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("window", torch.hann_window(WINDOW))
        self.register_buffer("mel", torch.rand(MELS, WINDOW // 2 + 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = torch.stft(x, WINDOW, HOP, window=self.window, return_complex=False, center=True)
        return torch.log(self.mel @ (parts ** 2).sum(-1) + 1e-6)


class Unet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.high, self.middle, self.low = self.block(3, 32), self.block(32, 64, 2), self.block(64, 128, 2)
        self.attention, self.turned = Attention(128, 4), nn.ConvTranspose2d(128, 128, 2, 2)
        self.up1, self.up2, self.out = self.block(192, 64), self.block(96, 32), nn.Conv2d(32, 3, 1)

    @staticmethod
    def block(source: int, into: int, stride: int = 1) -> nn.Module:
        return nn.Sequential(nn.Conv2d(source, into, 3, stride, 1), nn.GroupNorm(8, into), nn.SiLU())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        high = self.high(x)
        middle = self.middle(high)
        low = self.low(middle)
        shape = low.shape
        low = self.attention(low.flatten(2).transpose(1, 2)).transpose(1, 2).reshape(shape)
        up = self.up1(torch.cat([self.turned(low), middle], 1))
        up = nn.functional.interpolate(up, scale_factor=2, mode="bilinear", align_corners=False)
        return self.out(self.up2(torch.cat([up, high], 1)))


def resnet18() -> nn.Module:
    import torchvision
    return torchvision.models.resnet18(weights=None)


IMAGE, LINE, WAVE = {0: "batch", 2: "height", 3: "width"}, {0: "batch", 3: "width"}, {0: "batch", 1: "samples"}
TEXT = {0: "batch", 1: "length"}
MODELS = {
    "detector": (make_zoo.Detector, {"x": (1, 3, 320, 320)}, IMAGE),
    "encoder": (Encoder, {"ids": (2, 128), "mask": (2, 128)}, TEXT),
    "recogniser_lstm": (lambda: Recogniser(True), {"x": (1, 3, 48, 320)}, LINE),
    "recogniser_attention": (lambda: Recogniser(False), {"x": (1, 3, 48, 320)}, LINE),
    "mel": (MelFrontEnd, {"x": (1, 48000)}, WAVE),
    "spectrogram": (Spectrogram, {"x": (1, 48000)}, WAVE),
    "unet": (Unet, {"x": (1, 3, 128, 128)}, IMAGE),
    "resnet18": (resnet18, {"x": (1, 3, 224, 224)}, IMAGE),
}


def sizes_of(name: str) -> dict[str, int]:
    """The example's, by the names of its free sizes."""
    _, inputs, free = MODELS[name]
    shape = next(iter(inputs.values()))
    return {size: shape[axis] for axis, size in free.items()}


def export(name: str, path: pathlib.Path) -> None:
    make, shapes, free = MODELS[name]
    torch.manual_seed(SEED)
    module = make().eval()
    for part in module.modules():
        if isinstance(part, nn.modules.batchnorm._BatchNorm):
            part.running_mean.normal_(0, 0.1)
            part.running_var.uniform_(0.8, 1.2)
    values = {"ids": lambda shape: torch.randint(0, 2000, shape), "mask": lambda shape: torch.ones(shape, dtype=torch.int64)}
    inputs = [values.get(key, torch.randn)(shape) for key, shape in shapes.items()]
    with torch.no_grad(), warnings.catch_warnings(action="ignore"):
        torch.onnx.export(module, tuple(inputs), path, dynamo=False, dynamic_axes={key: free for key in shapes}, input_names=list(shapes), opset_version=OPSET)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of {', '.join(MODELS)}")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("build/zoo/free"))
    options = parser.parse_args()
    if unknown := [name for name in options.names if name not in MODELS]:
        parser.error(f"no model is called {unknown[0]}; there are {', '.join(MODELS)}")
    options.out.mkdir(parents=True, exist_ok=True)
    for name in options.names or MODELS:
        export(name, options.out / f"{name}.onnx")
        sizes = [f"{size}={count}" for size, count in sizes_of(name).items()]
        (options.out / f"{name}.json").write_text(json.dumps(sizes) + "\n", encoding="utf-8")
        print(f"{name:22} {' '.join(sizes)}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
