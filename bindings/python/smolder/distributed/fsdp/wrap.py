"""Which submodules are sharded by themselves: policies for FullyShardedDataParallel."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from smolder._names import listing as _listing

if TYPE_CHECKING:
    from smolder.nn.module import Module

__all__ = [
    "CustomPolicy",
    "ModuleWrapPolicy",
    "always_wrap_policy",
    "lambda_auto_wrap_policy",
    "size_based_auto_wrap_policy",
    "transformer_auto_wrap_policy",
]
__dir__ = _listing(__name__)


class ModuleWrapPolicy:
    """Modules of the given classes. As a function, it is a policy like those below."""

    def __init__(self, module_classes: Iterable[type[Module]]) -> None:
        self._module_classes = set(module_classes)

    def __call__(self, module: Module, recurse: bool, nonwrapped_numel: int = -1) -> bool:
        return recurse or isinstance(module, tuple(self._module_classes))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._module_classes})"


class CustomPolicy:
    """Modules of which lambda_fn(module) is true."""

    def __init__(self, lambda_fn: Callable[[Module], bool | dict[str, Any]]) -> None:
        self._lambda_fn = lambda_fn

    def __call__(self, module: Module, recurse: bool, nonwrapped_numel: int = -1) -> bool:
        if recurse:
            return True
        found = self._lambda_fn(module)
        if not isinstance(found, dict | bool):
            raise ValueError(
                "The lambda_fn passed to CustomPolicy should return False/True or a kwarg dict, but it returned "
                f"{found}"
            )
        if isinstance(found, dict) and found:
            raise NotImplementedError(
                "CustomPolicy: options of single modules are not supported: lambda_fn returns a bool"
            )
        return bool(found)


def always_wrap_policy(*args: Any, **kwargs: Any) -> bool:
    """All of them."""
    return True


def lambda_auto_wrap_policy(
    module: Module, recurse: bool, nonwrapped_numel: int, lambda_fn: Callable[[Module], bool]
) -> bool:
    """Those of which lambda_fn(module) is true."""
    return recurse or lambda_fn(module)


def transformer_auto_wrap_policy(
    module: Module, recurse: bool, nonwrapped_numel: int, transformer_layer_cls: set[type[Module]]
) -> bool:
    """Those of the given classes."""
    return recurse or isinstance(module, tuple(transformer_layer_cls))


def size_based_auto_wrap_policy(
    module: Module,
    recurse: bool,
    nonwrapped_numel: int,
    min_num_params: int = 100_000_000,
    force_leaf_modules: set[type[Module]] | None = None,
    exclude_wrap_modules: set[type[Module]] | None = None,
) -> bool:
    """Those with at least min_num_params elements that no module within them has."""
    from smolder.nn import ModuleDict, ModuleList, MultiheadAttention

    leaves = (MultiheadAttention,) if force_leaf_modules is None else tuple(force_leaf_modules)
    excluded = (ModuleList, ModuleDict) if exclude_wrap_modules is None else tuple(exclude_wrap_modules)
    large = nonwrapped_numel >= min_num_params
    return large and not isinstance(module, leaves if recurse else excluded)


def chosen(module: Module, policy: Any, ignored: set[Module]) -> list[Module]:
    """The modules below one that a policy names, innermost first."""
    found: list[Module] = []

    theirs = {p for m in ignored for p in m.parameters()}

    def walk(at):
        """How many elements the modules that were chosen have."""
        own = sum(p.numel() for p in at.parameters() if p not in theirs)
        if not policy(module=at, recurse=True, nonwrapped_numel=own):
            return 0
        taken = sum(walk(child) for child in at.children() if child not in ignored)
        if at is module or not policy(module=at, recurse=False, nonwrapped_numel=own - taken):
            return taken
        found.append(at)
        return own

    walk(module)
    return found
