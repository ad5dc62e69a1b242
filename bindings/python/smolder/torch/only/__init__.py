"""Modules of torch's that only programs written for it ask for: each is imported under torch's name, by the alias."""

from smolder._names import listing as _listing

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
