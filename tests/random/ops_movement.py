"""Cases of operators that move, select or create elements."""

from __future__ import annotations

import numpy as np
from onnx import helper, numpy_helper

from case import Case, Draw


def data(draw: Draw, opset: int, low: int = 1, high: int = 4, constraint: str = "T", empty: float = 0.04) -> np.ndarray:
    return draw.array(draw.shape(low, high, empty=empty), draw.dtype(opset, constraint))


def integers(values) -> np.ndarray:
    return np.array(values, np.int64).reshape(-1)


def concat(draw: Draw) -> Case:
    opset = draw.opset()
    first = data(draw, opset)
    axis = draw.axis(first.ndim)
    if opset < 11:
        axis %= first.ndim
    parts = [first]
    for _ in range(draw.integer(0, 3)):
        shape = list(first.shape)
        shape[axis] = draw.integer(0, 3)
        parts.append(draw.array(shape, first.dtype))
    return Case(parts, {"axis": axis}, opset)


def split(draw: Draw) -> Case:
    opset = draw.opset()
    dtype = draw.dtype(opset)
    shape = list(draw.shape(1, 4, empty=0))
    axis, count = draw.axis(len(shape)), draw.integer(1, 3)
    even = draw.chance(0.5)
    sizes = [draw.integer(1, 3)] * count if even else [draw.integer(0, 3) for _ in range(count)]
    shape[axis] = sum(sizes)
    if opset < 11:
        axis %= len(shape)
    attributes = {"axis": axis}
    given = not even or draw.chance(0.5)
    inputs = [draw.array(shape, dtype)]
    if opset < 13:
        attributes["split"] = sizes if given else None
    elif given:
        inputs.append(integers(sizes))
    elif opset >= 18:
        attributes["num_outputs"] = count
    return Case(inputs, attributes, opset, count)


def slice_(draw: Draw) -> Case:
    opset = draw.opset()
    x = data(draw, opset)
    axes = draw.axes(x.ndim, 1)
    bounds = [(draw.integer(-size - 2, size + 2), draw.integer(-size - 2, size + 2)) for size in (x.shape[a] for a in axes)]
    starts, ends = [b[0] for b in bounds], [b[1] for b in bounds]
    if opset < 10:
        return Case([x], {"axes": [a % x.ndim for a in axes], "starts": starts, "ends": ends}, opset)
    steps = [draw.choice([-3, -2, -1, 1, 1, 2, 3]) for _ in axes]
    if draw.chance(0.2):
        ends = [np.iinfo(np.int64).max if s > 0 else np.iinfo(np.int64).min for s in steps]
    kind = draw.choice(["int32", "int64"]) if max(map(abs, ends), default=0) < 99 else "int64"
    optional = [np.array(axes, kind), np.array(steps, kind)] if draw.chance(0.8) else []
    if not optional:
        starts, ends = starts + [0] * (x.ndim - len(starts)), ends + [9] * (x.ndim - len(ends))
    return Case([x, np.array(starts, kind), np.array(ends, kind), *optional], {}, opset)


def indices_for(draw: Draw, shape, size: int, opset: int, kind=None) -> np.ndarray:
    low = -size if opset >= 11 and draw.chance(0.5) else 0
    return draw.rng.integers(low, max(size, 1), shape).astype(kind or draw.choice(["int32", "int64"]))


def gather(draw: Draw) -> Case:
    opset = draw.opset()
    x = data(draw, opset, empty=0)
    axis = draw.axis(x.ndim)
    return Case([x, indices_for(draw, draw.shape(0, 3), x.shape[axis], opset)], {"axis": axis}, opset)


def gather_elements(draw: Draw) -> Case:
    opset = draw.opset()
    x = data(draw, opset, empty=0)
    axis = draw.axis(x.ndim)
    shape = [draw.integer(1, size) for size in x.shape]
    shape[axis] = draw.integer(0, 5)
    return Case([x, indices_for(draw, shape, x.shape[axis], opset)], {"axis": axis}, opset)


def nd_indices(draw: Draw, shape, batch: int, opset: int, unique: bool) -> np.ndarray:
    depth = draw.integer(1, len(shape) - batch)
    outer = list(shape[:batch]) + list(draw.shape(1, 2, 3, empty=0.03))
    sizes = shape[batch:batch + depth]
    if unique:
        room = int(np.prod(sizes))
        outer = [draw.integer(1, min(room, 4))]
        flat = draw.rng.permutation(room)[:outer[0]]
        return np.stack(np.unravel_index(flat, sizes), axis=-1).astype(np.int64)
    return np.stack([indices_for(draw, outer, size, opset, "int64") for size in sizes], axis=-1)


