"""Random programs of views, writes, repeated indices, mixed dtypes, random ops and compiled functions, as torch left
them, in every tier."""

import json
import subprocess
from pathlib import Path

import exact_programs
import pytest
import torch_peer
from container_programs import digest

import smolder

# The golden file has no digest of programs that end otherwise here: they write to views that torch has and Smolder
# copies (unfold, as_strided, an index that is a zero-dim tensor), or to what is expanded; or take or refuse an operand
# of another dtype; or have gradients of products of complex numbers, which are rounded otherwise; or torch refused a statement half way.
PROGRAMS = list(exact_programs.programs())
CHUNK = 500


def difference(program, expected, compile=None):
    """The differences from torch's results, where both take the statements."""
    theirs, *refused = expected.split(" ")
    taken = [s for i, s in enumerate(program) if str(i) not in refused]
    ours, raised = exact_programs.run(smolder, taken, compile)
    if any(isinstance(e, NotImplementedError) for e in raised.values()):
        return ""  # it says what there is not
    said = "".join(f"raised at {taken[i]}: {e}\n" for i, e in raised.items())
    return said or ("" if digest(ours) == theirs else f"left {ours}")


def wrong(first, compile=None, step=1):
    expected, out = json.loads(exact_programs.GOLDEN.read_text()), []
    for i in range(first, min(first + CHUNK * step, len(PROGRAMS)), step):
        if expected[i] and (text := difference(PROGRAMS[i], expected[i], compile)):
            out.append("\n".join([f"program {i}:", *PROGRAMS[i], text]))
    return f"{len(out)} programs:\n" + "\n\n".join(out[:3]) if out else ""


@pytest.mark.parametrize("first", range(0, len(PROGRAMS), CHUNK))
def test_every_program_leaves_what_torch_left(first):
    with smolder.eager():
        assert not wrong(first)


@pytest.mark.parametrize("mode", ["lazy", "compiled"])
def test_programs_leave_the_same_in_other_tiers(mode):
    assert not wrong(0, smolder.compile if mode == "compiled" else None, step=25)


@torch_peer.needs_torch
def test_torch_still_leaves_that(tmp_path):
    program = [torch_peer.PYTHON, str(Path(exact_programs.__file__)), "torch", "to", str(tmp_path / "golden.json")]
    subprocess.run(program, check=True, timeout=300)
    now, golden = (json.loads(p.read_text()) for p in (tmp_path / "golden.json", exact_programs.GOLDEN))
    told = [i for i, text in enumerate(golden) if text]
    assert [now[i] for i in told] == [golden[i] for i in told]
