"""User programs under pyright's strict rules: none has an error, each runs, and mistakes in calls are errors."""

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from commands import is_command
from op_rows import ROOT

import smolder

PROGRAMS = sorted((ROOT / "tests/typing").glob("*.py"))
# The share of the exported names whose types are known from annotations alone.
FLOOR = 0.999

MISTAKES = """
import smolder
from smolder import Tensor, nn
from smolder.utils.data import DataLoader, Dataset


class Net(nn.Module):
    def forward(self, x: Tensor, scale: float = 1.0) -> Tensor:
        return x * scale


@smolder.no_grad()
def plain(x: Tensor) -> Tensor:
    return x


class Numbers(Dataset[int]):
    def __getitem__(self, index: int) -> int:
        return index


net = Net()
net()  # line 23
net(smolder.ones(1), skale=2.0)
nn.Linear(3)
nn.Linear(3, 4)("text")
plain(3)
plain(smolder.ones(1)).softmaxx(1)
smolder.compile(plain)(1)
Numbers()[0].upper()
smolder.cuda.is_avalable()
smolder.optim.SGD(net.parameters(), learning_rate=0.1)
smolder.zeros("three")
text: str = net(smolder.ones(1))
DataLoader(3)
"""
MISTAKEN_LINES = list(range(23, 36))


def pyright(*arguments, cwd):
    """The report of basedpyright, which is pyright from PyPI, on the package as an installed one."""
    env = os.environ | {"PYTHONPATH": str(Path(smolder.__file__).parents[1])}
    command = [sys.executable, "-m", "basedpyright", "--outputjson", "--pythonpath", sys.executable, *arguments]
    run = subprocess.run(command, capture_output=True, text=True, env=env, cwd=cwd)
    assert run.returncode in (0, 1), run.stderr + run.stdout
    return json.loads(run.stdout)


def test_there_are_ten_programs():
    assert len(PROGRAMS) >= 10


def test_no_program_has_an_error():
    found = pyright("-p", str(ROOT), cwd=ROOT)
    assert found["summary"]["filesAnalyzed"] == len(PROGRAMS)
    lines = [f"{d['file']}:{d['range']['start']['line'] + 1}: {d['message']}" for d in found["generalDiagnostics"]]
    assert not lines, "\n".join(lines)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.stem)
def test_a_program_runs(program, capsys):
    runpy.run_path(str(program), run_name="__main__")
    assert capsys.readouterr().out


def test_mistakes_in_calls_are_errors(tmp_path):
    (tmp_path / "mistakes.py").write_text(MISTAKES)
    (tmp_path / "pyrightconfig.json").write_text('{"typeCheckingMode": "standard"}')
    found = pyright("-p", str(tmp_path), cwd=tmp_path)["generalDiagnostics"]
    assert sorted({d["range"]["start"]["line"] + 1 for d in found if d["severity"] == "error"}) == MISTAKEN_LINES


def test_types_of_public_names_are_known(tmp_path):
    assert (Path(smolder.__file__).parent / "py.typed").exists()
    found = pyright("--verifytypes", "smolder", "--ignoreexternal", cwd=tmp_path)["typeCompleteness"]
    exported = [
        s
        for s in found["symbols"]
        if s["isExported"] and not s["name"].endswith(".__dir__") and not is_command(s["name"])
    ]
    known = [s for s in exported if s["isTypeKnown"] and not s["isTypeAmbiguous"]]
    print(f"the types of {len(known)} of {len(exported)} exported names are known")
    assert len(known) >= FLOOR * len(exported), sorted({s["name"] for s in exported} - {s["name"] for s in known})
