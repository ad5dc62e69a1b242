"""The op table and the functions over ir::Value."""

from writer import BANNER, indent, is_expression, mentions, quote

BINARY_OPERATORS = {"+", "-", "*", "/", "%", "==", "!=", "<", "<=", ">", ">=", "&", "|", "^", "<<", ">>"}

SHAPES = {
    "same": "{first}.shape",
    "broadcast": "broadcast(kName, call.inputs)",
    "reduce": "reduced_shape(kName, {first}.shape, dim, keepdim)",
    "scalar": "Dims()",
}
DTYPES = {
    "same": "{first}.dtype",
    "promote": "result_type(call.inputs)",
    "float": "as_float(result_type(call.inputs))",
    "sum": "dtype.value_or(sum_dtype({first}.dtype))",
    "as asked": "dtype.value_or(as_float({first}.dtype))",
    "bool": "DType::kBool",
    "int64": "DType::kInt64",
    "float32": "DType::kFloat32",
}
RULES = {"promote": "kPromote", "float": "kFloat", "bool": "kBool", "own": "kNone"}


def op_enum(table):
    names = ",\n".join(f"  {r.enumerator}" for r in table.ops)
    elementwise = sum(1 for r in table.ops if r.elementwise_primitive)
    return f"""{BANNER}#pragma once

#include <cstdint>

namespace smolder::ir {{

/// Every op and primitive. The elementwise primitives come first, numbered as scalar::Primitive is.
enum class Op : uint16_t {{
{names},
}};
inline constexpr int kNumOps = {len(table.ops)};
inline constexpr int kNumElementwisePrimitives = {elementwise};
constexpr bool is_elementwise_primitive(Op op) {{ return static_cast<int>(op) < kNumElementwisePrimitives; }}

}}  // namespace smolder::ir
"""


# -- rules of one op


def first_operand(row):
    if not row.sig.operands:
        raise row.error("shape", "a rule named after the first operand, and there is none")
    return row.sig.operands[0].name


def rule(row, field, named, value):
    if value in named:
        text = named[value]
        return text.format(first=first_operand(row)) if "{first}" in text else text
    if not value.strip():
        raise row.error(field, "empty")
    return value


def infer_locals(row, code):
    """Declarations of what a rule's text mentions."""
    lines = []
    for i, p in enumerate(row.sig.operands):
        if not mentions(code, p.name):
            continue
        if p.type.name == "Tensor[]":
            lines.append(f"const auto {p.name} = call.inputs.subspan({i});")
        elif p.type.name == "Tensor?":
            lines.append(f"const Meta* {p.name} = call.inputs[{i}];")
        else:
            lines.append(f"const Meta& {p.name} = *call.inputs[{i}];")
    return lines + attr_locals(row, code, "AttrReader", "call.attrs")


def attr_locals(row, code, reader, words):
    """Reads attributes in order, up to the last one that is mentioned."""
    attrs = row.sig.attrs
    last = max((i for i, p in enumerate(attrs) if mentions(code, p.name)), default=-1)
    if last < 0:
        return []
    lines = [f"{reader} attr_words({words});"]
    for p in attrs[: last + 1]:
        used = "" if mentions(code, p.name) else "[[maybe_unused]] "
        if p.choices:
            lines.append(f"{used}const std::string_view {p.name} = choices_{row.key}_{p.name}[attr_words.choice()];")
        else:
            lines.append(f"{used}const auto {p.name} = attr_words.{p.type.read}();")
    return lines


def choices(row):
    return "".join(
        f"constexpr std::string_view choices_{row.key}_{p.name}[] = {{{', '.join(map(quote, p.choices))}}};\n"
        for p in row.sig.attrs
        if p.choices
    )


