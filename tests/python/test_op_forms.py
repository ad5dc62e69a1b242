"""The forms in which ops are called: in place, with NumPy's names, with alpha, by other names, and what they return."""

import pickle

import numpy as np
import pytest
from conftest import NUMPY

import smolder
from smolder import return_types
from smolder.nn import functional as F

# -- in place

AUGMENTED = {
    "+=": lambda x, y: x.__iadd__(y),
    "-=": lambda x, y: x.__isub__(y),
    "*=": lambda x, y: x.__imul__(y),
    "/=": lambda x, y: x.__itruediv__(y),
    "//=": lambda x, y: x.__ifloordiv__(y),
    "%=": lambda x, y: x.__imod__(y),
    "**=": lambda x, y: x.__ipow__(y),
    "&=": lambda x, y: x.__iand__(y),
    "|=": lambda x, y: x.__ior__(y),
    "^=": lambda x, y: x.__ixor__(y),
    "<<=": lambda x, y: x.__ilshift__(y),
    ">>=": lambda x, y: x.__irshift__(y),
}


@pytest.mark.parametrize("sign", AUGMENTED)
@pytest.mark.parametrize("other", [2, "tensor"])
def test_augmented_assignment_is_in_place(sign, other):
    whole = sign in ("&=", "|=", "^=", "<<=", ">>=")
    x = smolder.tensor([5, 7] if whole else [5.0, 7.0])
    other = smolder.tensor([2, 3] if whole else [2.0, 3.0]) if other == "tensor" else other
    same, view = x, x[1:]
    names = {"x": x, "y": other}
    exec(f"want = x {sign[:-1]} y; x {sign} y", names)
    assert names["x"] is x and same.tolist() == names["want"].tolist() and view.tolist() == names["want"][1:].tolist()


@pytest.mark.parametrize("sign", AUGMENTED)
def test_what_cannot_be_written_in_place(sign):
    leaf = smolder.tensor([1.0, 2.0], requires_grad=True)
    if sign not in ("&=", "|=", "^=", "<<=", ">>="):
        with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
            AUGMENTED[sign](leaf, 2)
    with pytest.raises(RuntimeError, match="doesn't match the broadcast shape"):
        AUGMENTED[sign](smolder.tensor([1, 2]) if sign != "/=" else smolder.ones(2), smolder.ones(2, 1).long())
    flags = smolder.tensor([True])
    if sign in ("|=", "&=", "^=", "+=", "*="):
        with pytest.raises(RuntimeError, match="can't be cast"):
            AUGMENTED[sign](flags, smolder.tensor([1]))
    if sign in ("/=", "**=", "+="):
        with pytest.raises(RuntimeError, match="can't be cast"):
            AUGMENTED[sign](smolder.tensor([3]), 2.5)


def test_gradients_of_powers_in_place():
    x = smolder.tensor([2.0, 3.0], requires_grad=True)
    y = x * 1
    y **= 2
    y.sum().backward()
    assert x.grad.tolist() == [4.0, 6.0]


IN_PLACE = [
    ("pow_", [2.0, 3.0], (2,), [4.0, 9.0]),
    ("floor_divide_", [7.0, -7.0], (2,), [3.0, -4.0]),
    ("remainder_", [7.0, -7.0], (4,), [3.0, 1.0]),
    ("bitwise_not_", [1, 2], (), [-2, -3]),
    ("bitwise_left_shift_", [1, 2], (1,), [2, 4]),
    ("bitwise_right_shift_", [1, 2], (1,), [0, 1]),
    ("logical_and_", [0.0, 2.0], (1,), [0.0, 1.0]),
    ("logical_or_", [0.0, 2.0], (1,), [1.0, 1.0]),
    ("logical_xor_", [0.0, 2.0], (1,), [1.0, 0.0]),
    ("logical_not_", [0.0, 2.0], (), [1.0, 0.0]),
    ("eq_", [1.0, 2.0], (1,), [1.0, 0.0]),
    ("less_", [1, 2], (2,), [1, 0]),
    ("clamp_", [1.0, 9.0], (2, 5), [2.0, 5.0]),
    ("clip_", [1.0, 9.0], (None, 5), [1.0, 5.0]),
    ("clamp_min_", [1.0, 9.0], (2,), [2.0, 9.0]),
    ("clamp_max_", [1.0, 9.0], (2,), [1.0, 2.0]),
    ("cumsum_", [1.0, 9.0], (0,), [1.0, 10.0]),
    ("atan2_", [0.0, 0.0], (1,), [0.0, 0.0]),
    ("tril_", [[1.0, 2.0], [3.0, 4.0]], (), [[1.0, 0.0], [3.0, 4.0]]),
    ("triu_", [[1.0, 2.0], [3.0, 4.0]], (), [[1.0, 2.0], [0.0, 4.0]]),
    ("fill_", [1.0, 2.0], (smolder.tensor(5),), [5.0, 5.0]),
    ("copy_", [1.0, 2.0], (3,), [3.0, 3.0]),
    ("true_divide_", [1.0, 2.0], (2,), [0.5, 1.0]),
    ("subtract_", [1.0, 2.0], (2,), [-1.0, 0.0]),
]


