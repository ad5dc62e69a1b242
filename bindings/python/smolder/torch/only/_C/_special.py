"""torch._C._special: functions of smolder.special under the names that torch has them by in C++, which code of graphs says."""

from smolder import special


def __getattr__(name):
    if not name.startswith("special_"):
        raise AttributeError(name)
    return getattr(special, name.removeprefix("special_"))
