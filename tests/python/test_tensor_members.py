"""Members of tensors and modules that libraries ask for: storages, bits as another dtype, hooks, what moves with a module."""

import pytest
from conftest import DEVICE, of_the_cpu
from torch_peer import assert_torch_says, needs_torch

import smolder
from smolder import _bits, _unheld, nn
from smolder.autograd import Variable

BEFORE = """
x = torch.arange(8.0).reshape(2, 4)
def bits(dtype):
    out = x.view(dtype)
    return out.tolist(), list(out.shape)
def storages():
    a, b = x.untyped_storage(), x[1:].untyped_storage()
    return a.data_ptr() == b.data_ptr() == x.data_ptr(), a.nbytes(), a.size(), len(a), a[3], a.tolist()[:8]
def hooked():
    p, seen = torch.nn.Parameter(torch.ones(1)), []
    o = torch.optim.SGD([p], lr=0.5)
    h = o.register_step_pre_hook(lambda opt, args, kwargs: seen.append("before"))
    o.register_step_post_hook(lambda opt, args, kwargs: seen.append(opt is o))
    p.grad = torch.ones(1)
    o.step()
    h.remove()
    o.step()
    return seen, p.tolist()
V = torch.autograd.Variable
def near(t):
    return [round(v, 4) for v in t.flatten().tolist()], list(t.shape), t.dtype
"""
USES = """
bits(torch.int32) | bits(torch.float64) | bits(torch.uint8) | bits(torch.bool) | bits(torch.float16) | x.view(torch.bfloat16).view(torch.float32).tolist()
x.view(dtype=torch.int64).tolist() | torch.ones(()).view(torch.int32).item() | x.view(torch.float32).shape | x.view(4, 2).shape | storages() | hooked()
x.storage().size() | x.storage().nbytes() | x.storage()[5] | list(x.storage()) | x.is_signed() | x.is_conj() | x.is_neg() | x.names | x.is_same_size(x[:1])
x.is_set_to(x) | x[:1].is_set_to(x) | x.new(2, 3).shape | x.new([1, 2]).tolist() | x.int().clone().apply_(lambda v: v * 2).tolist() | x.is_xpu | x.is_nested
isinstance(x, V) | V(x, requires_grad=True).requires_grad | V(x).requires_grad | isinstance(3, V) | x.mH.shape | x.resolve_conj() is x | x.is_mps
torch.exp_(torch.zeros(2)) | torch.iinfo(torch.int8).max | torch.finfo(torch.float8_e4m3fn).max | torch.int8.itemsize | torch.complex64.is_complex
near(x.cov()) | near(torch.cov(x.sin(), correction=0)) | near(x.sin().corrcoef()) | torch.corrcoef(torch.arange(3.0)) | torch.cov(torch.arange(6).view(2, 3))
near(torch.cov(x.sin(), fweights=torch.tensor([1, 2, 0, 3]), aweights=torch.tensor([0.5, 1, 1, 2]))) | torch.cov(torch.tensor(3.0)).isnan()
near(torch.cov(x.sin(), aweights=torch.tensor([0.5, 1, 1, 2]), correction=2)) | torch.cov(torch.ones(2, 2, 2)) | torch.cov(torch.ones(3) > 0)
torch.cov(torch.ones(2, 3), fweights=torch.tensor([1, -1, 1])) | torch.cov(torch.ones(2, 3), fweights=torch.ones(2).int())
torch.cov(torch.ones(2, 3), aweights=-torch.ones(3)) | torch.cov(torch.ones(2, 3), aweights=torch.zeros(3)) | torch.cov(torch.ones(2, 3), correction=5)
torch.cov(torch.ones(2, 3), fweights=torch.ones(1, 3).int()) | torch.corrcoef(torch.ones(2, 2, 2)) | torch.vander(torch.ones(2, 2))
torch.vander(torch.arange(3)) | torch.vander(torch.arange(3.0), 4, True) | torch.vander(torch.ones(2), -1) | torch.vander(torch.arange(3), 1)
torch.vander(torch.arange(3), 0).shape | torch.complex64.to_real() | torch.float32 == torch.int8 | torch.int8 == torch.int8 | torch.uint16.is_signed | torch.float8_e5m2.is_floating_point
"""


@needs_torch
def test_what_they_give_is_what_torch_gives():
    assert_torch_says([use.strip() for use in USES.replace("\n", "|").split("|") if use.strip()], BEFORE)


def test_bits_share_memory():
    x = smolder.zeros(2)
    x.view(smolder.int32)[0] = 1065353216
    assert x.tolist() == [1, 0]
    bits, halves = x.bfloat16().view(smolder.int16), smolder.zeros(2, 6, dtype=smolder.bfloat16)
    assert bits.tolist() == [0x3F80, 0]
    pairs = halves[:, 2:].view(smolder.int32)
    pairs[1] = 0x3F800000
    assert halves.tolist() == [[0.0] * 6, [0, 0, 0, 1, 0, 1]] and pairs.stride() == (3, 1)
    assert halves.view(smolder.uint8).shape == (2, 12) and smolder.ones(0, 4).view(smolder.float64).shape == (0, 2)
    assert halves.t().view(smolder.int16).shape == (6, 2)
    for wrong, text in (
        (lambda: smolder.ones(()).view(smolder.float64), "cannot be 0"),
        (lambda: smolder.ones(2, 3).view(smolder.float64), "must be divisible by 2"),
        (lambda: smolder.ones(2, 4).t().view(smolder.float64), "must be 1"),
        (lambda: smolder.ones(2, 5)[:, 1:].view(smolder.float64), "storage_offset.* by 2 .* got 1"),
        (lambda: smolder.ones(2, 5)[:, :4].view(smolder.float64), r"stride\(0\) must be divisible by 2 .* got 5"),
    ):
        with pytest.raises(RuntimeError, match=text):
            wrong()


