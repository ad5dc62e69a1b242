"""The example: a model captured in Python runs in a C++ program that links no Python, with the same bits."""

import os
import pathlib
import subprocess
import sys

import pytest
from conftest import assert_same_bits

import smolder
from smolder import safetensors

EXAMPLE = pathlib.Path(__file__).parents[2] / "examples" / "deploy" / "export.py"
PROGRAM = pathlib.Path(smolder.__file__).parents[2] / "bin" / "deploy"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    if not PROGRAM.exists():
        pytest.skip("the C++ example is not built")
    folder = tmp_path_factory.mktemp("deploy")
    package = str(pathlib.Path(smolder.__file__).parents[1])
    env = os.environ | {"SMOLDER_CACHE_DIR": str(folder / "cache"), "PYTHONPATH": package}

    def call(*command):
        return subprocess.run(list(map(str, command)), env=env, cwd=folder, capture_output=True, text=True, timeout=300)

    out = call(sys.executable, EXAMPLE, "model.safetensors")
    assert out.returncode == 0, out.stderr
    call.folder = folder
    return call


def test_the_program_links_no_python(run):
    linked = run("ldd", PROGRAM).stdout
    assert "libsmolder" in linked and "python" not in linked.lower()


def test_the_bits_are_those_of_python(run):
    model = smolder.load_graph(run.folder / "model.safetensors")
    for text in "t", "the plan is", "graph " * 10:
        out = run(PROGRAM, "model.safetensors", text, 0, "logits.safetensors")
        assert out.returncode == 0, out.stderr
        found = safetensors.load_file(run.folder / "logits.safetensors")["logits"]
        expected = model(smolder.tensor([list(text.encode())]))
        assert_same_bits(found._to_numpy(), expected.detach()._to_numpy(), text)


def test_it_continues_the_text(run):
    out = run(PROGRAM, "model.safetensors", "the plan is ", 44)
    assert out.stdout == "the plan is compiled, and the graph is run: the tape is \n"


def test_a_file_that_is_none_is_an_error(run):
    (run.folder / "bad").write_bytes(b"no model")
    out = run(PROGRAM, "bad", "t")
    assert out.returncode == 1 and out.stderr.startswith("deploy: bad: ")
