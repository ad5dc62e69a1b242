"""The search along a line of torch.optim.lbfgs, by itself."""

from smolder._names import listing as _listing
from smolder.optim.lbfgs import _cubic_minimum as _cubic_interpolate  # noqa: F401
from smolder.optim.lbfgs import _Point, _Search

__all__ = []
__dir__ = _listing(__name__)


def _strong_wolfe(obj_func, x, t, d, f, g, gtd, c1=1e-4, c2=0.9, tolerance_change=1e-9, max_ls=25):
    """The value, the gradient and the length of a step that satisfies the strong Wolfe conditions; and how many calls of
    obj_func(x, length, d) it took."""
    search = _Search(lambda length: obj_func(x, length, d), _Point(0, f, g, gtd), d, max_ls, c1, c2)
    point, calls = search.run(t, tolerance_change)
    return point.f, point.g, point.t, calls
