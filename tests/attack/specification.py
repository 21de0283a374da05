"""Operators that neither peer runs on a CPU, or that ONNX's reference gets wrong, by their documentation, in NumPy."""

from __future__ import annotations

import math

import numpy as np
from onnx import helper


def bias_add(attributes, x, bias, skip):
    return x + bias + skip


def bias_split_gelu(attributes, x, bias):
    left, right = np.split((x + bias).astype(np.float64), 2, axis=-1)
    gelu = right * 0.5 * (1 + np.vectorize(math.erf, otypes=[float])(right / math.sqrt(2)))
    return (left * gelu).astype(x.dtype)


def quantized_mean(attributes, x, x_scale, x_zero, y_scale, y_zero):
    real = (x.astype(np.float64) - int(x_zero)) * float(x_scale)
    mean = real.mean(axis=tuple(attributes["axes"]), keepdims=bool(attributes["keepdims"]))
    limits = np.iinfo(x.dtype)
    return np.clip(np.rint(mean / float(y_scale)) + int(y_zero), limits.min, limits.max).astype(x.dtype)


def local_response(attributes, x):
    """ONNX's reference takes as many channels as there are images."""
    alpha, beta, bias = (
        float(np.float32(attributes.get(name, default)))
        for name, default in (("alpha", 1e-4), ("beta", 0.75), ("bias", 1.0))
    )
    size, channels = attributes["size"], x.shape[1]
    squares = x.astype(np.float64) ** 2
    sums = np.zeros(x.shape)
    for c in range(channels):
        first, last = max(0, c - (size - 1) // 2), min(channels - 1, c + size // 2)
        sums[:, c] = squares[:, first : last + 1].sum(axis=1)
    return (x / (bias + alpha / size * sums) ** beta).astype(x.dtype)


def group_norm(attributes, x, scale, bias):
    """In float64: ONNX's reference and ONNX Runtime take mean and variance in float32 (stash_type) of whatever they are given, which
    is far off where the mean is large beside the deviation. Scale and bias are per channel, before opset 21 per group."""
    groups, epsilon = attributes["num_groups"], float(np.float32(attributes.get("epsilon", 1e-5)))
    wide = x.astype(np.float64).reshape(x.shape[0], groups, -1)
    wide = (wide - wide.mean(-1, keepdims=True)) / np.sqrt(wide.var(-1, keepdims=True) + epsilon)
    per_channel = [np.repeat(given.astype(np.float64), x.shape[1] // given.size) for given in (scale, bias)]
    gain, offset = (given.reshape(-1, *(1 for _ in x.shape[2:])) for given in per_channel)
    return (wide.reshape(x.shape) * gain + offset).astype(x.dtype)


def mean_variance(attributes, x):
    """In float64: the peers' variance is the mean of squares less the square of the mean, which is below 0 for values that are nearly
    equal, and NaN then."""
    axes, wide = tuple(attributes.get("axes", (0, 2, 3))), x.astype(np.float64)
    return ((wide - wide.mean(axes, keepdims=True)) / (wide.std(axes, keepdims=True) + 1e-9)).astype(x.dtype)


def sign(attributes, x):
    """ONNX Runtime has 0 for NaN."""
    return np.sign(x)


def prelu(attributes, x, slope):
    """ONNX's reference multiplies zeros by the slope, too, which may change their sign."""
    return np.where(x < 0, x * slope, x).astype(x.dtype)


def softplus(attributes, x):
    """ONNX's reference overflows where the exponential does."""
    return np.logaddexp(0, x.astype(np.float64)).astype(x.dtype)


def log_sum_exp(attributes, x, axes=None):
    """ONNX's reference subtracts the largest, infinite or not."""
    given = attributes.get("axes") if axes is None else axes.tolist()
    if not given and attributes.get("noop_with_empty_axes", 0):
        return x
    over, wide = tuple(given) if given else tuple(range(x.ndim)), x.astype(np.float64)
    largest = wide.max(over, keepdims=True)
    largest[~np.isfinite(largest)] = 0
    with np.errstate(divide="ignore"):
        made = np.log(np.exp(wide - largest).sum(over, keepdims=True)) + largest
    return (made if attributes.get("keepdims", 1) else made.squeeze(over)).astype(x.dtype)


def by_float64(function):
    """ONNX Runtime's cosine of float16 is off by ten last places."""
    return lambda attributes, x: function(x.astype(np.float64)).astype(x.dtype)


def one_hot(attributes, indices, depth, values):
    """ONNX's reference takes the difference of the values times 1, plus the first: rounded."""
    depth = int(depth.reshape(-1)[0])
    axis = attributes.get("axis", -1) % (indices.ndim + 1)
    places = np.expand_dims(np.where(indices < 0, indices + depth, indices), axis)
    wanted = np.arange(depth).reshape([-1 if i == axis else 1 for i in range(indices.ndim + 1)])
    return np.where(places == wanted, values[1], values[0])


OPERATORS = {
    "BiasAdd": bias_add,
    "BiasSplitGelu": bias_split_gelu,
    "Cos": by_float64(np.cos),
    "GroupNormalization": group_norm,
    "LRN": local_response,
    "MeanVarianceNormalization": mean_variance,
    "OneHot": one_hot,
    "PRelu": prelu,
    "QLinearReduceMean": quantized_mean,
    "ReduceLogSumExp": log_sum_exp,
    "Sign": sign,
    "Sin": by_float64(np.sin),
    "Softplus": softplus,
}


class Session:
    """Runs one node as the sessions of the peers do."""

    def __init__(self, node) -> None:
        self.node = node
        self.attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}

    def run(self, names, feed):
        return [OPERATORS[self.node.op_type](self.attributes, *(feed[name] for name in self.node.input))]
