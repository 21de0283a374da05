"""Models drawn by seed from timm, torchvision and transformers, with random weights; nothing is downloaded."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.append(str(ROOT / "tests/zoo"))  # which architectures of transformers take what
SHARES = {"timm": 0.5, "torchvision": 0.2, "transformers": 0.3}
NEEDED = ["torch", "timm", "torchvision", "transformers", "onnx", "onnxscript"]
MOST_PARAMETERS = 120_000_000
LARGEST_IMAGE = 384


class Unsuitable(Exception):
    """Why another model is drawn instead."""


@dataclasses.dataclass
class Sizes:
    batch: int = 1
    words: int = 128
    exporter: str = "dynamo"

    @staticmethod
    def drawn(seed: int, name: str) -> Sizes:
        """Sizes of one model, whatever others are drawn beside it."""
        rng = random.Random(f"{seed} {name}")
        return Sizes(rng.choice([1, 1, 1, 2, 4]), rng.choice([16, 32, 77, 128, 197, 256, 384, 512]), rng.choice(["dynamo", "dynamo", "torchscript"]))


def names_by_source() -> dict[str, list[str]]:
    import timm
    import torchvision
    import zoo_transformers
    return {"timm": sorted(timm.list_models()), "torchvision": sorted(torchvision.models.list_models(module=torchvision.models)),
            "transformers": sorted(name for name, kind in zoo_transformers.KINDS.items() if kind in ("text", "decoder", "vision"))}


def sequence(seed: int, names: dict[str, list[str]]) -> Iterator[tuple[str, str]]:
    rng = random.Random(seed)
    left = {source: rng.sample(all_names, len(all_names)) for source, all_names in names.items()}
    while any(left.values()):
        source = rng.choices(list(SHARES), list(SHARES.values()))[0]
        if left[source]:
            yield source, left[source].pop()


def built(torch, source: str, name: str, sizes: Sizes = Sizes()):  # noqa: B008: never changed
    """The model and its arguments, on the CPU."""
    if source == "look":
        from harness import look
        return look.built(torch, name)
    if source == "timm":
        import timm
        config = timm.get_pretrained_cfg(name)
        size = config.input_size if config else (3, 224, 224)
        make = lambda: timm.create_model(name, pretrained=False)  # noqa: E731
        arguments = {"x": lambda: torch.randn(sizes.batch, *size)}
    elif source == "torchvision":
        import torchvision
        size = (3, 299, 299) if name == "inception_v3" else (3, 224, 224)
        make = lambda: torchvision.models.get_model(name, weights=None)  # noqa: E731
        arguments = {"x": lambda: torch.randn(sizes.batch, *size)}
    else:
        import transformers
        import zoo_transformers
        config = transformers.AutoConfig.for_model(name)
        for field in ("num_hidden_layers", "n_layer", "n_layers"):
            if isinstance(getattr(config, field, None), int) and zoo_transformers.KINDS[name] == "decoder":
                setattr(config, field, min(4, getattr(config, field)))
        config.use_cache = False
        make = lambda: transformers.AutoModel.from_config(config)  # noqa: E731
        side = getattr(config, "image_size", 224)
        vision = zoo_transformers.KINDS[name] == "vision"
        size = (3, side, side) if vision and isinstance(side, int) else (3, 224, 224) if vision else (1,)
        words = min(sizes.words, getattr(config, "max_position_embeddings", sizes.words) or sizes.words)
        arguments = {"pixel_values": lambda: torch.randn(sizes.batch, *size)} if vision else \
            {"input_ids": lambda: torch.randint(0, min(config.vocab_size, 30000), (sizes.batch, words))}
    if max(size) > LARGEST_IMAGE:
        raise Unsuitable(f"images of {max(size)}")
    with contextlib.suppress(NotImplementedError, RuntimeError), torch.device("meta"):
        parameters = sum(one.numel() for one in make().parameters())
        if parameters > MOST_PARAMETERS:
            raise Unsuitable(f"{parameters / 1e6:.0f} million parameters")
    return make().eval(), {key: value() for key, value in arguments.items()}


def first_tensor(result):
    while not hasattr(result, "shape"):
        result = next(iter(result.values())) if isinstance(result, dict) else result[0]
    return result


def wrapped(torch, model, names: list[str]):
    class FirstResult(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, *arguments):
            return first_tensor(self.model(**dict(zip(names, arguments))) if names != ["x"] else self.model(*arguments))
    return FirstResult().eval()


def exported(torch, module, named: dict, path: str, exporter: str = "dynamo") -> None:
    try:
        torch.onnx.export(module, tuple(named.values()), path, input_names=list(named), output_names=["y"], dynamo=exporter == "dynamo",
                          opset_version={"dynamo": 18, "torchscript": 17}[exporter])
    except Exception as error:  # noqa: BLE001: whatever the exporter says
        raise Unsuitable(f"not exported: {(str(error).strip().splitlines() or ['?'])[0][:120]}") from error


def report_of(command: list, **environment: str) -> dict:
    """What a command prints with --json."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False,
                          env={**os.environ, **environment})
    if done.returncode:
        raise RuntimeError(f"xyntra {command[1]}: " + (done.stderr.strip() or f"exit {done.returncode}").split("\n")[-1][:200])
    return json.loads(done.stdout)


def geomean(values: list[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))
