import copy
import gc
import inspect
import weakref
from collections import OrderedDict

import numpy as np
import pytest

import smolder
from smolder import nn
from smolder.nn import functional as F


def rand(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.blocks = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])
        self.scale = nn.Parameter(smolder.ones(4))
        self.register_buffer("steps", smolder.tensor(0))
        self.register_buffer("scratch", smolder.zeros(2), persistent=False)

    def forward(self, x):
        x = self.first(x)
        for block in self.blocks:
            x = block(x).relu()
        return x * self.scale


PATHS = ["scale", "first.weight", "first.bias", "blocks.0.weight", "blocks.0.bias", "blocks.1.weight", "blocks.1.bias"]


def test_a_call_is_forward_with_hooks_around_it():
    class Pair(nn.Module):
        def forward(self, first, *, second=2):
            return first, second

    class Wrapped(Pair):
        def __call__(self, *args, **kwargs):
            return ["wrapped", *super().__call__(*args, **kwargs)]

    pair = Pair()
    assert pair(1) == nn.Module.__call__(pair, 1) == (1, 2) and pair(first=3, second=4) == (3, 4)
    assert Wrapped()(1, second=5) == ["wrapped", 1, 5]
    with pytest.raises(TypeError, match=r"forward\(\) missing 1 required positional argument: 'first'"):
        pair()
    seen = []
    handle = pair.register_forward_hook(lambda *args: seen.append(args), with_kwargs=True)
    pair(1, second=6)
    handle.remove()
    of_all = nn.hooks.register_module_forward_pre_hook(lambda *args: seen.append(args))
    pair(7)
    of_all.remove()
    pair(8)
    assert seen == [(pair, (1,), {"second": 6}, (1, 6)), (pair, (7,))]
    pair.forward = lambda: "of its own"
    assert pair() == "of its own"
    assert str(inspect.signature(pair)) == "(*args, **kwargs)"


def test_a_call_before_init_is_an_error():
    class Bare(nn.Module):
        def __init__(self):
            pass

    with pytest.raises(AttributeError, match="'Bare' object has no attribute '_forward_hooks'"):
        Bare()()


def test_walks():
    net = Net()
    assert [n for n, _ in net.named_parameters()] == PATHS
    assert [n for n, _ in net.named_buffers()] == ["steps", "scratch"]
    assert [n for n, _ in net.named_children()] == ["first", "blocks"]
    assert [n for n, _ in net.named_modules()] == ["", "first", "blocks", "blocks.0", "blocks.1"]
    seen = {net.blocks}
    assert [n for n, _ in net.named_modules(seen, "p")] == ["p", "p.first"] and net.first in seen
    assert len(list(net.parameters())) == 7 and net.get_parameter("blocks.1.bias") is net.blocks[1].bias
    assert net.get_submodule("blocks.0") is net.blocks[0]
    tied = nn.Module()
    tied.a = tied.b = nn.Parameter(smolder.ones(1))
    assert [n for n, _ in tied.named_parameters()] == ["a"]


def test_attributes_follow_torchs_rules():
    net = Net()
    with pytest.raises(TypeError, match=r"cannot assign 'smolder\.Tensor' as parameter 'scale'"):
        net.scale = smolder.ones(4)
    with pytest.raises(TypeError, match="cannot assign 'int' as child module"):
        net.first = 3
    with pytest.raises(AttributeError, match="'Net' object has no attribute 'missing'"):
        _ = net.missing
    with pytest.raises(KeyError, match="already exists"):
        net.register_parameter("forward", None)

    class Early(nn.Module):
        def __init__(self):
            self.w = nn.Parameter(smolder.ones(1))

    with pytest.raises(AttributeError, match=r"before Module.__init__\(\)"):
        Early()
    net.scale = None
    assert net.scale is None and len(list(net.parameters())) == 6
    del net.first
    assert not hasattr(net, "first")


def test_state_dict_round_trip():
    a, b = Net(), Net()
    state = a.state_dict()
    assert list(state) == ["scale", "steps", *PATHS[1:]]
    assert repr(b.load_state_dict(state)) == "<All keys matched successfully>"
    x = smolder.tensor(rand(2, 3).astype(np.float32))
    assert smolder.equal(a(x), b(x))
    address = b.first.weight
    b.load_state_dict(state)
    assert b.first.weight is address and b.first.weight.is_leaf


