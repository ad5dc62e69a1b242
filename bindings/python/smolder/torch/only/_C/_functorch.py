"""torch._C._functorch: questions about function transforms."""

from smolder.cuda._refused import refused

_WHY = "smolder.func.vmap records the function once for all elements, and no tensor stands for several"
_add_batch_dim = refused("torch._C._functorch._add_batch_dim", _WHY)
_remove_batch_dim = refused("torch._C._functorch._remove_batch_dim", _WHY)


def is_batchedtensor(t):
    """False: smolder.func.vmap calls the function for each element, and no tensor stands for several."""
    return False


def is_functorch_wrapped_tensor(t):
    """False: no tensor wraps another."""
    return False


is_gradtrackingtensor = is_functionaltensor = is_legacy_batchedtensor = is_functorch_wrapped_tensor


def get_unwrapped(t):
    """The tensor, which wraps none."""
    return t


def peek_interpreter_stack():
    """None: transforms keep no stack."""


def maybe_get_level(t):
    """-1: the tensor is at no level of a transform."""
    return -1
