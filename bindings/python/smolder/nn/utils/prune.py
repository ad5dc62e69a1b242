"""Pruning: a parameter becomes name_orig times the mask name_mask, which says what is left of it."""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from smolder import _core, linalg
from smolder._creation import ones_like, zeros_like
from smolder._names import listing as _listing
from smolder._random_tensors import rand, rand_like
from smolder._typing import Tensor
from smolder.nn.utils.clip import parameters_to_vector

if TYPE_CHECKING:
    from smolder._typing import Module

__all__ = [
    "BasePruningMethod", "CustomFromMask", "Identity", "L1Unstructured", "LnStructured", "PruningContainer",
    "RandomStructured", "RandomUnstructured", "custom_from_mask", "global_unstructured", "identity", "is_pruned",
    "l1_unstructured", "ln_structured", "random_structured", "random_unstructured", "remove",
]  # fmt: skip
__dir__ = _listing(__name__)


class BasePruningMethod(ABC):
    """A way to choose what is pruned, and the hook that does it before each call.

    A subclass has compute_mask, and PRUNING_TYPE: "unstructured" where it looks at what is left of a tensor, "structured"
    where at the channels of `dim` that are left, "global" where at the whole tensor.
    """

    _tensor_name: str

    def __call__(self, module: Module, inputs: tuple[Any, ...]) -> None:
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask for scores t, of which default_mask is pruned already."""

    def apply_mask(self, module: Module) -> Tensor:
        """The parameter with its mask."""
        if self._tensor_name is None:
            raise AssertionError(f"Module {module} has to be pruned")
        orig = getattr(module, self._tensor_name + "_orig")
        return getattr(module, self._tensor_name + "_mask").to(orig.dtype) * orig

    @classmethod
    def apply(
        cls, module: Module, name: str, *args: Any, importance_scores: Tensor | None = None, **kwargs: Any
    ) -> Any:
        """Prunes a parameter of a module, once more if it is pruned; importance_scores are looked at in its place."""
        method = _joined(module, name, cls(*args, **kwargs))
        orig = getattr(module, name)
        if importance_scores is None:
            importance_scores = orig
        elif importance_scores.shape != orig.shape:
            raise AssertionError(
                f"importance_scores should have the same shape as parameter {name} of {module}, got "
                f"{importance_scores.shape} vs {orig.shape}"
            )
        first = not isinstance(method, PruningContainer)
        if first:
            module.register_parameter(name + "_orig", orig)
            del module._parameters[name]
            default_mask = ones_like(orig).detach()
        else:
            default_mask = getattr(module, name + "_mask").detach().clone()
        try:
            mask = method.compute_mask(importance_scores, default_mask=default_mask)
            module.register_buffer(name + "_mask", mask)
            setattr(module, name, method.apply_mask(module))
            module.register_forward_pre_hook(method)
        except Exception:
            if first:
                module.register_parameter(name, getattr(module, name + "_orig"))
                del module._parameters[name + "_orig"]
            raise
        return method

    def prune(self, t: Tensor, default_mask: Tensor = None, importance_scores: Tensor | None = None) -> Tensor:
        """A tensor, pruned."""
        if importance_scores is None:
            importance_scores = t
        elif importance_scores.shape != t.shape:
            raise AssertionError(
                f"importance_scores should have the same shape as tensor t, got {importance_scores.shape} vs {t.shape}"
            )
        default_mask = ones_like(t).detach() if default_mask is None else default_mask
        return t * self.compute_mask(importance_scores, default_mask=default_mask)

    def remove(self, module: Module) -> Module:
        """Makes what is left the parameter itself."""
        name = self._tensor_name
        if name is None:
            raise AssertionError(f"Module {module} has to be pruned before pruning can be removed")
        weight = self.apply_mask(module)
        if hasattr(module, name):
            delattr(module, name)
        orig = module._parameters[name + "_orig"]
        orig.data = weight.data
        del module._parameters[name + "_orig"], module._buffers[name + "_mask"]
        setattr(module, name, orig)


def _joined(module, name, method):
    """The method, or a container of it and of what pruned the parameter before, whose hook goes."""
    found = [k for k, hook in module._forward_pre_hooks.items() if _prunes(hook, name)]
    if len(found) > 1:
        raise AssertionError(
            f"Avoid adding multiple pruning hooks to the same tensor {name} of module {module}. Use a PruningContainer."
        )
    method._tensor_name = name
    for k in found:
        old = module._forward_pre_hooks.pop(k)
        container = old if isinstance(old, PruningContainer) else PruningContainer(old)
        container.add_pruning_method(method)
        method = container
    return method


def _prunes(hook, name):
    return isinstance(hook, BasePruningMethod) and hook._tensor_name == name


class PruningContainer(BasePruningMethod):
    """Methods that prune one parameter after each other."""

    def __init__(self, *args: Any) -> None:
        self._pruning_methods = ()
        if len(args) == 1:
            self._tensor_name = args[0]._tensor_name
        for method in args:
            self.add_pruning_method(method)

    def add_pruning_method(self, method: BasePruningMethod) -> None:
        """Adds a method for the same parameter."""
        if method is not None and not isinstance(method, BasePruningMethod):
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        if method is not None and self._tensor_name != method._tensor_name:
            raise ValueError(
                f"Can only add pruning methods acting on the parameter named '{self._tensor_name}' to PruningContainer "
                f"{self}. Found '{method._tensor_name}'"
            )
        self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Iterator[BasePruningMethod]:
        return iter(self._pruning_methods)

    def __getitem__(self, idx: int | slice) -> Any:
        return self._pruning_methods[idx]

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask after the last method, which looks at what those before left."""
        method, mask = self._pruning_methods[-1], default_mask.to(t.dtype)
        if method.PRUNING_TYPE == "unstructured":
            seen = default_mask == 1
        elif method.PRUNING_TYPE == "structured":
            seen = self._channels(method, t, default_mask)
        elif method.PRUNING_TYPE == "global":
            seen = ...
        else:
            raise ValueError(f"Unrecognized PRUNING_TYPE {method.PRUNING_TYPE}")
        mask = mask.clone()
        mask[seen] = method.compute_mask(t[seen], default_mask=default_mask[seen]).to(mask.dtype)
        return mask

    @staticmethod
    def _channels(method, t, mask):
        if not hasattr(method, "dim"):
            raise AttributeError(
                'Pruning methods of PRUNING_TYPE "structured" need to have the attribute `dim` defined.'
            )
        rank = t.dim()
        dim = method.dim if method.dim >= 0 else rank + method.dim
        if dim < 0:
            raise IndexError(f"Index is out of bounds for tensor with dimensions {rank}")
        kept = mask.sum([d for d in range(rank) if d != dim]) != 0
        return (*[slice(None)] * dim, kept)


