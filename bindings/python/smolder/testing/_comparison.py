"""Whether values are close: numbers, tensors, and containers of them, told apart as torch tells them."""

from __future__ import annotations

import cmath
import collections.abc
import contextlib
import dataclasses
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from smolder import _core
from smolder._creation import as_tensor, tensor
from smolder._tensor import Size
from smolder._warn import warn

# Relative and absolute tolerance by dtype; others have to be equal.
_TOLERANCES = {
    _core.float16: (1e-3, 1e-5),
    _core.bfloat16: (1.6e-2, 1e-5),
    _core.float32: (1.3e-6, 1e-5),
    _core.float64: (1e-7, 1e-7),
    _core.complex64: (1.3e-6, 1e-5),
    _core.complex128: (1e-7, 1e-7),
}
_OLD_TOLERANCES = {_core.float16: (1e-3, 1e-3), _core.float32: (1e-4, 1e-5), _core.float64: (1e-5, 1e-8)}
_NOT_DATACLASSES = (type, _core.Tensor, types.UnionType, types.GenericAlias, np.ndarray, np.generic)
_DTYPES = {int: _core.int64, float: _core.float64, complex: _core.float64}  # of numbers, for tolerances


class _Mismatch(Exception):
    """A difference, with the type of error that tells it and where in containers it is."""

    def __init__(self, kind, text, where=()):
        super().__init__(text)
        self.kind, self.text, self.where = kind, text, where

    def to_error(self, msg=None):
        if isinstance(msg, str):
            return self.kind(msg)
        text = self.text
        if self.where:
            text += f"\n\nThe failure occurred for item {''.join(str([at]) for at in self.where)}"
        return self.kind(msg(text) if callable(msg) else text)


def _tolerances(dtypes, rtol, atol, where, table=_TOLERANCES):
    if (rtol is None) != (atol is None):
        missing = "rtol" if rtol is None else "atol"
        raise _Mismatch(
            ValueError, f"Both 'rtol' and 'atol' must be either specified or omitted, but got no {missing}.", where
        )
    if rtol is not None:
        return rtol, atol
    rtols, atols = zip(*(table.get(dtype, (0.0, 0.0)) for dtype in dtypes), strict=True)
    return max(rtols), max(atols)


def _difference(kind, value, index, allowed, equality):
    text = (
        f"{kind.title()} difference: {value}"
        if index is None
        else f"Greatest {kind} difference: {value} at index {index}"
    )
    return text if equality else f"{text} (up to {allowed} allowed)"


def _text(what, extra, absolute, relative, rtol, atol):
    equality = rtol == 0 and atol == 0
    return (
        f"{what} are not {'equal' if equality else 'close'}!\n\n{extra}\n"
        f"{_difference('absolute', *absolute, atol, equality)}\n{_difference('relative', *relative, rtol, equality)}"
    )


def _compare_numbers(actual, expected, where, rtol, atol, equal_nan):
    if actual == expected or (equal_nan and cmath.isnan(actual) and cmath.isnan(expected)):
        return
    absolute = abs(actual - expected)
    if cmath.isfinite(absolute) and absolute <= atol + rtol * abs(expected):
        return
    raise _Mismatch(AssertionError, _number_text(actual, expected, rtol, atol), where)


def _number_text(actual, expected, rtol, atol):
    absolute = abs(actual - expected)
    relative = float("inf") if expected == 0 else absolute / abs(expected)
    extra = f"Expected {expected} but got {actual}."
    return _text("Scalars", extra, (absolute, None), (relative, None), rtol, atol)


def _compare_tensors(actual, expected, where, options):
    def differ(name, a, b):
        text = f"The values for attribute '{name}' do not match: {a} != {b}."
        return _Mismatch(AssertionError, text, where)

    rtol, atol = _tolerances((actual.dtype, expected.dtype), options["rtol"], options["atol"], where)
    if actual.shape != expected.shape:
        raise differ("shape", actual.shape, expected.shape)
    if options["check_stride"] and actual.stride() != expected.stride():
        raise differ("stride()", actual.stride(), expected.stride())
    if actual.device != expected.device:
        if options["check_device"]:
            raise differ("device", actual.device, expected.device)
        actual, expected = actual.cpu(), expected.cpu()
    if actual.dtype != expected.dtype:
        if options["check_dtype"]:
            raise differ("dtype", actual.dtype, expected.dtype)
        dtype = _core.promote_types(actual.dtype, expected.dtype)
        actual, expected = actual.to(dtype), expected.to(dtype)
    matches = _core.isclose(actual, expected, rtol, atol, options["equal_nan"])
    if matches.all():
        return
    if actual.dim() == 0:
        text = _number_text(actual.item(), expected.item(), rtol, atol)
    else:
        text = _tensor_text(actual.detach(), expected.detach(), matches, rtol, atol)
    raise _Mismatch(AssertionError, text, where)


def _tensor_text(actual, expected, matches, rtol, atol):
    n = matches.numel()
    wrong = n - int(matches.sum())
    actual, expected, equal = actual.flatten(), expected.flatten(), matches.flatten()
    if not (actual.dtype.is_floating_point or actual.dtype.is_complex):
        actual, expected = actual.to(_core.int64), expected.to(_core.int64)

    def greatest(difference):
        value, at = _core.max(difference.masked_fill(equal, 0), 0)
        return value.item(), tuple(int(i) for i in np.unravel_index(int(at), tuple(matches.shape)))

    absolute = (actual - expected).abs()
    extra = f"Mismatched elements: {wrong} / {n} ({wrong / n:.1%})"
    return _text("Tensor-likes", extra, greatest(absolute), greatest(absolute / expected.abs()), rtol, atol)


