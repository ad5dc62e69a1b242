"""The names in torch's tree (names.json), and what of Smolder's each is.

A path here is one without the leading `torch.`: `nn.modules.linear`, `nn.Linear`; `` is torch itself.
"""

from __future__ import annotations

import functools
import importlib
import json
import pathlib
import sys
import types
from types import ModuleType
from typing import Any

from smolder._missing import REASONS
from smolder.torch import _refusals

_FILE = pathlib.Path(__file__).with_name("names.json")
_NO_NAME = object()


class Row:
    """The names of a module of torch's: `homes` is where each is known best, `kinds` what it is."""

    def __init__(self, path: str, row: Any) -> None:
        self.homes, self.kinds, self.defines = {}, {}, row.get("defines", "").split()
        self.constants = row.get("constants", {})
        for kind, names in row.items():
            if kind in ("defines", "constants"):
                continue
            for entry in names.split():
                name, renamed, home = entry.partition("=")
                self.homes[name] = home if renamed else joined(path, name)
                self.kinds[name] = kind

    def public(self) -> list[str]:
        """Names without an underscore."""
        return [name for name in self.homes if not name.startswith("_")]


def joined(path: str, name: str) -> str:
    """The path of a name in a module."""
    return f"{path}.{name}" if path else name


@functools.cache
def _table():
    return json.loads(_FILE.read_text())


def version() -> str:
    """The version of torch that the names are of."""
    return _table()["version"]


def modules() -> Any:
    """The paths of all modules."""
    return _table()["modules"].keys()


def members() -> dict[str, list[str]]:
    """The members of some classes, by the path of the class."""
    return {path: names.split() for path, names in _table()["members"].items()}


def is_op(name: str) -> bool:
    """Whether torch has an op of that name in the namespace aten."""
    return name in _ops()


@functools.cache
def _ops() -> frozenset[str]:
    return frozenset(members()["ops.aten"])


@functools.cache
def row(path: str) -> Row | None:
    """The row of a module; None where torch has none."""
    found = _table()["modules"].get(path)
    return None if found is None else Row(path, found)


def smolders(path: str) -> ModuleType | None:
    """Smolder's own module for a path, imported; or the one that there is for such programs only; or None."""
    for name in (f"smolder.{path}" if path else "smolder", f"smolder.torch.only.{path}"):
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as missing:
            if missing.name is None or not f"{name}.".startswith(f"{missing.name}."):
                raise
    return None


@functools.cache
def besides(path: str) -> ModuleType | None:
    """The module at a path that only such programs see, besides Smolder's own; or None."""
    try:
        return importlib.import_module(f"smolder.torch.only.{path}".removesuffix("."))
    except ModuleNotFoundError:
        return None


def own(module: ModuleType, name: str) -> Any:
    """Looks a name up in a module of Smolder's: in its dict, or as its own __getattr__ makes it."""
    if name in module.__dict__:
        return module.__dict__[name]
    make = module.__dict__.get("__getattr__")
    make = getattr(make, "_own", make)
    if make is None:
        return _NO_NAME
    try:
        return make(name)
    except AttributeError:
        return _NO_NAME


_refused: dict[tuple[str, str], Any] = {}  # found so once: programs ask in loops whether a tensor is of such a class


def find(path: str, name: str) -> Any:
    """Finds what stands here for a name in one of torch's modules; raises AttributeError where nothing does."""
    if (path, name) in _refused:
        return _refused[path, name]
    here = row(path)
    if joined(path, name) in modules() and (here is None or here.kinds.get(name, "package") == "package"):
        return importlib.import_module(f"torch.{joined(path, name)}")
    if here is None or name not in here.homes:
        beside = None if here is None else besides(path)
        if beside is None or name not in vars(beside):
            raise AttributeError(name)
        return vars(beside)[name]
    home = here.homes[name]
    if here.kinds[name] == "package":
        return importlib.import_module(f"torch.{home}" if home else "torch")
    for at in dict.fromkeys((home, joined(path, name))):
        of, _, short = at.rpartition(".")
        for module in (smolders(of), besides(of)) if of in modules() else ():
            found = _NO_NAME if module is None else own(module, short)
            if found is not _NO_NAME and type(found) is not types.ModuleType:
                return found
    for at in dict.fromkeys((home, joined(path, name))):
        found = _elsewhere(at, here.kinds[name])
        if found is not None:
            return found
    if name in here.constants:
        return here.constants[name]
    refused = _refusals.made(home, here.kinds[name], is_of_core(home))
    if refused is None:
        raise AttributeError(name)
    _refused[path, name] = refused
    return refused


