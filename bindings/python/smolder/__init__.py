"""Smolder: tensors that record operations and run them, fused and compiled, when a value is needed.

The API follows PyTorch's. `mark_step()` ends a step explicitly; reading a value (`item()`, `tolist()`,
printing, `if tensor:`) ends it too.
"""

# ruff: noqa: F401, E402, F403, F821
import os as _os

from smolder import _core

# The package's own frames are not the user's: a record or an error names the line that called in.
_core._install_source_provider(_os.path.dirname(_os.path.abspath(__file__)) + _os.sep)

# isort: off
from smolder._core import *  # every op of the table, the dtypes, the counters
from smolder._tensor import Size, Tensor, device
from smolder._tensor_str import set_printoptions
from smolder._creation import (
    arange,
    as_tensor,
    empty,
    empty_like,
    eye,
    from_numpy,
    full,
    full_like,
    linspace,
    ones,
    ones_like,
    rand,
    rand_like,
    randint,
    randn,
    randn_like,
    randperm,
    tensor,
    zeros,
    zeros_like,
)
from smolder._functions import (
    allclose,
    broadcast_shapes,
    equal,
    is_tensor,
    manual_seed,
    numel,
    result_type,
)
from smolder._modes import eager, enable_grad, inference_mode, no_grad, set_grad_enabled, strict
from smolder._types import (
    double,
    finfo,
    get_default_dtype,
    half,
    iinfo,
    int,
    is_floating_point,
    long,
    float,
)
from smolder._version import __version__
from smolder import autograd, nn, optim
# isort: on

del backward, grad, assign, from_numpy_copy  # reached as smolder.autograd and Tensor methods

__all__ = [_name for _name in dir() if not _name.startswith("_")]
