"""Optimizers: a step is one op a parameter, which the compiler makes a few kernels of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from smolder._names import listing as _listing
from smolder.optim import lr_scheduler
from smolder.optim.adadelta import Adadelta
from smolder.optim.adagrad import Adagrad
from smolder.optim.adam import Adam, AdamW
from smolder.optim.adam_kin import Adamax, NAdam, RAdam
from smolder.optim.optimizer import Optimizer
from smolder.optim.rmsprop import RMSprop
from smolder.optim.sgd import SGD

if TYPE_CHECKING:
    from smolder.optim import swa_utils as swa_utils
    from smolder.optim.adafactor import Adafactor as Adafactor
    from smolder.optim.asgd import ASGD as ASGD
    from smolder.optim.lbfgs import LBFGS as LBFGS
    from smolder.optim.muon import Muon as Muon
    from smolder.optim.rprop import Rprop as Rprop
    from smolder.optim.sparse_adam import SparseAdam as SparseAdam

__all__ = [
    "ASGD",
    "LBFGS",
    "SGD",
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "Muon",
    "NAdam",
    "Optimizer",
    "RAdam",
    "RMSprop",
    "Rprop",
    "SparseAdam",
    "lr_scheduler",
]
__dir__ = _listing(__name__)


_LATER = ("ASGD", "Adafactor", "LBFGS", "Muon", "Rprop")


def _import_all() -> None:
    """Puts optimizers that are imported when they are named into the module, for those who go through its names."""
    globals().update({name: __getattr__(name) for name in _LATER})


def __getattr__(name: str) -> Any:
    import importlib

    if name in _LATER:
        return getattr(importlib.import_module(f"{__name__}.{name.lower()}"), name)
    if name == "SparseAdam":
        return importlib.import_module(f"{__name__}.sparse_adam").SparseAdam
    if name == "swa_utils":
        return importlib.import_module(f"{__name__}.{name}")
    from smolder._missing import missing

    raise missing(__name__, name)
