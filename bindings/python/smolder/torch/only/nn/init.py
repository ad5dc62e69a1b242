"""torch.nn.init: the functions under its initialisers, which libraries build theirs of."""

from smolder import no_grad
from smolder._names import listing as _listing

__all__ = []
__dir__ = _listing(__name__)


@no_grad()
def _no_grad_uniform_(tensor, a, b, generator=None):
    return tensor.uniform_(a, b, generator=generator)


@no_grad()
def _no_grad_normal_(tensor, mean, std, generator=None):
    return tensor.normal_(mean, std, generator=generator)


def _no_grad_trunc_normal_(tensor, mean, std, a, b, generator=None):
    from smolder.nn.init import trunc_normal_

    return trunc_normal_(tensor, mean, std, a, b, generator=generator)


@no_grad()
def _no_grad_fill_(tensor, val):
    return tensor.fill_(val)


@no_grad()
def _no_grad_zero_(tensor):
    return tensor.zero_()
