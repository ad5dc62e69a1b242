"""docs/metrics.md lists every counter that the sources name, and no other."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_every_counter_is_documented():
    named = set()
    for path in [*(ROOT / "src").rglob("*.cpp"), *(ROOT / "bindings").rglob("*.cpp")]:
        named.update(re.findall(r'counter\("([a-z_.]+)"', path.read_text()))
    named = {n for n in named if not n.endswith(".")}  # "rule." and a name
    listed = set(re.findall(r"^\| `([a-z_.]+)` \|", (ROOT / "docs" / "metrics.md").read_text(), re.MULTILINE))
    assert named - listed == set(), "counters that docs/metrics.md does not list"
    assert listed - named == set(), "listed counters that no source names"
