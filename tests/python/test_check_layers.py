"""tools/check_layers finds what it says it finds."""

from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def check_layers():
    loader = SourceFileLoader("check_layers", str(ROOT / "tools" / "check_layers"))
    module = module_from_spec(spec_from_loader("check_layers", loader))
    loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("src/jit/fuse.cpp", '#include "smolder/core/dims.h"'),
        ("src/jit/fuse.cpp", '#include "smolder/jit/plan.h"'),
        ("src/core/hash.cpp", "#include <xxhash.h>"),
        ("src/core/hash.h", "#include <vector>"),
        ("src/core/pool.h", "#include <sys/mman.h>"),
        ("src/jit/llvm/orc.h", "#include <llvm/IR/Module.h>"),
        ("tests/cpp/core/a_test.cpp", '#include "smolder/nn/module.h"'),
        ("tests/cpp/core/a_test.cpp", '#include "helpers.h"'),
        ("src/ir/graph.cpp", '// see #include "smolder/nn/module.h"'),
    ],
)
def test_allowed(check_layers, path, line):
    assert check_layers.check_file(path, f"{line}\n") == []


@pytest.mark.parametrize(
    ("path", "line", "words"),
    [
        ("src/ir/graph.cpp", '#include "smolder/jit/plan.h"', "jit is a layer above"),
        ("src/core/dims.h", '  #  include "smolder/ir/graph.h"', "ir is a layer above"),
        ("src/jit/plan.cpp", '#include "smolder/oops/plan.h"', "in no layer"),
        ("src/jit/plan.cpp", '#include "plan.h"', "include our headers as"),
        ("src/core/hash.h", "#include <xxhash.h>", "third-party"),
        ("src/jit/fuse.h", "#include <absl/strings/str_cat.h>", "third-party"),
        ("src/extra/a.cpp", "int a;", "src/extra is no layer"),
    ],
)
def test_breaches_are_told_with_their_line(check_layers, path, line, words):
    (breach,) = check_layers.check_file(path, f"\n{line}\n" if "#" in line else line)
    assert breach.startswith(f"{path}:")
    assert words in breach
    if "#" in line:
        assert breach.startswith(f"{path}:2:")


def test_a_file_may_have_a_thousand_lines_but_no_more(check_layers):
    assert check_layers.check_file("tools/a.py", "x\n" * 1000) == []
    (breach,) = check_layers.check_file("tools/a.py", "x\n" * 1001)
    assert "1001 lines" in breach


def test_this_tree_keeps_the_rules(check_layers, capsys):
    assert check_layers.main() == 0, capsys.readouterr().out
