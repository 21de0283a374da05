"""The models that are compared, the sizes they are run at, and what is drawn for their inputs."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import sysconfig

import numpy as np
import onnx

Feed = dict[str, np.ndarray]

FEEDS = 4  # sets of inputs, used cyclically
SEED = 2026


@dataclasses.dataclass
class Known:
    file: str
    dims: dict[str, int] = dataclasses.field(default_factory=dict)
    shapes: dict[str, list[int]] = dataclasses.field(default_factory=dict)  # where sizes have no name
    integers: dict[str, tuple[int, int]] = dataclasses.field(default_factory=dict)  # of an input: from, up to
    transformer: tuple[str, int, int] | None = None  # for ONNX Runtime's optimizer: kind, heads, width
    zoo: str | None = None
    quantized: bool = False  # 8 bit: a value between two quanta falls to either side by its last bit


def text(zoo: str, vocabulary: int, transformer: tuple[str, int, int]) -> Known:
    return Known(f"{zoo}_dynamo.onnx", {"batch": 1, "seq": 128}, integers={"input_ids": (0, vocabulary), "attention_mask": (1, 2)},
                 transformer=transformer, zoo=zoo)


def image(zoo: str, transformer: tuple[str, int, int] | None = None) -> Known:
    return Known(f"{zoo}_dynamo.onnx", {"batch": 1}, transformer=transformer, zoo=zoo)


KNOWN = {
    "bert_base": text("bert_base", 30522, ("bert", 12, 768)),
    "bert_2_layers": text("bert_2_layers", 30522, ("bert", 12, 768)),
    "gpt2": text("gpt2", 50257, ("gpt2", 12, 768)),
    "gpt2_decode": Known("gpt2_decode_dynamo.onnx", {"past": 64}, zoo="gpt2_decode"),
    "vit_tiny": image("vit_tiny", ("vit", 3, 192)),
    "resnet50": image("resnet50"),
    "mobilenet_v2": image("mobilenet_v2"),
    "detector": Known("detector_torchscript.onnx", zoo="detector"),
    "magika": Known("magika/**/model.onnx", shapes={"bytes": [1, 2048]}, integers={"bytes": (0, 257)}),
    "ppocr_det": Known("rapidocr_onnxruntime/**/ch_PP-OCRv4_det_infer.onnx", shapes={"x": [1, 3, 320, 320]}),
    "ppocr_rec": Known("rapidocr_onnxruntime/**/ch_PP-OCRv4_rec_infer.onnx", shapes={"x": [1, 3, 48, 320]}),
    "ppocr_cls": Known("rapidocr_onnxruntime/**/ch_ppocr_mobile_v2.0_cls_infer.onnx", shapes={"x": [1, 3, 48, 192]}),
    "silero": Known("silero_vad/**/silero_vad_16k_op15.onnx", shapes={"input": [1, 576], "state": [2, 1, 128]},
                    integers={"sr": (16000, 16001)}),
}

# What bench/zoo/make_quantized.py makes of them.
QUANTIZED = {"bert_2_layers": ["dynamic", "qdq", "weights"], "bert_base": ["dynamic"], "gpt2": ["dynamic"],
             "vit_tiny": ["dynamic", "qdq", "qoperator"], "resnet50": ["dynamic", "qdq", "qdq_s8", "qoperator"],
             "mobilenet_v2": ["qdq", "qoperator"]}
KNOWN |= {f"{name}_{form}": dataclasses.replace(KNOWN[name], file=f"{name}_{form}.onnx", transformer=None, zoo=None, quantized=True)
          for name, forms in QUANTIZED.items() for form in forms}


@dataclasses.dataclass
class Job:
    name: str
    path: pathlib.Path
    dims: dict[str, int]
    feeds: list[Feed]
    threads: int
    precision: str
    transformer: tuple[str, int, int] | None
    zoo_name: str | None
    quantized: bool = False
    artifact: pathlib.Path | None = None


class Unavailable(Exception):
    """A model that is not there, and what to type."""


def find(file: str, zoo: pathlib.Path) -> pathlib.Path:
    """In the folder of the zoo, or among the installed packages."""
    for folder in (zoo, pathlib.Path(sysconfig.get_paths()["purelib"])):
        for found in sorted(folder.glob(file)):
            return found
    name = next((known.zoo or name for name, known in KNOWN.items() if known.file == file), "")
    made_by = "make_quantized.py" if name in KNOWN and KNOWN[name].quantized else "make_zoo.py"
    remedy = "scripts/setup models" if "/" in file else f"python bench/zoo/{made_by} --out {os.path.relpath(zoo)} {name}"
    raise Unavailable(f"there is no {file}; type: {remedy}")


def draw(value: onnx.ValueInfoProto, known: Known, dims: dict[str, int], rng: np.random.Generator) -> np.ndarray:
    tensor = value.type.tensor_type
    shape = known.shapes.get(value.name)
    if shape is None:
        shape = [dim.dim_value if dim.HasField("dim_value") else dims.get(dim.dim_param) for dim in tensor.shape.dim]
    if None in shape:
        raise Unavailable(f"input {value.name} has symbolic sizes without a value: {shape}; give them by --dim NAME=SIZE")
    dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
    if dtype.kind == "f":
        return np.asarray(rng.standard_normal(shape)).astype(dtype)
    low, high = known.integers.get(value.name, (0, 2))
    return np.asarray(rng.integers(low, high, shape)).astype(dtype)  # ascontiguousarray would give a number an axis


def inputs_of(path: pathlib.Path) -> list[onnx.ValueInfoProto]:
    graph = onnx.load(str(path), load_external_data=False).graph
    constants = {tensor.name for tensor in graph.initializer}
    return [value for value in graph.input if value.name not in constants]


def feeds(name: str, zoo: pathlib.Path, sizes: dict[str, int], draws: int) -> list[Feed]:
    known = KNOWN[name]
    rng = np.random.default_rng(SEED)
    inputs = inputs_of(find(known.file, zoo))
    return [{value.name: draw(value, known, {**known.dims, **sizes}, rng) for value in inputs} for _ in range(draws)]


def job(name: str, zoo: pathlib.Path, dims: dict[str, int], threads: int, precision: str, draws: int = FEEDS) -> Job:
    known = KNOWN.get(name) or Known(name)
    path = find(known.file, zoo) if name in KNOWN else pathlib.Path(name)
    if not path.is_file():
        raise Unavailable(f"no file, and not one of {', '.join(KNOWN)}")
    inputs = inputs_of(path)
    sizes = {**known.dims, **dims}
    rng = np.random.default_rng(SEED)
    feeds = [{value.name: draw(value, known, sizes, rng) for value in inputs} for _ in range(draws)]
    bound = dict(sizes) if not known.shapes else {}
    for value in inputs:  # the names of sizes that were given as whole shapes
        for dim, size in zip(value.type.tensor_type.shape.dim, feeds[0][value.name].shape):
            if dim.dim_param and bound.setdefault(dim.dim_param, int(size)) != int(size):
                bound[dim.dim_param] = 0  # some exporters call every size they do not know the same
    bound = {name: size for name, size in bound.items() if size > 0}
    return Job(pathlib.Path(name).stem if name not in KNOWN else name, path, bound, feeds, threads, precision, known.transformer,
               known.zoo, known.quantized)
