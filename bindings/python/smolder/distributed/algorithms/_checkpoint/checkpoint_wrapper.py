"""Modules whose activations are computed again in the backward pass, by a wrapper around each."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from smolder._names import listing as _listing
from smolder.nn.module import Module
from smolder.utils.checkpoint import checkpoint

if TYPE_CHECKING:
    from smolder.nn.parameter import Parameter

__all__ = ["CheckpointImpl", "CheckpointWrapper", "apply_activation_checkpointing", "checkpoint_wrapper"]
__dir__ = _listing(__name__)

_PREFIX = "_checkpoint_wrapped_module."


class CheckpointImpl(enum.Enum):
    """The kind of checkpoint: see utils.checkpoint."""

    REENTRANT = enum.auto()
    NO_REENTRANT = enum.auto()


class CheckpointWrapper(Module):
    """Calls a module within a checkpoint. Its parameters and its state have the names that they have in the module."""

    checkpoint_impl: CheckpointImpl
    checkpoint_fn: Callable[..., Any]

    def __init__(
        self,
        mod: Module,
        checkpoint_impl: CheckpointImpl = CheckpointImpl.NO_REENTRANT,
        checkpoint_fn: Callable[..., Any] | None = None,
        **checkpoint_fn_kwargs: Any,
    ) -> None:
        super().__init__()
        self._checkpoint_wrapped_module = mod
        self.checkpoint_impl = checkpoint_impl
        reentrant = checkpoint_impl is CheckpointImpl.REENTRANT
        self.checkpoint_fn = (
            partial(checkpoint, use_reentrant=reentrant, **checkpoint_fn_kwargs)
            if checkpoint_fn is None
            else partial(checkpoint_fn, **checkpoint_fn_kwargs)
        )
        self._register_state_dict_hook(_without_prefix)
        self._register_load_state_dict_pre_hook(partial(_with_prefix, None))

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The module's own, whose activations are not kept."""
        inner = self._checkpoint_wrapped_module
        if self.checkpoint_impl is CheckpointImpl.REENTRANT and kwargs:  # which takes arguments without names alone
            count, names = len(args), list(kwargs)
            named = lambda *given: inner(*given[:count], **dict(zip(names, given[count:], strict=True)))  # noqa: E731
            return self.checkpoint_fn(named, *args, *kwargs.values())
        return self.checkpoint_fn(inner, *args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        inner = self.__dict__.get("_checkpoint_wrapped_module")
        return super().__getattr__(name) if inner is None else getattr(inner, name)

    def __getitem__(self, key: Any) -> Any:
        return self._checkpoint_wrapped_module[key]  # type: ignore[index]

    def named_parameters(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Parameter]]:
        """By the names that they have in the module."""
        for name, p in super().named_parameters(*args, **kwargs):
            yield name.replace(_PREFIX, ""), p


def _without_prefix(module, state_dict, prefix, *_):
    for name in [n for n in state_dict if n.startswith(prefix + _PREFIX)]:
        state_dict[prefix + name[len(prefix + _PREFIX) :]] = state_dict.pop(name)
    return state_dict


def _with_prefix(module, state_dict, prefix, *_):
    for name in [n for n in state_dict if n.startswith(prefix) and not n.startswith(prefix + _PREFIX)]:
        state_dict[prefix + _PREFIX + name[len(prefix) :]] = state_dict.pop(name)


def checkpoint_wrapper(
    module: Module,
    checkpoint_impl: CheckpointImpl = CheckpointImpl.NO_REENTRANT,
    checkpoint_fn: Callable[..., Any] | None = None,
    **checkpoint_fn_kwargs: Any,
) -> CheckpointWrapper:
    """A module that is called within a checkpoint."""
    return CheckpointWrapper(module, checkpoint_impl, checkpoint_fn, **checkpoint_fn_kwargs)


def apply_activation_checkpointing(
    model: Module,
    checkpoint_wrapper_fn: Callable[[Module], Module] = checkpoint_wrapper,
    check_fn: Callable[[Module], bool] = lambda _: True,
    auto_wrap_policy: Callable[..., bool] | None = None,
) -> None:
    """Wraps the submodules that check_fn, or a policy, names. The model is changed."""
    if auto_wrap_policy is not None:
        from smolder.distributed.fsdp.wrap import chosen

        wanted = {id(m) for m in chosen(model, auto_wrap_policy, set())}
        check_fn = lambda m: id(m) in wanted  # noqa: E731
    _wrap_children(model, checkpoint_wrapper_fn, check_fn)


def _wrap_children(module, wrap, check):
    for name, child in list(module.named_children()):
        _wrap_children(child, wrap, check)
        if check(child):
            setattr(module, name, wrap(child))
