"""Recurrent layers and cells."""

from __future__ import annotations

import math
import numbers
from typing import Any

from smolder import _core
from smolder._autocast import listed
from smolder._device import on_device
from smolder._names import listing as _listing
from smolder._typing import Device, DType, Tensor
from smolder._warn import warn
from smolder.nn import functional as F
from smolder.nn import init
from smolder.nn.module import Module
from smolder.nn.parameter import Parameter
from smolder.nn.utils.rnn import PackedSequence

__all__ = ["GRU", "LSTM", "RNN", "GRUCell", "LSTMCell", "RNNBase", "RNNCell", "RNNCellBase"]
__dir__ = _listing(__name__)

# On the CPU torch has a kernel for layers of LSTM over batches, without projections, and autocast lists that.
_lstm_of_batch = listed("mkldnn_rnn_layer")(_core.lstm_layer)

_GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}


def _check_sizes(num_layers, bias, batch_first, dropout, proj_size, **sizes):
    if not isinstance(dropout, numbers.Number) or not 0 <= dropout <= 1 or isinstance(dropout, bool):
        raise ValueError(
            "dropout should be a number in range [0, 1] representing the probability of an element being zeroed"
        )
    if dropout > 0 and num_layers == 1:
        warn(
            "dropout option adds dropout after all but last recurrent layer, so non-zero dropout expects num_layers "
            f"greater than 1, but got dropout={dropout} and num_layers={num_layers}"
        )
    for name, value in (("bias", bias), ("batch_first", batch_first)):
        if not isinstance(value, bool):
            raise TypeError(f"{name} should be of type bool, got: {type(value).__name__}")
    for name, value in sizes.items():
        if not isinstance(value, int):
            raise TypeError(f"{name} should be of type int, got: {type(value).__name__}")
        if value <= 0:
            raise ValueError(f"{name} must be greater than zero")
    if num_layers <= 0:
        raise ValueError("num_layers must be greater than zero")
    if proj_size < 0:
        raise ValueError("proj_size should be a positive integer or zero to disable projections")
    if proj_size >= sizes["hidden_size"]:
        raise ValueError("proj_size has to be smaller than hidden_size")


# Attributes of torch's layers that are made of others.
_TORCHS = ("all_weights", "_all_weights", "_flat_weights", "_flat_weights_names", "_flat_weight_refs")


def _without_elements(module, shape, *given):
    """A result of a module for an empty batch, with the history that it has for others."""
    history = sum(x.sum() for x in (*given, *module.parameters()))
    return given[0].new_zeros(shape) + history.to(given[0].dtype)


