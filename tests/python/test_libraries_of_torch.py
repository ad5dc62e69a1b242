"""Calls at which libraries written for PyTorch stopped, each as short as it is: the alias in a process of its own."""

import typing

import pytest
from test_torch_alias import run

import smolder as sm
from smolder import nn
from smolder.autograd import Function

nvtx = sm.cuda.nvtx


def test_functorch_comes_with_the_alias():
    said = run(
        """
import torch, functorch
from functorch import combine_state_for_ensemble, grad, make_functional, make_functional_with_buffers, vmap
from torch import nn

model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
function, params = make_functional(model)
x = torch.arange(6.0).reshape(2, 3)
print(torch.equal(function(params, x), model(x)), params[0] is not model[0].weight, isinstance(function, nn.Module))
g = grad(lambda p: function(p, x).sum())(params)
model(x).sum().backward()
print(all(torch.allclose(a, p.grad) for a, p in zip(g, model.parameters())))
norm = nn.BatchNorm1d(3)
f, p, b = make_functional_with_buffers(norm)
print(torch.equal(f(p, b, x), norm(x)), len(b) == 3, torch.equal(b[0], norm.running_mean))
print(not any(q.requires_grad for q in make_functional(model, disable_autograd_tracking=True)[1]))
models = [nn.Linear(3, 2) for _ in range(3)]
f, p, b = combine_state_for_ensemble(models)
print(torch.allclose(vmap(f, in_dims=(0, 0, None))(p, b, x), torch.stack([m(x) for m in models])), b == ())
for bad in (lambda: make_functional(norm), lambda: combine_state_for_ensemble([])):
    try:
        bad()
    except RuntimeError as error:
        print("buffers" in str(error) or "at least one model" in str(error))
print(functorch.__name__ == "functorch", functorch.__version__ == torch.__version__, functorch.vmap is torch.func.vmap)
"""
    )
    assert {word for line in said for word in line.split()} == {"True"}, said


def test_names_that_libraries_import():
    said = run(
        """
from torch.nn.common_types import _size_any_t, _size_1_t, _size_2_t, _size_3_t, _ratio_2_t
from torch.nn.modules.lazy import LazyModuleMixin
from torch.nn.modules import CrossMapLRN2d
from torch.distributions.transforms import _clipped_sigmoid
from torch.distributed.distributed_c10d import _get_global_rank
from torch.utils.data import functional_datapipe
import torch, typing

class Lazy(LazyModuleMixin, torch.nn.Linear): pass
def f(size: _size_2_t): pass
print(_size_2_t == int | tuple[int, int], isinstance(3, (int, torch.SymInt)), isinstance(3, torch.SymInt))
print(float(_clipped_sigmoid(torch.tensor(200.0))) < 1, issubclass(torch.nn.LazyLinear, LazyModuleMixin))
"""
    )
    assert said == ["True True False", "True True"]


def test_types_of_containers():
    of, x = sm.jit.isinstance, sm.ones(1)
    assert of(3, int) and of([x, x], list[sm.Tensor]) and of(None, int | None) and of((1, "a"), tuple[int, str])
    assert of({"a": [1]}, typing.Dict[str, typing.List[int]]) and of("a", typing.Union[int, str])  # noqa: UP006, UP007
    assert not (
        of([1, x], list[int]) or of((1,), tuple[int, str]) or of({"a": 1}, dict[str, str]) or of(x, list[sm.Tensor])
    )
    for bare in (list, typing.Tuple):  # noqa: UP006
        with pytest.raises(RuntimeError, match="without a contained type"):
            of([1], bare)


def test_what_is_not_here_can_be_imported_and_says_so_when_it_is_used():
    said = run(
        """
import torch
from torch.utils.mobile_optimizer import optimize_for_mobile
for use in (optimize_for_mobile, lambda: torch.library.wrap_triton(print)):
    try:
        use()
    except NotImplementedError as error:
        print(error)
"""
    )
    assert "no such tool" in said[0] and "Triton" in said[1]


def test_modules_say_what_they_have_where_getattr_is_called():
    model = nn.Sequential(nn.Linear(2, 2))
    model.register_buffer("scale", sm.ones(1))
    assert model.__getattr__("0") is model[0] and model.__getattr__("scale") is model.scale
    assert model[0].__getattr__("weight") is model[0].weight
    with pytest.raises(AttributeError, match="has no attribute 'absent'"):
        model.__getattr__("absent")


