"""Calls of functions of tensors with DTensors: which placements it wants, what it computes locally, and where that lies.

An op that no rule is for raises. Rules keep to the gradients that _redistribute.py states: what is replicated has a
replicated gradient, so an operand that is replicated beside one that is not is `copied`, which sums its gradients.
"""

from __future__ import annotations

from typing import Any

from smolder.distributed.tensor import _redistribute as moves
from smolder.distributed.tensor._api import DTensor, plain, wrap
from smolder.distributed.tensor.placement_types import DTensorSpec, Partial, Replicate, Shard
from smolder.overrides import DisableTorchFunctionSubclass

__all__ = ["call", "mesh_of", "moved", "placed", "rule"]

_rules: dict[str, Any] = {}

# Each element of the result is of the same elements of the operands.
POINTWISE = frozenset({
    "abs", "absolute", "acos", "acosh", "add", "addcdiv", "addcmul", "arccos", "arccosh", "arcsin", "arcsinh",
    "arctan", "arctan2", "arctanh", "asin", "asinh", "assign", "atan", "atan2", "atanh", "bfloat16", "bitwise_and",
    "bitwise_not", "bitwise_or", "bitwise_xor", "bool", "ceil", "celu", "clamp", "clamp_max", "clamp_min", "clip",
    "clone", "conj", "contiguous", "copy_", "copysign", "cos", "cosh", "deg2rad", "detach", "detach_", "digamma", "div",
    "divide", "dropout", "double", "elu", "eq", "erf", "erfc", "erfinv", "exp", "exp2", "expm1", "fill_", "fix",
    "float", "float_power", "floor", "floor_divide", "fmax", "fmin", "fmod", "frac", "ge", "gelu", "gt", "half",
    "hardshrink", "hardsigmoid", "hardswish", "hardtanh", "hypot", "isfinite", "isinf", "isnan", "le", "leaky_relu",
    "lerp", "less", "lgamma", "log", "log10", "log1p", "log2", "log_sigmoid", "logaddexp", "logical_and",
    "logical_not", "logical_or", "logical_xor", "logit", "logsigmoid", "long", "lt", "masked_fill", "maximum",
    "minimum", "mish", "mul", "multiply", "nan_to_num", "ne", "neg", "negative", "ones_like", "pow", "prelu",
    "rad2deg", "reciprocal", "relu", "relu6", "remainder", "round", "rsqrt", "rsub", "selu", "sgn", "sigmoid", "sign",
    "signbit", "silu", "sin", "sinc", "sinh", "softplus", "softshrink", "softsign", "sqrt", "square", "sub",
    "subtract", "tan", "tanh", "tanhshrink", "threshold", "to", "true_divide", "trunc", "type_as", "where", "xlogy",
    "zero_", "zeros_like", "full_like", "empty_like", "zero_state", "update_adam", "sgd_step", "adadelta_step",
    "adagrad_step", "adamax_step", "nadam_step", "radam_step", "rmsprop_step",
})  # fmt: skip
# Those of them that turn terms of a sum into terms of the result's sum.
_OF_TERMS = frozenset({
    "add", "sub", "neg", "negative", "clone", "contiguous", "detach", "to", "float", "double", "half", "bfloat16",
    "copy_", "assign",
})  # fmt: skip
_OPERATORS = frozenset({
    "add", "sub", "mul", "truediv", "div", "floordiv", "mod", "pow", "eq", "ne", "lt", "le", "gt", "ge", "and", "or",
    "xor", "neg", "abs", "invert",
})  # fmt: skip
_OTHER_NAMES = {"truediv": "div", "floordiv": "floor_divide", "mod": "remainder", "invert": "bitwise_not"}
_OTHER_NAMES |= {"and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor"}


def rule(*names: str) -> Any:
    """A decorator of what answers calls of functions of these names: answer(func, args, kwargs)."""

    def note(function):
        for name in names:
            _rules[name] = function
        return function

    return note


def call(func: Any, args: Any, kwargs: Any) -> Any:
    """The result of a function of DTensors."""
    from smolder.distributed.tensor import _rules as _  # noqa: F401

    name = _plain_name(getattr(func, "__name__", ""))
    answer = _rules.get(name)
    if answer is not None:
        return answer(func, args, kwargs)
    base = name[:-1] if name.endswith("_") and not name.endswith("__") else name
    if name in POINTWISE or base in POINTWISE:
        return _pointwise(func, base if name not in POINTWISE else name, args, kwargs, name.endswith("_"))
    if name in _OF_THE_LOCAL:
        return func(*map(plain, args), **{k: plain(v) for k, v in kwargs.items()})
    raise NotImplementedError(
        f"{name or func}: of a DTensor this is not supported: take to_local() or full_tensor(), or redistribute it"
    )


# Attributes that the local tensor and the whole have in common.
_OF_THE_LOCAL = frozenset({
    "", "__get__", "__set__", "is_floating_point", "is_complex", "is_signed", "element_size", "get_device", "register_hook",
    "is_inference", "register_post_accumulate_grad_hook", "retain_grad", "data_ptr", "_version", "output_nr", "dtype",
    "device", "requires_grad", "is_leaf", "grad_fn", "itemsize", "is_cuda", "is_cpu", "layout", "untyped_storage",
})  # fmt: skip