def gather_nd(draw: Draw) -> Case:
    opset = draw.opset()
    x = data(draw, opset, 1, 4, empty=0)
    batch = draw.integer(0, x.ndim - 1) if opset >= 12 and draw.chance(0.5) else 0
    return Case([x, nd_indices(draw, x.shape, batch, opset, False)], {"batch_dims": batch} if opset >= 12 else {}, opset)


def reductions(draw: Draw, opset: int) -> str | None:
    if opset < 16:
        return None
    return draw.choice([None, "none", "add", "mul", *(["max", "min"] if opset >= 18 else [])])


def scatter_elements(draw: Draw) -> Case:
    opset = draw.opset()
    x = data(draw, opset, empty=0)
    axis = draw.axis(x.ndim)
    reduction = reductions(draw, opset)
    shape = [draw.integer(1, size) for size in x.shape]
    if reduction in (None, "none"):  # which of two equal indices wins is not defined
        index = np.argsort(draw.rng.random(x.shape), axis=axis)[tuple(slice(0, s) for s in shape)].astype(np.int64)
    else:
        index = indices_for(draw, shape, x.shape[axis], opset)
    return Case([x, index, draw.array(index.shape, x.dtype)], {"axis": axis, "reduction": reduction}, opset)


def scatter_nd(draw: Draw) -> Case:
    opset = draw.opset()
    x = data(draw, opset, empty=0)
    reduction = reductions(draw, opset)
    index = nd_indices(draw, x.shape, 0, opset, reduction in (None, "none"))
    update = draw.array((*index.shape[:-1], *x.shape[index.shape[-1]:]), x.dtype)
    return Case([x, index, update], {"reduction": reduction}, opset)


def transpose(draw: Draw) -> Case:
    opset = draw.opset()
    x = data(draw, opset, 0, 5)
    return Case([x], {"perm": draw.choice([None, [int(a) for a in draw.rng.permutation(x.ndim)]]) or None}, opset)


def reshape(draw: Draw) -> Case:
    opset = draw.opset()
    x = data(draw, opset, 0, 4)
    target = [int(s) for s in draw.rng.permutation(x.shape)]
    if x.size and draw.chance(0.5):
        target = [-1, *target[1:]] if target else [-1]
    elif x.size and x.ndim and draw.chance(0.5):
        target = [0 if draw.chance(0.5) else s for s in x.shape]
    elif draw.chance(0.3):
        target = [*target, 1]
    allow = {"allowzero": 1} if opset >= 14 and 0 in target and not x.size else {}
    return Case([x, integers(target)], allow, opset)


def flatten(draw: Draw) -> Case:
    opset = draw.opset()
    x = data(draw, opset, 0 if opset >= 9 else 1, 4)
    axis = draw.integer(0 if opset < 11 else -x.ndim, x.ndim)
    return Case([x], {"axis": draw.choice([None, axis]) if x.ndim else 0}, opset)


def squeeze(draw: Draw) -> Case:
    opset = draw.opset()
    dtype, rank = draw.dtype(opset), draw.integer(0, 4)
    ones = draw.axes(rank)
    shape = [draw.integer(2, 4) for _ in range(rank)]
    for axis in ones:
        shape[axis] = 1
    if opset < 11:
        ones = [a % rank for a in ones]
    x, given = draw.array(shape, dtype), ones if ones and draw.chance(0.7) else None
    if opset < 13:
        return Case([x], {"axes": given}, opset)
    return Case([x, None if given is None else integers(given)], {}, opset)


def unsqueeze(draw: Draw) -> Case:
    opset = draw.opset()
    x = data(draw, opset, 0, 3)
    rank = x.ndim + draw.integer(1, 2)
    axes = [int(a) for a in draw.rng.permutation(rank)[:rank - x.ndim]]
    if opset >= 11 and draw.chance(0.4):
        axes = [a - rank for a in axes]
    return Case([x], {"axes": sorted(axes)}, opset) if opset < 13 else Case([x, integers(axes)], {}, opset)


def expand(draw: Draw) -> Case:
    opset = draw.opset()
    a, b = draw.broadcast(2)
    return Case([draw.array(a, draw.dtype(opset)), integers(b)], {}, opset)


def tile(draw: Draw) -> Case:
    opset = draw.opset()
    x = data(draw, opset)
    return Case([x, integers([draw.integer(0 if draw.chance(0.1) else 1, 3) for _ in x.shape])], {}, opset)


