"""The user's C++ API: functions, operators and methods that record."""

from itertools import product

from writer import BANNER, indent, mentions, quote

BINARY = {"+", "-", "*", "/", "%", "==", "!=", "<", "<=", ">", ">=", "&", "|", "^", "<<", ">>"}
COMPOUND = {"+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>"}


def default_text(p):
    d = p.default
    if d is None or d == []:
        return {"Number?": "std::nullopt", "Generator?": "nullptr"}.get(p.type.name, "{}")
    if isinstance(d, bool):
        return "true" if d else "false"
    if isinstance(d, str):
        return f"DType::k{d.capitalize()}" if p.type.name == "dtype" else quote(d)
    if isinstance(d, list):
        return "{" + ", ".join(map(str, d)) + "}"
    return repr(d)


def cpp_default(p):
    if p.type.name == "dtype?" and p.default is None:
        return " = {}"
    return f" = {default_text(p)}" if p.has_default else ""


def return_type(row):
    if row.sig.returns_list:
        return "std::vector<Tensor>"
    n = row.num_returned
    return "Tensor" if n == 1 else f"std::tuple<{', '.join(['Tensor'] * n)}>"


def declare(p, spelled=None, with_default=True):
    return f"{spelled or p.type.cpp} {p.name}{cpp_default(p) if with_default else ''}"


def open_params(params):
    """Indices of parameters that are a tensor or a number."""
    return [i for i, p in enumerate(params) if p.type.name == "Tensor|Number"]


def overloads(params, need_tensor):
    """Lists of spelled types for each way of giving tensors and numbers; none when there is one way only."""
    at = open_params(params)
    out = []
    for choice in product(("const Tensor&", "Scalar"), repeat=len(at)):
        if need_tensor and all(c == "Scalar" for c in choice):
            continue
        spelled = dict(zip(at, choice))
        out.append([spelled.get(i) for i in range(len(params))])
    return out if at else []


def has_plain_tensor(params):
    return any(p.type.name.startswith("Tensor") and p.type.name != "Tensor|Number" for p in params)


def check_order(row):
    seen = None
    for p in row.sig.params:
        if seen and not p.has_default:
            raise row.error("signature", f"{p.name} has no default but follows {seen}, which C++ can't say")
        if p.has_default:
            seen = p.name


# -- bodies


def operand_expr(p, name):
    if p.type.name == "Tensor?":
        return f"Operand::optional({name})"
    return f"Operand({name})"


def pack(row, self_name=None):
    """Statements that define `operands` and `words`; the list, if any, comes last."""
    lines, names = [], []
    listed = [p for p in row.sig.operands if p.type.name == "Tensor[]"]
    for i, p in enumerate(row.sig.operands):
        if p not in listed:
            names.append(operand_expr(p, self_name if self_name and i == 0 else p.name))
    if listed:
        lines.append("absl::InlinedVector<Operand, 16> operands;")
        lines += [f"operands.push_back({n});" for n in names]
        lines.append(
            f"for (size_t i = 0; i < {listed[0].name}.size(); ++i) operands.push_back({listed[0].name}.data()[i]);"
        )
    elif names:
        lines.append(f"const Operand operands[] = {{{', '.join(names)}}};")
    if row.sig.attrs:
        words = " + ".join(filter(None, attr_words(row)))
        writes = "".join(write_attr(row, i, p) for i, p in enumerate(row.sig.attrs))
        lines.append(f"ir::AttrWriter<{words}> attrs;")
        lines.append(f"attrs{writes};")
    return lines, "operands" if row.sig.operands else "{}", "attrs.words()" if row.sig.attrs else "{}"


def attr_words(row):
    fixed, lists = 0, 0
    for p in row.sig.attrs:
        kind = p.type.attr
        if kind.endswith("List"):
            lists += 1
            fixed += kind.startswith("kOptional")
        else:
            fixed += 2 if kind.startswith("kOptional") else 1
    return [str(fixed) if fixed or not lists else "", f"{lists} * ir::kListWords" if lists else ""]