# -- how many


def _check_amount(amount):
    if not isinstance(amount, numbers.Real):
        raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
    if amount < 0 or (not isinstance(amount, numbers.Integral) and float(amount) > 1.0):
        raise ValueError(f"amount={amount} should either be a float in the range [0, 1] or a non-negative integer")


def _count(amount, n):
    """How many of n are pruned: amount of them, or that part."""
    if not isinstance(amount, numbers.Integral):
        return round(amount * n)
    if amount > n:
        raise ValueError(f"amount={amount} should be smaller than the number of parameters to prune={n}")
    return amount


def _check_structured(t, dim):
    if t.dim() <= 1:
        raise ValueError(
            f"Structured pruning can only be applied to multidimensional tensors. Found tensor of shape {t.shape} with "
            f"{t.dim()} dims"
        )
    if dim >= t.dim():
        raise IndexError(f"Invalid index {dim} for tensor of size {t.shape}")


def _without(mask, positions):
    """A mask without elements at positions, counted in order."""
    flat = mask.reshape(-1).index_fill(0, positions, 0)
    return flat.reshape(mask.shape)


def _of_channels(t, dim, kept, default_mask):
    """A mask like t of the channels that are kept, less what default_mask has not."""
    shape = [1] * t.dim()
    shape[dim] = -1
    mask = zeros_like(t).detach() + kept.to(t.dtype).reshape(shape)
    return mask * default_mask.to(mask.dtype)


# -- methods


class Identity(BasePruningMethod):
    """Prunes nothing, and so makes a parameter one with a mask."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Returns the mask as it was."""
        return default_mask

    @classmethod
    def apply(cls, module: Module, name: str) -> Any:
        return super().apply(module, name)


class RandomUnstructured(BasePruningMethod):
    """Prunes elements at random."""

    PRUNING_TYPE = "unstructured"

    def __init__(self, amount: int | float) -> None:
        _check_amount(amount)
        self.amount = amount

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask without so many more."""
        n = _count(self.amount, t.numel())
        return _without(default_mask, rand_like(t).detach().reshape(-1).topk(n).indices) if n else default_mask.clone()

    @classmethod
    def apply(cls, module: Module, name: str, amount: int | float) -> Any:
        return super().apply(module, name, amount=amount)


class L1Unstructured(BasePruningMethod):
    """Prunes the smallest elements."""

    PRUNING_TYPE = "unstructured"

    def __init__(self, amount: int | float) -> None:
        _check_amount(amount)
        self.amount = amount

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask without so many more."""
        n = _count(self.amount, t.numel())
        if n == 0:
            return default_mask.clone()
        return _without(default_mask, t.detach().abs().reshape(-1).topk(n, largest=False).indices)

    @classmethod
    def apply(cls, module: Module, name: str, amount: int | float, importance_scores: Tensor | None = None) -> Any:
        return super().apply(module, name, amount=amount, importance_scores=importance_scores)


