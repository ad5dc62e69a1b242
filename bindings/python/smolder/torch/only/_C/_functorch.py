"""torch._C._functorch: questions about function transforms."""

from smolder import _core
from smolder.cuda._refused import refused

_WHY = "smolder.func.vmap alone makes tensors that stand for several"
_add_batch_dim = refused("torch._C._functorch._add_batch_dim", _WHY)
_remove_batch_dim = refused("torch._C._functorch._remove_batch_dim", _WHY)


def is_batchedtensor(t):
    """Whether a tensor stands for the elements that smolder.func.vmap goes over."""
    return _core._vmap_level(t) > 0


is_functorch_wrapped_tensor = is_batchedtensor


def is_gradtrackingtensor(t):
    """False: transforms for gradients wrap no tensor."""
    return False


is_functionaltensor = is_legacy_batchedtensor = is_gradtrackingtensor


def get_unwrapped(t):
    """The tensor, which wraps none."""
    return t


def peek_interpreter_stack():
    """None: transforms keep no stack."""


def maybe_get_level(t):
    """The level of vmap that a tensor is of; -1 for none."""
    return _core._vmap_level(t) or -1
