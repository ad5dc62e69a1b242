"""Smolder under torch's name: programs and libraries that were written for PyTorch run as they are.

    python -m smolder.torch SCRIPT ARGS
    python -m smolder.torch -m MODULE ARGS

or, at the top of a program, before anything imports torch:

    import smolder.torch
    smolder.torch.install()

From then on `import torch` is Smolder, and so is every public path in torch's tree. docs/torch.md says what is behind them.
"""

import os

from smolder._names import listing as _listing
from smolder.torch._alias import VERSION, install, is_installed
from smolder.torch._asked import asked, report
from smolder.torch._names import is_op, status

__all__ = ["VERSION", "asked", "install", "is_installed", "is_op", "report", "status"]
__dir__ = _listing(__name__)


def _registers_for(path):
    """Whether ops that a library built for PyTorch would register are registered in its place."""
    if os.path.join(*path.split(os.sep)[-2:]) != os.path.join("torchvision", "_C.so"):
        return False
    from smolder.torch import _vision_ops

    _vision_ops.define()
    return True
