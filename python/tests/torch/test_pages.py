"""Python that the pages about torch show is run: their blocks that begin with ```python torch, one after the other, and those with ```python cuda on a GPU."""

import re
import subprocess
import sys
from pathlib import Path

import torch

import xyntra

ROOT = Path(__file__).resolve().parent.parent.parent.parent
KINDS = "torch cuda" if torch.cuda.is_available() else "torch"  # of blocks: some need a GPU
BLOCK = re.compile(rf"^```python (?:{KINDS.replace(' ', '|')})\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def run_blocks(page, least, seen=None, **given):
    """`seen` is given the names that the blocks define."""
    seen = {} if seen is None else seen
    seen.update(given)
    blocks = BLOCK.findall((ROOT / "docs" / page).read_text(encoding="utf-8"))
    assert len(blocks) >= least
    for block in blocks:
        exec(compile(block, page, "exec"), seen)


class ImageModel(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Conv2d(3, 4, 7, stride=7)

    def forward(self, x):
        return self.layer(x).mean((-1, -2))


def test_blocks_run():
    run_blocks("torch-quick-start.md", 4)


def test_what_torch_export_saves_is_a_model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = ImageModel()
    run_blocks("torch-import.md", 1, torch=torch, model=model)
    x = torch.randn(3, 3, 224, 224)
    [found] = xyntra.Session("model.pt2").run(None, {"x": x.numpy()})
    with torch.no_grad():
        torch.testing.assert_close(torch.from_numpy(found), model(x), rtol=1e-4, atol=1e-5)


def test_what_torch_jit_saves_is_a_model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model, seen = ImageModel(), {}
    run_blocks("torchscript.md", 2, seen, torch=torch, xyntra=xyntra, model=model)
    x = torch.randn(1, 3, 224, 224)
    [found] = seen["session"].run(None, {"x": x})
    with torch.no_grad():
        torch.testing.assert_close(torch.from_numpy(found), model(x), rtol=1e-4, atol=1e-5)
    done = subprocess.run([sys.executable, "-m", "xyntra", "run", "model.pt", "--shape", "x=1x3x224x224"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
