"""Types and sizes that contradict one another."""
import onnx
from onnx import TensorProto as T
from onnx import helper as h

from corpus.pieces import case, f32, field, model, node, raw_model, relu, weights, with_weights


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
