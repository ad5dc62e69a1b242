"""A function of torch._tensor that pickles name: it rebuilds tensors that have a class of their own."""

from smolder._tensor import Tensor


def _rebuild_from_type_v2(func, new_type, args, state):
    """The tensor func(*args) as one of a class, with attributes of its own."""
    out = func(*args)
    if type(out) is not new_type:
        out = Tensor._make_subclass(new_type, out, out.requires_grad)
    vars(out).update(state)
    return out


_rebuild_from_type_v2.__module__ = "torch._tensor"  # by which it is pickled
