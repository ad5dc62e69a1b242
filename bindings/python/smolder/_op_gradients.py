"""Gradients that Python registered for ops, of calls in Python and of those that C++ made."""

from smolder import _core
from smolder.autograd.function import Function


def _flatten(args):
    """The arguments with lists of tensors spread out, and how long each was (-1: no list)."""
    flat, lengths = [], []
    for a in args:
        if isinstance(a, list | tuple) and any(isinstance(x, _core.Tensor) for x in a):
            flat.extend(a)
            lengths.append(len(a))
        else:
            flat.append(a)
            lengths.append(-1)
    return flat, lengths


def _unflatten(flat, lengths):
    out, at = [], 0
    for n in lengths:
        out.append(flat[at] if n < 0 else list(flat[at : at + n]))
        at += max(n, 1) if n < 0 else n
    return tuple(out)


def differentiable(op, backward, setup_context):
    """A function of all arguments whose results have the gradient that `backward` computes."""

    class Generated(Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(lengths, *flat):
            return op._run(_unflatten(flat, lengths))

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx._lengths = inputs[0]
            if setup_context is None:
                return
            args = _unflatten(inputs[1:], inputs[0])
            keywords = {a[0]: v for a, v in zip(op._arguments, args) if a[2]}
            args = tuple(v for a, v in zip(op._arguments, args) if not a[2])
            if keywords:
                setup_context(ctx, inputs=args, keyword_only_inputs=keywords, output=output)
            else:
                setup_context(ctx, inputs=args, output=output)

        @staticmethod
        def backward(ctx, *grads):
            lengths = ctx._lengths
            given = _one_an_argument(op, backward(ctx, *grads), len(lengths))
            flat = [None]
            for g, n in zip(given, lengths):
                if n < 0:
                    flat.append(g)
                else:
                    flat.extend([None] * n if g is None else g)
            return tuple(flat)

    name = f"GeneratedBackwardFor_{op._namespace}_{op._name}_default"
    Generated.__name__ = Generated.__qualname__ = name
    Generated._backward_cls.__name__ = name + "Backward"

    def call(args):
        flat, lengths = _flatten(args)
        return Generated.apply(lengths, *flat)

    return call


class _LateContext:
    """The context of a call that C++ made: it is set up when the gradient is wanted."""

    def __init__(self, needs_input_grad):
        self.needs_input_grad, self.saved_tensors, self._materialize = needs_input_grad, (), True

    def save_for_backward(self, *tensors):
        self.saved_tensors = tensors

    def set_materialize_grads(self, value):
        self._materialize = value

    def mark_non_differentiable(self, *tensors):
        """Its gradients are not asked for."""


def late_gradient(op, backward, setup_context):
    """Returns the function that C++ calls with the arguments, results and gradients of a call that it made."""

    def gradients(args, keywords, outputs, grads):
        needs = [any(t.requires_grad for t in _flatten([a])[0] if isinstance(t, _core.Tensor)) for a in args]
        ctx = _LateContext(tuple(needs))
        if setup_context is not None:
            named = {"keyword_only_inputs": keywords} if keywords else {}
            setup_context(ctx, inputs=args, output=outputs[0] if len(outputs) == 1 else tuple(outputs), **named)
        if ctx._materialize:
            grads = [_core.zeros_like(o) if g is None else g for o, g in zip(outputs, grads)]
        return _one_an_argument(op, backward(ctx, *grads), len(op._arguments))

    return gradients


def _one_an_argument(op, given, count):
    given = given if isinstance(given, tuple | list) else (given,)
    given = list(given) + [None] * (count - len(given))  # of keyword-only ones there are none
    if len(given) != count:
        raise RuntimeError(
            f"{op.name()}: its backward returned {len(given)} gradients, expected {count}: one an argument, None for "
            "those that have none"
        )
    return given