def test_addresses_are_equal_for_tied_weights_and_stay_so():
    embedding, head = nn.Embedding(10, 4), nn.Linear(4, 10, bias=False)
    head.weight = embedding.weight
    out = head(embedding(smolder.tensor([1, 2])))  # keeps the weights for backward
    float(out.sum())
    first, second = (m.state_dict()["weight"] for m in (embedding, head))
    addresses = [t.data_ptr() for t in (first, second, first, second, first.contiguous())]
    assert len(set(addresses)) == 1
    if DEVICE == "cpu":  # on a device a view that is asked for its address is computed
        assert [t.view(-1)[-1].data_ptr() - addresses[0] for t in (first, second)] == [39 * 4] * 2
    assert first.untyped_storage() == second.untyped_storage() != smolder.ones(2).untyped_storage()


def test_bytes_of_a_file_are_a_storage(tmp_path):
    (tmp_path / "bytes").write_bytes(bytes(range(16)))
    storage = smolder.UntypedStorage.from_file(str(tmp_path / "bytes"), False, 16)
    assert storage.nbytes() == 16 and storage[3] == 3
    assert smolder.asarray(storage[4:8], dtype=smolder.uint8).tolist() == [4, 5, 6, 7]


@pytest.mark.parametrize("dtype", [d for d in _unheld.__all__ if not _bits.is_held(getattr(smolder, d))])
def test_a_tensor_of_a_dtype_that_is_a_name_raises(dtype):
    named = getattr(smolder, dtype)
    assert isinstance(named, smolder.dtype) and smolder.ones(1).dtype != named and {named: 1}[named] == 1
    for make in (smolder.zeros, smolder.empty, smolder.ones):
        with pytest.raises(TypeError, match=rf"tensors of {named} are not supported.*Use "):
            make(2, dtype=named)


def test_what_a_module_adds_is_moved_with_it():
    class Counts(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.extra = nn.Linear(1, 1), smolder.ones(1)

        def _apply(self, fn, recurse=True):
            super()._apply(fn, recurse)
            self.extra = fn(self.extra)
            return self

    model = nn.Sequential(Counts()).double()
    assert model[0].extra.dtype == model[0].inner.weight.dtype == smolder.float64
    assert isinstance(Variable(smolder.ones(1)), smolder.Tensor)


def test_layers_are_fused_with_the_norm_after_them():
    from smolder.nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval

    x = smolder.randn(4, 3, 6, 6)
    for layer, norm, fuse, given in (
        (nn.Conv2d(3, 5, 3), nn.BatchNorm2d(5), fuse_conv_bn_eval, x),
        (nn.Linear(6, 5, bias=False), nn.BatchNorm1d(5), fuse_linear_bn_eval, smolder.randn(4, 6)),
    ):
        norm(layer(given))  # statistics
        norm.weight.data.uniform_(0.5, 2)
        layer, norm = layer.eval(), norm.eval()
        smolder.testing.assert_close(fuse(layer, norm)(given), norm(layer(given)), rtol=1e-4, atol=1e-5)
    with pytest.raises(AssertionError, match="eval"):
        fuse_conv_bn_eval(nn.Conv2d(3, 5, 3), nn.BatchNorm2d(5))


def test_low_rank_factors():
    smolder.manual_seed(0)
    a = smolder.randn(20, 3) @ smolder.randn(3, 9)
    for matrix in (a, a.mT):
        u, s, v = smolder.svd_lowrank(matrix, 4)
        smolder.testing.assert_close(u * s @ v.mT, matrix, rtol=1e-4, atol=1e-4)
    u, s, v = smolder.pca_lowrank(a, 3)
    smolder.testing.assert_close(u * s @ v.mT, a - a.mean(0), rtol=1e-4, atol=1e-4)


@of_the_cpu("its op has a kernel of the CPU alone")
def test_shape_rules_may_come_before_ops_of_a_library_that_is_not_loaded(monkeypatch):
    monkeypatch.setattr(smolder.ops, "_not_loaded", set())
    with pytest.raises(RuntimeError, match="early_rules::twice does not exist"):
        smolder.library.register_fake("early_rules::twice", abs)
    with pytest.raises(OSError, match=r"nothing\.so"):
        smolder.ops.load_library("nothing.so")
    with pytest.raises(RuntimeError, match="early_rules::twice does not exist"):
        smolder.library.register_fake("early_rules::twice", abs)
    smolder.ops._not_loaded.add("_C.so")  # as one is that needs libtorch.so
    smolder.library.register_fake("early_rules::twice", lambda x: x.new_empty(x.shape))
    library = smolder.library.Library("early_rules", "DEF")
    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", lambda x: smolder.from_numpy(x.numpy() * 2), "CPU")
    assert smolder.ops.early_rules.twice(smolder.ones(2)).tolist() == [2, 2]
    library._destroy()
    assert smolder.ops.aten.relu.default is smolder.ops.aten.relu
