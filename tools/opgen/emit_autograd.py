"""The gradient table."""

import re

from emit_ir import attr_locals, choices
from writer import BANNER, indent, is_expression, mentions

# Members that need no value: a formula that says self.shape() saves nothing of self.
METADATA = "shape|dtype|dim|size|numel|defined"


def split_names(names):
    return [n.strip() for n in names.split(",")]


def use_metadata(row, code):
    for p in row.sig.operands:
        code = re.sub(rf"\b{p.name}\.({METADATA})\(", rf"{p.name}_info.\1(", code)
    return code


def saves(row, code):
    """(mask of inputs, mask of outputs) whose values a formula mentions."""
    kept = [p.name if p.type.name not in ("Number", "Tensor[]") else None for p in row.sig.operands]
    inputs = sum(1 << i for i, name in enumerate(kept) if name and mentions(code, name))
    outputs = sum(1 << i for i, o in enumerate(row.sig.outputs) if mentions(code, o))
    return inputs, outputs


def formula_locals(row, code, own):
    """Declarations that every formula of the row shares, and the operands that may be numbers."""
    lines, visited = [], []
    for i, p in enumerate(row.sig.operands):
        if mentions(code, f"{p.name}_info"):
            lines.append(f"const InputInfo {p.name}_info = c.input_info({i});")
        if not mentions(code, p.name):
            continue
        kind = p.type.name
        if kind == "Number":
            lines.append(f"const Scalar {p.name} = c.number({i});")
        elif kind == "Tensor[]":
            lines.append(f"const auto {p.name} = c.metas.subspan({i});")
        elif kind == "Tensor|Number" and p.name not in own:
            visited.append((i, p.name))
        else:
            lines.append(f"const Tensor& {p.name} = c.input({i});")
    for i, o in enumerate(row.sig.outputs):
        if mentions(code, o):
            lines.append(f"const Tensor& {o} = c.output({i});")
    return lines + attr_locals(row, code, "ir::AttrReader", "c.attrs"), visited


def value_of(row, code, n):
    if is_expression(code):
        return code.strip()
    ret = "Tensor" if n == 1 else f"std::array<Tensor, {n}>"
    return f"[&]() -> {ret} {{\n{indent(code)}\n}}()"


def one_gradient(row, names, code):
    operands = [p.name for p in row.sig.operands]
    own = split_names(names)
    at = [operands.index(n) for n in own]
    code = use_metadata(row, code.strip("\n"))
    lines, visited = formula_locals(row, code, own)
    if row.sig.operands[at[0]].type.name == "Tensor[]":
        if len(own) > 1:
            raise row.error(f"grad.{names}", "the gradient of a list stands alone")
        lines.append(f"const std::vector<Tensor> parts = {value_of(row, code, 1)};")
        lines.append(
            f"for (size_t i = 0; i < parts.size(); ++i) {{\n  if (c.needs({at[0]} + i)) c.set({at[0]} + i, parts[i]);\n}}"
        )
        needed = f"std::any_of(c.needed.begin() + {at[0]}, c.needed.end(), [](bool n) {{ return n; }})"
    else:
        needed = " || ".join(f"c.needs({i})" for i in at)
        value = value_of(row, code, len(at))
        if len(at) == 1:
            inner = f"c.set({at[0]}, {value});"
        else:
            parts = ", ".join(f"g_{n}" for n in own)
            inner = f"const auto [{parts}] = {value};\n" + "\n".join(
                f"if (c.needs({i})) c.set({i}, g_{n});" for i, n in zip(at, own)
            )
        for i, n in reversed(visited):
            inner = f"c.visit({i}, [&](const auto& {n}) {{\n{indent(inner)}\n}});"
        lines.append(inner)
    if mentions(code, "grad"):
        lines.insert(0, "const Tensor& grad = c.grad(0);")
    body = indent("\n".join(lines))
    return f"if ({needed}) {{\n{body}\n}}"


def formula(row):
    parts = [one_gradient(row, names, code) for names, code in row.grads.items()]
    return f"void formula_{row.key}(FormulaContext& c) {{\n  if (!c.grad(0).defined()) return;\n{indent(chr(10).join(parts))}\n}}\n"


def table_entry(row):
    operands = [p.name for p in row.sig.operands]
    per = [(0, 0)] * len(operands)
    for names, code in row.grads.items():
        for n in split_names(names):
            per[operands.index(n)] = saves(row, use_metadata(row, code))
    differentiable = sum(1 << operands.index(n) for names in row.grads for n in split_names(names))
    listed = ", ".join(f"{{{i:#x}, {o:#x}}}" for i, o in per)
    array = f"constexpr Saves saves_{row.key}[] = {{{listed}}};\n"
    entry = f"constexpr GradInfo info_{row.key} = {{{differentiable:#x}, saves_{row.key}, rows::formula_{row.key}}};\n"
    return array + entry


def table_cpp(table):
    rows = [r for r in table.ops if r.grads]
    declared = "".join(f"void formula_{r.key}(FormulaContext&);\n" for r in rows)
    entries = "".join(table_entry(r) for r in rows)
    cases = "".join(f"    case ir::Op::{r.enumerator}: return &info_{r.key};\n" for r in rows)
    return f"""{BANNER}#include "smolder/autograd/formula.h"

namespace smolder::autograd {{
namespace rows {{
{declared}}}  // namespace rows

namespace {{
{entries}}}  // namespace

const GradInfo* grad_info(ir::Op op) {{
  switch (op) {{
{cases}    default: return ir::is_user_op(op) ? user_grad_info(op) : nullptr;
  }}
}}

}}  // namespace smolder::autograd
"""


def formulas_cpp(table, stem):
    rows = [r for r in table.of_file(stem) if not r.is_composite and r.grads]
    parts = "\n".join(choices(r) + formula(r) for r in rows)
    return f"""{BANNER}#include <algorithm>
#include <array>

#include "smolder/autograd/formula.h"
#include "smolder/autograd/formula_support.h"
#include "smolder/ir/attrs.h"
#include "smolder/lazy/ops.h"

namespace smolder::autograd::rows {{

{parts}
}}  // namespace smolder::autograd::rows
"""


def emit(table, writer):
    writer.write("smolder/autograd/formulas.cpp", table_cpp(table))
    for stem in table.files:
        writer.write(f"smolder/autograd/formulas_{stem}.cpp", formulas_cpp(table, stem))
