"""Single operations of GPUs: what we run, as a graph in text, and what torch does with the same operands."""

from __future__ import annotations

ROWS, COLUMNS = 32768, 1024
LONG = (4096, 65536)
GRID = "f32[16384, 2048]"
SKINNY = [(rows, depth, columns) for rows in (1, 16, 32, 64, 128) for depth, columns in ((4096, 4096), (768, 3072))]


def graph(operation: dict) -> str:
    inputs = ", ".join(f"%{name}: {kind}" for name, kind in operation["inputs"].items())
    body = "\n".join(f"  {line}" for line in operation["body"])
    return f"xir 1\ngraph @main({inputs}) -> (%y) {{\n{body}\n}}\n"


def shape(kind: str) -> tuple[int, ...]:
    return tuple(int(size) for size in kind.split("[")[1].rstrip("]").split(","))


def _product(dtype: str, rows: int, depth: int, columns: int, epilogue: str = "") -> dict:
    result = f"{dtype}[{rows}, {columns}]"
    inputs = {"a": f"{dtype}[{rows}, {depth}]", "b": f"{dtype}[{depth}, {columns}]"}
    if not epilogue:
        return {"inputs": inputs, "body": [f"%y: {result} = MatMul(%a, %b)"], "torch": "a @ b"}
    inputs["c"] = f"{dtype}[{columns}]"
    body = [f"%p: {result} = MatMul(%a, %b)", f"%s: {result} = Add(%p, %c)", f"%y: {result} = {epilogue}(%s)"]
    return {"inputs": inputs, "body": body, "torch": f"torch.nn.functional.{epilogue.lower()}(a @ b + c)"}


def _rows(dtype: str) -> dict[str, dict]:
    grid, line = f"{dtype}[{ROWS}, {COLUMNS}]", f"{dtype}[{COLUMNS}]"
    return {
        f"add_layernorm_{dtype}": {
            "inputs": {"a": grid, "b": grid, "c": line, "d": line},
            "body": [f"%s: {grid} = Add(%a, %b)", f"%y: {grid} = LayerNormalization(%s, %c, %d)"],
            "torch": f"torch.nn.functional.layer_norm(a + b, ({COLUMNS},), c, d)",
        },
        f"softmax_{dtype}": {"inputs": {"a": grid}, "body": [f"%y: {grid} = Softmax(%a)"], "torch": "torch.softmax(a, -1)"},
        f"softmax_long_{dtype}": {
            "inputs": {"a": f"{dtype}[{LONG[0]}, {LONG[1]}]"},
            "body": [f"%y: {dtype}[{LONG[0]}, {LONG[1]}] = Softmax(%a)"],
            "torch": "torch.softmax(a, -1)",
        },
        f"bias_gelu_mul_{dtype}": {
            "inputs": {"a": grid, "b": line, "c": grid},
            "body": [f"%s: {grid} = Add(%a, %b)", f"%g: {grid} = Gelu(%s)", f"%y: {grid} = Mul(%g, %c)"],
            "torch": "torch.nn.functional.gelu(a + b) * c",
        },
    }


def _products(dtype: str) -> dict[str, dict]:
    made = {f"matmul_4096_{dtype}": _product(dtype, 4096, 4096, 4096)}
    for epilogue in ("Gelu", "Relu"):
        made[f"matmul_4096_{epilogue.lower()}_{dtype}"] = _product(dtype, 4096, 4096, 4096, epilogue)
    return made


def _layer(rows: int, depth: int, columns: int) -> dict:
    return {**_product("bf16", rows, depth, columns), "weights": {"b": f"bf16[{depth}, {columns}]"}}


def write_with_weights(operation: dict, path: str) -> None:
    """The product with its second operand as a constant of the model, as layers have it, in an ONNX file."""
    import numpy
    import onnx
    from onnx import helper
    draw = numpy.random.default_rng(0)
    made = []
    for name, kind in operation["weights"].items():
        numbers = draw.standard_normal(shape(kind), dtype=numpy.float32) / shape(kind)[0] ** 0.5
        bits = (numbers.view(numpy.uint32) >> 16).astype(numpy.uint16)
        made.append(helper.make_tensor(name, onnx.TensorProto.BFLOAT16, shape(kind), bits.tobytes(), raw=True))
    rows, columns = shape(operation["inputs"]["a"])[0], shape(operation["inputs"]["b"])[1]
    values = [helper.make_tensor_value_info(name, onnx.TensorProto.BFLOAT16, sizes)
              for name, sizes in (("a", shape(operation["inputs"]["a"])), ("y", (rows, columns)))]
    graph = helper.make_graph([helper.make_node("MatMul", ["a", "b"], ["y"])], "layer", values[:1], values[1:], made)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8), path)


SETS = {
    "rows": {**_rows("bf16")},
    "products": {**_products("bf16"), "matmul_4096_f32": _product("f32", 4096, 4096, 4096),
                 "matmul_4096_tf32": {**_product("f32", 4096, 4096, 4096), "precision": "tf32"}},
    "skinny": {f"matmul_{m}x{k}x{n}_bf16": _product("bf16", m, k, n) for m, k, n in SKINNY},
    "layers": {f"layer_{m}x{k}x{n}_bf16": _layer(m, k, n) for m, k, n in SKINNY},
    "f32": {
        "matmul_4096": _product("f32", 4096, 4096, 4096),
        "matmul_bias_gelu_4096": _product("f32", 4096, 4096, 4096, "Gelu"),
        "softmax_128MB": {"inputs": {"a": GRID}, "body": [f"%y: {GRID} = Softmax(%a)"], "torch": "torch.softmax(a, -1)"},
        "layernorm_128MB": {
            "inputs": {"a": GRID, "b": "f32[2048]", "c": "f32[2048]"},
            "body": [f"%y: {GRID} = LayerNormalization(%a, %b, %c)"],
            "torch": "torch.nn.functional.layer_norm(a, (2048,), b, c)",
        },
        "gelu_chain_128MB": {
            "inputs": {"a": GRID, "b": "f32[2048]"},
            "body": [f"%s: {GRID} = Add(%a, %b)", f"%g: {GRID} = Gelu(%s)", f"%y: {GRID} = Mul(%g, %a)"],
            "torch": "torch.nn.functional.gelu(a + b) * a",
        },
    },
}
OPERATIONS = {name: operation for operations in SETS.values() for name, operation in operations.items()}
