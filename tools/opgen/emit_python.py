"""The Python module's functions and methods: one nanobind definition for each function of the C++ API."""

import describe
from writer import BANNER, quote

# How a parameter is spelled in a binding, and how it is passed on.
SPELLED = {
    "Tensor": ("const Tensor&", "{0}"),
    "Tensor?": ("const std::optional<Tensor>&", "{0}.value_or(Tensor())"),
    "Tensor[]": ("const TensorItems&", "TensorList({0}.items)"),
    "Number": ("Scalar", "{0}"),
    "Number?": ("std::optional<Scalar>", "{0}"),
    "Tensor|Number": ("const TensorOrNumber&", "{0}.operand()"),
    "str": ("const std::string&", "{0}"),
    "text": ("const std::string&", "{0}"),
    "str?": ("const std::optional<std::string>&", "{0}"),
    "dtype": ("PyDType", "{0}.value"),
    "dtype?": ("std::optional<PyDType>", "value_of({0})"),
    "axes": ("const Axes&", "{0}"),
    "int": ("Int", "{0}.value"),
    "int?": ("std::optional<Int>", "value_of({0})"),
    "size": ("Int", "{0}.value"),
    "size?": ("std::optional<Int>", "value_of({0})"),
    "position": ("Int", "{0}.value"),
    "position?": ("std::optional<Int>", "value_of({0})"),
    "ints": ("const Ints&", "{0}.items"),
}


def spelled(p):
    if p.type.name in SPELLED:
        return SPELLED[p.type.name]
    cpp = p.type.cpp
    return cpp, "{0}"


def default(p):
    d = p.default
    if d is None:
        return "nb::none()"
    if isinstance(d, bool):
        return "true" if d else "false"
    if isinstance(d, str):
        return f"PyDType{{DType::k{d.capitalize()}}}" if p.type.name == "dtype" else quote(d)
    if isinstance(d, list):
        return f"Dims{{{', '.join(map(str, d))}}}" if p.type.name != "axes" or d else "nb::none()"
    if p.type.name in ("Number", "Tensor|Number", "float"):
        return repr(d)
    return str(d)


def arguments(params, function):
    """The nb::arg list; positional first, then keyword-only ones."""
    out, starred = [], False
    for p in params:
        if p.keyword_only and not starred:
            out.append("nb::kw_only()")
            starred = True
        text = f"nb::arg({quote(describe.parameter_name(p, function))})"
        if p.has_default:
            text += f" = {default(p)}"
        if p.type.name in ("Tensor?", "str?") and not p.has_default:
            text += ".none()"
        out.append(text)
    return out


def wrap(row, call):
    if row.result_name:
        return f"named(return_{row.result_name}, {call})"
    if row.sig.returns_list:
        return f"as_tuple({call})"
    return f"own({call})" if row.is_composite and row.num_returned == 1 else call


def bound(row, target, names, body, doc, method):
    """`target.def(...)` of one function under each of its names and each spelling of its parameters."""
    out = ""
    for name in names:
        for i, params in enumerate(describe.spellings(row)):
            args = arguments(params[1:] if method else params, not method)
            tail = ", ".join([*args, *([quote(doc)] if i == 0 else [])])
            out += f"{target}.def({quote(name)}, f{', ' if tail else ''}{tail});\n"
    return f"{{\nconst auto f = {body};\n{out}}}\n"


def definition(row, target, method):
    """`target.def(...)` of a function or a method."""
    params = row.sig.params
    if method:
        params = params[1:]
    typed = [f"{spelled(p)[0]} {p.name}" for p in params]
    passed = [spelled(p)[1].format(p.name) for p in params]
    if method:
        typed.insert(0, "const Tensor& self")
        passed = (["self"] if row.has_function else []) + passed
    name = f"smolder::{row.api_name}" if row.has_function else f"self.{row.api_name}"
    listed = ", ".join(passed)
    call = f"return {wrap(row, f'{name}({listed})')};"
    if not row.has_function and any(p.type.name == "Tensor|Number" for p in params):
        call = f"Tensor out; {visiting(params, f'out = self.{row.api_name}({overloaded(params)});')} return out;"
    if row.may_return_self:
        at = 0 if method else [p.name for p in params].index("self")
        typed[at] = "nb::handle_t<Tensor> given"
        self = "const Tensor& self = nb::cast<const Tensor&>(given);"
        call = f"{self} return same_or_new(given, {name}({listed}));"
    body = f"[]({', '.join(typed)}) {{ {call} }}"
    out = bound(row, target, row.python_names, body, describe.docstring(row, not method), method)
    return out + variadic(row, target, method, params, passed, name)


