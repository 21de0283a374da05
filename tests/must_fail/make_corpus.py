#!/usr/bin/env python3
"""Writes the hostile and broken ONNX files of tests/must_fail/onnx, and a .test beside each that has none yet.

usage: python tests/must_fail/make_corpus.py     (needs the PyPI package onnx; the result is checked in)

A case is a function that returns the bytes of a file; its docstring is the reason that heads the test.
After adding one: run this, then `scripts/golden --update tests/must_fail/onnx/NAME.test`, then read the message.
"""
import os
import struct
from pathlib import Path

import onnx
from onnx import TensorProto as T
from onnx import helper as h

HERE = Path(__file__).resolve().parent / "onnx"
CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


# ---- valid pieces --------------------------------------------------------------------------------------------------
def f32(name, shape=(2, 3)):
    return h.make_tensor_value_info(name, T.FLOAT, shape)


def graph(nodes, inputs=None, outputs=None, initializers=(), **more):
    return h.make_graph(nodes, "g", [f32("x")] if inputs is None else inputs,
                        [f32("y")] if outputs is None else outputs, list(initializers), **more)


def model(nodes, inputs=None, outputs=None, initializers=(), opset=17, ir_version=8, functions=(), imports=None, **more):
    made = h.make_model(graph(nodes, inputs, outputs, initializers, **more), functions=list(functions),
                        opset_imports=imports or [h.make_opsetid("", opset)])
    made.ir_version = ir_version
    return made


def node(op, inputs, outputs, name=None, **attributes):
    return h.make_node(op, inputs, outputs, name=name or f"the_{op.lower()}", **attributes)


def relu():
    return node("Relu", ["x"], ["y"])


def weights(shape=(2, 3), name="w", dtype=T.FLOAT, raw=None):
    tensor = T(name=name, data_type=dtype, dims=shape)
    tensor.raw_data = raw if raw is not None else b"\0" * 4 * max(1, __import__("math").prod(shape))
    return tensor


def with_weights(tensor):
    return model([node("Add", ["x", "w"], ["y"])], initializers=[tensor])


def external(**entries):
    tensor = T(name="w", data_type=T.FLOAT, dims=(2, 3), data_location=T.EXTERNAL)
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=str(value))
    return with_weights(tensor)


def function(name, inputs, outputs, nodes, domain="local", attributes=(), imports=None):
    return h.make_function(domain, name, inputs, outputs, nodes,
                           imports or [h.make_opsetid("", 17), h.make_opsetid("local", 1)], list(attributes))


def call(name, inputs, outputs, label=None, **attributes):
    return h.make_node(name, inputs, outputs, name=label or f"call_{name}", domain="local", **attributes)


LOCAL = [h.make_opsetid("", 17), h.make_opsetid("local", 1)]


def attribute(node_, name, **fields):
    """An attribute as the file says it, right or wrong."""
    added = node_.attribute.add(name=name)
    for key, value in fields.items():
        if isinstance(value, list):
            getattr(added, key).extend(value)
        else:
            setattr(added, key, value)
    return node_


