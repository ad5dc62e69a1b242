"""Mixed precision, under torch's names: autocast, and gradients scaled so that halves hold them."""

from smolder._names import listing as _listing
from smolder.amp.autocast_mode import autocast, custom_bwd, custom_fwd, is_autocast_available
from smolder.amp.grad_scaler import GradScaler

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]
__dir__ = _listing(__name__)
