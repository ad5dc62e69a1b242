"""Mistakes that users make, each a snippet, and what Smolder or torch tells of it.

    python mistakes.py torch     writes torch's texts to the golden file beside the tests
    python mistakes.py smolder   writes Smolder's texts there

A snippet's mistake is on its last line, or on the one that ends in `# wrong`, as where the error comes later.
"""

import importlib
import json
import os
import re
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np

GOLDEN = Path(__file__).parents[1] / "golden/mistakes.json"
CASES = Path(__file__).with_suffix(".txt").read_text()


def cases():
    """Each case's name and its snippet."""
    for block in CASES.strip().removeprefix("## ").split("\n## "):
        name, _, snippet = block.partition("\n")
        yield name, snippet


def wrong_line(snippet):
    """The number of the line that a message is to name."""
    lines = snippet.splitlines()
    return next((i for i, line in enumerate(lines, 1) if line.endswith("# wrong")), len(lines))


def names(T, folder):
    """The names of a snippet."""
    import copy
    import fractions
    import pickle

    def hide(*packages):
        for package in packages:
            sys.modules[package] = None  # as if it were not installed

    seen = {
        "torch": T,
        "hide": hide,
        "load": lambda name: importlib.import_module(f"{T.__name__}.{name}"),
        "nn": T.nn,
        "F": T.nn.functional,
        "np": np,
        "ones": T.ones,
        "folder": folder,
    }
    seen |= {"copy": copy, "pickle": pickle, "fractions": fractions}
    seen |= {"x": T.ones(2, 3), "i": T.tensor([1, 0])}
    seen["p"], seen["q"] = (T.nn.Parameter(T.tensor(v)) for v in ([1.0, 2.0], [3.0, 4.0]))
    for module in ("utils.data", "utils.checkpoint", "distributions", "testing", "func", "amp"):
        importlib.import_module(f"{T.__name__}.{module}")
    return seen


def told(T, name, snippet, folder):
    """The first error or warning, as `Kind: text`; its class beside it."""
    code = compile(snippet + "\n", f"{name.replace(' ', '_')}.py", "exec")
    seen, modules = names(T, folder), dict(sys.modules)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            exec(code, seen)
        except Exception as error:
            return plain(str(error), folder), type(error)
        finally:
            sys.modules.update({n: m for n, m in modules.items() if sys.modules.get(n) is not m})
            for name in [n for n, m in sys.modules.items() if m is None and n not in modules]:
                del sys.modules[name]
    if caught:
        return plain(str(caught[0].message), folder), caught[0].category
    return "nothing", None


def plain(text, folder):
    """A text without what differs from run to run."""
    text = text.replace(folder, "FOLDER")
    text = text.replace("{'valid', 'same'}", "{'same', 'valid'}")  # a set, in the order of a run
    text = re.sub(r"0x[0-9a-f]+", "0x0", text)
    text = re.sub(r"/[^\"\s]*/site-packages/", "", text)
    return re.sub(r"\n(Exception raised from|C\+\+ CapturedTraceback).*", "", text, flags=re.S)


def texts(T):
    """{name: `Kind: text`}"""
    out = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, snippet in cases():
            text, kind = told(T, name, snippet, folder)
            out[name] = f"{kind.__name__}: {text}" if kind else text
    return out


def write(which, to):
    """Writes one library's texts beside the other's."""
    golden = json.loads(to.read_text()) if to.exists() else {}
    new = texts(importlib.import_module(which))
    both = {name: {**golden.get(name, {}), which: text} for name, text in new.items()}
    to.write_text(
        json.dumps({n: dict(sorted(t.items())) for n, t in both.items()}, indent=1, ensure_ascii=False) + "\n"
    )


if __name__ == "__main__":
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
    write(sys.argv[1], Path(sys.argv[2]) if len(sys.argv) > 2 else GOLDEN)
