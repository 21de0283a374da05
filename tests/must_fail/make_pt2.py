#!/usr/bin/env python3
"""Writes the hostile and broken .pt2 archives of tests/must_fail/pt2, and a .test beside each that has none yet.

usage: python tests/must_fail/make_pt2.py     (needs nothing but Python; the result is checked in)

A case is a function that returns the bytes of an archive; its docstring heads the test. After adding one: run this, then
`scripts/golden --update tests/must_fail/pt2/NAME.test`, then read the message.
"""

from __future__ import annotations

import io
import json
import pathlib
import struct
import zipfile

FOLDER = pathlib.Path(__file__).parent / "pt2"
CASES: dict = {}


def case(make):
    CASES[make.__name__] = make
    return make


# ---- a working archive: y = relu(x + w)


def tensor(name: str) -> dict:
    return {"as_tensor": {"name": name}}


def meta(sizes: list[int], strides: list[int] | None = None, dtype: int = 7, offset: int = 0) -> dict:
    strides = strides if strides is not None else [1] * len(sizes)
    return {"dtype": dtype, "sizes": [{"as_int": size} for size in sizes], "requires_grad": False, "device": {"type": "cpu", "index": None},
            "strides": [{"as_int": stride} for stride in strides], "storage_offset": {"as_int": offset}, "layout": 7}


def node(target: str, inputs: dict, *outputs: dict) -> dict:
    return {"target": target, "inputs": [{"name": name, "arg": value, "kind": 1} for name, value in inputs.items()], "outputs": list(outputs), "metadata": {}}


def program() -> dict:
    nodes = [node("torch.ops.aten.add.Tensor", {"self": tensor("x"), "other": tensor("p_w")}, tensor("add")),
             node("torch.ops.aten.relu.default", {"self": tensor("add")}, tensor("relu"))]
    graph = {"inputs": [tensor("p_w"), tensor("x")], "outputs": [tensor("relu")], "nodes": nodes,
             "tensor_values": {name: meta([4]) for name in ("p_w", "x", "add", "relu")}, "sym_int_values": {}, "sym_bool_values": {}}
    signature = {"input_specs": [{"parameter": {"arg": {"name": "p_w"}, "parameter_name": "w"}}, {"user_input": {"arg": tensor("x")}}],
                 "output_specs": [{"user_output": {"arg": tensor("relu")}}]}
    return {"graph_module": {"graph": graph, "signature": signature, "module_call_graph": []}, "opset_version": {"aten": 10}, "range_constraints": {},
            "schema_version": {"major": 8, "minor": 20}, "torch_version": "2.15.0"}


def weights(**changes) -> dict:
    return {"config": {"w": {"path_name": "weight_0", "is_param": True, "use_pickle": False, "tensor_meta": meta([4]), **changes}}}


def entries(model: object = None, config: object = None, content: bytes = struct.pack("<4f", 1, 2, 3, 4)) -> dict[str, bytes]:
    text = model if isinstance(model, bytes) else json.dumps(model if model is not None else program()).encode()
    return {"m/archive_format": b"pt2", "m/models/model.json": text, "m/data/weights/model_weights_config.json": json.dumps(config if config is not None else weights()).encode(),
            "m/data/weights/weight_0": content}


def archive(files: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as file:
        for name, content in files.items():
            file.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), content, method)
    return out.getvalue()


def changed(change) -> bytes:
    """The program after `change` has been at it."""
    made = program()
    change(made)
    return archive(entries(made))


def graph_of(made: dict) -> dict:
    return made["graph_module"]["graph"]


# ---- the archive


@case
def compressed_bomb():
    """A deflated entry of ten million zeros: nothing that is compressed is read."""
    return archive(entries() | {"m/data/weights/weight_0": bytes(10_000_000)}, zipfile.ZIP_DEFLATED)


@case
def path_traversal():
    """An entry that would lie outside of the folder."""
    return archive(entries() | {"m/../../etc/passwd": b"x"})


@case
def absolute_name():
    """An entry that is not in the one folder of the archive."""
    return archive(entries() | {"/etc/passwd": b"x"})


