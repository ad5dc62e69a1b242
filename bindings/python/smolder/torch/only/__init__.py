"""Modules of torch's that only programs written for it ask for: each is imported under torch's name, by the alias."""

from smolder._names import listing as _listing
from smolder._ops import Tag as Tag

__all__: list[str] = []
__dir__ = _listing(__name__)


def _softmax_backward_data(grad_output, output, dim, input_dtype):
    """The gradient of softmax's input, of that of its output and the output."""
    return ((grad_output - (grad_output * output).sum(dim, keepdim=True)) * output).to(input_dtype)


def _log_softmax_backward_data(grad_output, output, dim, input_dtype):
    """The gradient of log_softmax's input, of that of its output and the output."""
    return (grad_output - output.exp() * grad_output.sum(dim, keepdim=True)).to(input_dtype)


def _has_compatible_shallow_copy_type(input, other):
    """Whether a tensor may become another in place by set_data: both are of one layout."""
    return input.layout == other.layout


_interop_threads = 1


def get_num_interop_threads() -> int:
    """How many ops may run at once: what was set, and else 1, as the kernels of a step run one after another on the CPU."""
    return _interop_threads


def set_num_interop_threads(num_threads: int) -> None:
    """Notes how many ops may run at once. Kernels go on running one after another, each on get_num_threads() threads."""
    global _interop_threads
    if not isinstance(num_threads, int) or isinstance(num_threads, bool):
        raise RuntimeError(f"set_num_interop_threads expects an int, but got {type(num_threads).__name__}")
    if num_threads <= 0:
        raise RuntimeError("set_num_interop_threads expects a positive integer")
    _interop_threads = num_threads
