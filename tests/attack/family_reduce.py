"""Reductions, normalisations, softmax, scans and sorting."""

from __future__ import annotations

import numpy as np

from draw import Draw
from graph import Refused

REDUCTIONS = "L1 L2 LogSum LogSumExp Max Mean Min Prod SumSquare".split()
ATTRIBUTE_AXES_UNTIL = {f"Reduce{name}": 18 for name in REDUCTIONS} | {"ReduceSum": 13}


def bounded(v, limit: float = 1e18) -> bool:
    """Sums of such values, or of their squares, do not overflow on the way, in whatever order."""
    if v.kind != "f" or not v.array.size:
        return True
    finite = np.abs(v.array[np.isfinite(v.array)]).max(initial=0)
    return float(finite) < (limit if v.dtype.itemsize > 2 else 100)


def steady_product(v) -> bool:
    """Products of such values neither overflow nor vanish on the way, in whatever order."""
    sizes = np.abs(v.array.astype(np.float64))
    return (
        v.finite
        and bool((sizes > 0).all())
        and float(np.abs(np.log2(sizes)).sum()) < (100 if v.dtype.itemsize > 2 else 8)
    )


def reduce(g: Draw, op: str):
    limit = 1e32 if op in ("ReduceSum", "ReduceMean", "ReduceL1", "ReduceMax", "ReduceMin") else 1e18
    a = g.pick("f" if g.chance(0.8) or "Log" in op else "fi", 1, ok=lambda v: bounded(v, limit) and v.array.size)
    if op == "ReduceProd" and not steady_product(a):
        raise Refused("a partial product may overflow or vanish")
    axes = g.axes(a.rank, 1)
    attributes = {"keepdims": g.choice([None, 0, 1])}
    if g.graph.opset < ATTRIBUTE_AXES_UNTIL[op]:
        return g.emit(op, [a], attributes | {"axes": axes if g.chance(0.9) else None})
    if g.chance(0.1):
        return g.emit(op, [a], attributes | {"noop_with_empty_axes": g.choice([None, 0, 1])})
    return g.emit(op, [a, g.integers(axes)], attributes)


def arg(g: Draw, op: str):
    a = g.pick("fi", 1, ok=lambda v: v.array.size and v.finite)
    return g.emit(
        op, [a], {"axis": g.axis(a.rank), "keepdims": g.choice([0, 1]), "select_last_index": g.choice([None, 0, 1])}
    )


def softmax(g: Draw, op: str):
    a = g.pick("f", 1, ok=lambda v: v.finite or op == "Softmax")
    return g.emit(op, [a], {"axis": g.axis(a.rank) if g.chance(0.8) else None})


def cumulative(g: Draw, op: str):
    a = g.pick("fi", 1, ok=bounded)
    axis = g.leaf(np.asarray(g.axis(a.rank), g.choice(["int32", "int64"])))
    return g.emit(op, [a, axis], {"exclusive": g.choice([None, 0, 1]), "reverse": g.choice([None, 0, 1])})


def topk(g: Draw, op: str):
    a = g.pick("fi", 1, ok=lambda v: v.array.size and v.finite)
    axis = g.axis(a.rank)
    return g.emit(
        op,
        [a, g.integers([g.integer(0 if g.chance(0.1) else 1, a.shape[axis])])],
        {"axis": axis, "largest": g.choice([0, 1]), "sorted": 1},
        2,
    )


def layer_norm(g: Draw, op: str):
    a = g.pick("f", 1, ok=lambda v: bounded(v) and v.array.size)
    axis = g.axis(a.rank)
    inner = a.shape[axis:] if axis < 0 else a.shape[axis:]
    operands = [a, g.plain(a, inner)]
    if op == "LayerNormalization" and g.chance(0.7):
        operands.append(g.plain(a, inner))
    return g.emit(op, operands, {"axis": axis, "epsilon": g.choice([None, 1e-3])})


