#!/usr/bin/env python3
"""The ladder: public libraries on Smolder under torch's name, unmodified, beside PyTorch.

    tests/ladder/run.py --env FOLDER [--torch PYTHON [--built FOLDER]] [--write] [PROGRAM ...]

The first run makes a virtual environment in FOLDER from packages.txt, which needs the network and has no torch. `--torch`
names an interpreter that has PyTorch and nothing of the libraries' own; programs run there with the same packages, but for
those in the folder of `--built`: a torchvision whose ops are compiled for that PyTorch, where PyPI's are not. `--write`
puts the table into README.md. It is no part of the tests that `make test` runs.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
FILES = [
    "transformers_models.py",
    "libraries.py",
    "libraries_of_vision.py",
    "libraries_of_words.py",
    "libraries_of_fields.py",
    "libraries_of_steps.py",
    "libraries_of_repositories.py",
    "libraries_of_strangers.py",
    "libraries_of_papers.py",
    "scripts_of_text.py",
    "scripts_of_pictures.py",
    "scripts_of_fields.py",
    "styles_of_training.py",
    "styles_of_models.py",
    "styles_of_fields.py",
    "styles_of_signals.py",
]
REMARKS = {
    "transformers gpt2 saved": "saved and loaded again",
    "torchvision mobilenet_v3_small": "its dropout draws other numbers",
    "stable_baselines3": "counts alone are compared",
    "pyro": "its first guess is drawn from other numbers",
    "timm vgg11": "1e-13 in float64: in float32 a ReLU of nearly 0 lets through here what it does not there",
    "timm efficientformer_l1": (
        "of two images below 1e-6; of one PyTorch's gradient of a batch norm that trains no statistics is not that of finite "
        "differences, ours is"
    ),
    "timm visformer_tiny": "8e-13 in float64",
    "likeness of images": (
        "SR-SIM takes the logarithm of Fourier coefficients that are nearly 0; the others agree to 1e-13 in float64"
    ),
    "distances of measures": "a sum of gradients that is about 0",
    "evolution strategies": "whether it converges is compared",
    "maps of attention": "each map is stretched from its least to its largest number, which float32 makes much of",
    "discrete_key_value_bottleneck_pytorch DiscreteKeyValueBottleneck": "its keys are drawn from other numbers",
    "mixture_of_attention MixtureOfAttention": "of equal scores others come first",
    "steps of many optimizers": "directions are made orthogonal in bfloat16",
}
BEGIN, END = "<!-- table -->\n", "<!-- end of the table -->\n"


def environment(folder):
    """The environment of the libraries: an interpreter in it, and where its packages are."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    python, packages = folder / "bin" / "python", folder / "lib" / version / "site-packages"
    if not python.exists():
        venv.create(folder, with_pip=True)
        groups = (HERE / "packages.txt").read_text().split("\n\n")
        for group, options in zip(groups, ([], ["--no-deps"]), strict=True):
            names = [line for line in group.splitlines() if line and not line.startswith("#")]
            subprocess.run([python, "-m", "pip", "install", "-q", *options, *names], check=True)
        shutil.rmtree(packages / "torchaudio/lib", ignore_errors=True)  # built for PyTorch, and torchaudio does without
    return python, packages


def said(command, env, programs):
    """The lines that programs print for the ladder, by name."""
    found = {}
    for file in FILES:
        env = {**os.environ, "HF_HUB_OFFLINE": "1", **env}
        run = subprocess.run([*command, str(HERE / "programs" / file)], env=env, capture_output=True, text=True)
        for line in run.stdout.splitlines():
            if line.startswith("LADDER "):
                told = json.loads(line.removeprefix("LADDER "))
                found[told["program"]] = told
    return {name: told for name, told in found.items() if not programs or name in programs}


def row(name, here, there):
    """A row of the table."""
    if "error" in here:
        why = re.sub(r" \(/[^)]*\)", "", here["error"].splitlines()[0])  # where a module is says nothing elsewhere
        return f"| {name} | no | | {why[:160].replace('|', '/')} |"
    if there is None or "error" in there:
        return (
            f"| {name} | yes | | PyTorch was not run |"
            if there is None
            else f"| {name} | yes | | PyTorch: {there['error'][:80]} |"
        )
    least = max(map(abs, there["losses"]), default=0) / 100 or 1e-9  # sums of what is about 0 say little
    pairs = zip(here["losses"], there["losses"], strict=True)
    apart = max((abs(a - b) / max(abs(b), least) for a, b in pairs), default=0)
    made = (
        REMARKS.get(name, "")
        if here["made"] is None
        else "the same tokens"
        if here["made"] == there["made"]
        else "other tokens"
    )
    return f"| {name} | yes | {apart:.0e} | {made} |"


def main():
    """Runs the ladder and prints its table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--env", type=Path, required=True)
    parser.add_argument("--torch", type=Path)
    parser.add_argument("--built", type=Path)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("programs", nargs="*")
    given = parser.parse_args()
    python, packages = environment(given.env)
    smolder = str(ROOT / "build/release/python")
    here = said([python, "-W", "ignore", "-m", "smolder.torch"], {"PYTHONPATH": smolder}, given.programs)
    folders = ":".join(str(folder) for folder in (given.built, packages) if folder)
    there = said([given.torch, "-W", "ignore"], {"PYTHONPATH": folders}, given.programs) if given.torch else {}
    rows = [row(name, told, there.get(name)) for name, told in here.items()]
    lines = ["| program | runs unchanged | losses apart by | remarks |", "| --- | --- | --- | --- |", *rows]
    ran = sum("error" not in told for told in here.values())
    table = "\n".join([*lines, "", f"{ran} of {len(here)} run unchanged.", ""])
    print(table, end="")
    if given.write:
        page = HERE / "README.md"
        before, _, rest = page.read_text().partition(BEGIN)
        page.write_text(before + BEGIN + table + END + rest.partition(END)[2])


if __name__ == "__main__":
    main()