class RandomStructured(BasePruningMethod):
    """Prunes channels of a dimension at random."""

    amount: int | float
    dim: int

    PRUNING_TYPE = "structured"

    def __init__(self, amount: int | float, dim: int = -1) -> None:
        _check_amount(amount)
        self.amount, self.dim = amount, dim

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask without so many more."""
        _check_structured(t, self.dim)
        channels = t.size(self.dim)
        n = _count(self.amount, channels)
        if n == 0:
            return default_mask
        drawn = rand(channels, device=t.device)
        return _of_channels(t, self.dim, drawn > drawn.sort().values[n - 1], default_mask)

    @classmethod
    def apply(cls, module: Module, name: str, amount: int | float, dim: int = -1) -> Any:
        return super().apply(module, name, amount=amount, dim=dim)


class LnStructured(BasePruningMethod):
    """Prunes the channels of a dimension whose norm is smallest."""

    amount: int | float
    n: float
    dim: int

    PRUNING_TYPE = "structured"

    def __init__(self, amount: int | float, n: float, dim: int = -1) -> None:
        _check_amount(amount)
        self.amount, self.n, self.dim = amount, n, dim

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask without so many more."""
        _check_structured(t, self.dim)
        channels = t.size(self.dim)
        n = _count(self.amount, channels)
        norm = self._norm(t.detach())
        if n == 0:
            return default_mask
        kept = norm.topk(channels - n).indices
        kept = _core.zeros((channels,), dtype=_core.bool).to(t.device).index_fill(0, kept, True)
        return _of_channels(t, self.dim, kept, default_mask)

    def _norm(self, t):
        dims = list(range(t.dim()))
        del dims[self.dim]
        if self.n == "nuc" or (self.n == "fro" and len(dims) == 2):
            return linalg.matrix_norm(t, self.n, dims if len(dims) == 2 else (-2, -1))
        return linalg.vector_norm(t, 2 if self.n == "fro" else self.n, dims)

    @classmethod
    def apply(
        cls, module: Module, name: str, amount: int | float, n: float, dim: int, importance_scores: Tensor | None = None
    ) -> Any:
        return super().apply(module, name, amount=amount, n=n, dim=dim, importance_scores=importance_scores)


class CustomFromMask(BasePruningMethod):
    """Prunes what a mask says."""

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Both masks."""
        if default_mask.shape != self.mask.shape:
            raise AssertionError(
                f"default_mask shape {default_mask.shape} must match self.mask shape {self.mask.shape}"
            )
        return default_mask * self.mask.to(default_mask.dtype)

    @classmethod
    def apply(cls, module: Module, name: str, mask: Tensor) -> Any:
        return super().apply(module, name, mask=mask)


# -- functions


def identity(module: Module, name: str) -> Module:
    """Gives a parameter a mask that prunes nothing."""
    Identity.apply(module, name)
    return module


def random_unstructured(module: Module, name: str, amount: int | float) -> Module:
    """Prunes elements of a parameter at random: so many, or that part of them."""
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module: Module, name: str, amount: int | float, importance_scores: Tensor | None = None) -> Module:
    """Prunes the smallest elements of a parameter."""
    L1Unstructured.apply(module, name, amount=amount, importance_scores=importance_scores)
    return module


def random_structured(module: Module, name: str, amount: int | float, dim: int) -> Module:
    """Prunes channels of a parameter at random."""
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(
    module: Module, name: str, amount: int | float, n: float, dim: int, importance_scores: Tensor | None = None
) -> Module:
    """Prunes the channels of a parameter whose n-norm is smallest."""
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module: Module, name: str, mask: Tensor) -> Module:
    """Prunes what a mask says."""
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(
    parameters: Iterable[tuple[Module, str]],
    pruning_method: type[BasePruningMethod],
    importance_scores: Mapping[tuple[Module, str], Tensor] | None = None,
    **kwargs: Any,
) -> None:
    """Prunes parameters, given as pairs of module and name, as if they were one vector."""
    if not isinstance(parameters, Iterable):
        raise TypeError("global_unstructured(): parameters is not an Iterable")
    scores = importance_scores if importance_scores is not None else {}
    if not isinstance(scores, dict):
        raise TypeError("global_unstructured(): importance_scores must be of type dict")
    parameters = list(parameters)
    found = [getattr(module, name) for module, name in parameters]
    whole = parameters_to_vector([scores.get(pair, t) for pair, t in zip(parameters, found, strict=True)])
    masks = [getattr(m, n + "_mask", None) for m, n in parameters]
    masks = [ones_like(t).detach() if mask is None else mask for mask, t in zip(masks, found, strict=True)]
    container, method = PruningContainer(), pruning_method(**kwargs)
    container._tensor_name = method._tensor_name = "temp"
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. Found method '
            f"{pruning_method} of type {method.PRUNING_TYPE}"
        )
    container.add_pruning_method(method)
    mask, at = container.compute_mask(whole, parameters_to_vector(masks)), 0
    for (module, name), t in zip(parameters, found, strict=True):
        custom_from_mask(module, name, mask=mask[at : at + t.numel()].reshape(t.shape))
        at += t.numel()


def remove(module: Module, name: str) -> Module:
    """Makes what is left of a pruned parameter the parameter itself."""
    for k, hook in module._forward_pre_hooks.items():
        if _prunes(hook, name):
            hook.remove(module)
            del module._forward_pre_hooks[k]
            return module
    raise ValueError(f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed")


def is_pruned(module: Module) -> bool:
    """Whether a parameter of a module, or of one below it, is pruned."""
    return any(isinstance(h, BasePruningMethod) for m in module.modules() for h in m._forward_pre_hooks.values())
