"""The runtime's reasons in words for its users, and what often removes them: data for smolder.explain."""

import re

from smolder._lines import source_line

# Why a step ended: (reasons of its sync, pattern of the user's line, what happened, advice). The first row that fits
# by reason and pattern is shown.
_BREAKS = [
    (("item",), r"^\s*(if|elif|while|assert)\b|\b(if|and|or|not)\b|\bbool\(", "a condition reads a tensor's value",
     "compute both sides and choose with smolder.where(condition, a, b), or keep the condition out of the step"),
    (("item", "numpy"), r"\bprint\(|\blogg?(er|ing)?\.|\bf[\"']|\.format\(|\bstr\(|\brepr\(", "a tensor is printed",
     "print every so many steps, or collect detached tensors and print them after the loop"),
    (("print",), r"", "a tensor is printed",
     "print every so many steps, or collect detached tensors and print them after the loop"),
    (("item",), r"\b(range|for)\b.*\(", "a Python loop runs as often as a tensor says",
     "take the count from a shape or a Python number"),
    (("item",), r"\[[^\]]*:[^\]]*\]", "a tensor's value is used as the bound of a slice, which makes a shape",
     "keep the full shape and mask with smolder.where, or take the bound from a Python number"),
    (("item",), r"", "a tensor's value is read as a Python number",
     "keep it a tensor: operators take tensors of one element; read it once after the loop, or every so many steps"),
    (("numpy",), r"\blinalg\.|\.(svd|inverse|cholesky|det|slogdet|qr|pinverse|matrix_exp)\(",
     "NumPy computes this op, outside of any step", "compute it less often, or keep its result"),
    (("numpy",), r"\.tolist\(", "a tensor's values are read as a list",
     "keep them a tensor, or read them once after the loop"),
    (("numpy",), r"", "a tensor's memory is handed to NumPy or to another library",
     "use the op of smolder of the same name, or convert once after the loop"),
    (("nonzero",), r"", "a result's shape depends on values: a boolean index, or nonzero()",
     "keep the shape: smolder.where(mask, x, 0), masked_fill, or a sum weighted by the mask"),
    (("unique",), r"", "a result's shape depends on values: unique()", "do it once, before the loop"),
    (("bincount",), r"", "a result's shape depends on values: bincount()",
     "one_hot(x, classes).sum(0), or scatter_add into zeros of a known size"),
    (("repeat_interleave",), r"", "a result's shape depends on values: the repeats",
     "give the repeats as a Python number"),
    (("save", "set_state", "to_vector"), r"", "values are written out", "save after the loop, or every so many steps"),
    (("to",), r"", "values are copied to another device", "make them there, or copy once, before the loop"),
    (("data_ptr",), r"", "the address of values was asked for", "ask after the step"),
    (("eager op",), r"", "an op ran in eager mode on what the step computes",
     "leave smolder.eager() off around the step"),
    (("trace bound",), r"", "the step grew past its bound of ops", "call smolder.mark_step() once an iteration"),
]  # fmt: skip

# Syncs that a program asks for where a step ends, as it does where it calls a compiled function.
BOUNDARIES = {"mark_step", "optimizer.step", "compiled function"}

# Why two kernels are not one, as the compiler says it: what that means.
_NOT_FUSED = {
    "it must be in memory": "one of them reads or writes whole tensors in memory",
    "its elements are moved, and something is reduced on the way": "the reader takes elements of a whole result",
    "its elements are moved, and its kernel would be too large": (
        "the reader takes elements in several places, and each is computed in its kernel: past its budget of statements"
    ),
    "its elements are moved, and computing them again takes longer than memory": (
        "the reader takes elements in several places, and would compute each anew"
    ),
    "memory would be held longer": "what it is computed of would have to be kept for its reader",
    "a library call": "calls of libraries are steps of their own",
    "it is kept apart": "lowering found that it cannot be read inside the kernel",
    "the kernel is large enough": "a larger kernel would take too long to compile",
    "a column reduction ends its kernel": "its result is complete only when all rows have been read",
    "partials end their kernel": "it sums in parts, which a second kernel adds up",
    "a reduced row joins dims that are needed apart": "one reads several dimensions as a row, the other needs them apart",
    "its rows are not the reader's rows": "they go over different rows",
    "its elements are not the reader's rows": "one result an element meets one result a row",
    "a value is spread over what is no row of it": "a broadcast that is not along the kernel's rows",
    "the loops do not fit": "they go over different shapes",
    "the rows do not fit": "they go over different rows",
    "one is computed once a row, the other once an element": "the reader goes over other elements than the row's",
    "a value between them must be in memory": "what lies between them is in memory",
    "a value between them is kept apart": "what lies between them is kept apart",
    "a value between them is moved after a reduction": "a reduced value changes its place on the way",
    "too few chunks of rows to share among threads": "one kernel would leave threads idle",
    "too few columns to share among threads": "one kernel would leave threads idle",
    "it would have to run before and after another step": "another step stands between them",
    "one of them needs what the other makes": "they run one after the other",
    "they are not as many turns of a loop": "kernels of 1, 2, 4 and 8 turns serve loops of any length",
    "they are far apart: memory would be held longer": "they are far apart in the program",
}

# Changes that often remove a recompile, by its cause: as the table of docs/explain.md.
_RECOMPILES = {
    "shape": "pad, or drop the last batch",
    "dtype": "convert once, before the loop",
    "attribute": "as few values of the argument as can be",
    "topology": "branch on tensors by smolder.where; keep lists short",
    "liveness": "keep what is needed only, or keep it in each step",
    "mode": "enter the region in each step",
    "new": "a warm-up",
}


def of_break(reason, where):
    """Says what a sync of this reason at this line is, and what would remove it."""
    line = source_line(where)
    for reasons, pattern, what, advice in _BREAKS:
        if reason in reasons and re.search(pattern, line):
            return what, advice
    return f"values are read: {reason}", "read them after the step"


def of_neighbours(why, kinds):
    """Says what it means that two kernels of these kinds are not one."""
    if why == "it must be in memory" and "kernel" not in kinds[:1]:
        return "the first is a call, which writes memory"
    if why == "it must be in memory" and "kernel" not in kinds[1:]:
        return "the second is a call, which reads memory"
    return _NOT_FUSED.get(why, "")


def of_recompile(cause):
    """Says what often removes a recompile of this cause."""
    return _RECOMPILES.get(cause, "")
