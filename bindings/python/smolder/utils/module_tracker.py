"""Which modules a program is in, forward and backward."""

from __future__ import annotations

import weakref
from typing import Any, Self

from smolder import _core
from smolder._names import listing as _listing
from smolder.autograd.graph import register_multi_grad_hook
from smolder.nn.hooks import register_module_forward_hook, register_module_forward_pre_hook
from smolder.utils._pytree import tree_leaves

__all__ = ["ModuleTracker"]
__dir__ = _listing(__name__)


def _with_history(values):
    return [t for t in tree_leaves(values) if isinstance(t, _core.Tensor) and t.requires_grad]


class ModuleTracker:
    """Within it, `parents` has the names of the modules that are running, or whose gradients are being computed."""

    parents: set[str]

    def __init__(self) -> None:
        self.parents = {"Global"}
        self._names: Any = weakref.WeakKeyDictionary()
        self._hooks: list[Any] = []

    def _name(self, module):
        name = self._names.setdefault(module, type(module).__name__)
        for child, inner in module.named_children():
            self._names.setdefault(inner, f"{name}.{child}")
        return name

    def _enter(self, name):
        self.parents.add(name)

    def _leave(self, name):
        self.parents.discard(name)

    def _before(self, module, inputs):
        name = self._name(module)
        self._enter(name)
        if _core.is_grad_enabled() and (tensors := _with_history(inputs)):
            self._hooks.append(register_multi_grad_hook(tensors, lambda grads: self._leave(name)))

    def _after(self, module, inputs, outputs):
        name = self._name(module)
        self._leave(name)
        if _core.is_grad_enabled() and (tensors := _with_history(outputs)):
            self._hooks.append(register_multi_grad_hook(tensors, lambda grads: self._enter(name), mode="any"))

    def __enter__(self) -> Self:
        self._hooks = [
            register_module_forward_pre_hook(self._before),
            register_module_forward_hook(self._after, always_call=True),
        ]
        return self

    def __exit__(self, *exception: object) -> None:
        for hook in self._hooks:
            hook.remove()
        self._hooks, self.parents = [], {"Global"}
