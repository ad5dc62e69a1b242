"""torch._functorch: the functions of smolder.func under the paths that they had."""

from smolder.torch.only._functorch import config as config
