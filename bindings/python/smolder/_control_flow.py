"""Control flow that is recorded, not run: branches and loops that depend on what tensors hold."""

from smolder import _core
from smolder.utils import _pytree as pytree

__all__ = ["cond"]


def _is_tensor(x):
    return isinstance(x, _core.Tensor)


class _Recorded:
    """A function over flat lists of tensors that keeps the form of what it returned."""

    def __init__(self, name, fn, spec):
        self.name, self.fn, self.spec = name, fn, spec

    def __call__(self, *flat):
        leaves, self.form = pytree.tree_flatten(self.fn(*pytree.tree_unflatten(list(flat), self.spec)))
        self.constants = {i: x for i, x in enumerate(leaves) if not _is_tensor(x)}
        for x in self.constants.values():
            if type(x) not in (int, bool):
                raise RuntimeError(
                    f"{self.name}: HigherOrderOperator body's output must consist of tensors or ints/bools only but got "
                    f"{type(x)}."
                )
        return [x for x in leaves if _is_tensor(x)]

    def put_together(self, tensors):
        tensors = iter(tensors)
        count = self.form.num_leaves
        leaves = [self.constants[i] if i in self.constants else next(tensors) for i in range(count)]
        return pytree.tree_unflatten(leaves, self.form)


def cond(pred, true_fn, false_fn, operands=()):
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
    yes, no = _Recorded("cond", true_fn, spec), _Recorded("cond", false_fn, spec)
    # The forms are compared before what the branches return is.
    results = _core._cond(pred, yes, _Alike(no, yes), flat)
    return yes.put_together(results)


class _Alike:
    """The false branch, whose result must have the form of the true one's."""

    def __init__(self, fn, other):
        self.fn, self.other = fn, other

    def __call__(self, *flat):
        out = self.fn(*flat)
        yes, no = self.other, self.fn
        if yes.form != no.form:
            raise RuntimeError(
                "Unmatched output spec from torch.cond branches: "
                f"true branch tree_spec {yes.form} vs false branch tree_spec {no.form}."
            )
        if yes.constants != no.constants or any(
            type(yes.constants[i]) is not type(no.constants[i]) for i in no.constants
        ):
            raise RuntimeError(
                f"cond: branches return different constants, {list(yes.constants.values())} and "
                f"{list(no.constants.values())}: return tensors where they differ"
            )
        return out
