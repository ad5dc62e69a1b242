"""Gradients, products with Jacobians, and Jacobians of functions."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from smolder import _core, autograd
from smolder._creation import arange
from smolder._modes import enable_grad
from smolder.func._vmap import vmap
from smolder.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten


class _Level:
    """The inputs that one transform differentiates with respect to, and nobody else."""

    def __init__(self):
        self.outside = _core.is_grad_enabled()
        self.leaves = []

    def enter(self, x):
        """An input under another name: its gradient is this level's."""
        if not isinstance(x, _core.Tensor):
            raise ValueError(f"Thing passed to transform API must be Tensor, got {type(x)}")
        if _core._vmap_depth() and _core._vmap_level(x) != _core._vmap_depth():
            x = _core._without_level_history(x)  # its history is that of others, outside of vmap
        if x.requires_grad:
            return x.view_as(x)
        x = _core._without_level_history(x, True)
        self.leaves.append(x)
        return x

    def leave(self, tree):
        """Results without the history that only this level sees."""
        return tree_map(lambda x: self._left(x) if isinstance(x, _core.Tensor) else x, tree)

    def _left(self, x):
        if not self.outside:
            return x.detach() if x.requires_grad or _core._vmap_level(x) else x
        if not x.requires_grad or self._reaches_others(x):
            return x
        return _core._without_level_history(x)

    def _reaches_others(self, x):
        if x.grad_fn is None:
            return not any(x._is_same(leaf) for leaf in self.leaves)
        seen, left = set(), [x.grad_fn]
        while left:
            node = left.pop()
            if node is None or node in seen:
                continue
            seen.add(node)
            leaf = getattr(node, "variable", None)
            if leaf is not None and not any(leaf._is_same(own) for own in self.leaves):
                return True
            left += [following for following, _ in node.next_functions]
        return False


def _positions(argnums, count):
    if not isinstance(argnums, int | tuple):
        raise RuntimeError(f"argnums must be int or Tuple[int, ...], got: {type(argnums)}")
    several = (argnums,) if isinstance(argnums, int) else argnums
    if not several:
        raise RuntimeError("argnums must be non-empty")
    for at in several:
        if not isinstance(at, int):
            raise RuntimeError(f"argnum must be int, got: {type(at)}")
        if not -count <= at < count:
            raise RuntimeError(f"Got argnum={at}, but only {count} positional inputs")
    several = tuple(at % count for at in several)
    if len(set(several)) != len(several):
        raise RuntimeError(f"argnums elements must be unique, got {several}")
    return several


def _entered(level, args, argnums):
    """Arguments of which some are this level's, and those; all without argnums."""
    at = range(len(args)) if argnums is None else _positions(argnums, len(args))
    args = list(args)
    for i in at:
        args[i] = tree_map(level.enter, args[i])
    chosen = tuple(args[i] for i in at)
    return args, chosen[0] if isinstance(argnums, int) else chosen


def _gradients(outputs, inputs, seeds, create_graph=True):
    """Gradients of outputs; zeros where there is none."""
    pairs = [(o, s) for o, s in zip(outputs, seeds, strict=True) if o.requires_grad]
    if not pairs:
        return tuple(map(_core.zeros_like, inputs))
    outputs, seeds = map(list, zip(*pairs, strict=True))
    found = autograd.grad(outputs, inputs, seeds, retain_graph=True, create_graph=create_graph, allow_unused=True)
    return tuple(_core.zeros_like(x) if g is None else g for x, g in zip(inputs, found, strict=True))


def _parts(output, has_aux, name):
    if not has_aux:
        return output, None
    if not (isinstance(output, tuple) and len(output) == 2):
        raise RuntimeError(f"{name}: output of function f should be a tuple: (output, aux) if has_aux is True")
    return output


def _with_value(func, argnums, has_aux, args, kwargs):
    level = _Level()
    with enable_grad():
        args, chosen = _entered(level, args, argnums)
        output, aux = _parts(func(*args, **kwargs), has_aux, "grad_and_value(f)(*args)")
        if not isinstance(output, _core.Tensor):
            raise RuntimeError(f"grad_and_value(f)(*args): Expected f(*args) to return a Tensor, got {type(output)}")
        if output.dim() != 0:
            raise RuntimeError(
                "grad_and_value(f)(*args): Expected f(*args) to return a scalar Tensor, got tensor with "
                f"{output.dim()} dims. Maybe you wanted to use the vjp or jacrev APIs instead?"
            )
        inputs, spec = tree_flatten(chosen)
        found = tree_unflatten(_gradients([output], inputs, [None]), spec)
        found, output, aux = level.leave((found, output, aux))
    return found, output, aux