class RNNBase(Module):
    """Layers of one or two directions over sequences [T, B, input_size], or [B, T, input_size] with batch_first."""

    mode: str
    input_size: int
    hidden_size: int
    num_layers: int
    bias: bool
    batch_first: bool
    dropout: float
    bidirectional: bool
    proj_size: int

    @on_device
    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Device = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        _check_sizes(num_layers, bias, batch_first, dropout, proj_size, input_size=input_size, hidden_size=hidden_size)
        if mode not in _GATES:
            raise ValueError("Unrecognized RNN mode: " + mode)
        self.mode, self.input_size, self.hidden_size, self.num_layers = mode, input_size, hidden_size, num_layers
        self.bias, self.batch_first, self.dropout = bias, batch_first, float(dropout)
        self.bidirectional, self.proj_size = bidirectional, proj_size
        rows, out = _GATES[mode] * hidden_size, proj_size or hidden_size
        for layer in range(num_layers):
            seen = input_size if layer == 0 else out * self._directions
            for suffix in self._suffixes(layer):
                shapes = {"weight_ih": (rows, seen), "weight_hh": (rows, out)}
                if bias:
                    shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)}
                if proj_size:
                    shapes["weight_hr"] = (proj_size, hidden_size)
                for name, shape in shapes.items():
                    setattr(self, name + suffix, Parameter(_core.empty(shape, dtype=dtype or _core._default_dtype())))
        self.reset_parameters()

    @property
    def _directions(self):
        return 2 if self.bidirectional else 1

    def _suffixes(self, layer):
        return [f"_l{layer}", f"_l{layer}_reverse"][: self._directions]

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """The parameters of each direction of each layer."""
        names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr")
        every = [suffix for layer in range(self.num_layers) for suffix in self._suffixes(layer)]
        return [[getattr(self, n + suffix) for n in names if hasattr(self, n + suffix)] for suffix in every]

    @property
    def _flat_weights(self) -> list[Parameter]:
        return [weight for group in self.all_weights for weight in group]

    def __getstate__(self) -> dict[str, Any]:
        """The state to pickle, with all_weights, from which torch's layers make their other members."""
        return {**vars(self), "all_weights": self.all_weights}

    def __setstate__(self, state: Any) -> None:
        super().__setstate__({name: value for name, value in state.items() if name not in _TORCHS})

    def reset_parameters(self) -> None:
        """Draws the parameters again, uniform in +-1/sqrt(hidden_size)."""
        bound = 1.0 / math.sqrt(self.hidden_size)
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def flatten_parameters(self) -> None:
        """Nothing: it lays weights out for cuDNN, and these are on the CPU."""

    def _direction(self, rows, state, suffix, sizes, reverse, packed):
        """One direction of a layer: every h, and the last states."""
        weights = [getattr(self, name + suffix) for name in ("weight_ih", "weight_hh")]
        weights += [getattr(self, name + suffix) if self.bias else None for name in ("bias_ih", "bias_hh")]
        if self.mode == "LSTM":
            projection = getattr(self, "weight_hr" + suffix) if self.proj_size else None
            layer = _core.lstm_layer if packed or self.proj_size else _lstm_of_batch
            return layer(rows, *state, *weights, projection, sizes, reverse)
        if self.mode == "GRU":
            return _core.gru_layer(rows, *state, *weights, sizes, reverse)
        return _core.rnn_layer(rows, *state, *weights, sizes, self.mode[4:].lower(), reverse)

    def _layers(self, rows, states, sizes, packed=False):
        """All layers, over rows time by time; states are [layers * directions, B, size] each."""
        last = []
        for layer in range(self.num_layers):
            outs = []
            for d, suffix in enumerate(self._suffixes(layer)):
                begin = [s[layer * self._directions + d] for s in states]
                out, *end = self._direction(rows, begin, suffix, sizes, d == 1, packed)
                outs.append(out)
                last.append(end)
            rows = outs[0] if len(outs) == 1 else _core.cat(outs, 1)
            if self.dropout and layer < self.num_layers - 1:
                rows = F.dropout(rows, self.dropout, self.training)
        return rows, [_core.stack(list(s), 0) for s in zip(*last, strict=True)]

    def _widths(self):
        """The sizes of the states."""
        return (self.proj_size or self.hidden_size, self.hidden_size) if self.mode == "LSTM" else (self.hidden_size,)

    def _begin(self, states, batch, rows):
        """The states given, which must be of the right size, or zeros such as the rows of input."""
        lead = (self.num_layers * self._directions, batch)
        if states is None:
            return [rows.new_zeros((*lead, width)) for width in self._widths()]
        for i, (state, width) in enumerate(zip(states, self._widths(), strict=True)):
            if tuple(state.shape) != (*lead, width):
                what = f"hidden[{i}]" if self.mode == "LSTM" else "hidden"
                raise RuntimeError(f"Expected {what} size {(*lead, width)}, got {list(state.shape)}")
        return states

    def _check_input(self, input, dims):
        dtype = self.weight_ih_l0.dtype
        if input.dtype != dtype and not _core._autocasting():
            raise ValueError(
                f"RNN input dtype ({input.dtype}) does not match weight dtype ({dtype}). Convert input: "
                f"input.to({dtype}), or convert model: model.to({input.dtype})"
            )
        if input.dim() != dims:
            raise RuntimeError(f"input must have {dims} dimensions, got {input.dim()}")
        if self.input_size != input.size(-1):
            raise RuntimeError(
                f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got {input.size(-1)}"
            )

    def _run_packed(self, packed, states):
        data, sizes, order, back = packed
        self._check_input(data, 2)
        sizes_here = sizes.tolist()
        if states is not None and order is not None:
            states = [s.index_select(1, order) for s in states]
        begin = self._begin(states, sizes_here[0], data)
        out, last = self._layers(data, begin, sizes_here, packed=True)
        if back is not None:
            last = [s.index_select(1, back) for s in last]
        return PackedSequence(out, sizes, order, back), last

    def _run(self, input, states):
        """Output and last states, of packed sequences, a batch or one sequence."""
        if isinstance(input, PackedSequence):
            return self._run_packed(input, states)
        what = self.mode.partition("_")[0]
        if input.dim() not in (2, 3):
            tensor = " tensor" if what == "RNN" else ""
            raise ValueError(f"{what}: Expected input to be 2D or 3D, got {input.dim()}D{tensor} instead")
        batched = input.dim() == 3
        if states is not None:
            self._check_ranks(states, 3 if batched else 2)
            states = states if batched else [s.unsqueeze(1) for s in states]
        if not batched:
            input = input.unsqueeze(0 if self.batch_first else 1)
        self._check_input(input, 3)
        times = input.transpose(0, 1) if self.batch_first else input
        steps, batch = times.shape[:2]
        if steps == 0:
            raise RuntimeError("Expected sequence length to be larger than 0 in RNN")
        begin = self._begin(states, batch, input)
        if batch == 0:
            out = _without_elements(self, (*input.shape[:2], self._widths()[0] * self._directions), input, *begin)
            return out, [_without_elements(self, state.shape, input, *begin) for state in begin]
        out, last = self._layers(times.reshape((steps * batch, self.input_size)), begin, [batch] * steps)
        out = out.reshape((steps, batch, out.size(1)))
        out = out.transpose(0, 1) if self.batch_first else out
        if batched:
            return out, last
        return out.squeeze(0 if self.batch_first else 1), [s.squeeze(1) for s in last]

    def _check_ranks(self, states, dims):
        kind = "batched 3-D" if dims == 3 else "unbatched 2-D"
        if all(s.dim() == dims for s in states):
            return
        if self.mode == "LSTM":
            raise RuntimeError(
                f"For {kind} input, hx and cx should also be {dims}-D but got ({states[0].dim()}-D, {states[1].dim()}-D) "
                "tensors"
            )
        raise RuntimeError(f"For {kind} input, hx should also be {dims}-D but got {states[0].dim()}-D tensor")

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        usual = {"num_layers": 1, "bias": True, "batch_first": False, "dropout": 0, "bidirectional": False}
        for name, value in ({"proj_size": 0} | usual).items():
            if getattr(self, name) != value:
                text += f", {name}={getattr(self, name)}"
        return text


