"""A decorator of torch.distributed.rpc.api."""

import functools

from smolder._names import listing as _listing

__all__: list[str] = []
__dir__ = _listing(__name__)


def _require_initialized(func):
    """Decorates a function of agents, of which there are none."""

    @functools.wraps(func)
    def call(*args, **kwargs):
        raise RuntimeError("RPC has not been initialized. Call torch.distributed.rpc.init_rpc first.")

    return call
