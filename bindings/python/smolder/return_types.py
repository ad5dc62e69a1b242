"""Types of several results: tuples whose members have names, as `smolder.max(x, dim)` returns them."""

from smolder import _core
from smolder._names import listing as _listing

__all__ = sorted(vars(_core._return_types))
__dir__ = _listing(__name__)


def _repr(self):
    members = (f"{name}={value!r}" for name, value in zip(type(self).__match_args__, self, strict=True))
    return f"smolder.return_types.{type(self).__name__}(\n" + ",\n".join(members) + ")"


for _name, _type in vars(_core._return_types).items():
    _type.__repr__ = _repr
    _type.__doc__ = f"What {_name}() returns."
    globals()[_name] = _type
