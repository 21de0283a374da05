"""Weights whose data are not what they say."""
import struct

import onnx
from onnx import TensorProto as T
from onnx import helper as h

from corpus.pieces import case, f32, model, node, weights, with_weights


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
