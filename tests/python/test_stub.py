"""_core.pyi names what there is, with the parameters that it has, and type checkers take it."""

import ast
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from op_rows import ROOT

import smolder

PACKAGE = Path(smolder.__file__).parent
STUB = ast.parse((PACKAGE / "_core.pyi").read_text())
CLASSES = {node.name: node for node in STUB.body if isinstance(node, ast.ClassDef)}


def names_of(body):
    out = {node.name for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    return out | {node.target.id for node in body if isinstance(node, ast.AnnAssign)}


def public(names):
    return {n for n in names if not n.startswith("_")}


def test_the_stub_names_what_there_is():
    assert public(names_of(STUB.body)) == public(dir(smolder._core))
    inherited = {n for n in dir(object) if getattr(object, n, None) is getattr(smolder.Tensor, n)}
    private = {"__dict__", "__module__", "__deepcopy__", "__doc__", "__new__", "__init__", "__format__", "__repr__"}
    private |= {
        "__class__", "__init_subclass__", "__subclasshook__", "__reduce_ex__", "_become", "_blank", "_contents", "_detach_",
        "_device", "_device_address", "_on_cpu", "_register_leaf_hook", "_dlpack", "_is_made", "_is_pinned", "_is_same",
        "_in_order", "_lasting_address", "_lay_out_as", "_numpy", "_owner", "_pin_memory", "_repr_html_", "_set_data", "_storage", "_strides",
        "_to_device", "_to_numpy", "_version", "__weakref__",
    }  # fmt: skip
    stubbed = names_of(CLASSES["Tensor"].body) - private
    assert stubbed == set(dir(smolder.Tensor)) - inherited - private


def test_the_package_stub_names_what_there_is():
    text = (PACKAGE / "__init__.pyi").read_text()
    stubbed = {alias.asname for node in ast.parse(text).body for alias in node.names}
    stubbed = {n for n in stubbed if not n.endswith("_backward")}  # which are there, and are not listed
    commands = {n for n in dir(smolder) if n not in smolder.__all__} - stubbed  # imported by a test before
    assert public(stubbed) == set(dir(smolder)) - commands
    assert all(inspect.ismodule(getattr(smolder, n)) for n in commands)


def parameters(node):
    a = node.args
    star = [f"*{a.vararg.arg}"] if a.vararg else []
    named = [p.arg for p in a.kwonlyargs if p.arg != "out"]  # which functions take that were bound without: see _out.py
    return [*(p.arg for p in a.args), *star, *named]


def bound_parameters(function):
    """The parameters of each overload of a function of the module, as it was bound."""
    for text, *_ in function.__nb_signature__:
        if "ndarray[" in text:  # nanobind's own notation
            return
        text = re.sub(r"\\\d+", "None", text)
        node = ast.parse(text + ": ...").body[0]
        if not node.args.posonlyargs:  # names were bound
            yield parameters(node)


def stubbed(body):
    out = {}
    for node in body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("__"):
            out.setdefault(node.name, []).append(node)
    return out


@pytest.mark.parametrize("owner", ["", "Tensor"])
def test_the_stub_has_the_parameters_that_there_are(owner):
    functions = stubbed(CLASSES[owner].body if owner else STUB.body)
    compared = 0
    for name, nodes in functions.items():
        it = inspect.getattr_static(smolder.Tensor if owner else smolder._core, name)
        said = [parameters(node) for node in nodes]
        if inspect.isfunction(it):
            if name.endswith("_") and name not in ("requires_grad_", "detach_"):
                continue  # wrapped: returns the very object
            there = [[("*" * (p.kind == p.VAR_POSITIONAL)) + p.name for p in inspect.signature(it).parameters.values()]]
            said = said[:1]
        elif hasattr(it, "__nb_signature__"):
            there = list(bound_parameters(it))
        else:
            continue
        if there:
            assert sorted(said) == sorted(there), name
            compared += 1
    assert compared > 100


def test_every_function_says_what_it_does():
    undocumented = [
        n for n in public(vars(smolder)) if callable(getattr(smolder, n)) and not getattr(smolder, n).__doc__
    ]
    assert undocumented == []


SAMPLE = """
import smolder
from smolder import nn

x = smolder.randn(3, 4, requires_grad=True)
reveal_type(x)
reveal_type(smolder.softmax(x, 1))
reveal_type(x.softmax(dim=-1, dtype=smolder.float64))
reveal_type(x @ x.T + 2 * x.sum())
reveal_type(smolder.max(x, 1))
reveal_type(x.max())
reveal_type(x.view(2, 6).shape)
reveal_type(x.split(2))
reveal_type(x.size(0))
reveal_type(x.add_(1))
reveal_type(x == 1)
reveal_type(nn.functional.gelu(x, approximate="tanh"))
smolder.softmax(x)
x.softmaxx(1)
smolder.gelu(x, approximate="tan")
"""
REVEALED = [
    "Tensor",
    "Tensor",
    "Tensor",
    "Tensor",
    "tuple[Tensor, Tensor, fallback=_return_max]",
    "Tensor",
    "Size",
    "tuple[Tensor, ...]",
]
REVEALED += ["int", "Tensor", "Tensor", "Tensor"]
ERRORS = ["call-overload", "attr-defined", "arg-type"]


def mypy(*arguments, cwd):
    """Lines that mypy says. The package counts as installed: only what is asked for is checked."""
    installed = PACKAGE.parent.name == "site-packages"
    env = os.environ | ({} if installed else {"MYPYPATH": str(PACKAGE.parent)})
    command = [sys.executable, "-m", "mypy", "--follow-imports=silent", "--cache-dir", str(cwd / "cache"), *arguments]
    run = subprocess.run(command, capture_output=True, text=True, env=env, cwd=cwd)
    assert not run.stderr, run.stderr
    return run.stdout.splitlines()


def test_mypy_knows_what_calls_return_and_takes_the_example(tmp_path):
    (tmp_path / "sample.py").write_text(SAMPLE)
    example = str(ROOT / "examples/digits.py")
    lines = mypy("--no-implicit-reexport", "--disable-error-code=import-untyped", "sample.py", example, cwd=tmp_path)
    revealed = [re.sub(r"(\w+\.)+", "", line.split('"')[1]) for line in lines if "Revealed type" in line]
    assert revealed == REVEALED, "\\n".join(lines)
    assert [line.split("[")[-1].rstrip("]") for line in lines if "error:" in line] == ERRORS, "\\n".join(lines)


def test_mypy_takes_the_stub(tmp_path):
    assert mypy("--strict", "-p", "smolder._core", cwd=tmp_path)[-1].startswith("Success")
