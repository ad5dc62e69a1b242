"""The environment as a report of a bug should tell it; `smolder doctor` says more, and tests it."""

import platform
import sys

from smolder._names import listing as _listing
from smolder.cli.doctor import _has_gpu, _libraries, _processor

__all__ = ["get_pretty_env_info", "main"]
__dir__ = _listing(__name__)


def get_pretty_env_info() -> str:
    """The versions of what is here, as text."""
    import smolder

    model, vectors = _processor()
    gpus = [smolder.cuda.get_device_name(i) for i in range(smolder.cuda.device_count())]
    lines = {
        "Smolder version": smolder.__version__,
        "CUDA toolkit": smolder.version.cuda or "None",
        "OS": platform.platform(),
        "Libc version": "-".join(platform.libc_ver()),
        "Python version": f"{sys.version} ({platform.architecture()[0]} runtime)",
        "Is CUDA available": smolder.cuda.is_available(),
        "GPU models": ", ".join(gpus) or ("one is there, and cannot be used" if _has_gpu() else "none"),
        "CPU": f"{model}; {', '.join(vectors)}; {smolder.get_num_threads()} threads",
    }
    for library in _libraries():
        lines[library["name"]] = (library["version"] or "found") if library["found"] else library["reason"]
    return "\n".join(f"{name}: {value}" for name, value in lines.items())


def main() -> None:
    """Prints it."""
    print("Collecting environment information...")
    print(get_pretty_env_info())


if __name__ == "__main__":
    main()
