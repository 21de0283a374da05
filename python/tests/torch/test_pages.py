"""Python that the page about torch shows is run: its blocks that begin with ```python torch, one after the other."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent.parent
BLOCK = re.compile(r"^```python torch\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_blocks_run():
    blocks = BLOCK.findall((ROOT / "docs/torch-quick-start.md").read_text(encoding="utf-8"))
    assert len(blocks) >= 4
    seen = {}
    for block in blocks:
        exec(compile(block, "torch-quick-start.md", "exec"), seen)
