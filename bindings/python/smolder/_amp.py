"""torch's ops of gradient scaling, made of others, so that nothing waits for what they find."""

from smolder import _core

__all__ = ["_amp_foreach_non_finite_check_and_unscale_", "_amp_update_scale_"]


def _check_number(name, t, dtype, word):
    if t.numel() != 1:
        raise RuntimeError(f"{name} must be a 1-element tensor.")
    if t.dtype != dtype:
        raise RuntimeError(f"{name} must be {word} tensor.")


def _amp_foreach_non_finite_check_and_unscale_(self, found_inf, inv_scale):
    """Multiplies tensors by inv_scale in place; found_inf becomes 1 if an element of any was not finite."""
    _check_number("inv_scale", inv_scale, _core.float32, "a float")
    _check_number("found_inf", found_inf, _core.float32, "a float")
    if not self:
        return
    finite = _core.stack([_core.isfinite(t).all() for t in self]).all()
    _core.assign(found_inf, _core.where(finite, found_inf, 1.0))
    for t in self:
        wide = t if t.dtype == _core.float64 else t.to(_core.float32)
        _core.assign(t, (wide * inv_scale).to(t.dtype))


def _amp_update_scale_(self, growth_tracker, found_inf, scale_growth_factor, scale_backoff_factor, growth_interval):
    """The scale `self` after a step, in place, and how many in a row were finite: growth_tracker."""
    _check_number("growth_tracker", growth_tracker, _core.int32, "an int")
    _check_number("current_scale", self, _core.float32, "a float")
    _check_number("found_inf", found_inf, _core.float32, "a float")
    found, fine = found_inf > 0, growth_tracker + 1
    grows = fine == growth_interval
    grown = self * scale_growth_factor
    larger = _core.where(_core.logical_and(grows, _core.isfinite(grown)), grown, self)
    _core.assign(self, _core.where(found, self * scale_backoff_factor, larger))
    _core.assign(growth_tracker, _core.where(_core.logical_or(found, grows), _core.zeros_like(fine), fine))
    return self
