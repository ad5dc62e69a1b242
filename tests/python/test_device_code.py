"""tools/embed_device_code makes strings of the device's code, and tells what it cannot read."""

import re
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CODE = sorted((ROOT / "src" / "jit" / "cuda" / "device").glob("*.cuh"))


@pytest.fixture(scope="module")
def embed():
    loader = SourceFileLoader("embed_device_code", str(ROOT / "tools" / "embed_device_code"))
    module = module_from_spec(spec_from_loader("embed_device_code", loader))
    loader.exec_module(module)
    return module


def test_sections_are_what_follows_their_marks(embed):
    text = (
        "//! For readers.\n\n//@ kTypes begins a program\ntypedef int i32;\n//! More.\n//@ kAdd\n// Adds.\nint a;\n\n"
    )
    assert embed.sections("a.cuh", text) == [("kTypes", "typedef int i32;\n"), ("kAdd", "\n// Adds.\nint a;\n\n")]


def test_headers_hold_the_texts_as_they_are(embed):
    made = embed.header("a.cuh", '//@ kAsm\nasm("mov \\"%0\\";" :: "r"(x));\n')
    assert 'inline constexpr const char* kAsm = R"cuda(\nasm("mov \\"%0\\";" :: "r"(x));\n)cuda";\n' in made


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("int a;\n//@ kA\n", "a.cuh:1: text before"),
        ("//@ kA\n//@ b\n", "a.cuh:2: expected"),
        ("//@ kA\n//@ kA\n", "a.cuh:2: kA is there twice"),
        ('//@ kA\n\n)cuda"\n', "a.cuh:3: "),
        ("//! Nothing.\n", "a.cuh:1: no "),
    ],
)
def test_what_is_no_device_code_is_told_with_its_line(embed, text, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        embed.sections("a.cuh", text)


def test_a_header_is_written_where_it_changes(embed, tmp_path, monkeypatch):
    code, out = tmp_path / "sum.cuh", tmp_path / "out"
    code.write_text("//@ kSum\nint sum;\n")
    monkeypatch.setattr("sys.argv", ["embed_device_code", str(out), str(code)])
    assert embed.main() == 0
    made = out / "sum.h"
    before = made.stat().st_mtime_ns
    assert embed.main() == 0
    assert made.stat().st_mtime_ns == before
    code.write_text("//@ kSum\nint total;\n")
    assert embed.main() == 0
    assert "int total;" in made.read_text()
    code.write_text("int total;\n")
    assert embed.main() == 1


def test_each_text_of_this_tree_has_one_name_and_is_used(embed):
    sources = (ROOT / "src" / "jit" / "cuda").rglob("*.cpp")
    used = set(re.findall(r"\bk[A-Z]\w*", "".join(p.read_text() for p in sources)))
    names = [name for p in CODE for name, _ in embed.sections(p.name, p.read_text())]
    assert names
    assert len(set(names)) == len(names)
    assert set(names) <= used
