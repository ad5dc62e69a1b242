"""The argument `out` that functions take: a tensor that the result is written into."""

import functools
import inspect
import typing

from smolder import _core
from smolder._warn import warn

_RESIZED = (
    "An output with one or more elements was resized since it had shape {}, which does not match the required output "
    "shape {}. This behavior is deprecated, and in a future release outputs will not be resized unless they have zero "
    "elements. You can explicitly reuse an out tensor t by resizing it, inplace, to zero elements with t.resize_(0)."
)
_OVERLAP = (
    "unsupported operation: more than one element of the written-to tensor refers to a single memory location. Please "
    "clone() the tensor before performing the operation."
)


def call(function, args, kwargs):
    """A function of C++ that does not know the `out` among its arguments."""
    out = kwargs.pop("out")
    if out is None:
        return function(*args, **kwargs)
    name = function.__name__.removesuffix("_of")
    check(name, out, (*args, *kwargs.values()))
    return into(name, out, function(*args, **kwargs), (*args, *kwargs.values()))


_F = typing.TypeVar("_F")

# NumPy's names of arguments, which torch's functions take too.
_NUMPYS = {"axis": "dim", "keepdims": "keepdim", "x": "input", "a": "input", "x1": "input", "x2": "other"}


def takes_out(function: _F) -> _F:
    """The function with an argument `out`, which is written and returned."""
    signature = inspect.signature(function)
    taken = [str(p.annotation) for p in signature.parameters.values()]
    makes = "dtype" in signature.parameters and not any(t.startswith("Tensor") for t in taken)
    renamed = {k: v for k, v in _NUMPYS.items() if k not in signature.parameters and v in signature.parameters}

    @functools.wraps(function)
    def with_out(*args, out=None, **kwargs):
        if not renamed.keys().isdisjoint(kwargs):
            kwargs = {renamed.get(k, k): v for k, v in kwargs.items()}
        if out is None:
            return function(*args, **kwargs)
        name = function.__name__
        check(name, out, (*args, *kwargs.values()))
        if makes and kwargs.get("dtype") is None:
            kwargs["dtype"] = out.dtype
        return into(name, out, function(*args, **kwargs), (*args, *kwargs.values()))

    parameter = inspect.Parameter("out", inspect.Parameter.KEYWORD_ONLY, default=None)
    listed = list(signature.parameters.values())
    at = next((i for i, p in enumerate(listed) if p.kind == p.VAR_KEYWORD), len(listed))
    with_out.without_out = function
    with_out.__signature__ = signature.replace(parameters=[*listed[:at], parameter, *listed[at:]])
    return with_out


def check(name, out, given):
    """Raises unless `out` may be written by a function that is given these arguments."""
    outs = out if isinstance(out, tuple | list) else (out,)
    for t in outs:
        if not isinstance(t, _core.Tensor):
            raise TypeError(f"{name}(): argument 'out' must be Tensor, not {type(out).__name__}")
    if _core.is_grad_enabled() and any(t.requires_grad for t in (*outs, *_tensors(given))):
        raise RuntimeError(
            f"{name}(): functions with out=... arguments don't support automatic differentiation, but one of the "
            "arguments requires grad."
        )


def into(name, out, result, given=()):
    """Writes what the function called `name` returned of `given` into `out`: a tensor, or as many as there are results."""
    if isinstance(result, _core.Tensor):
        if not isinstance(out, _core.Tensor):
            raise TypeError(f"{name}(): argument 'out' must be Tensor, not {type(out).__name__}")
        _write(name, out, result, given)
        return out
    if not isinstance(result, tuple | list):
        raise TypeError(f"{name}() got an unexpected keyword argument 'out'")
    if isinstance(out, _core.Tensor) or len(out) != len(result):
        got = "Tensor" if isinstance(out, _core.Tensor) else f"{type(out).__name__} of {len(out)}"
        raise TypeError(f"{name}(): argument 'out' must be tuple of {len(result)} Tensors, not {got}")
    for t, r in zip(out, result, strict=True):
        _write(name, t, r, given)
    return getattr(type(result), "_make", type(result))(out)  # a named tuple, or what C++ has for one


def _tensors(given):
    for value in given:
        if isinstance(value, _core.Tensor):
            yield value
        elif isinstance(value, tuple | list):
            yield from _tensors(value)


def category(dtype):
    """Bools, integers, floats and complex numbers, in the order in which one is promoted to the next."""
    return 3 if dtype.is_complex else 2 if dtype.is_floating_point else 0 if dtype == _core.bool else 1


def _write(name, out, result, given):
    if out.device != result.device:
        raise RuntimeError(
            f"{name}(): Expected out tensor to have device {result.device}, but got {out.device} instead"
        )
    if category(result.dtype) > category(out.dtype):
        raise RuntimeError(
            f"{name}(): result type {result.dtype} can't be cast to the desired output type {out.dtype} of out"
        )
    if out.shape != result.shape:
        if any(s == 0 and n > 1 for s, n in zip(out.stride(), out.shape, strict=True)):
            raise RuntimeError(_OVERLAP)
        if any(t is out for t in _tensors(given)):  # it would be another tensor to who has it
            raise RuntimeError(
                f"{name}(): output with shape {list(out.shape)} doesn't match the broadcast shape {list(result.shape)}, "
                "and is an operand, which is not resized"
            )
        if out.numel():
            warn(_RESIZED.format(list(out.shape), list(result.shape)), UserWarning)
        out.resize_(result.shape)
    out.copy_(result)
