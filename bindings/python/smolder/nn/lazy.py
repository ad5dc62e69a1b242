"""Layers that learn from their first input how many channels it has."""

from __future__ import annotations

import itertools
from typing import Any, ClassVar

from smolder import _core
from smolder._modes import no_grad
from smolder._names import listing as _listing
from smolder._typing import Device, DType, Ints, Tensor
from smolder.nn import conv, layers, normalization
from smolder.nn.parameter import UninitializedBuffer, UninitializedParameter, is_lazy

__all__ = [
    "LazyBatchNorm1d", "LazyBatchNorm2d", "LazyBatchNorm3d", "LazyConv1d", "LazyConv2d", "LazyConv3d",
    "LazyConvTranspose1d", "LazyConvTranspose2d", "LazyConvTranspose3d", "LazyInstanceNorm1d", "LazyInstanceNorm2d",
    "LazyInstanceNorm3d", "LazyLinear", "LazyModuleMixin",
]  # fmt: skip
__dir__ = _listing(__name__)


class LazyModuleMixin:
    """A base beside Module for layers with uninitialized parameters.

    Before the first forward, initialize_parameters is called with its arguments; then the layer becomes of the class
    cls_to_become, unless that is None. Loading a state gives parameters its shapes.
    """

    cls_to_become: ClassVar[type[Any] | None] = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._load_hook = self._register_load_state_dict_pre_hook(self._lazy_load_hook)
        self._initialize_hook = self.register_forward_pre_hook(self._infer_parameters, with_kwargs=True)

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        for name, member in self._own_state():
            if member is not None:
                destination[prefix + name] = member if keep_vars or is_lazy(member) else member.detach()

    def _lazy_load_hook(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs):
        for name, member in (*self._parameters.items(), *self._buffers.items()):
            given = state_dict.get(prefix + name)
            if is_lazy(member) and given is not None and not is_lazy(given):
                with no_grad():
                    member.materialize(given.shape)

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> Any:
        """Materializes the parameters, for arguments of forward."""
        raise NotImplementedError(f"initialize_parameters is not implemented for {type(self).__name__}")

    def has_uninitialized_params(self) -> bool:
        """Whether a parameter or buffer has no shape yet."""
        return any(map(is_lazy, itertools.chain(self._parameters.values(), self._buffers.values())))

    def _infer_parameters(self, module, args, kwargs=None):
        module.initialize_parameters(*args, **(kwargs or {}))
        if module.has_uninitialized_params():
            raise RuntimeError(f"module {self._get_name()} has not been fully initialized")
        module._initialize_hook.remove()
        module._load_hook.remove()
        del module._initialize_hook, module._load_hook
        if module.cls_to_become is not None:
            module.__class__ = module.cls_to_become


