"""Times of statements, measured and compared."""

from smolder._names import listing as _listing
from smolder.utils.benchmark.compare import Colorize, Compare
from smolder.utils.benchmark.measurement import Measurement, TaskSpec
from smolder.utils.benchmark.timer import Language, Timer, timer

__all__ = ["Colorize", "Compare", "Language", "Measurement", "TaskSpec", "Timer", "timer"]
__dir__ = _listing(__name__)
