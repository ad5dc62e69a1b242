"""The version, the licence and the name of the distribution are said in one way everywhere."""

import pathlib
import re
import subprocess
import sys
import tomllib

import smolder

ROOT = pathlib.Path(__file__).parents[2]
VERSION = re.search(r"project\(smolder VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text())[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_the_version_is_that_of_the_build():
    assert smolder.__version__ == smolder.version.__version__ == VERSION
    assert f"\nversion: {VERSION}\n" in (ROOT / "CITATION.cff").read_text()
    assert "version" in PROJECT["dynamic"]


def test_the_version_looks_for_the_distribution_by_its_name():
    source = (ROOT / "bindings/python/smolder/_version.py").read_text()
    assert f'_DISTRIBUTION = "{PROJECT["name"]}"' in source and VERSION not in source


def test_the_licence_is_named_as_spdx_names_it():
    assert PROJECT["license"] == "Apache-2.0" and "LICENSE" in PROJECT["license-files"]
    assert "\nlicense: Apache-2.0\n" in (ROOT / "CITATION.cff").read_text()
    text = (ROOT / "LICENSE").read_text()
    assert "Apache License" in text and "END OF TERMS AND CONDITIONS" in text


def test_no_text_tells_to_install_the_other_package():
    """`smolder` on PyPI is an unrelated package."""
    wrong = re.compile(r"pip install\s+(-\S+\s+)*['\"]?smolder(?![-\w])|smolder\[(onnx|cuda)")
    endings = {".py", ".pyi", ".md", ".toml", ".cpp", ".h", ".cmake", ".txt", ".in"}
    found = []
    for folder in ("bindings", "src", "docs", "tools", "cmake", "examples", "benchmarks", ".github", "."):
        files = (ROOT / folder).glob("*") if folder == "." else (ROOT / folder).rglob("*")
        for file in files:
            if file.is_file() and (file.suffix in endings or not file.suffix):
                found += [f"{file}: {m[0]}" for m in wrong.finditer(file.read_text(errors="replace"))]
    assert not found, "\n".join(found)
    assert wrong.search("pip install 'smolder[onnx]'") and not wrong.search("pip install smolder-tensor")


def test_the_command_is_there_as_a_module():
    run = subprocess.run([sys.executable, "-m", "smolder", "--version"], capture_output=True, text=True, timeout=120)
    assert (run.returncode, run.stdout) == (0, f"smolder {VERSION}\n"), run.stderr


TOUR = re.findall(r"^\| `(\S+)` `([^`]+)` \|", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE)


def test_the_tour_leads_to_places_that_exist():
    assert len(TOUR) > 15
    for file, name in TOUR:
        assert name.split("::")[-1] in (ROOT / file).read_text(), f"CONTRIBUTING.md: {file} has no {name}"


def test_pages_name_files_that_exist():
    """Paths in the pages for contributors, under the root or src."""
    pages = [ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs/architecture").glob("*.md"))]
    missing = []
    for page in pages:
        for path in re.findall(r"`((?:[\w.]+/)+[\w.]+\.(?:cpp|h|def|toml|py|cu|cuh))`", page.read_text()):
            if not any(
                (ROOT / folder / path).exists() for folder in ("", "src", "src/jit", "src/lazy", "bindings/python")
            ):
                missing.append(f"{page.name}: {path}")
    assert not missing
