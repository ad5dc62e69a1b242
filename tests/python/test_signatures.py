"""Functions, methods and classes take what torch's take: names of arguments, their order, their defaults."""

import importlib
import inspect
import json
import subprocess
from pathlib import Path

import pytest
import signatures
import torch_peer

import smolder
from smolder._call_errors import _Signature

GOLDEN = json.loads(signatures.GOLDEN.read_text())
# Forms of torch's that are not here: why. The names are of functions and of methods.
MISSING = {}
for _why, _names in {
    "alpha by position is an old form": "add sub subtract rsub Tensor.add Tensor.sub Tensor.subtract",
    "dimensions have no names": "flatten Tensor.flatten",
    "gradients are never sparse": "gather Tensor.gather",
    "embeddings are nn.functional's: this is the op": "embedding",
    "the name differs with what is given": "tensor_split Tensor.tensor_split dsplit Tensor.dsplit "
    "hsplit Tensor.hsplit vsplit Tensor.vsplit",
    "torch has the name of its schema, Python another: A, or x": "linalg.cholesky linalg.eigh linalg.eigvalsh "
    "linalg.matrix_norm linalg.matrix_power linalg.matrix_rank linalg.norm linalg.pinv linalg.solve_triangular "
    "linalg.vector_norm linalg.cholesky_ex linalg.cond linalg.householder_product linalg.lstsq linalg.matrix_exp "
    "linalg.ldl_factor linalg.ldl_factor_ex "
    "linalg.tensorinv linalg.tensorsolve",
    "losses are nn.functional's, with reductions by name: this is the op": "binary_cross_entropy_with_logits "
    "cosine_embedding_loss hinge_embedding_loss kl_div margin_ranking_loss poisson_nll_loss triplet_margin_loss",
    "layers are nn.functional's, without switches of torch's libraries": "batch_norm dropout group_norm instance_norm "
    "layer_norm",
    "a list and a number are no operands": "mul",
    "the first bound is called low, whatever is given": "randint randint_like",
    "keepdim alone goes by its name": "nuclear_norm",
    "nn.functional's names are those of its Python": "nn.functional.elu_ nn.functional.one_hot nn.functional.rrelu_ rrelu",
}.items():
    MISSING |= dict.fromkeys(_names.split(), _why)
# Classes and functions of Python: what differs, and why.
DIFFERENT = {"nn.RNNCellBase()": "the number of chunks is the class's"}


def ours_of(name):
    """The object of that name here; None where there is none."""
    module, _, last = name.removesuffix("()").rpartition(".")
    if module == "Tensor":
        return getattr(smolder.Tensor, last, None)
    scope = importlib.import_module(f"smolder.{module}") if module else smolder
    return getattr(scope, last, None)


def forms_of(function, method):
    """(names by place, all names, names required, whether any more are taken) of each overload."""
    if type(function).__name__ in ("nb_func", "nb_method"):
        for text, *_ in function.__nb_signature__:
            s = _Signature(text, method)
            places = [a.name for a in s.arguments if a.positional]
            yield places, {a.name for a in s.arguments}, {a.name for a in s.arguments if a.required}, s.more
        return
    ps = list(inspect.signature(function).parameters.values())[1 if method else 0 :]
    named = [p for p in ps if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    places = [p.name for p in named if p.kind != p.KEYWORD_ONLY]
    more = len(named) < len(ps)
    yield places, {p.name for p in named}, {p.name for p in named if p.default is p.empty}, more


def takes(function, method, wanted):
    """Whether calls of a form of torch's are some here: with all its arguments, and with those alone that it needs."""
    places, by_name, required = wanted
    forms = list(forms_of(function, method))
    return all(
        any(
            (ours[: len(given)] == given and {*given, *named} <= names and needed <= {*given, *named})
            or (more and (not given or not ours or given[0] in names))
            for ours, names, needed, more in forms
        )
        for given, named in ((places, by_name), ([p for p in places if p in required], []))
    )


def missing_forms():
    for name, forms in GOLDEN.items():
        function = ours_of(name)
        if function is None or name.endswith("()") or isinstance(function, type):
            continue
        wrong = [f for f in forms if not takes(function, name.startswith("Tensor."), f)]
        if wrong:
            yield name, wrong


def is_method(name):
    """Whether a function is the method of that name."""
    return name.endswith("_") and "." not in name and ours_of(name) is getattr(smolder.Tensor, name, None)


def test_every_form_of_functions_and_methods():
    # Functions in place are methods, whose first argument has no name.
    wrong = {n: forms for n, forms in missing_forms() if not is_method(n)}
    assert wrong.keys() == MISSING.keys(), {n: w for n, w in wrong.items() if n not in MISSING}
    compared = [n for n in GOLDEN if not n.endswith("()") and ours_of(n) is not None]
    assert len(compared) > 700


def differs(name):
    """Those of torch's parameters that differ here; more of them are fine behind these, or by name."""
    theirs = GOLDEN[name]
    if any(kind.startswith("VAR") for _, kind, _ in theirs):
        return []
    function = ours_of(name)
    if type(function).__name__ == "nb_func":
        wanted = [p[0] for p in theirs], [], [p[0] for p in theirs if p[2] == "required"]
        return [] if takes(function, False, wanted) else theirs
    ours = signatures.of_python(function)
    by_place = [p[0] for p in theirs if p[1] != "KEYWORD_ONLY"]
    same_order = [p[0] for p in ours if p[1] != "KEYWORD_ONLY"][: len(by_place)] == by_place
    return [p for p in theirs if p not in ours] or ([] if same_order else ["order"])


def test_every_parameter_of_python():
    names = [n for n in GOLDEN if n.endswith("()") and ours_of(n) is not None]
    assert len(names) > 300
    wrong = {n: d for n in names if (d := differs(n))}
    assert wrong.keys() == DIFFERENT.keys(), wrong


@torch_peer.needs_torch
def test_torch_still_has_these(tmp_path):
    program = [torch_peer.PYTHON, str(Path(signatures.__file__)), "torch", str(tmp_path / "golden.json")]
    subprocess.run(program, check=True, timeout=300)
    assert json.loads((tmp_path / "golden.json").read_text()) == GOLDEN


@pytest.mark.parametrize("function", ["add", "sum", "matmul", "cat"])
def test_out_is_taken_by_functions_alone(function):
    x = smolder.ones(2, 2)
    with pytest.raises(TypeError, match="unexpected keyword argument 'out'"):
        getattr(smolder.Tensor, "add" if function == "cat" else function)(x, x, out=x)
