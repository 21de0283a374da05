"""Control flow whose bodies do not fit."""
from onnx import TensorProto as T
from onnx import helper as h

from corpus.pieces import case, f32, field, model, node, raw_model


@case
def nested_too_deep():
    """A hundred Ifs inside each other."""
    inner = field(1, field(2, b"r") + field(4, b"Identity"))
    for _ in range(100):
        inner = field(1, field(4, b"If") + field(5, field(1, b"then_branch") + field(6, inner) + field(20, 5)))
    return raw_model(inner)


@case
def types_too_deep():
    """A sequence of sequences of sequences, ten thousand times."""
    inner = field(1, field(1, 1))
    for _ in range(10000):
        inner = field(4, field(1, inner))
    return raw_model(field(11, field(1, b"x") + field(2, inner)))


def condition():
    return [h.make_tensor_value_info("c", T.BOOL, ()), f32("x")]


@case
def if_without_else():
    """An If with one branch."""
    branch = h.make_graph([node("Relu", ["x"], ["r"])], "b", [], [f32("r")])
    return model([node("If", ["c"], ["y"], then_branch=branch)], inputs=condition())


@case
def if_branch_with_inputs():
    """A branch takes what it needs from around it: it has no inputs."""
    branch = h.make_graph([node("Relu", ["a"], ["r"])], "b", [f32("a")], [f32("r")])
    return model([node("If", ["c"], ["y"], then_branch=branch, else_branch=branch)], inputs=condition())


@case
def if_branch_with_undefined_name():
    """A branch that uses a name which is defined nowhere."""
    branch = h.make_graph([node("Relu", ["nowhere"], ["r"])], "b", [], [f32("r")])
    return model([node("If", ["c"], ["y"], then_branch=branch, else_branch=branch)], inputs=condition())


@case
def name_leaks_out_of_branch():
    """A name of a branch is not visible after it."""
    branch = h.make_graph([node("Relu", ["x"], ["r"])], "b", [], [f32("r")])
    return model([node("If", ["c"], ["z"], then_branch=branch, else_branch=branch), node("Relu", ["r"], ["y"])],
                 inputs=condition())


@case
def loop_body_arity():
    """A Loop with one state whose body takes none."""
    body = h.make_graph([node("Identity", ["k"], ["k2"])], "b",
                        [h.make_tensor_value_info("i", T.INT64, ()), h.make_tensor_value_info("k", T.BOOL, ())],
                        [h.make_tensor_value_info("k2", T.BOOL, ())])
    return model([node("Loop", ["", "", "x"], ["y"], body=body)])


@case
def loop_without_body():
    """A Loop without a body."""
    return model([node("Loop", ["", "", "x"], ["y"])])


@case
def scan_inputs_out_of_range():
    """A Scan over more inputs than it has."""
    body = h.make_graph([node("Relu", ["a"], ["r"])], "b", [f32("a", (3,))], [f32("r", (3,))])
    return model([node("Scan", ["x"], ["y"], body=body, num_scan_inputs=7)])


@case
def loops_nested():
    """Forty Loops inside each other whose state grows: each settles its body's types several times, 2^40 in all."""
    def body(depth):
        inputs = (field(11, h.make_tensor_value_info(f"i{depth}", T.INT64, ()).SerializeToString()) +
                  field(11, h.make_tensor_value_info(f"k{depth}", T.BOOL, ()).SerializeToString()) +
                  field(11, field(1, b"s%d" % depth)))
        if depth == 0:
            inner = node("Concat", ["s0", "s0"], ["t0"], axis=0).SerializeToString()
        else:
            inner = loop(f"s{depth}", f"t{depth}", body(depth - 1))
        return inputs + field(1, inner) + field(12, field(1, b"k%d" % depth)) + field(12, field(1, b"t%d" % depth))

    def loop(state, result, graph_bytes):
        return (node("Loop", ["", "", state], [result]).SerializeToString() +
                field(5, field(1, b"body") + field(6, graph_bytes) + field(20, 5)))

    return raw_model(field(11, f32("x").SerializeToString()) + field(1, loop("x", "y", body(39))) + field(12, field(1, b"y")))


@case
def captures_through_nests():
    """Two thousand names captured through sixty graphs: a small file, but 120,000 values."""
    count, names = 2000, lambda i: b"v%d" % i
    inner = b"".join(field(1, field(1, names(i)) + field(2, b"w%d" % i) + field(4, b"Relu")) for i in range(count))
    inner += field(12, field(1, b"w0"))
    for _ in range(60):
        then = field(5, field(1, b"then_branch") + field(6, inner) + field(20, 5))
        other = field(5, field(1, b"else_branch") + field(6, field(12, field(1, b"c"))) + field(20, 5))
        inner = field(1, field(1, b"c") + field(2, b"q") + field(4, b"If") + then + other) + field(12, field(1, b"q"))
    chain = b"".join(field(1, field(1, names(i)) + field(2, names(i + 1)) + field(4, b"Relu")) for i in range(count))
    inputs = field(11, f32("v0").SerializeToString())
    inputs += field(11, h.make_tensor_value_info("c", T.BOOL, ()).SerializeToString())
    return raw_model(inputs + chain + inner)


@case
def graph_attribute_on_relu():
    """Relu takes no graph."""
    branch = h.make_graph([], "b", [], [])
    return model([node("Relu", ["x"], ["y"], body=branch)])
