"""The parts of this build."""

from smolder._names import listing as _listing
from smolder._version import __version__

__all__ = ["parallel_info", "show"]
__dir__ = _listing(__name__)


def show() -> str:
    """A text that says with what the kernels are compiled, and which libraries were found."""
    from smolder.cli.doctor import _libraries, _processor

    model, vectors = _processor()
    lines = [f"Smolder {__version__}:", f"  - CPU: {model} ({', '.join(vectors) or 'no vectors known'})"]
    for library in _libraries():
        lines.append(f"  - {library['name']}: {library['version'] or 'found' if library['found'] else 'not found'}")
    return "\n".join(lines) + "\n"


def parallel_info() -> str:
    """A text that says how many threads compute."""
    from smolder import _core

    return f"Smolder parallel info:\n\tsmolder.get_num_threads() : {_core.get_num_threads()}\n"
