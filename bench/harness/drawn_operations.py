"""Single operations drawn by a seed: the generators of tests/attack, at the sizes of models.

Who draws a graph there looks for what is wrong, so it is small and odd; here one node is as large as in a model, has no special values, and its sizes
are known.
"""

from __future__ import annotations

import math
import pathlib
import sys

import numpy as np
import onnx

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests/attack"))
import draw  # noqa: E402
import generator  # noqa: E402
import peers  # noqa: E402
from graph import Graph, Refused  # noqa: E402

LEAST, MOST = 3_000, 3_000_000  # elements of a first operand
LARGEST = 8_000_000  # of any value
FEW = 16  # elements of what is taken for a parameter where it is of integers
ATTEMPTS = 8  # with one operator, until another is drawn
# Nothing is computed from their operands: how long they take is how long a run takes to begin.
IDLE = {"Constant", "Shape", "Size", "Identity", "Optional", "OptionalGetElement", "OptionalHasElement"}


Made = list  # of values


class Large(draw.Draw):
    def __init__(self, seed: tuple[int, ...], oldest: int) -> None:
        super().__init__(seed, oldest)
        self.special = self.large = False
        self.symbolic, self.constants = 0.0, 0.3
        self.elements = int(math.exp(self.rng.uniform(math.log(LEAST), math.log(MOST))))

    def draw_opset(self) -> int:
        return self.integer(18, 23)

    def among(self, least: int, most: int) -> int:
        """Small sizes as often as large ones; most often a multiple of eight where it is no small one."""
        size = round(math.exp(self.rng.uniform(math.log(least), math.log(most))))
        return size // 8 * 8 if size > 16 and self.chance(0.6) else size

    def width(self) -> int:
        return self.among(8, 512)

    def extent(self, low: int, high: int) -> int:
        return self.among(max(low, 4), 16 * high)

    def size(self, largest: int = 9) -> int:
        del largest
        return self.among(1, 64)

    def shape(self, low: int = 0, high: int = 4) -> tuple[int, ...]:
        rank = self.integer(max(1, low), max(1, high)) if high > 0 else 0
        sizes, left = [], self.elements
        for axis in range(rank):
            sizes.append(left if axis + 1 == rank else min(left, self.among(1, max(1, min(left, 1024)))))
            left = max(1, left // sizes[-1])
        return tuple(sizes[i] for i in self.rng.permutation(rank))

    def leaf(self, array: object, constant: bool | None = None) -> object:
        """Axes, sizes and other parameters are constants, as they are in models."""
        array = np.asarray(array)
        parameter = array.dtype.kind in "iu" and array.size <= FEW
        return super().leaf(array, True if parameter else constant)

    def integers(self, numbers: object, constant: bool | None = None, dtype: str = "int64") -> object:
        return super().integers(numbers, True, dtype)

    def dtype(self, kinds: str = "fiub") -> str:
        return "float32" if "f" in kinds and self.chance(0.85) else super().dtype(kinds)


# ---- operators that tests/attack draws in small sizes only


def recurrent(g: Large, op: str) -> Made:
    steps, batch, width, hidden = g.among(8, 128), g.choice([1, 1, 2, 4, 16]), g.among(16, 256), g.among(16, 256)
    gates, both = {"LSTM": 4, "GRU": 3, "RNN": 1}[op], g.chance(0.3)
    directions, rows = 1 + both, {"LSTM": 4, "GRU": 3, "RNN": 1}[op] * hidden
    weights = [g.leaf(g.rng.uniform(-0.1, 0.1, shape).astype(np.float32), True)
               for shape in ((directions, rows, width), (directions, rows, hidden), (directions, 2 * gates * hidden))]
    attributes = {"hidden_size": hidden, "direction": "bidirectional" if both else g.choice(["forward", "reverse"])}
    return g.emit(op, [g.fresh((steps, batch, width), constant=False), *weights], attributes, 2)


def attention(g: Large, op: str) -> Made:
    batch, heads, words, depth = g.choice([1, 1, 2]), g.choice([2, 4, 8, 12]), g.among(8, 384), g.choice([16, 32, 64, 80])
    operands = [g.leaf(g.rng.uniform(-1, 1, (batch, heads, words, depth)).astype(np.float32), False) for _ in range(3)]
    return g.emit(op, operands, {"is_causal": g.choice([None, 1])})


def bytes_of(g: Large, shape: tuple[int, ...], constant: bool) -> object:
    kind = g.choice(["uint8", "int8"]) if constant else "uint8"
    return g.leaf(g.rng.integers(0 if kind == "uint8" else -100, 100, shape).astype(kind), constant)


def quantum(g: Large, zero: object) -> list:
    return [g.leaf(np.float32(g.rng.uniform(0.01, 0.1)), True), g.leaf(np.zeros((), zero.dtype), True)]


def products_of_bytes(g: Large, op: str) -> Made:
    rows, depth, columns = g.among(1, 512), g.among(16, 1024), g.among(16, 1024)
    return of_bytes(g, op, bytes_of(g, (rows, depth), False), bytes_of(g, (depth, columns), True), {})


def convolutions_of_bytes(g: Large, op: str) -> Made:
    channels, filters, side, kernel = g.among(3, 128), g.among(8, 128), g.among(7, 64), g.choice([1, 3])
    image, weights = bytes_of(g, (1, channels, side, side), False), bytes_of(g, (filters, channels, kernel, kernel), True)
    return of_bytes(g, op, image, weights, {"pads": [kernel // 2] * 4})


def of_bytes(g: Large, op: str, left: object, right: object, attributes: dict) -> Made:
    if op in ("MatMulInteger", "ConvInteger"):
        return g.emit(op, [left, right], attributes)
    result = [g.leaf(np.float32(20.0), True), g.leaf(np.uint8(128), True)]
    return g.emit(op, [left, *quantum(g, left), right, *quantum(g, right), *result], attributes)


def grid_sample(g: Large, op: str) -> Made:
    image = g.fresh((1, g.among(1, 64), g.among(8, 96), g.among(8, 96)), constant=False)
    grid = g.leaf(g.rng.uniform(-1.1, 1.1, (1, g.among(8, 96), g.among(8, 96), 2)).astype(np.float32), False)
    return g.emit(op, [image, grid], {"mode": g.choice(["linear", "nearest"]), "align_corners": g.choice([0, 1])})


def microsoft(g: Large, op: str) -> Made:
    name, width = op.removeprefix("com.microsoft."), g.among(32, 1024)
    x = g.fresh((g.choice([1, 2]), g.among(4, 384), width), constant=False)
    line = lambda: g.leaf(g.rng.uniform(0.5, 1.5, width).astype(np.float32), True)  # noqa: E731
    operands = {"SkipLayerNormalization": lambda: [x, g.fresh(x.shape, constant=False), line(), line()],
                "SkipSimplifiedLayerNormalization": lambda: [x, g.fresh(x.shape, constant=False), line()],
                "BiasGelu": lambda: [x, line()], "FusedMatMul": lambda: [x, g.fresh((width, g.among(8, 512)), constant=True)]}
    return g.emit(name, operands.get(name, lambda: [x])(), domain="com.microsoft")


SIZED = {
    "LSTM": recurrent, "GRU": recurrent, "RNN": recurrent, "Attention": attention, "GridSample": grid_sample,
    "MatMulInteger": products_of_bytes, "QLinearMatMul": products_of_bytes,
    "ConvInteger": convolutions_of_bytes, "QLinearConv": convolutions_of_bytes,
    **{f"com.microsoft.{name}": microsoft for name in ("SkipLayerNormalization", "SkipSimplifiedLayerNormalization", "BiasGelu", "FusedMatMul",
                                                       "Gelu", "FastGelu", "QuickGelu")},
}


def runs(model: onnx.ModelProto) -> bool:
    try:
        peers.runtime_session(model)
    except Exception:  # of several unrelated types
        return False
    return True


def operation(seed: int, number: int) -> tuple[str, onnx.ModelProto, dict[str, np.ndarray]] | None:
    """The name, the model and what it is fed; nothing where ONNX Runtime runs none of what was drawn."""
    draw.LARGEST = LARGEST
    names = [op for op in generator.operators_of(23) if op not in IDLE]
    for attempt in range(200):
        op = names[int(np.random.default_rng((seed, number, attempt // ATTEMPTS)).integers(len(names)))]
        g = Large((seed, number, attempt), draw.since(op))
        try:
            SIZED.get(op, generator.MAKERS[op])(g, op)
        except (Refused, MemoryError, ValueError):
            continue
        graph = whole(g)
        if not graph.steps or sum(leaf.array.size for leaf in graph.leaves.values()) < LEAST // 4:
            continue  # what it reads is small whatever was asked for
        model = graph.model(g.values())
        if not generator.invalid(model) and runs(model):
            return op, model, graph.feed()
    return None


def whole(g: Large) -> Graph:
    graph = g.graph
    read = {name for step in graph.steps for name in step.reads}
    graph.outputs = [name for step in graph.steps for name in step.makes if name not in read]
    for name in graph.outputs:
        graph.declared[name] = list(g.values()[name].shape)
    graph = graph.pruned()
    for leaf in graph.leaves.values():
        leaf.dims = list(leaf.array.shape)
    return graph
