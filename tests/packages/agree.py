"""Whether xyntra and ONNX Runtime give the same on a model that nobody here wrote: inputs that it takes, both runs, a verdict.

Sizes that a model leaves open are tried one after another until ONNX Runtime takes them. Outputs agree when they differ by at most
RELATIVE of the output's largest element; where they differ by more, the `float64` backend is asked who is nearer to the truth.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import pathlib
import subprocess
import tempfile

import numpy as np
import onnx
import onnxruntime

onnxruntime.set_default_logger_severity(4)

RELATIVE = 1e-3
RELATIVE_HALF = 1e-2  # of models with f16 weights: we round to f16 after each operation, ONNX Runtime computes in f32
SMALLEST = 1e-2  # an output whose elements are all smaller is compared as if it were that large
NEARER = 3  # our error against float64 may be this many times ONNX Runtime's
SECONDS = 400

DTYPES = {
    "tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(float16)": np.float16, "tensor(int64)": np.int64,
    "tensor(int32)": np.int32, "tensor(int16)": np.int16, "tensor(int8)": np.int8, "tensor(uint8)": np.uint8, "tensor(bool)": np.bool_,
    "tensor(uint16)": np.uint16, "tensor(uint32)": np.uint32, "tensor(uint64)": np.uint64,
}  # fmt: skip
BATCHES = ("batch", "n", "b", "bs", "batch_size", "unk__0")
SIDES = ("height", "width", "h", "w", "hight")

Feed = dict[str, np.ndarray]


class NoInputs(Exception):
    """ONNX Runtime takes none of the inputs that were tried."""


@dataclasses.dataclass
class Verdict:
    kind: str  # agrees, differs, refused, internal, slow, signal, or peer: ONNX Runtime itself does not run it
    detail: str = ""
    difference: float = 0.0

    @property
    def good(self) -> bool:
        return self.kind == "agrees"


def open_size(name: object, position: int, rank: int, side: int, length: int) -> int:
    """A size for an axis that the model leaves open."""
    text = str(name or "").lower()
    if position == 0 and (rank > 1 or text in BATCHES or "batch" in text):
        return 1
    if rank == 4 and position == 1:
        return 3
    if rank == 4 or text in SIDES:
        return side
    if "batch" in text:
        return 1
    return length


def feed_for(session: onnxruntime.InferenceSession, rng: np.random.Generator, side: int, length: int, given: dict, top: int) -> Feed:
    feed: Feed = {}
    same: dict[str, int] = dict(given.get("dims", {}))
    for entry in session.get_inputs():
        shape = given.get("shapes", {}).get(entry.name)
        if shape is None:
            shape = []
            for position, size in enumerate(entry.shape):
                if isinstance(size, int) and size >= 0:
                    shape.append(size)
                    continue
                key = size if isinstance(size, str) else None
                if key is not None and key in same:
                    shape.append(same[key])
                    continue
                shape.append(open_size(size, position, len(entry.shape), side, length))
                if key is not None:
                    same[key] = shape[-1]
        dtype = DTYPES.get(entry.type)
        if entry.name in given.get("values", {}):
            feed[entry.name] = np.broadcast_to(np.array(given["values"][entry.name], dtype), shape).copy()
        elif entry.type == "tensor(string)":
            words = np.array(["one", "two words", "drei", "", "ünïcode", "cat"], object)
            feed[entry.name] = rng.choice(words, shape)
        elif dtype is None:
            raise NoInputs(f"input {entry.name} is {entry.type}")
        elif dtype == np.bool_:
            feed[entry.name] = np.ones(shape, bool)
        elif np.issubdtype(dtype, np.floating):
            feed[entry.name] = rng.uniform(-1, 1, shape).astype(dtype)
        elif "len" in entry.name.lower() and len(shape) == 1:
            feed[entry.name] = np.full(shape, length, dtype)
        elif "mask" in entry.name.lower():
            feed[entry.name] = np.ones(shape, dtype)
        elif dtype == np.uint8 and len(shape) >= 3:
            feed[entry.name] = rng.integers(0, 256, shape).astype(dtype)
        else:
            feed[entry.name] = rng.integers(0, top, shape).astype(dtype)
    return feed


def working_feed(session: onnxruntime.InferenceSession, given: dict | None = None, seed: int = 7) -> tuple[Feed, list[np.ndarray]]:
    """Inputs that ONNX Runtime takes, and what it gives for them."""
    said = ""
    for side, length, top in itertools.product((64, 96, 320, 32, 48, 224, 640), (16, 1, 80, 512, 4000, 16000), (5, 2, 1)):
        try:
            feed = feed_for(session, np.random.default_rng(seed), side, length, given or {}, top)
            return feed, [without_maps(output) for output in session.run(None, feed)]
        except NoInputs:
            raise
        except Exception as error:  # noqa: BLE001: whatever ONNX Runtime says is a reason to try other sizes
            said = said or str(error)
    raise NoInputs(said.strip().splitlines()[-1][:200])


def without_maps(output) -> np.ndarray:
    """Of a ZipMap ONNX Runtime gives a map for each row; we give the matrix of their values."""
    if isinstance(output, list) and output and isinstance(output[0], dict):
        return np.array([list(row.values()) for row in output], np.float32)
    return np.asarray(output)


def peer_session(model: pathlib.Path) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    return onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])


def message_of(done: subprocess.CompletedProcess) -> str:
    try:
        error = json.loads(done.stdout)["error"]
        return f"{error.get('node') or ''} {error['message']}".strip()
    except (json.JSONDecodeError, KeyError, TypeError):
        return ((done.stderr or done.stdout).strip().splitlines() or ["nothing said"])[0]


def run_xyntra(command: pathlib.Path, model: pathlib.Path, feed: Feed, names: list[str], backend: str, flags: list[str]) -> list[np.ndarray] | Verdict:
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        arguments = [str(command), "run", str(model), "--backend", backend, "--json", "--output-dir", scratch, *flags]
        for number, (name, array) in enumerate(feed.items()):
            np.save(folder / f"in{number}.npy", array if array.dtype != object else array.astype(np.str_))
            arguments += ["--input", f"{name}={folder / f'in{number}.npy'}"]
        try:
            done = subprocess.run(arguments, capture_output=True, text=True, timeout=SECONDS)
        except subprocess.TimeoutExpired:
            return Verdict("slow", f"more than {SECONDS} s")
        if done.returncode:
            kind = "signal" if done.returncode < 0 else "internal" if done.returncode == 3 else "refused"
            return Verdict(kind, f"exit {done.returncode}: {message_of(done)[:300]}")
        outputs = json.loads(done.stdout)["outputs"]
        files = {path.stem: path for path in folder.glob("*.npy")}
        found = [files.get(name) or files.get(name.replace("/", "_")) or files.get(named["name"].replace("/", "_")) for name, named in zip(names, outputs)]
        if None in found:
            return Verdict("differs", f"no output {names[found.index(None)]}")
        return [np.load(path) for path in found]


def error_of(got: np.ndarray, truth: np.ndarray) -> float:
    scale = max(SMALLEST, float(np.nan_to_num(np.abs(truth), posinf=0, neginf=0).max(initial=0)))
    with np.errstate(invalid="ignore"):
        return float(np.nan_to_num(np.abs(got.astype(np.float64) - truth)).max(initial=0)) / scale


def has_halves(model: pathlib.Path) -> bool:
    graph = onnx.load(str(model), load_external_data=False).graph
    return any(tensor.data_type in (onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16) for tensor in graph.initializer)


def judge(ours: list[np.ndarray], theirs: list[np.ndarray], names: list[str], truth, tolerance: float = RELATIVE) -> Verdict:
    """`truth` is called for the float64 outputs where the two differ."""
    if theirs and not any(np.asarray(wanted).size for wanted in theirs) and not any(got.size for got in ours):
        return Verdict("agrees", "all outputs are empty")
    worst, exact = 0.0, None
    for number, (name, got, wanted) in enumerate(zip(names, ours, theirs)):
        wanted = np.asarray(wanted)
        if got.shape != wanted.shape:
            return Verdict("differs", f"{name}: {got.dtype}{list(got.shape)}, not {wanted.dtype}{list(wanted.shape)}")
        if wanted.dtype.kind not in "fc":
            same = np.array_equal(got.astype(wanted.dtype), wanted)
            if not same:
                share = float(np.mean(got.astype(wanted.dtype) != wanted))
                return Verdict("differs", f"{name}: {share:.1%} of the integers", worst)
            continue
        got64, wanted64 = got.astype(np.float64), wanted.astype(np.float64)
        if not np.array_equal(np.isnan(got64), np.isnan(wanted64)):
            return Verdict("differs", f"{name}: {np.isnan(got64).sum()} NaN, not {np.isnan(wanted64).sum()}, or elsewhere")
        difference = error_of(got64, wanted64)
        worst = max(worst, difference)
        if difference <= tolerance:
            continue
        exact = exact if exact is not None else truth()
        if isinstance(exact, Verdict):
            return Verdict("differs", f"{name}: by {difference:.1e}; float64: {exact.detail}", worst)
        mine, peers = error_of(got64, exact[number].astype(np.float64)), error_of(wanted64, exact[number].astype(np.float64))
        if mine > NEARER * max(peers, 1e-6):
            return Verdict("differs", f"{name}: error {mine:.1e} against float64, ONNX Runtime's is {peers:.1e}", worst)
    return Verdict("agrees", "" if exact is None else "nearer to float64", worst)


def compare(command: pathlib.Path, model: pathlib.Path, backend: str = "cpu", given: dict | None = None, flags: list[str] | None = None) -> Verdict:
    try:
        session = peer_session(model)
    except Exception as error:  # noqa: BLE001
        return Verdict("peer", str(error).strip().splitlines()[-1][:200])
    try:
        feed, theirs = working_feed(session, given)
    except NoInputs as error:
        return Verdict("peer", str(error))
    names = [output.name for output in session.get_outputs()]
    ours = run_xyntra(command, model, feed, names, backend, flags or [])
    if isinstance(ours, Verdict):
        return ours
    return judge(ours, theirs, names, lambda: run_xyntra(command, model, feed, names, "float64", []), RELATIVE_HALF if has_halves(model) else RELATIVE)
