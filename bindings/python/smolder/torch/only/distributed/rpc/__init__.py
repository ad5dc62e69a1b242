"""The names of torch.distributed.rpc that libraries call at import."""

from smolder._names import listing as _listing

__all__ = ["is_available"]
__dir__ = _listing(__name__)


def is_available() -> bool:
    """False: Smolder runs in one process."""
    return False
