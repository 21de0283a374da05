"""Models that take a while to compile or to run, each for another reason: depth, width, size, many kernels, long kernels.

Most come from the generators of bench/scaling and need Python's onnx; without it, those written as .xir and those of tests/models are left.
"""
import subprocess
import sys
from pathlib import Path

from models import filled, graph, uniform

ROOT = Path(__file__).resolve().parent.parent.parent
FAMILIES = ROOT / "bench/harness/scaling_models.py"
SCALED = {"tanh_64": ("tanh", 64), "gelu_128": ("gelu", 128), "mixed_200": ("mixed", 200), "mixed_rows_200": ("mixed_rows", 200),
          "tangled_20": ("tangled", 20), "chosen_40": ("chosen", 40), "reshaped_20": ("reshaped", 20), "doubled_5000": ("doubled", 5000),
          "branches_256": ("branches", 256), "neg_20000": ("neg", 20000), "relu_add_2000": ("relu_add", 2000),
          "transformer_12": ("transformer", 12), "transformer_48": ("transformer", 48), "densenet_121": ("densenet", 121), "inception": ("inception", 3)}
FILES = ["bert_dynamo", "bert_dynamic_torchscript", "gpt2_dynamo", "mobilenet_torchscript", "resnet_dynamo", "lstm_bidirectional_dynamo",
         "loop_if_torchscript", "qwen_block_dynamo", "convolutions_dynamo", "quantized_lstm"]


def attention(heads, tokens, width):
    text = "".join(uniform(name, [1, heads, tokens, width]) for name in "qkv")
    return graph(text + "  %t = Transpose(%k) {perm = [0, 1, 3, 2]}\n  %s = MatMul(%q, %t)\n  %p = Softmax(%s) {axis = -1}\n  %y = MatMul(%p, %v)")


def elementwise(count):
    text = "".join(f"  %v{i + 1} = {'Tanh' if i % 3 else 'Exp'}(%v{i})\n" for i in range(count))
    return graph(text, "%v0: f32[1024, 4096]", f"%v{count}")


TEXTS = {
    "attention": attention(8, 2048, 64),
    "convolution": graph(filled("x", [1, 64, 224, 224]) + filled("w", [64, 64, 3, 3]) + "  %y = Conv(%x, %w) {pads = [1, 1, 1, 1]}"),
    "matmul": graph("  %y = MatMul(%a, %b)", "%a: f32[2048, 2048], %b: f32[2048, 2048]"),
    "elementwise_12": elementwise(12),
}


def available(folder):
    """{name: function that makes the model, once, and returns its path}."""
    made = {}

    def once(name, make):
        def get():
            if name not in made:
                made[name] = make()
            return made[name]
        return get

    def scaled(name, family, size):
        path = folder / f"{name}.onnx"
        subprocess.run([sys.executable, FAMILIES, family, str(size), path], check=True, stdout=subprocess.DEVNULL)
        return path

    def text(name, content):
        path = folder / f"{name}.xir"
        path.write_text(content, encoding="utf-8")
        return path

    found = {name: once(name, lambda name=name, content=content: text(name, content)) for name, content in TEXTS.items()}
    found |= {name: (lambda path=ROOT / "tests/models" / name / "model.onnx": path) for name in FILES}
    found["encoder"] = lambda: ROOT / "examples/models/encoder.onnx"
    try:
        import onnx  # noqa: F401  pylint: disable=unused-import
    except ImportError:
        return found
    return found | {name: once(name, lambda name=name, of=of: scaled(name, *of)) for name, of in SCALED.items()}