def write_attr(row, i, p):
    if p.choices:
        return f".choice(ir::choice_index(ir::Op::{row.enumerator}, {i}, {p.name}))"
    return f".{p.type.read}({p.name})"


def copies(row):
    """Lists that `prepare` changes come in under another name; returns (names, statements)."""
    code = row.prepare or ""
    changed = [p for p in row.sig.params if p.type.name == "size[]" and mentions(code, p.name)]
    return {p.name for p in changed}, [f"Dims {p.name} = {p.name}_arg;" for p in changed]


def record_body(row):
    lines = copies(row)[1] + ([row.prepare.strip()] if row.prepare else [])
    packed, operands, words = pack(row)
    lines += packed
    n, shown = row.num_outputs, row.num_returned
    record = "lazy::record_random" if row.random else "record"  # which may be asked for others for each of a batch
    if n == 1:
        lines += ["Tensor out;", f"{record}(ir::Op::{row.enumerator}, {operands}, {words}, &out);", "return out;"]
    else:
        lines += [f"Tensor out[{n}];", f"{record}(ir::Op::{row.enumerator}, {operands}, {words}, out);"]
        shown_values = ", ".join(f"std::move(out[{i}])" for i in range(shown))
        lines.append(f"return {shown_values};" if shown == 1 else f"return {{{shown_values}}};")
    return "\n".join(lines)


def composite_check(row):
    """The check of the first operand that `dtypes` asks for."""
    if not row.dtypes:
        return ""
    first = row.sig.params[0].name
    return f'ir::check_dtype("{row.api_name}", "{first}", {first}.meta(), "{row.dtypes}");\n'


def history(row):
    return f'const lazy::HistoryName named("{row.history}");\n' if row.history else ""


def device_mode(row):
    """Tensors that a body of several ops makes without operands lie where the row's first tensor does."""
    first = next((p for p in row.sig.params if p.type.name in ("Tensor", "Tensor[]")), None)
    return f"const lazy::DeviceMode on({first.name});\n" if first else ""


CAST_TYPES = ("Tensor", "Tensor?", "Tensor[]", "Tensor|Number")


def cast_rules(rules):
    named = [f".{device} = CastRule::k{rules[device].capitalize()}" for device in ("cpu", "cuda") if device in rules]
    return ", ".join(named)


def autocast(row):
    """The first lines of a function that is on a list of autocast's: it calls itself with its operands cast."""
    if not row.autocast:
        return ""
    renamed = copies(row)[0] if not row.is_composite else set()
    names = [(p, f"{p.name}_arg" if p.name in renamed else p.name) for p in row.sig.params]
    cast = [name for p, name in names if p.type.name in CAST_TYPES]
    passed = ", ".join(f"call_cast.cast({name})" if name in cast else name for _, name in names)
    seen = "".join(f"  call_cast.see({name});\n" for name in cast)
    asked = "!dtype && " if any(p.name == "dtype" and p.type.name == "dtype?" for p in row.sig.params) else ""
    return f"""if (lazy::autocasting()) [[unlikely]] {{
  lazy::AutocastCall call_cast({{{cast_rules(row.autocast)}}});
{seen}  if ({asked}call_cast.applies()) return smolder::{function_name(row)}({passed});
}}
"""


def in_given_dtype(row):
    """The first lines of a function of values that takes a dtype: a real operand becomes complex before it."""
    if (
        row.is_composite
        or not row.grads
        or not any(p.name == "dtype" and p.type.name == "dtype?" for p in row.sig.params)
    ):
        return ""
    passed = ", ".join(["self.to(*dtype)"] + [p.name for p in row.sig.params[1:]])
    return f"""if (dtype && is_complex(*dtype) && !is_complex(self.dtype())) [[unlikely]]
  return smolder::{function_name(row)}({passed});
"""


