"""Cases of convolutions, pools, resampling and signal operators."""

from __future__ import annotations

import numpy as np
from onnx import helper

from case import Case, Draw


def spatial(draw: Draw, rank: int, kernel_most: int = 3) -> tuple[list[int], dict]:
    """A kernel with strides, dilations and paddings that leave at least one window, and an image for it."""
    kernel = [draw.integer(1, kernel_most) for _ in range(rank)]
    dilations = [draw.integer(1, 2) for _ in range(rank)] if draw.chance(0.4) else [1] * rank
    attributes = {"kernel_shape": kernel, "strides": draw.choice([None, [draw.integer(1, 3) for _ in range(rank)]]),
                  "dilations": dilations if max(dilations) > 1 or draw.chance(0.2) else None}
    padding = draw.choice(["none", "pads", "pads", "SAME_UPPER", "SAME_LOWER", "VALID"])
    if padding == "pads":
        attributes["pads"] = [draw.integer(0, (kernel[i % rank] - 1) * dilations[i % rank]) for i in range(2 * rank)]
    elif padding != "none":
        attributes["auto_pad"] = padding
        if padding.startswith("SAME"):
            attributes["dilations"], dilations = None, [1] * rank
            if attributes["strides"]:  # a stride beyond the kernel would ask for negative padding, which is not defined
                attributes["strides"] = [min(s, k) for s, k in zip(attributes["strides"], kernel)]
    image = [dilations[i] * (kernel[i] - 1) + draw.integer(1, 5) for i in range(rank)]
    return image, attributes


def convolution(draw: Draw) -> Case:
    opset = draw.opset()
    rank = draw.choice([1, 2, 2, 2, 3])
    image, attributes = spatial(draw, rank)
    group, inputs, outputs = draw.choice([1, 1, 2, 3]), draw.integer(1, 3), draw.integer(1, 3)
    x = draw.array((draw.integer(1, 2), group * inputs, *image), low=-2, high=2)
    w = draw.array((group * outputs, inputs, *attributes["kernel_shape"]), low=-2, high=2)
    if draw.chance(0.3):
        attributes["kernel_shape"] = None
    b = draw.array((group * outputs,)) if draw.chance(0.5) else None
    return Case([x, w, b], {**attributes, "group": group}, opset)


def transposed_convolution(draw: Draw) -> Case:
    rank = draw.choice([1, 2, 2, 3])
    image, attributes = spatial(draw, rank)
    strides = attributes["strides"] or [1] * rank
    group, inputs, outputs = draw.choice([1, 1, 2]), draw.integer(1, 3), draw.integer(1, 3)
    if draw.chance(0.3) and attributes.get("pads"):
        attributes["output_padding"] = [draw.integer(0, max(s - 1, 0)) for s in strides]
    elif draw.chance(0.2):
        attributes.pop("pads", None)
        attributes["output_shape"] = [(i - 1) * s + k + draw.integer(0, s - 1) for i, s, k in zip(image, strides, attributes["kernel_shape"])]
        attributes["dilations"] = None
    x = draw.array((draw.integer(1, 2), group * inputs, *image), low=-2, high=2)
    w = draw.array((group * inputs, outputs, *attributes["kernel_shape"]), low=-2, high=2)
    return Case([x, w, draw.array((group * outputs,)) if draw.chance(0.5) else None], {**attributes, "group": group}, draw.opset())