@pytest.mark.parametrize("name, values, arguments, want", IN_PLACE, ids=[c[0] for c in IN_PLACE])
def test_methods_in_place(name, values, arguments, want):
    x = smolder.tensor(values)
    same = x.reshape(x.shape)
    assert getattr(x, name)(*arguments) is x
    assert x.tolist() == same.tolist() == want and x.dtype == smolder.tensor(values).dtype


def test_products_in_place():
    x = smolder.ones(2, 2)
    assert x.addmm_(2 * smolder.ones(2, 3), smolder.ones(3, 2), beta=0.5) is x and x.tolist() == [[6.5, 6.5]] * 2


def test_fill_takes_no_dimensions():
    with pytest.raises(RuntimeError, match="0-dimension value tensor but got tensor with 1 dimensions"):
        smolder.ones(2).fill_(smolder.ones(1))


# -- results with names


@pytest.mark.parametrize("op", ["max", "min"])
def test_results_have_names(op):
    x = smolder.tensor([[1.0, 3.0], [4.0, 2.0]])
    out = getattr(smolder, op)(x, 1)
    values, indices = out
    assert out.values is values is out[0] and out.indices is indices and isinstance(out, tuple) and len(out) == 2
    assert type(out) is getattr(return_types, op) is type(getattr(x, op)(dim=1))
    assert repr(out) == f"smolder.return_types.{op}(\nvalues={values!r},\nindices={indices!r})"
    again = pickle.loads(pickle.dumps(out))
    assert type(again) is type(out) and again.values.tolist() == values.tolist()


# -- alpha


def test_alpha():
    x, y = smolder.tensor([1.0, 2.0]), smolder.tensor([10.0, 20.0])
    assert smolder.add(x, y, alpha=0.5).tolist() == [6.0, 12.0]
    assert x.add(2, alpha=3).tolist() == [7.0, 8.0] and smolder.add(2, x, alpha=3).tolist() == [5.0, 8.0]
    assert x.sub(y, alpha=2).tolist() == [-19.0, -38.0] and smolder.subtract(x, 1, alpha=2).tolist() == [-1.0, 0.0]
    whole = smolder.tensor([1, 2])
    assert whole.add(whole, alpha=3).tolist() == [4, 8] and whole.add(whole, alpha=3).dtype == smolder.int64
    flags = smolder.tensor([True, False])
    assert flags.add(flags, alpha=2).dtype == smolder.bool
    wide = smolder.tensor([1.0], dtype=smolder.float64).add(smolder.tensor([2**40 + 1]), alpha=1.0)
    assert wide.dtype == smolder.float64 and wide.item() == 2.0**40 + 2
    for refused in (lambda: whole.add(1, alpha=2.0), lambda: whole.sub_(whole, alpha=0.5)):
        with pytest.raises(RuntimeError, match="alpha must not be a floating point number"):
            refused()


def test_alpha_in_place_and_its_gradient():
    p, g = smolder.tensor([1.0, 2.0], requires_grad=True), smolder.tensor([10.0, 20.0], requires_grad=True)
    with smolder.no_grad():
        assert p.add_(g, alpha=-0.1) is p
    np.testing.assert_allclose(p.tolist(), [0.0, 0.0], atol=1e-6)
    smolder.sub(p, g, alpha=3).sum().backward()
    assert p.grad.tolist() == [1.0, 1.0] and g.grad.tolist() == [-3.0, -3.0]


