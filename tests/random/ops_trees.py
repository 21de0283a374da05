"""Cases of ai.onnx.ml: random decision trees of every mode, and the operators that converters put around them."""

from __future__ import annotations

import numpy as np
from onnx import numpy_helper

from case import ML, Case, Draw

MODES = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]
TRANSFORMS = ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO", "PROBIT"]


def split_value(draw: Draw) -> float:
    return draw.integer(-16, 16) / 8


def grow(draw: Draw, depth: int) -> list:
    """[feature, mode, split, missing, true, false] or None for a leaf."""
    if depth == 0 or draw.chance(0.2):
        return None
    return [draw.integer(0, 3), draw.choice(MODES), split_value(draw), draw.integer(0, 1), grow(draw, depth - 1), grow(draw, depth - 1)]


def node_lists(draw: Draw, kind: str, targets: list[int], values, partial: bool = True) -> dict:
    """The attributes that regressors and classifiers share; kind is target or class. Leaves may have weights for some of the targets only."""
    nodes, weights = [], []
    for tree in range(draw.integer(1, 6)):
        numbers = iter(range(10**6))

        def add(node) -> int:
            number = next(numbers)
            place = len(nodes)
            nodes.append([tree, number, 0, "LEAF", 0.0, 0, 0, 0])
            if node is None:
                chosen = [draw.choice(targets)] if partial and draw.chance(0.3) else targets
                weights.extend((tree, number, target, values()) for target in chosen)
                return number
            feature, mode, split, missing, if_true, if_false = node
            nodes[place][2:6] = [feature, mode, split, missing]
            nodes[place][6] = add(if_true)
            nodes[place][7] = add(if_false)
            return number

        add(grow(draw, draw.integer(1, 5)) or [0, "BRANCH_LEQ", 0.0, 0, None, None])
    names = ("nodes_treeids", "nodes_nodeids", "nodes_featureids", "nodes_modes", "nodes_values", "nodes_missing_value_tracks_true",
             "nodes_truenodeids", "nodes_falsenodeids")
    attributes = {name: [node[i] for node in nodes] for i, name in enumerate(names)}
    for i, name in enumerate(("treeids", "nodeids", "ids", "weights")):
        attributes[f"{kind}_{name}"] = [weight[i] for weight in weights]
    if draw.chance(0.3):
        del attributes["nodes_missing_value_tracks_true"]
    return attributes


def as_tensors(attributes: dict, *names: str) -> dict:
    for name in names:
        if name in attributes:
            attributes[name + "_as_tensor"] = numpy_helper.from_array(np.array(attributes.pop(name), np.float64), name)
    return attributes


def features(draw: Draw, dtypes: list[str]) -> np.ndarray:
    dtype = np.dtype(draw.choice(dtypes))
    return draw.special(draw.array((draw.integer(1, 5), 4), dtype), values=(np.nan, np.inf, -np.inf))


def regressor(draw: Draw) -> Case:
    targets = draw.integer(1, 3)
    transform = draw.choice(TRANSFORMS)
    # PROBIT is of numbers between 0 and 1.
    low, high = (0, 1) if transform == "PROBIT" else (-16, 16)
    # A target that no leaf of a row has a weight for is 0 in ONNX Runtime, whatever its base value.
    based = draw.chance(0.4)
    attributes = node_lists(draw, "target", list(range(targets)), lambda: draw.integer(low, high) / 8, partial=not based)
    attributes |= {"n_targets": targets, "post_transform": transform, "aggregate_function": draw.choice(["SUM", "AVERAGE", "MIN", "MAX"])}
    if based:
        attributes["base_values"] = [draw.integer(0, 8) / 16 for _ in range(targets)]
    x = features(draw, ["float32", "float32", "float64"])
    if x.dtype == np.float64 and draw.chance(0.7):
        as_tensors(attributes, "target_weights", "nodes_values", "base_values")
    return Case([x], attributes, domain=ML, domain_version=3, note=transform.lower())


