"""Bytes that are no model, and models whose header is wrong."""
from onnx import helper as h

from corpus.pieces import case, field, good, graph, header, model, raw_model, relu, varint


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
