"""Functions made of functions: their gradients and Jacobians, and calls for each element of a batch."""

from smolder._names import listing as _listing
from smolder.func._modules import functional_call, stack_module_state
from smolder.func._more import functionalize, linearize, replace_all_batch_norm_modules_
from smolder.func._transforms import grad, grad_and_value, hessian, jacfwd, jacrev, jvp, vjp
from smolder.func._vmap import vmap

__all__ = [
    "functional_call", "functionalize", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "linearize",
    "replace_all_batch_norm_modules_", "stack_module_state", "vjp", "vmap",
]  # fmt: skip
__dir__ = _listing(__name__)
