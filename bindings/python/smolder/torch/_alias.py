"""Makes `torch` a name of Smolder's: a finder of modules, and of the distribution."""

import contextlib
import importlib.abc
import importlib.machinery
import importlib.metadata
import os
import sys
import types
import typing

import smolder
from smolder._missing import missing
from smolder._version import __version__
from smolder.torch import _asked, _children, _names, _naming, _pickles, _refusals

# Torch's whose names these are, so that libraries choose their code for it; what follows the plus is ours.
VERSION = f"{_names.version()}+smolder{__version__}"


_METADATA = {
    "METADATA": f"Metadata-Version: 2.1\nName: torch\nVersion: {VERSION}\nSummary: Smolder under torch's name\n",
    "top_level.txt": "torch\n",
}


class _Distribution(importlib.metadata.Distribution):
    """The metadata of torch that importlib.metadata gives."""

    def read_text(self, filename):
        return _METADATA.get(filename)

    def locate_file(self, path):
        return os.path.join(os.path.dirname(smolder.__file__), path)


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds `torch.a.b`: Smolder's module, or one that takes its names from where Smolder has them."""

    def find_spec(self, name, path=None, target=None):
        if name == "functorch":  # comes with torch
            return importlib.machinery.ModuleSpec(name, self)
        if name.endswith(_children.LOKY):
            return _children.telling(importlib.machinery.PathFinder.find_spec(name, path))
        top, _, path = name.partition(".")
        if top != "torch" or not path:
            return None
        if path in _names.modules() or _names.smolders(path) is not None:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        _asked.note(name, "missing")
        return None

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        if module.__spec__.name == "functorch":
            module.__dict__.update(vars(importlib.import_module("smolder.torch._functorch")))
            module.__name__, module.__version__ = "functorch", VERSION
            return
        path = module.__spec__.name.partition(".")[2]
        found = _names.smolders(path)
        sys.modules[module.__spec__.name] = _joined(path, module if found is None else found)

    def find_distributions(self, context=importlib.metadata.DistributionFinder.Context()):  # noqa: B008
        return [_Distribution()] if context.name in (None, "torch") else []


def _joined(path, module):
    """The module, which from now on has what else torch's has of that path."""
    before = module.__dict__.get("__getattr__")
    if hasattr(before, "_own"):
        return module
    whole = f"torch.{path}" if path else "torch"

    def __getattr__(name):
        if before is not None and (name.startswith("__") or _names.joined(path, name) not in _names.modules()):
            try:
                return before(name)
            except AttributeError as error:
                return _found(path, whole, name, error)
        return _found(path, whole, name, None)

    __getattr__._own = before
    if "__path__" not in vars(module):
        module.__path__ = []  # torch's is a package, where Smolder's is a module
    module.__getattr__ = __getattr__
    _naming.name_classes(path)
    return module


def _found(path, whole, name, error):
    if name == "__all__" and not _names.is_loaded(path):
        return _names.star(path)
    if not (name.startswith("__") and name.endswith("__")):
        try:
            found = _names.find(path, name)
        except AttributeError:
            imported = _imported(path, name)
            if imported is not None:
                return imported
            _asked.note(f"{whole}.{name}", "missing")
        else:
            if _refusals.why(found):
                _asked.note(f"{whole}.{name}", "refused")
            return found
    raise error or missing(f"smolder.{path}" if _names.is_loaded(path) else whole, name)


# Names that torch's modules import, which editors then import from there.
_IMPORTED = {
    "collections": ("Counter", "OrderedDict", "defaultdict", "deque", "namedtuple"),  # of which typing has two
    "typing": typing.__all__,
    "typing_extensions": ("deprecated", "override"),
    "contextlib": ("closing", "contextmanager"),
    "dataclasses": ("dataclass", "fields", "is_dataclass"),
    "enum": ("Enum", "IntEnum", "auto"),
    "functools": ("lru_cache", "partial", "reduce", "total_ordering", "update_wrapper", "wraps"),
    "itertools": ("chain", "islice", "repeat"),
    "math": ("inf", "nan"),
    "numbers": ("Number", "Real"),
    "pathlib": ("Path",),
}


def _imported(path, name):
    for module, names in _IMPORTED.items() if path else ():
        if name in names:
            with contextlib.suppress(ImportError, AttributeError):  # typing_extensions may not be there, or be older
                return getattr(importlib.import_module(module), name)
    if path.startswith("optim."):
        return vars(_names.besides("optim.optimizer")).get(name)
    return None


def is_installed() -> bool:
    """Whether `import torch` is Smolder."""
    return sys.modules.get("torch") is smolder


def install(missing: bool = False) -> None:
    """Makes `import torch` Smolder in this process; refuses where PyTorch is loaded. Installed twice is installed once.

    missing=True, or SMOLDER_TORCH_MISSING=1 in the environment, prints when the process ends which names were asked for
    that are not here.
    """
    if missing or os.environ.get("SMOLDER_TORCH_MISSING", "0") not in ("", "0"):
        _asked.watch()
    if is_installed():
        return
    loaded = [name for name in sys.modules if name == "torch" or name.startswith("torch.")]
    if loaded:
        raise ImportError(
            f"smolder.torch: PyTorch is loaded in this process ({loaded[0]}), so its name can't be Smolder's. Call "
            "smolder.torch.install() before anything imports torch",
            name="torch",
        )
    sys.meta_path.insert(0, _Finder())
    sys.modules["torch"] = smolder
    smolder.__name__ = "torch"  # what programs compare; imports go by __spec__ and __package__
    smolder.torch.__getattr__ = lambda name: getattr(smolder, name)  # torch.torch is torch
    smolder.optim._import_all()  # programs go through its names
    _naming.take_names()
    _pickles.take()
    smolder.__version__ = smolder.version.__version__ = _naming.TorchVersion(VERSION)
    for path in [p for p in _names.modules() if _names.is_loaded(p)]:
        module = sys.modules[f"smolder.{path}" if path else "smolder"]
        if type(module) is types.ModuleType:
            _joined(path, module)
    _keep_names_of_functions()
    _children.tell()


def _keep_names_of_functions():
    """Modules that torch hides behind a function of the same name do not take its place when they are imported."""
    for path in _names.modules():
        of, _, name = path.rpartition(".")
        above = _names.row(of) if "." in path or path else None
        if above is not None and above.kinds.get(name, "package") != "package":
            module = types.ModuleType(f"torch.{path}")
            module.__spec__ = importlib.machinery.ModuleSpec(f"torch.{path}", _Finder(), is_package=True)
            module.__path__ = []
            sys.modules[f"torch.{path}"] = _joined(path, module)
