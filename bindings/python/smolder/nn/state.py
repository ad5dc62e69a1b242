"""Saving and loading what a module is made of."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, NamedTuple

from smolder import _core
from smolder._modes import no_grad
from smolder._names import listing as _listing
from smolder.nn.parameter import Parameter, is_lazy

__all__ = ["State"]
__dir__ = _listing(__name__)


_EXTRA = "_extra_state"


class _IncompatibleKeys(NamedTuple("_IncompatibleKeys", [("missing_keys", list[str]), ("unexpected_keys", list[str])])):
    __slots__ = ()

    def __repr__(self):
        return super().__repr__() if self.missing_keys or self.unexpected_keys else "<All keys matched successfully>"

    __str__ = __repr__


class State:
    """Module's methods of state_dict and load_state_dict."""

    _version = 1  # of what state_dict holds, for subclasses whose state changed

    def get_extra_state(self) -> Any:
        """Returns more state for state_dict to hold; set_extra_state() takes it back."""
        raise RuntimeError(
            "Reached a code path in Module.get_extra_state() that should never be called. Please file an issue."
        )

    def set_extra_state(self, state: Any) -> None:
        """Takes what get_extra_state gave."""
        raise RuntimeError(
            "Reached a code path in Module.set_extra_state() that should never be called. Please file an issue."
        )

    def _own_state(self):
        yield from self._parameters.items()
        for name, buffer in self._buffers.items():
            if name not in self._non_persistent_buffers_set:
                yield name, buffer

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        """Puts what this module itself holds into `destination`; subclasses may hold more."""
        for name, member in self._own_state():
            if member is not None:
                destination[prefix + name] = member if keep_vars else member.detach()
        if type(self).get_extra_state is not State.get_extra_state:
            destination[prefix + _EXTRA] = self.get_extra_state()

    def state_dict(
        self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False
    ) -> dict[str, Any]:
        """Path to tensor for every parameter and persistent buffer; detached unless keep_vars."""
        if args:  # as torch still lets them be given
            destination, prefix, keep_vars = (*args, *(destination, prefix, keep_vars)[len(args) :])
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        local = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = local
        for hook in tuple(self._state_dict_pre_hooks.values()):
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        for hook in tuple(self._state_dict_hooks.values()):
            changed = hook(self, destination, prefix, local)
            if getattr(hook, "_from_public_api", False):
                if changed is not None:
                    raise RuntimeError("state_dict post-hook must return None")
            elif changed is not None:
                destination = changed
        return destination

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """Copies tensors into parameters and buffers of the same path. Raises RuntimeError on what doesn't fit.

        With assign, the tensors themselves become the members, of whatever dtype they are.
        """
        if not hasattr(state_dict, "items"):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        metadata = getattr(state_dict, "_metadata", None)
        state_dict = OrderedDict(state_dict)
        if metadata is not None:
            state_dict._metadata = metadata
        missing, unexpected, errors = [], [], []
        self._load_tree(state_dict, metadata, "", assign, (missing, unexpected, errors))
        if strict:
            _explain(errors, unexpected, "Unexpected")
            _explain(errors, missing, "Missing")
        if errors:
            listed = "\n\t".join(errors)
            raise RuntimeError(f"Error(s) in loading state_dict for {type(self).__name__}:\n\t{listed}")
        return _IncompatibleKeys(missing, unexpected)

    def _load_tree(self, state_dict, metadata, prefix, assign, found):
        """Loads this module and those below it. They look for unexpected keys whether strict or not, as torch's do."""
        missing, unexpected, errors = found
        local = {} if metadata is None else metadata.get(prefix[:-1], {})
        if assign:
            local["assign_to_params_buffers"] = assign
        self._load_from_state_dict(state_dict, prefix, local, True, missing, unexpected, errors)
        for name, child in self._modules.items():
            if child is not None:
                below = f"{prefix}{name}."
                # Hooks of a child see its part, and may change it.
                part = OrderedDict((k, v) for k, v in state_dict.items() if k.startswith(below))
                child._load_tree(part, metadata, below, assign, found)
        incompatible = _IncompatibleKeys(missing, unexpected)
        for hook in tuple(self._load_state_dict_post_hooks.values()):
            if hook(self, incompatible) is not None:
                raise AssertionError(
                    "Hooks registered with ``register_load_state_dict_post_hook`` are not expected to return new "
                    "values, if incompatible_keys need to be modified, it should be done inplace."
                )

    def _load_from_state_dict(
        self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
    ):
        """Loads what this module itself holds; subclasses may load more."""
        for hook in tuple(self._load_state_dict_pre_hooks.values()):
            hook(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        assign = local_metadata.get("assign_to_params_buffers", False)
        for name, member in list(self._own_state()):
            if member is None:
                continue
            key = prefix + name
            if key in state_dict:
                self._load_one(key, name, member, state_dict[key], assign, error_msgs)
            elif strict:
                missing_keys.append(key)
        extra = type(self).set_extra_state is not State.set_extra_state
        if extra and prefix + _EXTRA in state_dict:
            self.set_extra_state(state_dict[prefix + _EXTRA])
        elif extra and strict:
            missing_keys.append(prefix + _EXTRA)
        if strict:
            own = {name for name, member in self._own_state() if member is not None}
            for key in state_dict:
                if not key.startswith(prefix):
                    continue
                name, *below = key[len(prefix) :].split(".", 1)
                known = name in self._modules if below else name in own or (extra and name == _EXTRA)
                if not known:
                    unexpected_keys.append(key)

    def _load_one(self, key, name, member, value, assign, errors):
        if not isinstance(value, _core.Tensor):
            errors.append(
                f'While copying the parameter named "{key}", expected smolder.Tensor or Tensor-like object from '
                f"checkpoint but received {type(value)}"
            )
        elif is_lazy(member) and is_lazy(value):
            pass  # neither has anything
        elif value.shape != member.shape:
            errors.append(
                f"size mismatch for {key}: copying a param with shape {value.shape} from checkpoint, the shape in "
                f"current model is {member.shape}."
            )
        elif assign:
            if isinstance(member, Parameter) and not isinstance(value, Parameter):
                value = Parameter(value, member.requires_grad)
            elif isinstance(member, Parameter):
                value.requires_grad_(member.requires_grad)
            setattr(self, name, value)
        else:
            with no_grad():
                member.copy_(value)


def _explain(errors, keys, kind):
    if keys:
        listed = ", ".join(f'"{key}"' for key in keys)
        errors.insert(0, f"{kind} key(s) in state_dict: {listed}. ")
