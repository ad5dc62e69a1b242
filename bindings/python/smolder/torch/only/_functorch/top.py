"""The package functorch, which comes with torch: the functions of smolder.func under their first names."""

from smolder._names import listing as _listing
from smolder.cuda._refused import refused, refused_class
from smolder.func import functionalize, grad, grad_and_value, hessian, jacfwd, jacrev, jvp, vjp, vmap
from smolder.nn import Module

__all__ = [
    "FunctionalModule", "FunctionalModuleWithBuffers", "combine_state_for_ensemble", "functionalize", "grad",
    "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "make_functional", "make_functional_with_buffers", "vjp",
    "vmap",
]  # fmt: skip
__dir__ = _listing(__name__)

_WHY = "smolder.func.functional_call calls a module with other parameters"
FunctionalModule = refused_class("functorch.FunctionalModule", _WHY, Module)
FunctionalModuleWithBuffers = refused_class("functorch.FunctionalModuleWithBuffers", _WHY, Module)
make_functional = refused("functorch.make_functional", _WHY)
make_functional_with_buffers = refused("functorch.make_functional_with_buffers", _WHY)
combine_state_for_ensemble = refused(
    "functorch.combine_state_for_ensemble", "smolder.func.stack_module_state stacks parameters of modules"
)