def infer(row):
    if row.elementwise_primitive or row.elementwise not in (None, "own"):
        check = (row.check or "").strip()
        if row.dtypes and row.dtypes != "all":
            check = dtype_check(row) + check
        lines = infer_locals(row, check) if check else []
        body = "\n".join(
            lines + ([f'constexpr std::string_view kName = "{row.key}";'] if "kName" in check else []) + [check]
        )
        return f"void infer_{row.key}(const Call& call, Meta* out) {{\n{indent(body) if body.strip() else ''}\n  out[0] = infer_elementwise(Op::{row.enumerator}, call);\n}}\n"
    code = dtype_check(row) + (row.check or "")
    if row.infer:
        code += row.infer
    else:
        n = row.num_outputs
        shapes = row.shape if isinstance(row.shape, list) else [row.shape] * n
        dtypes = row.dtype if isinstance(row.dtype, list) else [row.dtype] * n
        for i, (s, d) in enumerate(zip(shapes, dtypes)):
            code += f"\nout[{i}] = {{{rule(row, 'shape', SHAPES, s)}, {rule(row, 'dtype', DTYPES, d)}}};"
    if any(p.type.attr in ("kSize", "kOptionalSize", "kSizeList") for p in row.sig.attrs):
        code += f"\ncheck_sizes({{out, {row.num_outputs}}});"
    lines = infer_locals(row, code)
    if "kName" in code:
        lines.insert(0, f'constexpr std::string_view kName = "{row.api_name}";')
    body = indent("\n".join(lines) + "\n" + code.strip("\n"))
    unused = "" if mentions(body, "call") else "[[maybe_unused]] "
    return f"void infer_{row.key}({unused}const Call& call, Meta* out) {{\n{body}\n}}\n"


def dtype_check(row):
    if not row.dtypes or row.dtypes == "all":
        return ""
    first = first_operand(row)
    if row.together or row.sig.operands[0].type.name == "Tensor|Number":  # which may be a number
        of = [f"&{p.name}" for p in row.sig.operands if p.type.name == "Tensor"] if row.together else []
        of = f"std::array{{{', '.join(of)}}}" if of else "call.inputs"
        together = f"{{broadcast(kName, call.inputs), result_type({of})}}"
        return f'check_dtype(kName, "the operands together", {together}, "{row.dtypes}");\n'
    return f'check_dtype(kName, "{first}", {first}, "{row.dtypes}");\n'


def computed(row):
    """Operands that a decomposition sees in the compute type of the result."""
    value = row.compute
    if value is None:
        value = "result" if row.elementwise in ("promote", "float") else []
    names = [p.name for p in row.sig.operands]
    if value == "result":
        return set(names)
    if not isinstance(value, list) or any(v not in names for v in value):
        raise row.error("compute", "expected 'result', or a list of operands")
    return set(value)


def decompose_locals(row, code):
    lines, wide = [], computed(row)
    for i, p in enumerate(row.sig.operands):
        if not mentions(code, p.name):
            continue
        if p.type.name == "Tensor[]":
            lines.append(f"std::vector<Value> {p.name};")
            lines.append(
                f"for (size_t i = {i}; i < node.inputs.size(); ++i) {p.name}.push_back(b.wrap(node.inputs[i]));"
            )
            continue
        value = f"b.wrap(node.inputs[{i}])"
        if p.name in wide:
            value = f"in_compute_type({value}, results[0].dtype)"
        lines.append(f"const Value {p.name} = {value};")
    if mentions(code, "result_dtype"):
        lines.append("const DType result_dtype = results[0].dtype;")
    return lines + attr_locals(row, code, "NodeAttrReader", "node.attrs")


def decompose(row):
    head = f"void decompose_{row.key}(Builder& b, const Node& node, std::span<const ValueInfo> results, ValueId* outputs) {{\n"
    if row.elementwise_primitive:
        args = ", ".join(f"b.wrap(node.inputs[{i}])" for i in range(row.elementwise_primitive.arity))
        return f"{head}  outputs[0] = finish(node.op, b.elementwise(node.op, {{{args}}}), results[0]);\n}}\n"
    code, n = row.decompose.strip("\n"), row.num_outputs
    lines = decompose_locals(row, code)
    if is_expression(code):
        if n != 1:
            raise row.error("decompose", f"{n} outputs need statements ending in 'return {{...}};'")
        lines.append(f"outputs[0] = finish(node.op, {code.strip()}, results[0]);")
    else:
        ret = "Value" if n == 1 else f"std::array<Value, {n}>"
        lines.append(f"const auto formula = [&]() -> {ret} {{\n{indent(code)}\n}};")
        if n == 1:
            lines.append("outputs[0] = finish(node.op, formula(), results[0]);")
        else:
            lines.append("const auto values = formula();")
            lines.append(f"for (int i = 0; i < {n}; ++i) outputs[i] = finish(node.op, values[i], results[i]);")
    body = indent("\n".join(lines))
    unused = "" if mentions(body, "b") else "[[maybe_unused]] "
    head = head.replace("Builder& b", unused + "Builder& b", 1)
    return f"{head}{body}\n}}\n"


