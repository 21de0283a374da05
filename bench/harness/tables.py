"""Result files as Markdown tables: what stands in the generated blocks of the pages.

A table is a function of result files; its lines end with where they come from: machine, date, commit, file.
"""

from __future__ import annotations

import fnmatch
import pathlib
from collections.abc import Callable

from harness.lookup import Missing, geomean, load, ratios_of, rows_of

MODEL_NAMES = {"bert_base": "BERT-base, 128 tokens", "bert_2_layers": "BERT, 2 layers", "gpt2": "GPT-2, 128 tokens", "gpt2_decode": "GPT-2, one token",
               "vit_tiny": "ViT-Tiny", "resnet50": "ResNet-50", "mobilenet_v2": "MobileNetV2", "magika": "magika", "silero": "silero-vad",
               "ppocr_det": "PP-OCRv4 detection", "ppocr_rec": "PP-OCRv4 recognition", "ppocr_cls": "PP-OCR direction"}
PEER_NAMES = {"onnxruntime": "ONNX Runtime", "torch": "torch.compile", "openvino": "OpenVINO"}
CLOCKS = {"wall": "wall-clock", "cpu": "CPU time"}
OPERATION_FAMILIES = {"gemm": "GEMM, constant weights", "attention": "attention, 12 heads of width 64"}
QUANTIZED_FORMS = {"dynamic": "dynamic: ranges found in each run", "qdq": "QDQ: QuantizeLinear and DequantizeLinear around f32 operations",
                   "qdq_s8": "QDQ with i8 activations", "qoperator": "QOperator: QLinearConv, QLinearMatMul", "weights": "8-bit weights alone"}
DEVICE_ROWS = {"matmul_4096": "matmul, 4096³", "matmul_bias_gelu_4096": "matmul, 4096³, bias, GELU", "softmax_128MB": "softmax, 128 MB",
               "layernorm_128MB": "LayerNorm, 128 MB", "gelu_chain_128MB": "bias, GELU, multiply, 128 MB",
               "bert_base": "BERT-base, 128 tokens", "resnet50": "ResNet-50", "gpt2_decode": "GPT-2, one token, 512 in the KV cache, donated"}


def name_of(model: str) -> str:
    return MODEL_NAMES.get(model, model)


def ratio_text(row: dict) -> str:
    if row.get("ratio") is None:
        return "outputs differ"
    interval = f" ({row['ratio_low']:.2f}–{row['ratio_high']:.2f})" if "ratio_low" in row else ""
    return f"{row['ratio']:.2f}{interval}"


def error_text(error: float) -> str:
    return f"{error:.1e}".replace("e-0", "e-")


def threads_text(threads: int) -> str:
    return f"{threads} thread{'s' if threads > 1 else ''}"


def spread_text(ratios: list[float]) -> str:
    return f"{min(ratios):.2f}–{max(ratios):.2f}" if len(ratios) > 1 else ""


def table(columns: list[str], rows: list[list[str]]) -> list[str]:
    return [f"| {' | '.join(cells)} |" for cells in [columns, ["---"] * len(columns), *rows]]


def origin(path: pathlib.Path, link: str) -> str:
    """Where figures come from, in one line."""
    report = load(path)
    machine = report.get("machine") or {}
    said = [f"{machine['cpu']}, {machine['cores']} cores" if machine else report.get("device", "machine not recorded")]
    peers = sorted({f"{row['peer']} {row['peer_version']}" for row in report["rows"] if "peer_version" in row})
    clocks = sorted({CLOCKS[row["clock"]] for row in report["rows"] if "clock" in row})
    said += [", ".join(peers)] * bool(peers) + [", ".join(clocks)] * bool(clocks)
    said += [report["date"], f"commit {report['commit']}" if report.get("commit") else "commit not recorded"]
    said += ["see its note"] * ("note" in report)
    return f"[{path.name}]({link}{path.name}): {'; '.join(said)}"


