"""Helpers around training: hooks, checkpoints, data sets and their loaders."""

from smolder.utils import checkpoint, data, hooks

__all__ = ["checkpoint", "data", "hooks"]
