"""Pipelines: each process has a stage of the model, and parts of a batch follow each other through the stages."""

from smolder._names import listing as _listing
from smolder.distributed.pipelining._schedules import Schedule1F1B, ScheduleGPipe
from smolder.distributed.pipelining._stage import PipelineStage

__all__ = ["PipelineStage", "Schedule1F1B", "ScheduleGPipe"]
__dir__ = _listing(__name__)