def has_infer(row):
    return bool(row.elementwise_primitive or row.elementwise or row.infer or row.shape)


def has_decompose(row):
    return bool(row.elementwise_primitive or row.decompose)


def ops_cpp(table, stem):
    rows = [r for r in table.of_file(stem) if not r.is_composite]
    parts = []
    for r in rows:
        parts.append(choices(r))
        if has_infer(r):
            parts.append(infer(r))
        if has_decompose(r):
            parts.append(decompose(r))
    return f"""{BANNER}#include <algorithm>
#include <cmath>
#include <limits>

#include "smolder/core/size.h"
#include "smolder/ir/decompose.h"

namespace smolder::ir::rows {{

{chr(10).join(p for p in parts if p)}
}}  // namespace smolder::ir::rows
"""


# -- the table


def table_row(row):
    operands = ", ".join(f'{{"{p.name}", OperandInfo::{p.type.operand}}}' for p in row.sig.operands)
    attrs = ", ".join(
        f'{{"{p.name}", AttrKind::{p.type.attr}, {f"choices_{row.key}_{p.name}" if p.choices else "{}"}'
        + f"{', true' * p.type.is_position}}}"
        for p in row.sig.attrs
    )
    arrays = choices(row)
    if operands:
        arrays += f"constexpr OperandInfo operands_{row.key}[] = {{{operands}}};\n"
    if attrs:
        arrays += f"constexpr AttrInfo attrs_{row.key}[] = {{{attrs}}};\n"
    flags = {
        "primitive": row.is_primitive,
        "elementwise": row.is_elementwise,
        "random": bool(row.random),
        "view": bool(row.view),
        "effect": bool(row.effect),
        "updates": bool(row.updates),
        "wraps_indices": bool(row.wraps_indices),
    }
    flag_text = ", ".join(f".{k} = true" for k, v in flags.items() if v)
    if row.elementwise_primitive:
        rule_name = (
            "kBool"
            if row.elementwise_primitive.result == "kBool"
            else "kFloat"
            if row.elementwise_primitive.dtypes == "F"
            else "kPromote"
        )
    elif row.elementwise:
        if row.elementwise not in RULES:
            raise row.error("elementwise", f"unknown dtype rule; known: {', '.join(RULES)}")
        rule_name = RULES[row.elementwise]
    else:
        rule_name = "kNone"
    error = row.index_error or {"type": "IndexError", "text": ""}
    index_error = f"{{{str(error['type'] == 'RuntimeError').lower()}, {quote(error['text'])}}}"
    entry = f"""    {{.name = "{row.key}",
     .signature = {quote(row.sig.schema())},
     .flags = {{{flag_text}}},
     .num_outputs = {row.num_outputs},
     .operands = {f"operands_{row.key}" if operands else "{}"},
     .attrs = {f"attrs_{row.key}" if attrs else "{}"},
     .dtype_rule = DTypeRule::{rule_name},
     .infer = {f"rows::infer_{row.key}" if has_infer(row) else "nullptr"},
     .decompose = {f"rows::decompose_{row.key}" if has_decompose(row) else "nullptr"},
     .index_error = {index_error},
     .called = {quote(row.called or "")},
     .doc = {quote(row.doc.strip())}}},"""
    return arrays, entry