def overview(*paths: pathlib.Path) -> list[str]:
    """Models by peer and number of threads, from several files: a column for each."""
    columns: dict[str, dict[str, dict]] = {}
    for path in paths:
        for row in rows_of(path):
            if row["peer"] in PEER_NAMES and row["threads"] in (1, 8) and row["model"] in MODEL_NAMES:
                precision = "" if row["precision"] == "f32" else f" {row['precision']}"
                columns.setdefault(f"{PEER_NAMES[row['peer']]}{precision}, {threads_text(row['threads'])}", {})[row["model"]] = row
    order = list(dict.fromkeys(model for column in columns.values() for model in column))
    lines = [[name_of(model), *(ratio_text(column[model]) if model in column else "" for column in columns.values())] for model in order]
    lines.append(["geometric mean", *(f"**{geomean(ratios_of(list(column.values()))):.2f}**" for column in columns.values())])
    return table(["model", *columns], lines)


def models(path: pathlib.Path, peer: str = "") -> list[str]:
    """Models by threads, against one peer, with the geometric mean in the last line."""
    rows = [row for row in rows_of(path) if not peer or row["peer"] == peer]
    counts = sorted({row["threads"] for row in rows})
    cells = {(row["model"], row["threads"]): row for row in rows}
    order = list(dict.fromkeys(row["model"] for row in rows))
    columns = ["model", *(text for count in counts for text in (f"{threads_text(count)}, ms", "ratio (95%)"))]
    lines = []
    for model in order:
        line = [name_of(model)]
        for count in counts:
            row = cells.get((model, count))
            line += [f"{row['ours_ms']:.2f}", ratio_text(row)] if row else ["", ""]
        lines.append(line)
    kinds = {"models": [row for row in rows if row["model"] in MODEL_NAMES], "operations": [row for row in rows if row["model"] not in MODEL_NAMES]}
    for kind, several in kinds.items():
        if len(several) > len(counts):
            means = [geomean(ratios_of([row for row in several if row["threads"] == count])) for count in counts]
            lines.append([f"geometric mean, {kind}", *(text for mean in means for text in ("", f"**{mean:.2f}**"))])
    return table(columns, lines)


def runs(path: pathlib.Path, models_like: str = "*") -> list[str]:
    """Every row of a file, or those of some models."""
    lines = [[row["model"], str(row["threads"]), CLOCKS[row["clock"]], f"{row['ours_ms']:.2f}", f"{row['ours_fastest_ms']:.2f}",
              f"{row['peer']} {row['peer_version']}", f"{row['peer_ms']:.2f}", f"{row['peer_fastest_ms']:.2f}", ratio_text(row)]
             for row in rows_of(path) if fnmatch.fnmatchcase(row["model"], models_like)]
    return table(["model", "threads", "clock", "ours, ms", "fastest", "peer", "peer, ms", "fastest", "ratio (95%)"], lines)


def families(path: pathlib.Path, family_of: Callable[[str], str]) -> list[str]:
    found: dict[str, list[float]] = {}
    for row in rows_of(path):
        found.setdefault(family_of(row["model"]), []).extend(ratios_of([row]))
    return [[family, str(len(ratios)), f"{geomean(ratios):.2f}", spread_text(ratios)] for family, ratios in found.items()]


def operations(path: pathlib.Path) -> list[str]:
    lines = families(path, lambda model: OPERATION_FAMILIES.get(model.partition("_")[0], "rows of 64 MB: copy, GELU, LayerNorm, softmax"))
    return table(["operations", "cases", "geometric mean", "range"], lines)


def quantized(path: pathlib.Path) -> list[str]:
    """Models by the form they were quantized in: the longest ending that is one."""
    def form(model: str) -> str:
        return QUANTIZED_FORMS[max((one for one in QUANTIZED_FORMS if model.endswith("_" + one)), key=len)]
    return table(["form", "models", "geometric mean", "range"], families(path, form))


def sets(path: pathlib.Path) -> list[str]:
    lines = []
    for name in dict.fromkeys(row["set"] for row in rows_of(path)):
        rows = {row["threads"]: row for row in rows_of(path) if row["set"] == name}
        one, eight = rows[1], rows.get(8)
        lines.append([one["label"], one["draw"], f"**{one['ratio']:.2f}**", f"{one['below_one']} of {one['models']}", f"{one['worst']:.2f}",
                      f"{eight['ratio']:.2f}" if eight else ""])
    return table(["set", "draw", "1 thread", "below 1.0", "worst", "8 threads"], lines)


