"""What the cases are made of: valid models and their parts, and raw bytes for what no library would write."""
import math
from pathlib import Path

from onnx import TensorProto as T
from onnx import helper as h

FOLDER = Path(__file__).resolve().parent.parent / "onnx"  # where the files go
CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


# ---- models ----------------------------------------------------------------------------------------------------------
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
    tensor.raw_data = raw if raw is not None else b"\0" * 4 * max(1, math.prod(shape))
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
