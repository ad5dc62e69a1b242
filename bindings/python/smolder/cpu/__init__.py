"""What torch.cpu has of mixed precision."""

from smolder.cpu import amp

__all__ = ["amp"]
