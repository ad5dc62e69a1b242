"""Private names of torch's that programs use."""

from smolder import _core


def _flatten_dense_tensors(tensors):
    """All elements of tensors in one vector."""
    return _core.cat([t.reshape(-1) for t in tensors])


def _unflatten_dense_tensors(flat, tensors):
    """Parts of a vector in the shapes of tensors."""
    parts, at = [], 0
    for t in tensors:
        parts.append(flat[at : at + t.numel()].reshape(t.shape))
        at += t.numel()
    return tuple(parts)
