"""torch.nn.modules.module: the hooks of all modules, which libraries call that put parameters in place themselves."""

from smolder._names import listing as _listing
from smolder.nn.hooks import _registration

__all__: list[str] = []
__dir__ = _listing(__name__)

_global_parameter_registration_hooks = _registration["parameter"]
_global_buffer_registration_hooks = _registration["buffer"]
_global_module_registration_hooks = _registration["module"]
