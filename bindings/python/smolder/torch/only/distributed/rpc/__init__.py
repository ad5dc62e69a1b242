"""Of torch.distributed.rpc what libraries call where they are imported."""

from smolder._names import listing as _listing

__all__ = ["is_available"]
__dir__ = _listing(__name__)


def is_available() -> bool:
    """False: Smolder runs in one process."""
    return False
