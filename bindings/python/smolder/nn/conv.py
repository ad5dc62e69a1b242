"""Convolutions and their transposes."""

from __future__ import annotations

import math
from collections.abc import Callable

from smolder import _core
from smolder._device import on_device
from smolder._names import listing as _listing
from smolder._typing import Device, DType, Ints, Tensor
from smolder.nn import functional as F
from smolder.nn import init
from smolder.nn._spatial import _numbers
from smolder.nn.module import Module
from smolder.nn.parameter import Parameter

__all__ = ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"]
__dir__ = _listing(__name__)

_PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


def _pairs(padding, kernel_size, dilation):
    if padding == "valid":
        return [0] * 2 * len(kernel_size)
    if padding == "same":
        totals = [d * (k - 1) for k, d in zip(kernel_size, dilation, strict=True)]
        return [side for total in reversed(totals) for side in (total // 2, total - total // 2)]
    return [p for p in reversed(padding) for _ in range(2)]


class _ConvNd(Module):
    """The base of convolutions of any number of dimensions."""

    in_channels: int
    out_channels: int
    transposed: bool
    groups: int

    weight: Parameter
    bias: Parameter | None
    kernel_size: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    output_padding: tuple[int, ...]

    @on_device
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Ints,
        stride: Ints,
        padding: Ints | str,
        dilation: Ints,
        transposed: bool,
        output_padding: Ints,
        groups: int,
        bias: bool,
        padding_mode: str,
        device: Device = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        if groups <= 0:
            raise ValueError("groups must be a positive integer")
        if in_channels % groups != 0:
            raise ValueError("in_channels must be divisible by groups")
        if out_channels % groups != 0:
            raise ValueError("out_channels must be divisible by groups")
        if isinstance(padding, str):
            if padding not in ("same", "valid"):
                raise ValueError(f"Invalid padding string {padding!r}, should be one of {{'same', 'valid'}}")
            if padding == "same" and any(s != 1 for s in stride):
                raise ValueError("padding='same' is not supported for strided convolutions")
        if padding_mode not in _PADDING_MODES:
            raise ValueError(
                f"padding_mode must be one of {set(_PADDING_MODES)}, but got padding_mode={padding_mode!r}"
            )
        self.in_channels, self.out_channels = in_channels, out_channels
        self.kernel_size, self.stride, self.padding, self.dilation = kernel_size, stride, padding, dilation
        self.transposed, self.output_padding = transposed, output_padding
        self.groups, self.padding_mode = groups, padding_mode
        # Sizes for F.pad in place of zeros: pairs from the last dimension on. Torch's name, which its pickles have.
        self._reversed_padding_repeated_twice = _pairs(padding, kernel_size, dilation)
        shape = (in_channels, out_channels // groups) if transposed else (out_channels, in_channels // groups)
        dtype = dtype or _core._default_dtype()
        self.weight = Parameter(_core.empty((*shape, *kernel_size), dtype=dtype))
        if bias:
            self.bias = Parameter(_core.empty((out_channels,), dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws the parameters again, uniform in +-1/sqrt of the number of products that an output sums."""
        if self.weight.numel():
            init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        fan_in = self.weight.size(1) * math.prod(self.kernel_size)
        if self.bias is not None and fan_in:
            bound = 1 / math.sqrt(fan_in)
            init.uniform_(self.bias, -bound, bound)

    def extra_repr(self) -> str:
        zeros, ones = (0,) * len(self.kernel_size), (1,) * len(self.kernel_size)
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        if self.padding != zeros:
            text += f", padding={self.padding}"
        if self.dilation != ones:
            text += f", dilation={self.dilation}"
        if self.output_padding != zeros:
            text += f", output_padding={self.output_padding}"
        if self.groups != 1:
            text += f", groups={self.groups}"
        if self.bias is None:
            text += ", bias=False"
        return text if self.padding_mode == "zeros" else f"{text}, padding_mode={self.padding_mode}"


class _Conv(_ConvNd):
    _dims = 0
    _convolution: Callable[..., Tensor]

    @on_device
    def __init__(
        self,
        in_channels: int,
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
            in_channels,
            out_channels,
            _numbers(kernel_size, self._dims),
            _numbers(stride, self._dims),
            padding if isinstance(padding, str) else _numbers(padding, self._dims),
            _numbers(dilation, self._dims),
            False,
            (0,) * self._dims,
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def _conv_forward(self, input, weight, bias):
        """The convolution with a weight and a bias that may be others than its own: what subclasses call and override."""
        padding = self.padding
        if self.padding_mode != "zeros":
            input, padding = F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode), 0
        return self._convolution(input, weight, bias, self.stride, padding, self.dilation, self.groups)

    def forward(self, input: Tensor) -> Tensor:
        return self._conv_forward(input, self.weight, self.bias)


class Conv1d(_Conv):
    """Convolution of signals [N, C, L]; weight is [out_channels, in_channels / groups, kernel]."""

    _dims, _convolution = 1, staticmethod(F.conv1d)


class Conv2d(_Conv):
    """Convolution of images [N, C, H, W]; weight is [out_channels, in_channels / groups, h, w]."""

    _dims, _convolution = 2, staticmethod(F.conv2d)


class Conv3d(_Conv):
    """Convolution of volumes [N, C, D, H, W]; weight is [out_channels, in_channels / groups, d, h, w]."""

    _dims, _convolution = 3, staticmethod(F.conv3d)


class _ConvTransposeNd(_ConvNd):
    _dims = 0

    @on_device
    def __init__(
        self,
        in_channels: int,
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
        if padding_mode != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}')
        super().__init__(
            in_channels,
            out_channels,
            _numbers(kernel_size, self._dims),
            _numbers(stride, self._dims),
            _numbers(padding, self._dims),
            _numbers(dilation, self._dims),
            True,
            _numbers(output_padding, self._dims),
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def _output_padding(self, input, output_size):
        """The padding that makes the output of `output_size`, where one is asked for."""
        if output_size is None:
            return self.output_padding
        dims, lead = self._dims, input.dim() - self._dims
        output_size = tuple(output_size)
        if len(output_size) == lead + dims:
            output_size = output_size[lead:]
        if len(output_size) != dims:
            raise ValueError(
                f"ConvTranspose{dims}D: for {input.dim()}D input, output_size must have {dims} "
                f"or {lead + dims} elements (got {len(output_size)})"
            )
        smallest = [
            (input.size(lead + i) - 1) * self.stride[i]
            - 2 * self.padding[i]
            + self.dilation[i] * (self.kernel_size[i] - 1)
            + 1
            for i in range(dims)
        ]
        largest = [n + self.stride[i] - 1 for i, n in enumerate(smallest)]
        if any(not low <= n <= high for low, n, high in zip(smallest, output_size, largest, strict=True)):
            raise ValueError(
                f"requested an output size of {output_size}, but valid sizes range "
                f"from {smallest} to {largest} (for an input of {input.size()[2:]})"
            )
        return tuple(n - low for n, low in zip(output_size, smallest, strict=True))

    def _transpose(self, convolution, input, output_size):
        output_padding = self._output_padding(input, output_size)
        return convolution(
            input, self.weight, self.bias, self.stride, self.padding, output_padding, self.groups, self.dilation
        )


_ConvTransposeMixin = _ConvTransposeNd  # torch's older name, which libraries ask modules for


class ConvTranspose1d(_ConvTransposeNd):
    """Transposed convolution of signals [N, C, L]; weight is [in_channels, out_channels / groups, kernel]."""

    _dims = 1

    def forward(self, input: Tensor, output_size: Ints | None = None) -> Tensor:
        return self._transpose(F.conv_transpose1d, input, output_size)


class ConvTranspose2d(_ConvTransposeNd):
    """Transposed convolution of images [N, C, H, W]; weight is [in_channels, out_channels / groups, h, w]."""

    _dims = 2

    def forward(self, input: Tensor, output_size: Ints | None = None) -> Tensor:
        return self._transpose(F.conv_transpose2d, input, output_size)


class ConvTranspose3d(_ConvTransposeNd):
    """Transposed convolution of volumes [N, C, D, H, W]; weight is [in_channels, out_channels / groups, d, h, w]."""

    _dims = 3

    def forward(self, input: Tensor, output_size: Ints | None = None) -> Tensor:
        return self._transpose(F.conv_transpose3d, input, output_size)
