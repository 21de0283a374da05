"""Strings that are none, or where there should be none."""
from onnx import TensorProto as T
from onnx import helper as h

from corpus.pieces import case, model, node, with_weights


def text(name, shape=(1,)):
    return h.make_tensor_value_info(name, T.STRING, shape)


def constant(dims=(1,), **fields):
    return model([node("Identity", ["w"], ["y"])], outputs=[text("y", dims)], initializers=[T(name="w", data_type=T.STRING, dims=dims, **fields)])


def of_strings(op, count, outputs, values=(b"a",), **attributes):
    """A node whose operands are constants, so that compiling meets what running would."""
    names = [f"w{i}" for i in range(count)]
    made = [T(name=name, data_type=T.STRING, dims=(len(values),), string_data=values) for name in names]
    return model([node(op, names, [value.name for value in outputs], **attributes)], outputs=outputs, initializers=made, opset=20)


@case
def strings_not_utf8():
    """A string that is not UTF-8."""
    return constant(string_data=[b"a\xff"])


@case
def strings_overlong_utf8():
    """NUL in two bytes: a form that hides characters from who looks for them."""
    return constant(string_data=[b"\xc0\x80"])


@case
def strings_too_few():
    """One string for three elements."""
    return constant(dims=(3,), string_data=[b"a"])


@case
def strings_too_many():
    """Three strings for one element."""
    return constant(string_data=[b"a", b"b", b"c"])


@case
def strings_gigantic_count():
    """2^40 strings in a file of a few bytes."""
    return constant(dims=(2**40,), string_data=[b"a"])


@case
def strings_as_raw_data():
    """There is no raw form of strings."""
    return constant(raw_data=b"a")


@case
def strings_longer_than_file():
    """A string whose length goes beyond the file."""
    data = constant(string_data=[b"abcdefgh"]).SerializeToString()
    return data.replace(b"\x08abcdefgh", b"\xff\xff\xff\xff\x07abcd")


@case
def strings_for_numbers():
    """Weights that are strings, where a matrix is multiplied."""
    return with_weights(T(name="w", data_type=T.STRING, dims=(1,), string_data=[b"a"]))


@case
def strings_added():
    """Add is for numbers; StringConcat is for strings."""
    return of_strings("Add", 2, [text("y")])


@case
def strings_cast_to_number():
    """A string that is no number, with an escape sequence in it."""
    return of_strings("Cast", 1, [h.make_tensor_value_info("y", T.FLOAT, (1,))], values=(b"1\x1b[31m",), to=T.FLOAT)


@case
def strings_scattered_with_add():
    """Strings cannot be added up."""
    return model([node("ScatterElements", ["w", "i", "w"], ["y"], reduction="add")], outputs=[text("y")],
                 initializers=[T(name="w", data_type=T.STRING, dims=(1,), string_data=[b"a"]), T(name="i", data_type=T.INT64, dims=(1,), int64_data=[0])])


@case
def strings_of_constant_shape():
    """ConstantOfShape fills with numbers only."""
    made = node("ConstantOfShape", ["s"], ["y"])
    made.attribute.add(name="value", type=4).t.CopyFrom(T(data_type=T.STRING, dims=(1,), string_data=[b"a"]))
    return model([made], outputs=[text("y")], initializers=[T(name="s", data_type=T.INT64, dims=(1,), int64_data=[3])])


@case
def regex_with_backreference():
    """What cannot be matched in linear time."""
    return of_strings("RegexFullMatch", 1, [h.make_tensor_value_info("y", T.BOOL, (1,))], pattern=r"(a)\1")


@case
def regex_not_closed():
    """A group without an end, with an escape sequence in the pattern."""
    return of_strings("RegexFullMatch", 1, [h.make_tensor_value_info("y", T.BOOL, (1,))], pattern="(a\x1b[31m")


@case
def regex_too_long():
    """A short pattern of a thousand million steps."""
    return of_strings("RegexFullMatch", 1, [h.make_tensor_value_info("y", T.BOOL, (1,))], pattern="((a{1000}){1000}){1000}")


@case
def svm_without_vectors():
    """Support vectors that are not there."""
    return model([node("SVMRegressor", ["x"], ["y"], domain="ai.onnx.ml", kernel_type="RBF", kernel_params=[1.0, 0.0, 0.0], n_supports=2**40,
                       coefficients=[1.0], rho=[0.0], support_vectors=[1.0])], imports=[h.make_opsetid("", 17), h.make_opsetid("ai.onnx.ml", 3)])
