"""Optimizers: a step is one op a parameter, which the compiler makes a few kernels of."""

from smolder.optim import lr_scheduler
from smolder.optim.adam import Adam, AdamW
from smolder.optim.optimizer import Optimizer
from smolder.optim.sgd import SGD

__all__ = ["SGD", "Adam", "AdamW", "Optimizer", "lr_scheduler"]
