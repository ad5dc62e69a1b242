"""Products with Jacobians and Hessians, and these as wholes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from smolder import _core
from smolder._modes import enable_grad
from smolder._names import listing as _listing
from smolder._typing import Tensor

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]
__dir__ = _listing(__name__)


def _as_tuple(x, what=None, name=None):
    single = not isinstance(x, tuple | list)
    x = (x,) if single else tuple(x)
    for i, element in enumerate(x):
        if not isinstance(element, _core.Tensor):
            if single:
                raise TypeError(
                    f"The {what} given to {name} must be either a Tensor or a tuple of Tensors but the given {what} has type {type(element)}."
                )
            raise TypeError(
                f"The {what} given to {name} must be either a Tensor or a tuple of Tensors but the value at index {i} has type {type(element)}."
            )
    return not single, x


def _leaves(inputs, create_graph):
    """The inputs to differentiate with respect to: with history where a graph is wanted."""
    if create_graph:
        return tuple(x.view_as(x) if x.requires_grad else x.detach().requires_grad_() for x in inputs)
    return tuple(x.detach().requires_grad_() for x in inputs)


def _result(tensors, several, create_graph):
    tensors = tuple(t if create_graph else t.detach() for t in tensors)
    return tensors if several else tensors[0]


def _vector(v, like, what, name):
    if v is None:
        if len(like) != 1 or like[0].numel() != 1:
            raise RuntimeError(
                f"The vector v can only be None if the {what} is a single Tensor with a single element"
                if what == "input to the user-provided function"
                else "The vector v can only be None if the user-provided function returns a single Tensor with a "
                "single element."
            )
        return (_core.ones_like(like[0]),)
    _, v = _as_tuple(v, "v", name)
    if len(v) != len(like):
        raise RuntimeError(f"v is a tuple of invalid length: should be {len(like)} but got {len(v)}.")
    for i, (a, b) in enumerate(zip(v, like, strict=True)):
        if a.shape != b.shape:
            prefix = f"Entry {i} in " if len(v) > 1 else ""
            raise RuntimeError(f"{prefix}v has invalid size: should be {b.shape} but got {a.shape}.")
    return v


def _independent(i, of, strict):
    if strict:
        raise RuntimeError(
            f"The output of the user-provided function is independent of input {i}. This is not allowed in strict mode."
            if of is None
            else f"Output {of} of the user-provided function is independent of input {i}. This is not allowed in strict mode."
        )


def _grad(outputs, inputs, seeds, create_graph=False, strict=False, of=None, retain=True):
    """Gradients, with zeros for what is not reached."""
    pairs = [(o, s) for o, s in zip(outputs, seeds, strict=True) if o.requires_grad]
    if not pairs:
        found = (None,) * len(inputs)
    else:
        found = _core.grad(tuple(o for o, _ in pairs), inputs, tuple(s for _, s in pairs), retain, create_graph, True)
    for i, g in enumerate(found):
        if g is None:
            _independent(i, of, strict)
    return tuple(_core.zeros_like(x) if g is None else g for x, g in zip(inputs, found, strict=True))


def _call(func, inputs, name, outputs="outputs of the user-provided function"):
    result = func(*inputs)
    return _as_tuple(result, outputs, name)


def vjp(
    func: Callable[..., Any],
    inputs: Tensor | Sequence[Tensor],
    v: Tensor | Sequence[Tensor] | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> Any:
    """func(*inputs), and the product of v with its Jacobian."""
    with enable_grad():
        several_in, inputs = _as_tuple(inputs, "inputs", "vjp")
        xs = _leaves(inputs, create_graph)
        several_out, outputs = _call(func, xs, "vjp")
        v = _vector(v, outputs, "output", "vjp")
    with enable_grad() if create_graph else _same():
        found = _grad(outputs, xs, v, create_graph, strict)
    return _result(outputs, several_out, create_graph), _result(found, several_in, create_graph)


def jvp(
    func: Callable[..., Any],
    inputs: Tensor | Sequence[Tensor],
    v: Tensor | Sequence[Tensor] | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> Any:
    """func(*inputs), and the product of its Jacobian with v: the gradient of a gradient."""
    with enable_grad():
        _, inputs = _as_tuple(inputs, "inputs", "jvp")
        v = _vector(v, inputs, "input to the user-provided function", "jvp")
        xs = _leaves(inputs, create_graph)
        several_out, outputs = _call(func, xs, "jvp")
        seeds = tuple(_core.zeros_like(o).requires_grad_() for o in outputs)
        first = _grad(outputs, xs, seeds, True, strict)
        found = _grad(first, seeds, v, create_graph)
    return _result(outputs, several_out, create_graph), _result(found, several_out, create_graph)


def _same():
    from contextlib import nullcontext

    return nullcontext()


def _all_rows(out, xs, create_graph):
    """The Jacobian of one output, by vmap over its elements."""
    from smolder.func import vmap

    seeds = _core.eye(out.numel(), dtype=out.dtype).to(out.device).reshape((out.numel(), *out.shape))
    found = vmap(lambda seed: _grad((out,), xs, (seed,), create_graph))(seeds)
    return tuple(g.reshape((*out.shape, *x.shape)) for g, x in zip(found, xs, strict=True))


def jacobian(
    func: Callable[..., Any],
    inputs: Tensor | Sequence[Tensor],
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """d(output)/d(input) for each output and input, of the output's dimensions and then the input's.

    Rows are one backward pass each, or, with vectorize, one by vmap for all. With strategy="forward-mode" columns are, by
    func.jacfwd.
    """
    if strategy not in ("reverse-mode", "forward-mode"):
        raise ValueError(
            'Expected strategy to be either "forward-mode" or "reverse-mode". Hint: If your function has more outputs '
            'than inputs, "forward-mode" tends to be more performant. Otherwise, prefer to use "reverse-mode".'
        )
    if strategy == "forward-mode":
        return _jacobian_by_columns(func, inputs, create_graph, strict, vectorize)
    if strict and vectorize:
        raise RuntimeError(
            "torch.autograd.functional.jacobian: `strict=True` and `vectorized=True` are not supported together. Please "
            "either set `strict=False` or `vectorize=False`."
        )
    with enable_grad():
        several_in, inputs = _as_tuple(inputs, "inputs", "jacobian")
        xs = _leaves(inputs, create_graph)
        several_out, outputs = _call(func, xs, "jacobian")
        table = []
        for o, out in enumerate(outputs):
            if vectorize and out.numel() > 0:
                table.append(_all_rows(out, xs, create_graph))
                continue
            rows = []
            for i in range(out.numel()):
                seed = out.new_zeros(out.numel())
                seed[i] = 1
                rows.append(_grad((out,), xs, (seed.reshape(out.shape),), create_graph, strict, o))
            shape = tuple(out.shape)
            table.append(
                tuple(
                    _core.stack([row[k] for row in rows]).reshape(shape + tuple(x.shape))
                    if rows
                    else x.new_zeros(shape + tuple(x.shape))
                    for k, x in enumerate(xs)
                )
            )
    table = [_result(row, several_in, create_graph) for row in table]
    return tuple(table) if several_out else table[0]


def _one_number(outputs, several, name):
    if several or len(outputs) != 1:
        raise RuntimeError(f"The function given to {name} should return a single Tensor")
    if outputs[0].numel() != 1:
        raise RuntimeError(f"The Tensor returned by the function given to {name} should contain a single element")
    return outputs[0]


def _jacobian_by_columns(func, inputs, create_graph, strict, vectorize):
    name = "torch.autograd.functional.jacobian"
    if create_graph:
        raise NotImplementedError(
            f'{name}: `create_graph=True` and `strategy="forward-mode"` are not supported together (yet). Please either set '
            '`create_graph=False` or `strategy="reverse-mode"`.'
        )
    if strict:
        raise RuntimeError(
            f'{name}: `strict=True` and `strategy="forward-mode"` are not supported together (yet). Please either set '
            '`strict=False` or `strategy="reverse-mode"`.'
        )
    if not vectorize:
        raise NotImplementedError(
            "Computing Jacobian using forward-AD or forward-over-reverse Hessian is only implemented for `vectorize=True`."
        )
    from smolder.func import jacfwd

    several_in, inputs = _as_tuple(inputs, "inputs", "jacobian")
    found = jacfwd(func, tuple(range(len(inputs))))(*(x.detach() for x in inputs))
    if several_in:
        return found
    return tuple(columns[0] for columns in found) if isinstance(found[0], tuple) else found[0]


def hessian(
    func: Callable[..., Any],
    inputs: Tensor | Sequence[Tensor],
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """Second derivatives of a function of one number: for each pair of inputs, the first's dimensions, then the second's."""
    if outer_jacobian_strategy not in ("reverse-mode", "forward-mode"):
        raise ValueError('Expected strategy to be either "forward-mode" or "reverse-mode".')
    several, inputs = _as_tuple(inputs, "inputs", "hessian")

    def gradient(*xs):
        out = _one_number(*reversed(_call(func, xs, "hessian")), "hessian")
        if strict:
            return _grad((out,), xs, (_core.ones_like(out),), True, strict)
        return tuple(g for g in _grad((out,), xs, (_core.ones_like(out),), True))

    found = jacobian(gradient, inputs, create_graph, strict, vectorize, outer_jacobian_strategy)
    return found if several else found[0][0]


def vhp(
    func: Callable[..., Any],
    inputs: Tensor | Sequence[Tensor],
    v: Tensor | Sequence[Tensor] | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> Any:
    """func(*inputs), and the product of v with its Hessian."""
    with enable_grad():
        several, inputs = _as_tuple(inputs, "inputs", "vhp")
        v = _vector(v, inputs, "input to the user-provided function", "vhp")
        xs = _leaves(inputs, create_graph)
        out = _one_number(*reversed(_call(func, xs, "vhp")), "vhp")
        first = _grad((out,), xs, (_core.ones_like(out),), True, strict)
        found = _grad(first, xs, v, create_graph, strict)
    return _result((out,), False, create_graph), _result(found, several, create_graph)


def hvp(
    func: Callable[..., Any],
    inputs: Tensor | Sequence[Tensor],
    v: Tensor | Sequence[Tensor] | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> Any:
    """func(*inputs), and the product of its Hessian with v."""
    with enable_grad():
        several, inputs = _as_tuple(inputs, "inputs", "hvp")
        v = _vector(v, inputs, "input to the user-provided function", "hvp")
        xs = _leaves(inputs, create_graph)
        out = _one_number(*reversed(_call(func, xs, "hvp")), "hvp")
        first = _grad((out,), xs, (_core.ones_like(out),), True, strict)
        seeds = tuple(_core.zeros_like(x).requires_grad_() for x in xs)
        double = _grad(first, xs, seeds, True, strict)
        found = _grad(double, seeds, v, create_graph)
    return _result((out,), False, create_graph), _result(found, several, create_graph)