def test_alpha_is_in_no_key():
    smolder.forget_traces()
    x = smolder.ones(4)
    for alpha in (0.5, 1.0, 2.0, 3.0):
        smolder.add(x, x, alpha=alpha).tolist()
        smolder.mark_step()
    smolder.reset_metrics()
    assert smolder.add(x, x, alpha=7.0).tolist() == [8.0] * 4
    assert smolder.metrics()["counters"].get("jit.compiles", 0) == 0


def test_index_add_with_alpha():
    x, at, more = smolder.zeros(3), smolder.tensor([0, 2]), smolder.tensor([1.0, 2.0])
    assert x.index_add(0, at, more, alpha=2).tolist() == [2.0, 0.0, 4.0]
    assert x.index_add_(0, at, more, alpha=-1) is x and x.tolist() == [-1.0, 0.0, -2.0]
    with pytest.raises(RuntimeError, match="alpha must not be a floating point number"):
        x.long().index_add(0, at, more.long(), alpha=0.5)


# -- other names


def test_other_names_of_ops():
    x = smolder.tensor([-1.5, 2.5])
    for name, same in (("absolute", "abs"), ("negative", "neg"), ("fix", "trunc"), ("arctan", "atan")):
        assert getattr(smolder, name)(x).tolist() == getattr(x, name)().tolist() == getattr(x, same)().tolist()
    for name, same in (("multiply", "mul"), ("true_divide", "div"), ("greater", "gt"), ("not_equal", "ne")):
        assert getattr(smolder, name)(x, 2).tolist() == getattr(x, name)(2).tolist() == getattr(x, same)(2).tolist()
    assert (
        smolder.concat([x, x]).tolist() == smolder.concatenate((x, x), axis=0).tolist() == smolder.cat([x, x]).tolist()
    )


def test_numpys_names_of_parameters():
    x = smolder.arange(6.0).reshape(2, 3)
    for op in ("sum", "mean", "prod", "amax", "any", "var", "logsumexp", "argmax"):
        want = getattr(x, op)(dim=1, keepdim=True)
        got = [getattr(x, op)(axis=1, keepdims=True), getattr(smolder, op)(x, axis=1, keepdim=True)]
        got += [getattr(x, op)(dim=1, keepdims=True)]
        assert [g.tolist() for g in got] == [want.tolist()] * 3, op
    assert x.sum(1, keepdims=True).tolist() == [[3.0], [12.0]]
    assert smolder.max(x, axis=1).indices.tolist() == [2, 2]
    assert smolder.cat([x, x], axis=1).shape == (2, 6) and smolder.stack([x], axis=0).shape == (1, 2, 3)
    assert x.softmax(axis=1).shape == (2, 3) and x.unsqueeze(axis=1).shape == (2, 1, 3)
    assert x.index_select(axis=1, index=smolder.tensor([2])).tolist() == [[2.0], [5.0]]
    with pytest.raises(TypeError):
        x.sum(dim=1, axis=1)


def test_numpys_integers_are_axes():
    x = smolder.ones(2, 3)
    assert x.sum(np.int64(1)).tolist() == [3.0, 3.0] and x.softmax(np.int64(1)).shape == (2, 3)
    with pytest.raises(TypeError):
        x.sum(True)


# -- forms of single ops


def test_clamp_by_tensors_and_numbers():
    x, half = smolder.tensor([-1.0, 0.25, 2.0]), smolder.tensor(0.5)
    assert x.clamp(max=half).tolist() == [-1.0, 0.25, 0.5] and x.clamp(min=half).tolist() == [0.5, 0.5, 2.0]
    assert smolder.clamp(x, 0, half).tolist() == smolder.clip(x, min=0, max=half).tolist() == [0.0, 0.25, 0.5]
    assert x.clip(half, 1).tolist() == [0.5, 0.5, 1.0] and smolder.clamp(x, None, half).tolist() == [-1.0, 0.25, 0.5]
    assert x.clamp_(max=half) is x and x.tolist() == [-1.0, 0.25, 0.5]
    with pytest.raises(RuntimeError, match="'min' or 'max' must not be None"):
        x.clamp()


