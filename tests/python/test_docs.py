"""Python code in README and docs runs as pasted.

A page is pasted from top to bottom into one session. A block without a language that follows is what it prints, and is
compared; what precedes a block says otherwise: `<!-- not run: REASON -->`, or `<!-- output varies: REASON -->`.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import of_the_cpu

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(
    r"(?:<!-- (?P<mark>not run|output varies): (?P<why>[^>]+) -->\n+)?"
    r"^```python\n(?P<code>.*?)^```\n(?:\n*```\n(?P<shown>.*?)^```\n)?",
    re.MULTILINE | re.DOTALL,
)
PAGES = [p for p in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))) if "```python" in p.read_text()]
MARK = "=== what block {} printed"


def session(page):
    """A program of the blocks of a page, and what each prints, or None where that is not compared."""
    program, shown = [], []
    for block in BLOCK.finditer(page.read_text()):
        if block["mark"] == "not run":
            continue
        program += [f"print({MARK.format(len(shown))!r})", block["code"]]
        shown.append(None if block["mark"] else block["shown"])
    return "\n".join(program), shown


@of_the_cpu("what is printed names it, and random numbers are others")
@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_the_code_of_a_page_runs_as_pasted(page, tmp_path):
    program, shown = session(page)
    if not shown:
        pytest.skip("each block says why it is not run")
    (tmp_path / "page.py").write_text(program)
    done = subprocess.run(
        [sys.executable, "page.py"], cwd=tmp_path, env=dict(os.environ), capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-3000:]
    printed = re.split(r"^=== what block \d+ printed\n", done.stdout, flags=re.MULTILINE)[1:]
    for said, saw in zip(shown, printed, strict=True):
        assert said is None or saw.split() == said.split()


CPP = re.compile(r"^```cpp\n(?P<code>.*?)^```\n", re.MULTILINE | re.DOTALL)


def test_the_cpp_of_tutorials_is_that_of_examples():
    """So it compiles, and runs in the examples' own tests."""
    examples = "".join(p.read_text() for p in (ROOT / "examples").rglob("*.cpp"))
    blocks = [b["code"] for p in sorted((ROOT / "docs/tutorials").glob("*.md")) for b in CPP.finditer(p.read_text())]
    assert len(blocks) >= 4
    for block in blocks:
        assert block in examples, block