def pad(draw: Draw) -> Case:
    opset = draw.opset()
    x = draw.array(draw.shape(1, 4, empty=0), draw.dtype(opset))
    mode = draw.choice(["constant", "edge", "reflect", *(["wrap"] if opset >= 19 else [])])
    axes = draw.axes(x.ndim, 1) if opset >= 18 and draw.chance(0.5) else None
    sizes = [x.shape[a] for a in axes] if axes else x.shape
    most = [3 if mode in ("constant", "edge") else size - 1 for size in sizes]
    least = [-1 if mode == "constant" and size > 2 and draw.chance(0.2) else 0 for size in sizes]
    amounts = [draw.integer(low, max(m, 0)) for low, m in zip(least * 2, most * 2)]
    if opset < 11:
        return Case([x], {"pads": amounts, "mode": mode, "value": draw.choice([None, 1.5])}, opset)
    value = draw.array((), x.dtype) if mode == "constant" and draw.chance(0.6) else None
    return Case([x, integers(amounts), value, None if axes is None else integers(axes)], {"mode": mode}, opset)


def depth_to_space(draw: Draw) -> Case:
    opset = draw.opset()
    block, (n, c, h, w) = draw.integer(1, 3), draw.shape(4, 4, 3, empty=0)
    shape = (n, c * block * block, h, w) if draw.op == "DepthToSpace" else (n, c, h * block, w * block)
    attributes = {"blocksize": block}
    if draw.op == "DepthToSpace" and opset >= 11:
        attributes["mode"] = draw.choice([None, "DCR", "CRD"])
    return Case([draw.array(shape, draw.dtype(opset))], attributes, opset)


def shape_of(draw: Draw) -> Case:
    opset = draw.opset()
    x = data(draw, opset, 0, 4)
    bounds = {"start": draw.choice([None, draw.integer(-5, 5)]), "end": draw.choice([None, draw.integer(-5, 5)])} if opset >= 15 else {}
    return Case([x], bounds, opset)


def constant_of_shape(draw: Draw) -> Case:
    dtype = draw.choice(["float32", "int64", "bool", "float16", "uint8"])
    value = numpy_helper.from_array(draw.array((1,), dtype)) if draw.chance(0.7) else None
    return Case([integers(draw.shape(0, 4))], {"value": value}, draw.opset())


def eye_like(draw: Draw) -> Case:
    x = draw.array(draw.shape(2, 2), "float32")
    to = draw.choice([None, *(helper.np_dtype_to_tensor_dtype(np.dtype(t)) for t in ("float32", "int64", "int32", "float64"))])
    return Case([x], {"k": draw.choice([None, draw.integer(-3, 3)]), "dtype": to}, draw.opset())


def trilu(draw: Draw) -> Case:
    x = data(draw, 14, 2, 4)
    return Case([x, np.array(draw.integer(-4, 4), np.int64) if draw.chance(0.7) else None], {"upper": draw.choice([None, 0, 1])}, draw.opset())


def reverse_sequence(draw: Draw) -> Case:
    x = draw.array(draw.shape(2, 4, empty=0), draw.dtype(10))
    batch = draw.integer(0, 1)
    lengths = integers([draw.integer(0, x.shape[1 - batch]) for _ in range(x.shape[batch])])
    return Case([x, lengths], {"batch_axis": batch, "time_axis": 1 - batch}, draw.opset())


def one_hot(draw: Draw) -> Case:
    opset = draw.opset()
    depth, kind = draw.integer(1, 5), draw.choice(["float32", "int64", "int32"])
    index = indices_for(draw, draw.shape(1, 3), depth + 1, opset, draw.choice(["int64", "float32"]))
    values = draw.array((2,), kind if index.dtype.kind == "i" else draw.choice(["float32", "int64"]))
    axis = draw.choice([None, draw.axis(index.ndim + 1)])
    if opset < 11 and axis is not None and axis < -1:
        axis = 0
    return Case([index, np.array(draw.choice([depth, [depth]]), np.int64), values], {"axis": axis}, opset)


def range_(draw: Draw) -> Case:
    dtype = draw.dtype(11)
    start, delta = draw.array((), dtype, -5, 5), draw.array((), dtype, -2, 2)
    if not delta:
        delta = np.array(1, dtype)
    return Case([start, draw.array((), dtype, -8, 8), delta], {}, draw.integer(11, 26), domain="")


def center_crop_pad(draw: Draw) -> Case:
    x = draw.array(draw.shape(1, 4, empty=0), "float32")
    axes = draw.axes(x.ndim, 1) if draw.chance(0.6) else None
    count = x.ndim if axes is None else len(axes)
    return Case([x, integers([draw.integer(1, 7) for _ in range(count)])], {"axes": axes}, draw.opset())


