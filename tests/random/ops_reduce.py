"""Cases of reductions, scans along an axis and normalizations."""

from __future__ import annotations

import numpy as np

from case import Case, Draw

REDUCE_RANGES = {"ReduceLogSum": (0.125, 4), "ReduceProd": (-2, 2)}


def reduce(draw: Draw) -> Case:
    opset = draw.opset()
    dtype = draw.dtype(opset)
    x = draw.special(draw.array(draw.shape(), dtype, *REDUCE_RANGES.get(draw.op, (-3, 3))), probability=0.15)
    attributes = {"keepdims": draw.choice([0, 1, None])}
    axes = draw.axes(x.ndim) if draw.chance(0.8) else None
    if opset < (13 if draw.op == "ReduceSum" else 18):
        return Case([x], {**attributes, "axes": axes or None}, opset)
    attributes["noop_with_empty_axes"] = draw.choice([0, 1, None])
    return Case([x, None if axes is None else np.array(axes, np.int64)], attributes, opset)


def arg_reduce(draw: Draw) -> Case:
    opset = draw.opset()
    x = draw.array(draw.shape(1), draw.dtype(opset))
    attributes = {"axis": draw.choice([None, draw.axis(x.ndim)]), "keepdims": draw.choice([0, 1, None])}
    if opset < 11 and (attributes["axis"] or 0) < 0:
        attributes["axis"] += x.ndim
    if opset >= 12:
        attributes["select_last_index"] = draw.choice([0, 1, None])
    return Case([x], attributes, opset)


def cumulative(draw: Draw) -> Case:
    opset = draw.opset()
    x = draw.special(draw.array(draw.shape(1), draw.dtype(opset)))
    axis = np.array(draw.axis(x.ndim), draw.choice(["int32", "int64"]))
    return Case([x, axis], {"exclusive": draw.choice([0, 1, None]), "reverse": draw.choice([0, 1, None])}, opset)


def softmax(draw: Draw) -> Case:
    opset = draw.opset()
    x = draw.special(draw.array(draw.shape(1), draw.dtype(opset)), (np.inf, -np.inf, np.nan), 0.2)
    axis = draw.choice([None, draw.axis(x.ndim)])
    if opset < 11 and axis is not None and axis < 0:
        axis += x.ndim
    return Case([x], {"axis": axis}, opset)


def lp_normalization(draw: Draw) -> Case:
    opset = draw.opset()
    x = draw.array(draw.shape(1), draw.dtype(opset))
    return Case([x], {"axis": draw.choice([None, draw.axis(x.ndim)]), "p": draw.choice([None, 1, 2])}, opset)


def mean_variance(draw: Draw) -> Case:
    x = draw.array(draw.shape(4, 4, empty=0), "float32")
    return Case([x], {"axes": draw.choice([None, [0, 2, 3], [0, 1, 2, 3], [2, 3]])}, draw.opset())


def local_response(draw: Draw) -> Case:
    x = draw.array(draw.shape(4, 4, empty=0), "float32")
    return Case([x], {"size": draw.choice([1, 3, 5]), "alpha": draw.choice([None, 0.5]), "beta": draw.choice([None, 0.5]),
                      "bias": draw.choice([None, 2.0])}, draw.opset())


def batch_normalization(draw: Draw) -> Case:
    opset = draw.opset()
    dtype = draw.dtype(opset)
    x = draw.array(draw.shape(2, 5, empty=0), dtype)
    channels = (x.shape[1],)
    parameters = [draw.array(channels, dtype, low, high) for low, high in ((-2, 2), (-2, 2), (-1, 1), (0.5, 3))]
    return Case([x, *parameters], {"epsilon": draw.choice([None, 1e-3])}, opset)


def instance_normalization(draw: Draw) -> Case:
    x = draw.array(draw.shape(3, 5, empty=0), "float32")
    return Case([x, draw.array((x.shape[1],)), draw.array((x.shape[1],))], {"epsilon": draw.choice([None, 1e-2])}, draw.opset())


def layer_normalization(draw: Draw) -> Case:
    dtype = draw.dtype(17, allowed="f")
    x = draw.array(draw.shape(1, 4, empty=0), dtype)
    axis = draw.choice([None, draw.axis(x.ndim)])
    tail = x.shape[-1 if axis is None else axis:]
    attributes = {"axis": axis, "epsilon": draw.choice([None, 1e-3])}
    scale = draw.array(tail, dtype)
    if draw.op == "LayerNormalization":
        return Case([x, scale, draw.array(tail, dtype) if draw.chance(0.6) else None], attributes, draw.integer(17, 26),
                    draw.choice([1, 3]))
    return Case([x, scale], attributes, draw.integer(23, 26) if draw.op == "RMSNormalization" else 17)


def group_normalization(draw: Draw) -> Case:
    opset = draw.opset()
    groups, each = draw.integer(1, 3), draw.integer(1, 3)
    x = draw.array((draw.integer(1, 3), groups * each, *draw.shape(1, 3, empty=0)), "float32")
    count = (groups,) if opset < 21 else (groups * each,)
    return Case([x, draw.array(count), draw.array(count)], {"num_groups": groups, "epsilon": draw.choice([None, 1e-3])}, opset)


GENERATORS = {
    **dict.fromkeys([f"Reduce{k}" for k in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")], reduce),
    **dict.fromkeys(["ArgMax", "ArgMin"], arg_reduce),
    **dict.fromkeys(["CumSum", "CumProd"], cumulative),
    **dict.fromkeys(["Softmax", "LogSoftmax", "Hardmax"], softmax),
    **dict.fromkeys(["LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization"], layer_normalization),
    "LpNormalization": lp_normalization, "MeanVarianceNormalization": mean_variance, "LRN": local_response,
    "BatchNormalization": batch_normalization, "InstanceNormalization": instance_normalization, "GroupNormalization": group_normalization,
}
