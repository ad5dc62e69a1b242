"""Optimizers: a step is one op a parameter, which the compiler makes a few kernels of."""

from smolder.optim import lr_scheduler
from smolder.optim.adadelta import Adadelta
from smolder.optim.adagrad import Adagrad
from smolder.optim.adam import Adam, AdamW
from smolder.optim.adam_kin import Adamax, NAdam, RAdam
from smolder.optim.optimizer import Optimizer
from smolder.optim.rmsprop import RMSprop
from smolder.optim.sgd import SGD

__all__ = [
    "LBFGS",
    "SGD",
    "Adadelta",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "NAdam",
    "Optimizer",
    "RAdam",
    "RMSprop",
    "lr_scheduler",
]


def __getattr__(name):
    if name == "LBFGS":
        from smolder.optim.lbfgs import LBFGS

        return LBFGS
    if name == "swa_utils":
        import importlib

        return importlib.import_module("smolder.optim.swa_utils")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