def errors(path: pathlib.Path) -> list[str]:
    lines = [[name_of(row["model"]), error_text(row["ours_error"]), error_text(row["peer_error"]),
              f"{row.get('error_ratio', row['ours_error'] / row['peer_error']):.2f}"] for row in rows_of(path)]
    return table(["model", "Xyntra", "ONNX Runtime", "ratio"], lines)


def dynamic(path: pathlib.Path) -> list[str]:
    def what(row: dict) -> str:
        if "largest" in row:
            return f"{name_of(row['model']).partition(',')[0]}, batch 1–{row['largest']['batch']}, length 1–{row['largest']['seq']} drawn for each call"
        return f"GPT-2 decoding to {row['tokens']} tokens, KV cache {'donated' if row['caches'] == 'donated' else 'lent'}" if "caches" in row \
            else "GPT-2 decoding, KV cache lent"
    lines = [[what(row), str(row["threads"]), str(row["calls"]), f"{row['ours_p50_ms']:.1f}", f"{row['ratio_p50']:.2f}", f"{row['ours_p99_ms']:.1f}",
              f"{row['ratio_p99']:.2f}"] for row in rows_of(path)]
    return table(["workload", "threads", "calls", "p50, ms", "ratio", "p99, ms", "ratio"], lines)


def device(path: pathlib.Path) -> list[str]:
    rows = rows_of(path)
    lines = []
    for model, label in DEVICE_ROWS.items():
        mine = [row for row in rows if row["model"] == model]
        peers = {row["peer"].split()[1]: f"{row['peer_ms']:.2f}" for row in mine}
        whole = f"{mine[0]['wall_ms']:.2f}" if model in MODEL_NAMES else ""
        lines.append([label, f"{mine[0]['device_ms']:.3f}", f"{100 * mine[0]['roofline']:.0f}%", whole, peers["eager"], peers.get("compiled", "")])
    return table(["operation or model", "kernels, ms", "of roofline", "whole call, ms", "torch eager, ms", "torch.compile, ms"], lines)


def browser(path: pathlib.Path) -> list[str]:
    lines = [[name_of(row["model"]), f"{row['ours_ms']:.0f}", f"{row['peer_ms']:.0f}", ratio_text(row), str(row["rounds"])] for row in rows_of(path)]
    return table(["model", "ours, ms", "onnxruntime-web, ms", "ratio (95%)", "rounds"], lines)


def definition(path: pathlib.Path) -> list[str]:
    """Of quantized models: integers that differ from ONNX's reference evaluator, and the mean difference of outputs."""
    rows = rows_of(path)
    who = list(dict.fromkeys(row["who"] for row in rows))
    cells = {(row["model"], row["who"]): row for row in rows}

    def cell(row: dict) -> str:
        return f"{row['mean']:.4f}" if row["quanta"] is None else f"{100 * row['quanta']:.1f}%, {row['mean']:.4f}"
    lines = [[model, *(cell(cells[model, one]) for one in who)] for model in dict.fromkeys(row["model"] for row in rows)]
    return table(["model", *(one.replace("onnxruntime, as it is written", "onnxruntime, not optimised") for one in who)], lines)


def plans(path: pathlib.Path) -> list[str]:
    lines = [[row["model"], str(row["nodes"]), str(row["groups"]), f"{row['median_ms']:.0f}"] for row in rows_of(path)]
    return table(["model", "nodes", "groups", "plan, ms"], lines)


TABLES: dict[str, Callable[..., list[str]]] = {one.__name__: one for one in (
    overview, models, runs, operations, quantized, sets, errors, dynamic, device, browser, definition, plans)}


def render(words: list[str], results: pathlib.Path, link: str) -> list[str]:
    """`KIND FILE.json … [ARGUMENT]` as lines of Markdown; `link` is how its page reaches the folder of results."""
    kind, rest = words[0] if words else "", words[1:]
    files = [results / word for word in rest if word.endswith(".json")]
    if kind not in TABLES or not files:
        raise Missing(f"expected KIND FILE.json, KIND one of {', '.join(TABLES)}; got '{' '.join(words)}'")
    lines = TABLES[kind](*files, *(word for word in rest if not word.endswith(".json")))
    return [*lines, "", f"<sub>{'<br>'.join(origin(file, link) for file in files)}</sub>"]
