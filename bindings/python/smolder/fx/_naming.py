"""Names in graphs and their code: of nodes, of functions, of types."""

from __future__ import annotations

import builtins
import inspect
import keyword
import math
import operator
import re
import sys
import types
from collections.abc import Callable
from typing import Any

from smolder._names import listing as _listing

__all__ = ["Namespace", "is_ours", "qualified_name", "smolder_name", "snake_case", "type_repr"]
__dir__ = _listing(__name__)


def words(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())


def smolder_name() -> str:
    """The name of Smolder in code: torch, where the alias is on."""
    import smolder

    return "torch" if sys.modules.get("torch") is smolder else "smolder"


# -- names of nodes and of globals

# Names that nodes may not have: repr() of arguments writes `inf`, `device` and so on.
OWN_GLOBALS = {"inf": math.inf, "nan": math.nan, "NoneType": type(None)}
_RESERVED = dict.fromkeys([*keyword.kwlist, "torch", "smolder", "device", "fx_pytree", "pytree"], object())
_RESERVED = {**_RESERVED, **vars(builtins), **OWN_GLOBALS}
_NUMBERED = re.compile(r"^([a-zA-Z_][0-9a-zA-Z_]*?)(?:_(\d+))?$")


class Namespace:
    """Names that are taken, each of one object: a node, or what a global of the code is."""

    def __init__(self) -> None:
        self._used: set[str] = set()
        self._numbers: dict[str, int] = {}  # by a name, the number that was last put after it
        self._of: dict[Any, str] = {}

    def create_name(self, candidate: str, obj: Any = None) -> str:
        """A name that is not taken: the candidate, or that with a number. An object that has one keeps it."""
        if obj is not None and obj in self._of:
            return self._of[obj]
        name = re.sub(r"[^0-9a-zA-Z_]+", "_", candidate) or "_unnamed"
        name = f"_{name}" if name[0].isdigit() else name
        stem, number = _NUMBERED.match(name).groups()
        if number is None or name in self._used:
            number = self._numbers.get(name, 0)
            if _RESERVED.get(name, obj) is not obj:
                number += 1
                name = f"{stem}_{number}"
        number = int(number)
        while name in self._used:
            number += 1
            name = f"{stem}_{number}"
        self._used.add(name)
        self._numbers[stem] = number
        if obj is not None:
            self._of[obj] = name
        return name

    def associate_name_with_obj(self, name: str, obj: Any) -> None:
        """Gives an object that has no name one."""
        if self._of.setdefault(obj, name) is not name:
            raise AssertionError("obj is already associated")
        self._used.add(name)


def snake_case(text: str) -> str:
    """The name of a class as one of a variable."""
    return re.sub(r"(?<=[a-z])([A-Z])", r"_\1", text).lower()


def target_name(target: Any) -> str:
    """The name of a node with this target, without a number."""
    if is_op(target):
        return snake_case(_op_name(target).partition(".")[2])
    name = target if isinstance(target, str) else _own_name(target)
    return snake_case(name[2:-2] if name.startswith("__") and name.endswith("__") else name)


# -- names of functions

# Functions that torch has in Python, in torch.functional, and in C++, in torch._C._nn. Code that goes by torch's names
# names them so, and so do those of linalg, special and fft, whose names begin there with that of the module.
_IN_FUNCTIONAL = words(
    """atleast_1d atleast_2d atleast_3d block_diag broadcast_tensors cartesian_prod cdist chain_matmul einsum lu
meshgrid norm split stft tensordot unique unique_consecutive unravel_index align_tensors broadcast_shapes"""
)
_IN_LOWRANK = ("pca_lowrank", "svd_lowrank")
_IN_NN = {"logsigmoid": "log_sigmoid"}
_IN_NN |= {
    n: n
    for n in [
        "avg_pool2d",
        "avg_pool3d",
        "gelu",
        "linear",
        "one_hot",
        "scaled_dot_product_attention",
        "softplus",
        "softshrink",
        "elu_",
        "hardtanh_",
        "leaky_relu_",
    ]
}
_PREFIXED = ("linalg", "special", "fft")
# Functions that graphs call by their name in torch. Others that torch and nn.functional both have are called by their
# name in nn.functional.
_IN_BOTH = words(
    """adaptive_avg_pool1d adaptive_max_pool1d alpha_dropout avg_pool1d bilinear
binary_cross_entropy_with_logits celu celu_ channel_shuffle conv1d conv2d conv3d conv_transpose1d
conv_transpose2d conv_transpose3d cosine_embedding_loss cosine_similarity ctc_loss dropout embedding
embedding_bag feature_alpha_dropout hardshrink hinge_embedding_loss kl_div layer_norm
log_softmax margin_ranking_loss max_pool1d max_pool2d max_pool3d pairwise_distance pdist pixel_shuffle
pixel_unshuffle poisson_nll_loss prelu relu relu_ rms_norm rrelu rrelu_ selu selu_ sigmoid softmax tanh
threshold threshold_ triplet_margin_loss"""
)