def test_modules_may_apply_in_their_own_way():
    class Counted(nn.Linear):
        calls = 0

        def _apply(self, fn):
            self.calls += 1
            return super()._apply(fn)

    layer = Counted(2, 2).double().to(sm.float32)
    assert layer.calls == 2 and layer.weight.dtype == sm.float32


def test_arrays_of_parameters_where_no_gradient_is_recorded():
    weight = nn.Parameter(sm.ones(2))
    with sm.no_grad():
        array = weight.numpy()
    array[0] = 5
    assert weight.tolist() == [5, 1]
    with pytest.raises(RuntimeError, match=r"Can't call numpy\(\) on Tensor that requires grad"):
        weight.numpy()


def test_ops_of_triton_are_ops():
    @sm.library.triton_op("triton_ops::twice", mutates_args=())
    def twice(x: sm.Tensor) -> sm.Tensor:
        return x * 2

    x = sm.arange(3.0)
    assert sm.equal(twice(x), x * 2) and twice(sm.ones(2, device="meta")).shape == (2,)
    twice.register_fake(lambda x: sm.empty_like(x))
    assert twice(sm.ones(2, device="meta")).shape == (2,) and sm.equal(twice(x), x * 2)
    with pytest.raises(RuntimeError, match="already has a fake impl"):
        twice.register_fake(lambda x: x)


@pytest.mark.parametrize("size", [1, 3, 4])
def test_norm_across_maps(size):
    x = sm.sin(sm.arange(2 * 5 * 2 * 2, dtype=sm.float64) * 0.7).reshape(2, 5, 2, 2)
    out, beside = nn.CrossMapLRN2d(size, 0.5, 0.6, 2.0)(x), (size - 1) // 2
    for c in range(5):
        near = x[:, max(c - beside, 0) : c + beside + 1].pow(2).sum(1)
        assert sm.allclose(out[:, c], x[:, c] / (2.0 + 0.5 / size * near) ** 0.6)
    if size == 3:
        assert sm.allclose(out, nn.LocalResponseNorm(3, 0.5, 0.6, 2.0)(x))
    with pytest.raises(ValueError, match="4D"):
        nn.CrossMapLRN2d(3)(x[0])


def test_ranges_of_nvtx_nest_and_are_seen_by_the_profiler():
    @nvtx.range("of {}", "a function")
    def function():
        return sm.ones(2).sum().item()

    with sm.profiler.profile() as profile:
        assert [nvtx.range_push("outer"), nvtx.range_push("inner")] == [0, 1]
        function()
        assert [nvtx.range_pop(), nvtx.range_pop(), nvtx.range_pop()] == [1, 0, -2]
        started = nvtx.range_start("between")
        nvtx.range_end(started)
        nvtx.range_end(started)
        nvtx.mark("a mark")
    names = {event.key for event in profile.key_averages()}
    assert {"outer", "inner", "of a function", "between", "a mark"} <= names


def test_functions_of_ones_own_keep_sparse_tensors():
    class Product(Function):
        @staticmethod
        def forward(ctx, indices, values, shape, b):
            a = sm.sparse_coo_tensor(indices, values, shape)
            ctx.save_for_backward(a, b)
            ctx.columns = shape[1]
            return a.matmul(b)

        @staticmethod
        def backward(ctx, grad):
            a, b = ctx.saved_tensors
            assert a.is_sparse
            at = a._indices()[0] * ctx.columns + a._indices()[1]
            return None, grad.matmul(b.t()).view(-1)[at], None, a.t().matmul(grad)

    indices = sm.tensor([[0, 0, 2], [1, 2, 0]])
    values = sm.tensor([1.0, -2.0, 3.0], requires_grad=True)
    b = sm.arange(6.0).reshape(3, 2).requires_grad_()
    Product.apply(indices, values, (3, 3), b).pow(2).sum().backward()
    mine = values.grad, b.grad
    values.grad = b.grad = None
    dense = sm.zeros(3, 3).index_put((indices[0], indices[1]), values)
    (dense @ b).pow(2).sum().backward()
    assert sm.allclose(mine[0], values.grad) and sm.allclose(mine[1], b.grad)


