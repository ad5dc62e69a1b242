"""The forms in which functions and methods may be called, by torch's schemas or by our signatures.

    python signatures.py torch   writes the golden file beside the tests, from torch

A form is the names of arguments that may be given by position, in order, of those by name alone, and of those that a
call must give. Functions that Python alone defines have one form, with their defaults.
"""

import importlib
import inspect
import json
import re
import sys
from pathlib import Path

GOLDEN = Path(__file__).parents[1] / "golden/signatures.json"
MODULES = {"": "", "linalg.": "linalg_", "special.": "special_", "nn.functional.": ""}
PYTHON = ("nn", "nn.functional", "nn.init", "nn.utils", "nn.utils.rnn", "optim", "optim.lr_scheduler", "utils.data")
PYTHON += ("autograd", "distributions", "func")
# Arguments about how elements lie, or where, and names of dimensions, which tensors do not have here.
SKIPPED = {"layout", "pin_memory", "names", "device", "non_blocking"}


def shown(schema):
    """Whether Python has a form: not one of TorchScript's numbers and lists, of complex numbers, or of named dimensions."""
    arguments = schema.arguments
    kinds = [str(a.type) for a in arguments]
    if not arguments or any(a.is_out for a in arguments) or any("complex" in k or "Dimname" in k for k in kinds):
        return False
    overload = schema.overload_name
    if (
        overload.lower().startswith("dimname")
        or overload.endswith(("names", "dtype_out"))
        or "out_dtype" in str(schema)
    ):
        return False
    first, kind = arguments[0].name, kinds[0]
    return kind in ("Tensor", "Optional[Tensor]") or first in ("tensors", "size", "n", "start", "end", "low", "high")


def form(schema, method):
    arguments = schema.arguments[1:] if method else schema.arguments
    names = [("input" if a.name == "self" else a.name, a) for a in arguments if a.name not in SKIPPED]
    by_place = [n for n, a in names if not a.kwarg_only]
    return [by_place, [n for n, a in names if a.kwarg_only], [n for n, a in names if not a.has_default_value()]]


def of_python(function):
    """One form, with the defaults of what needs not be given."""
    parameters = inspect.signature(function).parameters.values()
    return [[p.name, str(p.kind), "required" if p.default is p.empty else said(p.default)] for p in parameters]


def said(default):
    """A default as text, without the library's name and addresses."""
    if inspect.isfunction(default) or inspect.isbuiltin(default) or type(default).__name__ == "nb_func":
        return default.__name__
    return (
        re.sub(r"<class '|'>|\b(torch|smolder)\.|_C\.|_core\.| object at 0x\w+|Size\(\[(.*)\]\)", "", repr(default))
        or "()"
    )


def defined(T, module):
    """Functions and classes that a module's Python defines: their names, and what says how they are called."""
    scope = importlib.import_module(f"{T.__name__}.{module}")
    for name in sorted(dir(scope)):
        member = getattr(scope, name)
        if name.startswith("_") or not (inspect.isfunction(member) or inspect.isclass(member)):
            continue
        if inspect.isclass(member) and (issubclass(member, BaseException) or not hasattr(member, "__init__")):
            continue
        yield name, member


def of_torch(torch):
    """{name: forms} of all functions, and of methods as Tensor.name."""
    schemas, out = {}, {}
    for schema in torch._C._jit_get_all_schemas():
        if schema.name.startswith("aten::") and shown(schema):
            schemas.setdefault(schema.name[6:], []).append(schema)
    for module, prefix in MODULES.items():
        scope = torch
        for part in module.split(".")[:-1]:
            scope = getattr(scope, part)
        for name in sorted(dir(scope)):
            if name.startswith("_") or type(getattr(scope, name)).__name__ != "builtin_function_or_method":
                continue
            if prefix + name in schemas:
                out[module + name] = [form(s, False) for s in schemas[prefix + name]]
    for name in sorted(dir(torch.Tensor)):
        of_self = [s for s in schemas.get(name, ()) if s.arguments[0].name == "self"]
        if not name.startswith("_") and of_self and type(getattr(torch.Tensor, name)).__name__ == "method_descriptor":
            out[f"Tensor.{name}"] = [form(s, True) for s in of_self]
    for module in PYTHON:
        for name, member in defined(torch, module):
            try:
                out[f"{module}.{name}()"] = of_python(member)
            except (ValueError, TypeError):  # it says none
                continue
    return out


if __name__ == "__main__":
    to = Path(sys.argv[2]) if len(sys.argv) > 2 else GOLDEN
    to.write_text(
        json.dumps(of_torch(importlib.import_module("torch")), sort_keys=True).replace('], "', '],\n"') + "\n"
    )