def definition(row):
    """The function itself; in an unnamed namespace when it is a method only."""
    params = row.sig.params
    renamed = copies(row)[0] if not row.is_composite else set()
    spelled = ", ".join(f"{p.type.cpp} {p.name}{'_arg' if p.name in renamed else ''}" for p in params)
    if row.is_composite:
        body = composite_check(row) + device_mode(row) + history(row) + row.body.strip()
    else:
        body = (device_mode(row) if row.prepare else "") + record_body(row)
    text = f"{return_type(row)} {function_name(row)}({spelled}) {{\n{indent(autocast(row) + in_given_dtype(row) + body)}\n}}\n"
    if row.is_composite:
        name = (row.python_names or [row.api_name])[0]
        text = text.replace(") {\n", ") try {\n", 1).removesuffix("\n")
        text += f' catch (const Error& e) {{\n  lazy::raise_as("{name}", e);\n}}\n'
    return text if row.has_function else f"namespace {{\n{text}}}  // namespace\n"


# -- declarations


def function_declarations(row):
    check_order(row)
    params, ret = row.sig.params, return_type(row)
    out = f"/// {summary(row)}\n{ret} {row.api_name}({', '.join(declare(p) for p in params)});\n"
    for spelled in overloads(params, not has_plain_tensor(params)):
        args = ", ".join(declare(p, s) for p, s in zip(params, spelled))
        passed = ", ".join(f"lazy::Operand({p.name})" if s else p.name for p, s in zip(params, spelled))
        out += f"inline {ret} {row.api_name}({args}) {{ return {row.api_name}({passed}); }}\n"
    return out


def summary(row):
    return " ".join(row.doc.split())


def operators(row):
    sign, name = row.operator, row.api_name
    if sign in ("unary -", "~"):
        return f"inline Tensor operator{sign[-1]}(const Tensor& self) {{ return {name}(self); }}\n"
    out = ""
    for a, b in (("const Tensor&", "const Tensor&"), ("const Tensor&", "Scalar"), ("Scalar", "const Tensor&")):
        out += f"inline Tensor operator{sign}({a} self, {b} other) {{ return {name}(self, other); }}\n"
    if row.inplace and sign in COMPOUND:
        for b in ("const Tensor&", "Scalar"):
            out += f"inline Tensor& operator{sign}=(Tensor& self, {b} other) {{ return self.{name}_(other); }}\n"
    return out


def method_variants(row):
    """Spelled types of the parameters after self, one list a method."""
    rest = row.sig.params[1:]
    return overloads(rest, False) or [[None] * len(rest)]


def method_declarations(row):
    out, rest = "", row.sig.params[1:]
    for spelled in method_variants(row):
        args = ", ".join(declare(p, s) for p, s in zip(rest, spelled))
        if row.has_method:
            out += f"{return_type(row)} {row.api_name}({args}) const;\n"
        if row.inplace:
            out += f"Tensor& {row.api_name}_({args});\n"
    return out


def method_definitions(row):
    out, rest = "", row.sig.params[1:]
    function = f"smolder::{function_name(row)}"
    for spelled in method_variants(row):
        args = ", ".join(declare(p, s, with_default=False) for p, s in zip(rest, spelled))
        passed = ", ".join(["*this"] + [p.name for p in rest])
        if row.has_method:
            out += f"{return_type(row)} Tensor::{row.api_name}({args}) const {{ return {function}({passed}); }}\n"
        if row.inplace:
            out += f"Tensor& Tensor::{row.api_name}_({args}) {{\n{indent(inplace_body(row))}\n}}\n"
    return out


def function_name(row):
    """The name of the definition of a row's function."""
    return row.api_name if row.has_function else f"method_{row.key.replace('.', '_')}"


def inplace_body(row):
    if row.is_composite or row.prepare:  # whatever it records, the last result is what is written
        passed = ", ".join(["*this"] + [p.name for p in row.sig.params[1:]])
        written = f'lazy::write_inplace("{row.api_name}", *this, smolder::{function_name(row)}({passed}));'
        return f"const lazy::NoAutocast plain;\n{written}\nreturn *this;"
    lines = []
    packed, operands, words = pack(row, "*this")
    lines += packed
    lines += [f"record_inplace(ir::Op::{row.enumerator}, {operands}, {words}, *this);", "return *this;"]
    return "\n".join(lines)


# -- files


def is_called(row):
    """Whether anything calls the row's function: an op that is only done in place, as it is given, records at once."""
    return row.has_function or row.has_method or row.is_composite or bool(row.prepare)


