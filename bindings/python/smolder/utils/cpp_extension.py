"""Extensions in C++: sources compiled against Smolder's headers and library, and loaded. As torch.utils.cpp_extension,
but that an extension registers ops with SMOLDER_LIBRARY instead of being a Python module. See docs/cpp.md."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from smolder import _core, library
from smolder._names import listing as _listing
from smolder._typing import PathLike

__all__ = ["CUDA_HOME", "get_default_build_root", "include_paths", "library_paths", "load", "load_inline"]
__dir__ = _listing(__name__)

CUDA_HOME: str | None = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH")

_OURS = pathlib.Path(_core.__file__).parent  # the package, or that of a build folder


def include_paths(device_type: str = "cpu") -> list[str]:
    """Folders of headers that a compiler is to be given, each with -I."""
    if device_type not in ("cpu", "cuda"):
        raise ValueError(f"include_paths(): device_type must be 'cpu' or 'cuda', got {device_type!r}")
    build = _OURS.parents[1]
    for folders in ([_OURS / "include"], [build / "include", build / "generated"]):
        if (folders[0] / "smolder" / "smolder.h").exists():
            return list(map(str, folders))
    raise RuntimeError(f"Smolder's headers are neither in {_OURS} nor in {build}: install Smolder again")


def library_paths(device_type: str = "cpu") -> list[str]:
    """Folders of libraries that a linker is to be given, each with -L."""
    if device_type not in ("cpu", "cuda"):
        raise ValueError(f"library_paths(): device_type must be 'cpu' or 'cuda', got {device_type!r}")
    for folder in (_OURS, _OURS.parents[1] / "lib"):
        if (folder / "libsmolder.so").exists():
            return [str(folder)]
    raise RuntimeError(f"libsmolder.so is not in {_OURS}: install Smolder again")


def get_default_build_root() -> str:
    """Where extensions are built: $SMOLDER_EXTENSIONS_DIR, else `extensions` beside the kernel cache."""
    chosen = os.environ.get("SMOLDER_EXTENSIONS_DIR")
    if chosen:
        return os.path.abspath(chosen)
    cache = os.environ.get("XDG_CACHE_HOME", "")
    return os.path.join(cache if os.path.isabs(cache) else os.path.expanduser("~/.cache"), "smolder", "extensions")


def load(
    name: str,
    sources: PathLike | Sequence[PathLike],
    extra_cflags: Sequence[str] | None = None,
    extra_ldflags: Sequence[str] | None = None,
    extra_include_paths: Sequence[PathLike] | None = None,
    build_directory: PathLike | None = None,
    verbose: bool = False,
    is_python_module: bool = False,
    is_standalone: bool = False,
) -> str:
    """Compiles C++ sources to a shared library and loads it; returns its path. What it registers is in smolder.ops.

    It is compiled again where sources, headers that they include, flags or Smolder changed. The compiler is $CXX, or
    c++; it is to know C++20. With is_standalone the sources are a program, which is not run.
    """
    if not isinstance(name, str) or not name.isidentifier():
        raise ValueError(f"load(): name must be an identifier, got {name!r}")
    if is_python_module:
        raise NotImplementedError(
            f"load({name!r}): is_python_module=True is not supported: register ops with SMOLDER_LIBRARY and call them as "
            "smolder.ops.namespace.name"
        )
    sources = [sources] if isinstance(sources, str | os.PathLike) else list(sources)
    folder = pathlib.Path(build_directory or os.path.join(get_default_build_root(), name))
    _make_private(folder)
    flags = extra_cflags or [], extra_ldflags or [], extra_include_paths or []
    commands = _commands(name, folder, sources, *flags, is_standalone)
    built = _build(name, folder, sources, commands, "" if is_standalone else ".so", verbose)
    if not is_standalone:
        library.load_library(built)
    return built


def load_inline(
    name: str,
    cpp_sources: str | Sequence[str],
    extra_cflags: Sequence[str] | None = None,
    extra_ldflags: Sequence[str] | None = None,
    extra_include_paths: Sequence[PathLike] | None = None,
    build_directory: PathLike | None = None,
    verbose: bool = False,
    is_python_module: bool = False,
) -> str:
    """load() of the text of a source, or of several. Each is given `#include <smolder/smolder.h>`."""
    texts = [cpp_sources] if isinstance(cpp_sources, str) else list(cpp_sources)
    folder = pathlib.Path(build_directory or os.path.join(get_default_build_root(), str(name)))
    _make_private(folder)
    sources = []
    for i, text in enumerate(texts):
        source = folder / (f"{name}_{i}.cpp" if i else f"{name}.cpp")
        text = f"#include <smolder/smolder.h>\n#line 1\n{text}"
        if not source.exists() or source.read_text() != text:
            source.write_text(text)
        sources.append(source)
    return load(name, sources, extra_cflags, extra_ldflags, extra_include_paths, folder, verbose, is_python_module)


# -- building


def _make_private(folder):
    """Makes a folder in which nobody else may put what this process will run."""
    os.makedirs(folder, mode=0o700, exist_ok=True)
    found = os.stat(folder)
    if found.st_uid != os.geteuid() or found.st_mode & 0o022:
        raise RuntimeError(f"{folder} is another user's, or can be written by others, and what it holds would be run")


def _commands(name, folder, sources, cflags, ldflags, includes, is_program):
    """The commands that compile each source, and the one that links them to `name`.new."""
    compiler = shlex.split(os.environ.get("CXX", "")) or ["c++"]
    if not shutil.which(compiler[0]):
        raise RuntimeError(f"the compiler {compiler[0]!r} was not found: install one (apt-get install g++) or set CXX")
    flags = ["-std=c++20", "-O2", "-fPIC", *cflags]
    flags += [f"-I{path}" for path in [*map(os.fspath, includes), *include_paths()]]
    objects = [str(folder / f"{name}_{i}.o") for i in range(len(sources))]
    compiles = [
        [*compiler, *flags, "-c", os.path.abspath(source), "-o", made, "-MMD", "-MF", made.removesuffix("o") + "d"]
        for source, made in zip(sources, objects, strict=True)
    ]
    libraries = [flag for path in library_paths() for flag in (f"-L{path}", f"-Wl,-rpath,{path}")]
    shared = [] if is_program else ["-shared"]
    new = str(folder / f"{name}.new")
    return compiles, [*compiler, *shared, *objects, *libraries, "-lsmolder", *ldflags, "-o", new]


def _digest(parts):
    out = hashlib.sha256()
    for part in parts:
        data = part if isinstance(part, bytes) else str(part).encode()
        out.update(len(data).to_bytes(8, "little") + data)
    return out.hexdigest()


def _contents(paths):
    """A digest of files; None where one is missing."""
    try:
        return _digest(pathlib.Path(path).read_bytes() for path in sorted(paths))
    except OSError:
        return None


def _library_identity():
    """An identity of this build of Smolder, whose headers are compiled in."""
    found = os.stat(os.path.join(library_paths()[0], "libsmolder.so"))
    return f"{found.st_size} {found.st_mtime_ns}"


def _build(name, folder, sources, commands, ending, verbose):
    """The file that the commands make. Several processes may ask for it: one of them makes it."""
    for source in sources:
        if not os.path.exists(source):
            raise FileNotFoundError(f"load({name!r}): there is no source {os.fspath(source)!r}")
    compiles, link = commands
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        notes = folder / f"{name}.json"
        asked = _digest([word for command in (*compiles, link) for word in command] + [_library_identity()])
        try:
            known = json.loads(notes.read_text())
            built = folder / known["file"]
            if known["asked"] == asked and known["contents"] == _contents(known["read"]) and built.exists():
                return str(built)
        except (OSError, ValueError, KeyError, TypeError):  # not built yet, or cut short
            pass
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            read = sorted(set().union(*pool.map(lambda command: _compile(name, command, verbose), compiles)))
        _run(name, link, verbose)
        contents = _contents(read)
        # Under a name of its own: what is loaded already under another stays as it is.
        built = folder / f"{name}-{_digest([asked, contents])[:16]}{ending}"
        os.replace(folder / f"{name}.new", built)
        notes.write_text(json.dumps({"asked": asked, "contents": contents, "read": read, "file": built.name}))
        return str(built)


def _run(name, command, verbose):
    if verbose:
        print(shlex.join(command), file=sys.stderr)
    done = subprocess.run(command, capture_output=True, text=True)
    if verbose and done.stderr:
        print(done.stderr, end="", file=sys.stderr)
    if done.returncode:
        raise RuntimeError(f"Error building extension '{name}': {shlex.join(command)}\n{done.stderr}")


def _compile(name, command, verbose):
    """Runs the compiler; returns the files that it read, but for Smolder's and the system's."""
    _run(name, command, verbose)
    words = shlex.split(pathlib.Path(command[-1]).read_text().replace("\\\n", " "))
    ours = tuple(include_paths())
    return {f for f in map(os.path.abspath, (w for w in words if not w.endswith(":"))) if not f.startswith(ours)}
