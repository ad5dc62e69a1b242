"""ops.json: the whole table, for tools that read no TOML."""

import json

import describe


def param(p):
    out = {"name": p.name, "type": p.type.name, "keyword_only": p.keyword_only}
    if p.has_default:
        out["default"] = p.default
    if p.choices:
        out["choices"] = list(p.choices)
    return out


def entry(row):
    out = {
        "key": row.key,
        "name": row.api_name,
        "python": row.python_names,
        "overload": row.overload,
        "file": row.file,
        "kind": "composite" if row.is_composite else "primitive" if row.is_primitive else "op",
        "signature": row.sig.schema(),
        "params": [param(p) for p in row.sig.params],
        "outputs": list(row.sig.outputs),
        "returns": "list" if row.sig.returns_list else row.num_returned,
        "function": row.has_function,
        "method": row.has_method,
        "inplace": bool(row.inplace),
        "operator": row.operator,
        "internal": bool(row.internal),
        "view": bool(row.view),
        "random": bool(row.random),
        "elementwise": row.is_elementwise,
        "differentiable": sorted(n.strip() for names in row.grads for n in names.split(",")),
        "accepts": describe.accepts(row),
        "autocast": row.autocast,
        "batch": None if row.is_composite else row.batch_rule,
        "index_error": row.index_error or None,
        "doc": " ".join(row.doc.split()),
        "test": row.test,
    }
    if not row.is_composite:
        out["enumerator"] = row.enumerator
    if row.elementwise_primitive:
        out["dtypes"] = row.elementwise_primitive.dtypes
        out["result"] = "bool" if row.elementwise_primitive.result == "kBool" else "same"
    elif row.dtypes:
        out["dtypes"] = row.dtypes
    return out


def emit(table, writer):
    writer.write("smolder/ops.json", json.dumps([entry(r) for r in table.rows], indent=1) + "\n")
