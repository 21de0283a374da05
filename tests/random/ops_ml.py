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
    # By ONNX's text 1 is SOFTMAX and 2 LOGISTIC; ONNX Runtime takes them the other way round.
    transform = draw.choice([0, 0, 3])
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
    return Case([x], attributes, domain=ML, domain_version=5, note="softmax_zero" if transform else "")


def eighths(draw: Draw, count: int) -> list[float]:
    return [draw.integer(-16, 16) / 8 for _ in range(count)]


def matrix(draw: Draw, dtypes: list[str]) -> np.ndarray:
    return draw.array((draw.integer(1, 5), draw.integer(1, 5)), draw.choice(dtypes))


def array_feature_extractor(draw: Draw) -> Case:
    x = draw.array(draw.shape(1, 3, empty=0), draw.choice(["float32", "float64", "int64", "int32"]))
    columns = draw.rng.integers(0, x.shape[-1], (1, draw.integer(1, 4)))
    return Case([x, columns], domain=ML)


def binarizer(draw: Draw) -> Case:
    return Case([matrix(draw, ["float32"])], {"threshold": draw.choice([None, 0.5, -1.0])}, domain=ML)


def feature_vectorizer(draw: Draw) -> Case:
    rows = draw.integer(1, 4)
    dtype = draw.choice(["float32", "float64", "int64", "int32"])
    inputs = [draw.array((rows, draw.integer(1, 4)), dtype) for _ in range(draw.integer(1, 3))]
    return Case(inputs, {"inputdimensions": [x.shape[1] for x in inputs]}, domain=ML)


def imputer(draw: Draw) -> Case:
    x = matrix(draw, ["float32", "int64"])
    count = draw.choice([1, x.shape[1]])
    if x.dtype == np.int64:
        return Case([x], {"imputed_value_int64s": [draw.integer(5, 9) for _ in range(count)], "replaced_value_int64": draw.integer(-2, 2)}, domain=ML)
    replaced = draw.choice([np.nan, 0.0, 1.0])
    if np.isnan(replaced):
        x = draw.special(x, values=(np.nan,), probability=0.9)
    return Case([x], {"imputed_value_floats": eighths(draw, count), "replaced_value_float": replaced}, domain=ML)


def label_encoder(draw: Draw) -> Case:
    """From integers or floats to integers or floats; keys that are there and others."""
    count = draw.integer(1, 6)
    whole, to_whole = draw.chance(0.5), draw.chance(0.5)
    keys = [int(key) for key in draw.rng.permutation(12)[:count] - 4]
    attributes = {"keys_int64s" if whole else "keys_floats": keys if whole else [key / 2 for key in keys]}
    attributes["values_int64s" if to_whole else "values_floats"] = [draw.integer(-9, 9) for _ in range(count)] if to_whole else eighths(draw, count)
    if draw.chance(0.5):
        attributes["default_int64" if to_whole else "default_float"] = 77 if to_whole else 7.5
    x = draw.array(draw.shape(1, 2), "int64" if whole else "float32", -4, 8)
    return Case([x if whole else np.round(x * 2) / 2], attributes, domain=ML, domain_version=draw.choice([2, 4]))


def linear_classifier(draw: Draw) -> Case:
    x = matrix(draw, ["float32", "float64", "int64", "int32"])
    classes = draw.choice([2, 2, 3, 4])
    targets = draw.choice([1, 2]) if classes == 2 else classes
    transform = draw.choice(TRANSFORMS[:4])
    attributes = {"coefficients": eighths(draw, targets * x.shape[1]), "intercepts": eighths(draw, targets), "post_transform": transform,
                  "classlabels_ints": [int(label) for label in draw.rng.permutation(20)[:classes]]}
    return Case([x], attributes, outputs=2, domain=ML, note=f"{transform.lower()}_{targets}")


