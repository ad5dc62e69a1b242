"""Files of weights from the net, kept in a folder; and models that a hubconf.py in a folder of this machine makes.

The folder is torch's, $TORCH_HOME/hub: what one has downloaded the other finds.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import re
import sys
import uuid
import zipfile
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import urlparse
from urllib.request import Request, urlopen

from smolder._names import listing as _listing
from smolder._typing import PathLike
from smolder._warn import warn
from smolder.cuda._refused import refused

if TYPE_CHECKING:
    from smolder._typing import Module

try:
    from tqdm import tqdm
except ImportError:  # a bar is nice to have

    class tqdm:
        """A bar that says how much of a file there is, where the package tqdm is not installed."""

        def __init__(self, total=None, disable=False, unit=None, unit_scale=None, unit_divisor=None):
            self.total, self.disable, self.n = total, disable, 0

        def update(self, n):
            """Adds n bytes."""
            self.n += n
            if not self.disable:
                part = f"{self.n} bytes" if self.total is None else f"{100 * self.n / self.total:.1f}%"
                sys.stderr.write(f"\r{part}")
                sys.stderr.flush()

        def __enter__(self):
            return self

        def __exit__(self, *_):
            if not self.disable:
                sys.stderr.write("\n")


__all__ = ["download_url_to_file", "get_dir", "help", "list", "load", "load_state_dict_from_url", "set_dir"]
__dir__ = _listing(__name__)

HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")  # bf8c2f5d of resnet18-bf8c2f5d.pth
READ_DATA_CHUNK = 128 * 1024
_hub_dir = None


def _get_torch_home():
    cache = os.path.join(os.getenv("XDG_CACHE_HOME", "~/.cache"), "torch")
    return os.path.expanduser(os.getenv("TORCH_HOME", cache))


def get_dir() -> str:
    """The folder: that of set_dir(), else $TORCH_HOME/hub, else $XDG_CACHE_HOME/torch/hub, else ~/.cache/torch/hub."""
    if os.getenv("TORCH_HUB"):
        warn("TORCH_HUB is deprecated, please use env TORCH_HOME instead")
    return os.path.join(_get_torch_home(), "hub") if _hub_dir is None else _hub_dir


def set_dir(d: PathLike) -> None:
    """Makes d the folder."""
    global _hub_dir
    _hub_dir = os.path.expanduser(d)


def download_url_to_file(url: str, dst: str, hash_prefix: str | None = None, progress: bool = True) -> None:
    """Downloads a file, with a bar. Its SHA-256 has to begin with hash_prefix; only a whole file gets the name dst."""
    dst = os.path.expanduser(dst)
    partial = f"{dst}.{uuid.uuid4().hex}.partial"
    try:
        with urlopen(Request(url, headers={"User-Agent": "smolder.hub"})) as source, open(partial, "xb") as file:
            length = source.headers.get("Content-Length")
            total, sha256 = None if length is None else int(length), hashlib.sha256()
            with tqdm(total=total, disable=not progress, unit="B", unit_scale=True, unit_divisor=1024) as bar:
                while chunk := source.read(READ_DATA_CHUNK):
                    file.write(chunk)
                    sha256.update(chunk)
                    bar.update(len(chunk))
        digest = sha256.hexdigest()
        if hash_prefix is not None and digest[: len(hash_prefix)] != hash_prefix:
            raise RuntimeError(f'invalid hash value (expected "{hash_prefix}", got "{digest}")')
        os.replace(partial, dst)
    finally:
        if os.path.exists(partial):
            os.remove(partial)


def _unzipped(path, folder):
    """The file in an archive of one file, which very old checkpoints are; of another, path."""
    if not zipfile.is_zipfile(path):
        return path
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        if len(members) != 1 or members[0].is_dir():
            return path
        return archive.extract(members[0], folder)


def load_state_dict_from_url(
    url: str,
    model_dir: PathLike | None = None,
    map_location: Any = None,
    progress: bool = True,
    check_hash: bool = False,
    file_name: str | None = None,
    weights_only: bool = False,
) -> Any:
    """Loads a file from the net, which is kept in model_dir, get_dir()/checkpoints by default.

    With check_hash its name holds the beginning of its SHA-256, after a dash.
    """
    from smolder.serialization import load

    if os.getenv("TORCH_MODEL_ZOO"):
        warn("TORCH_MODEL_ZOO is deprecated, please use env TORCH_HOME instead")
    folder = os.path.join(get_dir(), "checkpoints") if model_dir is None else model_dir
    os.makedirs(folder, exist_ok=True)
    name = os.path.basename(urlparse(url).path) if file_name is None else file_name
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        sys.stdout.write(f'Downloading: "{url}" to {path}\n')
        found = HASH_REGEX.search(name) if check_hash else None
        download_url_to_file(url, path, found.group(1) if found else None, progress=progress)
    return load(_unzipped(path, folder), map_location=map_location, weights_only=weights_only)


# -- models


@contextlib.contextmanager
def _importing_from(folder):
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path.remove(folder)


def _entry(folder, model):
    """The function `model` of the hubconf.py in a folder."""
    spec = importlib.util.spec_from_file_location("hubconf.py", os.path.join(folder, "hubconf.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if not isinstance(model, str):
        raise ValueError("Invalid input: model should be a string of function name")
    missing = [name for name in getattr(module, "dependencies", ()) if importlib.util.find_spec(name) is None]
    if missing:
        raise RuntimeError(f"Missing dependencies: {', '.join(missing)}")
    function = getattr(module, model, None)
    if not callable(function):
        raise RuntimeError(f"Cannot find callable {model} in hubconf")
    return function


def load(
    repo_or_dir: str,
    model: Module,
    *args: Any,
    source: str = "github",
    trust_repo: str = "check",
    force_reload: bool = False,
    verbose: bool = True,
    skip_validation: bool = False,
    **kwargs: Any,
) -> Any:
    """Calls the function `model` of repo_or_dir/hubconf.py, with source="local". From GitHub nothing is loaded."""
    source = source.lower()
    if source not in ("github", "local"):
        raise ValueError(f'Unknown source: "{source}". Allowed values: "github" | "local".')
    if source == "github":
        raise NotImplementedError(
            'hub.load: source="github" is not supported: code there is torch\'s; clone it and use source="local"'
        )
    with _importing_from(repo_or_dir):
        return _entry(repo_or_dir, model)(*args, **kwargs)


_WHY = "no code is loaded from GitHub"
list: Callable[..., Any] = refused("hub.list", _WHY)
help: Callable[..., Any] = refused("hub.help", _WHY)
