"""Nodes that name what does not exist, or give it what it does not take."""
from onnx import TensorProto as T
from onnx import helper as h

from corpus.pieces import attribute, case, f32, field, model, node, raw_model, weights


@case
def unknown_operator():
    """An operator that ONNX does not have."""
    return model([node("Frobnicate", ["x"], ["y"])])


@case
def unknown_domain():
    """An operator of someone's own."""
    return model([h.make_node("Sprocket", ["x"], ["y"], name="mine", domain="com.acme")],
                 imports=[h.make_opsetid("", 17), h.make_opsetid("com.acme", 3)])


@case
def operator_before_its_time():
    """Gelu came with opset 20."""
    return model([node("Gelu", ["x"], ["y"])], opset=13)


@case
def operator_without_name():
    """A node that says no operator."""
    return model([node("", ["x"], ["y"], name="nameless")])


@case
def control_characters_in_names():
    """Names are hostile: escape sequences must not reach the terminal."""
    return model([node("Frob\x1b[2J", ["x"], ["y"], name="a\nb\x1b]0;owned\x07")])


@case
def missing_operand():
    """Add with one operand."""
    return model([node("Add", ["x"], ["y"])])


@case
def empty_operand():
    """Add with an operand left out."""
    return model([node("Add", ["x", ""], ["y"])])


@case
def too_many_operands():
    """Relu with two operands."""
    return model([node("Relu", ["x", "x"], ["y"])])


@case
def too_many_outputs():
    """Relu with two outputs."""
    return model([node("Relu", ["x"], ["y", "z"])], outputs=[f32("y"), f32("z")])


@case
def unknown_attribute():
    """Relu has no slope."""
    return model([node("Relu", ["x"], ["y"], slope=1.0)])


@case
def attribute_of_wrong_kind():
    """The axis of Softmax is an integer."""
    return model([node("Softmax", ["x"], ["y"], axis="last")])


@case
def attribute_float_for_int():
    """A float where an integer belongs."""
    return model([node("Softmax", ["x"], ["y"], axis=1.5)])


@case
def attribute_says_one_holds_other():
    """Type INT, but the value is in `floats`."""
    return model([attribute(node("Softmax", ["x"], ["y"]), "axis", type=2, floats=[1.0])])


@case
def attribute_of_two_kinds():
    """An integer and a string at once: which one counts?"""
    return model([attribute(node("Softmax", ["x"], ["y"]), "axis", type=2, i=1, s=b"1")])


@case
def attribute_type_unknown():
    """An attribute type that does not exist."""
    body = field(1, b"axis") + field(20, 77) + field(3, 1)
    made = field(1, b"x") + field(2, b"y") + field(4, b"Softmax") + field(5, body)
    return raw_model(field(1, made) + field(11, f32("x").SerializeToString()))


@case
def attribute_twice():
    """The same attribute with two values."""
    made = node("Softmax", ["x"], ["y"])
    made.attribute.extend([h.make_attribute("axis", 0), h.make_attribute("axis", 1)])
    return model([made])


@case
def attribute_without_name():
    """An attribute without a name."""
    return model([attribute(node("Softmax", ["x"], ["y"]), "", type=2, i=1)])


@case
def attribute_graph_missing():
    """An attribute of type GRAPH without a graph."""
    made = node("If", ["x"], ["y"])
    attribute(made, "then_branch", type=5)
    return model([made])


@case
def attribute_reference_outside_function():
    """Only nodes of functions may refer to attributes of the call."""
    return model([attribute(node("Softmax", ["x"], ["y"]), "axis", type=2, ref_attr_name="a")])


@case
def axis_out_of_range():
    """Softmax over axis 5 of a matrix."""
    return model([node("Softmax", ["x"], ["y"], axis=5)])


@case
def axis_out_of_range_old():
    """The same in opset 11, where Softmax flattens."""
    return model([node("Softmax", ["x"], ["y"], axis=-9)], opset=11)


@case
def input_where_attribute_was():
    """Squeeze of opset 11 has its axes as attribute, not as input too."""
    made = node("Squeeze", ["x", "w"], ["y"], axes=[0])
    return model([made], initializers=[weights((1,), dtype=T.INT64, raw=b"\0" * 8)], opset=11)


@case
def flex_attention_of_many_heads():
    """A number in the file must not become a list of as many elements."""
    return model([h.make_node("FlexAttention", ["q", "k", "v"], ["y"], name="attention", domain="ai.onnx.preview")],
                 inputs=[f32("q", [2, 1 << 32, 4, 8]), f32("k", [2, 4, 6, 8]), f32("v", [2, 4, 6, 8])],
                 outputs=[f32("y", None)],
                 imports=[h.make_opsetid("", 26), h.make_opsetid("ai.onnx.preview", 1)])