def classifier(draw: Draw) -> Case:
    """With two classes, weights are given for the first alone, as converters do: ONNX Runtime's labels are others where both have some."""
    classes = draw.choice([2, 3, 4])
    transform = draw.choice(TRANSFORMS[:4] if classes == 2 else TRANSFORMS)
    positive = transform == "PROBIT" or draw.chance(0.5)
    listed = [0] if classes == 2 else list(range(classes))
    attributes = node_lists(draw, "class", listed, lambda: draw.integer(0 if positive else -16, 1 if transform == "PROBIT" else 16) / 16)
    attributes |= {"classlabels_int64s": [int(label) for label in draw.rng.permutation(20)[:classes]], "post_transform": transform}
    if draw.chance(0.3):
        attributes["base_values"] = [draw.integer(0, 4) / 16 for _ in range(1 if classes == 2 else classes)]
    x = features(draw, ["float32", "float32", "float64", "int64", "int32"])
    if x.dtype == np.float64 and draw.chance(0.7):
        as_tensors(attributes, "class_weights", "nodes_values", "base_values")
    return Case([x], attributes, outputs=2, domain=ML, domain_version=3, note=f"{transform.lower()}_{classes}")


def ensemble(draw: Draw) -> Case:
    """Version 5: inner nodes and leaves in lists of their own."""
    dtype = np.dtype(draw.choice(["float32", "float64"]))
    targets = draw.integer(1, 3)
    nodes, leaves, members, roots = [], [], [], []

    def add(node, top: bool = False) -> tuple[int, int]:
        if node is None:
            leaves.append((draw.integer(0, targets - 1), draw.integer(-16, 16) / 8))
            return len(leaves) - 1, 1
        feature, mode, split, missing, if_true, if_false = node
        code = MODES.index(mode)
        place = len(nodes)
        nodes.append([feature, code, split, missing, 0, 0, 0, 0])
        nodes[place][4:6] = add(if_true)
        nodes[place][6:8] = add(if_false)
        return place, 0

    for _ in range(draw.integer(1, 5)):
        roots.append(add(grow(draw, draw.integer(1, 5)) or [0, "BRANCH_LEQ", 0.0, 0, None, None])[0])
    if draw.chance(0.5):
        for node in nodes:
            if draw.chance(0.3):
                node[1], node[2] = 6, 0.0
                members += [float(draw.integer(0, 3)) for _ in range(draw.integer(1, 4))] + [np.nan]
    transform = draw.choice([0, 0, 0, 1, 2, 3])
    attributes = {
        "nodes_featureids": [node[0] for node in nodes], "nodes_modes": numpy_helper.from_array(np.array([n[1] for n in nodes], np.uint8), "modes"),
        "nodes_splits": numpy_helper.from_array(np.array([n[2] for n in nodes], dtype), "splits"),
        "nodes_missing_value_tracks_true": [node[3] for node in nodes], "nodes_truenodeids": [node[4] for node in nodes],
        "nodes_trueleafs": [node[5] for node in nodes], "nodes_falsenodeids": [node[6] for node in nodes],
        "nodes_falseleafs": [node[7] for node in nodes], "leaf_targetids": [leaf[0] for leaf in leaves],
        "leaf_weights": numpy_helper.from_array(np.array([leaf[1] for leaf in leaves], dtype), "weights"), "tree_roots": roots,
        "n_targets": targets, "aggregate_function": draw.integer(0, 3), "post_transform": transform,
    }  # fmt: skip
    if members:
        attributes["membership_values"] = numpy_helper.from_array(np.array(members, dtype), "members")
    x = draw.array((draw.integer(1, 5), 4), dtype)
    # Of other numbers ONNX Runtime says that they are in a set where their whole part is.
    x = draw.special(np.trunc(x) if members else x, values=(np.nan, np.inf, -np.inf))
    return Case([x], attributes, domain=ML, domain_version=5, note=["", "softmax", "logistic", "softmax_zero"][transform])


GENERATORS = {"TreeEnsemble": ensemble, "TreeEnsembleClassifier": classifier, "TreeEnsembleRegressor": regressor}
