"""torch._inductor: settings alone."""

from smolder.torch.only._inductor import config as config
