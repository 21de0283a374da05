"""Chains of operators drawn by a seed: a main operator with what comes before and after it, as small ONNX models.

The same seed and number give the same chain on every machine. Sizes are known to the one who draws; some are free in the model,
and then the chain says with which sizes it is to be run.
"""

from __future__ import annotations

import dataclasses
import math
import random

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

MOST_ELEMENTS = 4 << 20  # of any tensor
MOST_FLOPS = 1_500_000_000
OPSET = 20


@dataclasses.dataclass
class Chain:
    name: str
    ops: list[str]
    model: onnx.ModelProto
    sizes: dict[str, int]  # of free dimensions


class Drawer:
    """Builds one chain; `x` is the value that the next operator takes, `shape` its sizes."""

    def __init__(self, seed: int, number: int) -> None:
        self.random = random.Random(f"{seed}/{number}")
        self.numbers = np.random.default_rng([seed, number])
        self.nodes: list[onnx.NodeProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.ops: list[str] = []
        self.sizes: dict[str, int] = {}
        self.count = 0
        self.flops = 0
        self.free = self.random.random() < 0.2  # the first dimension is

    # ---- parts

    def fresh(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def size(self, most: int = 1024, least: int = 1) -> int:
        """Of every order of magnitude as many; even ones that come out in vectors, and odd ones."""
        size = int(round(math.exp(self.random.uniform(math.log(least), math.log(most)))))
        if self.random.random() < 0.5 and size > 8:
            size = max(8, size // 16 * 16 if size >= 16 else 8)
        return max(least, min(size, most))

    def input(self, shape: list[int]) -> str:
        name = self.fresh()
        dims: list[int | str] = list(shape)
        if self.free and shape:
            if self.sizes.setdefault("n", shape[0]) == shape[0]:
                dims[0] = "n"
        self.inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, dims))
        return name

    def constant(self, content: np.ndarray) -> str:
        name = self.fresh()
        self.constants.append(numpy_helper.from_array(content, name))
        return name

    def weight(self, *shape: int) -> str:
        scale = 1 / math.sqrt(max(1, math.prod(shape[1:])))
        return self.constant((self.numbers.standard_normal(shape) * scale).astype(np.float32))

    def integers(self, *values: int) -> str:
        return self.constant(np.array(values, np.int64))

    def node(self, op: str, operands: list[str], shape: list[int] | None = None, **attributes) -> None:
        made = self.fresh()
        self.nodes.append(helper.make_node(op, operands, [made], **attributes))
        self.ops.append(op)
        self.x = made
        if shape is not None:
            self.shape = shape

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    @property
    def spare_flops(self) -> int:
        return MOST_FLOPS - self.flops

    # ---- element by element

    def unary(self) -> None:
        op = self.random.choice(["Relu", "Sigmoid", "Tanh", "Gelu", "HardSwish", "LeakyRelu", "Erf", "Abs", "Softplus", "Elu", "silu", "Clip",
                                 "Neg", "Mish"])
        if op == "silu":
            before = self.x
            self.node("Sigmoid", [self.x])
            self.node("Mul", [before, self.x])
        elif op == "Clip":
            self.node(op, [self.x, self.constant(np.float32(-1)), self.constant(np.float32(2))])
        else:
            self.node(op, [self.x])

    def binary(self) -> None:
        op = self.random.choice(["Add", "Add", "Mul", "Sub", "Max"])
        kind = self.random.choice(["number", "last", "channel", "input", "column"])
        rank = len(self.shape)
        if kind == "number" or rank < 2:
            other = self.constant(np.float32(self.random.uniform(0.5, 1.5)))
        elif kind == "last":
            other = self.weight(self.shape[-1])
        elif kind == "channel":
            other = self.weight(self.shape[1], *[1] * (rank - 2))
        elif kind == "column":
            other = self.weight(self.shape[-2], 1)
        else:
            other = self.input(self.shape)
        self.node(op, [self.x, other])

    # ---- changes of index

    def movement(self) -> None:
        self.random.choice([self.transpose, self.reshape, self.slice, self.concat, self.split, self.pad, self.depth_to_space, self.space_to_depth,
                            self.expand, self.gather, self.upsample])()

    def transpose(self) -> None:
        order = list(range(len(self.shape)))
        if self.free:
            rest = order[1:]
            self.random.shuffle(rest)
            order = [0, *rest]
        else:
            self.random.shuffle(order)
        self.node("Transpose", [self.x], [self.shape[d] for d in order], perm=order)

    def reshape(self) -> None:
        """Two neighbours become one, or one becomes two."""
        first = 1 if self.free else 0
        shape = list(self.shape)
        merges = [d for d in range(first, len(shape) - 1)]
        splits = [(d, f) for d in range(first, len(shape)) for f in (2, 3, 4, 8, 12) if shape[d] % f == 0 and shape[d] > f]
        if merges and (not splits or len(shape) > 3 or self.random.random() < 0.5):
            d = self.random.choice(merges)
            shape[d:d + 2] = [shape[d] * shape[d + 1]]
        elif splits and len(shape) < 5:
            d, factor = self.random.choice(splits)
            shape[d:d + 1] = [factor, shape[d] // factor]
        else:
            return
        self.node("Reshape", [self.x, self.integers(*([0] if self.free else shape[:1]), *shape[1:])], shape)

    def axis(self) -> int | None:
        axes = [d for d in range(1 if self.free else 0, len(self.shape)) if self.shape[d] > 3]
        return self.random.choice(axes) if axes else None

    def slice(self) -> None:
        d = self.axis()
        if d is None:
            return
        step = self.random.choice([1, 1, 2])
        start = self.random.randrange(0, self.shape[d] // 2)
        stop = self.random.randrange(start + 1 + self.shape[d] // 4, self.shape[d] + 1)
        shape = list(self.shape)
        shape[d] = (stop - start + step - 1) // step
        self.node("Slice", [self.x, self.integers(start), self.integers(stop), self.integers(d), self.integers(step)], shape)

    def split(self) -> None:
        d = self.axis()
        if d is None or self.shape[d] < 2:
            return
        sizes = [self.shape[d] // 2, self.shape[d] - self.shape[d] // 2]
        parts = [self.fresh(), self.fresh()]
        self.nodes.append(helper.make_node("Split", [self.x, self.integers(*sizes)], parts, axis=d))
        self.ops.append("Split")
        taken = self.random.randrange(2)
        if sizes[0] == sizes[1] and self.random.random() < 0.4:
            self.shape = [sizes[0] if i == d else size for i, size in enumerate(self.shape)]
            self.node("Mul", parts)  # a gate
            return
        self.x = parts[taken]
        self.shape = [sizes[taken] if i == d else size for i, size in enumerate(self.shape)]

    def concat(self) -> None:
        d = self.axis()
        if d is None or self.elements * 2 > MOST_ELEMENTS:
            return
        other = list(self.shape)
        other[d] = self.size(self.shape[d])
        operands = [self.x, self.input(other)]
        self.random.shuffle(operands)
        self.node("Concat", operands, [size + other[d] if i == d else size for i, size in enumerate(self.shape)], axis=d)

    def pad(self) -> None:
        first = 1 if self.free else 0
        pads = [self.random.randrange(0, 3) if d >= max(first, len(self.shape) - 2) else 0 for d in range(len(self.shape))]
        mode = self.random.choice(["constant", "constant", "reflect", "edge"])
        if any(pad >= size for pad, size in zip(pads, self.shape)):
            return
        self.node("Pad", [self.x, self.integers(*pads, *pads)], [size + 2 * pad for size, pad in zip(self.shape, pads)], mode=mode)

    def depth_to_space(self) -> None:
        if len(self.shape) == 4 and self.shape[1] % 4 == 0:
            n, c, h, w = self.shape
            self.node("DepthToSpace", [self.x], [n, c // 4, 2 * h, 2 * w], blocksize=2, mode=self.random.choice(["DCR", "CRD"]))

    def space_to_depth(self) -> None:
        if len(self.shape) == 4 and self.shape[2] % 2 == 0 and self.shape[3] % 2 == 0:
            n, c, h, w = self.shape
            self.node("SpaceToDepth", [self.x], [n, 4 * c, h // 2, w // 2], blocksize=2)

    def expand(self) -> None:
        ones = [d for d in range(1 if self.free else 0, len(self.shape)) if self.shape[d] == 1]
        if not ones:
            return
        shape = list(self.shape)
        shape[self.random.choice(ones)] = self.random.choice([2, 3, 8])
        if math.prod(shape) <= MOST_ELEMENTS:
            target = [1 if self.free and d == 0 else size for d, size in enumerate(shape)]
            self.node("Expand", [self.x, self.integers(*target)], shape)

    def gather(self) -> None:
        d = self.axis()
        if d is None:
            return
        count = self.size(self.shape[d])
        indices = self.constant(self.numbers.integers(0, self.shape[d], count))
        self.node("Gather", [self.x, indices], [count if i == d else size for i, size in enumerate(self.shape)], axis=d)

    def upsample(self) -> None:
        if len(self.shape) == 4 and self.elements * 4 <= MOST_ELEMENTS:
            n, c, h, w = self.shape
            self.node("Resize", [self.x, "", self.constant(np.array([1, 1, 2, 2], np.float32))], [n, c, 2 * h, 2 * w], mode="nearest",
                      coordinate_transformation_mode="asymmetric", nearest_mode="floor")

    # ---- main operators; each says whether it could be made of this shape

    def matmul(self) -> bool:
        depth = self.shape[-1]
        rows = self.elements // depth
        columns = self.size()
        columns = min(columns, max(1, self.spare_flops // max(1, 2 * rows * depth)))
        if rows * columns > MOST_ELEMENTS or depth * columns > MOST_ELEMENTS:
            return False
        self.flops += 2 * rows * depth * columns
        if len(self.shape) == 2 and not self.free and self.random.random() < 0.25:
            self.node("Gemm", [self.x, self.weight(columns, depth), self.weight(columns)], [rows, columns], transB=1)
        elif self.random.random() < 0.2 and len(self.shape) > 2:
            self.node("MatMul", [self.x, self.input([*self.shape[:-2], depth, columns])], [*self.shape[:-1], columns])
        else:
            self.node("MatMul", [self.x, self.weight(depth, columns)], [*self.shape[:-1], columns])
        return True

    def convolution(self) -> bool:
        if len(self.shape) not in (3, 4):
            return False
        n, c, *space = self.shape
        kernel = self.random.choice([1, 1, 3, 3, 3, 5, 7])
        kind = self.random.choice(["full", "full", "full", "depthwise", "grouped"])
        groups = c if kind == "depthwise" else (2 if kind == "grouped" and c % 2 == 0 else 1)
        filters = c if kind == "depthwise" else self.size(512)
        filters = max(groups, filters // groups * groups)
        stride, dilation = self.random.choice([1, 1, 1, 2]), self.random.choice([1, 1, 1, 1, 2])
        pad = self.random.choice([0, (kernel - 1) // 2 * dilation, (kernel - 1) // 2 * dilation])
        result = [(size + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1 for size in space]
        if min(result) < 1:
            return False
        area = kernel ** len(space)
        flops = 2 * n * filters * math.prod(result) * (c // groups) * area
        if flops > self.spare_flops or n * filters * math.prod(result) > MOST_ELEMENTS:
            return False
        self.flops += flops
        operands = [self.x, self.weight(filters, c // groups, *[kernel] * len(space))]
        if self.random.random() < 0.7:
            operands.append(self.weight(filters))
        self.node("Conv", operands, [n, filters, *result], group=groups, strides=[stride] * len(space), dilations=[dilation] * len(space),
                  pads=[pad] * (2 * len(space)))
        return True

    def pool(self) -> bool:
        if len(self.shape) != 4:
            return False
        n, c, *space = self.shape
        if self.random.random() < 0.3:
            self.node("GlobalAveragePool", [self.x], [n, c, 1, 1])
            return True
        kernel, stride = self.random.choice([(2, 2), (3, 1), (3, 2)])
        pad = kernel // 2 if kernel == 3 else 0
        result = [(size + 2 * pad - kernel) // stride + 1 for size in space]
        if min(result) < 1:
            return False
        self.node(self.random.choice(["MaxPool", "AveragePool"]), [self.x], [n, c, *result], kernel_shape=[kernel] * 2, strides=[stride] * 2,
                  pads=[pad] * 4)
        return True

    def reduction(self) -> bool:
        axes = sorted(self.random.sample(range(1 if self.free else 0, len(self.shape)), 1)) if len(self.shape) > 1 else []
        if not axes:
            return False
        keep = self.random.random() < 0.6
        shape = [1 if d in axes else size for d, size in enumerate(self.shape)] if keep else \
            [size for d, size in enumerate(self.shape) if d not in axes]
        whole, before = self.x, list(self.shape)
        self.node(self.random.choice(["ReduceSum", "ReduceMean", "ReduceMax", "ReduceL2"]), [self.x, self.integers(*axes)], shape,
                  keepdims=int(keep))
        if keep and self.random.random() < 0.5:
            self.node("Sub", [whole, self.x], before)
        return True

    def softmax(self) -> bool:
        first = 1 if self.free else 0
        if len(self.shape) <= first:
            return False
        self.node("Softmax", [self.x], axis=self.random.choice([-1, -1, first]))
        return True

    def norm(self) -> bool:
        kind = self.random.choice(["layer", "layer", "instance", "group", "rms"])
        if kind in ("instance", "group"):
            if len(self.shape) != 4:
                return False
            c = self.shape[1]
            if kind == "instance":
                self.node("InstanceNormalization", [self.x, self.weight(c), self.weight(c)])
            else:
                self.node("GroupNormalization", [self.x, *[self.weight(2 if c % 2 == 0 else 1) for _ in range(2)]],
                          num_groups=2 if c % 2 == 0 else 1)
            return True
        width = self.shape[-1]
        if kind == "layer":
            self.node("LayerNormalization", [self.x, self.weight(width), self.weight(width)], axis=-1)
            return True
        before = self.x
        self.node("Mul", [self.x, self.x])
        whole = list(self.shape)
        self.node("ReduceMean", [self.x, self.integers(-1)], [*self.shape[:-1], 1], keepdims=1)
        self.node("Add", [self.x, self.constant(np.float32(1e-5))])
        self.node("Sqrt", [self.x])
        self.node("Div", [before, self.x], whole)
        self.node("Mul", [self.x, self.weight(width)])
        return True

    def attention(self) -> bool:
        if len(self.shape) != 4:
            return False
        n, heads, queries, depth = self.shape
        keys = queries if self.random.random() < 0.5 else self.size(512)
        flops = 4 * n * heads * queries * keys * depth
        if flops > self.spare_flops or n * heads * queries * keys > MOST_ELEMENTS:
            return False
        self.flops += flops
        self.node("MatMul", [self.x, self.input([n, heads, depth, keys])], [n, heads, queries, keys])
        self.node("Mul", [self.x, self.constant(np.float32(depth ** -0.5))])
        if self.random.random() < 0.4:
            self.node("Add", [self.x, self.input([n, 1, queries, keys])])
        self.node("Softmax", [self.x], axis=-1)
        self.node("MatMul", [self.x, self.input([n, heads, keys, depth])], [n, heads, queries, depth])
        return True

    MAIN = {"matmul": (2, 3), "convolution": (4,), "pool": (4,), "reduction": (2, 3, 4), "softmax": (2, 3, 4), "norm": (2, 3, 4),
            "attention": (4,), "pointwise": (1, 2, 3, 4)}
    OFTEN = {"matmul": 5, "convolution": 5, "pool": 1, "reduction": 2, "softmax": 1, "norm": 2, "attention": 1.5, "pointwise": 1.5}

    def begin(self, rank: int, kind: str) -> None:
        while True:
            if rank == 4 and kind == "attention":
                shape = [self.size(4), self.size(16), self.size(512), self.random.choice([8, 16, 32, 40, 64, 80, 128])]
            elif rank == 4:
                side = self.size(112)
                shape = [self.size(4), self.size(512), side, side if self.random.random() < 0.7 else self.size(112)]
            elif rank == 1:
                shape = [self.size(1 << 20)]
            else:
                shape = [*[self.size(8) for _ in range(rank - 2)], self.size(), self.size()]
            if math.prod(shape) <= MOST_ELEMENTS // 2:
                break
        self.shape = shape
        self.x = self.input(shape)

    def around(self, most: int) -> None:
        for _ in range(self.random.randrange(most + 1)):
            self.random.choice([self.unary, self.unary, self.binary, self.binary, self.movement])()

    def chain(self, name: str) -> Chain:
        kind = self.random.choices(list(self.OFTEN), list(self.OFTEN.values()))[0]
        self.begin(self.random.choice(self.MAIN[kind]), kind)
        self.around(2)
        made = True if kind == "pointwise" else getattr(self, kind)()
        self.around(4 if made else 3)
        if self.random.random() < 0.3:
            second = self.random.choice([one for one in self.MAIN if one != "pointwise"])
            if len(self.shape) in self.MAIN[second]:
                getattr(self, second)()
                self.around(2)
        while len(self.ops) < 2:
            self.unary()
        result = helper.make_tensor_value_info(self.x, TensorProto.FLOAT, None)
        graph = helper.make_graph(self.nodes, name, self.inputs, [result], self.constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])
        model.ir_version = 9
        return Chain(name, self.ops, model, self.sizes)


def draw(seed: int, number: int) -> Chain:
    return Drawer(seed, number).chain(f"chain_{seed}_{number}")
