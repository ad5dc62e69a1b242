"""dir() of public modules names what they offer: nothing internal, and nothing that they import."""

import importlib
import inspect
import multiprocessing
import pkgutil

import pytest
from commands import is_command

import smolder

OPTIONAL = {"smolder.utils.tensorboard"}  # needs a package that tests have not


def modules():
    yield "smolder"
    for found in pkgutil.walk_packages(smolder.__path__, "smolder.", onerror=lambda name: None):
        parts = found.name.split(".")[1:]
        if any(p.startswith("_") for p in parts) or is_command(found.name):
            continue
        if not any(found.name.startswith(name) for name in OPTIONAL):
            yield found.name


MODULES = sorted(modules())


# Names of Python's, or internal ones, that torch has there as well.
AS_TORCH = {"smolder.fx.node.Argument", "smolder.jit.Final", "smolder.version.__version__"}
AS_TORCH |= {"smolder.types.Device", "smolder.types.FileLike"}  # what typing makes
AS_TORCH |= {f"smolder.multiprocessing.{name}" for name in multiprocessing.__all__}


def is_foreign(value):
    """Whether it is a module, a class or a function of somebody else's."""
    if not (inspect.ismodule(value) or callable(value)):
        return False
    home = value.__name__ if inspect.ismodule(value) else getattr(value, "__module__", None)
    return (home or "smolder").partition(".")[0] not in ("smolder", "nanobind")


@pytest.mark.parametrize("name", MODULES)
def test_dir_names_what_a_module_offers(name):
    module = importlib.import_module(name)
    others = [n for n in dir(module) if f"{name}.{n}" not in AS_TORCH]
    assert [n for n in others if n.startswith("_")] == []
    assert [n for n in others if is_foreign(getattr(module, n))] == []
    assert set(module.__all__) <= set(dir(module))
    assert len(module.__all__) == len(set(module.__all__)), "a name twice in __all__"


def test_all_public_modules_are_looked_at():
    assert {"smolder.nn.functional", "smolder.utils.data", "smolder.cuda.memory", "smolder.optim.lr_scheduler"} <= set(
        MODULES
    )


def test_a_star_import_takes_what_is_offered():
    names = {}
    exec("from smolder.nn.functional import *", names)
    assert "relu" in names and "math" not in names
