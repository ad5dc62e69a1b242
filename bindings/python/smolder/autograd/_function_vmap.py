"""Functions with a gradient of their own, within vmap."""

from typing import NamedTuple

from smolder import _batches, _core
from smolder._batches import at_level
from smolder.utils._pytree import tree_flatten, tree_unflatten


class VmapInfo(NamedTuple):
    """The information that the vmap staticmethod of a Function gets."""

    batch_size: int
    randomness: str


def level_of(tree):
    """The innermost level that tensors of a tree are of; 0 for none."""
    return _batches.level_of(tree_flatten(tree)[0])


def _has_history_outside(x, level):
    """Whether a gradient outside of the level may come through x."""
    if _core._vmap_level(x) == level:
        with at_level(level):
            x, _ = _core._vmap_elements(x)
    return _batches.has_history(x)


def apply(cls, level, args, kwargs):
    """cls.apply, for tensors of a level of vmap: by its vmap staticmethod, or on one element."""
    from smolder.autograd.function import Function

    own_rule = cls.vmap is not Function.vmap
    if own_rule and cls.generate_vmap_rule:
        raise RuntimeError(
            f"You tried to vmap over {cls.__name__}, but it has both generate_vmap_rule=True and an overriden vmap "
            "staticmethod. Please set generate_vmap_rule=False or delete the overriden vmap staticmethod to avoid "
            "ambiguity. For more details, please see https://pytorch.org/docs/main/notes/extending.func.html"
        )
    if not own_rule and not cls.generate_vmap_rule:
        raise RuntimeError(
            f"You tried to vmap over {cls.__name__}, but it does not have vmap support. Please override and implement the "
            "vmap staticmethod or set generate_vmap_rule=True. For more details, please see "
            "https://pytorch.org/docs/main/notes/extending.func.html"
        )
    tensors = [x for x in tree_flatten((args, kwargs))[0] if isinstance(x, _core.Tensor)]
    inside = _core.is_grad_enabled() and any(x.requires_grad and _core._vmap_level(x) == level for x in tensors)
    outside = _core.is_grad_enabled() and any(_has_history_outside(x, level) for x in tensors)
    if inside and outside:
        raise NotImplementedError(
            f"{cls.__name__}: a gradient within vmap and one outside of it through one autograd.Function are not supported"
        )
    with at_level(level):
        if inside and own_rule:
            return _with_rule(cls)._apply(*args, **kwargs)
        if inside or (not outside and not own_rule):
            return cls._apply(*args, **kwargs)
        return _below(cls, level, args, kwargs) if own_rule else _generated(cls, level, args, kwargs)


def _below(cls, level, args, kwargs):
    """The results of the class's own rule, as tensors of the level."""
    if kwargs:
        raise NotImplementedError(f"{cls.__name__}: keyword arguments are not supported within vmap")
    leaves, spec = tree_flatten(args)
    found = [_core._vmap_elements(x) if isinstance(x, _core.Tensor) else (x, False) for x in leaves]
    in_dims = tree_unflatten([0 if spread else None for _, spread in found], spec)
    size, randomness = _core._vmap_info(level)
    with at_level(level - 1):
        given = tree_unflatten([x for x, _ in found], spec)
        result, out_dims = cls.vmap(VmapInfo(size, randomness), in_dims, *given)
    several = isinstance(result, tuple | list)
    results = tuple(result) if several else (result,)
    places = out_dims if isinstance(out_dims, tuple | list) else (out_dims,) * len(results)
    out = tuple(
        x if at is None or not isinstance(x, _core.Tensor) else _core._vmap_spread(x, at)
        for x, at in zip(results, places, strict=True)
    )
    return out if several else out[0]


def _with_rule(cls):
    """The class with a forward that goes by its rule, and the gradient of an element."""
    from smolder.autograd.function import Function

    if cls.setup_context is Function.setup_context:
        raise RuntimeError(
            "In order to use an autograd.Function with functorch transforms (vmap, grad, jvp, jacrev, ...), it must "
            "override the setup_context staticmethod. For more details, please see "
            "https://pytorch.org/docs/main/notes/extending.func.html"
        )

    def forward(*args):
        return _below(cls, _core._vmap_depth(), args, {})

    return type(cls.__name__, (cls,), {"forward": staticmethod(forward), "__module__": cls.__module__})


