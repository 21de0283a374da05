"""Random choices: sizes, types, arrays and special values; and the pool of values a graph is built from."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper

import peers
from graph import LARGEST, Graph, Leaf, Refused, Step, Value, operators

FLOATS = {"float32": 10, "float64": 1.5, "float16": 1.5}
INTEGERS = {"int64": 3, "int32": 3, "int8": 1, "uint8": 1.5, "int16": 0.5, "uint16": 0.3, "uint32": 0.3, "uint64": 0.3}
SPECIAL = [np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-40, -1e-42, 3e38, -3e38, 1e-38, 2.0**24, 0.5, -1.5, 2.5, 1e20]


class Draw:
    def __init__(self, seed: tuple[int, ...], oldest: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        self.graph = Graph(max(self.draw_opset(), oldest))
        self.pool: list[Value] = []
        self.peers: dict[int, peers.Peer] = {}
        self.arrays: dict[str, np.ndarray] = {}
        self.refusals: list[str] = []
        self.count = 0
        self.special = self.chance(0.3)
        self.large = self.chance(0.12)
        self.constants = self.choice([0.1, 0.4, 0.8])
        self.symbolic = self.choice([0.0, 0.3, 0.9])

    # Choices
    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def integer(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high + 1))

    def choice(self, options):
        return options[int(self.rng.integers(len(options)))]

    def weighted(self, weights: dict):
        names, numbers = list(weights), np.array(list(weights.values()), float)
        return names[int(self.rng.choice(len(names), p=numbers / numbers.sum()))]

    def some(self, options: list, least: int = 0) -> list:
        count = self.integer(min(least, len(options)), len(options))
        return [options[i] for i in sorted(self.rng.permutation(len(options))[:count])]

    def draw_opset(self) -> int:
        return self.integer(13, 23) if self.chance(0.7) else self.integer(24, 27)

    def extent(self, low: int, high: int) -> int:
        """A size that is small here whatever graphs are large."""
        return self.integer(low, high)

    def width(self) -> int:
        """A size of matrices and channels: past tiles and panels in large graphs."""
        return self.choice([1, 3, 4, 8, 16, 17] if not self.large else [16, 31, 32, 33, 48, 64, 65, 96, 100])

    def size(self, largest: int = 9) -> int:
        if self.large and self.chance(0.3):
            return self.choice([15, 31, 32, 33, 64, 65])
        return self.weighted({0: 0.01, 1: 0.15, 2: 0.15, 3: 0.15, 16: 0.04, 17: 0.04, self.integer(1, largest): 0.4})

    def shape(self, low: int = 0, high: int = 4) -> tuple[int, ...]:
        rank = self.integer(low, high)
        return tuple(self.size(9 if rank < 4 else 6) for _ in range(rank))

    def dtype(self, kinds: str = "fiub") -> str:
        table = (FLOATS if "f" in kinds else {}) | {n: w / 4 for n, w in INTEGERS.items() if n[0] in kinds}
        return self.weighted(table | ({"bool": 1.0} if "b" in kinds else {}))

    def array(self, shape, dtype="float32", low: float = -3, high: float = 3) -> np.ndarray:
        """Random values: on a grid of eighths, or of any bits; special ones where the graph has them."""
        dtype = np.dtype(dtype)
        if dtype.kind == "b":
            return np.asarray(self.rng.random(shape) < 0.5)
        if dtype.kind in "iu":
            low = max(low, 0) if dtype.kind == "u" else low
            return np.asarray(self.rng.integers(int(np.ceil(low)), int(np.floor(high)) + 1, shape)).astype(dtype)
        if self.chance(0.5):
            values = self.rng.integers(int(low * 8), int(high * 8) + 1, shape) / 8
        else:
            values = self.rng.uniform(low, high, shape) * self.choice([1, 1, 1, 0.01, 30])
        values = np.asarray(values, dtype)
        if self.special and self.chance(0.5) and values.size:
            values = values.copy()
            for _ in range(self.integer(1, 4)):
                values.flat[self.integer(0, values.size - 1)] = self.choice(SPECIAL)
        return values

    # Values
    def name(self, stem: str) -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def leaf(self, array, constant: bool | None = None) -> Value:
        array = np.asarray(array)
        name = self.name("x")
        constant = self.chance(self.constants) if constant is None else constant
        self.graph.leaves[name] = Leaf(array, constant)
        return Value(name, array)

    def fresh(self, shape, dtype="float32", constant: bool | None = None, **bounds) -> Value:
        return self.leaf(self.array(shape, dtype, **bounds), constant)

    def pick(self, kinds: str = "f", low: int = 0, high: int = 6, dtype=None, ok=lambda v: True, new=0.12) -> Value:
        """A value of the pool, recent ones more often, or a new leaf."""
        fits = [
            v
            for v in self.pool
            if v.kind in kinds and low <= v.rank <= high and (dtype is None or v.dtype == dtype) and ok(v)
        ]
        if fits and not self.chance(new):
            return fits[-1] if self.chance(0.5) else self.choice(fits)
        for _ in range(20):
            value = self.fresh(self.shape(low, max(low, min(high, 4))), dtype or self.dtype(kinds), constant=False)
            if ok(value):
                self.pool.append(value)
                return value
            del self.graph.leaves[value.name]
        raise Refused("nothing fits")

    def ranked(self, rank: int, kinds: str = "f", dtype=None, ok=lambda v: True, new=0.12) -> Value:
        """As `pick`, with a rank; a value of another rank is reshaped now and then."""
        others = [
            v
            for v in self.pool
            if v.kind in kinds and v.rank != rank and (dtype is None or v.dtype == dtype) and v.array.size
        ]
        if others and self.chance(0.5):
            value = others[-1] if self.chance(0.6) else self.choice(others)
            shape = (
                (1,) * (rank - value.rank) + value.shape
                if value.rank < rank
                else (value.shape[: rank - 1] + (int(np.prod(value.shape[rank - 1 :])),) if rank else None)
            )
            if shape is not None:
                [value] = self.emit("Reshape", [value, self.integers(shape)])
                if ok(value):
                    return value
        return self.pick(kinds, rank, rank, dtype, ok, new)

    def weights(self, shape, dtype) -> Value:
        """Of a contraction: no product overflows, which a fused multiply-add would not; special values are few."""
        array = self.array(shape, dtype)
        huge = np.isfinite(array) & (np.abs(array) > 1000)
        return self.leaf(np.where(huge, np.ones((), dtype), array), constant=self.chance(0.6))

    def plain(self, value: Value, shape) -> Value:
        """Parameters of a normalisation: numbers of moderate size."""
        return self.leaf(self.rng.uniform(-2, 2, shape).astype(value.dtype))

    def like(self, value: Value, shape=None, **bounds) -> Value:
        """An operand for `value`: of its shape, or one that broadcasts to it; the pool's or a new leaf; itself now and
        then."""
        if shape is None and self.chance(0.15):
            return value
        shape = self.broadcastable(value.shape) if shape is None else tuple(shape)
        fits = [v for v in self.pool if v.dtype == value.dtype and v.shape == shape]
        if fits and self.chance(0.6):
            return self.choice(fits)
        return self.fresh(shape, value.dtype, **bounds)

    def broadcastable(self, shape) -> tuple[int, ...]:
        if self.chance(0.4):
            return tuple(shape)
        kept = shape[self.integer(0, len(shape)) :] if self.chance(0.5) else shape
        return tuple(1 if self.chance(0.3) else size for size in kept)

    def integers(self, numbers, constant: bool | None = None, dtype="int64") -> Value:
        """A vector of sizes or axes: a constant, an input, or computed from shapes of other values."""
        numbers = np.asarray(numbers, dtype).reshape(-1)
        constant = self.chance(0.7) if constant is None else constant
        sources = [v for v in self.pool if set(v.shape) & set(numbers.tolist())]
        if constant or dtype != "int64" or not sources or self.chance(0.4):
            return self.leaf(numbers, constant)
        source, parts = self.choice(sources), []
        [shape] = self.emit("Shape", [source], keep=False)
        for number in numbers.tolist():
            if number in source.shape and self.chance(0.8):
                place = self.leaf(np.array([source.shape.index(number)]), True)
                parts += self.emit("Gather", [shape, place], keep=False)
            else:
                parts.append(self.leaf(np.array([number]), True))
        return self.emit("Concat", parts, {"axis": 0}, keep=False)[0]

    def axis(self, rank: int) -> int:
        axis = self.integer(0, rank - 1)
        return axis - rank if self.chance(0.4) else axis

    def axes(self, rank: int, least: int = 0) -> list[int]:
        return [a - rank if self.chance(0.3) else a for a in self.some(list(range(rank)), least)]

    # Nodes
    def node(
        self, op: str, inputs, outputs: list[str], attributes: dict | None = None, domain: str = ""
    ) -> onnx.NodeProto:
        names = [v.name if isinstance(v, Value) else v or "" for v in inputs]
        while names and not names[-1]:
            names.pop()
        node = helper.make_node(op, names, outputs, domain=domain)
        for key, value in sorted((attributes or {}).items()):
            if value is not None:
                node.attribute.append(helper.make_attribute(key, value))
        return node

    def emit(
        self, op: str, inputs, attributes: dict | None = None, outputs=1, domain: str = "", keep=True
    ) -> list[Value]:
        """Adds one node and evaluates it; a number of outputs, or which of them are named."""
        if not domain and since(op) > self.graph.opset:
            raise Refused(f"{op} is not in opset {self.graph.opset}")
        mask = outputs if isinstance(outputs, (tuple, list)) else [True] * outputs
        names = [self.name("v") if named else "" for named in mask]
        while names and not names[-1]:
            names.pop()
        node = self.node(op, inputs, names, attributes, domain)
        return self.emit_step([node], [n for n in names if n], keep)

    def emit_step(self, nodes: list[onnx.NodeProto], makes: list[str], keep=True) -> list[Value]:
        made = {name for node in nodes for name in node.output}
        known = {v: leaf.array for v, leaf in self.graph.leaves.items()} | self.values()
        reads = [n for n in dict.fromkeys(free_names(nodes)) if n not in made]
        step = Step(nodes, reads, makes, operators(nodes))
        peer = peers.Peer(step, self.graph.opset, known)
        results = peer.run(known)
        alone = peer.name != "ONNX Runtime" and not peer.specified
        if alone and peers.doubted(step, self.graph.opset, known, results):
            raise Refused(f"ONNX's reference evaluator is alone with its {step.ops[0]}")
        if peer.name != "ONNX Runtime" and peers.ill_typed(peer.model):
            raise Refused(f"{step.ops[0]} has no such type")
        for name in makes:
            if results[name].size > LARGEST or results[name].dtype.kind not in "fiub":
                raise Refused("too large, or of a type that is not drawn")
        self.graph.steps.append(step)
        self.peers[id(step)] = peer
        values = [Value(name, results[name]) for name in makes]
        self.arrays.update({v.name: v.array for v in values})
        if keep:
            self.pool += values
        return values

    def values(self) -> dict[str, np.ndarray]:
        return self.arrays


def free_names(nodes) -> list[str]:
    """Names that nodes read from outside, those of their bodies included."""
    found: list[str] = []
    for node in nodes:
        found += [n for n in node.input if n]
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                body = attribute.g
                inner = (
                    {v.name for v in body.input}
                    | {t.name for t in body.initializer}
                    | {n for x in body.node for n in x.output}
                )
                found += [n for n in free_names(body.node) + [o.name for o in body.output] if n not in inner]
    return found


_SINCE: dict[str, int] = {}


def since(op: str) -> int:
    """The first opset with an operator; 1 for those that ONNX has no schema of."""
    if not _SINCE:
        for schema in onnx.defs.get_all_schemas_with_history():
            if schema.domain == "":
                _SINCE[schema.name] = min(_SINCE.get(schema.name, 99), schema.since_version)
    return _SINCE.get(op, 1)