def grad(func: Callable[..., Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False) -> Callable[..., Any]:
    """The function that gives the gradient of func, a number of tensors, with respect to the arguments argnums."""

    @functools.wraps(func)
    def call(*args, **kwargs):
        found, _, aux = _with_value(func, argnums, has_aux, args, kwargs)
        return (found, aux) if has_aux else found

    return call


def grad_and_value(
    func: Callable[..., Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """The function that gives the gradient, and what func gives."""

    @functools.wraps(func)
    def call(*args, **kwargs):
        found, output, aux = _with_value(func, argnums, has_aux, args, kwargs)
        return (found, (output, aux)) if has_aux else (found, output)

    return call


def _check_outputs(outputs, name):
    if not outputs or (len(outputs) == 1 and outputs[0] is None):
        raise RuntimeError(f"{name}: Expected f to be a function that has non-empty output (got output = {outputs})")
    for o in outputs:
        if not isinstance(o, _core.Tensor):
            raise RuntimeError(f"{name}: expected f(*primals) to return only tensors, got unsupported type {type(o)}")


def _vjp(func, primals, argnums, has_aux):
    level = _Level()
    with enable_grad():
        args, chosen = _entered(level, primals, argnums)
        output, aux = _parts(func(*args), has_aux, "vjp(f, *primals)")
    outputs, out_spec = tree_flatten(output)
    _check_outputs(outputs, "vjp(f, *primals)")
    inputs, in_spec = tree_flatten(chosen)
    for o in outputs:
        if not o.dtype.is_floating_point:
            raise RuntimeError(
                "vjp(f, ...): All outputs of f must be floating-point or complex Tensors, got Tensor with dtype "
                f"{o.dtype}"
            )

    def product(cotangents, retain_graph=True, create_graph=None):
        seeds, spec = tree_flatten(cotangents)
        if spec != out_spec:
            raise RuntimeError(
                "Expected pytree structure of cotangents to be the same as pytree structure of outputs to the function. "
                f"cotangents: {spec}, primal output: {out_spec}"
            )
        create_graph = _core.is_grad_enabled() if create_graph is None else create_graph
        found = _gradients(outputs, inputs, seeds, create_graph)
        return level.leave(tree_unflatten(found, in_spec))

    return level.leave(output), product, level.leave(aux), level.leave


def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """func(*primals), and the function that gives the product of what it is given with the Jacobian."""
    output, product, aux, _ = _vjp(func, primals, None, has_aux)
    return (output, product, aux) if has_aux else (output, product)


def jvp(
    func: Callable[..., Any],
    primals: tuple[Any, ...],
    tangents: tuple[Any, ...],
    *,
    strict: bool = False,
    has_aux: bool = False,
) -> Any:
    """func(*primals), and the product of the Jacobian with tangents: the gradient of a gradient."""
    if strict:
        raise NotImplementedError("func.jvp: strict=True is not supported: what does not depend on inputs gives zeros")
    name = "jvp(f, primals, tangents)"
    if not isinstance(primals, tuple):
        raise RuntimeError(f"{name}: Expected primals to be a tuple. E.g. it should be valid to call f(*primals).")
    (inputs, in_spec), (directions, spec) = tree_flatten(primals), tree_flatten(tangents)
    if in_spec != spec:
        raise RuntimeError(
            f"{name}: Expected primals and tangents to have the same python structure. For example, if primals is a tuple "
            f"of 3 tensors, tangents also must be. Got primals with structure {in_spec} and tangents with structure {spec}"
        )
    for what, given in (("primals", inputs), ("tangents", directions)):
        if not given:
            raise RuntimeError(f"{name}: Expected {what} to contain at least one Tensor.")
        for x in given:
            if not isinstance(x, _core.Tensor):
                raise RuntimeError(f"{name}: Expected {what} to only contain Tensors, got {type(x)}")
    output, product, aux, _ = _jvp(func, primals, None, has_aux, name)
    found = product(directions)
    return (output, found, aux) if has_aux else (output, found)


def _jvp(func, primals, argnums, has_aux, name):
    """func(*primals), and the function that gives the product of its Jacobian with directions: leaves, one for each of
    the arguments'; then what _vjp gives."""
    level = _Level()
    with enable_grad():
        args, chosen = _entered(level, primals, argnums)
        output, aux = _parts(func(*args), has_aux, name)
        outputs, out_spec = tree_flatten(output)
        _check_outputs(outputs, name)
        smooth = [o for o in outputs if o.is_floating_point() or o.is_complex()]
        seeds = [level.enter(_core.zeros_like(o).detach()) for o in smooth]
        first = _gradients(smooth, tree_leaves(chosen), seeds)

    def product(directions):
        with enable_grad():
            found = iter(_gradients(first, seeds, directions))
            every = [next(found) if o.is_floating_point() or o.is_complex() else _core.zeros_like(o) for o in outputs]
            return level.leave(tree_unflatten(every, out_spec))

    return level.leave(output), product, level.leave(aux), level.leave


def jacrev(
    func: Callable[..., Any],
    argnums: int | tuple[int, ...] = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> Callable[..., Any]:
    """The function that gives the Jacobian of func with respect to the arguments argnums, by its rows: chunk_size of
    them at once, all by default."""
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError("jacrev: `chunk_size` should be greater than 0.")

    @functools.wraps(func)
    def call(*args):
        output, product, aux, leave = _vjp(func, args, argnums, has_aux)
        outputs, out_spec = tree_flatten(output)
        form = None

        def rows(*seeds):
            nonlocal form
            leaves, form = tree_flatten(product(tree_unflatten(seeds, out_spec)))
            return tuple(leaves)

        found = vmap(rows, chunk_size=chunk_size)(*_bases(outputs))
        tables, start = [], 0
        for o in outputs:
            part = [x.narrow(0, start, o.numel()).reshape((*o.shape, *x.shape[1:])) for x in found]
            tables.append(tree_unflatten(part, form))
            start += o.numel()
        found = leave(tree_unflatten(tables, out_spec))
        return (found, aux) if has_aux else found

    return call


def jacfwd(
    func: Callable[..., Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False, *, randomness: str = "error"
) -> Callable[..., Any]:
    """As jacrev, by columns: for functions that have fewer inputs than results. func is called once, so that
    `randomness` has nothing to choose."""

    @functools.wraps(func)
    def call(*args):
        _, product, aux, leave = _jvp(func, args, argnums, has_aux, "jacfwd")
        several = argnums if isinstance(argnums, tuple) else (argnums,)
        inputs, in_spec = tree_flatten(tuple(args[i] for i in _positions(several, len(args))))
        form = None

        def columns(*directions):
            nonlocal form
            leaves, form = tree_flatten(product(directions))
            return tuple(leaves)

        found, tables = vmap(columns)(*_bases(inputs)), []
        for table in found:
            parts, start = [], 0
            for x in inputs:
                part = table.narrow(0, start, x.numel()).movedim(0, -1)
                parts.append(part.reshape((*part.shape[:-1], *x.shape)))
                start += x.numel()
            by_argument = tree_unflatten(parts, in_spec)
            tables.append(by_argument if isinstance(argnums, tuple) else by_argument[0])
        found = leave(tree_unflatten(tables, form))
        return (found, aux) if has_aux else found

    return call


def _bases(tensors):
    """For each tensor all of which it is made: rows of a unit matrix of the elements of all, in its shape."""
    sizes = [x.numel() for x in tensors]
    total, start, out = sum(sizes), 0, []
    for x, n in zip(tensors, sizes, strict=True):
        unit = arange(total, device=x.device).unsqueeze(1) == arange(start, start + n, device=x.device)
        out.append(unit.to(x.dtype).reshape((total, *x.shape)))
        start += n
    return out


def hessian(func: Callable[..., Any], argnums: int | tuple[int, ...] = 0) -> Callable[..., Any]:
    """The function that gives the Jacobian of the Jacobian of func."""
    return jacfwd(jacrev(func, argnums), argnums)
