"""Normalisation over batches, images, groups of channels and last dimensions."""

from __future__ import annotations

import numbers
import warnings
from typing import Any

from smolder import _core
from smolder._device import on_device
from smolder._modes import no_grad
from smolder._names import listing as _listing
from smolder._typing import Device, DType, Ints, Tensor
from smolder.nn import functional as F
from smolder.nn import init
from smolder.nn.module import Module
from smolder.nn.parameter import Parameter

__all__ = [
    "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "CrossMapLRN2d", "GroupNorm", "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d",
    "LayerNorm", "LocalResponseNorm", "RMSNorm", "SyncBatchNorm",
]  # fmt: skip
__dir__ = _listing(__name__)


def _affine(module, shape, weight, bias, dtype):
    dtype = dtype or _core._default_dtype()
    module.register_parameter("weight", Parameter(_core.empty(shape, dtype=dtype)) if weight else None)
    module.register_parameter("bias", Parameter(_core.empty(shape, dtype=dtype)) if weight and bias else None)


def _without_bias(norm, affine):
    """The text about a bias that norms print: that they have weights and none. torch 2.11 has no such argument."""
    return "bias=False, " if affine and norm.bias is None else ""


class _NormBase(Module):
    """Channels with parameters and running statistics."""

    num_features: int
    eps: float
    momentum: float | None
    affine: bool
    track_running_stats: bool

    _version = 2  # since num_batches_tracked

    @on_device
    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Device = None,
        dtype: DType | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        _affine(self, (num_features,), affine, bias, dtype)
        if track_running_stats:
            dtype = dtype or _core._default_dtype()
            self.register_buffer("running_mean", _core.zeros((num_features,), dtype=dtype))
            self.register_buffer("running_var", _core.ones((num_features,), dtype=dtype))
            self.register_buffer("num_batches_tracked", _core.zeros((), dtype=_core.int64))
        else:
            for name in ("running_mean", "running_var", "num_batches_tracked"):
                self.register_buffer(name, None)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Mean 0, variance 1, no batches."""
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Weight 1, bias 0, and no statistics."""
        self.reset_running_stats()
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    _ranks, _shown = (), ""  # of inputs

    def _check_input_dim(self, input):
        if input.dim() not in self._ranks:
            raise ValueError(f"expected {self._shown} input (got {input.dim()}D input)")

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"{_without_bias(self, self.affine)}track_running_stats={self.track_running_stats}"
        )

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, *args):
        version = local_metadata.get("version", None)
        if (version is None or version < 2) and self.track_running_stats:
            state_dict.setdefault(prefix + "num_batches_tracked", self.num_batches_tracked)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *args)


class _BatchNorm(_NormBase):
    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        counted = self.training and self.track_running_stats and self.num_batches_tracked is not None
        if counted:
            self.num_batches_tracked.add_(1)
        if counted and self.momentum is None:
            return self._cumulative(input)
        training = self.training or (self.running_mean is None and self.running_var is None)
        tracked = not self.training or self.track_running_stats
        return F.batch_norm(
            input,
            self.running_mean if tracked else None,
            self.running_var if tracked else None,
            self.weight,
            self.bias,
            training,
            0.0 if self.momentum is None else self.momentum,
            self.eps,
        )

    def _cumulative(self, input):
        """The mean over all batches so far. How many is a tensor, which is not read."""
        mean, var = self.running_mean.clone(), self.running_var.clone()  # what they stay for an empty batch
        out = F.batch_norm(input, mean, var, self.weight, self.bias, True, 1.0, self.eps)
        with no_grad():
            share = 1.0 / self.num_batches_tracked.to(mean.dtype)
            self.running_mean.add_((mean - self.running_mean) * share)
            self.running_var.add_((var - self.running_var) * share)
        return out


class SyncBatchNorm(_BatchNorm):
    """Channels normalised over the batches of all processes, of which there is one: as any batch norm, of two dimensions up."""

    @on_device
    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: Any = None,
        device: Device = None,
        dtype: DType | None = None,
        *,
        bias: bool = True,
    ) -> None:
        if process_group is not None:
            raise NotImplementedError(
                "nn.SyncBatchNorm: process_group is not supported: its statistics are those of one process"
            )
        super().__init__(num_features, eps, momentum, affine, track_running_stats, dtype=dtype, bias=bias)
        self.process_group = process_group

    def _check_input_dim(self, input):
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")
        if input.size(1) == 0:
            raise ValueError("SyncBatchNorm number of input channels should be non-zero")

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: Any = None) -> Module:
        """The module with such layers in the place of batch norms, whose parameters and statistics they take over."""
        out = module
        if isinstance(module, _BatchNorm):
            out = SyncBatchNorm(
                module.num_features,
                module.eps,
                module.momentum,
                module.affine,
                module.track_running_stats,
                process_group,
                bias=module.bias is not None,
            )
            if module.affine:
                out.weight, out.bias = module.weight, module.bias
            out.running_mean, out.running_var = module.running_mean, module.running_var
            out.num_batches_tracked, out.training = module.num_batches_tracked, module.training
        for name, child in module.named_children():
            out.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return out


class BatchNorm1d(_BatchNorm):
    """Channels of [N, C] or [N, C, L] normalised over the batch; in evaluation by running statistics."""

    _ranks, _shown = (2, 3), "2D or 3D"


