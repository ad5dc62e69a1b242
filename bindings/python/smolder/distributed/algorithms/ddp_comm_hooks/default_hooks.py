"""The mean of gradients: in their own dtype, or in one of half as many bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from smolder import _core
from smolder._names import listing as _listing
from smolder.distributed._collectives import all_reduce

if TYPE_CHECKING:
    from smolder.distributed._data_parallel import GradBucket
    from smolder.futures import Future

__all__ = ["allreduce_hook", "bf16_compress_hook", "fp16_compress_hook"]
__dir__ = _listing(__name__)


def _reduced(group, bucket, dtype):
    from smolder.distributed._groups import resolve

    pg = resolve(group)
    flat = bucket.buffer()
    work = all_reduce(flat.to(dtype) / pg.size(), group=pg, async_op=True)
    return work.get_future().then(lambda future: future.value()[0].to(flat.dtype))


def allreduce_hook(process_group: Any, bucket: GradBucket) -> Future[Any]:
    """Averages gradients as DistributedDataParallel does without a hook."""
    return _reduced(process_group, bucket, bucket.buffer().dtype)


def fp16_compress_hook(process_group: Any, bucket: GradBucket) -> Future[Any]:
    """The mean in float16."""
    return _reduced(process_group, bucket, _core.float16)


def bf16_compress_hook(process_group: Any, bucket: GradBucket) -> Future[Any]:
    """The mean in bfloat16."""
    return _reduced(process_group, bucket, _core.bfloat16)
