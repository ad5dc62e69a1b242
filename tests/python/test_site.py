"""The documentation is complete: every page is on the site, every variable that is read has its row."""

import importlib
import inspect
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import smolder

ROOT = Path(__file__).resolve().parents[2]
# Set by a process for its children.
INTERNAL = {"SMOLDER_RECORD_FIRST"}
READ = re.compile(r"""(?:getenv|environment|environ(?:\.get|\.setdefault)?)\s*[(\[]\s*["']_?(SMOLDER_[A-Z0-9_]+)["']""")


def variables_read():
    found = set()
    for folder in ("src", "bindings"):
        for file in (ROOT / folder).rglob("*"):
            if file.suffix in (".cpp", ".h", ".py"):
                found |= set(READ.findall(file.read_text()))
    return found - INTERNAL


def test_every_variable_that_is_read_is_on_the_page_and_no_other():
    rows = re.findall(r"^\| `(SMOLDER_[A-Z0-9_]+)` \|", (ROOT / "docs/environment.md").read_text(), re.MULTILINE)
    assert len(rows) == len(set(rows))
    assert variables_read() - set(rows) == set(), "variables without a row in docs/environment.md"
    assert set(rows) - variables_read() == set(), "rows of variables that nothing reads"


def test_every_level_of_debug_is_on_the_page():
    page = (ROOT / "docs/environment.md").read_text()
    levels = page[page.index("## The levels of SMOLDER_DEBUG") :]
    assert re.findall(r"^\| (\d) \|", levels, re.MULTILINE) == [str(n) for n in range(8)]


def test_every_page_is_in_the_navigation():
    named = set(re.findall(r"^ +- (?:[^:\n]+: )?([\w/]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE))
    pages = {p.relative_to(ROOT / "docs").as_posix() for p in (ROOT / "docs").rglob("*.md")}
    assert named - {"index.md"} == pages


REFERENCE = re.compile(r"^## (\S+) \{ #", re.MULTILINE)


@pytest.fixture(scope="module")
def reference():
    """Markdown of the API reference, by module."""
    sys.path.insert(0, str(ROOT / "tools/site"))
    import api

    return {title: text for _, title, text in api.pages()}


@pytest.mark.parametrize(
    "name", ["smolder", "smolder.nn", "smolder.nn.functional", "smolder.optim", "smolder.func", "smolder.cuda"]
)
def test_the_reference_has_what_a_module_offers(reference, name):
    module = importlib.import_module(name)
    offered = {n for n in dir(module) if not inspect.ismodule(getattr(module, n))}
    pages = [
        p for title, p in reference.items() if title == name or (name == "smolder" and title.startswith("smolder: "))
    ]
    told = {n for page in pages for n in REFERENCE.findall(page)}
    assert told - offered == set(), "names that the module does not have"
    assert {n for n in offered - told if inspect.isclass(getattr(module, n)) or callable(getattr(module, n))} == (
        {"Tensor", *smolder._LATER_NAMES} if name == "smolder" else set()  # which have pages of theirs
    )


@pytest.mark.parametrize(("name", "module"), smolder._LATER_NAMES.items())
def test_names_of_modules_that_come_later_are_on_their_pages(reference, name, module):
    assert name in REFERENCE.findall(reference[f"smolder.{module}"])


def test_the_reference_has_the_methods_of_tensors(reference):
    told = set(REFERENCE.findall(reference["smolder.Tensor"]))
    public = {n for n in dir(smolder.Tensor) if not n.startswith("_") and not n.endswith("_")}
    assert told - set(dir(smolder.Tensor)) == set()
    assert public - told == set()


def test_ops_of_the_reference_have_their_examples(reference):
    examples = json.loads((ROOT / "src/ir/op_examples.json").read_text())
    first = examples["softmax"].split("\n")[-2]
    assert first in reference["smolder: reduce"]


@pytest.mark.skipif(not (ROOT / "build/site_env/bin/mkdocs").exists(), reason="`make site` has not been run here")
def test_the_site_is_built_and_needs_nothing_from_elsewhere(tmp_path):
    mkdocs = ROOT / "build/site_env/bin/mkdocs"
    done = subprocess.run([mkdocs, "build", "--strict", "-d", tmp_path], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    loads = re.compile(r"<(?:script|link|img)[^>]+(?:src|href)=[\"']?(https?:)?//[^>]*>")
    found = [
        m[0] for p in tmp_path.rglob("*.html") for m in loads.finditer(p.read_text()) if 'rel="canonical"' not in m[0]
    ]
    assert not found, found[:5]
    shutil.rmtree(tmp_path)