def linear_regressor(draw: Draw) -> Case:
    x = matrix(draw, ["float32"])
    targets = draw.integer(1, 3)
    attributes = {"coefficients": eighths(draw, targets * x.shape[1]), "targets": targets, "post_transform": draw.choice(TRANSFORMS[:3])}
    if draw.chance(0.7):
        attributes["intercepts"] = eighths(draw, targets)
    return Case([x], attributes, domain=ML)


def normalizer(draw: Draw) -> Case:
    return Case([matrix(draw, ["float32", "float64", "int64", "int32"])], {"norm": draw.choice(["MAX", "L1", "L2"])}, domain=ML)


def one_hot_encoder(draw: Draw) -> Case:
    x = draw.array(draw.shape(1, 2, empty=0), draw.choice(["int64", "int32", "float32", "float64"]), 0, 6)
    return Case([np.trunc(x).astype(x.dtype)], {"cats_int64s": [int(c) for c in draw.rng.permutation(7)[: draw.integer(1, 6)]]}, domain=ML)


def scaler(draw: Draw) -> Case:
    x = matrix(draw, ["float32", "float64", "int64", "int32"])
    count = draw.choice([1, x.shape[1]])
    return Case([x], {"offset": eighths(draw, count), "scale": eighths(draw, count)}, domain=ML)


def kernel(draw: Draw) -> dict:
    return {"kernel_type": draw.choice(["LINEAR", "POLY", "RBF", "SIGMOID"]), "kernel_params": [0.25, 0.5, 2.0]}


def svm_classifier(draw: Draw) -> Case:
    """By support vectors with or without probabilities, or by one row of weights for each class. There is no PROBIT: of two classes
    without probabilities ONNX Runtime leaves half of the scores unset."""
    x = matrix(draw, ["float32", "float64", "int64", "int32"])
    classes, width = draw.choice([2, 3, 4]), x.shape[1]
    pairs = classes * (classes - 1) // 2
    form = draw.choice(["vectors", "probabilities", "weights"])
    transform = draw.choice(TRANSFORMS[:4])
    attributes = {"post_transform": transform, **kernel(draw), "classlabels_ints": [int(label) for label in draw.rng.permutation(20)[:classes]]}
    if form == "weights":
        attributes |= {"kernel_type": "LINEAR", "coefficients": eighths(draw, classes * width), "rho": eighths(draw, 1)}
    else:
        counts = [draw.integer(1, 3) for _ in range(classes)]
        attributes |= {"vectors_per_class": counts, "support_vectors": eighths(draw, sum(counts) * width),
                       "coefficients": eighths(draw, sum(counts) * (classes - 1)), "rho": eighths(draw, pairs)}
        if form == "probabilities":
            attributes |= {"prob_a": [-abs(value) - 0.125 for value in eighths(draw, pairs)], "prob_b": eighths(draw, pairs)}
    return Case([x], attributes, outputs=2, domain=ML, note=f"{form}_{transform.lower()}_{classes}")


def svm_regressor(draw: Draw) -> Case:
    x = matrix(draw, ["float32"])
    count = draw.integer(0, 4)
    attributes = {"coefficients": eighths(draw, count or x.shape[1]), "rho": eighths(draw, 1), "n_supports": count, **kernel(draw)}
    if count:
        attributes["support_vectors"] = eighths(draw, count * x.shape[1])
    if draw.chance(0.3):
        attributes["one_class"] = 1
    return Case([x], attributes, domain=ML)


GENERATORS = {
    "ArrayFeatureExtractor": array_feature_extractor, "Binarizer": binarizer, "FeatureVectorizer": feature_vectorizer, "Imputer": imputer,
    "LabelEncoder": label_encoder, "LinearClassifier": linear_classifier, "LinearRegressor": linear_regressor, "Normalizer": normalizer,
    "OneHotEncoder": one_hot_encoder, "SVMClassifier": svm_classifier, "SVMRegressor": svm_regressor, "Scaler": scaler,
    "TreeEnsemble": ensemble, "TreeEnsembleClassifier": classifier, "TreeEnsembleRegressor": regressor,
}  # fmt: skip
