"""Gradients that halves hold: losses scaled before backward, gradients scaled back before the optimizer's step."""

from __future__ import annotations

import collections.abc
import enum
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from smolder import _core
from smolder._core import _amp_foreach_non_finite_check_and_unscale_, _amp_update_scale_
from smolder._creation import full
from smolder._modes import no_grad
from smolder._names import listing as _listing
from smolder._typing import Device, Tensor
from smolder._warn import warn
from smolder.optim.optimizer import steps_conditionally

if TYPE_CHECKING:
    from smolder._typing import Optimizer

__all__ = ["GradScaler", "OptState"]
__dir__ = _listing(__name__)


class OptState(enum.Enum):
    """The stage of an optimizer since the last update()."""

    READY = 0
    UNSCALED = 1
    STEPPED = 2


def _refresh_per_optimizer_state():
    return {"stage": OptState.READY, "found_inf_per_device": {}}


def _number_on(device, value, dtype):
    return full((), value, dtype=dtype, device=device)


class GradScaler:
    """Scales losses, so that gradients do not vanish in float16, by as much as they bear.

    `scaler.scale(loss).backward(); scaler.step(optimizer); scaler.update()`. A step whose gradients are not all finite
    changes neither parameters nor state, and the scale is multiplied by backoff_factor; after growth_interval steps that
    were, by growth_factor. Whether they are finite is found out on the device and nothing waits for it: the optimizer's
    step is recorded in any case, and what it writes depends on it there. Optimizers of a program's own, and SGD with
    dampening in the first step of its momentum, wait instead and are not called.
    """

    def __init__(
        self,
        device: Device = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        self._device, self._enabled = device, enabled
        if device == "cuda" and enabled and not _core._cuda_is_available():
            warn("smolder.amp.GradScaler is enabled, but CUDA is not available.  Disabling.")
            self._enabled = False
        if not self._enabled:
            return
        if growth_factor <= 1.0:
            raise AssertionError("The growth factor must be > 1.0.")
        if backoff_factor >= 1.0:
            raise AssertionError("The backoff factor must be < 1.0.")
        self._init_scale, self._init_growth_tracker = init_scale, 0
        self._scale = self._growth_tracker = None  # tensors, once scale() was called
        self._growth_factor, self._backoff_factor = growth_factor, backoff_factor
        self._growth_interval = growth_interval
        self._per_optimizer_states = defaultdict(_refresh_per_optimizer_state)

    def _check_scale_growth_tracker(self, funcname):
        fix = "This may indicate your script did not use scaler.scale(loss or outputs) earlier in the iteration."
        if self._scale is None:
            raise AssertionError(f"Attempted {funcname} but _scale is None.  " + fix)
        return self._scale, self._growth_tracker

    # -- scaling

    def scale(self, outputs: Any) -> Any:
        """A tensor, or those in lists and tuples and other iterables, times the scale."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, _core.Tensor):
            _core._restore_on_failure(vars(self))
            if self._scale is None:
                self._scale = _number_on(outputs.device, self._init_scale, _core.float32)
                self._growth_tracker = _number_on(outputs.device, self._init_growth_tracker, _core.int32)
            return outputs * self._scale.to(outputs.device)
        if isinstance(outputs, collections.abc.Iterable):
            scaled = map(self.scale, outputs)
            return type(outputs)(scaled) if isinstance(outputs, (list, tuple)) else scaled
        raise ValueError("outputs must be a Tensor or an iterable of Tensors")

    def _unscale_grads_(self, optimizer, inv_scale, allow_fp16):
        """Multiplies the gradients; whether some were not finite, by device."""
        by_device, where, grads = {}, None, None
        for group in optimizer.param_groups:
            for param in group["params"]:
                if not isinstance(param, _core.Tensor):
                    raise AssertionError(f"expected param to be smolder.Tensor, got {type(param).__name__}")
                grad = param.grad
                if grad is None:
                    continue
                if not allow_fp16 and grad.dtype == _core.float16:
                    raise ValueError("Attempting to unscale FP16 gradients.")
                if grad.device is not where:
                    where = grad.device
                    grads = by_device.setdefault(where, [])
                grads.append(grad)
        found = {}
        for device, grads in by_device.items():
            found[device] = _number_on(device, 0.0, _core.float32)
            _amp_foreach_non_finite_check_and_unscale_(grads, found[device], inv_scale.to(device))
        return found

    def unscale_(self, optimizer: Optimizer) -> None:
        """Divides the gradients of an optimizer's parameters by the scale, which step() does otherwise."""
        if not self._enabled:
            return
        scale, _ = self._check_scale_growth_tracker("unscale_")
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] is OptState.UNSCALED:
            raise RuntimeError("unscale_() has already been called on this optimizer since the last update().")
        if state["stage"] is OptState.STEPPED:
            raise RuntimeError("unscale_() is being called after step().")
        with no_grad():
            inv_scale = scale.double().reciprocal().float()
        state["found_inf_per_device"] = self._unscale_grads_(optimizer, inv_scale, False)
        state["stage"] = OptState.UNSCALED

    # -- steps

    def step(self, optimizer: Optimizer, *args: Any, **kwargs: Any) -> Any:
        """unscale_(optimizer), unless that was called, and optimizer.step(), which changes nothing unless all is finite.

        Returns what optimizer.step() does.
        """
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        self._check_scale_growth_tracker("step")
        _core._restore_on_failure(vars(self))
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] is OptState.STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        if getattr(optimizer, "_step_supports_amp_scaling", False):
            result = self._step_with_scale(optimizer, state, args, kwargs)
        else:
            if state["stage"] is OptState.READY:
                self.unscale_(optimizer)
            if not state["found_inf_per_device"]:
                raise AssertionError("No inf checks were recorded for this optimizer.")
            result = self._maybe_opt_step(optimizer, state, *args, **kwargs)
        state["stage"] = OptState.STEPPED
        return result

    def _step_with_scale(self, optimizer, state, args, kwargs):
        """For an optimizer that reads its attributes grad_scale and found_inf."""
        if state["stage"] is OptState.READY:
            self._check_inf_per_device(optimizer)
        found_inf = sum(f.to(self._scale.device) for f in state["found_inf_per_device"].values())
        before = getattr(optimizer, "grad_scale", None)
        unscaled = state["stage"] is OptState.UNSCALED
        optimizer.grad_scale = before if unscaled else self._scale * (1 if before is None else before)
        optimizer.found_inf = found_inf
        result = optimizer.step(*args, **kwargs)
        del optimizer.grad_scale, optimizer.found_inf
        return result

    def _maybe_opt_step(self, optimizer, optimizer_state, *args, **kwargs):
        found = list(optimizer_state["found_inf_per_device"].values())
        if len(found) == 1 and steps_conditionally(optimizer):
            with no_grad():
                optimizer._skip = found[0] > 0
            try:
                return optimizer.step(*args, **kwargs)
            finally:
                optimizer._skip = None
        if any(f.item() for f in found):
            return None
        return optimizer.step(*args, **kwargs)

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Changes the scale by what was found since the last time; or to new_scale, a float or a tensor of one element."""
        if not self._enabled:
            return
        scale, growth_tracker = self._check_scale_growth_tracker("update")
        if new_scale is not None:
            self._set_scale(scale, new_scale)
        else:
            found = [
                f.to(scale.device)
                for state in self._per_optimizer_states.values()
                for f in state["found_inf_per_device"].values()
            ]
            if not found:
                raise AssertionError("No inf checks were recorded prior to update.")
            _amp_update_scale_(
                scale,
                growth_tracker,
                sum(found[1:], found[0]),
                self._growth_factor,
                self._backoff_factor,
                self._growth_interval,
            )
        self._per_optimizer_states = defaultdict(_refresh_per_optimizer_state)

    def _set_scale(self, scale, new_scale):
        if isinstance(new_scale, float):
            scale.fill_(new_scale)
            return
        reason = (
            "new_scale should be a float or a 1-element smolder.cuda.FloatTensor or smolder.FloatTensor with "
            "requires_grad=False."
        )
        if new_scale.device.type != self._device or new_scale.numel() != 1 or new_scale.requires_grad:
            raise AssertionError(reason)
        scale.copy_(new_scale.reshape(()))

    # -- settings and state

    def _get_scale_async(self):
        return self._scale

    def get_scale(self) -> float:
        """The scale as a number, which waits for it; 1.0 where scaling is disabled."""
        if not self._enabled:
            return 1.0
        return self._init_scale if self._scale is None else self._scale.item()

    def get_growth_factor(self) -> float:
        """The factor by which the scale grows."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Sets what the scale is multiplied by to grow."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """The factor by which the scale falls where a gradient was not finite."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Sets what the scale is multiplied by where a gradient was not finite."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """How many steps in a row let the scale grow."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Sets how many steps in a row let the scale grow."""
        self._growth_interval = new_interval

    def _get_growth_tracker(self):
        if not self._enabled:
            return 0
        return self._init_growth_tracker if self._growth_tracker is None else self._growth_tracker.item()

    def is_enabled(self) -> bool:
        """Whether this scales."""
        return self._enabled

    def state_dict(self) -> dict[str, Any]:
        """Numbers for load_state_dict, to be asked for after update(); empty where scaling is disabled."""
        if not self._enabled:
            return {}
        return {
            "scale": self.get_scale(),
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._get_growth_tracker(),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes over what state_dict() returned."""
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError(
                "The source state dict is empty, possibly because it was saved from a disabled instance of GradScaler."
            )
        self._init_scale, self._init_growth_tracker = state_dict["scale"], state_dict["_growth_tracker"]
        if self._scale is not None:
            self._scale.fill_(self._init_scale)
            self._growth_tracker.fill_(self._init_growth_tracker)
        self._growth_factor, self._backoff_factor = state_dict["growth_factor"], state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        if self._enabled:
            if self._per_optimizer_states:
                raise AssertionError(
                    "A GradScaler instance may only be pickled at the beginning of an iteration, or at the end after "
                    "scaler.update()."
                )
            state |= {"_init_scale": self.get_scale(), "_init_growth_tracker": self._get_growth_tracker()}
            state |= {"_scale": None, "_growth_tracker": None}
        return state

    def __setstate__(self, state: Any) -> None:
        self.__dict__.update(state)

    def _check_inf_per_device(self, optimizer):
        scale, _ = self._check_scale_growth_tracker("_check_inf_per_device")
        found = self._unscale_grads_(optimizer, _number_on(scale.device, 1.0, _core.float32), True)
        self._per_optimizer_states[id(optimizer)]["found_inf_per_device"] = found
        return found

    def _found_inf_per_device(self, optimizer):
        return self._per_optimizer_states[id(optimizer)]["found_inf_per_device"]