# ---- bytes -----------------------------------------------------------------------------------------------------------
def varint(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(number, payload):
    """A length-delimited field, or a varint for an int."""
    if isinstance(payload, int):
        return varint(number << 3) + varint(payload)
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def header():
    return field(1, 8) + field(8, field(2, 17))


def raw_model(graph_bytes):
    return header() + field(7, graph_bytes)


def good():
    return with_weights(weights()).SerializeToString()


# ---- not a model -----------------------------------------------------------------------------------------------------
@case
def empty_file():
    """Nothing at all: a download that failed."""
    return b""


@case
def text_file():
    """A text where a model should be."""
    return b"This is not the model you are looking for.\n"


@case
def no_graph():
    """A header and nothing after it."""
    return header()


@case
def two_graphs():
    """Protobuf would merge the two; a reader that takes the first and one that takes the last would disagree."""
    return good() + field(7, graph([relu()]).SerializeToString())


@case
def truncated_in_header():
    """The file ends inside its first number."""
    return good()[:1] + b"\x88"


@case
def truncated_in_graph():
    """The file ends in the middle of the graph."""
    return good()[:-20]


@case
def truncated_by_one():
    """One byte is missing."""
    return good()[:-1]


@case
def truncated_in_weights():
    """The file ends inside raw data."""
    data = good()
    return data[:data.index(b"\0" * 24) + 7]


@case
def length_beyond_file():
    """A length of almost 2^64: must not wrap around."""
    return header() + varint(7 << 3 | 2) + varint(2**64 - 4) + b"abc"


@case
def length_of_4_gigabytes():
    """A length of 2^32 + 2: a reader with 32 bit lengths takes it for 2."""
    return header() + varint(7 << 3 | 2) + varint(2**32 + 2) + b"\x12\x00"


@case
def varint_too_long():
    """A number of eleven bytes."""
    return b"\x08" + b"\xff" * 10 + b"\x01"


@case
def field_number_zero():
    """Field 0 does not exist."""
    return header() + b"\x02\x01a"


@case
def group_wire_type():
    """Groups are gone from protobuf, and nest without a length."""
    return header() + b"\x3b\x3b\x3b\x3c\x3c\x3c"


@case
def wrong_wire_type():
    """The name of a node as a number."""
    return raw_model(field(1, varint(3 << 3) + varint(5)))


@case
def packed_floats_cut():
    """float_data with three bytes: not a whole number of floats."""
    tensor = field(1, 1) + field(2, 1) + field(8, b"w") + field(4, b"\0\0\0")
    return raw_model(field(5, tensor))


# ---- header ----------------------------------------------------------------------------------------------------------
@case
def ir_version_missing():
    """A model without IR version."""
    return field(8, field(2, 17)) + field(7, graph([relu()]).SerializeToString())


@case
def ir_version_too_new():
    """An IR version of the future."""
    return model([relu()], ir_version=99)


@case
def opset_missing():
    """No opset says what the operators mean."""
    made = model([relu()])
    del made.opset_import[:]
    return made


@case
def opset_too_new():
    """An opset of the future."""
    return model([relu()], opset=1000)


@case
def opset_zero():
    """Opset 0."""
    return model([relu()], opset=0)


@case
def opset_negative():
    """Opset -3."""
    return model([relu()], opset=-3)


@case
def opset_twice():
    """Two versions of one domain."""
    return model([relu()], imports=[h.make_opsetid("", 17), h.make_opsetid("ai.onnx", 13)])


@case
def opset_of_domain_missing():
    """An operator of a domain that is not imported."""
    return model([h.make_node("BiasGelu", ["x", "x"], ["y"], name="gelu", domain="com.microsoft")])


# ---- operators -------------------------------------------------------------------------------------------------------
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


# ---- names and order -------------------------------------------------------------------------------------------------
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


# ---- types and sizes -------------------------------------------------------------------------------------------------
@case
def dtype_clash():
    """f32 + f64."""
    return model([node("Add", ["x", "z"], ["y"])], inputs=[f32("x"), h.make_tensor_value_info("z", T.DOUBLE, (2, 3))])


@case
def shape_clash():
    """[2, 3] + [2, 4]."""
    return model([node("Add", ["x", "z"], ["y"])], inputs=[f32("x"), f32("z", (2, 4))])


@case
def matmul_shape_clash():
    """[2, 3] times [2, 3]."""
    return model([node("MatMul", ["x", "x"], ["y"])], outputs=[f32("y", (2, 2))])


@case
def declared_output_dtype_clash():
    """The output is declared as i64 but is f32."""
    return model([relu()], outputs=[h.make_tensor_value_info("y", T.INT64, (2, 3))])


@case
def declared_output_shape_clash():
    """The output is declared with another shape."""
    return model([relu()], outputs=[f32("y", (2, 4))])


@case
def declared_rank_clash():
    """value_info declares another rank."""
    return model([node("Relu", ["x"], ["z"]), node("Identity", ["z"], ["y"])], value_info=[f32("z", (6,))])


@case
def declared_kind_clash():
    """A tensor that is declared as a sequence."""
    return model([relu()], outputs=[h.make_tensor_sequence_value_info("y", T.FLOAT, (2, 3))])


@case
def declared_input_clashes_with_initializer():
    """An initializer that is an input of another type."""
    return model([node("Add", ["x", "w"], ["y"])], inputs=[f32("x"), f32("w", (7,))], initializers=[weights()])


@case
def element_type_unknown():
    """An element type that does not exist."""
    return model([relu()], inputs=[h.make_tensor_value_info("x", 99, (2, 3))])


@case
def element_type_missing():
    """An input without element type."""
    return model([relu()], inputs=[h.make_tensor_value_info("x", 0, (2, 3))])


@case
def string_input():
    """Strings are not tensors of numbers."""
    return model([node("Identity", ["x"], ["y"])], inputs=[h.make_tensor_value_info("x", T.STRING, (2,))],
                 outputs=[h.make_tensor_value_info("y", T.STRING, (2,))])


@case
def map_input():
    """A map as input."""
    value = onnx.ValueInfoProto(name="x")
    value.type.map_type.key_type = T.INT64
    value.type.map_type.value_type.tensor_type.elem_type = T.FLOAT
    return model([node("Identity", ["x"], ["y"])], inputs=[value])


@case
def type_of_two_kinds():
    """A type that is a tensor and a sequence at once."""
    both = field(1, field(1, 1)) + field(4, field(1, field(1, field(1, 1))))
    return raw_model(field(11, field(1, b"x") + field(2, both)))


@case
def sequence_without_element():
    """A sequence of nothing in particular."""
    value = onnx.ValueInfoProto(name="x")
    value.type.sequence_type.SetInParent()
    return model([node("Identity", ["x"], ["y"])], inputs=[value])


@case
def negative_dimension():
    """A size of -7."""
    return model([relu()], inputs=[f32("x", (2, -7))])


@case
def dimension_overflow():
    """Sizes of 2^42 + 1 and 2^22: their product wraps to something small in 64 bits."""
    return model([relu()], inputs=[f32("x", (2**42 + 1, 2**22))], outputs=[])


@case
def dimension_overflow_with_zero():
    """A zero does not excuse the other sizes."""
    return model([relu()], inputs=[f32("x", (0, 2**62, 2**62))], outputs=[])


@case
def rank_too_high():
    """A tensor of rank 33."""
    return model([relu()], inputs=[f32("x", (1,) * 33)])


@case
def rank_too_high_in_initializer():
    """Weights of rank 33."""
    return with_weights(weights((1,) * 33))


# ---- tensors ---------------------------------------------------------------------------------------------------------
@case
def raw_data_short():
    """Raw data of 23 bytes where 24 are needed."""
    return with_weights(weights(raw=b"\0" * 23))


@case
def raw_data_long():
    """Raw data of 25 bytes where 24 are needed."""
    return with_weights(weights(raw=b"\0" * 25))


@case
def raw_data_missing():
    """Weights without data."""
    return with_weights(T(name="w", data_type=T.FLOAT, dims=(2, 3)))


@case
def raw_and_typed_data():
    """Two values for one tensor."""
    tensor = weights()
    tensor.float_data.extend([1.0] * 6)
    return with_weights(tensor)


@case
def typed_data_count():
    """Five floats for six elements."""
    return with_weights(T(name="w", data_type=T.FLOAT, dims=(2, 3), float_data=[1.0] * 5))


@case
def typed_data_in_wrong_field():
    """Floats in int64_data."""
    return with_weights(T(name="w", data_type=T.FLOAT, dims=(2, 3), int64_data=[1] * 6))


@case
def typed_data_out_of_range():
    """300 does not fit i8."""
    return model([node("Identity", ["w"], ["y"])], outputs=[h.make_tensor_value_info("y", T.INT8, (1,))],
                 initializers=[T(name="w", data_type=T.INT8, dims=(1,), int32_data=[300])])


@case
def boolean_of_two():
    """A boolean that is 2."""
    return model([node("Identity", ["w"], ["y"])], outputs=[h.make_tensor_value_info("y", T.BOOL, (1,))],
                 initializers=[weights((1,), dtype=T.BOOL, raw=b"\2")])


@case
def tensor_sizes_overflow():
    """Weights of 2^42 + 1 by 2^22 elements with no bytes."""
    return with_weights(T(name="w", data_type=T.FLOAT, dims=(2**42 + 1, 2**22), raw_data=b""))


@case
def tensor_of_2_to_the_40():
    """Weights that say 2^40 elements and have none."""
    return with_weights(T(name="w", data_type=T.FLOAT, dims=(2**20, 2**20)))


@case
def tensor_of_negative_size():
    """Weights of size -1."""
    return with_weights(weights((-1, 6), raw=b""))


@case
def tensor_without_type():
    """Weights without element type."""
    return with_weights(weights(dtype=0))


@case
def tensor_of_unknown_type():
    """Weights of an element type that does not exist."""
    return with_weights(weights(dtype=1234))


@case
def tensor_of_strings():
    """Weights that are strings."""
    return with_weights(T(name="w", data_type=T.STRING, dims=(1,), string_data=[b"a"]))


@case
def tensor_of_complex_numbers():
    """Weights that are complex."""
    return with_weights(weights(dtype=T.COMPLEX64))


@case
def tensor_in_segments():
    """Nobody ever wrote segments; nobody reads them."""
    tensor = weights()
    tensor.segment.begin = 0
    tensor.segment.end = 3
    return with_weights(tensor)


@case
def sparse_index_out_of_range():
    """A sparse tensor that writes beyond its end."""
    sparse = onnx.SparseTensorProto(dims=[4])
    sparse.values.CopyFrom(weights((1,)))
    sparse.indices.CopyFrom(weights((1,), name="i", dtype=T.INT64, raw=struct.pack("<q", 4)))
    made = node("Constant", [], ["y"])
    made.attribute.add(name="sparse_value", type=11).sparse_tensor.CopyFrom(sparse)
    return model([made], outputs=[f32("y", (4,))])


@case
def sparse_bomb():
    """A sparse tensor of one element and 2^40 zeros."""
    sparse = onnx.SparseTensorProto(dims=[2**40])
    sparse.values.CopyFrom(weights((1,)))
    sparse.indices.CopyFrom(weights((1,), name="i", dtype=T.INT64, raw=struct.pack("<q", 4)))
    made = node("Constant", [], ["y"])
    made.attribute.add(name="sparse_value", type=11).sparse_tensor.CopyFrom(sparse)
    return model([made], outputs=[f32("y", (2**40,))])


@case
def constant_without_value():
    """A Constant that has none."""
    return model([node("Constant", [], ["y"])])


@case
def constant_with_two_values():
    """A Constant that has two."""
    return model([node("Constant", [], ["y"], value_int=1, value_float=2.0)])


@case
def constant_of_strings():
    """A Constant of strings."""
    return model([node("Constant", [], ["y"], value_string="a")])


# ---- external data ---------------------------------------------------------------------------------------------------
@case
def external_parent():
    """Out of the folder by `..` (CVE-2022-25882)."""
    return external(location="../../../README.md", length=24)


@case
def external_parent_hidden():
    """`..` in the middle (CVE-2024-27318)."""
    return external(location="sub/../../README.md", length=24)


@case
def external_absolute():
    """An absolute path."""
    return external(location="/etc/passwd", length=24)


@case
def external_symlink():
    """A link inside the folder to a file outside."""
    link = HERE / "external_symlink.bin"
    if not link.is_symlink():
        os.symlink("../../README.md", link)
    return external(location="external_symlink.bin", length=24)


@case
def external_nul_byte():
    """A NUL byte ends the path for the system, not for a check."""
    return external(location="weights.bin\0/../../x", length=24)


@case
def external_missing():
    """A file that is not there."""
    return external(location="nowhere.bin", length=24)


@case
def external_folder():
    """A folder in place of a file."""
    return external(location=".", length=24)


@case
def external_without_location():
    """External, but where?"""
    return external(offset=0, length=24)


@case
def external_offset_beyond():
    """Bytes beyond the end of the file."""
    (HERE / "weights.bin").write_bytes(struct.pack("<8f", *range(8)))
    return external(location="weights.bin", offset=16, length=24)


@case
def external_offset_wraps():
    """Offset + length wraps around 2^64."""
    return external(location="weights.bin", offset=2**64 - 8, length=24)


@case
def external_offset_negative():
    """An offset of -8."""
    return external(location="weights.bin", offset=-8, length=24)


@case
def external_offset_not_a_number():
    """An offset of `0x10`."""
    return external(location="weights.bin", offset="0x10", length=24)


@case
def external_length_differs():
    """A length that is not the tensor's."""
    return external(location="weights.bin", offset=0, length=32)


@case
def external_and_raw():
    """External data, and data of its own."""
    made = external(location="weights.bin", offset=0, length=24)
    made.graph.initializer[0].raw_data = b"\0" * 24
    return made


# ---- functions -------------------------------------------------------------------------------------------------------
@case
def function_calls_itself():
    """A function that calls itself."""
    return model([call("f", ["x"], ["y"])], imports=LOCAL,
                 functions=[function("f", ["a"], ["b"], [call("f", ["a"], ["b"])])])


@case
def functions_call_each_other():
    """Two functions that call each other."""
    return model([call("f", ["x"], ["y"])], imports=LOCAL,
                 functions=[function("f", ["a"], ["b"], [call("g", ["a"], ["b"])]),
                            function("g", ["a"], ["b"], [call("f", ["a"], ["b"])])])


@case
def function_recursion_in_subgraph():
    """A function that calls itself in a branch."""
    branch = h.make_graph([call("f", ["a"], ["r"])], "b", [], [f32("r")])
    inner = node("If", ["c"], ["b"], then_branch=branch, else_branch=branch)
    return model([call("f", ["x"], ["y"])], imports=LOCAL,
                 functions=[function("f", ["a"], ["b"], [node("Constant", [], ["c"], value_int=1), inner])])


@case
def function_bomb():
    """Thirty functions, each calling the next twice: 2^30 nodes."""
    bodies = [function(f"f{i}", ["a"], ["b"], [call(f"f{i + 1}", ["a"], ["t"], "one"), call(f"f{i + 1}", ["t"], ["b"], "two")])
              for i in range(30)]
    bodies.append(function("f30", ["a"], ["b"], [node("Relu", ["a"], ["b"])]))
    return model([call("f0", ["x"], ["y"])], imports=LOCAL, functions=bodies)


@case
def functions_too_deep():
    """A hundred functions, each calling the next."""
    bodies = [function(f"f{i}", ["a"], ["b"], [call(f"f{i + 1}", ["a"], ["b"])]) for i in range(100)]
    bodies.append(function("f100", ["a"], ["b"], [node("Relu", ["a"], ["b"])]))
    return model([call("f0", ["x"], ["y"])], imports=LOCAL, functions=bodies)


@case
def functions_too_many():
    """10,001 functions."""
    return raw_model(graph([relu()]).SerializeToString()) + field(25, b"") * 10001


@case
def function_twice():
    """Two functions of one name."""
    body = function("f", ["a"], ["b"], [node("Relu", ["a"], ["b"])])
    return model([call("f", ["x"], ["y"])], imports=LOCAL, functions=[body, body])


@case
def function_with_too_many_inputs():
    """A call with more inputs than the function has."""
    return model([call("f", ["x", "x"], ["y"])], imports=LOCAL,
                 functions=[function("f", ["a"], ["b"], [node("Relu", ["a"], ["b"])])])


@case
def function_without_its_output():
    """A function that never computes its output."""
    return model([call("f", ["x"], ["y"])], imports=LOCAL,
                 functions=[function("f", ["a"], ["b"], [node("Relu", ["a"], ["c"])])])


@case
def function_reaches_out():
    """A function sees its inputs, not the names around its call."""
    return model([call("f", ["x"], ["y"])], imports=LOCAL,
                 functions=[function("f", ["a"], ["b"], [node("Add", ["a", "x"], ["b"])])])


@case
def function_with_unknown_attribute():
    """A call with an attribute that the function does not have."""
    return model([call("f", ["x"], ["y"], alpha=1.0)], imports=LOCAL,
                 functions=[function("f", ["a"], ["b"], [node("Relu", ["a"], ["b"])])])


@case
def function_attribute_of_wrong_kind():
    """An attribute handed down as a string where an integer belongs."""
    body = attribute(node("Softmax", ["a"], ["b"]), "axis", type=2, ref_attr_name="axis")
    return model([call("f", ["x"], ["y"], axis="last")], imports=LOCAL,
                 functions=[function("f", ["a"], ["b"], [body], attributes=["axis"])])


@case
def function_without_opset():
    """A function says itself which opset it is written in."""
    return model([call("f", ["x"], ["y"])], imports=LOCAL,
                 functions=[function("f", ["a"], ["b"], [node("Relu", ["a"], ["b"])],
                                     imports=[h.make_opsetid("local", 1)])])


# ---- subgraphs -------------------------------------------------------------------------------------------------------
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


def main():
    HERE.mkdir(exist_ok=True)
    for name, make in CASES.items():
        made = make()
        data = made if isinstance(made, bytes) else made.SerializeToString()
        (HERE / f"{name}.onnx").write_bytes(data)
        test = HERE / f"{name}.test"
        if not test.exists():
            test.write_text(f"# {make.__doc__}\n# RUN: xyntra run %dir/{name}.onnx\n# EXIT: 4\n# ERR:\n")
    print(f"{len(CASES)} files")


if __name__ == "__main__":
    main()
