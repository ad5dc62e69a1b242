"""Distributions of angles."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from smolder import special
from smolder._modes import no_grad
from smolder._names import listing as _listing
from smolder._samplers import von_mises_draw
from smolder._typing import Tensor
from smolder.distributions import constraints
from smolder.distributions.distribution import OfParameters

if TYPE_CHECKING:
    from smolder._typing import Constraint

__all__ = ["VonMises"]
__dir__ = _listing(__name__)


class VonMises(OfParameters):
    """Von Mises' distribution of angles: density exp(concentration cos(x - loc)) / (2π I0(concentration)).

    Args:
        loc: The mean angle, in radians.
        concentration: How close to it angles are.

    Samples are exact and in [-π, π) (Best and Fisher 1979).
    """

    arg_constraints: Mapping[str, Constraint] = MappingProxyType(
        {"loc": constraints.real, "concentration": constraints.positive}
    )
    support: Constraint = constraints.real  # pyright: ignore[reportIncompatibleVariableOverride]
    has_rsample = False
    loc: Tensor
    concentration: Tensor

    def __init__(self, loc: Tensor | float, concentration: Tensor | float, validate_args: bool | None = None) -> None:
        self._set(validate_args, loc=loc, concentration=concentration)

    def log_prob(self, value: Tensor) -> Tensor:
        k = self.concentration
        # I0(k) is exp(k) i0e(k)
        return k * ((self._checked(value) - self.loc).cos() - 1) - math.log(2 * math.pi) - special.i0e(k).log()

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with no_grad():
            away = von_mises_draw(self.concentration.expand(shape))
            x = (away + math.pi + self.loc) % (2 * math.pi) - math.pi
            return x.to(self.loc.dtype)

    @property
    def mean(self) -> Tensor:
        """The mean angle: loc."""
        return self.loc

    @property
    def mode(self) -> Tensor:
        """The most likely angle: loc."""
        return self.loc

    @property
    def variance(self) -> Tensor:
        """The circular variance: 1 - I1(concentration) / I0(concentration)."""
        return 1 - special.i1e(self.concentration) / special.i0e(self.concentration)
