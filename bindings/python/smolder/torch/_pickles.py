"""How tensors and dtypes are pickled while `torch` is Smolder: by names that torch has, so that either reads the other's."""

from collections import OrderedDict

from smolder import _core, _unheld
from smolder._tensor import Tensor
from smolder._types import name_of
from smolder.nn.parameter import Parameter
from smolder.torch.only._tensor import _rebuild_from_type_v2
from smolder.torch.only._utils import (
    _rebuild_device_tensor_from_numpy,
    _rebuild_parameter,
    _rebuild_parameter_with_state,
)


def take():
    """From here on."""
    before = Tensor.__reduce_ex__
    _core.dtype.__reduce__ = _unheld.UnheldDtype.__reduce__ = name_of
    for name in _unheld.__all__:
        getattr(_unheld, name).__module__ = "torch"

    def __reduce_ex__(self, protocol):
        """As an array of its elements, with the dtype, the device and the class."""
        if self.is_sparse or self.is_meta:
            return before(self, protocol)
        state, data = vars(self), self.detach()
        if type(self) is Parameter:
            data = data.as_subclass(Tensor)
            if state:
                return _rebuild_parameter_with_state, (data, self.requires_grad, OrderedDict(), state)
            return _rebuild_parameter, (data, self.requires_grad, OrderedDict())
        arguments = data._to_numpy(), self.dtype, str(self.device), self.requires_grad
        if type(self) is Tensor and not state:
            return _rebuild_device_tensor_from_numpy, arguments
        return _rebuild_from_type_v2, (_rebuild_device_tensor_from_numpy, type(self), arguments, state)

    Tensor.__reduce_ex__ = __reduce_ex__
