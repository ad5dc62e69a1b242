"""Python's multiprocessing, and torch's way to start several processes.

Tensors that are sent to another process are copied: to share memory between processes is not supported.
"""

from __future__ import annotations

import multiprocessing as _multiprocessing
import typing as _typing
from multiprocessing import *  # noqa: F403

from smolder._names import listing as _listing
from smolder.cuda._refused import refused
from smolder.multiprocessing.spawn import (
    ProcessContext,
    ProcessException,
    ProcessExitedException,
    ProcessRaisedException,
    spawn,
    start_processes,
)

if _typing.TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_WHY = "tensors that are sent to another process are copied"
get_all_sharing_strategies: Callable[..., Any] = refused("multiprocessing.get_all_sharing_strategies", _WHY)
get_sharing_strategy: Callable[..., Any] = refused("multiprocessing.get_sharing_strategy", _WHY)
set_sharing_strategy: Callable[..., Any] = refused("multiprocessing.set_sharing_strategy", _WHY)

__all__ = [
    "ProcessContext", "ProcessException", "ProcessExitedException", "ProcessRaisedException",
    "get_all_sharing_strategies", "get_sharing_strategy", "set_sharing_strategy", "spawn", "start_processes",
]  # fmt: skip
__all__ += _multiprocessing.__all__
__dir__ = _listing(__name__)