def shown(table):
    return [r for r in table.rows if not r.internal]


def ops_h(table):
    rows = shown(table)
    functions = "\n".join(function_declarations(r) for r in rows if r.has_function)
    signs = "".join(operators(r) for r in rows if r.operator)
    return f"""{BANNER}// What users call: each function records one op, or calls others that do. Shapes and dtypes are checked
// as it is called.
#pragma once

#include <optional>
#include <string_view>
#include <tuple>
#include <vector>

#include "smolder/lazy/arguments.h"
#include "smolder/lazy/record.h"
#include "smolder/lazy/tensor.h"

namespace smolder {{

{functions}
{signs}
}}  // namespace smolder
"""


def tensor_methods(table):
    return BANNER + "".join(method_declarations(r) for r in shown(table))


def ops_cpp(table, stem):
    rows = [r for r in table.of_file(stem) if not r.internal]
    methods = "".join(method_definitions(r) for r in rows)
    return f"""{BANNER}#include "smolder/lazy/ops.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "smolder/core/size.h"
#include "smolder/ir/attrs.h"
#include "smolder/ir/infer.h"
#include "smolder/lazy/autocast.h"
#include "smolder/lazy/batch.h"
#include "smolder/lazy/complex.h"
#include "smolder/lazy/op_support.h"
#include "smolder/lazy/random.h"

namespace smolder {{

using lazy::CastRule;
using lazy::Operand;
using lazy::record;
using lazy::record_inplace;

{chr(10).join(definition(r) for r in rows if is_called(r))}
{methods}
}}  // namespace smolder
"""


def autocast_cpp(table):
    rules = sorted(table.autocast.items())
    entries = "\n".join(f"      {{{quote(name)}, {{{cast_rules(of_device)}}}}}," for name, of_device in rules)
    return f"""{BANNER}#include <unordered_map>

#include "smolder/lazy/autocast.h"

namespace smolder::lazy {{

CastRules cast_rules(std::string_view name) {{
  static const std::unordered_map<std::string_view, CastRules> kRules = {{
{entries}
  }};
  const auto at = kRules.find(name);
  return at == kRules.end() ? CastRules() : at->second;
}}

}}  // namespace smolder::lazy
"""


def batch_names(table):
    rules = sorted({r.batch_rule for r in table.ops if r.batch_rule})
    declared = "\n".join(f"std::vector<Tensor> {rule}(const BatchCall& call);" for rule in rules)
    return f"""{BANNER}// The rules that `batch` fields name.
#pragma once

#include "smolder/lazy/batch_rules.h"

namespace smolder::lazy::batch {{

{declared}

}}  // namespace smolder::lazy::batch
"""


def batch_cpp(table):
    by_rule = {}
    for r in table.ops:
        if r.batch_rule and not r.is_elementwise:
            by_rule.setdefault(r.batch_rule, []).append(f"    case ir::Op::{r.enumerator}:\n")
    cases = "".join("".join(ops) + f"      return batch::{rule};\n" for rule, ops in sorted(by_rule.items()))
    return f"""{BANNER}#include "smolder/lazy/batch_rule_names.h"

namespace smolder::lazy {{

BatchRule batch_rule(ir::Op op) {{
  if (ir::info(op).flags.elementwise) return ir::is_user_op(op) ? nullptr : batch::elementwise;
  switch (op) {{
{cases}    default:
      return nullptr;
  }}
}}

}}  // namespace smolder::lazy
"""


def emit(table, writer):
    writer.write("smolder/lazy/batch_rule_names.h", batch_names(table))
    writer.write("smolder/lazy/batch_table.cpp", batch_cpp(table))
    writer.write("smolder/lazy/autocast_rules.cpp", autocast_cpp(table))
    writer.write("smolder/lazy/ops.h", ops_h(table))
    writer.write("smolder/lazy/tensor_methods.inc", tensor_methods(table))
    for stem in table.files:
        writer.write(f"smolder/lazy/ops_{stem}.cpp", ops_cpp(table, stem))
