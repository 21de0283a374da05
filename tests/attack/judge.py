"""Whether a result is right: how far it may be from the peers' is measured, not guessed.

The graph is evaluated again several times, with noise where an implementation is free: a few units in the last place
after functions such as Exp, relative noise on what reductions and contractions read (another order of their sums).
How far the outputs move is the tolerance. Additions, products, roundings, comparisons and moves get no noise of their
own: whatever only they touch has to be equal, bit for bit but for the sign of zero and the payload of NaN.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np

import specification
from graph import Graph, Leaf, Refused, Step
from peers import Peer

EXACT = set(
    """Abs Add And ArgMax ArgMin BitCast BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Cast CastLike Ceil
CenterCropPad Clip Compress Concat ConcatFromSequence Constant ConstantOfShape DepthToSpace DequantizeLinear Div
Dropout Equal Expand EyeLike Flatten Floor Gather GatherElements GatherND GlobalMaxPool Greater GreaterOrEqual
Hardmax Identity If IsInf IsNaN LeakyRelu Less LessOrEqual Loop Max MaxPool MaxUnpool Min Mod Mul Neg
NonMaxSuppression NonZero Not OneHot Optional OptionalGetElement OptionalHasElement Or PRelu Pad QuantizeLinear
Range Reciprocal ReduceMax ReduceMin Relu Reshape ReverseSequence Round Scan ScatterElements ScatterND
SequenceAt SequenceConstruct SequenceEmpty SequenceErase SequenceInsert SequenceLength SequenceMap Shape
Sign Size Slice SpaceToDepth Split SplitToSequence Sqrt Squeeze Sub TensorScatter ThresholdedRelu Tile TopK
Transpose Trilu Unique Unsqueeze Where Xor ConvInteger MatMulInteger MaxRoiPool com.microsoft.ExpandDims
com.microsoft.Pad com.microsoft.Trilu com.microsoft.NhwcMaxPool com.microsoft.DequantizeLinear
com.microsoft.QuantizeLinear TfIdfVectorizer ai.onnx.ml.ArrayFeatureExtractor ai.onnx.ml.Binarizer
ai.onnx.ml.FeatureVectorizer ai.onnx.ml.Imputer ai.onnx.ml.LabelEncoder ai.onnx.ml.OneHotEncoder""".split()
)
# Which of two zeros is the least or the largest is open; a quotient by it is infinite of either sign.
EXTREMES = set("Max Min ReduceMax ReduceMin".split())
# Noise before a tree would take it to other leaves: what is free is the order in which leaves are added.
TREES = set("ai.onnx.ml.TreeEnsemble ai.onnx.ml.TreeEnsembleClassifier ai.onnx.ml.TreeEnsembleRegressor".split())
FUNCTIONS = TREES | set(
    """Acos Acosh Asin Asinh Atan Atanh Celu Cos Cosh Elu Erf Exp Gelu HardSigmoid HardSwish Log Mish Pow Selu Shrink
Sigmoid Sin Sinh Softplus Softsign Swish Tan Tanh""".split()
)
DIVISIONS = set(
    "Div Reciprocal Sqrt QuantizeLinear com.microsoft.QuantizeLinear".split()
)  # rounded to 2.5 units by shaders
STEPPED = set("QLinearConv QLinearMatMul DynamicQuantizeLinear".split())  # integers that may be one step off
# The peers compute these with constants of float32, in float64 too, or with an error that is absolute.
COARSE = set(
    """Celu Elu Erf Gelu Selu Sigmoid Swish HardSwish com.microsoft.BiasSplitGelu HannWindow HammingWindow
