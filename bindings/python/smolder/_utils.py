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


def _get_available_device_type():
    """The kind of device that a program finds here, or None where there is the CPU alone."""
    from smolder import cuda

    return "cuda" if cuda.is_available() else None


def _get_device_module(device_type):
    """The module of a kind of device, as smolder.cuda."""
    import smolder

    module = getattr(smolder, device_type, None)
    if module is None:
        raise RuntimeError(
            f"Device '{device_type}' does not have a corresponding module registered as 'torch.{device_type}'."
        )
    return module