def _elsewhere(home, kind):
    """A class or public function of that name in a module of the same package, which Smolder divides in its own way."""
    package, _, short = home.rpartition(".")
    if kind == "value" or (kind == "function" and short.startswith("_")) or not package:
        return None
    top, last = package.partition(".")[0], package.rpartition(".")[2]
    smolders(joined(top, last))  # where it is not loaded before it is asked for: nn.lazy
    prefix = f"smolder.{top}."
    for name, module in list(sys.modules.items()):
        found = vars(module).get(short) if name.startswith(prefix) else None
        if getattr(found, "__name__", None) == short and type(found) is not types.ModuleType:
            return found
    return None


def status(path: str) -> tuple[str, str]:
    """Whether Smolder has what torch calls so: ("here", ""), ("refused", why) or ("missing", why, if it is known)."""
    of, _, name = path.removeprefix("torch.").rpartition(".")
    try:
        value = find(of, name)
    except AttributeError:
        what, why, instead = REASONS.get(name, ("", "", ""))
        return "missing", f"{what} are not supported ({why}). Use {instead}" if what else ""
    why = _refusals.why(value)
    return ("refused", why) if why else ("here", "")


# Parts of the tree that docs/torch.md counts: whose names begin so, and are in no part above.
_PARTS = """nn.functional nn.utils nn optim autograd linalg fft special distributions utils.data utils._pytree utils amp cuda
backends func fx jit compiler overrides futures distributed onnx export sparse nested masked signal profiler ao quantization"""


def counts() -> dict[str, dict[str, int]]:
    """By part of torch's public tree, how many of its names are here, refused and missing. A name is counted where it is
    known best, and only those that their modules are for: no underscore, no value."""
    parts, out = _PARTS.split(), {}
    for path in modules():
        if any(part.startswith("_") for part in path.split(".")) and path != "utils._pytree":
            continue
        of = next((p for p in parts if f"{path}.".startswith(f"{p}.")), "other modules" if path else "torch")
        for name in row(path).public():
            home = joined(path, name)
            if row(path).homes[name] == home and row(path).kinds[name] not in ("value", "package"):
                total = out.setdefault(of, {"here": 0, "refused": 0, "missing": 0})
                total[status(home)[0]] += 1
    order = ["torch", *sorted(parts), "other modules"]
    return {of: out[of] for of in order if of in out}


def summary() -> str:
    """The same as the table of docs/torch.md."""
    rows = ["| part of torch | here | refused | missing |", "| --- | --- | --- | --- |"]
    found = counts()
    for of, n in found.items():
        name = of if of in ("torch", "other modules") else f"torch.{of}"
        rows.append(f"| `{name}` | {n['here']} | {n['refused']} | {n['missing']} |".replace("`other modules`", of))
    whole = [sum(n[key] for n in found.values()) for key in ("here", "refused", "missing")]
    return "\n".join([*rows, f"| all | {whole[0]} | {whole[1]} | {whole[2]} |"]) + "\n"


def is_of_core(home: str) -> bool:
    """Whether a name of torch itself is a class of its core in C++, which is there besides."""
    return "." not in home and row("_C").homes.get(home) == home and row("_C").kinds[home] in ("class", "error")


def star(path: str) -> list[str]:
    """The names that `from torch.PATH import *` imports from a module without `__all__`."""
    names = []
    for name in row(path).public() if row(path) else ():
        try:
            find(path, name)
        except (AttributeError, ImportError):
            continue
        names.append(name)
    return names


def is_loaded(path: str) -> bool:
    """Whether Smolder's module for a path was imported."""
    return (f"smolder.{path}" if path else "smolder") in sys.modules
