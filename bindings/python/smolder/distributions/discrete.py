"""Distributions of integers."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from smolder import _core
from smolder._creation import arange, eye
from smolder._modes import no_grad
from smolder._names import listing as _listing
from smolder._types import finfo
from smolder.distributions import constraints
from smolder.distributions.distribution import Distribution, OfParameters
from smolder.nn import functional as F

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Self

    from smolder._typing import Constraint, Size, Tensor

__all__ = [
    "Bernoulli",
    "Categorical",
    "OneHotCategorical",
]
__dir__ = _listing(__name__)


def _one_of(probs, logits):
    if (probs is None) == (logits is None):
        raise ValueError("Either `probs` or `logits` must be specified, but not both.")


def _clamped(probs):
    eps = finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


class _OfProbsOrLogits(Distribution):
    """Given by probs or by logits, whose other is made when it is first asked for."""

    probs: Tensor
    logits: Tensor

    def __getattr__(self, name: str) -> Tensor:
        if name not in ("probs", "logits"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        made = self._other(name)
        self.__dict__[name] = made
        return made

    @property
    def _param(self):
        return self.__dict__["probs"] if self._given == "probs" else self.__dict__["logits"]

    @property
    def param_shape(self) -> Size:
        """The shape of probs, and of logits."""
        return self._param.size()


class Bernoulli(_OfProbsOrLogits, OfParameters):
    """1 with probability probs, else 0."""

    arg_constraints: MappingProxyType[str, Constraint]

    arg_constraints = MappingProxyType({"probs": constraints.unit_interval, "logits": constraints.real})
    support: Constraint = constraints.boolean
    has_enumerate_support = True

    def __init__(
        self,
        probs: Tensor | float | None = None,
        logits: Tensor | float | None = None,
        validate_args: bool | None = None,
    ) -> None:
        _one_of(probs, logits)
        self._given = "logits" if probs is None else "probs"
        given = logits if probs is None else probs
        value = given if isinstance(given, _core.Tensor) else _core.full((), float(given))
        self.__dict__[self._given] = value
        Distribution.__init__(self, value.size(), (), validate_args)

    def _other(self, name):
        if name == "probs":
            return _core.sigmoid(self.logits)
        p = _clamped(self.probs)
        return p.log() - (-p).log1p()

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return self.probs

    @property
    def mode(self) -> Tensor:
        """The likelier value; nan where both are as likely."""
        likelier = (self.probs >= 0.5).to(self.probs.dtype)
        return likelier.masked_fill(self.probs == 0.5, float("nan"))

    @property
    def variance(self) -> Tensor:
        """The variance."""
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            return _core.bernoulli(self.probs.expand(tuple(self._extended_shape(sample_shape))))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = _core.broadcast_to(self.logits, _shape_of(self.logits, value)), value
        value = _core.broadcast_to(value, tuple(logits.shape))
        return -F.binary_cross_entropy_with_logits(logits, value, reduction="none")

    def entropy(self) -> Tensor:
        return F.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        values = self._param.new_tensor([0, 1]).reshape((2,) + (1,) * len(self._batch_shape))
        return values.expand((2, *self._batch_shape)) if expand else values


def _shape_of(a, b):
    from smolder._functions import broadcast_shapes

    return broadcast_shapes(tuple(a.shape), tuple(b.shape))


class Categorical(_OfProbsOrLogits):
    """Numbers from 0 on with probabilities, or weights, probs along the last dimension; or with unnormalised logits."""

    probs: Any
    logits: Any
    arg_constraints: MappingProxyType[str, Constraint]

    arg_constraints = MappingProxyType({"probs": constraints.simplex, "logits": constraints.real_vector})
    has_enumerate_support = True

    def __init__(
        self,
        probs: Tensor | float | None = None,
        logits: Tensor | float | None = None,
        validate_args: bool | None = None,
    ) -> None:
        _one_of(probs, logits)
        self._given = "logits" if probs is None else "probs"
        given = logits if probs is None else probs
        if given.dim() < 1:
            raise ValueError(f"`{self._given}` parameter must be at least one-dimensional.")
        if probs is not None:
            self.probs = probs / probs.sum(-1, keepdim=True)
        else:
            self.logits = logits - logits.logsumexp(-1, keepdim=True)
        self._num_events = given.size(-1)
        super().__init__(given.shape[:-1], (), validate_args)

    def _other(self, name):
        return _core.softmax(self.logits, -1) if name == "probs" else _clamped(self.probs).log()

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        new = type(self)(**{self._given: self._param.expand((*batch_shape, self._num_events))}, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @property
    def support(self) -> Constraint:
        """The values that samples have."""
        return constraints.integer_interval(0, self._num_events - 1)

    @property
    def mean(self) -> Tensor:
        """nan: categories have no mean."""
        return self._param.new_full(tuple(self._batch_shape), float("nan"))

    variance = mean

    @property
    def mode(self) -> Tensor:
        """The most likely category."""
        return self.probs.argmax(-1)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        count = 1
        for n in sample_shape:
            count *= n
        with no_grad():
            rows = self.probs.reshape((-1, self._num_events))
            drawn = _core.multinomial(rows, count, True).t()
        return drawn.reshape((*sample_shape, *self._batch_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        at = value.long().unsqueeze(-1)
        shape = _shape_of(at[..., 0], self.logits[..., 0])
        rows = self.logits.expand((*shape, self._num_events))
        return rows.gather(-1, at.expand((*shape, 1))).squeeze(-1)

    def entropy(self) -> Tensor:
        logits = self.logits.clamp(min=finfo(self.logits.dtype).min)
        return -(logits * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        values = arange(self._num_events, device=self._param.device).reshape((-1,) + (1,) * len(self._batch_shape))
        return values.expand((-1, *self._batch_shape)) if expand else values


class OneHotCategorical(Distribution):
    """As Categorical, of vectors with a 1 at the category and zeros elsewhere."""

    arg_constraints: MappingProxyType[str, Constraint]

    arg_constraints = MappingProxyType({"probs": constraints.simplex, "logits": constraints.real_vector})
    support: Constraint = constraints.one_hot
    has_enumerate_support = True

    def __init__(
        self,
        probs: Tensor | float | None = None,
        logits: Tensor | float | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self._categorical = Categorical(probs, logits, validate_args)
        super().__init__(self._categorical.batch_shape, self._categorical.param_shape[-1:], validate_args)

    @property
    def probs(self) -> Tensor:
        """The probabilities."""
        return self._categorical.probs

    @property
    def logits(self) -> Tensor:
        """Their logarithms."""
        return self._categorical.logits

    @property
    def mean(self) -> Tensor:
        """The mean: the probabilities."""
        return self.probs

    @property
    def mode(self) -> Tensor:
        """The most likely vector."""
        return F.one_hot(self.probs.argmax(-1), self._event_shape[0]).to(self.probs.dtype)

    @property
    def variance(self) -> Tensor:
        """The variances."""
        return self.probs * (1 - self.probs)

    @property
    def param_shape(self) -> Size:
        """The shape of probs, and of logits."""
        return self._categorical.param_shape

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return F.one_hot(self._categorical.sample(sample_shape), self._event_shape[0]).to(self.probs.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return self._categorical.log_prob(value.argmax(-1))

    def entropy(self) -> Tensor:
        return self._categorical.entropy()

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        base = self._categorical
        given = base._param.expand((*batch_shape, base._num_events))
        return OneHotCategorical(**{base._given: given}, validate_args=False)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        n = self._event_shape[0]
        values = eye(n, dtype=self.probs.dtype, device=self.probs.device).reshape(
            (n, *(1 for _ in self._batch_shape), n)
        )
        return values.expand((n, *self._batch_shape, n)) if expand else values