class _ElementContext:
    """The context of a call on one element: what it keeps is taken out of the level, and put into another for backward."""

    def __init__(self, needs_input_grad):
        self.needs_input_grad = needs_input_grad
        self.saved_tensors = ()
        self._non_differentiable = ()

    def save_for_backward(self, *tensors):
        self.saved_tensors = tensors

    def mark_non_differentiable(self, *tensors):
        self._non_differentiable = tensors

    def set_materialize_grads(self, value):
        self._outer.set_materialize_grads(value)

    def mark_dirty(self, *tensors):
        raise NotImplementedError("an autograd.Function that writes in place is not supported within vmap")


def _taken(tree):
    """Leaves of a tree as they are outside of the level, whether each has the batch, and the form."""
    leaves, form = tree_flatten(tree)
    found = [_core._vmap_elements(x) if isinstance(x, _core.Tensor) else (x, False) for x in leaves]
    return [x for x, _ in found], [spread for _, spread in found], form


def _entered(leaves, spread, form):
    """The same tree at the level that the caller is at."""

    def enter(x, is_spread):
        if not isinstance(x, _core.Tensor):
            return x
        return _core._vmap_spread(x, 0) if is_spread else _core._without_level_history(x)

    return tree_unflatten([enter(x, s) for x, s in zip(leaves, spread, strict=True)], form)


def _generated(cls, level, args, kwargs):
    """Forward and backward of an element as one call on all of them, for a gradient outside of the level."""
    from smolder.autograd.function import Function, _bind

    split = cls.setup_context is not Function.setup_context
    if kwargs:
        args, kwargs = _bind(cls.forward, args if split else (None, *args), kwargs)
        args = args if split else args[1:]
    leaves, spread, spec = _taken(tuple(args))
    size, randomness = _core._vmap_info(level)
    kept = form = None

    class Generated(Function):
        generate_vmap_rule = True  # for levels further out

        @staticmethod
        def forward(ctx, *elements):
            nonlocal kept, form
            inner = _ElementContext(ctx.needs_input_grad)
            inner._outer = ctx
            with at_level(level):
                given = _entered(elements, spread, spec)
                result = cls.forward(*given) if split else cls.forward(inner, *given)
                if split:
                    cls.setup_context(inner, given, result)
                outputs, form = tree_flatten(result)
                done = [_core._vmap_gathered(x, 0) for x in outputs]
                fixed = [any(x is other for other in inner._non_differentiable) for x in outputs]
                saved, *where = _taken(inner.saved_tensors)
                state = {
                    k: v for k, v in vars(inner).items() if k not in ("saved_tensors", "_outer", "_non_differentiable")
                }
                kept = where, _taken(state)
            ctx.save_for_backward(*saved)
            ctx.mark_non_differentiable(*(x for x, f in zip(done, fixed, strict=True) if f))
            return tuple(done)

        @staticmethod
        def backward(ctx, *grads):
            (saved_spread, saved_form), state = kept
            saved = ctx.saved_tensors
            _core._vmap_begin(size, randomness)
            try:
                inner = _ElementContext(ctx.needs_input_grad)
                vars(inner).update(_entered(*state))
                inner.saved_tensors = _entered(saved, saved_spread, saved_form)
                given = [None if g is None else _core._vmap_spread(g, 0) for g in grads]
                backward = cls.vjp if cls.vjp is not Function.vjp else cls.backward
                found = backward(inner, *given)
                found = found if isinstance(found, tuple | list) else (found,)
                out = [None if g is None else _core._vmap_gathered(g, 0) for g in found]
            finally:
                _core._vmap_end()
            return tuple(g if g is None or s else g.sum(0) for g, s in zip(out, spread, strict=True))

    Generated.__name__ = cls.__name__
    with at_level(level - 1):
        results = Generated.apply(*leaves)
    with at_level(level):
        return tree_unflatten([_core._vmap_spread(x, 0) for x in results], form)