def test_where_as_a_method():
    x, at = smolder.tensor([1.0, 2.0], requires_grad=True), smolder.tensor([True, False])
    assert x.where(at, 0).tolist() == [1.0, 0.0]
    x.where(at, smolder.tensor(7.0)).sum().backward()
    assert x.grad.tolist() == [1.0, 0.0]


def test_rounding():
    x = smolder.tensor([1.256, -1234.5])
    np.testing.assert_allclose(smolder.round(x, decimals=2).tolist(), [1.26, -1234.5], rtol=1e-6)
    assert x.round(decimals=-2).tolist() == [0.0, -1200.0]
    assert x.round_(decimals=0) is x and x.tolist() == [1.0, -1234.0]
    with pytest.raises((RuntimeError, NotImplementedError)):
        smolder.tensor([1256]).round(decimals=-2)
    assert smolder.div(smolder.tensor([7]), 2, rounding_mode=None).tolist() == [3.5]
    y = smolder.tensor([7.0])
    assert y.div_(2, rounding_mode="floor") is y and y.tolist() == [3.0]
    with pytest.raises(RuntimeError, match="rounding_mode to be one of None, 'trunc', or 'floor' but found 'none'"):
        smolder.div(y, 2, rounding_mode="none")


def test_squeezing_several_dimensions():
    x = smolder.ones(1, 3, 1)
    assert x.squeeze((0, 1)).shape == (3, 1) and smolder.squeeze(x, [0, -1]).shape == (3,)
    with pytest.raises(IndexError):
        x.squeeze((0, 3))


@pytest.mark.parametrize("op", ["var", "std"])
def test_older_forms_of_variance(op):
    x = smolder.tensor([[1.0, 2.0, 4.0], [0.0, 5.0, 7.0]])
    f, m = getattr(smolder, op), getattr(x, op)
    assert f(x, False).tolist() == f(x, unbiased=False).tolist() == f(x, correction=0).tolist()
    assert f(x, True).tolist() == f(x).tolist()
    want = f(x, 1, correction=0, keepdim=True).tolist()
    assert f(x, 1, False, True).tolist() == m(1, False, True).tolist() == want
    assert m(dim=1, unbiased=False, keepdim=True).tolist() == m(axis=1, unbiased=False, keepdims=True).tolist() == want
    assert f(x, (0, 1), unbiased=False).tolist() == f(x, correction=0).tolist()


def test_norms_by_name():
    x = smolder.tensor([[3.0, 4.0], [6.0, 8.0]])
    assert smolder.norm(x, p="fro", dim=1).tolist() == x.norm("fro", 1).tolist() == [5.0, 10.0]
    assert smolder.norm(x, "fro").tolist() == x.norm(p=None).tolist() == x.norm().tolist()
    assert smolder.norm(x, "nuc").item() == pytest.approx(smolder.linalg.svdvals(x).sum().item())
    with pytest.raises(NotImplementedError, match="nuc"):
        x.norm("nuc")


def test_cat_with_empty_tensors_of_old():
    x = smolder.ones(2, 2, requires_grad=True)
    assert (
        smolder.cat([smolder.zeros(0), x]).tolist()
        == smolder.cat([x, smolder.zeros(0)], 1).tolist()
        == [[1.0, 1.0]] * 2
    )
    assert smolder.cat([smolder.zeros(0), smolder.zeros(0)], 1).shape == (0,)
    assert smolder.cat([smolder.zeros(0, dtype=smolder.float64), x]).dtype == smolder.float64
    smolder.cat([smolder.zeros(0), 2 * x]).sum().backward()
    assert x.grad.tolist() == [[2.0, 2.0]] * 2
    with pytest.raises(RuntimeError, match="same number of dimensions"):
        smolder.cat([smolder.zeros(0, 2), smolder.ones(2, 2, 2)], 1)