def place_of(function: Callable[..., Any]) -> tuple[str, str] | None:
    """The public module that has a function, and its name there; None of one that is in none."""
    import smolder

    name = getattr(function, "__name__", None)
    if not isinstance(name, str):
        return None
    for place in ("", "nn.functional", *_PREFIXED) if name in _IN_BOTH else ("nn.functional", "", *_PREFIXED):
        module = smolder if not place else sys.modules.get(f"smolder.{place}")
        offered = module is not None and (not place or name in module.__all__)
        if offered and vars(module).get(name) is function:
            return place, name
    return None


def _own_name(function):
    found = None if isinstance(function, type) else place_of(function)
    if found is None:
        return function.__name__
    place, name = found
    if place in _PREFIXED:
        return f"{place}_{name}"
    return _IN_NN.get(name, name) if place == "nn.functional" else name


def is_op(value: Any) -> bool:
    """Whether a value is an op of smolder.ops."""
    from smolder import _ops

    return isinstance(value, _ops.OpOverload | _ops._AtenOp)


def _op_name(op):
    return str(op) if hasattr(op, "_core") else f"aten.{op.__name__}"


def qualified_name(func: Any) -> str:
    """How code names a function or a class: `smolder.relu`, `smolder.nn.functional.gelu`, `getattr`."""
    if is_op(func):
        return f"{smolder_name()}.ops.{_op_name(func)}"
    if getattr(builtins, func.__name__, None) is func:
        return func.__name__
    import smolder

    top = smolder_name()
    found = place_of(func)
    if found is not None:
        return _place_in_code(top, *found)
    name = func.__name__
    if vars(smolder.Tensor).get(name) is func:  # exp_(x) is smolder's too
        return f"{top}.{name}" if name.endswith("_") and not name.startswith("_") else f"{top}.Tensor.{name}"
    if name == "<lambda>":
        try:
            name = inspect.getsource(func).split("=")[0].strip()
        except Exception as error:
            raise RuntimeError("Unable to represent lambda") from error
    module = func.__module__
    if module is None:
        raise RuntimeError(f"cannot find module for {func}")
    return f"{_in_code(module, top)}.{name}"


def _place_in_code(top, place, name):
    if top == "torch":
        if place in _PREFIXED:
            return f"torch._C._{place}.{place}_{name}"
        if place == "nn.functional" and name in _IN_NN:
            return f"torch._C._nn.{_IN_NN[name]}"
        if not place and name in _IN_FUNCTIONAL:
            return f"torch.functional.{name}"
        if not place and name in _IN_LOWRANK:
            return f"torch._lowrank.{name}"
    return ".".join(filter(None, (top, place, name)))


def _in_code(module, top):
    first, dot, rest = module.partition(".")
    if first not in ("smolder", "torch"):
        return module
    return "torch.ops" if rest == "_ops" else f"{top}{dot}{rest}"


def is_ours(obj: Any) -> bool:
    """Whether a function or a class is Smolder's: code reaches it by its path."""
    module = getattr(obj, "__module__", None)
    if is_op(obj):
        return True
    if not isinstance(module, str):
        return False
    return module.partition(".")[0] == "smolder" or (module.partition(".")[0] == "torch" and smolder_name() == "torch")


def pretty_target(target: Any) -> str:
    """A target as a graph's text has it."""
    if isinstance(target, str):
        return target
    module, name = getattr(target, "__module__", None), getattr(target, "__name__", None)
    if name is not None and module == "builtins":
        return f"builtins.{name}"
    if name is not None and module == operator.add.__module__:
        return f"operator.{name}"
    return qualified_name(target)


def type_repr(obj: Any) -> str:
    """A type as annotations write it."""
    if isinstance(obj, type) and not isinstance(obj, types.GenericAlias):
        if obj.__module__ == "builtins":
            return obj.__qualname__
        return qualified_name(obj) if is_ours(obj) else f"{obj.__module__}.{obj.__qualname__}"
    if obj is ...:
        return "..."
    return obj.__name__ if isinstance(obj, types.FunctionType) else repr(obj)
