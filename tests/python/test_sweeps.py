"""Whole families of arguments, dtypes and mistakes, against PyTorch running the same file of cases."""

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch_peer
from peer_sweep import sweep

import smolder

FOLDER = Path(__file__).parent / "sweeps"
TOLERANCE = {"float64": 1e-9, "float32": 1e-4, "float16": 2e-2, "bfloat16": 1e-1}


def differs(ours, theirs):
    """What is wrong with a case, if anything."""
    if ours[:1] == ["error"] or theirs[:1] == ["error"]:
        return None if ours == theirs else f"{ours[:2]} for {theirs[:2]}"
    if len(ours) != len(theirs):
        return f"{len(ours)} results for {len(theirs)}"
    for i, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        if isinstance(a, str) or isinstance(b, str) or a[:2] != b[:2]:
            if a != b:
                return f"result {i}: {str(a)[:200]} for {str(b)[:200]}"
            continue
        bound = TOLERANCE.get(a[0], 0)
        if not np.allclose(a[2], b[2], rtol=bound, atol=bound, equal_nan=True):
            return f"result {i} is off by {np.nanmax(np.abs(np.subtract(a[2], b[2])))}"
    return None


@torch_peer.needs_torch
@pytest.mark.parametrize("name", sorted(p.stem for p in FOLDER.glob("*.py")))
def test_every_case_is_as_in_torch(name):
    path = FOLDER / f"{name}.py"
    program = [torch_peer.PYTHON, str(Path(__file__).parent / "peer_sweep.py"), "torch", str(path)]
    run = subprocess.run(program, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    theirs, ours = json.loads(run.stdout), sweep(smolder, path)
    assert ours.keys() == theirs.keys()
    wrong = {case: text for case in ours if (text := differs(ours[case], theirs[case]))}
    assert not wrong, "\n".join(f"{case}: {text}" for case, text in wrong.items())