class LazyLinear(LazyModuleMixin, layers.Linear):
    """A Linear whose in_features are those of its first input."""

    weight: UninitializedParameter
    bias: UninitializedParameter
    in_features: int

    def __init__(self, out_features: int, bias: bool = True, device: Device = None, dtype: DType | None = None) -> None:
        super().__init__(0, 0, False)
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.out_features = out_features
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Draws the parameters, if there are any."""
        if not self.has_uninitialized_params() and self.in_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:
        """Makes the parameters for an input."""
        if self.has_uninitialized_params():
            with no_grad():
                self.in_features = input.shape[-1]
                self.weight.materialize((self.out_features, self.in_features))
                if self.bias is not None:
                    self.bias.materialize((self.out_features,))
                self.reset_parameters()
        if self.in_features == 0:  # the parameters were loaded
            if input.shape[-1] != self.weight.shape[-1]:
                raise AssertionError(
                    f"The in_features inferred from input: {input.shape[-1]} is not equal to in_features from "
                    f"self.weight: {self.weight.shape[-1]}"
                )
            self.in_features = input.shape[-1]


class _LazyConv(LazyModuleMixin):
    in_channels: int
    out_channels: int
    weight: Any
    bias: Any

    def _become_lazy(self, out_channels: int, bias: bool, device: Device, dtype: DType | None) -> None:
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.out_channels = out_channels
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Draws the parameters, if there are any."""
        if not self.has_uninitialized_params() and self.in_channels != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor, *args: Any, **kwargs: Any) -> None:
        """Makes the parameters for an input."""
        if not self.has_uninitialized_params():
            return
        self.in_channels = self._channels(input)
        if self.in_channels % self.groups != 0:
            raise ValueError("in_channels must be divisible by groups")
        outer, inner = self.out_channels, self.in_channels
        outer, inner = (inner, outer) if self.transposed else (outer, inner)
        self.weight.materialize((outer, inner // self.groups, *self.kernel_size))
        if self.bias is not None:
            self.bias.materialize((self.out_channels,))
        self.reset_parameters()

    def _channels(self, input: Tensor) -> int:
        plain = len(self.kernel_size) + 1
        if input.dim() not in (plain, plain + 1):
            raise RuntimeError(
                f"Expected {plain}D (unbatched) or {plain + 1}D (batched) input to {type(self).__name__}, but got input "
                f"of size: {input.shape}"
            )
        return input.shape[-plain]


class _LazyStraight(_LazyConv):
    def __init__(
        self,
        out_channels: int,
        kernel_size: Ints,
        stride: Ints = 1,
        padding: Ints | str = 0,
        dilation: Ints = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Device = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__(
            0, 0, kernel_size, stride, padding, dilation, groups, False, padding_mode, device=device, dtype=dtype
        )
        self._become_lazy(out_channels, bias, device, dtype)


class _LazyTransposed(_LazyConv):
    def __init__(
        self,
        out_channels: int,
        kernel_size: Ints,
        stride: Ints = 1,
        padding: Ints | str = 0,
        output_padding: Ints = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Ints = 1,
        padding_mode: str = "zeros",
        device: Device = None,
        dtype: DType | None = None,
    ) -> None:
        shape = kernel_size, stride, padding, output_padding, groups
        super().__init__(0, 0, *shape, False, dilation, padding_mode, device=device, dtype=dtype)
        self._become_lazy(out_channels, bias, device, dtype)


class _LazyNorm(LazyModuleMixin):
    affine: bool
    track_running_stats: bool
    num_features: int
    weight: Any
    bias: Any
    running_mean: Any
    running_var: Any
    num_batches_tracked: Any

    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Device = None,
        dtype: DType | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(0, eps, momentum, False, False, device, dtype, bias=False)
        self.affine, self.track_running_stats = affine, track_running_stats
        if affine:
            self.weight = UninitializedParameter(device=device, dtype=dtype)
            if bias:
                self.bias = UninitializedParameter(device=device, dtype=dtype)
        if track_running_stats:
            from smolder._creation import zeros

            self.running_mean = UninitializedBuffer(device=device, dtype=dtype)
            self.running_var = UninitializedBuffer(device=device, dtype=dtype)
            self.num_batches_tracked = zeros((), dtype=_core.int64, device=device)

    def reset_parameters(self) -> None:
        """Weight 1, bias 0, and no statistics, if there are any."""
        if not self.has_uninitialized_params() and self.num_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:
        """Makes the parameters for an input."""
        if not self.has_uninitialized_params():
            return
        self.num_features = input.shape[1]
        for member in (self.weight, self.bias, self.running_mean, self.running_var):
            if is_lazy(member):
                member.materialize((self.num_features,))
        self.reset_parameters()


class LazyConv1d(_LazyStraight, conv.Conv1d):
    """A Conv1d whose channels are those of its first input."""


class LazyConv2d(_LazyStraight, conv.Conv2d):
    """A Conv2d whose channels are those of its first input."""


class LazyConv3d(_LazyStraight, conv.Conv3d):
    """A Conv3d whose channels are those of its first input."""


class LazyConvTranspose1d(_LazyTransposed, conv.ConvTranspose1d):
    """A ConvTranspose1d whose channels are those of its first input."""


class LazyConvTranspose2d(_LazyTransposed, conv.ConvTranspose2d):
    """A ConvTranspose2d whose channels are those of its first input."""


class LazyConvTranspose3d(_LazyTransposed, conv.ConvTranspose3d):
    """A ConvTranspose3d whose channels are those of its first input."""


class LazyBatchNorm1d(_LazyNorm, normalization.BatchNorm1d):
    """A BatchNorm1d whose channels are those of its first input."""


class LazyBatchNorm2d(_LazyNorm, normalization.BatchNorm2d):
    """A BatchNorm2d whose channels are those of its first input."""


class LazyBatchNorm3d(_LazyNorm, normalization.BatchNorm3d):
    """A BatchNorm3d whose channels are those of its first input."""


class LazyInstanceNorm1d(_LazyNorm, normalization.InstanceNorm1d):
    """An InstanceNorm1d whose channels are those of its first input."""


class LazyInstanceNorm2d(_LazyNorm, normalization.InstanceNorm2d):
    """An InstanceNorm2d whose channels are those of its first input."""


class LazyInstanceNorm3d(_LazyNorm, normalization.InstanceNorm3d):
    """An InstanceNorm3d whose channels are those of its first input."""


for _kind in (globals()[_name] for _name in __all__ if _name != "LazyModuleMixin"):
    _kind.cls_to_become = _kind.__bases__[1]
