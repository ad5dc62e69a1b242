"""Processes that a program starts anew: each is told that torch is Smolder before it imports anything of the program's."""

import functools
import importlib.abc
import multiprocessing.spawn
import sys

LOKY = "loky.backend.spawn"  # the module that tells the workers of loky what to prepare; joblib has a copy of it


class _Installed:
    """An object for a child process: read there, it makes torch Smolder there, too."""

    def __reduce__(self):
        from smolder.torch import install

        return install, ()


def tell() -> None:
    """From here on: the processes of multiprocessing, of its server of forks, and of loky."""
    _tell(multiprocessing.spawn)
    for name, module in list(sys.modules.items()):
        if name.endswith(LOKY):
            _tell(module)
    if sys.platform != "win32":
        _tell_server()


def _tell(module):
    told = module.get_preparation_data

    @functools.wraps(told)
    def get_preparation_data(*args, **kwargs):
        return {**told(*args, **kwargs), "smolder.torch": _Installed()}

    module.get_preparation_data = get_preparation_data


def _tell_server():
    from multiprocessing import forkserver

    keep = forkserver.set_forkserver_preload

    @functools.wraps(keep)
    def set_forkserver_preload(modules_names):
        # Not the program itself, which the server would import before any module: its children do when they were told.
        wanted = [name for name in modules_names if name != "__main__"]
        keep(["smolder.torch._installed", *wanted] if wanted else [])

    forkserver.set_forkserver_preload = set_forkserver_preload
    set_forkserver_preload(forkserver._forkserver._preload_modules)


class _Telling(importlib.abc.Loader):
    def __init__(self, loader):
        self._loader = loader

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        self._loader.exec_module(module)
        _tell(module)


def telling(spec):
    """The spec of such a module, which is loaded as it says and then tells the processes it starts."""
    if spec is not None:
        spec.loader = _Telling(spec.loader)
    return spec
