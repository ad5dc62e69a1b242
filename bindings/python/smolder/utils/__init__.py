"""Helpers around training: hooks, checkpointing."""

from smolder.utils import hooks

__all__ = ["hooks"]