def test_state_dict_errors_read_as_torchs():
    net, state = Net(), Net().state_dict()
    del state["scale"]
    state["extra"] = smolder.ones(1)
    with pytest.raises(RuntimeError) as caught:
        net.load_state_dict(state)
    text = str(caught.value)
    assert text.startswith('Error(s) in loading state_dict for Net:\n\tMissing key(s) in state_dict: "scale". ')
    assert 'Unexpected key(s) in state_dict: "extra". ' in text
    keys = net.load_state_dict(state, strict=False)
    assert (keys.missing_keys, keys.unexpected_keys) == (["scale"], ["extra"])
    state = net.state_dict() | {"scale": smolder.ones(3)}
    with pytest.raises(RuntimeError, match="size mismatch for scale: copying a param with shape"):
        net.load_state_dict(state)


def test_train_eval_apply_and_requires_grad():
    net = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5))
    assert net.training and not net.eval()[1].training and net.train()[1].training
    seen = []
    net.apply(lambda m: seen.append(type(m).__name__))
    assert seen == ["Linear", "Dropout", "Sequential"]
    net.requires_grad_(False)
    assert not any(p.requires_grad for p in net.parameters())


def test_zero_grad_and_to():
    net = nn.Linear(2, 2)
    net(smolder.ones(1, 2)).sum().backward()
    assert net.weight.grad is not None
    net.zero_grad(set_to_none=False)
    assert net.weight.grad.tolist() == [[0, 0], [0, 0]]
    net.zero_grad()
    assert net.weight.grad is None
    assert net.to(smolder.float64).weight.dtype == smolder.float64 and isinstance(net.weight, nn.Parameter)
    with pytest.raises(TypeError, match="floating point"):
        net.to(smolder.int64)


def test_hooks():
    net = nn.Identity()
    calls = []
    first = net.register_forward_pre_hook(lambda m, args: (args[0] + 1,))
    second = net.register_forward_hook(lambda m, args, out: calls.append(out) or out * 10)
    assert net(smolder.tensor(1.0)).item() == 20 and len(calls) == 1
    first.remove()
    second.remove()
    assert net(smolder.tensor(1.0)).item() == 1


def test_containers():
    seq = nn.Sequential(OrderedDict(a=nn.Identity(), b=nn.Tanh()))
    assert seq.a is seq[0] and len(seq) == 2 and isinstance(seq[:1], nn.Sequential)
    seq.append(nn.ReLU())
    assert isinstance(seq[-1], nn.ReLU)
    items = nn.ModuleList([nn.Identity()])
    items.insert(0, nn.Tanh())
    items += [nn.ReLU()]
    del items[1]
    assert [type(m).__name__ for m in items] == ["Tanh", "ReLU"]
    table = nn.ModuleDict({"x": nn.Tanh()})
    table["y"] = nn.ReLU()
    assert list(table) == ["x", "y"] and "x" in table and len(table) == 2
    ps = nn.ParameterList([smolder.ones(2), nn.Parameter(smolder.zeros(1))])
    assert len(list(ps.parameters())) == 2 and isinstance(ps[0], nn.Parameter)


def test_linear_and_its_initialisation():
    layer = nn.Linear(50, 40)
    bound = 1 / np.sqrt(50)
    for p in layer.parameters():
        values = p.detach().numpy()
        assert np.abs(values).max() <= bound and np.abs(values).std() > bound / 8
    x = rand(3, 50).astype(np.float32)
    want = x @ layer.weight.detach().numpy().T + layer.bias.detach().numpy()
    np.testing.assert_allclose(layer(smolder.tensor(x)).detach().numpy(), want, rtol=1e-4, atol=1e-5)


def test_embedding_and_padding():
    layer = nn.Embedding(6, 3, padding_idx=-1)
    assert layer.weight[5].tolist() == [0, 0, 0]
    out = layer(smolder.tensor([[0, 5], [2, 2]]))
    assert out.shape == (2, 2, 3)
    out.sum().backward()
    assert layer.weight.grad.sum(1).tolist() == [3, 0, 6, 0, 0, 0]


def test_layer_norm():
    x = rand(4, 6)
    layer = nn.LayerNorm(6, dtype=smolder.float64)
    want = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(layer(smolder.tensor(x)).detach().numpy(), want, rtol=1e-10)


def test_dropout():
    layer, x = nn.Dropout(0.25), smolder.ones(10000)
    out = layer(x)
    assert set(np.unique(out.numpy())) == {0, np.float32(1 / 0.75)}
    assert abs((out == 0).float().mean().item() - 0.25) < 0.02
    assert smolder.equal(layer.eval()(x), x)
    with pytest.raises(ValueError, match="between 0 and 1"):
        nn.Dropout(1.5)


