"""Helpers around training: hooks, checkpoints."""

from smolder.utils import checkpoint, hooks

__all__ = ["checkpoint", "hooks"]
