"""The base of distributions: shapes, checks of arguments and of values, copies with another batch shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

from smolder import _core
from smolder._modes import no_grad
from smolder._names import listing as _listing
from smolder._tensor import Size
from smolder._typing import Number, Tensor
from smolder._warn import warn
from smolder.distributions import constraints
from smolder.distributions.utils import broadcast_all, lazy_property

if TYPE_CHECKING:
    from smolder._typing import Constraint

__all__ = ["Distribution", "OfParameters"]
__dir__ = _listing(__name__)

_PACKAGE = "smolder.distributions"


def ours(kind: type[Any]) -> type[Any]:
    """The nearest of the package's classes above a class: the one whose __init__ it has, unless it has its own."""
    return next(
        k for k in kind.__mro__ if getattr(vars(k).get("__init__"), "__globals__", {}).get("__package__") == _PACKAGE
    )


class Distribution:
    """A batch of distributions of events.

    Unless validate_args is False, arguments are read and checked, which ends the step.

    Args:
        batch_shape: The shape of the batch: how many distributions, whose parameters may differ.
        event_shape: The shape of one value.
        validate_args: Whether arguments and values are checked; None is the default that set_default_validate_args() set.
    """

    has_rsample: bool = False
    has_enumerate_support: bool = False
    _validate_args: bool = __debug__

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Whether arguments are checked where validate_args does not say."""
        if value not in (True, False):
            raise ValueError
        Distribution._validate_args = value

    def __init__(
        self, batch_shape: Sequence[int] = (), event_shape: Sequence[int] = (), validate_args: bool | None = None
    ) -> None:
        self._batch_shape, self._event_shape = Size(batch_shape), Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._check_arguments()

    def _check_arguments(self) -> None:
        try:
            required = self.arg_constraints
        except NotImplementedError:
            warn(
                f"{type(self)} does not define `arg_constraints`. Please set `arg_constraints = {{}}` or initialize the "
                "distribution with `validate_args=False` to turn off validation."
            )
            return
        for name, constraint in required.items():
            if constraints.is_dependent(constraint):
                continue
            if name not in self.__dict__ and isinstance(getattr(type(self), name), lazy_property):
                continue  # made of other parameters when it is asked for
            value = getattr(self, name)
            if not constraint.check(value).all().item():
                raise ValueError(
                    f"Expected parameter {name} ({type(value).__name__} of shape {tuple(value.shape)}) of distribution "
                    f"{self!r} to satisfy the constraint {constraint!r}, but found invalid values:\n{value}"
                )

    @property
    def batch_shape(self) -> Size:
        """How many distributions there are."""
        return self._batch_shape

    @property
    def event_shape(self) -> Size:
        """The shape of a sample of one."""
        return self._event_shape

    @property
    def arg_constraints(self) -> Mapping[str, Constraint]:
        """The constraint of each parameter."""
        raise NotImplementedError

    @property
    def support(self) -> Constraint:
        """The values that samples have."""
        raise NotImplementedError

    @property
    def mean(self) -> Tensor:
        """The mean."""
        raise NotImplementedError

    @property
    def mode(self) -> Tensor:
        """The most likely value."""
        raise NotImplementedError(f"{type(self)} does not implement mode")

    @property
    def variance(self) -> Tensor:
        """The variance."""
        raise NotImplementedError

    @property
    def stddev(self) -> Tensor:
        """The standard deviation."""
        return self.variance.sqrt()

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Samples without a gradient: sample_shape of each distribution."""
        with no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Samples through which gradients reach the parameters."""
        raise NotImplementedError

    def sample_n(self, n: int) -> Tensor:
        """n samples of each distribution; sample((n,)) has taken its place."""
        warn("sample_n will be deprecated. Use .sample((n,)) instead", UserWarning)
        return self.sample((n,))

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density, or probability, of value."""
        raise NotImplementedError

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of at most value."""
        raise NotImplementedError

    def icdf(self, value: Tensor) -> Tensor:
        """The inverse of cdf."""
        raise NotImplementedError

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All values of a discrete distribution, along a first dimension."""
        raise NotImplementedError

    def entropy(self) -> Tensor:
        """The entropy, in nats."""
        raise NotImplementedError

    def perplexity(self) -> Tensor:
        """exp of the entropy."""
        return self.entropy().exp()

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        """The same distributions, broadcast to a batch shape."""
        raise NotImplementedError

    def _extended_shape(self, sample_shape: Sequence[int] = ()) -> Size:
        return Size((*sample_shape, *self._batch_shape, *self._event_shape))

    def _checked(self, value: Tensor) -> Tensor:
        """A value, checked if values are."""
        if self._validate_args:
            self._validate_sample(value)
        return value

    def _validate_sample(self, value: Any) -> None:
        if not isinstance(value, _core.Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        events = value.dim() - len(self._event_shape)
        if tuple(value.shape[events:]) != tuple(self._event_shape):
            raise ValueError(
                "The right-most size of value must match event_shape: "
                f"{tuple(value.shape)} vs {tuple(self._event_shape)}."
            )
        whole = self._batch_shape + self._event_shape
        for i, j in zip(reversed(tuple(value.shape)), reversed(tuple(whole)), strict=False):
            if i != 1 and j != 1 and i != j:
                raise ValueError(
                    f"Value is not broadcastable with batch_shape+event_shape: {tuple(value.shape)} vs {tuple(whole)}."
                )
        try:
            support = self.support
        except NotImplementedError:
            warn(
                f"{type(self)} does not define `support` to enable sample validation. Please initialize the "
                "distribution with `validate_args=False` to turn off validation."
            )
            return
        if not support.check(value).all().item():
            raise ValueError(
                f"Expected value argument ({type(value).__name__} of shape {tuple(value.shape)}) to be within the support "
                f"({support!r}) of the distribution {self!r}, but found invalid values:\n{value}"
            )

    def _get_checked_instance(self, cls: type[Any], _instance: Any = None) -> Any:
        """The instance that expand() fills: _instance, or an empty one, unless the class has an __init__ of its own."""
        if _instance is not None:
            return _instance
        if type(self).__init__ != cls.__init__:
            raise NotImplementedError(
                f"Subclass {type(self).__name__} of {cls.__name__} that defines a custom __init__ method must also define "
                "a custom .expand() method."
            )
        return type(self).__new__(type(self))

    def __repr__(self) -> str:
        given = {name: self.__dict__[name] for name in self.arg_constraints if name in self.__dict__}
        shown = [f"{name}: {v if v.numel() == 1 else v.size()}" for name, v in given.items()]
        return f"{type(self).__name__}({', '.join(shown)})"


class OfParameters(Distribution):
    """Distributions that expand() by themselves: parameters, by the names in arg_constraints, and distributions within."""

    # The attributes that are broadcast to a batch shape without being in arg_constraints.
    _broadcast: ClassVar[tuple[str, ...]] = ()

    def _set(self, validate_args: bool | None, **given: Tensor | Number) -> None:
        """Numbers, broadcast together, as parameters by their names; and what __init__ of all distributions does."""
        self.__dict__.update(zip(given, broadcast_all(*given.values()), strict=True))
        Distribution.__init__(self, self.__dict__[next(iter(given))].size(), (), validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        new = self._get_checked_instance(ours(type(self)), _instance)
        batch_shape = tuple(batch_shape)
        self._expand_into(new, batch_shape)
        Distribution.__init__(new, batch_shape, self._event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def _expand_into(self, new: Any, batch_shape: tuple[int, ...]) -> None:
        required = self.arg_constraints
        for name, value in self.__dict__.items():
            if isinstance(value, Distribution):
                value = self._expand_part(name, value, batch_shape)
            elif isinstance(value, _core.Tensor) and (name in required or name in self._broadcast):
                own = required[name].event_dim if name in required else 0
                value = value.expand((*batch_shape, *value.shape[value.dim() - own :]))
            elif name in ("_batch_shape", "_event_shape", "_validate_args"):
                continue
            new.__dict__[name] = value

    def _expand_part(self, name: str, part: Distribution, batch_shape: tuple[int, ...]) -> Distribution:
        return part.expand(batch_shape)