class RNN(RNNBase):
    """h = tanh(x W_ih^T + b_ih + h W_hh^T + b_hh), or relu of it."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        *args: Any,
        **kwargs: Any,
    ) -> None:
        if "proj_size" in kwargs:
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.")
        super().__init__(f"RNN_{nonlinearity.upper()}", input_size, hidden_size, num_layers, *args, **kwargs)
        self.nonlinearity = nonlinearity

    def forward(self, input: Any, hx: Tensor | None = None) -> tuple[Tensor, Tensor]:
        out, (h,) = self._run(input, None if hx is None else [hx])
        return out, h


class LSTM(RNNBase):
    """Long short-term memory. Returns every h, and (h, c) after the last time."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("LSTM", *args, **kwargs)

    def forward(self, input: Any, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        if hx is not None and len(hx) != 2:
            raise IndexError(f"LSTM: expected hx to be a tuple of two tensors, (h_0, c_0), but got {len(hx)}")
        out, last = self._run(input, None if hx is None else list(hx))
        return out, tuple(last)


class GRU(RNNBase):
    """Gated recurrent units."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if "proj_size" in kwargs:
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        super().__init__("GRU", *args, **kwargs)

    def forward(self, input: Any, hx: Tensor | None = None) -> tuple[Tensor, Tensor]:
        out, (h,) = self._run(input, None if hx is None else [hx])
        return out, h


class RNNCellBase(Module):
    """A step of a recurrent layer."""

    input_size: int
    hidden_size: int
    bias: bool
    weight_ih: Parameter
    weight_hh: Parameter

    _gates = 1

    @on_device
    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Device = None, dtype: DType | None = None
    ) -> None:
        super().__init__()
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        rows, dtype = self._gates * hidden_size, dtype or _core._default_dtype()
        self.weight_ih = Parameter(_core.empty((rows, input_size), dtype=dtype))
        self.weight_hh = Parameter(_core.empty((rows, hidden_size), dtype=dtype))
        for name in ("bias_ih", "bias_hh"):
            self.register_parameter(name, Parameter(_core.empty((rows,), dtype=dtype)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws the parameters again, uniform in +-1/sqrt(hidden_size)."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def _step(self, layer, input, states, *options):
        """The states after a step, of a batch or of one."""
        name = type(self).__name__
        if input.dim() not in (1, 2):
            raise ValueError(f"{name}: Expected input to be 1D or 2D, got {input.dim()}D instead")
        for i, state in enumerate(states):
            if state is not None and state.dim() not in (1, 2):
                what = f"hx[{i}]" if len(states) > 1 else "hidden"
                raise ValueError(f"{name}: Expected {what} to be 1D or 2D, got {state.dim()}D instead")
        batched = input.dim() == 2
        rows = input if batched else input.unsqueeze(0)
        zeros = rows.new_zeros((rows.size(0), self.hidden_size))
        states = [zeros if s is None else s if batched else s.unsqueeze(0) for s in states]
        self._check_fit(rows, states)
        if rows.size(0) == 0:
            return tuple(_without_elements(self, s.shape, rows, *states) for s in states)
        weights = (self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        last = layer(rows, *states, *weights, *options, [rows.size(0)])[1:]
        return last if batched else tuple(s.squeeze(0) for s in last)

    def _check_fit(self, rows, states):
        if rows.size(1) != self.input_size:
            raise RuntimeError(f"input has inconsistent input_size: got {rows.size(1)} expected {self.input_size}")
        for i, state in enumerate(states):
            if state.size(0) != rows.size(0):
                raise RuntimeError(
                    f"Input batch size {rows.size(0)} doesn't match hidden{i} batch size {state.size(0)}"
                )
            if state.size(1) != self.hidden_size:
                raise RuntimeError(
                    f"hidden{i} has inconsistent hidden_size: got {state.size(1)}, expected {self.hidden_size}"
                )

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.hidden_size}" + ("" if self.bias else ", bias=False")


class RNNCell(RNNCellBase):
    """h' = tanh(x W_ih^T + b_ih + h W_hh^T + b_hh), or relu of it."""

    @on_device
    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Device = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")

        def layer(*given):
            return _core.rnn_layer(*given, self.nonlinearity)

        return self._step(layer, input, [hx])[0]

    def extra_repr(self) -> str:
        return super().extra_repr() + ("" if self.nonlinearity == "tanh" else f", nonlinearity={self.nonlinearity}")


class LSTMCell(RNNCellBase):
    """A step of long short-term memory: (h', c') out of (h, c)."""

    _gates = 4

    def forward(self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        return tuple(self._step(_core.lstm_layer, input, [None, None] if hx is None else list(hx), None))


class GRUCell(RNNCellBase):
    """A step of gated recurrent units."""

    _gates = 3

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        return self._step(_core.gru_layer, input, [hx])[0]