def test_linear_with_one_output_and_no_dimension_for_it():
    x, w = smolder.ones(2, 3), smolder.tensor([1.0, 2.0, 3.0])
    assert F.linear(x, w).tolist() == [6.0, 6.0] and F.linear(x[0], w, smolder.tensor(1.0)).item() == 7.0
    with pytest.raises(RuntimeError):
        F.linear(x, w, smolder.ones(1))


def test_types_by_name():
    x = smolder.ones(2, device="cpu")
    assert x.type() == "smolder.FloatTensor" and x.long().type() == "smolder.LongTensor"
    assert x.char().type() == "smolder.CharTensor" and x.short().type() == "smolder.ShortTensor"
    assert x.type("smolder.CharTensor").dtype == x.char().dtype == smolder.int8 and x.short().dtype == smolder.short
    assert x.type("smolder.DoubleTensor").dtype == x.type(smolder.float64).dtype == smolder.float64
    with pytest.raises(ValueError, match="invalid type"):
        x.type("Double")


def test_bernoulli_with_a_probability():
    x = smolder.ones(1000)
    assert smolder.bernoulli(x, 0.0).sum().item() == 0 and x.long().bernoulli(p=1.0).dtype == smolder.int64
    assert 400 < x.bernoulli(0.5).sum().item() < 600
    assert x.bernoulli_() is x and 400 < x.sum().item() < 600
    assert x.bernoulli_(1.0).sum().item() == 1000 and x.bernoulli_(smolder.zeros(1000)).sum().item() == 0
    for refused in (lambda: x.bernoulli_(2.0), lambda: smolder.bernoulli(x, -1.0)):
        with pytest.raises(RuntimeError, match=r"expects p to be in \[0, 1\], but got p="):
            refused()


def test_ranges_of_random_numbers():
    x = smolder.ones(100)
    assert x.uniform_(1, to=2).amin().item() >= 1 and x.amax().item() < 2
    with pytest.raises(RuntimeError, match=r"expects to return a \[from, to\) range, but found from=2 > to=1"):
        x.uniform_(2, 1)
    with pytest.raises(RuntimeError, match=r"normal expects std >= 0.0, but found std -1"):
        x.normal_(0, -1)


# -- NumPy


@NUMPY
def test_tensor_and_array():
    x, a = smolder.tensor([1.0, 2.0], requires_grad=True), np.array([3.0, 4.0], dtype=np.float32)
    for out in (x + a, x * a, x - a, x**a, x % a, x @ a, x == a, x / a, a / x):
        assert type(out) is smolder.Tensor
    assert (x + a).tolist() == [4.0, 6.0] and (x @ a).item() == 11.0 and (a / x).tolist() == [3.0, 2.0]
    assert (x + a.astype(np.float64)).dtype == smolder.float64
    assert (smolder.ones(2, 2) * np.arange(4.0).reshape(2, 2).T).tolist() == [[0.0, 2.0], [1.0, 3.0]]
    (x * a).sum().backward()
    assert x.grad.tolist() == [3.0, 4.0]
    for refused in (lambda: a + x, lambda: a * x, lambda: a @ x, lambda: a**x):  # as torch
        with pytest.raises(TypeError):
            refused()
    with pytest.raises(TypeError):
        x + np.array(["a", "b"])


def test_integers_as_arrays_have_numpys_default_dtype():
    a = smolder.tensor([[1, 2], [3, 4]]).numpy()
    assert a.dtype.char == "l" and repr(a[0]) == "array([1, 2])" and a.tolist() == [[1, 2], [3, 4]]
    assert smolder.tensor(3).numpy().dtype == np.int64 and smolder.zeros(0).long().numpy().shape == (0,)


# -- history


def test_nodes_are_of_a_class_of_their_name():
    y = smolder.ones(1, requires_grad=True) * 2
    z = y + y
    assert type(z.grad_fn).__name__ == z.grad_fn.name() == "AddBackward0"
    assert type(y.grad_fn).__name__ == "MulBackward0" and isinstance(y.grad_fn, smolder.Node)
    assert type(z.grad_fn) is type((y + 1).grad_fn) and repr(z.grad_fn).startswith("<AddBackward0 object at 0x")
    (leaf, _), *_ = y.grad_fn.next_functions
    assert type(leaf).__name__ == "AccumulateGrad"