def variadic(row, target, method, params, passed, name):
    """x.view(2, 3) beside x.view((2, 3)): a list of integers that comes first may be spread out."""
    at = 0 if method else (1 if params and params[0].type.name == "Tensor" else 0)
    if len(params) <= at or params[at].type.name not in ("size[]", "int[]"):
        return ""
    if at == 1 or any(not p.has_default for p in params[at + 1 :]):
        return ""
    typed = (["const Tensor& self"] if method else []) + [f"const nb::args& {params[at].name}"]
    typed += [f"{spelled(p)[0]} {p.name}" for p in params[at + 1 :]]
    spread = list(passed)
    spread[1 if method and row.has_function else 0] = (
        f"dims_of({params[at].name}, {quote(row.python_names[0])}, {quote(params[at].name)})"
    )
    tail = ["nb::arg()"]
    rest = [f"nb::arg({quote(p.name)}) = {default(p)}" for p in params[at + 1 :]]
    tail = [f"nb::arg({quote(params[at].name)})", *rest]
    call = wrap(row, f"{name}({', '.join(spread)})")
    body = f"[]({', '.join(typed)}) {{ return {call}; }}"
    return "".join(f"{target}.def({quote(n)}, {body}, {', '.join(tail)});\n" for n in row.python_names)


def inplace(row, target):
    params = row.sig.params[1:]
    typed = ["Tensor& self"] + [f"{spelled(p)[0]} {p.name}" for p in params]
    call = visiting(params, f"self.{row.api_name}_({overloaded(params)});")
    body = f"[]({', '.join(typed)}) -> Tensor {{ {call} return self; }}"
    names = [f"{n}_" for n in row.python_names]
    return bound(row, target, names, body, f"In place: {describe.sentence(row, False)}", True)


def visiting(params, call):
    """A call of a C++ method, which is overloaded on tensor and number."""
    for p in params:
        if p.type.name == "Tensor|Number":
            call = f"{p.name}.visit([&](const auto& {p.name}_) {{ {call} }});"
    return call


def overloaded(params):
    given = [f"{p.name}_" if p.type.name == "Tensor|Number" else spelled(p)[1].format(p.name) for p in params]
    return ", ".join(given)


def bindings_cpp(table, stem):
    rows = [r for r in table.of_file(stem) if not r.internal]
    functions = "".join(definition(r, "m", False) for r in rows if r.has_function)
    methods = "".join(definition(r, "tensor", True) for r in rows if r.has_method)
    methods += "".join(inplace(r, "tensor") for r in rows if r.inplace)
    results = {r.result_name: r for r in rows if r.result_name and (r.has_function or r.has_method)}
    types = "".join(
        f"static PyTypeObject* const return_{name} = "
        f"return_type(m, {quote(name)}, {{{', '.join(map(quote, r.sig.outputs[: r.num_returned]))}}});\n"
        for name, r in results.items()
    )
    return f"""{BANNER}#include "smolder/lazy/ops.h"
#include "smolder/lazy/random.h"
#include "src/casters.h"

namespace smolder::python {{

void bind_{stem}([[maybe_unused]] nb::module_& m, [[maybe_unused]] nb::class_<Tensor>& tensor) {{
{types}{functions}{methods}}}

}}  // namespace smolder::python
"""


def bind_all(table):
    declared = "".join(f"void bind_{s}(nb::module_& m, nb::class_<Tensor>& tensor);\n" for s in table.files)
    called = "".join(f"  bind_{s}(m, tensor);\n" for s in table.files)
    return f"""{BANNER}#include "src/casters.h"

namespace smolder::python {{

{declared}
void bind_ops(nb::module_& m, nb::class_<Tensor>& tensor) {{
{called}}}

}}  // namespace smolder::python
"""


def emit(table, writer):
    for stem in table.files:
        writer.write(f"smolder/python/bind_{stem}.cpp", bindings_cpp(table, stem))
    writer.write("smolder/python/bind_ops.cpp", bind_all(table))
