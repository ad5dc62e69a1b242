"""Whole families of arguments, dtypes and mistakes, against PyTorch running the same file of cases."""

import json
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch_peer
from peer_sweep import FOLDER, GOLDEN, brief, sweep

import smolder

NAMES = sorted(p.stem for p in FOLDER.glob("*.py"))
TOLERANCE = {"float64": 1e-9, "float32": 1e-4, "float16": 2e-2, "bfloat16": 1e-1, "complex64": 1e-4, "complex128": 1e-9}


# Cases that differ, and why.
OTHERWISE = {
    "autocast": r"addmv (b?float16) of bfloat16 and float32"  # refused: torch gives float32
    r"|LSTM .*|not a callable",  # torch 2.11 has no LSTM in bfloat16 on the CPU, and notices what is no function later
    "helpers": "check message",  # torch 2.11 takes functions alone
    "linalg": r"det float\d+ \(0, (0|3, 3)\)",  # a gradient without elements, where torch has none
    "recurrent": r"nn.(BatchNorm|InstanceNorm)3d\(3\)",  # which say whether they have a bias, as torch after 2.11
    # Elements in several windows: which of them is written last, and in torch 2.11 the gradients of those before.
    "views": r".*(unfold\(1, 3, 1\) copied|unfold\((0|1), [23], 1\).* gradients|as_strided\(.*\(\d, 1, 1\).* gradients"
    r"|as_strided\(.*\(1, 1\).* gradients)",
    "resampling": r"gs5 bicubic .*",  # torch has none of volumes
}


def differs(ours, theirs):
    """The fault of a case, if any. NotImplementedError is a RuntimeError to who catches one."""
    if ours[:1] == ["error"] or theirs[:1] == ["error"]:
        if ours == ["error", "NotImplementedError"] and theirs == ["error", "RuntimeError"]:
            return None
        return None if ours == theirs else f"{ours[:2]} for {theirs[:2]}"
    if len(ours) != len(theirs):
        return f"{len(ours)} results for {len(theirs)}"
    for i, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        if isinstance(a, str) or isinstance(b, str) or a[:2] != b[:2]:
            if a != b:
                return f"result {i}: {str(a)[:200]} for {str(b)[:200]}"
            continue
        bound = TOLERANCE.get(a[0], 1e-12)  # of integers: a golden file has sums of them
        x, y = np.array(a[2], "float64"), np.array(b[2], "float64")
        if not np.allclose(x, y, rtol=bound, atol=bound, equal_nan=True):
            return f"result {i} is off by {np.nanmax(np.abs(x - y))}"
    return None


def wrong(name, ours, theirs):
    assert ours.keys() == theirs.keys()
    found = {case: text for case in ours if (text := differs(ours[case], theirs[case]))}
    found = {case: text for case, text in found.items() if not re.fullmatch(OTHERWISE.get(name, "$^"), case)}
    return "\n".join(f"{case}: {text}" for case, text in found.items())


@pytest.mark.parametrize("name", NAMES)
def test_every_case_gives_what_torch_gave(name):
    """Eagerly, where a case of its own shapes costs no compiling."""
    golden = json.loads((GOLDEN / f"{name}.json").read_text())
    with smolder.eager():
        assert not wrong(name, brief(sweep(smolder, FOLDER / f"{name}.py")), golden)


@torch_peer.needs_torch
@pytest.mark.parametrize("name", NAMES)
def test_every_case_is_as_in_torch(name):
    path = FOLDER / f"{name}.py"
    program = [torch_peer.PYTHON, str(Path(__file__).parent / "peer_sweep.py"), "torch", str(path)]
    run = subprocess.run(program, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    theirs = json.loads(run.stdout)
    assert not wrong(name, sweep(smolder, path), theirs)
    assert not wrong(name, brief(theirs), json.loads((GOLDEN / f"{name}.json").read_text())), (
        "the golden file is another's"
    )