# -- pairs of what is compared


def _both(actual, expected, kinds):
    return isinstance(actual, kinds) and isinstance(expected, kinds)


def _number(x):
    return x.item() if isinstance(x, np.number) else x


def _as_tensor(x):
    """A tensor of what is like one; None of all else."""
    with contextlib.suppress(Exception):
        return x if isinstance(x, _core.Tensor) else as_tensor(x)


def _pair(actual, expected, where, options):
    """The comparison of two things that are no containers, to be called."""
    if actual is None or expected is None:
        return lambda: _same(actual, expected, "None mismatch", where)
    if _both(actual, expected, (bool, np.bool_)):
        return lambda: _same(bool(actual), bool(expected), "Booleans mismatch", where)
    if _both(actual, expected, (int, float, complex, np.number)):
        a, b = _number(actual), _number(expected)
        dtypes = [_DTYPES[int if isinstance(x, bool) else type(x)] for x in (a, b)]
        rtol, atol = _tolerances(dtypes, options["rtol"], options["atol"], where)

        def compare():
            if options["check_dtype"] and type(a) is not type(b):
                text = f"The (d)types do not match: {type(a)} != {type(b)}."
                raise _Mismatch(AssertionError, text, where)
            _compare_numbers(a, b, where, rtol, atol, options["equal_nan"])

        return compare
    related = isinstance(expected, type(actual)) or isinstance(actual, type(expected))
    if related and (options["allow_subclasses"] or type(actual) is type(expected)):
        a, b = _as_tensor(actual), _as_tensor(expected)
        if a is not None and b is not None:
            _tolerances((a.dtype, b.dtype), options["rtol"], options["atol"], where)
            return lambda: _compare_tensors(a, b, where, options)
    raise _Mismatch(
        TypeError, f"No comparison pair was able to handle inputs of type {type(actual)} and {type(expected)}.", where
    )


def _same(actual, expected, what, where):
    if actual is not expected:
        raise _Mismatch(AssertionError, f"{what}: {actual} is not {expected}", where)


def _pairs(actual, expected, where, options):
    """All comparisons of what two containers hold."""
    sequences = (collections.abc.Sequence, Size)
    if _both(actual, expected, sequences) and not isinstance(actual, str) and not isinstance(expected, str):
        if len(actual) != len(expected):
            text = f"The length of the sequences mismatch: {len(actual)} != {len(expected)}"
            raise _Mismatch(AssertionError, text, where)
        items = [(i, actual[i], expected[i]) for i in range(len(actual))]
    elif _both(actual, expected, collections.abc.Mapping):
        keys, others = set(actual), set(expected)
        if keys != others:
            raise _Mismatch(
                AssertionError,
                "The keys of the mappings do not match:\n"
                f"Missing keys in the actual mapping: {sorted(others - keys)}\n"
                f"Additional keys in the actual mapping: {sorted(keys - others)}",
                where,
            )
        with contextlib.suppress(Exception):
            keys = sorted(keys)
        items = [(key, actual[key], expected[key]) for key in keys]
    elif _is_dataclass(actual) and type(actual) is type(expected):
        fields = [f.name for f in dataclasses.fields(actual) if f.compare]
        items = [(name, getattr(actual, name), getattr(expected, name)) for name in fields]
    else:
        return [_pair(actual, expected, where, options)]
    return [pair for at, a, b in items for pair in _pairs(a, b, (*where, at), options)]


def _is_dataclass(x):
    return not isinstance(x, _NOT_DATACLASSES) and dataclasses.is_dataclass(x)


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: str | Callable[[str], str] | None = None,
) -> None:
    """Raises AssertionError unless |actual - expected| <= atol + rtol * |expected| everywhere, in containers too.

    Tolerances that are not given are those of the dtypes. msg is said instead, or a function of what would be said.
    """
    __tracebackhide__ = True
    options = {
        "allow_subclasses": allow_subclasses,
        "rtol": rtol,
        "atol": atol,
        "equal_nan": equal_nan,
        "check_device": check_device,
        "check_dtype": check_dtype,
        "check_stride": check_stride,
    }
    try:
        pairs = _pairs(actual, expected, (), options)
    except _Mismatch as e:
        raise e.to_error() from None
    for compare in pairs:
        try:
            compare()
        except _Mismatch as e:
            raise e.to_error(msg) from None


def assert_allclose(
    actual: Any,
    expected: Any,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = True,
    msg: str | Callable[[str], str] | None = "",
) -> None:
    """Deprecated: assert_close, with other tolerances, and whatever the dtypes are."""
    warn(
        "`smolder.testing.assert_allclose()` is deprecated since 1.12 and will be removed in a future release. Please use "
        "`smolder.testing.assert_close()` instead. You can find detailed upgrade instructions in "
        "https://github.com/pytorch/pytorch/issues/61844.",
        FutureWarning,
    )
    actual = actual if isinstance(actual, _core.Tensor) else tensor(actual)
    expected = expected if isinstance(expected, _core.Tensor) else tensor(expected, dtype=actual.dtype)
    if rtol is None and atol is None:
        rtol, atol = _tolerances((actual.dtype, expected.dtype), None, None, (), _OLD_TOLERANCES)
    assert_close(actual, expected, rtol=rtol, atol=atol, equal_nan=equal_nan, check_dtype=False, msg=msg or None)
