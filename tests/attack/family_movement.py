"""Operators that move, select or create elements."""

from __future__ import annotations

import numpy as np
from onnx import numpy_helper

from draw import Draw

ANY = "fiub"


def reshape(g: Draw, op: str):
    a = g.pick(ANY)
    sizes = list(a.shape)
    if len(sizes) > 1 and g.chance(0.6):
        at = g.integer(0, len(sizes) - 2)
        sizes[at : at + 2] = [sizes[at] * sizes[at + 1]]
    elif sizes and g.chance(0.6):
        at = g.integer(0, len(sizes) - 1)
        divisors = [d for d in range(1, sizes[at] + 1) if sizes[at] % d == 0] or [1]
        d = g.choice(divisors)
        sizes[at : at + 1] = [d, sizes[at] // d]
    if sizes and a.array.size and g.chance(0.5):
        sizes[g.integer(0, len(sizes) - 1)] = -1
    return g.emit(op, [a, g.integers(sizes)], {"allowzero": 1} if g.graph.opset >= 14 and 0 in sizes else {})


def transpose(g: Draw, op: str):
    a = g.pick(ANY)
    return g.emit(op, [a], {"perm": [int(p) for p in g.rng.permutation(a.rank)] if g.chance(0.9) and a.rank else None})


def flatten(g: Draw, op: str):
    a = g.pick(ANY, 1)
    return g.emit(op, [a], {"axis": g.choice([None, g.axis(a.rank)])})


def squeeze(g: Draw, op: str):
    a = g.pick(ANY, ok=lambda v: 1 in v.shape)
    return g.emit(
        op, [a, g.integers(g.some([i for i, s in enumerate(a.shape) if s == 1], 1)) if g.chance(0.7) else None]
    )


def unsqueeze(g: Draw, op: str):
    a = g.pick(ANY, high=4)
    return g.emit(op, [a, g.integers(g.some(list(range(a.rank + 1)), 1)[:2])])


def concat(g: Draw, op: str):
    a = g.pick(ANY, 1)
    axis = g.axis(a.rank)
    parts = [a]
    for _ in range(g.integer(0, 3)):
        shape = list(a.shape)
        shape[axis] = g.choice([shape[axis], g.integer(0, 4)])
        parts.append(g.like(a, shape))
    return g.emit(op, [parts[i] for i in g.rng.permutation(len(parts))], {"axis": axis})


def split(g: Draw, op: str):
    a = g.pick(ANY, 1)
    axis = g.axis(a.rank)
    size, count = a.shape[axis], g.integer(1, 3)
    if g.chance(0.5) and size:
        cuts = sorted(g.integer(0, size) for _ in range(count - 1))
        sizes = [int(s) for s in np.diff([0, *cuts, size])]
        return g.emit(op, [a, g.integers(sizes, constant=True)], {"axis": axis}, count)
    if g.graph.opset >= 18:
        return g.emit(op, [a], {"axis": axis, "num_outputs": count}, count)
    return g.emit(op, [a], {"axis": axis}, g.choice([d for d in (1, 2, 3, 4) if size % d == 0]))


def slice_(g: Draw, op: str):
    a = g.pick(ANY, 1)
    axes = g.axes(a.rank, 1)
    sizes = [a.shape[i] for i in axes]
    starts = [g.integer(-s - 1, s + 1) for s in sizes]
    ends = [g.choice([g.integer(-s - 2, s + 2), 2**31 - 1, s]) for s in sizes]
    steps = [g.choice([1, 1, 1, 2, 3, -1, -2]) for _ in sizes]
    for i, step in enumerate(steps):
        if step < 0 and g.chance(0.7):
            starts[i], ends[i] = -1, -(2**31)
        elif step < 0 and ends[i] == 2**31 - 1:
            ends[i] = sizes[i]  # backwards from a start to INT_MAX there is nothing, but to ONNX Runtime all
    return g.emit(
        op,
        [
            a,
            g.integers(starts),
            g.integers(ends),
            g.integers(axes, True),
            g.integers(steps) if g.chance(0.8) or any(s != 1 for s in steps) else None,
        ],
    )


def pad(g: Draw, op: str):
    a = g.pick("fiu", 1, ok=lambda v: v.array.size)
    mode = g.choice(["constant", "constant", "edge", "reflect"] + (["wrap"] if g.graph.opset >= 19 else []))
    low = -1 if mode == "constant" and min(a.shape) > 2 and g.chance(0.2) else 0
    most = min(2, min(a.shape) - 1) if mode == "reflect" else 2
    axes = g.axes(a.rank, 1) if g.graph.opset >= 18 and g.chance(0.4) else None
    pads = [g.integer(low, most) for _ in range(2 * len(axes if axes else a.shape))]
    fill = g.leaf(np.asarray(g.integer(0, 3), a.dtype)) if mode == "constant" and g.chance(0.6) else None
    return g.emit(op, [a, g.integers(pads), fill, g.integers(axes, True) if axes else None], {"mode": mode})


def expand(g: Draw, op: str):
    a = g.pick(ANY, high=4)
    sizes = [g.integer(1, 4) if s == 1 and g.chance(0.6) else s for s in a.shape]
    sizes = ([g.integer(1, 3)] if g.chance(0.3) else []) + sizes
    return g.emit(op, [a, g.integers(sizes)])


def tile(g: Draw, op: str):
    a = g.pick(ANY, high=4)
    return g.emit(op, [a, g.integers([g.choice([1, 1, 2, 3]) for _ in a.shape])])


def trilu(g: Draw, op: str):
    a = g.pick(ANY, 2)
    return g.emit(
        op, [a, g.leaf(np.asarray(g.integer(-2, 2))) if g.chance(0.6) else None], {"upper": g.choice([None, 0, 1])}
    )


def indices(g: Draw, shape, size: int, kind=None):
    low = -size if g.chance(0.3) else 0
    return g.leaf(g.rng.integers(low, size, shape).astype(kind or g.choice(["int32", "int64"])))


def gather(g: Draw, op: str):
    a = g.pick(ANY, 1, ok=lambda v: v.array.size)
    axis = g.axis(a.rank)
    return g.emit(op, [a, indices(g, g.shape(0, 2), a.shape[axis])], {"axis": axis})


def gather_elements(g: Draw, op: str):
    a = g.pick(ANY, 1, ok=lambda v: v.array.size)
    axis = g.axis(a.rank)
    shape = [g.integer(1, s) for s in a.shape]
    shape[axis] = g.integer(1, 5)
    return g.emit(op, [a, indices(g, shape, a.shape[axis])], {"axis": axis})


def tuples(g: Draw, shape, batch: int, unique: bool) -> np.ndarray:
    depth = g.integer(1, len(shape) - batch)
    sizes = shape[batch : batch + depth]
    if unique:
        room = int(np.prod(sizes))
        flat = g.rng.permutation(room)[: g.integer(1, min(room, 4))]
        return np.stack(np.unravel_index(flat, sizes), -1).astype(np.int64)
    outer = list(shape[:batch]) + [g.integer(1, 3) for _ in range(g.integer(1, 2))]
    return np.stack([g.rng.integers(0, s, outer) for s in sizes], -1).astype(np.int64)


def gather_nd(g: Draw, op: str):
    a = g.pick(ANY, 1, ok=lambda v: v.array.size)
    batch = g.integer(0, a.rank - 1) if g.chance(0.4) else 0
    return g.emit(op, [a, g.leaf(tuples(g, a.shape, batch, False))], {"batch_dims": batch})


def reduction(g: Draw, *values):
    """How updates combine with what is there; the smallest of NaN and a number is not defined."""
    sums = ["none", "add", "mul"] if g.graph.opset >= 16 else []
    extremes = ["max", "min"] if g.graph.opset >= 18 and all(v.finite for v in values) else []
    return g.choice([None, *sums, *extremes])


def scatter_elements(g: Draw, op: str):
    a = g.pick("fi", 1, ok=lambda v: v.array.size)
    axis = g.axis(a.rank)
    shape = [g.integer(1, s) for s in a.shape]
    places = np.argsort(g.rng.random([*shape[: axis % a.rank], a.shape[axis], *shape[axis % a.rank + 1 :]]), axis=axis)
    places = np.take(places, range(shape[axis]), axis=axis).astype(g.choice(["int32", "int64"]))
    updates = g.like(a, shape)
    return g.emit(op, [a, g.leaf(places), updates], {"axis": axis, "reduction": reduction(g, a, updates)})


def scatter_nd(g: Draw, op: str):
    a = g.pick("fi", 1, ok=lambda v: v.array.size)
    places = tuples(g, a.shape, 0, True)
    updates = g.like(a, [*places.shape[:-1], *a.shape[places.shape[-1] :]])
    return g.emit(op, [a, g.leaf(places), updates], {"reduction": reduction(g, a, updates)})


def one_hot(g: Draw, op: str):
    a, depth = g.fresh(g.shape(1, 3), "int64", low=-4, high=3), 4
    values = g.fresh((2,), g.choice(["float32", "int64", "int32"]))
    return g.emit(op, [a, g.leaf(np.asarray(depth)), values], {"axis": g.axis(a.rank + 1)})


def range_(g: Draw, op: str):
    dtype = g.choice(["int64", "int32", "float32", "float64"])
    start, count, delta = g.integer(-3, 3), g.integer(0, 6), g.choice([1, 2, -1])
    return g.emit(op, [g.leaf(np.asarray(v, dtype)) for v in (start, start + count * delta, delta)])


def constant_of_shape(g: Draw, op: str):
    tensor = numpy_helper.from_array(g.array((1,), g.dtype("fib")))
    return g.emit(op, [g.integers(g.shape(0, 3))], {"value": tensor if g.chance(0.8) else None})


def shape(g: Draw, op: str):
    a = g.pick(ANY)
    bounds = (
        {"start": g.choice([None, g.integer(-2, 2)]), "end": g.choice([None, g.integer(-2, 3)])}
        if op == "Shape" and g.graph.opset >= 15
        else {}
    )
    return g.emit(op, [a], bounds)


def depth_to_space(g: Draw, op: str):
    block = 2
    fits = (
        (lambda v: v.shape[1] % 4 == 0 and v.array.size)
        if op == "DepthToSpace"
        else (lambda v: v.shape[2] % 2 == 0 and v.shape[3] % 2 == 0 and v.array.size)
    )
    fit = [v for v in g.pool if v.kind == "f" and v.rank == 4 and fits(v)]
    a = (
        g.choice(fit)
        if fit
        else g.fresh((g.integer(1, 2), 4 * g.extent(1, 2), 2 * g.extent(1, 3), 2 * g.extent(1, 3)), constant=False)
    )
    return g.emit(
        op, [a], {"blocksize": block, "mode": g.choice([None, "DCR", "CRD"]) if op == "DepthToSpace" else None}
    )


def identity(g: Draw, op: str):
    a = g.pick(ANY)
    return g.emit(op, [a])


def compress(g: Draw, op: str):
    a = g.pick(ANY, 1)
    axis = g.axis(a.rank) if g.chance(0.7) else None
    size = a.array.size if axis is None else a.shape[axis]
    return g.emit(op, [a, g.fresh((g.integer(0, size),), "bool")], {"axis": axis})


def nonzero(g: Draw, op: str):
    return g.emit(op, [g.pick("fib", 1)])


def unique(g: Draw, op: str):
    a = g.pick("fi", 1, ok=lambda v: v.array.size and v.finite)
    return g.emit(
        op,
        [a],
        {"axis": g.axis(a.rank) if g.chance(0.4) else None, "sorted": 1},
        [True, g.chance(0.5), g.chance(0.5), g.chance(0.5)],
    )


def eye_like(g: Draw, op: str):
    a = g.ranked(2, "fi")
    return g.emit(op, [a], {"k": g.choice([None, -1, 1]), "dtype": g.choice([None, 1, 7])})


def reverse_sequence(g: Draw, op: str):
    a = g.pick("fi", 2, ok=lambda v: v.shape[0] and v.shape[1])
    time = g.integer(0, 1)
    lengths = g.leaf(g.rng.integers(1, a.shape[time] + 1, (a.shape[1 - time],)).astype(np.int64))
    return g.emit(op, [a, lengths], {"batch_axis": 1 - time, "time_axis": time})


def crop_pad(g: Draw, op: str):
    a = g.pick("fi", 1, ok=lambda v: v.array.size)
    axes = g.some(list(range(a.rank)), 1)
    return g.emit(op, [a, g.integers([g.integer(1, 8) for _ in axes])], {"axes": axes})


MAKERS = {
    "Reshape": reshape,
    "Transpose": transpose,
    "Flatten": flatten,
    "Squeeze": squeeze,
    "Unsqueeze": unsqueeze,
    "Concat": concat,
    "Split": split,
    "Slice": slice_,
    "Pad": pad,
    "Expand": expand,
    "Tile": tile,
    "Trilu": trilu,
    "Gather": gather,
    "GatherElements": gather_elements,
    "GatherND": gather_nd,
    "ScatterElements": scatter_elements,
    "ScatterND": scatter_nd,
    "OneHot": one_hot,
    "Range": range_,
    "ConstantOfShape": constant_of_shape,
    "Shape": shape,
    "Size": shape,
    "DepthToSpace": depth_to_space,
    "SpaceToDepth": depth_to_space,
    "Identity": identity,
    "Compress": compress,
    "NonZero": nonzero,
    "Unique": unique,
    "EyeLike": eye_like,
    "ReverseSequence": reverse_sequence,
    "CenterCropPad": crop_pad,
}
