"""torch.autograd.functional: the functions under its Jacobians, which libraries build theirs of."""

from smolder import eye
from smolder._names import listing as _listing

__all__ = []
__dir__ = _listing(__name__)


def _construct_standard_basis_for(tensors, tensor_numels):
    """The unit vectors of all tensors' elements together, as rows, in a matrix for each tensor."""
    basis = eye(sum(tensor_numels)).split(list(tensor_numels), dim=1)
    return tuple(b.to(t.dtype).to(t.device) for b, t in zip(basis, tensors, strict=True))


def _grad_postprocess(inputs, create_graph):
    """Gradients, or tuples of them, without their history where none is wanted."""
    if create_graph:
        return inputs
    return tuple(_grad_postprocess(x, False) if isinstance(x, tuple) else x.detach() for x in inputs)


def _tuple_postprocess(res, to_unpack):
    """Results as the function was given its arguments: in tuples, or by themselves."""
    if not isinstance(to_unpack, tuple):
        return res if to_unpack else res[0]
    outer, inner = to_unpack
    res = res if inner else tuple(x[0] for x in res)
    return res if outer else res[0]
