"""Functions with gradients whose results the host, or a library, finds."""

from smolder import _core
from smolder.autograd.function import Function


class _Unrecorded:
    """Stands in a forward for a record that nothing would read."""

    def save_for_backward(self, *tensors):
        pass

    def mark_non_differentiable(self, *tensors):
        pass


class HostFunction(Function):
    """Where no gradient can follow, forward is all that is called: the record takes longer than a small matrix does."""

    generate_vmap_rule = True

    @classmethod
    def apply(cls, *args):
        follows = _core.is_grad_enabled() and any(isinstance(a, _core.Tensor) and a.requires_grad for a in args)
        return super().apply(*args) if follows or _core._vmap_depth() else cls.forward(_Unrecorded(), *args)
