"""What torch says of Apple's devices: there are none that tensors could be on."""

__all__ = ["is_available", "is_built", "is_macos13_or_newer", "is_macos_or_newer"]


def is_built():
    """False: there are no kernels for them."""
    return False


def is_available():
    """False: tensors are on none."""
    return False


def is_macos_or_newer(major, minor):
    """Raises RuntimeError: there is no such device whose macOS could be asked for."""
    raise RuntimeError("Cannot execute isOnMacOSorNewer() without MPS backend.")


def is_macos13_or_newer(minor=0):
    """Raises RuntimeError: there is no such device whose macOS could be asked for."""
    is_macos_or_newer(13, minor)