def deformable_convolution(draw: Draw) -> Case:
    kernel, group, inputs, offsets = [draw.integer(1, 3), draw.integer(1, 3)], draw.choice([1, 2]), draw.integer(1, 2), draw.choice([1, 1, 2])
    n, image = draw.integer(1, 2), [draw.integer(4, 6), draw.integer(4, 6)]
    out = [i - k + 1 for i, k in zip(image, kernel)]
    channels = group * inputs * offsets
    taps = offsets * kernel[0] * kernel[1]
    x = draw.array((n, channels, *image), low=-2, high=2)
    w = draw.array((group * draw.integer(1, 2), channels // group, *kernel), low=-2, high=2)
    mask = draw.array((n, taps, *out), low=0, high=1) if draw.chance(0.5) else None
    return Case([x, w, draw.array((n, 2 * taps, *out), low=-2, high=2), draw.array((w.shape[0],)) if draw.chance(0.5) else None, mask],
                {"group": group, "offset_group": offsets, "kernel_shape": kernel}, draw.opset())


def pool(draw: Draw) -> Case:
    opset = draw.opset()
    rank = draw.choice([1, 2, 2, 3])
    image, attributes = spatial(draw, rank)
    lowest_dilated = {"MaxPool": 10, "AveragePool": 19, "LpPool": 18}[draw.op]
    if opset < lowest_dilated:
        attributes.pop("dilations")
    if "pads" in attributes:  # a window must see at least one element
        attributes["pads"] = [min(p, k - 1) for p, k in zip(attributes["pads"], attributes["kernel_shape"] * 2)]
    if opset >= {"MaxPool": 10, "AveragePool": 10, "LpPool": 18}[draw.op]:
        attributes["ceil_mode"] = draw.choice([None, 0, 1])
    dtype, outputs = "float32", 1
    if draw.op == "AveragePool":
        attributes["count_include_pad"] = draw.choice([None, 0, 1])
    elif draw.op == "LpPool":
        attributes["p"] = draw.choice([None, 1, 2, 3])
    else:
        dtype = draw.dtype(opset)
        outputs = draw.choice([1, 2]) if opset >= 8 else 1
        attributes["storage_order"] = draw.choice([None, None, 0, 1]) if opset >= 8 else None
    x = draw.array((draw.integer(1, 2), draw.integer(1, 3), *image), dtype)
    return Case([x], attributes, opset, outputs)


def global_pool(draw: Draw) -> Case:
    x = draw.array(draw.shape(3, 5, empty=0), "float32")
    return Case([x], {"p": draw.choice([None, 1, 3])} if draw.op == "GlobalLpPool" else {}, draw.opset())


def max_unpool(draw: Draw) -> Case:
    kernel, channels = 2, draw.integer(1, 2)
    rows, columns = draw.integer(1, 3), draw.integer(1, 3)
    x = draw.array((1, channels, rows, columns))
    height, width = rows * kernel, columns * kernel
    places = np.zeros(x.shape, np.int64)
    for c, i, j in np.ndindex(channels, rows, columns):
        places[0, c, i, j] = (c * height + i * kernel + draw.integer(0, 1)) * width + j * kernel + draw.integer(0, 1)
    larger = np.array([1, channels, height, width], np.int64) if draw.chance(0.3) else None
    return Case([x, places, larger], {"kernel_shape": [kernel] * 2, "strides": [kernel] * 2}, draw.opset())


def boxes(draw: Draw, count: int, size: float) -> np.ndarray:
    corners = draw.array((count, 2, 2), low=0, high=size)
    return np.concatenate([corners.min(1), corners.max(1) + 0.5], axis=1)


def max_roi_pool(draw: Draw) -> Case:
    x, count = draw.array((1, draw.integer(1, 2), 7, 7)), draw.integer(1, 3)
    corners = np.round(boxes(draw, count, 6)).clip(0, 6)
    rois = np.concatenate([np.zeros((count, 1)), corners], axis=1).astype(np.float32)
    return Case([x, rois], {"pooled_shape": [draw.integer(1, 3)] * 2, "spatial_scale": draw.choice([None, 0.5])}, draw.opset())


def roi_align(draw: Draw) -> Case:
    opset = draw.opset()
    x, count = draw.array((2, draw.integer(1, 2), 6, 6)), draw.integer(1, 3)
    attributes = {"mode": draw.choice([None, "avg", "max"]), "output_height": draw.choice([None, 2, 3]), "output_width": draw.choice([None, 2]),
                  "sampling_ratio": draw.choice([None, 1, 2]), "spatial_scale": draw.choice([None, 0.5])}
    if opset >= 16:
        attributes["coordinate_transformation_mode"] = draw.choice([None, "half_pixel", "output_half_pixel"])
    return Case([x, boxes(draw, count, 5).astype(np.float32), draw.rng.integers(0, 2, count)], attributes, opset)


def grid_sample(draw: Draw) -> Case:
    opset = draw.opset()
    volume = opset >= 20 and draw.chance(0.3)
    space = [draw.integer(2, 5) for _ in range(3 if volume else 2)]
    n, count = draw.integer(1, 2), 3 if volume else 2
    modes = ["bilinear", "nearest", "bicubic"] if opset < 20 else ["linear", "nearest"] + ([] if volume else ["cubic"])
    # Odd sixteenths keep samples away from the middle between two pixels, where nearest may go either way.
    grid = (draw.array((n, *[draw.integer(1, 4) for _ in range(count)], count), low=-1.125, high=1.125) + 1 / 29).astype(np.float32)
    mode, padding = draw.choice([None, *modes]), draw.choice([None, "zeros", "border", "reflection"])
    return Case([draw.array((n, draw.integer(1, 2), *space)), grid],
                {"mode": mode, "padding_mode": padding, "align_corners": draw.choice([None, 0, 1])}, opset, note=f"{mode}_{padding}")


def affine_grid(draw: Draw) -> Case:
    rank, n = draw.choice([2, 3]), draw.integer(1, 2)
    size = np.array([n, draw.integer(1, 2), *[draw.integer(1, 4) for _ in range(rank)]], np.int64)
    align = draw.choice([None, 0, 1])
    if align:  # the corners of a single element are one point twice: the step is 2/0
        size[2:] += 1
    theta = draw.array((n, rank, rank + 1)) + draw.rng.random((n, rank, rank + 1)) / 8  # no sums that cancel to zero
    return Case([theta.astype(np.float32), size], {"align_corners": align}, draw.opset())


def resize(draw: Draw) -> Case:
    opset = draw.opset()
    rank = draw.choice([2, 3, 4, 4, 4])
    x = draw.array(tuple(draw.integer(1, 5) for _ in range(rank)))
    mode = draw.choice(["nearest", "linear", *(["cubic"] if opset >= 11 else [])])
    resized = [a for a in range(rank) if a >= rank - 2]
    attributes = {"mode": mode}
    if opset == 10 or draw.op == "Upsample":
        scales = np.array([draw.choice([1.0, 1.5, 2.0, 3.0]) if a in resized else 1.0 for a in range(rank)], np.float32)
        if opset < 9:
            return Case([x], {"mode": mode, "scales": scales.tolist()}, opset)
        return Case([x, scales], attributes, opset)
    transformation = draw.choice([None, "half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"]
                                 + (["half_pixel_symmetric"] if opset >= 19 else []))
    attributes["coordinate_transformation_mode"] = transformation
    if mode == "nearest":
        attributes["nearest_mode"] = draw.choice([None, "floor", "ceil", "round_prefer_ceil", "round_prefer_floor"])
    if mode == "cubic":
        attributes["cubic_coeff_a"] = draw.choice([None, -0.5])
        attributes["exclude_outside"] = draw.choice([None, 0, 1])
    if opset >= 18 and mode != "nearest":
        attributes["antialias"] = draw.choice([None, 0, 1])
    roi = None if opset >= 13 else np.zeros(0, np.float32)
    if draw.chance(0.5):
        sizes = np.array([draw.integer(1, 8) if a in resized else x.shape[a] for a in range(rank)], np.int64)
        scales = None if opset >= 13 else np.zeros(0, np.float32)
        if opset >= 18 and draw.chance(0.3):
            attributes["axes"] = resized
            sizes = sizes[-len(resized):]
            attributes["keep_aspect_ratio_policy"] = draw.choice([None, "stretch", "not_larger", "not_smaller"])
        return Case([x, roi, scales, sizes], attributes, opset, note=f"{transformation}_sizes")
    scales = np.array([draw.choice([0.5, 0.75, 1.25, 1.5, 2.0, 3.0]) if a in resized else 1.0 for a in range(rank)], np.float32)
    return Case([x, roi, scales], attributes, opset, note=f"{transformation}_scales")


def window_function(draw: Draw) -> Case:
    to = draw.choice([None, helper.np_dtype_to_tensor_dtype(np.dtype("float32")), helper.np_dtype_to_tensor_dtype(np.dtype("float64"))])
    return Case([np.array(draw.integer(2, 12), draw.choice(["int32", "int64"]))], {"periodic": draw.choice([None, 0, 1]), "output_datatype": to},
                draw.opset())


def mel_weights(draw: Draw) -> Case:
    values = [np.array(v, np.int64) for v in (draw.integer(2, 6), draw.choice([16, 32]), draw.choice([8000, 16000]))]
    return Case([*values, np.array(0, np.float32), np.array(4000, np.float32)], {}, draw.opset())


def fourier(draw: Draw) -> Case:
    opset = draw.opset()
    rank, inverse = draw.integer(1, 2), draw.chance(0.4)
    shape = (draw.integer(1, 2), *[draw.integer(1, 6) for _ in range(rank)], 2 if inverse or draw.chance(0.5) else 1)
    # Real signals have bins that are zero; in float32 they come out as noise of 1e-7 and no tolerance fits.
    dtype = "float64" if shape[-1] == 1 else draw.choice(["float32", "float64"])
    axis = draw.integer(1, rank)
    if draw.chance(0.3):
        axis -= len(shape)
    onesided = 1 if shape[-1] == 1 and draw.chance(0.5) else draw.choice([None, 0])
    attributes = {"inverse": 1 if inverse else draw.choice([None, 0]), "onesided": onesided}
    length = np.array(draw.integer(1, 8), np.int64) if draw.chance(0.4) else None
    x = (draw.array(shape, dtype) * (1 + 0.3 * draw.rng.random(shape))).astype(dtype)
    if opset < 20:
        return Case([x, length], {**attributes, "axis": axis}, opset)
    return Case([x, length, np.array(axis, np.int64)], attributes, opset)


def short_time_fourier(draw: Draw) -> Case:
    length = draw.choice([4, 6, 8])
    x = draw.array((draw.integer(1, 2), draw.integer(length, 20), 1), "float64")  # for the reason given above
    window = draw.array((length,), "float64", low=0.25, high=1) if draw.chance(0.6) else None
    given = np.array(length, np.int64) if window is None or draw.chance(0.5) else None
    return Case([x, np.array(draw.integer(1, 4), np.int64), window, given], {"onesided": draw.choice([None, 0, 1])}, draw.opset())


def non_max_suppression(draw: Draw) -> Case:
    batches, classes, count = draw.integer(1, 2), draw.integer(1, 2), draw.integer(1, 6)
    rectangles = np.stack([boxes(draw, count, 4) for _ in range(batches)]).astype(np.float32)
    scores = np.stack([(draw.rng.permutation(count * classes) + 1).reshape(classes, count) / 16 for _ in range(batches)]).astype(np.float32)
    optional = [np.array([draw.integer(0, 4)], np.int64), np.array([draw.choice([0.0, 0.3, 0.6])], np.float32), np.array([0.21], np.float32)]
    return Case([rectangles, scores, *optional[:draw.integer(1, 3)]], {"center_point_box": draw.choice([None, 0, 1])}, draw.opset())


def loss(draw: Draw) -> Case:
    opset = draw.opset()
    n, classes, rest = draw.integer(1, 4), draw.integer(2, 4), draw.shape(0, 2, 3, empty=0)
    target = draw.rng.integers(0, classes, (n, *rest))
    weight = draw.array((classes,), low=0.5, high=2) if draw.chance(0.5) else None
    attributes = {"reduction": draw.choice([None, "none", "mean", "sum"]), "ignore_index": draw.choice([None, 1])}
    return Case([draw.array((n, classes, *rest)), target, weight], attributes, opset,
                draw.choice([1, 2]) if draw.op == "SoftmaxCrossEntropyLoss" else 1)


GENERATORS = {
    "Conv": convolution, "ConvTranspose": transposed_convolution, "DeformConv": deformable_convolution,
    **dict.fromkeys(["MaxPool", "AveragePool", "LpPool"], pool), **dict.fromkeys(["GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"], global_pool),
    "MaxUnpool": max_unpool, "MaxRoiPool": max_roi_pool, "RoiAlign": roi_align, "GridSample": grid_sample, "AffineGrid": affine_grid,
    "Resize": resize, "Upsample": resize, **dict.fromkeys(["HannWindow", "HammingWindow", "BlackmanWindow"], window_function),
    "MelWeightMatrix": mel_weights, "DFT": fourier, "STFT": short_time_fourier, "NonMaxSuppression": non_max_suppression,
    **dict.fromkeys(["NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"], loss),
}
