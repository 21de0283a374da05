"""If, Loop and Scan with bodies of a few nodes; sequences, optionals and random numbers."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto, helper

from draw import Draw
from graph import Value, tensor_type
from family_elementwise import CAST, castable


def typed(name: str, dtype, shape=None):
    return helper.make_tensor_value_info(name, tensor_type(dtype), shape)


def body_nodes(g: Draw, source: str, dtype, capture: Value | None, count: int, casts=True):
    """A few element-wise nodes from `source` to a result of the same type."""
    nodes, value = [], source
    for _ in range(count):
        out = g.name("b")
        kind = g.integer(0, 5)
        if kind == 0 and capture is not None:
            nodes.append(helper.make_node(g.choice(["Add", "Mul", "Sub"]), [value, capture.name], [out]))
        elif kind == 1 and casts and np.dtype(dtype).kind == "f":
            mid = g.name("b")
            between = g.choice([TensorProto.FLOAT16, TensorProto.DOUBLE, TensorProto.FLOAT])
            nodes.append(helper.make_node("Cast", [value], [mid], to=between))
            nodes.append(helper.make_node("Cast", [mid], [out], to=tensor_type(dtype)))
        elif kind == 2:
            nodes.append(helper.make_node(g.choice(["Add", "Mul", "Sub"]), [value, value], [out]))
        elif np.dtype(dtype).kind == "f":
            nodes.append(helper.make_node(g.choice(["Tanh", "Abs", "Neg", "Sigmoid", "Relu", "Floor"]), [value], [out]))
        else:
            nodes.append(helper.make_node("Abs" if np.dtype(dtype).kind == "i" else "Identity", [value], [out]))
        value = out
    return nodes, value


def broadcast_capture(g: Draw, a: Value) -> Value | None:
    return g.like(a, a.shape) if g.chance(0.6) else g.fresh((), a.dtype) if g.chance(0.5) else None


def if_(g: Draw, op: str):
    a = g.pick("fi")
    b = broadcast_capture(g, a)
    to = a.dtype if g.chance(0.6) or not castable(a, "int32") else np.dtype("int32")
    branches = []
    for _ in range(2):
        nodes, value = body_nodes(g, a.name, a.dtype, b, g.integer(0, 3), casts=True)
        out = g.name("b")
        nodes.append(
            helper.make_node("Cast", [value], [out], to=tensor_type(a.dtype))
            if to == a.dtype
            else helper.make_node("Cast", [a.name], [out], to=CAST[str(to)])
        )
        branches.append(helper.make_graph(nodes, g.name("branch"), [], [typed(out, to)]))
    flags = [v for v in g.pool if v.kind == "b" and v.array.size == 1 and v.rank <= 1]
    condition = (
        g.choice(flags) if flags and g.chance(0.5) else g.leaf(np.asarray(g.chance(0.5)), constant=g.chance(0.2))
    )
    return g.emit(op, [condition], {"then_branch": branches[0], "else_branch": branches[1]})


def loop(g: Draw, op: str):
    a = g.pick("fi")
    b = broadcast_capture(g, a)
    trip, cond, state, scanned = (g.name("b") for _ in range(4))
    nodes, value = body_nodes(g, state, a.dtype, b, g.integer(1, 4))
    cond_out, out = g.name("b"), g.name("b")
    if g.chance(0.5):
        nodes.append(helper.make_node("Identity", [cond], [cond_out]))
    else:
        limit = g.leaf(np.asarray(g.integer(0, 3)))
        nodes.append(helper.make_node("Less", [trip, limit.name], [cond_out]))
    nodes.append(helper.make_node("Identity", [value], [out]))
    scan = g.chance(0.6)
    outputs = [typed(cond_out, bool), typed(out, a.dtype)]
    trips = g.leaf(np.asarray(g.integer(0 if g.chance(0.1) else 1, 4)))
    if scan:
        number = g.name("b")
        if g.chance(0.5):
            nodes += [
                helper.make_node("Cast", [trip], [number], to=tensor_type(a.dtype)),
                helper.make_node("Mul", [value, number], [scanned]),
            ]
        else:
            nodes.append(helper.make_node("Neg" if a.kind != "u" else "Identity", [value], [scanned]))
        # Of no iteration at all there is a shape only where the body declares it.
        outputs.append(typed(scanned, a.dtype, a.shape if trips.array == 0 else None))
    inputs = [typed(trip, np.int64, []), typed(cond, bool, []), typed(state, a.dtype)]
    body = helper.make_graph(nodes, g.name("body"), inputs, outputs)
    return g.emit(op, [trips, g.leaf(np.asarray(True)) if g.chance(0.7) else None, a], {"body": body}, 2 if scan else 1)


def scan(g: Draw, op: str):
    x = g.pick("f", 1, 4, ok=lambda v: v.array.size)
    axis = g.integer(0, x.rank - 1) if g.chance(0.3) else 0
    shape = tuple(s for i, s in enumerate(x.shape) if i != axis)
    state = g.like(x, shape)
    s, e, s_out, y = (g.name("b") for _ in range(4))
    nodes, value = body_nodes(g, e, x.dtype, None, g.integer(0, 2))
    nodes.append(helper.make_node(g.choice(["Add", "Max", "Mul", "Sub"]), [s, value], [s_out]))
    nodes.append(helper.make_node(g.choice(["Tanh", "Neg", "Identity", "Abs"]), [s_out], [y]))
    sizes = shape if g.chance(0.5) else [g.name("n") for _ in shape]
    body = helper.make_graph(
        nodes,
        g.name("body"),
        [typed(n, x.dtype, sizes) for n in (s, e)],
        [typed(n, x.dtype, sizes) for n in (s_out, y)],
    )
    return g.emit(
        op,
        [state, x],
        {
            "body": body,
            "num_scan_inputs": 1,
            "scan_input_axes": [axis] if axis else None,
            "scan_input_directions": g.choice([None, [0], [1]]),
            "scan_output_directions": g.choice([None, [1]]),
        },
        2,
    )


def sequence(g: Draw, op: str):
    """Tensors put into a sequence, changed, and taken out again: one step, since sequences are no tensors."""
    a = g.pick("fi", 1, 3, ok=lambda v: v.array.size)
    parts = [a, g.like(a, a.shape), g.like(a, a.shape)]
    seq, out, nodes = g.name("s"), g.name("v"), []
    at = lambda number: g.leaf(np.asarray(number), True).name
    if op in ("SplitToSequence", "SequenceErase") and a.shape[0] >= 1:
        axis = g.integer(0, a.rank - 1)
        sizes = [at(1)] if g.chance(0.5) else []
        # ONNX ignores keepdims where sizes are given; ONNX Runtime does not.
        kept = g.choice([0, 1]) if not sizes else 1
        nodes.append(helper.make_node("SplitToSequence", [a.name, *sizes], [seq], axis=axis, keepdims=kept))
    elif op in ("SequenceEmpty", "SequenceInsert"):
        empty = g.name("s")
        nodes += [
            helper.make_node("SequenceEmpty", [], [empty], dtype=tensor_type(a.dtype)),
            helper.make_node("SequenceInsert", [empty, a.name], [seq]),
        ]
    else:
        nodes.append(helper.make_node("SequenceConstruct", [p.name for p in parts], [seq]))
    if op == "SequenceErase":
        again, last = g.name("s"), g.name("s")
        nodes += [
            helper.make_node("SequenceInsert", [seq, a.name], [again]),
            helper.make_node("SequenceErase", [again, at(0)], [last]),
        ]
        return g.emit_step(nodes + [helper.make_node("SequenceLength", [last], [out])], [out])
    if op == "SequenceMap":
        mapped, e, r = g.name("s"), g.name("b"), g.name("b")
        inner, value = body_nodes(g, e, a.dtype, None, 2)
        inner.append(helper.make_node("Identity", [value], [r]))
        body = helper.make_graph(inner, g.name("body"), [typed(e, a.dtype)], [typed(r, a.dtype)])
        nodes.append(helper.make_node("SequenceMap", [seq], [mapped], body=body))
        seq = mapped
    if op == "SequenceLength":
        nodes.append(helper.make_node("SequenceLength", [seq], [out]))
    elif op == "ConcatFromSequence":
        nodes.append(
            helper.make_node(
                "ConcatFromSequence", [seq], [out], axis=g.integer(0, a.rank - 1), new_axis=g.choice([0, 1])
            )
        )
    else:
        nodes.append(helper.make_node("SequenceAt", [seq, at(0)], [out]))
    return g.emit_step(nodes, [out])


def optional(g: Draw, op: str):
    a = g.pick("f", 1, 3)
    box, out = g.name("o"), g.name("v")
    last = "OptionalHasElement" if op == "OptionalHasElement" else "OptionalGetElement"
    return g.emit_step([helper.make_node("Optional", [a.name], [box]), helper.make_node(last, [box], [out])], [out])


def random_numbers(g: Draw, op: str):
    """Of random numbers only the shape and the type are compared."""
    noise, shape, out = g.name("r"), g.name("r"), g.name("v")
    sizes = [g.integer(1, 4), g.integer(1, 4)]
    if op in ("RandomNormal", "RandomUniform"):
        node = helper.make_node(op, [], [noise], shape=sizes)
    elif op == "Multinomial":
        node = helper.make_node(op, [g.fresh(sizes, low=0, high=1).name], [noise], sample_size=3)
    elif op == "Bernoulli":
        node = helper.make_node(op, [g.leaf(g.rng.random(sizes).astype(np.float32)).name], [noise])
    else:
        node = helper.make_node(op, [g.pick("f", dtype=np.float32).name], [noise])
    return g.emit_step(
        [node, helper.make_node("Shape", [noise], [shape]), helper.make_node("Identity", [shape], [out])], [out]
    )


SEQUENCES = """ConcatFromSequence SequenceAt SequenceConstruct SequenceEmpty SequenceErase SequenceInsert SequenceLength
SequenceMap SplitToSequence""".split()
MAKERS = {
    "If": if_,
    "Loop": loop,
    "Scan": scan,
    **dict.fromkeys(SEQUENCES, sequence),
    **dict.fromkeys(["Optional", "OptionalGetElement", "OptionalHasElement"], optional),
    **dict.fromkeys(
        "Bernoulli Multinomial RandomNormal RandomNormalLike RandomUniform RandomUniformLike".split(), random_numbers
    ),
}
