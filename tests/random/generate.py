#!/usr/bin/env python3
"""Writes random single-operator tests with ONNX Runtime's outputs.

    python tests/random/generate.py --out build/random [--count 50] [--seed 1] [OP ...]
    python tests/random/generate.py --fixed

Each case is OUT/OP/CASE/model.onnx with test_data_set_0, the layout of ONNX's backend tests. Operators of
com.microsoft carry the prefix `ms.`. A case that ONNX Runtime refuses is drawn again and counted. The same
seed gives the same cases. --fixed writes tests/models_ms, the checked-in cases of operators for which ONNX has no
node tests. Needs onnx, onnxruntime and numpy.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import pathlib
import shutil
import sys

import case as cases
import ops_contraction
import ops_elementwise
import ops_microsoft
import ops_ml
import ops_movement
import ops_quantized
import ops_reduce
import ops_window

PREFIX, ML_PREFIX = "ms.", "ml."  # com.microsoft, ai.onnx.ml
GENERATORS = {
    **ops_elementwise.GENERATORS, **ops_reduce.GENERATORS, **ops_movement.GENERATORS, **ops_contraction.GENERATORS,
    **ops_window.GENERATORS, **ops_quantized.GENERATORS,
    **{PREFIX + op: generator for op, generator in ops_microsoft.GENERATORS.items()},
    **{ML_PREFIX + op: generator for op, generator in ops_ml.GENERATORS.items()},
}

# Of these and of com.microsoft ONNX has no node tests; a few cases of each are checked in.
WITHOUT_NODE_TESTS = ["GlobalLpPool", "MaxRoiPool", "SimplifiedLayerNormalization"]
FIXED = pathlib.Path(__file__).parent.parent / "models_ms"
FIXED_COUNT = 6

# What no generator covers, and why; everything else of ai.onnx has one.
WITHOUT_GENERATOR = {
    "random numbers": "Bernoulli Multinomial RandomNormal RandomNormalLike RandomUniform RandomUniformLike",
    "control flow, in tests/models": "If Loop Scan",
    "sequences and optionals": "ConcatFromSequence Optional OptionalGetElement OptionalHasElement SequenceAt SequenceConstruct SequenceEmpty "
                               "SequenceErase SequenceInsert SequenceLength SequenceMap SplitToSequence",
    "strings, images, text: ONNX's own tests and tests/models": "ImageDecoder RegexFullMatch StringConcat StringNormalizer StringSplit TfIdfVectorizer",
    "newer than ONNX Runtime's opset, or without a kernel in it": "BitCast CausalConvWithState LinearAttention",
}


def describe(index: int, case: cases.Case) -> str:
    arrays = [x for x in case.inputs if x is not None]
    words = [f"{index:03d}", str(arrays[0].dtype) if arrays else "none", f"opset{case.opset}"]
    floats = [x for x in arrays if x.dtype.kind == "f"]
    words += ["empty"] if any(x.size == 0 for x in arrays) else []
    words += ["nan"] if any(cases.np.isnan(x).any() for x in floats) else []
    words += ["inf"] if any(cases.np.isinf(x).any() for x in floats) else []
    return "_".join(words + ([case.note] if case.note else []))


def generate(op: str, out: pathlib.Path, count: int, seed: int, separator: str = "/") -> dict:
    """Draws cases until `count` are written or four times as many were tried."""
    draw = cases.Draw(op.removeprefix(PREFIX).removeprefix(ML_PREFIX), seed + (1000 if op.startswith(PREFIX) else 0))
    shutil.rmtree(out / op, ignore_errors=True)
    written, refused = 0, collections.Counter()
    for _ in range(4 * count):
        if written == count:
            break
        case = GENERATORS[op](draw)
        # Shapes and axes come as inputs in one half of the models, as constants in the other.
        if draw.chance(0.5):
            small = (i for i, x in enumerate(case.inputs) if i and x is not None and x.dtype.kind == "i" and x.ndim <= 1)
            case.constants = tuple(sorted({*case.constants, *small}))
        symbolic = draw.chance(0.25)
        try:
            outputs = cases.run(cases.build(draw.op, case), case)
            model = cases.build(draw.op, case, outputs, symbolic)
            again = cases.run(model, case)
            if any(a.tobytes() != b.tobytes() for a, b in zip(outputs, again)):
                raise RuntimeError("two runs of ONNX Runtime give different outputs")
        except Exception as error:  # whatever ONNX Runtime raises is its refusal
            refused[" ".join(str(error).split())[:160]] += 1
            continue
        cases.write(out / f"{op}{separator}{describe(written, case)}", model, case, outputs)
        written += 1
    return {"op": op, "written": written, "refused": sum(refused.values()), "reasons": refused.most_common(3)}


def generate_all(ops: list[str], out: pathlib.Path, count: int, seed: int, separator: str = "/") -> list[dict]:
    """One child process per operator, since an operator that crashes ONNX Runtime must not end the run."""
    reports = []
    for op in ops:
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(read)
            with os.fdopen(write, "w") as pipe:
                json.dump(generate(op, out, count, seed, separator), pipe)
            os._exit(0)
        os.close(write)
        with os.fdopen(read) as pipe:
            text = pipe.read()
        os.waitpid(child, 0)
        reports.append(json.loads(text) if text else {"op": op, "written": 0, "refused": 0, "reasons": [["the generator or ONNX Runtime crashed", 1]]})
    return reports


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("build/random"))
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--fixed", action="store_true", help="write the checked-in cases")
    parser.add_argument("ops", nargs="*", metavar="OP")
    options = parser.parse_args()
    unknown = [op for op in options.ops if op not in GENERATORS]
    if unknown:
        parser.error(f"no generator for {', '.join(unknown)}")
    if options.fixed:
        shutil.rmtree(FIXED, ignore_errors=True)
        ops = [*WITHOUT_NODE_TESTS, *(op for op in GENERATORS if op.startswith((PREFIX, ML_PREFIX)))]
        reports = generate_all(ops, FIXED, FIXED_COUNT, options.seed, "_")
    else:
        reports = generate_all(options.ops or sorted(GENERATORS), options.out, options.count, options.seed)
    for report in reports:
        reasons = "; ".join(f"{n}x {why}" for why, n in report["reasons"])
        print(f"{report['op']:<36} written {report['written']:>3}  refused {report['refused']:>3}  {reasons}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