def test_names_under_names_that_libraries_import():
    said = run(
        """
import torch
from torch._inductor.decomposition import register_decomposition
from torch._library.infer_schema import infer_schema
from torch._higher_order_ops.out_dtype import out_dtype
from torch._vmap_internals import _vmap
from torch.autograd.functional import _construct_standard_basis_for
from torch.nn.init import _no_grad_fill_, _no_grad_normal_, _no_grad_trunc_normal_, _no_grad_uniform_, _no_grad_zero_

print(register_decomposition([])(len) is len, infer_schema is torch.library.infer_schema)
x = torch.arange(6.0).reshape(2, 3)
print(torch.equal(_vmap(lambda row: row.sum())(x), x.sum(1)))
a, b = _construct_standard_basis_for((x.double(), x), (2, 1))
print(a.dtype, a.tolist(), b.dtype, b.tolist())
p = torch.nn.Parameter(x)
print(_no_grad_fill_(p, 2.0).tolist(), p.requires_grad, float(_no_grad_zero_(p).sum()))
for init, args in ((_no_grad_uniform_, (3, 4)), (_no_grad_normal_, (50, 0.1)), (_no_grad_trunc_normal_, (0, 1, -2, 2))):
    print(p.is_leaf and bool(((init(p, *args) > -2.1) & (p < 60)).all()))
try:
    out_dtype(torch.ops.aten.mm.default, torch.int32, x, x)
except NotImplementedError as error:
    print(str(error).split(" is not")[0])
"""
    )
    assert said == [
        "True True", "True", "torch.float64 [[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]] torch.float32 [[0.0], [0.0], [1.0]]",
        "[[2.0, 2.0, 2.0], [2.0, 2.0, 2.0]] True 0.0", "True", "True", "True", "torch._higher_order_ops.out_dtype",
    ]  # fmt: skip


def test_numpys_names_of_arguments():
    x = sm.tensor([[3.0, 4.0], [6.0, 8.0]])
    assert sm.linalg.norm(x, axis=1, keepdims=True).tolist() == [[5.0], [10.0]]
    assert sm.linalg.vector_norm(x, axis=1).tolist() == [5.0, 10.0]
    with pytest.raises(TypeError, match="axes"):
        sm.linalg.norm(x, axes=1)


def test_einsum_of_two_dtypes_that_multiplies_elements():
    a, b = sm.tensor([[2.0]]), sm.arange(3, dtype=sm.float64).reshape(1, 3)
    out = sm.einsum("sr,ra->sa", a, b)
    assert out.dtype == sm.float64 and out.tolist() == [[0.0, 2.0, 4.0]]
    with pytest.raises(RuntimeError, match="same dtype"):
        sm.einsum("sr,ra->sa", sm.ones(1, 3), sm.ones(3, 2, dtype=sm.float64))


def test_limits_of_pythons_types():
    assert sm.finfo(float).dtype == "float64" and sm.iinfo(int).bits == 64


def test_limits_of_dtypes_that_are_names():
    limits = {
        name: (found := sm.finfo(getattr(sm, name))) and [found.max, found.min, found.eps, found.tiny]
        for name in ("float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu")
    }
    assert limits == {
        "float8_e4m3fnuz": [240.0, -240.0, 0.125, 2.0**-7],
        "float8_e5m2fnuz": [57344.0, -57344.0, 0.125, 2.0**-15],
        "float8_e8m0fnu": [2.0**127, 2.0**-127, 1.0, 2.0**-127],
    }


def test_a_refused_name_is_looked_for_once():
    said = run(
        """
import torch
from smolder.torch import _names

first, calls = torch.masked.MaskedTensor, []
_names._elsewhere = lambda *asked: calls.append(asked)
print(torch.masked.MaskedTensor is first, isinstance(torch.ones(2), torch.masked.MaskedTensor), calls)
"""
    )
    assert said == ["True False []"]


def test_a_dtype_is_as_long_as_its_name_where_lines_are_broken():
    said = run(
        """
import torch
torch.set_printoptions(linewidth=40)
print(torch.tensor([-0.3887], dtype=torch.bfloat16))
"""
    )
    assert said == ["tensor([-0.3887], dtype=torch.bfloat16)"]
