"""The code of README.md and of docs/ runs: the blocks of each page in order, as one program in a folder of its own."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = {
    str(page.relative_to(ROOT)): page.read_text() for page in [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))]
}


@pytest.mark.parametrize("page", PAGES)
def test_code_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "__main__"}
    for block in re.finditer(r"^```python\n(.*?)^```", PAGES[page], re.DOTALL | re.MULTILINE):
        lines_before = PAGES[page].count("\n", 0, block.start(1))
        exec(compile("\n" * lines_before + block[1], page, "exec"), namespace)