@case
def entry_twice():
    """Two entries of one name."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as file:
        for name, content in [*entries().items(), ("m/archive_format", b"pt3")]:
            import warnings

            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                file.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), content)
    return out.getvalue()


@case
def overlapping_entries():
    """Two entries of the directory that share their bytes."""
    whole = bytearray(archive(entries()))
    directory = whole.rfind(b"PK\x05\x06")
    start = struct.unpack_from("<I", whole, directory + 16)[0]
    second = whole.find(b"PK\x01\x02", start + 4)
    struct.pack_into("<I", whole, second + 42, 0)
    return bytes(whole)


@case
def cut_short():
    """The first half of an archive."""
    whole = archive(entries())
    return whole[: len(whole) // 2]


@case
def no_model():
    """An archive without models/*.json."""
    made = entries()
    del made["m/models/model.json"]
    return archive(made)


@case
def old_archive():
    """What torch 2.8 and older wrote: weights are pickled."""
    return archive({"m/serialized_exported_program.json": b"{}", "m/serialized_state_dict.pt": b"x", "m/version": b"8.0"})


@case
def big_endian():
    """An archive of a big-endian machine."""
    return archive(entries() | {"m/byteorder": b"big"})


# ---- weights


@case
def giant_storage():
    """A weight that declares 2^40 elements over a storage of four."""
    return archive(entries(config=weights(tensor_meta=meta([1 << 40]))))


@case
def overflowing_sizes():
    """Sizes whose product wraps around."""
    return archive(entries(config=weights(tensor_meta=meta([1 << 42, 1 << 42], [1, 1]))))


@case
def expanded_weight():
    """A weight of four bytes expanded to 4 GB by strides of zero."""
    return archive(entries(config=weights(tensor_meta=meta([1 << 15, 1 << 15], [0, 0]))))


@case
def negative_stride():
    """A stride below zero."""
    return archive(entries(config=weights(tensor_meta=meta([4], [-1]))))


@case
def offset_beyond_storage():
    """A weight that begins behind its storage."""
    return archive(entries(config=weights(tensor_meta=meta([4], [1], offset=1))))


@case
def pickled_weight():
    """A weight that is pickled."""
    return archive(entries(config=weights(use_pickle=True)))


@case
def weight_missing():
    """A weight whose entry is not there."""
    return archive(entries(config=weights(path_name="weight_1")))


@case
def weight_not_listed():
    """A parameter that the archive does not list."""
    return archive(entries(config={"config": {}}))


@case
def complex_weight():
    """A weight of complex numbers."""
    return archive(entries(config=weights(tensor_meta=meta([2], dtype=10))))


@case
def unknown_dtype():
    """A dtype that torch does not have."""
    return archive(entries(config=weights(tensor_meta=meta([4], dtype=99))))


@case
def boolean_of_two():
    """A bool that is neither 0 nor 1."""
    return archive(entries(config=weights(tensor_meta=meta([4], dtype=12)), content=b"\x02\x00\x01\x00"))


# ---- JSON


@case
def not_json():
    """A program that is no JSON."""
    return archive(entries(b"graph"))


@case
def deep_nesting():
    """A hundred thousand open brackets."""
    return archive(entries(b'{"graph_module": ' + b"[" * 100_000))


@case
def deep_objects():
    """A thousand graphs within graphs."""
    return archive(entries(b'{"graph_module": {"graph": {"nodes": [' + b'{"inputs": [{"arg": {"as_graph": {"graph": {"nodes": [' * 1_000))


@case
def text_for_number():
    """A text where a number is meant."""
    return changed(lambda made: made["schema_version"].update(major="eight"))


@case
def number_for_graph():
    """A number where the graph is meant."""
    return changed(lambda made: made["graph_module"].update(graph=7))


@case
def number_too_large():
    """A whole number of more than 64 bits."""
    return changed(lambda made: graph_of(made)["nodes"][0]["inputs"].append({"name": "alpha", "arg": {"as_int": 1 << 80}}))


@case
def unfinished_string():
    """A string without an end."""
    return archive(entries(b'{"torch_version": "2.15'))


@case
def schema_seven():
    """A schema of another major version."""
    return changed(lambda made: made["schema_version"].update(major=7))


@case
def no_graph():
    """A program without a graph."""
    return changed(lambda made: made.pop("graph_module"))


# ---- the program


@case
def value_missing():
    """A value that nothing makes."""
    return changed(lambda made: graph_of(made)["nodes"][1]["inputs"][0].update(arg=tensor("nothing")))


@case
def value_of_itself():
    """A node that reads its own result."""
    return changed(lambda made: graph_of(made)["nodes"][0]["inputs"][0].update(arg=tensor("add")))


@case
def cycle():
    """Two nodes, each of which reads the other's result."""
    return changed(lambda made: graph_of(made)["nodes"][0]["inputs"][0].update(arg=tensor("relu")))


@case
def result_that_is_no_value():
    """A number where a node's result is meant."""
    return changed(lambda made: graph_of(made)["nodes"][0].update(outputs=[{"as_int": 1}]))


@case
def unknown_overload():
    """An overload that is none of ATen's."""
    return changed(lambda made: graph_of(made)["nodes"][1].update(target="torch.ops.aten.frobnicate.default"))


@case
def unknown_argument():
    """An argument that the schema does not have."""
    return changed(lambda made: graph_of(made)["nodes"][1]["inputs"].append({"name": "beta", "arg": {"as_int": 1}}))


@case
def argument_missing():
    """A call without its operand."""
    return changed(lambda made: graph_of(made)["nodes"][1].update(inputs=[]))


@case
def argument_of_wrong_kind():
    """A text where a tensor is meant."""
    return changed(lambda made: graph_of(made)["nodes"][1]["inputs"][0].update(arg={"as_string": "x"}))


def strided(strides: list[int], size: list[int], *offset: int, stored_at: int = 0) -> bytes:
    """as_strided of a tensor that the file says lies in memory so."""
    made = program()
    graph = graph_of(made)
    numbers = {name: {"as_ints": values} for name, values in (("size", size), ("stride", [1] * len(size)))}
    graph["nodes"][1] = node("torch.ops.aten.as_strided.default", {"self": tensor("add"), **numbers} | {"storage_offset": {"as_int": one} for one in offset}, tensor("relu"))
    graph["tensor_values"] |= {"add": meta([4], strides, offset=stored_at), "relu": meta(size)}
    return archive(entries(made))


@case
def changed_through_reshapes():
    """A change of what is perhaps a view of perhaps a view, read by the first name."""
    made = program()
    graph = graph_of(made)
    graph["nodes"][1:] = [node("torch.ops.aten.reshape.default", {"self": tensor("add"), "shape": {"as_ints": [2, 2]}}, tensor("once")),
                          node("torch.ops.aten.reshape.default", {"self": tensor("once"), "shape": {"as_ints": [4]}}, tensor("twice")),
                          node("torch.ops.aten.relu_.default", {"self": tensor("twice")}, tensor("changed")),
                          node("torch.ops.aten.neg.default", {"self": tensor("add")}, tensor("relu"))]
    return archive(entries(made))


@case
def strided_over_gaps():
    """Elements between those of a tensor, which a graph does not have."""
    return strided([2], [3])


@case
def strided_beyond():
    """Elements behind those of a tensor."""
    return strided([1], [3], 2)


@case
def strided_before():
    """Elements of a storage before a tensor's own."""
    return strided([1], [3], 1, stored_at=2)


@case
def strided_far():
    """Sizes and strides whose product wraps around."""
    return strided([1], [1 << 62, 1 << 62])


def with_attention(read: str) -> bytes:
    """Attention of rank 4, of whose results `read` is what relu is of."""
    made = program()
    sizes = meta([1, 1, 2, 2], [4, 4, 2, 1])
    graph = graph_of(made)
    graph["tensor_values"] = {name: sizes for name in ("p_w", "x", "output", "logsumexp", "relu")}
    query = {"query": tensor("x"), "key": tensor("p_w"), "value": tensor("x")}
    graph["nodes"][0] = node("torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default", query, tensor("output"), tensor("logsumexp"))
    graph["nodes"][1]["inputs"][0].update(arg=tensor(read))
    return archive(entries(made, weights(tensor_meta=sizes)))


@case
def logsumexp_read():
    """A call that reads a result of attention's that only a gradient needs."""
    return with_attention("logsumexp")


@case
def gradient_buffer_returned():
    """A result of the model that only a gradient needs, and that is not computed."""
    made = program()
    graph = graph_of(made)
    graph["nodes"][0] = node("torch.ops.aten.log_sigmoid_forward.default", {"self": tensor("x")}, tensor("add"), tensor("buffer"))
    graph["tensor_values"]["buffer"] = meta([4])
    graph["outputs"] = [tensor("buffer")]
    made["graph_module"]["signature"]["output_specs"] = [{"user_output": {"arg": tensor("buffer")}}]
    return archive(entries(made))


@case
def shapes_that_do_not_broadcast():
    """A sum of tensors of 4 and 3 elements."""
    return changed(lambda made: graph_of(made)["tensor_values"].update(x=meta([3])))


@case
def signature_shorter_than_graph():
    """A signature with fewer inputs than the graph."""
    return changed(lambda made: made["graph_module"]["signature"]["input_specs"].pop())


@case
def output_not_made():
    """An output that is never computed."""
    return changed(lambda made: graph_of(made).update(outputs=[tensor("gone")]))


@case
def custom_object():
    """An operand that is an object of a custom class."""
    def change(made: dict) -> None:
        graph_of(made)["nodes"][1]["inputs"][0].update(arg={"as_custom_obj": {"name": "o", "class_fqn": "a.B"}})

    return changed(change)


@case
def split_into_millions():
    """A split that would make a list of a million tensors."""
    def change(made: dict) -> None:
        graph = graph_of(made)
        graph["tensor_values"]["x"] = meta([1 << 20])
        graph["nodes"] = [node("torch.ops.aten.split.Tensor", {"self": tensor("x"), "split_size": {"as_int": 1}}, {"as_tensors": []}), *graph["nodes"]]

    return changed(change)


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name, make in CASES.items():
        (FOLDER / f"{name}.pt2").write_bytes(make())
        test = FOLDER / f"{name}.test"
        if not test.exists():
            test.write_text(f"# {make.__doc__}\n# RUN: xyntra run %dir/{name}.pt2\n# EXIT: 4\n# ERR:\n")
    print(f"{len(CASES)} files")


if __name__ == "__main__":
    main()