def op_table(table):
    declared, arrays, entries = [], [], []
    for r in table.ops:
        if has_infer(r):
            declared.append(f"void infer_{r.key}(const Call&, Meta*);")
        if has_decompose(r):
            declared.append(f"void decompose_{r.key}(Builder&, const Node&, std::span<const ValueInfo>, ValueId*);")
        a, e = table_row(r)
        arrays.append(a)
        entries.append(e)
    nl = "\n"
    return f"""{BANNER}#include "smolder/ir/graph.h"
#include "smolder/ir/user_op.h"

namespace smolder::ir {{
namespace rows {{
{nl.join(declared)}
}}  // namespace rows

namespace {{
{"".join(arrays)}
}}  // namespace

constinit const OpInfo kOpTable[kNumOps] = {{
{nl.join(entries)}
}};
std::span<const OpInfo> op_table() {{ return kOpTable; }}

}}  // namespace smolder::ir
"""


# -- functions over Value


def value_function(row):
    name, arity, op = row.key, row.elementwise_primitive.arity, f"Op::{row.enumerator}"
    if arity == 1:
        return f"inline Value {name}(Value a) {{ return a.b->elementwise({op}, {{a}}); }}\n"
    if arity == 2:
        return f"""inline Value {name}(Value a, Value b) {{ return a.b->elementwise({op}, {{a, b}}); }}
inline Value {name}(Value a, Number b) {{ return {name}(a, b.in(a)); }}
inline Value {name}(Number a, Value b) {{ return {name}(a.in(b), b); }}
"""
    return f"""inline Value {name}(Value a, Value b, Value c) {{ return a.b->elementwise({op}, {{a, b, c}}); }}
inline Value {name}(Value a, Number b, Value c) {{ return {name}(a, b.in(a), c); }}
inline Value {name}(Value a, Value b, Number c) {{ return {name}(a, b, c.in(a)); }}
inline Value {name}(Value a, Number b, Number c) {{ return {name}(a, b.in(a), c.in(a)); }}
"""


def value_operator(row):
    sign = row.operator
    if sign == "unary -" or sign == "~":
        return f"inline Value operator{sign[-1]}(Value a) {{ return {row.key}(a); }}\n"
    if sign not in BINARY_OPERATORS:
        raise row.error("operator", f"{sign} is no operator of two operands")
    return f"""inline Value operator{sign}(Value a, Value b) {{ return {row.key}(a, b); }}
inline Value operator{sign}(Value a, Number b) {{ return {row.key}(a, b); }}
inline Value operator{sign}(Number a, Value b) {{ return {row.key}(a, b); }}
"""


def value_ops(table):
    rows = [r for r in table.ops if r.elementwise_primitive]
    functions = "".join(value_function(r) for r in rows)
    operators = "".join(value_operator(r) for r in rows if r.operator)
    return f"""{BANNER}// The elementwise primitives as functions over Value: operands are promoted and broadcast.
#pragma once

#include <concepts>

#include "smolder/ir/builder.h"

namespace smolder::ir {{

/// A number or a size where a formula takes either: the 2 in `x * 2`, the n in `sum / n`.
class Number {{
 public:
  template <class T>
    requires std::is_arithmetic_v<T>
  Number(T v) : scalar_(make(v)) {{}}
  Number(Scalar v) : scalar_(v) {{}}
  Number(Dim d) : scalar_(d.value), size_(d), is_size_(true) {{}}
  /// As a weak value of the graph that `v` is of.
  Value in(Value v) const {{ return is_size_ ? v.b->number(size_) : v.b->constant(scalar_); }}

 private:
  template <class T>
  static Scalar make(T v) {{
    if constexpr (std::is_same_v<T, bool>) {{
      return Scalar(v);
    }} else if constexpr (std::is_integral_v<T>) {{
      return Scalar(static_cast<int64_t>(v));
    }} else {{
      return Scalar(static_cast<double>(v));
    }}
  }}
  Scalar scalar_;
  Dim size_;
  bool is_size_ = false;
}};

{functions}
{operators}
}}  // namespace smolder::ir
"""


def emit(table, writer):
    writer.write("smolder/ir/op_enum.h", op_enum(table))
    writer.write("smolder/ir/value_ops.h", value_ops(table))
    writer.write("smolder/ir/op_table.cpp", op_table(table))
    for stem in table.files:
        writer.write(f"smolder/ir/ops_{stem}.cpp", ops_cpp(table, stem))