def test_activations():
    x = rand(5)
    t = smolder.tensor(x)
    sigmoid = 1 / (1 + np.exp(-x))
    wants = {
        nn.ReLU(): np.maximum(x, 0),
        nn.Tanh(): np.tanh(x),
        nn.Sigmoid(): sigmoid,
        nn.SiLU(): x * sigmoid,
        nn.GELU("tanh"): 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
        nn.Softmax(0): np.exp(x) / np.exp(x).sum(),
        nn.LogSoftmax(0): x - np.log(np.exp(x).sum()),
    }
    for layer, want in wants.items():
        np.testing.assert_allclose(layer(t).numpy(), want, rtol=1e-9, err_msg=repr(layer))
    y = smolder.tensor(x)
    assert nn.ReLU(inplace=True)(y) is y and y.min().item() == 0


def test_losses():
    x, target = rand(6, 5), np.random.default_rng(1).integers(0, 5, 6)
    logp = x - np.log(np.exp(x).sum(1, keepdims=True))
    picked = -logp[np.arange(6), target]
    t, k = smolder.tensor(x), smolder.tensor(target)
    close = np.testing.assert_allclose
    close(nn.CrossEntropyLoss()(t, k).item(), picked.mean(), rtol=1e-12)
    close(nn.CrossEntropyLoss(reduction="none")(t, k).numpy(), picked, rtol=1e-12)
    smooth = 0.9 * picked.mean() - 0.1 * logp.mean(1).mean()
    close(nn.CrossEntropyLoss(label_smoothing=0.1)(t, k).item(), smooth, rtol=1e-12)
    close(nn.CrossEntropyLoss()(t, F.one_hot(k, 5).double()).item(), picked.mean(), rtol=1e-12)
    close(nn.NLLLoss(reduction="sum")(smolder.tensor(logp), k).item(), picked.sum(), rtol=1e-12)
    w = np.arange(1.0, 6)
    want = (picked * w[target]).sum() / w[target].sum()
    close(nn.CrossEntropyLoss(smolder.tensor(w))(t, k).item(), want, rtol=1e-12)
    y = rand(6, 5, seed=2)
    close(nn.MSELoss()(t, smolder.tensor(y)).item(), ((x - y) ** 2).mean(), rtol=1e-12)
    p = (y > 0).astype(float)
    want = np.maximum(x, 0) - x * p + np.log1p(np.exp(-np.abs(x)))
    close(nn.BCEWithLogitsLoss()(t, smolder.tensor(p)).item(), want.mean(), rtol=1e-12)
    with pytest.raises(ValueError, match="not a valid value for reduction"):
        nn.MSELoss(reduction="max")(t, t)


