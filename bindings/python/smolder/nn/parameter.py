"""Parameters: tensors that a module trains."""

from smolder import _core
from smolder._modes import no_grad


class Parameter(_core.Tensor):
    """A tensor that becomes a parameter of the module it is assigned to. Shares data with it."""

    def __init__(self, data, requires_grad=True):
        if not isinstance(data, _core.Tensor):
            raise TypeError(f"Parameter() expects a tensor, got {type(data).__name__}")
        super().__init__(data.detach())
        if self.requires_grad != requires_grad:
            self.requires_grad_(requires_grad)

    def __repr__(self):
        return "Parameter containing:\n" + super().__repr__()


class Buffer(_core.Tensor):
    """A tensor that becomes a buffer of the module it is assigned to. Shares data with it."""

    def __init__(self, data=None, *, persistent=True):
        super().__init__(_core.zeros((0,)) if data is None else data.detach())
        self.persistent = persistent
        if data is not None and data.requires_grad:
            self.requires_grad_()


def tensor_of(parameter):
    """A plain tensor that shares the parameter's data and gradient."""
    return _core.Tensor(parameter)


def zero_gradients(parameters, set_to_none):
    """Forgets the gradients, or zeroes them in place: who holds one sees it become zero."""
    for p in parameters:
        grad = p.grad
        if grad is None:
            continue
        if set_to_none:
            p.grad = None
            continue
        if grad.requires_grad:  # it has a history of its own, which ends here
            p.grad = grad = grad.detach()
        with no_grad():
            grad.zero_()
