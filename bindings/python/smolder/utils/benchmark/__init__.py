"""Times of statements, measured and compared."""

from smolder.utils.benchmark.compare import Colorize, Compare
from smolder.utils.benchmark.measurement import Measurement, TaskSpec
from smolder.utils.benchmark.timer import Language, Timer, timer

__all__ = ["Colorize", "Compare", "Language", "Measurement", "TaskSpec", "Timer", "timer"]
