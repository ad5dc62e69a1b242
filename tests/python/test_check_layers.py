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
        ("src/jit/fuse/fuse.cpp", '#include "smolder/core/dims.h"'),
        ("src/jit/fuse/fuse.cpp", '#include "smolder/jit/plan.h"'),
        ("src/core/hash.cpp", "#include <xxhash.h>"),
        ("src/core/hash.h", "#include <vector>"),
        ("src/core/pool.h", "#include <sys/mman.h>"),
        ("src/jit/llvm/orc.h", "#include <llvm/IR/Module.h>"),
        ("tests/cpp/core/a_test.cpp", '#include "smolder/nn/module.h"'),
        ("tests/cpp/core/a_test.cpp", '#include "helpers.h"'),
        ("src/ir/graph.cpp", '// see #include "smolder/nn/module.h"'),
        ("src/jit/targets.cpp", '#include "smolder/jit/cuda/target.h"'),
        ("src/jit/cuda/native/sort.cpp", '#include "smolder/jit/cuda/native/radix.h"'),
        ("src/jit/cuda/native/sort.cpp", '#include "smolder/jit/library/library.h"'),
        ("src/jit/emit.cpp", '#include "smolder/jit/cache/kernel_cache.h"'),
        ("src/jit/cache/record.h", '#include "smolder/core/hash.h"'),
        ("src/jit/run/arena.cpp", '#include "smolder/core/cuda/memory.h"'),
        ("src/jit/lower/lower.cpp", '#include "smolder/jit/fuse/fuse.h"'),
        ("src/jit/lower/lower.cpp", '#include "smolder/jit/plan.h"'),
    ],
)
def test_allowed(check_layers, path, line):
    assert check_layers.check_file(path, f"{line}\n") == []


@pytest.mark.parametrize(
    ("path", "line", "words"),
    [
        ("src/ir/graph.cpp", '#include "smolder/jit/plan.h"', "jit is a layer above"),
        ("src/core/dims.h", '  #  include "smolder/ir/graph.h"', "ir is a layer above"),
        ("src/jit/run/executor.cpp", '#include "smolder/oops/plan.h"', "in no layer"),
        ("src/jit/run/executor.cpp", '#include "plan.h"', "include our headers as"),
        ("src/core/hash.h", "#include <xxhash.h>", "third-party"),
        ("src/jit/fuse/fuse.h", "#include <absl/strings/str_cat.h>", "third-party"),
        ("src/extra/a.cpp", "int a;", "src/extra is no layer"),
        ("src/jit/library/library.cpp", '#include "smolder/jit/cuda/library.h"', "src/jit/targets.cpp may include"),
        ("src/jit/cache/record.h", '#include "smolder/jit/cuda/target.h"', "jit/cache includes"),
        ("src/jit/cache/record.h", '#include "smolder/jit/plan.h"', "knows nothing of its layer"),
        ("src/jit/cuda/backend.cpp", '#include "smolder/jit/llvm/orc.h"', "no file outside of it may include"),
        ("src/core/fork.cpp", '#include "smolder/core/cuda/driver.h"', "src/core/on_devices.cpp"),
        ("src/jit/fuse/fuse.cpp", '#include "smolder/jit/lower/lower.h"', "jit/lower is a room after it"),
        ("src/eager/execute.cpp", '#include "smolder/eager/cuda/cudnn.h"', "no file outside of it may include"),
    ],
)
def test_breaches_are_told_with_their_line(check_layers, path, line, words):
    (breach,) = check_layers.check_file(path, f"\n{line}\n" if "#" in line else line)
    assert breach.startswith(f"{path}:")
    assert words in breach
    if "#" in line:
        assert breach.startswith(f"{path}:2:")


def files(*includes):
    """Texts of files of jit, of which each includes headers: ("a.h", "b.h") for src/jit/a.h, which includes b.h."""
    return {f"src/jit/{name}": "".join(f'#include "smolder/jit/{h}"\n' for h in headers) for name, *headers in includes}


def test_units_that_include_each_other_are_a_cycle(check_layers):
    texts = files(
        ("a.h",), ("a.cpp", "a.h", "b.h"), ("b.h", "c.h"), ("c.h",), ("c.cpp", "c.h", "a.h"), ("d.cpp", "a.h")
    )
    (breach,) = check_layers.check_cycles(texts)
    assert breach == "src/jit/a:1: include cycle: src/jit/a -> src/jit/b -> src/jit/c -> src/jit/a"


def test_each_cycle_is_told_once(check_layers):
    texts = files(("a.h", "b.h"), ("b.h", "a.h"), ("c.h", "d.h"), ("d.h", "c.h"), ("e.h", "a.h", "c.h"))
    assert [b.split(":")[0] for b in check_layers.check_cycles(texts)] == ["src/jit/a", "src/jit/c"]


def test_no_cycle_is_where_ways_only_meet(check_layers):
    texts = files(("a.h",), ("b.h", "a.h"), ("c.h", "a.h"), ("d.h", "b.h", "c.h"), ("a.cpp", "a.h"), ("d.cpp", "d.h"))
    assert check_layers.check_cycles(texts) == []


def test_known_cycles_only_get_fewer(check_layers, monkeypatch):
    monkeypatch.setattr(check_layers, "KNOWN_CYCLES", {"src/jit/a", "src/jit/b", "src/jit/c"})
    texts = files(("a.h", "b.h"), ("b.h", "a.h"), ("c.h",))
    (breach,) = check_layers.check_cycles(texts)
    assert breach == "src/jit/c:1: in no cycle any more: take it off KNOWN_CYCLES"
    texts = files(("a.h", "b.h"), ("b.h", "a.h", "d.h"), ("d.h", "b.h"), ("c.h", "a.h"), ("a.cpp", "c.h"))
    assert len(check_layers.check_cycles(texts)) == 1


def test_a_file_may_have_a_thousand_lines_but_no_more(check_layers):
    assert check_layers.check_file("tools/a.py", "x\n" * 1000) == []
    (breach,) = check_layers.check_file("tools/a.py", "x\n" * 1001)
    assert "1001 lines" in breach


def test_this_tree_keeps_the_rules(check_layers, capsys):
    assert check_layers.main() == 0, capsys.readouterr().out