def instance_norm(g: Draw, op: str):
    a = g.ranked(g.integer(3, 4), ok=lambda v: bounded(v) and v.array.size)
    channels = (a.shape[1],)
    if op == "InstanceNormalization":
        return g.emit(op, [a, g.plain(a, channels), g.plain(a, channels)], {"epsilon": g.choice([None, 1e-2])})
    if g.graph.opset < 21:
        raise Refused("GroupNormalization of opset 18 is deprecated")
    groups = g.choice([d for d in range(1, a.shape[1] + 1) if a.shape[1] % d == 0])
    return g.emit(
        op, [a, g.plain(a, channels), g.plain(a, channels)], {"num_groups": groups, "epsilon": g.choice([None, 1e-2])}
    )


def batch_norm(g: Draw, op: str):
    a = g.ranked(g.integer(2, 4), ok=bounded)
    c = (a.shape[1],)
    variance = g.leaf(np.abs(g.rng.uniform(0.1, 3, c)).astype(a.dtype))
    return g.emit(op, [a, g.plain(a, c), g.plain(a, c), g.plain(a, c), variance], {"epsilon": g.choice([None, 1e-3])})


def lp_normalization(g: Draw, op: str):
    a = g.pick("f", 1, ok=lambda v: bounded(v) and v.array.size)
    return g.emit(op, [a], {"axis": g.axis(a.rank), "p": g.choice([None, 1, 2])})


def mean_variance(g: Draw, op: str):
    a = g.ranked(4, dtype=np.float32, ok=lambda v: bounded(v) and v.array.size)
    return g.emit(op, [a], {"axes": g.choice([[0, 2, 3], [2, 3], [1]])})


def local_response(g: Draw, op: str):
    a = g.ranked(g.integer(3, 4), ok=lambda v: bounded(v) and v.array.size)
    return g.emit(
        op,
        [a],
        {
            "size": g.choice([1, 3, 5]),
            "alpha": g.choice([None, 0.1]),
            "beta": g.choice([None, 0.5]),
            "bias": g.choice([None, 2.0]),
        },
    )


def global_pool(g: Draw, op: str):
    a = g.ranked(g.integer(3, 5), ok=lambda v: bounded(v) and v.array.size)
    return g.emit(op, [a], {"p": g.choice([1, 2, 3])} if op == "GlobalLpPool" else {})


def softmax_by_hand(g: Draw, op: str):
    """Softmax, layer norm, RMS norm or variance from single nodes, as exporters write them."""
    a = g.pick("f", 1, ok=lambda v: bounded(v) and v.array.size)
    axes = [-1]

    def mean(x, name="ReduceMean"):
        old = g.graph.opset < ATTRIBUTE_AXES_UNTIL[name]
        return g.emit(
            name, [x] if old else [x, g.leaf(np.array(axes), True)], {"axes": axes if old else None, "keepdims": 1}
        )[0]

    scalar = lambda number: g.leaf(np.asarray(number, a.dtype), True)
    two = lambda name, x, y: g.emit(name, [x, y])[0]
    kind = g.integer(0, 2)
    if kind == 0:
        e = g.emit("Exp", [two("Sub", a, mean(a, "ReduceMax"))])[0]
        return two("Div", e, mean(e, "ReduceSum"))
    centred = two("Sub", a, mean(a)) if kind == 1 else a
    square = two("Mul", centred, centred) if g.chance(0.5) else two("Pow", centred, scalar(2.0))
    root = g.emit("Sqrt", [two("Add", mean(square), scalar(1e-5))])[0]
    return two("Mul", two("Div", centred, root), g.like(a, a.shape[-1:]))


MAKERS = {
    **dict.fromkeys(ATTRIBUTE_AXES_UNTIL, reduce),
    "ArgMax": arg,
    "ArgMin": arg,
    **dict.fromkeys(["Softmax", "LogSoftmax", "Hardmax"], softmax),
    "CumSum": cumulative,
    "CumProd": cumulative,
    "TopK": topk,
    "LayerNormalization": layer_norm,
    "RMSNormalization": layer_norm,
    "InstanceNormalization": instance_norm,
    "GroupNormalization": instance_norm,
    "BatchNormalization": batch_norm,
    "LpNormalization": lp_normalization,
    "MeanVarianceNormalization": mean_variance,
    "LRN": local_response,
    **dict.fromkeys(["GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"], global_pool),
}
PATTERNS = {"norm": softmax_by_hand}
