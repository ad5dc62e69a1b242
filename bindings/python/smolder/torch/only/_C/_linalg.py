"""torch._C._linalg: functions of smolder.linalg under the names that torch has them by in C++, which code of graphs says."""

from smolder import linalg


def __getattr__(name):
    if not name.startswith("linalg_"):
        raise AttributeError(name)
    return getattr(linalg, name.removeprefix("linalg_"))
