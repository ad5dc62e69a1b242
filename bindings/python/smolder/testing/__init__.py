"""Tools for tests of programs: are values close; tensors to try things on."""

from smolder._names import listing as _listing
from smolder.testing._comparison import assert_allclose, assert_close
from smolder.testing._creation import make_tensor

__all__ = ["assert_allclose", "assert_close", "make_tensor"]
__dir__ = _listing(__name__)
