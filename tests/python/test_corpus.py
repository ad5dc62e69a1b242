"""Programs of the corpus, small, have PyTorch's values: see benchmarks/corpus/run.py.

tests/golden/corpus.json has what PyTorch computes. `python tests/python/test_corpus.py --write`, with a Python where
PyTorch is installed, writes it anew.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests/golden/corpus.json"
sys.path[:0] = [str(ROOT / "benchmarks")]


def values(column, device="cpu"):
    """The first results of each program, by name."""
    from corpus import worker

    found = {}
    for name in worker.names():
        found[name] = [
            [float(f"{x:.7g}") for x in step] for step in worker.first_values(name, device, small=True, column=column)
        ]
    return found


def test_values_are_those_of_pytorch():
    from corpus.run import agrees

    done = subprocess.run(
        [sys.executable, __file__], capture_output=True, text=True, timeout=1200, env=dict(os.environ)
    )
    assert done.returncode == 0, done.stderr[-3000:]
    ours, theirs = json.loads(done.stdout.splitlines()[-1]), json.loads(GOLDEN.read_text())
    assert ours.keys() == theirs.keys() and len(ours) >= 90
    assert [name for name in ours if not agrees(ours[name], theirs[name])] == []


if __name__ == "__main__":
    if "--write" in sys.argv:
        GOLDEN.write_text("{\n" + ",\n".join(f'"{k}": {json.dumps(v)}' for k, v in values("torch").items()) + "\n}\n")
    else:
        from corpus import worker

        worker.use_smolder_as_torch()
        print(json.dumps(values("smolder", os.environ.get("SMOLDER_TEST_DEVICE", "cpu"))))
