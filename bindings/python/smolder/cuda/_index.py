"""Which device of CUDA an argument names."""

from smolder._device import device as _device


def index_of(device):
    """The number of a device given as torch takes it; the first when none is."""
    if device is None:
        return 0
    if isinstance(device, int):
        return device
    where = _device(device)
    if where.type != "cuda":
        raise ValueError(f"Expected a cuda device, but got: {where}")
    return where.index or 0
