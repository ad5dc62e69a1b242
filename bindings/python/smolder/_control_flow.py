"""Control flow that is recorded, not run: branches and loops that depend on what tensors hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from smolder import _core
from smolder._typing import Tensor
from smolder.utils import _pytree as pytree

__all__ = ["cond", "scan", "while_loop"]


def _is_tensor(x):
    return isinstance(x, _core.Tensor)


class _Tree:
    """A tree that a function returned: its tensors, and what puts others like them together again."""

    def __init__(self, name, tree, kinds=(int, bool)):
        leaves, self.form = pytree.tree_flatten(tree)
        self.constants = {i: x for i, x in enumerate(leaves) if not _is_tensor(x)}
        self.tensors = [x for x in leaves if _is_tensor(x)]
        for x in self.constants.values():
            if type(x) not in kinds:
                raise RuntimeError(
                    f"{name}: HigherOrderOperator body's output must consist of tensors or ints/bools only but got "
                    f"{type(x)}."
                )

    def put_together(self, tensors):
        tensors = iter(tensors)
        count = self.form.num_leaves
        leaves = [self.constants[i] if i in self.constants else next(tensors) for i in range(count)]
        return pytree.tree_unflatten(leaves, self.form)


def cond(
    pred: Tensor | bool, true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: Sequence[Any] = ()
) -> Any:
    """Conditionally applies `true_fn` or `false_fn`: both are recorded, and the one taken runs when the step does.

    `pred` is a tensor of one element, or a Python bool or number, which chooses at once. The branches get `operands`, a
    tuple or list of trees of tensors, and return trees alike in structure, shapes and dtypes. Tensors that a branch
    reaches otherwise are operands too. As torch.cond.
    """
    if isinstance(pred, bool | int | float):
        return true_fn(*operands) if pred else false_fn(*operands)
    if not _is_tensor(pred):
        raise RuntimeError(f"Expected pred to be bool or tensor, but got {pred}.")
    if pred.numel() != 1:
        raise RuntimeError(f"Expected pred to be bool or single-element tensor, but got {pred}.")
    if not callable(true_fn) or not callable(false_fn):
        raise RuntimeError("Expect both branches to be callable.")
    if not isinstance(operands, tuple | list) or pytree.tree_any(lambda t: not _is_tensor(t), operands):
        raise RuntimeError(
            "Expect operands to be a tuple of possibly nested dict/list/tuple that only consists of tensor leaves, but "
            f"got {operands}."
        )
    flat, spec = pytree.tree_flatten(operands)
    yes = no = None

    def true_branch(*flat):
        nonlocal yes
        yes = _Tree("cond", true_fn(*pytree.tree_unflatten(list(flat), spec)))
        return yes.tensors

    def false_branch(*flat):
        nonlocal no
        no = _Tree("cond", false_fn(*pytree.tree_unflatten(list(flat), spec)))
        _check_alike(yes, no)
        return no.tensors

    results = _core._cond(pred, true_branch, false_branch, flat)
    return yes.put_together(results)


def _check_alike(yes, no):
    if yes.form != no.form:
        raise RuntimeError(
            "Unmatched output spec from torch.cond branches: "
            f"true branch tree_spec {yes.form} vs false branch tree_spec {no.form}."
        )
    if list(map(repr, yes.constants.items())) != list(map(repr, no.constants.items())):
        raise RuntimeError(
            f"cond: the branches return different constants, {list(yes.constants.values())} and "
            f"{list(no.constants.values())}: return tensors where they differ"
        )


def while_loop(cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried_inputs: Sequence[Any]) -> Any:
    """Runs `body_fn(*carried)` while `cond_fn(*carried)` is true; both are recorded, and run when the step does.

    `carried_inputs` is a tuple or list of trees of tensors; `body_fn` returns its like, and `cond_fn` a bool tensor of no
    dimensions. An int is carried as a tensor. As torch's while_loop.
    """
    if not callable(cond_fn) or not callable(body_fn):
        raise RuntimeError("Expect cond_fn and body_fn to be callable.")
    if not isinstance(carried_inputs, tuple | list) or pytree.tree_any(
        lambda t: not (_is_tensor(t) or type(t) is int), carried_inputs
    ):
        raise RuntimeError(
            "Expect carried_inputs to be a tuple of possibly nested dict/list/tuple that only"
            f"consists of tensor or int leaves, but got {carried_inputs}."
        )
    flat, spec = pytree.tree_flatten(carried_inputs)
    flat = [x if _is_tensor(x) else _core.full([], x, dtype=_core.int64) for x in flat]
    never = False

    def condition(*flat):
        nonlocal never
        out = cond_fn(*pytree.tree_unflatten(list(flat), spec))
        if _is_tensor(out):
            return out
        if out is True:
            raise RuntimeError(
                "torch.while_loop: infinite loop detected: Infinite loop detected because while_loop's cond_fn always "
                "returns the same value True."
            )
        if out is not False:
            raise RuntimeError(
                "torch.while_loop: unsupported cond_fn return type: Expected cond_fn to return a scalar tensor or a bool "
                f"but got {type(out)}."
            )
        never = True
        return _core.full([], False, dtype=_core.bool)

    def body(*flat):
        out = body_fn(*pytree.tree_unflatten(list(flat), spec))
        leaves, form = pytree.tree_flatten(out if isinstance(out, tuple | list) else (out,))
        if form.num_leaves != spec.num_leaves or [c.num_leaves for c in form.children_specs] != [
            c.num_leaves for c in spec.children_specs
        ]:
            raise RuntimeError(
                "Expected body_fn_output and carried_inputs to have same number of outputs but got "
                f"lhs:{len(leaves)} and rhs:{len(flat)}, as {form} and {spec}"
            )
        return [x if _is_tensor(x) else _as_carried(x) for x in leaves]

    results = _core._while_loop(condition, body, flat)
    return pytree.tree_unflatten([x.clone() for x in flat] if never else results, spec)


def _as_carried(x):
    if type(x) is not int:
        raise RuntimeError(
            f"while_loop: HigherOrderOperator body's output must consist of tensors or ints/bools only but got {type(x)}."
        )
    return _core.full([], x, dtype=_core.int64)


def scan(
    combine_fn: Callable[..., Any],
    init: Any,
    xs: Sequence[Tensor],
    *,
    dim: int = 0,
    reverse: bool = False,
    length: int | None = None,
) -> Any:
    """`combine_fn(carry, x)` for each slice of `xs` along `dim`: what is carried in the end, and the slices it returns,
    stacked along `dim`.

    `init` and `xs` are trees of tensors; `combine_fn` returns what is carried next, like `init`, and a tree of results.
    It is recorded once, and runs when the step does. As torch's scan.
    """
    carried, carry_spec = pytree.tree_flatten(init)
    scanned, xs_spec = pytree.tree_flatten(xs)
    counted = not any(_is_tensor(x) for x in scanned)
    if not callable(combine_fn):
        raise RuntimeError(f"Combine_fn must be a callable, but got {combine_fn}")
    if length is not None and (isinstance(length, bool) or not isinstance(length, int) or length < 0):
        raise RuntimeError(f"scan() length must be a non-negative integer, got {length!r}")
    if counted:
        if length is None:
            return init, []
        scanned = [_core.zeros([length], dtype=_core.int64)]
    if not isinstance(dim, int):
        raise RuntimeError(f"Dim must be an int, but got {type(dim)}")
    if not isinstance(reverse, bool):
        raise RuntimeError(f"Reverse must be a bool, but got {type(reverse)}")
    if not carried:
        raise RuntimeError("scan() operator requires init leaves.")
    for what, leaves in (("init", carried), ("xs", scanned)):
        for x in leaves:
            if not _is_tensor(x):
                raise RuntimeError(f"All {what} leaves must be a Tensor but got {x}")
    if length is not None and scanned[0].shape[dim] != length:
        raise RuntimeError(f"scan() length={length} does not match xs size along dim={dim}: {scanned[0].shape[dim]}")
    results = None

    def combine(carry, x):
        nonlocal results
        x = None if counted else pytree.tree_unflatten(list(x), xs_spec)
        out = combine_fn(pytree.tree_unflatten(list(carry), carry_spec), x)
        if not isinstance(out, tuple | list) or len(out) != 2:
            raise RuntimeError(f"scan: combine_fn must return a carry and an output, got {out}")
        results = _Tree("scan", out[1], (int, bool, type(None)))
        return pytree.tree_leaves(out[0]), results.tensors

    carry, stacked = _core._scan(combine, carried, scanned, dim, reverse)
    return pytree.tree_unflatten(carry, carry_spec), results.put_together(stacked)
