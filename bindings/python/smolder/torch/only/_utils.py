"""Functions of torch._utils that pickles name: they rebuild tensors."""

from smolder import _core
from smolder.nn.parameter import Parameter


def _rebuild_device_tensor_from_numpy(data, dtype, device, requires_grad):
    """The tensor of an array's elements, as a dtype, on a device."""
    return _core.from_numpy_copy(data).to(device, dtype).requires_grad_(requires_grad)


def _rebuild_parameter(data, requires_grad, backward_hooks):
    """The parameter that has a tensor's values."""
    return Parameter(data, requires_grad)


def _rebuild_parameter_with_state(data, requires_grad, backward_hooks, state):
    """The same, with attributes of its own."""
    out = Parameter(data, requires_grad)
    vars(out).update(state)
    return out


for _function in (_rebuild_device_tensor_from_numpy, _rebuild_parameter, _rebuild_parameter_with_state):
    _function.__module__ = "torch._utils"  # by which it is pickled
