"""Names that are missing, doubled, or used before they stand for something."""
import onnx
from onnx import TensorProto as T
from onnx import helper as h

from corpus.pieces import case, f32, model, node, relu, weights


@case
def undefined_input():
    """A name that nothing defines."""
    return model([node("Relu", ["nowhere"], ["y"])])


@case
def undefined_output():
    """An output that nothing computes."""
    return model([node("Relu", ["x"], ["z"])])


@case
def output_without_name():
    """A graph output with an empty name."""
    return model([relu()], outputs=[f32("")])


@case
def output_twice():
    """One output listed twice."""
    return model([relu()], outputs=[f32("y"), f32("y")])


@case
def input_twice():
    """Two inputs of one name."""
    return model([relu()], inputs=[f32("x"), f32("x", (5,))])


@case
def input_without_type():
    """An input that says nothing of its type."""
    return model([relu()], inputs=[onnx.ValueInfoProto(name="x")])


@case
def initializer_twice():
    """Two initializers of one name."""
    return model([node("Add", ["x", "w"], ["y"])], initializers=[weights(), weights((3,))])


@case
def initializer_without_name():
    """An initializer without a name."""
    return model([relu()], initializers=[weights(name="")])


@case
def value_defined_twice():
    """Two nodes define one value: not SSA."""
    return model([relu(), node("Identity", ["x"], ["y"], name="again")])


@case
def value_shadows_input():
    """A node defines the name of an input."""
    return model([node("Relu", ["x"], ["x"])], outputs=[f32("x")])


@case
def value_shadows_initializer():
    """A node defines the name of an initializer."""
    return model([node("Relu", ["x"], ["w"]), node("Identity", ["w"], ["y"])], initializers=[weights()])


@case
def node_feeds_itself():
    """The shortest cycle."""
    return model([node("Add", ["x", "y"], ["y"])])


@case
def cycle():
    """Three nodes in a ring."""
    return model([node("Add", ["x", "c"], ["a"], name="first"), node("Relu", ["a"], ["b"], name="second"),
                  node("Relu", ["b"], ["c"], name="third"), node("Relu", ["c"], ["y"])])


@case
def cycle_long():
    """A ring of a thousand nodes: the message stays short."""
    return model([node("Relu", [f"v{(i + 1) % 1000}"], [f"v{i}"], name=f"n{i}") for i in range(1000)],
                 outputs=[f32("v0")])


@case
def cycle_through_subgraph():
    """A branch captures what its own If computes."""
    branch = lambda name: h.make_graph([node("Relu", ["y"], [name])], name, [], [f32(name)])
    return model([node("If", ["c"], ["y"], then_branch=branch("t"), else_branch=branch("e"))],
                 inputs=[h.make_tensor_value_info("c", T.BOOL, ())])
