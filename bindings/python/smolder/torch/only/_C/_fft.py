"""torch._C._fft: functions of smolder.fft under the names that torch has them by in C++, which code of graphs says."""

from smolder import fft


def __getattr__(name):
    if not name.startswith("fft_"):
        raise AttributeError(name)
    return getattr(fft, name.removeprefix("fft_"))
