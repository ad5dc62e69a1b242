"""torch's ops on lists of tensors: one op for each, which the compiler makes few kernels of."""

from smolder import _core
from smolder._tensor import Tensor

__all__ = []


def _spread(operand, n):
    """An operand for each of n tensors: of a list, or the same for all."""
    if not isinstance(operand, list | tuple):
        return [operand] * n
    if len(operand) != n:
        raise RuntimeError(f"Tensor lists must have the same number of tensors, got {n} and {len(operand)}")
    return operand


def _check(tensors):
    if not tensors:
        raise RuntimeError("Tensor list must have at least one tensor.")


def _op(name):
    plain = getattr(Tensor, name)

    def foreach(self, *operands, **options):
        _check(self)
        lists = [_spread(o, len(self)) for o in operands]
        return tuple(plain(t, *(given[i] for given in lists), **options) for i, t in enumerate(self))

    in_place = getattr(Tensor, f"{name}_", None)

    def foreach_in_place(self, *operands, **options):
        _check(self)
        lists = [_spread(o, len(self)) for o in operands]
        for i, t in enumerate(self):
            given = [of[i] for of in lists]
            if in_place:
                in_place(t, *given, **options)
            else:
                _core.assign(t, plain(t, *given, **options))
        return self

    _add(f"_foreach_{name}", foreach, f"{name} of each tensor, with one operand for all or one for each.")
    _add(f"_foreach_{name}_", foreach_in_place, f"As _foreach_{name}, in place; gives the list.")


def _add(name, function, doc):
    function.__name__, function.__doc__ = name, doc
    globals()[name] = function
    __all__.append(name)


for _name in ("abs", "add", "ceil", "clamp_max", "clamp_min", "cos", "div", "erf", "exp", "floor", "log", "maximum"):
    _op(_name)
for _name in (
    "minimum",
    "mul",
    "neg",
    "pow",
    "reciprocal",
    "round",
    "rsqrt",
    "sigmoid",
    "sign",
    "sin",
    "sqrt",
    "sub",
    "tanh",
):
    _op(_name)
_op("lerp")


def _ternary(name):
    plain = getattr(_core, name)

    def foreach(self, tensor1, tensor2, value=1):
        _check(self)
        given = (_spread(x, len(self)) for x in (tensor1, tensor2, value))
        return tuple(plain(t, a, b, value=v) for t, a, b, v in zip(self, *given, strict=True))

    def foreach_in_place(self, tensor1, tensor2, value=1):
        for t, new in zip(self, foreach(self, tensor1, tensor2, value), strict=True):
            _core.assign(t, new)
        return self

    _add(f"_foreach_{name}", foreach, f"{name} of each tensor.")
    _add(f"_foreach_{name}_", foreach_in_place, f"{name} of each tensor, in place.")


_ternary("addcmul")
_ternary("addcdiv")


def _foreach_norm(self, ord=2, dtype=None):
    """The norm of each tensor."""
    _check(self)
    return tuple((t if dtype is None else t.to(dtype)).norm(ord) for t in self)


def _foreach_zero_(self):
    """Zeroes each tensor."""
    _check(self)
    for t in self:
        t.zero_()
    return self


def _foreach_copy_(self, src, non_blocking=False):
    """Copies tensors into tensors. non_blocking changes nothing: work is always asynchronous until a value is read."""
    _check(self)
    for t, s in zip(self, _spread(src, len(self)), strict=True):
        t.copy_(s)
    return self


__all__ += ["_foreach_copy_", "_foreach_norm", "_foreach_zero_"]
