"""Smolder: tensors that record operations and run them, fused and compiled, when a value is needed.

The API follows PyTorch's. `mark_step()` ends a step explicitly; reading a value (`item()`, `tolist()`,
printing, `if tensor:`) ends it too.
"""

# ruff: noqa: E402, F403, F821
import atexit as _atexit
import os as _os

from smolder import _core
from smolder._names import listing as _listing

# The package's own frames are not the user's: a record or an error names the line that called in.
_core._install_source_provider(_os.path.dirname(_os.path.abspath(__file__)) + _os.sep)

_atexit.register(_core._finish_compiling)  # before what the compiler uses is taken down
from smolder import _lines

_lines.name_cells()

# isort: off
from smolder import _pieces as _pieces
from smolder._core import *  # every op of the table, the dtypes, the counters
from smolder import _subclass as _subclass
from smolder._tensor import *
from smolder import _views_in_place as _views_in_place
from smolder._tensor_str import *
from smolder._control_flow import *
from smolder._creation import *
from smolder._random_tensors import *
from smolder._core import _amp_foreach_non_finite_check_and_unscale_ as _amp_foreach_non_finite_check_and_unscale_
from smolder._core import _amp_update_scale_ as _amp_update_scale_
from smolder._core import _weight_int8pack_mm as _weight_int8pack_mm
from smolder._autocast import *
from smolder._functions import *
from smolder._files import *
from smolder._foreach import *
from smolder._graph import *
from smolder._layouts import *
from smolder import _members as _members
from smolder._modes import *
from smolder._notebook import *
from smolder._spectrogram import *
from smolder._random import *
from smolder._recording import *
from smolder._recompiles import *
from smolder._samplers import *
from smolder._samplers import _standard_gamma as _standard_gamma
from smolder._settings import *
from smolder._types import *
from smolder._unheld import *
from smolder._to_sparse import *
from smolder._views import *
from smolder._windows import *
from smolder._checks import _assert as _assert, _check as _check, _check_index as _check_index
from smolder._checks import _check_is_size as _check_is_size, _check_not_implemented as _check_not_implemented
from smolder._checks import _check_tensor_all as _check_tensor_all, _check_type as _check_type
from smolder._checks import _check_value as _check_value, _check_with as _check_with
from smolder._ops import ops as ops
from smolder._version import __version__ as __version__
from smolder import autograd as autograd, nn as nn, optim as optim, random as random, return_types as return_types
from smolder import amp as amp, backends as backends, cpu as cpu, cuda as cuda, memory as memory
from smolder import linalg as linalg
from smolder._old_linalg import *
from smolder._lowrank import *
from smolder._segments import *
from smolder._statistics import *
from smolder._along import *
from smolder._fake_quantize import *
from smolder._forms import *
from smolder._integer_functions import *
from smolder import library as library, safetensors as safetensors, serialization as serialization, utils as utils
from smolder import version as version
from smolder.serialization import load as load, save as save
from smolder import compiler as compiler, export as export
from smolder import onnx as onnx
from smolder.compiler import checked as checked, compile as compile, pure as pure
from smolder._explain import *
from smolder.memory import memory_summary as memory_summary
# isort: on

del assign, backward, dtype_named, from_numpy_copy, grad  # reached as smolder.autograd and Tensor methods

# Ops that only gradients record are reached by name, and leave room for others among those that Python suggests.
__all__ = [_name for _name in dir() if not _name.startswith("_") and not _name.endswith("_backward")]

# Modules that few programs ask for: each is imported when it is first named.
_LATER = {
    "__config__",
    "_utils",
    "accelerator",
    "distributed",
    "distributions",
    "fft",
    "func",
    "futures",
    "fx",
    "hub",
    "jit",
    "masked",
    "mps",
    "multiprocessing",
    "nested",
    "overrides",
    "profiler",
    "quasirandom",
    "signal",
    "sparse",
    "special",
    "storage",
    "testing",
    "types",
    "xpu",
}
# Names of these, by module.
_LATER_NAMES = {"TypedStorage": "storage", "UntypedStorage": "storage", "vmap": "func"}
# Public names alone: where one is misspelt, Python names the nearest of 750 at most.
__dir__ = _listing(__name__, {*_LATER, *_LATER_NAMES})


def __getattr__(name):
    if name in _LATER or name in _LATER_NAMES:
        import importlib

        module = importlib.import_module(f"smolder.{_LATER_NAMES.get(name, name)}")
        return module if name in _LATER else getattr(module, name)
    if name.endswith("_") and not name.startswith("_") and hasattr(_core.Tensor, name):
        return getattr(_core.Tensor, name)  # exp_(x) is x.exp_()
    from smolder import _missing, _unheld

    if isinstance(named := getattr(_unheld, name, None), _unheld.UnheldDtype):
        return named  # of those that the list of names has no room for
    raise _missing.missing("smolder", name)
