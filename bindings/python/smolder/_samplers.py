"""Draws of gamma, Poisson, binomial and von Mises distributions, exact and of all elements at once.

Gamma, large Poisson, large binomial and von Mises draws are accepted or drawn again (rejection); small Poisson and
binomial ones are found by going through the probabilities of 0, 1, 2, ... Each is a recorded loop that turns until the
last element has its draw, so that no draw is read, and they run on any device. They are computed in float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from smolder import _batches, _core
from smolder._control_flow import while_loop
from smolder._functions import broadcast_tensors
from smolder._integrals import LogGammaSlope
from smolder._modes import no_grad
from smolder._random_tensors import rand, randn
from smolder._tensor import kind_name
from smolder._types import finfo
from smolder._typing import Generator, Tensor

__all__ = ["binomial", "poisson"]


def _uniform(like: Tensor, generator: Generator | None = None) -> Tensor:
    """Numbers in (0, 1], whose logarithms are finite."""
    return 1 - rand(tuple(like.shape), dtype=_core.float64, device=like.device, generator=generator)


def _normal(like: Tensor, generator: Generator | None = None) -> Tensor:
    return randn(tuple(like.shape), dtype=_core.float64, device=like.device, generator=generator)


def _drawn(like: Tensor, done: Tensor, start: Tensor, propose: Callable[[], tuple[Tensor, Tensor]]) -> Tensor:
    """Proposals, (which are accepted, values), until every element has had one accepted; done ones keep their start."""

    def more(done: Tensor, value: Tensor) -> Tensor:
        return _core.logical_not(done.all())

    def iterate(done: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        accepted, proposed = propose()
        taken = _core.logical_and(accepted, _core.logical_not(done))
        return _core.logical_or(done, accepted), _core.where(taken, proposed, value)

    return while_loop(more, iterate, (done, start))[1] if like.numel() else start


def log_gamma_draw(concentration: Tensor, generator: Generator | None = None) -> Tensor:
    """log z, in float64, of draws z of the gamma distribution of rate 1, with the gradient of concentration.

    Marsaglia and Tsang 2000: (1 + x / sqrt(9 d))^3 d of a normal x, d = a - 1/3, accepted in 95 of 100 cases or more. For
    a < 1 a draw of a + 1 times u^(1/a); as logarithms, so that small a do not end in 0.
    """
    a = concentration.to(_core.float64)
    with no_grad():
        given = a.detach()
        small = given < 1
        d = _core.where(small, given + 1, given) - 1 / 3
        c = (9 * d).rsqrt()

        def propose() -> tuple[Tensor, Tensor]:
            x, u = _normal(given, generator), _uniform(given, generator)
            t = 1 + c * x
            log_v = 3 * t.clamp(min=1e-30).log()
            limit = 0.5 * x * x + d * (1 - t * t * t + log_v)
            return _core.logical_and(t > 0, u.log() < limit), log_v

        unknown = _core.logical_not(given > 0)  # nan and what is no concentration
        log_z = d.log() + _drawn(given, unknown, _core.zeros_like(given), propose)
        log_z = log_z + _core.where(small, _uniform(given, generator).log() / given, 0.0)
        log_z = _core.where(unknown, _core.where(given == 0, -math.inf, math.nan), log_z)
    return LogGammaSlope.apply(a, log_z) if a.requires_grad else log_z


def _standard_gamma(self: Tensor, generator: Generator | None = None) -> Tensor:
    """Draws of gamma distributions of rate 1; the gradient of the concentrations goes through them.

    Args:
        self: The concentrations.
        generator: What draws; the default generator by default.
    """
    drawn = log_gamma_draw(self, generator).exp().to(self.dtype)
    return drawn.clamp(min=finfo(self.dtype).tiny)


def log_dirichlet_draw(concentration: Tensor) -> Tensor:
    """Logarithms, in float64, of draws of Dirichlet distributions: of gamma draws, less that of their sum."""
    return _core.log_softmax(log_gamma_draw(concentration), -1)


def _inverted(u: Tensor, done: Tensor, first: Tensor, next_share: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """The least k whose cumulative probability reaches u: `first` is that of 0, next_share(p, k) the one after p of k - 1."""

    def more(done: Tensor, *carried: Tensor) -> Tensor:
        return _core.logical_not(done.all())

    def iterate(done: Tensor, k: Tensor, p: Tensor, reached: Tensor) -> tuple[Tensor, ...]:
        k = _core.where(done, k, k + 1)
        p = next_share(p, k)
        reached = _core.where(done, reached, reached + p)
        # A share that no longer changes the sum ends the search, as u may lie above what roundings let the sum reach.
        over = _core.logical_or(u <= reached, p <= 1e-20 * reached)
        return _core.logical_or(done, over), k, p, reached

    done = _core.logical_or(done, u <= first)
    if not u.numel():
        return u
    return while_loop(more, iterate, (done, _core.zeros_like(u), first.clone(), first.clone()))[1]


def poisson(input: Tensor, generator: Generator | None = None) -> Tensor:
    """Poisson draws, of input's dtype and shape.

    Args:
        input: The rates, none of which may be negative: they are looked at, which ends the step; in a function that is
            captured they are not, and the draw is nan.
        generator: What draws; the default generator by default.

    Rates below 10 are drawn by inversion, others by transformed rejection (PTRS, Hörmann 1993).
    """
    _check_float("poisson", input)
    if not (_core._is_capturing() or input.is_meta) and not bool((_batches.whole(input.detach()) >= 0).all()):
        raise RuntimeError("invalid Poisson rate, expected rate to be non-negative")
    return poisson_unchecked(input, generator)


def poisson_unchecked(input: Tensor, generator: Generator | None = None) -> Tensor:
    """The draws of poisson() where rates are known to be good: nothing is read. A negative one gives nan."""
    with no_grad():
        rate = input.detach().to(_core.float64)
        small, unknown = rate < 10, _core.logical_not(rate >= 0)
        few = _core.where(small, rate, 1.0)
        drawn = _inverted(_uniform(few, generator), _core.logical_not(small), (-few).exp(), lambda p, k: p * few / k)
        many = _core.where(small, 10.0, rate)
        b = 0.931 + 2.53 * many.sqrt()
        a = -0.059 + 0.02483 * b
        inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
        log_rate = many.log()

        def propose() -> tuple[Tensor, Tensor]:
            u, v = _uniform(many, generator) - 0.5, _uniform(many, generator)
            us = 0.5 - u.abs()
            k = ((2 * a / us + b) * u + many + 0.43).floor()
            limit = k * log_rate - many - (k + 1).clamp(min=1.0).lgamma()
            fits = (v * inverse_alpha / (a / (us * us) + b)).log() <= limit
            return _core.logical_and(k >= 0, fits), k

        drawn = _drawn(many, _core.logical_or(small, unknown), drawn, propose)
        return _core.where(unknown, math.nan, drawn).to(input.dtype)


def binomial(count: Tensor, prob: Tensor, generator: Generator | None = None) -> Tensor:
    """Binomial draws, of prob's dtype.

    Args:
        count: How many trials; broadcast with prob.
        prob: The probability that one succeeds.
        generator: What draws; the default generator by default.

    Where fewer than 10 successes, or failures, are to be expected these are drawn by inversion, otherwise by transformed
    rejection (BTRS, Hörmann 1993).
    """
    _check_float("binomial", prob)
    if not count.dtype.is_floating_point:
        raise ValueError(f"binomial only supports floating-point dtypes for count, got: {count.dtype}")
    with no_grad():
        n, p = (t.to(_core.float64) for t in broadcast_tensors(count.detach(), prob.detach()))
        flipped = p > 0.5
        q = _core.where(flipped, 1 - p, p)
        unknown = _core.logical_or(p.isnan(), n.isnan())
        none = _core.logical_or(q <= 0, n <= 0)
        small = n * q < 10
        skipped = _core.logical_or(none, unknown)
        fn, fq = _core.where(small, n, 1.0), _core.where(_core.logical_and(small, _core.logical_not(skipped)), q, 0.5)
        odds = fq / (1 - fq)
        drawn = _inverted(
            _uniform(fn, generator),
            _core.logical_or(skipped, _core.logical_not(small)),
            (fn * (-fq).log1p()).exp(),
            lambda share, k: share * odds * (fn - k + 1).clamp(min=0.0) / k,
        )
        done = _core.logical_or(skipped, small)
        proposal = _btrs(_core.where(done, 40.0, n), _core.where(done, 0.5, q), generator)
        drawn = _drawn(n, done, drawn, proposal)
        drawn = _core.where(flipped, n - drawn, drawn)
        return _core.where(unknown, math.nan, drawn).to(prob.dtype)


def _btrs(n: Tensor, p: Tensor, generator: Generator | None) -> Callable[[], tuple[Tensor, Tensor]]:
    spread = (n * p * (1 - p)).sqrt()
    b = 1.15 + 2.53 * spread
    a = -0.0873 + 0.0248 * b + 0.01 * p
    center = n * p + 0.5
    alpha = (2.83 + 5.1 / b) * spread
    mode = ((n + 1) * p).floor()
    at_mode = (mode + 1).lgamma() + (n - mode + 1).lgamma()
    log_odds = (p / (1 - p)).log()

    def propose() -> tuple[Tensor, Tensor]:
        u, v = _uniform(n, generator) - 0.5, _uniform(n, generator)
        us = 0.5 - u.abs()
        k = ((2 * a / us + b) * u + center).floor()
        inside = _core.logical_and(k >= 0, k <= n)
        k = _core.where(inside, k, 0.0)
        limit = at_mode - (k + 1).lgamma() - (n - k + 1).lgamma() + (k - mode) * log_odds
        return _core.logical_and(inside, (v * alpha / (a / (us * us) + b)).log() <= limit), k

    return propose


def von_mises_draw(concentration: Tensor) -> Tensor:
    """Angles in [-π, π] around 0, in float64, of von Mises distributions (Best and Fisher 1979).

    Of a wrapped Cauchy distribution, two of three or more of whose draws are accepted.
    """
    kappa = concentration.detach().to(_core.float64)
    tau = 1 + (1 + 4 * kappa * kappa).sqrt()
    rho = (
        2 * kappa / (tau + (2 * tau).sqrt())
    )  # (tau - sqrt(2 tau)) / (2 kappa), without the cancellation for small kappa
    r = (1 + rho * rho) / (2 * rho)

    def propose() -> tuple[Tensor, Tensor]:
        u1, u2, u3 = _uniform(kappa), _uniform(kappa), _uniform(kappa)
        z = (math.pi * u1).cos()
        f = (1 + r * z) / (r + z)
        c = kappa * (r - f)
        fits = _core.logical_or(c * (2 - c) - u2 > 0, (c / u2).log() + 1 - c >= 0)
        return fits, (u3 - 0.5).sign() * f.clamp(min=-1.0, max=1.0).acos()

    return _drawn(kappa, kappa.isnan(), kappa * 0, propose)


def _check_float(name: str, x: Any) -> None:
    if not isinstance(x, _core.Tensor):
        raise TypeError(f"{name}(): argument must be Tensor, not {type(x).__name__}")
    if not x.dtype.is_floating_point:
        raise NotImplementedError(f"\"{name}_cpu\" not implemented for '{kind_name(x.dtype)}'")