def reference_attention(x, layer, causal):
    w, b = layer.in_proj_weight.detach().numpy(), layer.in_proj_bias.detach().numpy()
    n, length, e = x.shape
    heads = layer.num_heads
    q, k, v = np.split(x @ w.T + b, 3, -1)
    q, k, v = (t.reshape(n, length, heads, e // heads).transpose(0, 2, 1, 3) for t in (q, k, v))
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(e // heads)
    if causal:
        scores = np.where(np.tril(np.ones((length, length), bool)), scores, -np.inf)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    out = (p @ v).transpose(0, 2, 1, 3).reshape(n, length, e)
    return out @ layer.out_proj.weight.detach().numpy().T + layer.out_proj.bias.detach().numpy(), p.mean(1)


@pytest.mark.parametrize("causal", [False, True])
def test_multihead_attention(causal):
    layer = nn.MultiheadAttention(8, 2, batch_first=True, dtype=smolder.float64)
    x = rand(2, 5, 8)
    mask = ~smolder.ones(5, 5, dtype=smolder.bool).tril() if causal else None
    want, weights = reference_attention(x, layer, causal)
    t = smolder.tensor(x)
    out, p = layer(t, t, t, attn_mask=mask)
    np.testing.assert_allclose(out.detach().numpy(), want, rtol=1e-9)
    np.testing.assert_allclose(p.detach().numpy(), weights, rtol=1e-9)
    fast, none = layer(t, t, t, attn_mask=mask, need_weights=False)
    assert none is None
    np.testing.assert_allclose(fast.detach().numpy(), want, rtol=1e-9)
    other = smolder.tensor(x)
    np.testing.assert_allclose(layer(t, other, other, attn_mask=mask)[0].detach().numpy(), want, rtol=1e-9)


def test_attention_ignores_padded_keys():
    layer = nn.MultiheadAttention(8, 2, batch_first=True, dtype=smolder.float64)
    x = rand(2, 5, 8)
    padding = smolder.tensor([[False] * 3 + [True] * 2] * 2)
    out, _ = layer(smolder.tensor(x), smolder.tensor(x), smolder.tensor(x), key_padding_mask=padding)
    want, _ = layer(smolder.tensor(x), smolder.tensor(x[:, :3]), smolder.tensor(x[:, :3]))
    np.testing.assert_allclose(out.detach().numpy(), want.detach().numpy(), rtol=1e-9)


@pytest.mark.parametrize("norm_first", [False, True])
def test_transformer_layer_trains(norm_first):
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True, norm_first=norm_first)
    x = smolder.tensor(rand(2, 5, 8).astype(np.float32))
    layer(x).square().sum().backward()
    for name, p in layer.named_parameters():
        assert p.grad is not None and np.isfinite(p.grad.numpy()).all(), name
    assert smolder.equal(layer.eval()(x), layer(x))


def test_initialisers():
    t = smolder.empty(200, 300)
    nn.init.xavier_uniform_(t)
    assert abs(t.max().item() - np.sqrt(6 / 500)) < 1e-3
    nn.init.kaiming_normal_(t, nonlinearity="relu")
    assert abs(t.std().item() - np.sqrt(2 / 300)) < 1e-3
    nn.init.trunc_normal_(t, 1.0, 2.0, 0.0, 3.0)
    assert t.min().item() >= 0 and t.max().item() <= 3 and abs(t.mean().item() - 1.413) < 0.02
    assert nn.init.eye_(smolder.empty(2, 2)).tolist() == [[1, 0], [0, 1]]
    with pytest.raises(ValueError, match="fewer than 2"):
        nn.init.xavier_normal_(smolder.empty(3))


def test_clip_grad():
    a, b = nn.Parameter(smolder.zeros(2)), nn.Parameter(smolder.zeros(1))
    a.grad, b.grad = smolder.tensor([3.0, 0.0]), smolder.tensor([4.0])
    assert nn.utils.clip_grad_norm_([a, b], 1.0).item() == 5
    np.testing.assert_allclose([*a.grad.tolist(), *b.grad.tolist()], [0.6, 0, 0.8], rtol=1e-5)
    nn.utils.clip_grad_value_([a, b], 0.7)
    np.testing.assert_allclose(b.grad.tolist(), [0.7], rtol=1e-6)


def test_members_are_attributes_whichever_way_they_change():
    m = nn.Linear(2, 2)
    w = nn.Parameter(smolder.ones(2, 2))
    m._parameters["weight"] = w
    assert m.weight is w and m.__dict__["weight"] is w
    del m._parameters["weight"]
    assert not hasattr(m, "weight")
    m._parameters.update(weight=w, other=None)
    assert m.weight is w and m.other is None
    assert m._parameters.setdefault("weight", None) is w
    assert m._parameters.pop("other") is None and not hasattr(m, "other")
    assert m._parameters.pop("in_features", 3) == 3 and m.in_features == 2
    assert m._parameters.popitem() == ("weight", w) and not hasattr(m, "weight")
    m._parameters |= {"weight": w}
    assert m.weight is w
    m._parameters.clear()
    assert not hasattr(m, "weight") and not hasattr(m, "bias")
    m.weight = w
    m.weight = None
    assert m._parameters == {"weight": None} and m.weight is None


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_a_copied_module_has_members_of_its_own(copied):
    m = nn.Sequential(nn.Linear(2, 2))
    other = copied(m)
    child = nn.ReLU()
    other[0] = child
    assert other[0] is child and getattr(other, "0") is child
    assert isinstance(m[0], nn.Linear) and getattr(m, "0") is m[0]


def test_a_dead_model_frees_its_parameters_at_once():
    m = nn.Sequential(nn.Linear(2, 2))
    seen = weakref.ref(m[0])
    gc.disable()
    try:
        del m
        assert seen() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("name", ["softmax", "softmin", "log_softmax"])
@pytest.mark.parametrize(("shape", "dim"), [((3,), 0), ((2, 3), 1), ((2, 3, 4), 0), ((1, 2, 3, 4), 1)])
def test_a_softmax_without_a_dimension_warns_and_takes_torchs(name, shape, dim):
    x, function = smolder.randn(shape), getattr(F, name)
    layer = {"softmax": nn.Softmax, "softmin": nn.Softmin, "log_softmax": nn.LogSoftmax}[name]
    for call in (function, layer()):
        with pytest.warns(UserWarning, match=f"Implicit dimension choice for {name} has been deprecated") as warned:
            y = call(x)
        assert warned[0].filename == __file__
        assert y.tolist() == function(x, dim).tolist()
