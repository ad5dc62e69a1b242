"""Logs that TensorBoard shows, of what a program measures. The package `tensorboard` writes them."""

try:
    import tensorboard as _tensorboard  # noqa: F401
except ImportError as _error:
    raise ModuleNotFoundError(
        "smolder.utils.tensorboard needs the package tensorboard: pip install tensorboard", name="tensorboard"
    ) from _error

from tensorboard.summary.writer.record_writer import RecordWriter

from smolder._names import listing as _listing
from smolder.utils.tensorboard.writer import FileWriter, SummaryWriter

__all__ = ["FileWriter", "RecordWriter", "SummaryWriter"]
__dir__ = _listing(__name__)
