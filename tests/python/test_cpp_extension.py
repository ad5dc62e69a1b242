"""Ops in C++ that are compiled and loaded, and the programs of docs/cpp.md."""

import os
import re
import shutil
import stat
import subprocess
from pathlib import Path

import pytest
from conftest import of_the_cpu

import smolder
from smolder import library
from smolder.utils import cpp_extension

ROOT = Path(__file__).resolve().parents[2]
FAST = ["-O0"]

pytestmark = of_the_cpu("what is compiled is the same on a device")


@pytest.fixture(autouse=True)
def compiler():
    if not shutil.which(os.environ.get("CXX", "c++").split()[0]):
        pytest.skip("there is no C++ compiler")


OP = """
#include "factor.h"

SMOLDER_LIBRARY(NAMESPACE, m) {
  m.def({.schema = "scaled(Tensor x) -> Tensor",
         .kernel = [](const smolder::eager::KernelCall& call) {
           const auto* x = static_cast<const float*>(call.inputs[0].data);
           auto* y = static_cast<float*>(call.outputs[0].data);
           for (int64_t i = 0; i < call.inputs[0].shape[0]; ++i) y[i] = kFactor * x[i * call.inputs[0].strides[0]];
         }});
}
"""


def test_a_source_is_compiled_loaded_and_called(tmp_path):
    (tmp_path / "factor.h").write_text("constexpr float kFactor = 3;\n")
    source = tmp_path / "op.cpp"
    source.write_text("#include <smolder/smolder.h>\n" + OP.replace("NAMESPACE", "extension_a"))
    folder = tmp_path / "build"
    path = cpp_extension.load("scaled", [source], extra_cflags=FAST, build_directory=folder)
    assert path in smolder.ops.loaded_libraries
    x = smolder.tensor([1.0, -2.0])
    assert smolder.ops.extension_a.scaled(x).tolist() == [3.0, -6.0]
    assert (smolder.ops.extension_a.scaled(x) + 1).tolist() == [4.0, -5.0]
    assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700

    before = os.stat(path).st_mtime_ns
    assert cpp_extension.load("scaled", str(source), extra_cflags=FAST, build_directory=folder) == path
    assert os.stat(path).st_mtime_ns == before  # nothing changed: it was not compiled again

    # A header of the source changed, so it is compiled again, and defines an op that there is: an error, not the end.
    (tmp_path / "factor.h").write_text("constexpr float kFactor = 5;\n")
    with pytest.raises(RuntimeError, match=r"Could not load this library: .*scaled.*extension_a::scaled"):
        cpp_extension.load("scaled", [source], extra_cflags=FAST, build_directory=folder)
    assert smolder.ops.extension_a.scaled(x).tolist() == [3.0, -6.0]


def test_text_that_does_not_compile_is_shown_with_its_line(tmp_path):
    with pytest.raises(RuntimeError, match=r"Error building extension 'broken': (?s:.*)error: .*nothing_of_that_name"):
        cpp_extension.load_inline("broken", "int x = nothing_of_that_name;", FAST, build_directory=tmp_path / "build")


def test_a_folder_that_others_may_write_is_refused(tmp_path):
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(RuntimeError, match="can be written by others"):
        cpp_extension.load_inline("any", "", build_directory=tmp_path / "open")


def test_mistakes_are_named(tmp_path, monkeypatch):
    with pytest.raises(NotImplementedError, match="is_python_module=True is not supported"):
        cpp_extension.load("any", [], is_python_module=True)
    with pytest.raises(ValueError, match="name must be an identifier"):
        cpp_extension.load("../any", [])
    with pytest.raises(FileNotFoundError, match=r"there is no source 'absent\.cpp'"):
        cpp_extension.load("any", "absent.cpp", build_directory=tmp_path / "a")
    monkeypatch.setenv("CXX", "no-such-compiler -x")
    with pytest.raises(RuntimeError, match="the compiler 'no-such-compiler' was not found"):
        cpp_extension.load("any", "absent.cpp", build_directory=tmp_path / "b")


def test_libraries_that_are_none(tmp_path):
    with pytest.raises(OSError, match=r"Could not load this library: .*absent\.so"):
        library.load_library(tmp_path / "absent.so")
    (tmp_path / "text.so").write_text("no library")
    with pytest.raises(
        RuntimeError, match=r"Could not load this library: .*text\.so: .*file too short|invalid ELF header"
    ):
        smolder.ops.load_library(str(tmp_path / "text.so"))


def programs():
    """The C++ programs of the page, and what each prints."""
    page = (ROOT / "docs" / "cpp.md").read_text()
    blocks = re.findall(r"^```cpp\n(.*?)^```\n(?:```\n(.*?)^```\n)?", page, re.MULTILINE | re.DOTALL)
    return [(code, shown) for code, shown in blocks if "int main" in code]


@pytest.mark.parametrize("number", range(len(programs())))
def test_the_programs_of_the_page_run_as_pasted(number, tmp_path):
    code, shown = programs()[number]
    (tmp_path / "program.cpp").write_text(code)
    built = cpp_extension.load(
        "program", tmp_path / "program.cpp", FAST, build_directory=tmp_path / "build", is_standalone=True
    )
    done = subprocess.run([built], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout == shown


def test_the_op_of_the_page_runs_as_pasted(tmp_path, monkeypatch):
    page = (ROOT / "docs" / "cpp.md").read_text()
    (source,) = re.findall(r"^```cpp\n((?:(?!^```).)*SMOLDER_LIBRARY.*?)^```\n", page, re.MULTILINE | re.DOTALL)
    (calls,) = re.findall(r"^```python\n(.*?)^```\n", page, re.MULTILINE | re.DOTALL)
    (tmp_path / "squared_relu.cpp").write_text(source)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SMOLDER_EXTENSIONS_DIR", str(tmp_path / "extensions"))
    names = {}
    exec(calls, names)
    y = smolder.ops.mine.squared_relu(smolder.tensor([-1.0, 3.0]))
    assert y.tolist() == [0.0, 9.0] and names["y"].shape == (4,)
