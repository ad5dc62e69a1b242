"""torch._vmap_internals: vmap by its older name."""

from smolder.func import vmap as vmap


def _vmap(func, in_dims=0, out_dims=0, allow_none_pass_through=False):
    """smolder.func.vmap; a result that is None stays None where that is allowed."""
    if not allow_none_pass_through:
        return vmap(func, in_dims, out_dims)
    raise NotImplementedError("_vmap(allow_none_pass_through=True) is not supported: leave results that are None out")
