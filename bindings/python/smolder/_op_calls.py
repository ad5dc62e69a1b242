"""Calls of ops that Python defined: recorded, or run at once where nothing says the shapes of their results."""

import functools

from smolder import _core, _ops
from smolder._op_gradients import differentiable


def has_results(op):
    """Whether calls of the op return anything."""
    return op._core.num_returns > 0


def run(op, args):
    """A call of an op that Python defined, gradients left aside."""
    if op._composite is not None:
        op._core.check(args)
        return _called(op, op._composite, args)
    if op._fake is None and has_results(op):
        op._core.check(args)
        return _run_now(op, args)
    return op._core.call(args)


def _called(op, fn, args):
    """fn(*args), those that are keywords only by keyword."""
    keywords = {a[0]: v for a, v in zip(op._arguments, args) if a[2]}
    return fn(*(v for a, v in zip(op._arguments, args) if not a[2]), **keywords)


def _run_now(op, args):
    """Without a shape rule nothing can be recorded: the kernel runs on the tensors themselves."""
    if op._kernel is None:
        op._core.call(args)  # which raises
        raise NotImplementedError(f"Could not run '{op.name()}' with arguments from the 'CPU' backend")
    if op._function is None and _core.is_grad_enabled() and _ops.any_requires_grad(args):
        return differentiable(op, functools.partial(_no_gradient, op), None)(args)
    if _core.is_strict():
        raise NotImplementedError(
            f"{op.name()} has no shape rule (register_fake) and would run eagerly, which strict mode forbids"
        )
    _core.tell_fallback(
        f"{op.name()} has no shape rule (register_fake)", "its kernel runs at once, outside of the step"
    )
    before = _core.is_grad_enabled()
    _core.set_grad_enabled(False)
    try:
        result = _called(op, op._kernel, args)
    finally:
        _core.set_grad_enabled(before)
    count = op._core.num_returns
    several = isinstance(result, tuple | list)
    if count != (len(result) if several else 1):
        raise RuntimeError(f"{op.name()}: its kernel must return {count} tensor(s), got {result!r}")
    out = [as_result(op.name(), "kernel", r) for r in (result if several else [result])]
    if any(r is a for r in out for a in args):
        raise RuntimeError(
            f"{op.name()}: the output of this operator must not also be an input to it, and may not alias any inputs. "
            "Return a clone of it"
        )
    return tuple(out) if several else out[0]


def _no_gradient(op, ctx, *grads):
    raise RuntimeError(
        f"Trying to backward through {op} but no autograd formula was registered. Please use register_autograd to add one."
    )


def as_result(name, who, value):
    """A tensor of what a kernel or a shape rule returned."""
    if isinstance(value, _core.Tensor):
        return value
    if hasattr(value, "__array_interface__"):
        import numpy

        array = numpy.asarray(value)
        return _core._from_array(array if all(s >= 0 for s in array.strides) else array.copy())
    raise TypeError(f"{name}: its {who} returned a {type(value).__name__}, expected a Tensor or a NumPy array")
