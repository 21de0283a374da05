"""Functions of the model that are wrong, endless or too many."""
from onnx import helper as h

from corpus.pieces import LOCAL, attribute, call, case, f32, field, function, graph, model, node, raw_model, relu


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
