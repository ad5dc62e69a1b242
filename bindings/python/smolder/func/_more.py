"""Transforms of functions that change how they are called, and not what they are."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from smolder import _core
from smolder.func._transforms import _jvp
from smolder.nn.normalization import _BatchNorm
from smolder.utils._pytree import tree_flatten

if TYPE_CHECKING:
    from smolder._typing import Module


def linearize(func: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """func(*primals), and the function that gives the product of func's Jacobian there with tangents.

    func is called once, and what its gradient needs is kept; each product is one more backward pass. Tangents have the
    structure of primals, and their shapes, dtypes and devices.
    """
    given, spec = tree_flatten(primals)
    for x in given:
        if not isinstance(x, _core.Tensor):
            raise RuntimeError(f"linearize(f, *primals): Expected primals to only contain Tensors, got {type(x)}")
    output, product, _, _ = _jvp(func, primals, None, False, "linearize(f, *primals)")
    like = [(x.shape, x.device, x.dtype) for x in given]

    def jvp_fn(*tangents: Any) -> Any:
        directions, asked = tree_flatten(tangents)
        if asked != spec:
            raise RuntimeError(f"Expected the tangents {asked} to have the same argspec as the primals {spec}")
        for i, (t, kinds) in enumerate(zip(directions, like, strict=True)):
            for what, ours, primals in zip(
                ("shape", "device", "dtype"), (t.shape, t.device, t.dtype), kinds, strict=True
            ):
                if ours != primals:
                    raise RuntimeError(
                        f"tangent:{i} with {what} {ours} in flattened pytree doesn't match the {what} {primals} of the "
                        "corresponding primal."
                    )
        return product(directions)

    return output, jvp_fn


def functionalize(func: Callable[..., Any], *, remove: str = "mutations") -> Callable[..., Any]:
    """func, as it is: what a step records has no writes, as each gives a tensor another value.

    remove: "mutations", or "mutations_and_views".
    """
    if remove not in ("mutations", "mutations_and_views"):
        raise RuntimeError(
            f"functionalize(f, remove='mutations'): received invalid argument for remove={remove}. Valid options are:\n"
            "     remove='mutations': all inplace and out= operators will be removed from the program, and replaced with "
            "their out-of-place equivalents.\n"
            "     remove='mutations_and_views': In addition to the above, all aliasing operators {view} will be replaced "
            "with their non-aliasing counterparts, {view}_copy.\n"
        )

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return func(*args, **kwargs)

    return wrapped


def replace_all_batch_norm_modules_(root: Module) -> Module:
    """Takes the running statistics from all batch norms in `root`, which is returned: vmap cannot write them."""
    for module in root.modules():
        if isinstance(module, _BatchNorm) and module.track_running_stats:
            module.running_mean = module.running_var = module.num_batches_tracked = None
            module.track_running_stats = False
    return root
