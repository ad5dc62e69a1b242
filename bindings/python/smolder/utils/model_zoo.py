"""An old name of smolder.hub's function."""

from smolder._names import listing as _listing
from smolder.hub import load_state_dict_from_url as load_url

__all__ = ["load_url"]
__dir__ = _listing(__name__)
