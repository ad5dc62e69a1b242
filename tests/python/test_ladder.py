"""Programs in the styles of public code, under torch's name, give PyTorch's numbers: those of tests/ladder without libraries.

tests/golden/ladder.json has what PyTorch computes. `python tests/python/test_ladder.py`, with a Python where PyTorch is
installed, writes it anew.
"""

import json
import math
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests/golden/ladder.json"
FILES = [ROOT / f"tests/ladder/programs/styles_of_{name}.py" for name in ("training", "models", "fields", "signals")]


def told(file, *options):
    """The lines of a file's programs, by name."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", *options, str(file)], capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr[-3000:]
    lines = [line.removeprefix("LADDER ") for line in done.stdout.splitlines() if line.startswith("LADDER ")]
    return {said["program"]: said for said in map(json.loads, lines)}


def apart(ours, theirs):
    """The fault in the numbers of a program; None where there is none."""
    if "error" in ours:
        return ours["error"], ours["at"]
    pairs = list(zip(ours["losses"], theirs, strict=False))
    far = [(a, b) for a, b in pairs if not math.isclose(a, b, rel_tol=1e-4, abs_tol=1e-4)]
    return far or (f"{len(ours['losses'])} numbers, not {len(theirs)}" if len(ours["losses"]) != len(theirs) else None)


def compare(file):
    golden = json.loads(GOLDEN.read_text())[file.stem]
    ours = told(file, "-m", "smolder.torch")
    assert ours.keys() == golden.keys() and len(ours) >= 15
    assert {name: wrong for name, theirs in golden.items() if (wrong := apart(ours[name], theirs))} == {}


def test_training():
    compare(FILES[0])


def test_models():
    compare(FILES[1])


def test_fields():
    compare(FILES[2])


def test_signals():
    compare(FILES[3])


if __name__ == "__main__":
    found = {}
    for path in FILES:
        os.environ["PYTHONPATH"] = ""
        found[path.stem] = {name: [float(f"{x:.7g}") for x in said["losses"]] for name, said in told(path).items()}
    parts = [
        f' "{stem}": {{\n' + ",\n".join(f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in of.items()) + "\n }"
        for stem, of in found.items()
    ]
    GOLDEN.write_text("{\n" + ",\n".join(parts) + "\n}\n")
