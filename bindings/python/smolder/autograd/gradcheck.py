"""Comparing gradients with finite differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from smolder import _core
from smolder._names import listing as _listing
from smolder._typing import Tensor
from smolder._warn import warn

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]
__dir__ = _listing(__name__)


class GradcheckError(RuntimeError):
    """Raised by gradcheck and gradgradcheck."""


def _outputs(result):
    results = (result,) if isinstance(result, _core.Tensor) else tuple(result)
    return tuple(r for r in results if isinstance(r, _core.Tensor) and r.dtype.is_floating_point)


def _is_complex(x):
    return isinstance(x, _core.Tensor) and x.dtype.is_complex


def _in_parts(func, inputs):
    """func and its inputs with real tensors in place of complex ones: pairs of both parts, along a last dimension.

    The gradient of a complex number is that of its parts, so that what holds for these holds for it.
    """
    complex_at = [_is_complex(x) for x in inputs]

    def of_parts(*args):
        given = [_core.view_as_complex(x) if c else x for x, c in zip(args, complex_at, strict=True)]
        results = func(*given)
        several = (results,) if isinstance(results, _core.Tensor) else tuple(results)
        return tuple(_core.view_as_real(r) if _is_complex(r) else r for r in several)

    parts = [
        _core.view_as_real(x.detach().clone()).requires_grad_(x.requires_grad) if c else x
        for x, c in zip(inputs, complex_at, strict=True)
    ]
    return of_parts, tuple(parts)


def _checked_inputs(inputs):
    """Positions of the inputs to differentiate."""
    at = [i for i, x in enumerate(inputs) if isinstance(x, _core.Tensor) and x.requires_grad]
    if not at:
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of the them have requires_grad=True."
        )
    for i in at:
        if not inputs[i].dtype.is_floating_point:
            raise ValueError(f"gradcheck: input {i} is of type {inputs[i].dtype}")
        if inputs[i].dtype != _core.float64:
            warn(
                f"Input #{i} requires gradient and is not a double precision floating point or complex. This check "
                "will likely fail if all the inputs are not of double precision floating point or complex. "
            )
        if any(stride == 0 and n > 1 for stride, n in zip(inputs[i].stride(), inputs[i].shape, strict=True)):
            raise RuntimeError(
                f"The {i}th input has a dimension with stride 0. gradcheck only supports inputs that are "
                "non-overlapping to be able to compute the numerical gradients correctly. You should call "
                ".contiguous on the input before passing it to gradcheck."
            )
        inputs[i].retain_grad()
    return at


def _numerical(func, inputs, at, eps):
    """For the input at `at`: a matrix for each output, d(output)/d(input), by central differences.

    The input itself is moved, which func may also close over.
    """
    x = inputs[at]
    before = x.detach().clone()
    flat = before.cpu().numpy().reshape(-1).astype("float64")
    columns = []
    try:
        for i in range(flat.size):
            sides = []
            for sign in (1, -1):
                moved = flat.copy()
                moved[i] += sign * eps
                x.data.copy_(_core.from_numpy_copy(moved.reshape(tuple(x.shape))))
                # Copies: an output may be a view of the input, which moves on.
                sides.append([o.detach().double().cpu().numpy().flatten() for o in _outputs(func(*inputs))])
            columns.append([(a - b) / (2 * eps) for a, b in zip(*sides, strict=True)])
    finally:
        x.data.copy_(before)
    return columns


def _analytical(outputs, number, xs, seed=None):
    """For each of xs, rows d(output)/d(x) of one output: by one backward pass an element."""
    out = outputs[number]
    rows = []
    for i in range(out.numel()):
        one = out.new_zeros(out.numel())
        one[i] = 1
        rows.append(
            _core.grad((out,), xs, (one.reshape(out.shape),), True, False, True)
            if out.requires_grad
            else (None,) * len(xs)
        )
    return rows


def _forward(func, inputs, at):
    """For the input at `at`: what _numerical returns, by forward mode: one call an element."""
    from smolder.autograd import forward_ad

    x = inputs[at]
    rows = []
    for i in range(x.numel()):
        tangent = x.detach().new_zeros(x.numel())
        tangent[i] = 1
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(x.detach(), tangent.reshape(x.shape))
            outputs = _outputs(func(*inputs[:at], dual, *inputs[at + 1 :]))
            tangents = [forward_ad.unpack_dual(out).tangent for out in outputs]
            rows.append(
                [
                    (_core.zeros_like(out) if t is None else t).detach().double().cpu().numpy().flatten()
                    for out, t in zip(outputs, tangents, strict=True)
                ]
            )
    return rows


def _check_equal(numerical, analytical, rtol, atol, where, mode=""):
    import numpy

    if not numpy.allclose(analytical, numerical, rtol, atol):
        raise GradcheckError(
            f"Jacobian {mode}mismatch for output {where[0]} with respect to input {where[1]},\nnumerical:{numerical}\n"
            f"analytical:{analytical}\n"
        )


def _compare(func, inputs, at, modes, eps, atol, rtol, nondet_tol, check_grad_dtypes):
    """Compares with finite differences the derivatives of the modes: "forward", "backward" or both."""
    import numpy

    numerical = [_numerical(func, list(inputs), i, eps) for i in at]
    outputs = _outputs(func(*inputs))
    if not outputs and not at:
        return
    columns = [[numpy.array([row[o] for row in of_input]) for of_input in numerical] for o in range(len(outputs))]
    if "forward" in modes:
        for k, i in enumerate(at):
            found = _forward(func, inputs, i)
            for o, out in enumerate(outputs):
                found_of_o = numpy.array([row[o] for row in found]).reshape(inputs[i].numel(), out.numel())
                n = columns[o][k].reshape(found_of_o.shape)
                _check_equal(n, found_of_o, rtol, atol, (o, i), "computed with forward mode ")
    if "backward" not in modes:
        return
    xs = tuple(inputs[i] for i in at)
    for o, out in enumerate(outputs):
        rows = _analytical(outputs, o, xs)
        again = _analytical(outputs, o, xs)
        for k, x in enumerate(xs):
            n = columns[o][k].reshape(x.numel(), out.numel())
            a, b = numpy.zeros_like(n), numpy.zeros_like(n)
            for j in range(out.numel()):
                for table, found in ((a, rows), (b, again)):
                    g = found[j][k]
                    if g is None:
                        continue
                    if check_grad_dtypes and g.dtype != x.dtype:
                        raise GradcheckError(f"Gradient of input {at[k]} has dtype {g.dtype}, expected {x.dtype}")
                    if g.shape != x.shape:
                        raise GradcheckError("Analytical gradient has incorrect size")
                    table[:, j] = g.double().cpu().numpy().reshape(-1)
            if numpy.any(numpy.abs(a - b) > nondet_tol):  # a nan is told below, where it differs
                raise GradcheckError(
                    "Backward is not reentrant, i.e., running backward with same input and grad_output multiple "
                    f"times gives different values, although analytical gradient matches numerical gradient.The "
                    f"tolerance for nondeterminism was {nondet_tol}."
                )
            _check_equal(n, a, rtol, atol, (o, at[k]))


def _check_undefined(func, inputs, at):
    """Backward takes undefined gradients of some results for zeros."""
    outputs = [o for o in _outputs(func(*inputs)) if o.requires_grad]
    if len(outputs) < 2:
        return
    xs = tuple(inputs[i] for i in at)
    for skipped in range(len(outputs)):
        kept = tuple(o for i, o in enumerate(outputs) if i != skipped)
        seeds = tuple(_core.ones_like(o) for o in kept)
        partial = _core.grad(kept, xs, seeds, True, False, True)
        with_zero = _core.grad(
            (*kept, outputs[skipped]), xs, (*seeds, _core.zeros_like(outputs[skipped])), True, False, True
        )
        for x, a, b in zip(xs, partial, with_zero, strict=True):
            a, b = (x.new_zeros(1) if g is None else g for g in (a, b))
            if not bool((a == b).all() | (a != a).all()):
                raise GradcheckError(
                    'Expected backward function to handle undefined output grads. Please look at "Notes about '
                    'undefined output gradients" in "tools/autograd/derivatives.yaml"'
                )


def gradcheck(
    func: Callable[..., Any],
    inputs: Tensor | Sequence[Any],
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Whether func's gradients agree with central differences of step eps; raises GradcheckError if not.

    check_forward_ad compares the tangents of forward mode too, and check_backward_ad=False those alone (forward_ad says how
    they are found: of a custom Function by its backward, not by its jvp).

    fast_mode computes the same as the slow mode.
    """
    if not (check_forward_ad or check_backward_ad):
        raise ValueError("Expected at least one of check_forward_ad or check_backward_ad to be True")
    if check_batched_grad or check_batched_forward_grad:
        raise NotImplementedError("gradcheck: check_batched_grad and check_batched_forward_grad are not supported")
    inputs = (inputs,) if isinstance(inputs, _core.Tensor) else tuple(inputs)
    func, inputs = _in_parts(func, inputs)
    try:
        at = _checked_inputs(inputs)
        modes = ["forward"] * check_forward_ad + ["backward"] * check_backward_ad
        _compare(func, inputs, at, modes, eps, atol, rtol, nondet_tol, check_grad_dtypes)
        if check_undefined_grad and check_backward_ad:
            _check_undefined(func, inputs, at)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Tensor | Sequence[Any],
    grad_outputs: Tensor | Sequence[Tensor] | None = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """Whether second derivatives agree with central differences of first ones; raises GradcheckError if not."""
    if check_fwd_over_rev:
        raise NotImplementedError("gradgradcheck: check_fwd_over_rev is not supported")
    if not check_rev_over_rev:
        raise ValueError("Expected at least one of check_fwd_over_rev or check_rev_over_rev to be True")
    inputs = (inputs,) if isinstance(inputs, _core.Tensor) else tuple(inputs)
    if grad_outputs is not None:
        grad_outputs = (grad_outputs,) if isinstance(grad_outputs, _core.Tensor) else tuple(grad_outputs)
        grad_outputs = tuple(_core.view_as_real(g) if _is_complex(g) else g for g in grad_outputs)
    func, inputs = _in_parts(func, inputs)
    outputs = _outputs(func(*inputs))
    if grad_outputs is None:
        grad_outputs = tuple(_core.randn_like(o.detach()).requires_grad_() for o in outputs)
    n = len(grad_outputs)
    wanted = [isinstance(x, _core.Tensor) and x.requires_grad for x in inputs]

    def first_derivative(*args):
        given, seeds = args[:-n], args[-n:]
        results = _outputs(func(*given))
        xs = tuple(x for x, w in zip(given, wanted, strict=True) if w)
        pairs = [(r, s) for r, s in zip(results, seeds, strict=True) if r.requires_grad]
        found = _core.grad(tuple(r for r, _ in pairs), xs, tuple(s for _, s in pairs), True, True, True)
        return tuple(g for g in found if g is not None)

    return gradcheck(
        first_derivative,
        inputs + grad_outputs,
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=raise_exception,
        nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad,
        check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad,
        fast_mode=fast_mode,
        masked=masked,
    )
