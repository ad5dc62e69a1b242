"""Containers and modules under every kind of change, as torch has them: order, names, state_dict, errors."""

import json
import subprocess
from pathlib import Path

import container_programs
import pytest
import torch_peer
from conftest import of_the_cpu

import smolder
from smolder import nn

PROGRAMS = dict(container_programs.programs())


@of_the_cpu("what is printed names the device")
@pytest.mark.parametrize("kind", container_programs.KINDS)
def test_every_step_of_every_program_is_as_torch_left_it(kind):
    golden = json.loads(container_programs.GOLDEN.read_text())
    assert golden.keys() == PROGRAMS.keys()
    wrong = []
    for name, statements in PROGRAMS.items():
        if name.split()[0] != kind:
            continue
        steps = zip(statements, container_programs.run(smolder, statements), golden[name].split(), strict=False)
        for i, (_, ours, theirs) in enumerate(steps):
            if container_programs.digest(ours) != theirs:
                wrong.append("\n".join([f"{name}:", *statements[: i + 1], f"left {ours}"]))
                break
    assert not wrong, f"{len(wrong)} programs:\n" + "\n\n".join(wrong[:5])


@torch_peer.needs_torch
@pytest.mark.parametrize("kind", container_programs.KINDS)
def test_every_step_of_every_program_is_as_in_torch(kind):
    program = [torch_peer.PYTHON, str(Path(container_programs.__file__)), "torch", f"{kind} "]
    there = subprocess.run(program, capture_output=True, text=True, timeout=300)
    assert there.returncode == 0, there.stderr
    for name, theirs in json.loads(there.stdout.splitlines()[-1]).items():
        ran = []
        for statement, ours, expected in zip(
            PROGRAMS[name], container_programs.run(smolder, PROGRAMS[name]), theirs, strict=False
        ):
            ran.append(statement)
            assert json.loads(ours) == json.loads(expected), "\n".join(ran)


def test_a_layer_that_is_replaced_keeps_its_place():
    net = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 4))
    net[0] = nn.Linear(2, 3)
    assert [type(m).__name__ for m in net] == ["Linear", "ReLU", "Linear"]
    assert net(smolder.ones(1, 2)).shape == (1, 4)
    assert list(net.state_dict()) == ["0.weight", "0.bias", "2.weight", "2.bias"]


def test_a_parameter_that_cannot_replace_another_leaves_it():
    linear = nn.Linear(2, 2)
    old = linear.weight
    with pytest.raises(TypeError, match="as parameter 'weight'"):
        linear.weight = smolder.ones(2, 2)
    assert linear.weight is old and linear._parameters["weight"] is old
