"""func.linearize and its like, members of modules by their paths, and tensors in files."""

import functools
import os

import numpy as np
import pytest

import smolder
from smolder import func, nn
from smolder.nn.utils._named_member_accessor import _MISSING, NamedMemberAccessor, swap_tensor


def test_linearize_gives_products_with_the_jacobian():
    calls = []

    def f(x, tree):
        calls.append(1)
        return {"a": (x * tree["w"]).sin(), "b": (x.sum() * tree["w"]).exp()}

    rng = np.random.default_rng(0)
    x, w, dx, dw = (smolder.tensor(rng.standard_normal(3)) for _ in range(4))
    out, product = func.linearize(f, x, {"w": w})
    assert {k: v.tolist() for k, v in out.items()} == {k: v.tolist() for k, v in f(x, {"w": w}).items()}
    calls.clear()
    for scale in (1.0, -2.5):
        got = product(dx * scale, {"w": dw * scale})
        _, expected = func.jvp(f, (x, {"w": w}), (dx * scale, {"w": dw * scale}))
        for key in got:
            np.testing.assert_allclose(got[key].numpy(), expected[key].numpy(), rtol=1e-12)
    assert len(calls) == 2  # jvp's own
    step = 1e-6
    beside = [(f(x + s * dx, {"w": w + s * dw})["b"] / (2 * s)) for s in (step, -step)]
    np.testing.assert_allclose(product(dx, {"w": dw})["b"].numpy(), (beside[0] + beside[1]).numpy(), rtol=1e-6)
    with pytest.raises(RuntimeError, match="same argspec"):
        product(dx)
    with pytest.raises(RuntimeError, match="tangent:0 with shape"):
        product(dx[:2], {"w": dw})
    with pytest.raises(RuntimeError, match="tangent:1 with dtype"):
        product(dx, {"w": dw.float()})


def test_functionalize_is_the_function_and_writes_reach_inputs():
    def f(x):
        y = x.clone()
        y.add_(1)
        x.mul_(2)
        return y

    x = smolder.ones(2)
    assert func.functionalize(f)(x).tolist() == [2, 2] and x.tolist() == [2, 2]
    assert func.functionalize(f, remove="mutations_and_views").__name__ == "f"
    with pytest.raises(RuntimeError, match="invalid argument for remove=views"):
        func.functionalize(f, remove="views")


def test_batch_norms_without_statistics_run_in_vmap():
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    assert func.replace_all_batch_norm_modules_(model) is model
    assert model[1].running_mean is None and not model[1].track_running_stats
    assert func.vmap(model)(smolder.randn(2, 5, 3)).shape == (2, 5, 4)


def test_tensors_are_swapped_for_what_is_no_parameter():
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    accessor, weight = NamedMemberAccessor(model), model[0].weight
    zeros = smolder.zeros(2, 2)
    assert accessor.swap_tensor("0.weight", zeros) is weight
    assert model[0].weight is zeros and "weight" in model[0]._parameters
    assert swap_tensor(model[0], "weight", weight) is zeros
    mean = accessor.get_tensor("1.running_mean")
    assert accessor.swap_tensor("1.running_mean", zeros[0]) is mean and model[1].running_mean.tolist() == [0, 0]
    assert swap_tensor(model[0], "extra", zeros, allow_missing=True) is _MISSING and model[0].extra is zeros
    assert swap_tensor(model[0], "extra", _MISSING) is zeros and not hasattr(model[0], "extra")
    assert accessor.check_keys(["0.weight", "2.weight"])[1] == ["2.weight"]
    assert accessor.get_submodule("0") is model[0] and accessor.swap_submodule("0", nn.Linear(2, 2)) is not None


def test_what_cannot_be_swapped_leaves_all_as_it_was():
    model = nn.Linear(2, 2)
    accessor, weight = NamedMemberAccessor(model), model.weight
    with pytest.raises(RuntimeError, match=r"Missing key\(s\): 'nothing'"):
        accessor.swap_tensors_dict({"weight": smolder.zeros(2, 2), "nothing": smolder.zeros(1)})
    assert model.weight is weight and not hasattr(model, "nothing")
    with pytest.raises(AttributeError, match="Linear has no attribute `nothing`"):
        accessor.swap_tensor("nothing", weight)
    with pytest.raises(TypeError, match="not an instance of"):
        accessor.swap_tensor("weight", 3)
    with pytest.raises(KeyError, match="contain"):
        swap_tensor(model, "a.b", weight)
    with pytest.raises(AssertionError, match="1 names and 2 values"):
        accessor.set_tensors(["weight"], [weight, weight])


def test_a_shared_file_is_written_and_another_is_not(tmp_path):
    path = os.fspath(tmp_path / "x.bin")
    with pytest.raises(RuntimeError, match="unable to open file"):
        smolder.from_file(path, size=3)
    x = smolder.from_file(path, shared=True, size=3)
    assert x.tolist() == [0, 0, 0]
    x += 2
    x[1] = 7
    smolder.mark_step()
    assert np.fromfile(path, np.float32).tolist() == [2, 7, 2]
    y = smolder.from_file(path, size=3)
    y.fill_(1)
    assert y.tolist() == [1, 1, 1] and np.fromfile(path, np.float32).tolist() == [2, 7, 2]
    assert (
        smolder.from_file(path, shared=True, size=2, dtype=smolder.int64).numel() == 2 and os.path.getsize(path) == 16
    )
    with pytest.raises(RuntimeError, match="smaller than the required mapping size <400>"):
        smolder.from_file(path, size=100)
    with pytest.raises(NotImplementedError, match="bfloat16"):
        smolder.from_file(path, size=1, dtype=smolder.bfloat16)
    with pytest.raises(NotImplementedError, match=r"layout .*sparse_coo is not supported"):
        smolder.from_file(path, size=1, layout=smolder.sparse_coo)


def test_samples_of_added_types_are_made_batches():
    from smolder.utils.data.collate import default_collate, default_collate_fn_map

    class Pair(tuple):
        __slots__ = ()

    default_collate_fn_map[Pair] = lambda batch, *, collate_fn_map: ("pairs", len(batch))
    try:
        assert default_collate([{"x": Pair((1, 2))}, {"x": Pair((3, 4))}]) == {"x": ("pairs", 2)}
        assert default_collate([1.0, 2.0]).tolist() == [1, 2]
    finally:
        del default_collate_fn_map[Pair]


def test_functions_like_zeros_like_ask_what_is_no_tensor():
    class Table:
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            return function, kwargs

    for function in (smolder.zeros_like, smolder.ones_like, functools.partial(smolder.full_like, fill_value=1)):
        asked, _ = function(Table())
        assert asked is getattr(function, "func", function)
