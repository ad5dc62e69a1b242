"""Checkpoints that keep what some ops compute and run the others again."""

from __future__ import annotations

import enum
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from typing import Any

from smolder import _core, _ops
from smolder._dispatch import TorchDispatchMode
from smolder.utils._pytree import tree_map


class CheckpointPolicy(enum.Enum):
    """Policy for an op's results: kept for backward, or computed again; must and prefer mean the same here."""

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3


class SelectiveCheckpointContext:
    """The first argument of a policy: says whether the function runs again."""

    is_recompute: bool

    def __init__(self, *, is_recompute: bool) -> None:
        self.is_recompute = is_recompute


class _Kept:
    """A result, which nobody may write to before it is needed."""

    def __init__(self, value):
        self.value = value.detach() if isinstance(value, _core.Tensor) else value
        self.version = value._version if isinstance(value, _core.Tensor) else None

    def take(self, may_be_written):
        if self.version is not None and self.value._version != self.version and not may_be_written:
            raise RuntimeError(
                "Tensor cached during selective activation checkpoint has been mutated: give "
                "allow_cache_entry_mutation=True to create_selective_checkpoint_contexts where that is meant"
            )
        return self.value


class _Selecting(TorchDispatchMode):
    again = False

    def __init__(self, policy, kept, may_be_written):
        super().__init__()
        self.policy, self.kept, self.may_be_written = policy, kept, may_be_written

    def saves(self, func, args, kwargs):
        policy = self.policy(SelectiveCheckpointContext(is_recompute=self.again), func, *args, **kwargs)
        if isinstance(policy, bool):
            return policy
        if not isinstance(policy, CheckpointPolicy):
            raise TypeError(f"the policy of a checkpoint must return a CheckpointPolicy or a bool, got {policy!r}")
        return policy in (CheckpointPolicy.MUST_SAVE, CheckpointPolicy.PREFER_SAVE)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if self.saves(func, args, kwargs or {}):
            self.kept[func].append(tree_map(_Kept, out))
        return out


class _Taking(_Selecting):
    again = True

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if not self.saves(func, args, kwargs or {}):
            return func(*args, **(kwargs or {}))
        if func not in self.kept:
            raise RuntimeError(f"{func} encountered during backward, but not found in storage")
        if not self.kept[func]:
            raise RuntimeError(
                "Trying to backward an extra time. You are only allowed to backward once on any region computed under "
                "selective activation checkpoint."
            )
        return tree_map(lambda kept: kept.take(self.may_be_written), self.kept[func].popleft())


def create_selective_checkpoint_contexts(
    policy_fn_or_list: Callable[..., CheckpointPolicy | bool] | Sequence[Any], allow_cache_entry_mutation: bool = False
) -> tuple[Any, Any]:
    """The two contexts of a checkpoint that keeps the results of some ops: checkpoint(..., context_fn=).

    These are the ops of a list, or those for which policy(context, op, *args, **kwargs) says so. The ops are those that
    are recorded, as TorchDispatchMode sees them. Each region runs backward once.
    """
    if isinstance(policy_fn_or_list, list):
        for op in policy_fn_or_list:
            if not isinstance(op, _ops.OpOverload | _ops._AtenOp):
                raise ValueError(
                    f"Expected op in `op_list` to be an OpOverload but got: {op} of type {type(op)}. Please update the "
                    "OpOverloadPacket to a specific OpOverload. For example, if you have `torch.ops.aten.mm`, change "
                    "it to `torch.ops.aten.mm.default`."
                )
        chosen = set(policy_fn_or_list)

        def policy(context, op, *args, **kwargs):
            return op in chosen

    elif callable(policy_fn_or_list):
        policy = policy_fn_or_list
    else:
        raise TypeError("policy_fn_or_list must be either a function or a list of ops.")
    kept = defaultdict(deque)
    return (_Selecting(policy, kept, allow_cache_entry_mutation), _Taking(policy, kept, allow_cache_entry_mutation))