def compress(draw: Draw) -> Case:
    opset = draw.opset()
    x = data(draw, opset, empty=0)
    axis = draw.choice([None, draw.axis(x.ndim)])
    if opset < 11 and axis is not None:
        axis %= x.ndim
    return Case([x, draw.array((draw.integer(0, x.size if axis is None else x.shape[axis]),), bool)], {"axis": axis}, opset)


def non_zero(draw: Draw) -> Case:
    opset = draw.opset()
    return Case([draw.array(draw.shape(0, 4), draw.dtype(opset), -1, 1)], {}, opset)


def unique(draw: Draw) -> Case:
    x = draw.array(draw.shape(1, 3), draw.dtype(11), -1, 2)
    mask = (True, draw.chance(0.7), draw.chance(0.7), draw.chance(0.7))
    return Case([x], {"axis": draw.choice([None, draw.axis(x.ndim)]), "sorted": draw.choice([None, 0, 1])}, draw.integer(11, 26), mask)


def top_k(draw: Draw) -> Case:
    opset = draw.opset()
    x = data(draw, opset, 1, 3, empty=0)
    axis = draw.choice([None, draw.axis(x.ndim)])
    k = draw.integer(0 if draw.chance(0.1) else 1, x.shape[-1 if axis is None else axis])
    if opset < 10:
        return Case([x], {"axis": axis, "k": max(k, 1)}, opset, 2)
    attributes = {"axis": axis}
    if opset >= 11:
        attributes.update(largest=draw.choice([None, 0, 1]))
    return Case([x, integers(k)], attributes, opset, 2)


def constant(draw: Draw) -> Case:
    opset = draw.opset()
    kinds = [{"value": numpy_helper.from_array(draw.array(draw.shape(), draw.choice(["float32", "int64", "bool", "uint8"])))}]
    if opset >= 12:
        kinds += [{"value_float": 1.5}, {"value_floats": [1.0, -2.5]}, {"value_int": -7}, {"value_ints": [1, 2, 3]}]
    return Case([], draw.choice(kinds), opset)


def tensor_scatter(draw: Draw) -> Case:
    shape = list(draw.shape(3, 4, 4, empty=0))
    shape[-2] = draw.integer(3, 6)
    update = [*shape]
    update[-2] = draw.integer(1, 2)
    circular = draw.chance(0.4)
    most = shape[-2] - (1 if circular else update[-2])
    write = integers([draw.integer(0, most) for _ in range(shape[0])]) if draw.chance(0.8) else None
    dtype = draw.dtype(24)
    return Case([draw.array(shape, dtype), draw.array(update, dtype), write], {"mode": "circular" if circular else draw.choice([None, "linear"])}, 24)


def col2im(draw: Draw) -> Case:
    block, image = [draw.integer(1, 3) for _ in range(2)], [draw.integer(5, 7) for _ in range(2)]
    strides, dilations = [draw.integer(1, 2) for _ in range(2)], [draw.integer(1, 2) for _ in range(2)]
    pads = [draw.integer(0, 1) for _ in range(4)]
    counts = [(image[i] + pads[i] + pads[i + 2] - dilations[i] * (block[i] - 1) - 1) // strides[i] + 1 for i in range(2)]
    x = draw.array((draw.integer(1, 2), draw.integer(1, 3) * block[0] * block[1], counts[0] * counts[1]))
    return Case([x, integers(image), integers(block)], {"strides": strides, "dilations": dilations, "pads": pads}, draw.opset())


GENERATORS = {
    "Concat": concat, "Split": split, "Slice": slice_, "Gather": gather, "GatherElements": gather_elements, "GatherND": gather_nd,
    "Scatter": scatter_elements, "ScatterElements": scatter_elements, "ScatterND": scatter_nd, "Transpose": transpose, "Reshape": reshape,
    "Flatten": flatten, "Squeeze": squeeze, "Unsqueeze": unsqueeze, "Expand": expand, "Tile": tile, "Pad": pad,
    "DepthToSpace": depth_to_space, "SpaceToDepth": depth_to_space, "Shape": shape_of, "ConstantOfShape": constant_of_shape,
    "EyeLike": eye_like, "Trilu": trilu, "ReverseSequence": reverse_sequence, "OneHot": one_hot, "Range": range_,
    "CenterCropPad": center_crop_pad, "Compress": compress, "NonZero": non_zero, "Unique": unique, "TopK": top_k, "Constant": constant,
    "TensorScatter": tensor_scatter, "Col2Im": col2im,
}