def _plain_name(name):
    """Operators by the names of their functions."""
    if name.startswith("__") and name.endswith("__"):
        short = name[2:-2]
        for prefix in ("", "r", "i"):
            bare = short.removeprefix(prefix)
            if bare in _OPERATORS:
                return _OTHER_NAMES.get(bare, bare) + ("_" if prefix == "i" else "")
    return name


def mesh_of(values: Any) -> Any:
    """The mesh of the DTensors among values: they must be of one."""
    found = [v for v in values if isinstance(v, DTensor)]
    for v in found:
        if v._spec.mesh != found[0]._spec.mesh:
            raise NotImplementedError(
                f"an op of DTensors of different meshes is not supported: {v._spec.mesh} and {found[0]._spec.mesh}"
            )
    return found[0]._spec.mesh


def moved(x: Any, placements: Any) -> Any:
    """A DTensor in other placements."""
    placements = tuple(placements)
    if placements == x._spec.placements:
        return x
    local = moves.redistributed(plain(x), x._spec, placements)
    return wrap(local, DTensorSpec(x._spec.mesh, placements, x._spec.shape))


def placed(local: Any, mesh: Any, placements: Any, shape: Any) -> Any:
    """A result."""
    return wrap(local, DTensorSpec(mesh, tuple(placements), tuple(int(n) for n in shape)))


def check_mixed(func: Any, values: Any) -> None:
    """Raises where a tensor that is none of the mesh's has more than one element."""
    from smolder import Tensor

    for v in values:
        if isinstance(v, Tensor) and not isinstance(v, DTensor) and v.dim() > 0:
            raise RuntimeError(
                f"{func.__name__}: got mixed torch.Tensor and DTensor, need to convert all torch.Tensor to DTensor before "
                "calling distributed operators!"
            )


# -- elementwise


def _broadcast(shapes):
    rank = max(map(len, shapes), default=0)
    out = [1] * rank
    for shape in shapes:
        for i, n in enumerate(reversed(shape)):
            if n != 1:
                out[rank - 1 - i] = n
    return tuple(out)


def _wanted(name, xs, rank, d, fixed):
    """Where the result lies in dimension `d` of the mesh."""
    found = []
    for x in xs if fixed is None else [fixed]:
        p = x._spec.placements[d]
        if isinstance(p, Shard):
            at = p.dim + rank - len(x._spec.shape)
            found.append(p.at(at))
        else:
            found.append(p)
    shards = [p for p in found if isinstance(p, Shard)]
    if shards:
        return shards[0]
    partial = [p for p in found if isinstance(p, Partial)]
    if partial and all(p == partial[0] for p in found) and name in _OF_TERMS:
        return partial[0]
    scaling = name in ("mul", "div", "multiply", "divide", "true_divide")
    if len(partial) == 1 and scaling and found[0] is partial[0] and partial[0].reduce_op in ("sum", "avg"):
        return partial[0]
    return Replicate()


def _operand(x, targets, rank, history):
    """The local tensor of an operand, beside others that lie as `targets` say."""
    mesh, shape = x._spec.mesh, x._spec.shape
    goal, summed = [], []
    for d, target in enumerate(targets):
        p = x._spec.placements[d]
        if isinstance(target, Shard):
            at = target.dim - (rank - len(shape))
            spread = at < 0 or (shape[at] == 1 and p != target)
            if spread:
                goal.append(Replicate())
                summed.append(d)
            else:
                goal.append(target.at(at))
        elif isinstance(target, Partial) and isinstance(p, Replicate):
            goal.append(Replicate())
            summed.append(d)
        else:
            goal.append(target)
    local = plain(moved(x, goal))
    for d in summed if history else ():
        local = moves.copied(local, mesh.get_group(d))
    return local


def _pointwise(func, name, args, kwargs, in_place):
    values = [*args, *kwargs.values()]
    xs = [v for v in values if isinstance(v, DTensor)]
    mesh = mesh_of(values)
    check_mixed(func, values)
    # A number for all is a sum's term nowhere.
    numbers = any(isinstance(v, int | float) and not isinstance(v, bool) for v in args[1:])
    of_terms = "" if name in ("add", "sub") and numbers else name
    shape = _broadcast([x._spec.shape for x in xs])
    written = args[0] if in_place or name in ("assign", "update_adam") else None
    targets = [_wanted(of_terms, xs, len(shape), d, written) for d in range(mesh.ndim)]
    if written is not None:
        for d, p in enumerate(targets):
            partial = isinstance(written._spec.placements[d], Partial)
            if partial and not (
                name in ("mul", "div", "zero", "copy_", "assign", "add", "sub", "zero_") and not numbers
            ):
                raise NotImplementedError(f"{name}_ of a DTensor with {p!r} is not supported: redistribute it first")
            if partial:
                targets[d] = written._spec.placements[d]
    history = written is None

    def local(v):
        if v is written:
            return plain(v)
        return _operand(v, targets, len(shape), history) if isinstance(v, DTensor) else v

    out = func(*map(local, args), **{k: local(v) for k, v in kwargs.items()})
    if written is not None:
        return written
    if isinstance(out, tuple):
        return tuple(None if o is None else placed(o, mesh, targets, shape) for o in out)
    return placed(out, mesh, targets, shape)


def disabled() -> Any:
    """Within it, functions take DTensors for their local tensors."""
    return DisableTorchFunctionSubclass()
