"""docs/ops.md: a line for every op. Committed; tests/python/test_op_page.py says when it is out of date."""

import describe

HEAD = """# The ops

Written from `src/ir/ops/*.toml` by `python3 tools/opgen/main.py --rows src/ir/ops --primitives
src/ir/scalar/primitives.def --page docs/ops.md`.

Forms: `f` is `smolder.name(...)`, `m` is `tensor.name(...)`, `_` is `tensor.name_(...)`, which writes in place.
Dtypes are those of operands of one dtype; others are promoted as torch does. An op is a primitive, a decomposition
into primitives, or made of other ops, whose gradients and dtypes are then its own. In Python, functions that make
tensors also take sizes one by one, and `requires_grad`. Wherever there is a `dim` or a `keepdim`, it may be given as
`axis` or `keepdims`. Functions, but not methods, take `out`, a tensor that the result is written into.
"""


def forms(row):
    return " ".join(["f"] * row.has_function + ["m"] * row.has_method + ["\\_"] * bool(row.inplace))


def call(row):
    function = row.has_function
    first = [] if function else [row.sig.params[0].name]
    return f"{row.python_names[0]}({', '.join([*first, describe.parameters(row, function, typed=False)]).strip(', ')})"


def also(row):
    rest = ", ".join(f"`{n}`" for n in row.python_names[1:])
    return f" Also called {rest}." if rest else ""


def cell(text):
    return text.replace("|", "\\|")


def line(row):
    operands = any(p.type.name.startswith("Tensor") for p in row.sig.params)
    names = ["input" if row.has_function and n == "self" else n for n in describe.gradient(row)]
    cells = [
        f"`{call(row)}`",
        forms(row),
        describe.sentence(row, row.has_function) + also(row),
        describe.SETS[describe.accepts(row)] if operands else "",
        ", ".join(names) if not row.is_composite else "",
        describe.made_of(row),
    ]
    return "| " + " | ".join(map(cell, cells)) + " |"


def page(table):
    out = [HEAD]
    for stem in table.files:
        rows = [r for r in table.of_file(stem) if not r.internal]
        if rows:
            rows.sort(key=lambda r: (r.python_names[0], r.overload))
            out.append(f"\n## {stem.capitalize()}\n")
            out.append("| call | forms | says | dtypes | gradient | made of |\n| --- | --- | --- | --- | --- | --- |")
            out += map(line, rows)
    return "\n".join(out) + "\n"