class BatchNorm2d(_BatchNorm):
    """Channels of [N, C, H, W] normalised over the batch; in evaluation by running statistics."""

    _ranks, _shown = (4,), "4D"


class BatchNorm3d(_BatchNorm):
    """Channels of [N, C, D, H, W] normalised over the batch; in evaluation by running statistics."""

    _ranks, _shown = (5,), "5D"


class _InstanceNorm(_NormBase):
    @on_device
    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Device = None,
        dtype: DType | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    def _apply_instance_norm(self, input):
        return F.instance_norm(
            input,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            self.momentum if self.momentum is not None else 0.0,
            self.eps,
        )

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        batched = input.dim() == max(self._ranks)
        axis = 1 if batched else 0
        if input.size(axis) != self.num_features:
            if self.affine:
                raise ValueError(
                    f"expected input's size at dim={axis} to match num_features"
                    f" ({self.num_features}), but got: {input.size(axis)}."
                )
            warnings.warn(
                f"input's size at dim={axis} does not match num_features. "
                "You can silence this warning by not passing in num_features, "
                "which is not used because affine=False",
                stacklevel=2,
            )
        if batched:
            return self._apply_instance_norm(input)
        return self._apply_instance_norm(input.unsqueeze(0)).squeeze(0)


class InstanceNorm1d(_InstanceNorm):
    """Channels of each signal of [N, C, L] normalised by themselves."""

    _ranks, _shown = (2, 3), "2D or 3D"


class InstanceNorm2d(_InstanceNorm):
    """Channels of each image of [N, C, H, W] normalised by themselves."""

    _ranks, _shown = (3, 4), "3D or 4D"


class InstanceNorm3d(_InstanceNorm):
    """Channels of each volume of [N, C, D, H, W] normalised by themselves."""

    _ranks, _shown = (4, 5), "4D or 5D"


class _Affine(Module):
    """Normalises without statistics; then scales and shifts by parameters, which may be absent."""

    def reset_parameters(self) -> None:
        """Weight 1, bias 0."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)


class GroupNorm(_Affine):
    """Groups of channels normalised by themselves."""

    num_groups: int
    num_channels: int
    eps: float
    affine: bool

    @on_device
    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Device = None,
        dtype: DType | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_channels % num_groups != 0:
            raise ValueError(f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})")
        self.num_groups, self.num_channels, self.eps, self.affine = num_groups, num_channels, eps, affine
        _affine(self, (num_channels,), affine, bias, dtype)
        self.reset_parameters()

    def forward(self, input: Tensor) -> Tensor:
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return f"{self.num_groups}, {self.num_channels}, eps={self.eps}, {_without_bias(self, self.affine)}affine={self.affine}"


def _trailing(normalized_shape):
    return (normalized_shape,) if isinstance(normalized_shape, numbers.Integral) else tuple(normalized_shape)


class LayerNorm(_Affine):
    """Normalises over the last dimensions."""

    normalized_shape: tuple[int, ...]
    eps: float

    @on_device
    def __init__(
        self,
        normalized_shape: Ints,
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Device = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        self.normalized_shape, self.eps = _trailing(normalized_shape), eps
        self.elementwise_affine = elementwise_affine
        _affine(self, self.normalized_shape, elementwise_affine, bias, dtype)
        self.reset_parameters()

    def forward(self, input: Tensor) -> Tensor:
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class RMSNorm(Module):
    """The last dimensions divided by the root of their mean square."""

    normalized_shape: tuple[int, ...]
    eps: float | None

    @on_device
    def __init__(
        self,
        normalized_shape: Ints,
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Device = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        self.normalized_shape, self.eps = _trailing(normalized_shape), eps
        self.elementwise_affine = elementwise_affine
        dtype = dtype or _core._default_dtype()
        weight = Parameter(_core.empty(self.normalized_shape, dtype=dtype)) if elementwise_affine else None
        self.register_parameter("weight", weight)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Weight 1."""
        if self.elementwise_affine:
            init.ones_(self.weight)

    def forward(self, input: Tensor) -> Tensor:
        return F.rms_norm(input, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class CrossMapLRN2d(Module):
    """Divides by powers of k + alpha times the mean square over neighbouring maps: as many before as after, of an even
    size one fewer than that in all."""

    size: int
    alpha: float
    beta: float
    k: float

    def __init__(self, size: int, alpha: float = 0.0001, beta: float = 0.75, k: float = 1) -> None:
        super().__init__()
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, input: Tensor) -> Tensor:
        if input.dim() != 4:
            raise ValueError(f"CrossMapLRN2d: Expected input to be 4D, got {input.dim()}D instead.")
        beside = (self.size - 1) // 2
        squares = F.pad(input.pow(2), (0, 0, 0, 0, beside, beside))
        total = squares.unfold(1, 2 * beside + 1, 1).sum(-1)
        return input * (self.k + self.alpha / self.size * total).pow(-self.beta)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class LocalResponseNorm(Module):
    """Divides by powers of k + alpha times the mean square over neighbouring channels."""

    size: int
    alpha: float
    beta: float
    k: float

    def __init__(self, size: int, alpha: float = 0.0001, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, input: Tensor) -> Tensor:
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"