BlackmanWindow MelWeightMatrix DFT STFT LRN GroupNormalization LayerNormalization RMSNormalization
InstanceNormalization Resize GridSample AffineGrid RoiAlign com.microsoft.Gelu com.microsoft.Inverse""".split()
)
COORDINATES = set("Resize GridSample AffineGrid RoiAlign".split())  # rounded to float32, and their differences weigh
# Computed by way of 1 + exp(x), which rounds the smallest of them to 1.
BESIDE_ONE = set("Softplus Mish".split())
UNITS = 6.0  # in the last place, that a function may be off
RUNS = 4


@dataclasses.dataclass(frozen=True)
class Freedom:
    """What a way to run a graph may do beyond another order of sums and functions of its own."""

    wider: float = 1.0  # times the noise before contractions: precisions that the user asked for
    divides: bool = False  # divisions and roots are rounded as functions are: shaders
    flushes: bool = False  # subnormals may be 0 wherever they are read or made, as WGSL allows: Floor(-1e-40) is 0 then


def freedom_of(flags: list[str]) -> Freedom:
    on_shaders = "wgsl" in flags
    return Freedom(50.0 if "--precision" in flags else 1.0, divides=on_shaders, flushes=on_shaders)


@dataclasses.dataclass
class Difference:
    output: str
    what: str
    index: tuple[int, ...] = ()
    ours: object = None
    right: object = None
    tolerance: float = 0.0

    def __str__(self) -> str:
        place = f" at {list(self.index)}" if self.index else ""
        values = (
            f": {self.ours!s}, right is {self.right!s} within {self.tolerance:.3g}" if self.ours is not None else ""
        )
        return f"{self.output}: {self.what}{place}{values}"


def unit(dtype) -> float:
    return float(np.finfo(dtype).eps)


def coarsest(step: Step) -> float:
    """The unit of the narrowest type that a step passes through, or that the peers compute it in."""
    narrow = {16: 2.0**-7, 10: 2.0**-10}  # bfloat16, float16
    attributes = [a for node in step.nodes for a in node.attribute]
    passed = [narrow.get(a.i, 0.0) for a in attributes if a.name == "to"]
    passed += [2.0**-15 for a in attributes if a.s == b"PROBIT"]  # ONNX Runtime approximates it
    return max(passed + [2.0**-23 if (COARSE | FUNCTIONS) & set(step.ops) else 0.0])


def shaken(array: np.ndarray, amount: float, rng) -> np.ndarray:
    if array.dtype.kind != "f" or not array.size:
        return array
    factor = 1 + amount * unit(array.dtype) * rng.uniform(-1, 1, array.shape)
    return (array.astype(np.float64) * factor).astype(array.dtype)


def moved(array: np.ndarray, step: Step, rng) -> np.ndarray:
    """The result of a function, off by some units in the last place, and by some subnormals."""
    coarse, own = coarsest(step), unit(array.dtype)
    result = shaken(array, UNITS * max(coarse, own) / own, rng)
    spare = np.abs(array[np.isfinite(array)]).max(initial=1) * coarse if COARSE & set(step.ops) else 0.0
    spare *= 4 if COORDINATES & set(step.ops) else 1
    spare = max(spare, own if BESIDE_ONE & set(step.ops) else 2 * float(np.finfo(array.dtype).smallest_subnormal))
    free = np.isfinite(array) & ((array != 0) | bool((COARSE | BESIDE_ONE) & set(step.ops)))
    result = np.where(free, result + spare * rng.uniform(-1, 1, array.shape), array).astype(array.dtype)
    result = rounded(result, array, UNITS * max(coarse, own), rng)
    if rng.random() < 0.25:
        result = tied(array, UNITS * max(coarse, own))
    return result if set(step.ops) <= EXACT | DIVISIONS | FUNCTIONS else cancelled(result, coarse, rng)


def rounded(result: np.ndarray, array: np.ndarray, reach: float, rng) -> np.ndarray:
    """Results beside a whole number may be that number, which noise seldom hits: Exp(1e-8) is 1 or its neighbour, so that
    Log of it is 0 or not, and a quotient of that NaN or not."""
    whole = np.rint(array)
    beside = (array != whole) & (whole != 0) & (np.abs(array - whole) <= reach * np.abs(whole))
    return np.where(beside & (rng.random(array.shape) < 0.5), whole, result).astype(array.dtype)


def tied(array: np.ndarray, reach: float) -> np.ndarray:
    """Neighbours may be one number: how many a Unique behind them finds depends on that."""
    mantissa, exponent = np.frexp(np.where(np.isfinite(array), array, 0).astype(np.float64))
    grid = 2.0 ** math.ceil(math.log2(reach))
    return np.where(np.isfinite(array), np.ldexp(np.rint(mantissa / grid) * grid, exponent), array).astype(array.dtype)


def cancelled(array: np.ndarray, coarse: float, rng) -> np.ndarray:
    """Sums that are rounding errors beside the others of their array may be 0 in another order."""
    small = np.abs(array) <= np.abs(array[np.isfinite(array)]).max(initial=0) * UNITS * max(coarse, unit(array.dtype))
    return np.where(small & (rng.random(array.shape) < 0.5), np.zeros((), array.dtype), array)


def either_zero(array: np.ndarray, rng) -> np.ndarray:
    if array.dtype.kind != "f":
        return array
    return np.where((array == 0) & (rng.random(array.shape) < 0.5), -array, array)


def one_off(array: np.ndarray, rng) -> np.ndarray:
    """Quantised values, some of them in the next step."""
    if array.dtype.name not in ("int8", "uint8"):
        return array
    limits = np.iinfo(array.dtype)
    return np.clip(array.astype(int) + rng.integers(-1, 2, array.shape), limits.min, limits.max).astype(array.dtype)


def overflowed(array: np.ndarray) -> np.ndarray:
    """Infinite where a product or a partial sum may overflow: whether it does depends on the order and on fused
    multiply-add."""
    if array.dtype.kind != "f":
        return array
    huge = np.isfinite(array) & (np.abs(array) > {2: 200.0, 4: 1e18, 8: 1e150}[array.dtype.itemsize])
    return np.where(huge, np.copysign(np.inf, array), array).astype(array.dtype)


def tamed(array: np.ndarray) -> np.ndarray:
    """So that no product overflows: a fused multiply-add rounds the sum alone, and inf - 1e38 * 10 is inf, not NaN."""
    if array.dtype.kind != "f":
        return array
    most = {2: 200.0, 4: 1e18, 8: 1e150}[array.dtype.itemsize]
    return np.where(np.isfinite(array), np.clip(array, -most, most), array).astype(array.dtype)


def flushed(array: np.ndarray) -> np.ndarray:
    if array.dtype.kind != "f":
        return array
    tiny = np.abs(array) < np.finfo(array.dtype).smallest_normal
    return np.where(tiny, np.copysign(np.zeros((), array.dtype), array), array)


def stays_wide(step: Step, read: dict[str, np.ndarray]) -> bool:
    """float16 inside of a loop or branch: ONNX Runtime rounds what goes from node to node there to float32 alone."""
    inside = any(a.HasField("g") for node in step.nodes for a in node.attribute)
    return inside and any(array.dtype == np.float16 for array in read.values())


def noisy_answer(peer: Peer, read: dict[str, np.ndarray], seed: int) -> dict[str, np.ndarray]:
    """Of an operator with a formula of its own every other time what ONNX Runtime gives: formulas round once, and nobody else does."""
    wide = any(array.dtype == np.float64 for array in read.values())
    if peer.specified and seed % 2 and not wide:
        try:
            return peer.run(read, "ONNX Runtime")
        except Refused:
            pass
    return peer.run(read)


def noisy_run(graph: Graph, peers: dict[int, Peer], seed: int, freedom: Freedom) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    exact = EXACT - DIVISIONS if freedom.divides else EXACT
    seen = flushed if freedom.flushes and seed % 2 else lambda array: array
    arrays = {name: seen(leaf.array) for name, leaf in graph.leaves.items()}
    for step in graph.steps:
        ops = set(step.ops)
        if ops <= exact and not stays_wide(step, {n: arrays[n] for n in step.reads}):
            made = peers[id(step)].run(arrays)
            arrays.update({name: either_zero(seen(array), rng) if ops & EXTREMES else seen(array) for name, array in made.items()})
            continue
        read = {n: arrays[n] for n in step.reads}
        if not ops <= exact | DIVISIONS | FUNCTIONS | STEPPED:
            longest = max((a.size for a in read.values()), default=1)
            amount = freedom.wider * (3 + 0.05 * min(longest, 2000))
            read = {n: shaken(a, amount, rng) for n, a in read.items()}
            if seed % 2:
                read = {n: (overflowed if seed % 4 == 1 else tamed)(a) for n, a in read.items()}
        for name, array in noisy_answer(peers[id(step)], read, seed).items():
            stepped = ops & STEPPED or any(
                "QLinear" in op or "QGemm" in op or "QuantizeLinear" in op for op in ops - exact
            )
            if array.dtype.kind == "f":
                array = moved(array, step, rng)
            arrays[name] = one_off(array, rng) if stepped else seen(array)
    return arrays


def tolerances(
    graph: Graph,
    right: dict[str, np.ndarray],
    peers: dict[int, Peer],
    freedom: Freedom = Freedom(),
    runs: int = RUNS,
) -> dict[str, np.ndarray]:
    """How far each element of each output may be off: infinite where noise makes NaN or Inf of it, or moves a shape."""
    found = {n: np.zeros(right[n].shape) for n in graph.outputs}
    for run in range(runs):
        try:
            noisy = noisy_run(graph, peers, run, freedom)
        except Refused:
            return {n: np.full(right[n].shape, np.inf) for n in graph.outputs}
        for name in graph.outputs:
            a, b = right[name], noisy[name]
            if a.shape != b.shape:
                found[name] = np.full(a.shape, np.inf)
                continue
            a, b = a.astype(np.float64), b.astype(np.float64)
            moved = np.where(a == b, 0.0, np.abs(a - b))
            moved = np.where(np.isnan(a) & np.isnan(b), 0.0, moved)
            found[name] = np.maximum(found[name], np.where(np.isnan(moved), np.inf, moved))
    for name, moved in found.items():
        finite = moved[np.isfinite(moved)]
        typical = float(np.sqrt(np.mean(finite**2))) if finite.size else 0.0
        spare = 1.2e-38 if freedom.flushes and right[name].dtype == np.float32 else 0.0
        found[name] = 6 * moved + np.where(moved > 0, typical, 0) + typical * 0.5 + spare
        found[name] = np.maximum(found[name], rounded_otherwise(right[name], moved))
    return found


def rounded_otherwise(right: np.ndarray, moved: np.ndarray) -> np.ndarray:
    """What exact operations may round differently behind noise: 0.01 * x / x is 0.01 for 19 of 20 x, so that few runs move an
    element of it, but some element. What was seen of one in units of the last place, at most two, any of them may do."""
    if right.dtype.kind != "f":
        return np.zeros(right.shape)
    finite = np.isfinite(moved) & np.isfinite(right) & (right != 0)
    last = unit(right.dtype) * np.abs(np.where(finite, right, 0).astype(np.float64))
    units = sum((moved[finite] > least * last[finite]).any() for least in (0.5, 1.0))
    return units * last


def sizes_move(
    graph: Graph, right: dict[str, np.ndarray], peers: dict[int, Peer], freedom: Freedom, runs: int = RUNS
) -> bool:
    """Whether noise decides about a size on the way, as of NonZero after a function; an index may be out of range
    then."""
    for run in range(runs):
        try:
            noisy = noisy_run(graph, peers, run, freedom)
        except Refused:
            return True
        if any(array.shape != right[name].shape for name, array in noisy.items()):
            return True
    return False


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and bool(np.array_equal(a, b, equal_nan=a.dtype.kind == "f"))


def differences(
    ours: dict[str, np.ndarray], right: dict[str, np.ndarray], allowed: dict[str, np.ndarray]
) -> list[Difference]:
    found = []
    for name, tolerance in allowed.items():
        if name not in ours:
            found.append(Difference(name, "is missing"))
            continue
        a, b = ours[name], right[name]
        if a.dtype != b.dtype:
            found.append(Difference(name, f"is of type {a.dtype}, not {b.dtype}"))
        elif a.shape != b.shape:
            if tolerance.size == 0 or np.isfinite(tolerance).any():
                found.append(Difference(name, f"has the shape {list(a.shape)}, not {list(b.shape)}"))
        else:
            x, y = a.astype(np.float64), b.astype(np.float64)
            if tolerance.shape != a.shape:  # both have another shape than what is right
                tolerance = np.full(a.shape, tolerance.max(initial=0))
            same = (a == b) | (np.isnan(x) & np.isnan(y)) | (tolerance == np.inf)
            close = same | (np.abs(x - y) <= tolerance)
            if not close.all():
                index = tuple(int(i) for i in np.argwhere(~close)[0])
                special = not (np.isfinite(x[index]) and np.isfinite(y[index]))
                what = f"{int((~close).sum())} of {close.size} {'special values differ' if special else 'differ'}"
                found.append(Difference(name, what, index, a[index], b[index], float(tolerance[index])))
    return found


def disagreement(graph: Graph, right: dict[str, np.ndarray], peers: dict[int, Peer], asked: list[Step]) -> str:
    """The first operator about which the peers differ, given the same operands. What stands in specification.py decides: who
    differs from it is wrong, peer or not."""
    for step in asked:
        if step.ops[0] in specification.OPERATORS:
            continue
        alone = Graph(graph.opset, {n: Leaf(right[n], False) for n in step.reads}, [step], [n for n in step.makes])
        try:
            theirs = peers[id(step)].run(right, "ONNX reference")
            if differences(theirs, right, tolerances(alone, right, peers)):
                return step.ops[0]
        except Refused:
            continue
    return ""
