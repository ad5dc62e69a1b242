"""Losses, activations and transformer stacks beside torch's: values, gradients, printed forms and mistakes."""

import json
import math
import warnings

import numpy as np
import pytest
from conftest import of_the_cpu
from torch_peer import needs_torch, run_torch

import smolder
from smolder import nn
from smolder.nn import functional as F

REDUCTIONS = ("none", "mean", "sum")
LOSSES = [
    "cross_entropy(x, k{})", "cross_entropy(x, k, w{})",
    "cross_entropy(x, k, w, ignore_index=1, label_smoothing=0.2{})", "cross_entropy(x3, k3{})",
    "cross_entropy(x3, k3, w, label_smoothing=0.1{})", "cross_entropy(x, q{})",
    "cross_entropy(x, q, w, label_smoothing=0.3{})", "cross_entropy(x3, q3, w{})", "cross_entropy(v, k0{})",
    "nll_loss(x, k{})", "nll_loss(x3, k3, w, ignore_index=2{})", "nll_loss(v, k0{})", "mse_loss(x, y{})",
    "mse_loss(x, y, weight=u{})", "l1_loss(x, y{})", "l1_loss(x, y, weight=u{})", "smooth_l1_loss(x, y, beta=0.5{})",
    "smooth_l1_loss(x, y, beta=0{})", "smooth_l1_loss(x, x + 0, beta=0.5{})", "huber_loss(x, y, delta=0.7{})",
    "huber_loss(x, y, weight=u{})", "binary_cross_entropy(p, q{})", "binary_cross_entropy(p, q, u{})",
    "binary_cross_entropy(hard, q.detach(){})", "binary_cross_entropy_with_logits(x, q{})",
    "binary_cross_entropy_with_logits(x, q, u, pos_weight=w{})", "kl_div(logp, q{})",
    "kl_div(logp, logp * 0.5, log_target=True{})", "hinge_embedding_loss(x, s, margin=0.6{})",
    "margin_ranking_loss(x, y, s, margin=0.3{})", "cosine_embedding_loss(x, y, t, margin=0.1{})",
    "cosine_embedding_loss(v, v * v, t0{})", "triplet_margin_loss(x, y, z{})",
    "triplet_margin_loss(x, y, z, margin=0.4, p=3, swap=True{})", "gaussian_nll_loss(x, y, u{})",
    "gaussian_nll_loss(x, y, u[:, 0], full=True{})", "gaussian_nll_loss(x, y, u[:, :1], full=True{})",
    "gaussian_nll_loss(x, y, 0.5{})", "gaussian_nll_loss(x, y, u * 1e-9{})", "poisson_nll_loss(x, u * 3{})",
    "poisson_nll_loss(u, u * 3, log_input=False, full=True{})", "soft_margin_loss(x, s{})",
]  # fmt: skip
CASES = [loss.format(f", reduction='{r}'") for loss in LOSSES for r in REDUCTIONS]
CASES += ["kl_div(logp, q, reduction='batchmean')", "mse_loss(x, y, reduce=False)", "l1_loss(x, y, size_average=False)"]
CASES += [
    "cosine_similarity(x, y)",
    "cosine_similarity(x3, x3 * x3, dim=-1)",
    "pairwise_distance(x, y, p=1.0, keepdim=True)",
]
CASES += ["normalize(x)", "normalize(x3, p=1, dim=-1)"]
ACTIVATIONS = [
    "relu(m)", "relu6(m * 3)", "leaky_relu(m, 0.2)", "elu(m, 0.7)", "selu(m)", "celu(m, 0.6)", "gelu(m)",
    "gelu(m, approximate='tanh')", "silu(m)", "mish(m)", "softplus(m, 2, 3)", "softsign(m)", "hardtanh(m, -0.5, 0.8)",
    "hardswish(m * 2)", "hardsigmoid(m * 2)", "threshold(m, 0.1, -3.0)", "logsigmoid(m)", "softmax(m, 1)",
    "log_softmax(m, 0)", "softmin(m, 1)", "glu(m)", "glu(m, 0)", "tanhshrink(m)", "softshrink(m)", "hardshrink(m, 0.3)",
    "prelu(m, w6)", "prelu(m, w6[:1])", "tanh(m)", "sigmoid(m)",
]  # fmt: skip
# Where formulas change: bounds, zeros of both signs, what is not finite. torch 2.15 has these gradients there too.
EDGES = [0.0, -0.0, 6.0, 3.0, -3.0, 0.5, -0.5, 1.0, -1.0, math.inf, -math.inf, math.nan]
EDGY = ["relu6", "hardtanh", "hardsigmoid", "hardswish", "selu", "celu", "logsigmoid", "tanhshrink"]
EDGY += ["softshrink", "hardshrink", "elu", "leaky_relu"]

EVALUATE = """
def evaluate(lib, F, case, data):
    names = {k: lib.tensor(v, dtype=lib.int64 if k[0] == "k" else lib.float64) for k, v in data.items()}
    leaves = {k: v.requires_grad_() for k, v in names.items() if k in ("x", "y", "z", "x3", "p", "v", "m", "w6", "logp", "hard")}
    out = eval("F." + case, {"F": F, **names})
    weights = lib.arange(out.numel(), dtype=lib.float64).reshape(out.shape) * 0.1 + 1
    if out.requires_grad:
        (out * weights).sum().backward()
    return [out.tolist(), {k: v.grad.tolist() for k, v in leaves.items() if v.grad is not None}]
"""


def data():
    rng = np.random.default_rng(0)
    q, q3 = rng.random((6, 4)), rng.random((2, 4, 3))
    out = {n: rng.normal(size=(6, 4)) for n in "xyz"}
    out |= {"u": rng.random((6, 4)) + 0.1, "p": rng.random((6, 4)) * 0.9 + 0.05, "w": rng.random(4) + 0.5}
    out |= {"q": q / q.sum(1, keepdims=True), "q3": q3 / q3.sum(1, keepdims=True), "x3": rng.normal(size=(2, 4, 3))}
    out |= {"k": rng.integers(0, 4, 6), "k3": rng.integers(0, 4, (2, 3)), "k0": np.int64(2), "v": rng.normal(size=4)}
    out |= {"s": rng.choice([-1.0, 1.0], (6, 4)), "t": rng.choice([-1.0, 1.0], 6), "t0": np.float64(1)}
    out |= {"hard": np.tile([0.0, 1.0, 0.5, 1e-30], (6, 1)), "m": rng.normal(size=(4, 6)) * 2, "w6": rng.random(6)}
    logp = rng.normal(size=(6, 4))
    out["logp"] = logp - np.log(np.exp(logp).sum(1, keepdims=True))
    return {k: v.tolist() for k, v in out.items()}


def ours(case, inputs):
    scope = {}
    exec(EVALUATE, scope)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return scope["evaluate"](smolder, F, case, inputs)


@needs_torch
def test_values_and_gradients_are_torchs():
    cases = CASES + ACTIVATIONS
    code = (
        f"import warnings; warnings.simplefilter('ignore')\n{EVALUATE}\ncases, data = json.loads(argv[0])\n"
        "out = [evaluate(torch, torch.nn.functional, c, data) for c in cases]"
    )
    for case, (value, grads) in zip(cases, run_torch(code, json.dumps([cases, data()])), strict=True):
        got, got_grads = ours(case, data())
        np.testing.assert_allclose(got, value, rtol=1e-11, atol=1e-13, err_msg=case)
        assert set(got_grads) == set(grads), case
        # Here and there torch rounds a constant to float32.
        rounded = case.startswith(("celu", "hardsigmoid", "binary_cross_entropy(hard"))
        near = {"rtol": 1e-6} if rounded else {"rtol": 1e-10, "atol": 1e-13}
        for name, grad in grads.items():
            np.testing.assert_allclose(got_grads[name], grad, **near, err_msg=f"{case} {name}")


@needs_torch
def test_edges_are_torchs():
    code = (
        f"{EVALUATE}\ncases, edges = json.loads(argv[0])\n"
        "out = [evaluate(torch, torch.nn.functional, c + '(m)', {'m': edges}) for c in cases]"
    )
    for name, (value, grads) in zip(EDGY, run_torch(code, json.dumps([EDGY, EDGES])), strict=True):
        got, got_grads = ours(f"{name}(m)", {"m": EDGES})
        np.testing.assert_allclose(got, value, err_msg=name)
        np.testing.assert_allclose(got_grads["m"], grads["m"], err_msg=f"{name}, gradient")


def test_a_negative_variance_is_found_when_the_step_runs():
    x = smolder.ones(3, requires_grad=True)
    loss = F.gaussian_nll_loss(x, x.detach(), smolder.tensor([1.0, -0.5, 2.0]))
    with pytest.raises(RuntimeError, match="gaussian_nll_loss all elements of var"):
        loss.item()
    variance = smolder.tensor([1.0, 0.0, 2.0], requires_grad=True)
    F.gaussian_nll_loss(x, x.detach() + 1, variance).backward()
    assert variance.grad.isfinite().all()


@pytest.mark.parametrize("loss", [F.smooth_l1_loss, F.huber_loss])
def test_a_nan_has_a_gradient_of_nan(loss):
    x = smolder.tensor([float("nan"), 0.5, 9.0], requires_grad=True)
    loss(x, smolder.zeros(3), reduction="sum").backward()
    assert x.grad.isnan().tolist() == [True, False, False] and x.grad.tolist()[1:] == [0.5, 1]


def test_losses_are_what_their_formulas_say():
    d = {k: np.array(v) for k, v in data().items()}
    x, y, u, q, s, t = (d[n] for n in ("x", "y", "u", "q", "s", "t"))
    near = np.abs(x - y)
    lengths = [np.sqrt((v * v).sum(1)) for v in (x, y)]
    cosine = (x * y).sum(1) / lengths[0] / lengths[1]
    distance = [np.sqrt(((x - v + 1e-6) ** 2).sum(1)) for v in (y, d["z"])]
    for case, expected in {
        "smooth_l1_loss(x, y, beta=0.5)": np.where(near < 0.5, near**2, near - 0.25).mean(),
        "huber_loss(x, y, delta=0.7)": np.where(near < 0.7, near**2 / 2, 0.7 * (near - 0.35)).mean(),
        "binary_cross_entropy(p, q)": -(q * np.log(d["p"]) + (1 - q) * np.log(1 - d["p"])).mean(),
        "kl_div(logp, q, reduction='batchmean')": (q * (np.log(q) - d["logp"])).sum() / 6,
        "hinge_embedding_loss(x, s, margin=0.6)": np.where(s == 1, x, np.maximum(0, 0.6 - x)).mean(),
        "margin_ranking_loss(x, y, s, margin=0.3)": np.maximum(0, -s * (x - y) + 0.3).mean(),
        "cosine_embedding_loss(x, y, t)": np.where(t == 1, 1 - cosine, np.maximum(0, cosine)).mean(),
        "triplet_margin_loss(x, y, z)": np.maximum(0, distance[0] - distance[1] + 1).mean(),
        "gaussian_nll_loss(x, y, u)": (0.5 * (np.log(u) + (x - y) ** 2 / u)).mean(),
        "poisson_nll_loss(x, u)": (np.exp(x) - u * x).mean(),
        "soft_margin_loss(x, s)": np.log1p(np.exp(-s * x)).mean(),
    }.items():
        np.testing.assert_allclose(ours(case, data())[0], expected, rtol=1e-12, err_msg=case)


def test_modules_call_the_functions():
    values = {k: smolder.tensor(v) for k, v in data().items()}
    for made, case in [
        (nn.SmoothL1Loss(beta=0.5), "smooth_l1_loss(x, y, beta=0.5)"),
        (nn.HuberLoss(reduction="sum", delta=0.3), "huber_loss(x, y, reduction='sum', delta=0.3)"),
        (nn.BCELoss(values["u"]), "binary_cross_entropy(p, q, u)"),
        (nn.KLDivLoss(reduction="batchmean"), "kl_div(logp, q, reduction='batchmean')"),
        (nn.HingeEmbeddingLoss(0.5), "hinge_embedding_loss(x, s, margin=0.5)"),
        (nn.MarginRankingLoss(0.5), "margin_ranking_loss(x, y, s, margin=0.5)"),
        (nn.CosineEmbeddingLoss(0.5, reduction="none"), "cosine_embedding_loss(x, y, t, margin=0.5, reduction='none')"),
        (nn.TripletMarginLoss(0.5, p=1, swap=True), "triplet_margin_loss(x, y, z, margin=0.5, p=1, swap=True)"),
        (nn.GaussianNLLLoss(full=True), "gaussian_nll_loss(x, y, u, full=True)"),
        (nn.PoissonNLLLoss(full=True), "poisson_nll_loss(x, y, full=True)"),
        (nn.SoftMarginLoss(), "soft_margin_loss(x, s)"),
        (nn.CosineSimilarity(0), "cosine_similarity(x, y, dim=0)"),
        (nn.PairwiseDistance(1.0, keepdim=True), "pairwise_distance(x, y, p=1.0, keepdim=True)"),
        (nn.ReLU6(), "relu6(m)"),
        (nn.LeakyReLU(0.3), "leaky_relu(m, 0.3)"),
        (nn.ELU(0.3), "elu(m, 0.3)"),
        (nn.SELU(), "selu(m)"),
        (nn.CELU(0.3), "celu(m, 0.3)"),
        (nn.Mish(), "mish(m)"),
        (nn.Softplus(2, 3), "softplus(m, 2, 3)"),
        (nn.Softsign(), "softsign(m)"),
        (nn.Hardtanh(-0.5, 0.5), "hardtanh(m, -0.5, 0.5)"),
        (nn.Hardswish(), "hardswish(m)"),
        (nn.Hardsigmoid(), "hardsigmoid(m)"),
        (nn.Threshold(0.1, 5), "threshold(m, 0.1, 5)"),
        (nn.LogSigmoid(), "logsigmoid(m)"),
        (nn.Softmin(0), "softmin(m, 0)"),
        (nn.GLU(0), "glu(m, 0)"),
        (nn.Tanhshrink(), "tanhshrink(m)"),
        (nn.Softshrink(0.2), "softshrink(m, 0.2)"),
        (nn.Hardshrink(0.2), "hardshrink(m, 0.2)"),
    ]:
        words = [w.strip() for w in case.partition("(")[2].rstrip(")").split(",")]
        given = [values[w] for w in words if w in values and not (isinstance(made, nn.BCELoss) and w == "u")]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = eval("F." + case, {"F": F, **values})
        np.testing.assert_array_equal(made(*given).numpy(), expected.numpy(), err_msg=case)
    for kind in (nn.ReLU6, nn.SELU, nn.Mish, nn.Hardswish, nn.Hardsigmoid, nn.ELU, nn.CELU, nn.LeakyReLU, nn.Hardtanh):
        x = smolder.tensor([-2.0, 0.5])
        expected = kind()(x).tolist()
        assert kind(inplace=True)(x) is x and x.tolist() == expected


SHOWN = {
    "nn.ReLU6(True)": "ReLU6(inplace=True)",
    "nn.LeakyReLU(0.1, True)": "LeakyReLU(negative_slope=0.1, inplace=True)",
    "nn.PReLU(3)": "PReLU(num_parameters=3)",
    "nn.CELU()": "CELU(alpha=1.0)",
    "nn.Softplus()": "Softplus(beta=1.0, threshold=20.0)",
    "nn.Hardtanh()": "Hardtanh(min_val=-1.0, max_val=1.0)",
    "nn.Hardswish(True)": "Hardswish()",
    "nn.Threshold(1, 2)": "Threshold(threshold=1, value=2)",
    "nn.Softshrink()": "Softshrink(0.5)",
    "nn.GLU()": "GLU(dim=-1)",
    "nn.Softmin(1)": "Softmin(dim=1)",
    "nn.SELU()": "SELU()",
    "nn.HuberLoss()": "HuberLoss()",
    "nn.Unflatten(1, (2, 3))": "Unflatten(dim=1, unflattened_size=(2, 3))",
    "nn.ParameterDict({'b': T.ones(2), 'a': T.ones(2, 3)})": "ParameterDict(\n    (a): Parameter containing: "
    "[smolder.FloatTensor of size 2x3]\n    (b): Parameter containing: [smolder.FloatTensor of size 2]\n)",
}


@of_the_cpu("what is shown names a device")
def test_modules_are_shown_as_torchs():
    for text, shown in SHOWN.items():
        assert repr(eval(text, {"nn": nn, "T": smolder})) == shown


@needs_torch
def test_modules_are_shown_as_torch_shows_them():
    code = "from torch import nn\nout = [repr(eval(t, {'nn': nn, 'T': torch})) for t in json.loads(argv[0])]"
    theirs = run_torch(code, json.dumps(list(SHOWN)))
    assert [t.replace("torch.", "smolder.") for t in theirs] == list(SHOWN.values())


def test_mistakes_are_torchs():
    x, y = smolder.randn(3, 4), smolder.rand(3, 4)
    for call, kind, message in [
        (lambda: F.binary_cross_entropy(y, y[:2]), ValueError, "different to the input size"),
        (lambda: F.smooth_l1_loss(x, y, beta=-1), RuntimeError, "does not support negative values for beta"),
        (lambda: F.huber_loss(x, y, delta=0), RuntimeError, "does not support non-positive values for delta"),
        (lambda: F.huber_loss(x, y, weight=y[:2]), ValueError, "Weights and input must have the same size"),
        (lambda: F.gaussian_nll_loss(x, y, y[:2]), ValueError, "var is of incorrect size"),
        (lambda: F.gaussian_nll_loss(x, y, -1.0), ValueError, "var has negative entry"),
        (lambda: F.gaussian_nll_loss(x, y, y, reduction="x"), ValueError, "x is not valid"),
        (lambda: F.margin_ranking_loss(x, y, y[0]), RuntimeError, "should have same dimension but got sizes"),
        (lambda: F.cosine_embedding_loss(x, y, y), RuntimeError, "multi-target not supported"),
        (lambda: F.cosine_embedding_loss(x[0], y[0], y[0]), RuntimeError, "1D target tensor expects 2D input tensors"),
        (lambda: F.triplet_margin_loss(x, y, y, margin=0), ValueError, "margin must be greater than 0, got 0"),
        (lambda: F.triplet_margin_loss(x, y, y[0]), RuntimeError, "same number of dimensions"),
        (lambda: F.kl_div(x, y, reduction="x"), ValueError, "x is not a valid value for reduction"),
        (lambda: F.cross_entropy(x, y, label_smoothing=2), RuntimeError, "label_smoothing must be between 0.0 and 1.0"),
        (
            lambda: F.cross_entropy(x, y, smolder.ones(3)),
            RuntimeError,
            "weight tensor should be defined either for all",
        ),
        (lambda: F.glu(smolder.ones(3)), RuntimeError, "Halving dimension must be even, but dimension 0 is size 3"),
        (lambda: F.glu(smolder.tensor(1.0)), RuntimeError, "glu does not support 0-dimensional tensors"),
        (lambda: F.softshrink(x, -1), RuntimeError, "lambda must be greater or equal to 0, but found to be -1"),
        (lambda: F.prelu(x, smolder.ones(3)), RuntimeError, "Mismatch of parameter numbers and input channel size"),
        (lambda: F.hardtanh(x, 1, -1), ValueError, "min_val cannot be greater than max_val"),
        (lambda: nn.Hardtanh(1, -1), AssertionError, "max_val must be larger than min_val"),
        (lambda: nn.TripletMarginLoss(0), ValueError, "expected margin to be greater than 0"),
        (lambda: nn.Softmax2d()(x), ValueError, "expected input to be 3D or 4D, got 2D instead"),
        (lambda: nn.Unflatten(1, 3), TypeError, "unflattened_size must be tuple or list, but found type int"),
        (lambda: F.normalize(x, out=y), NotImplementedError, "out is not supported"),
    ]:
        with pytest.raises(kind, match=message.replace("(", r"\(")):
            call()
    with pytest.warns(UserWarning, match="different to the input size"):
        F.mse_loss(x, y[:1])
    with pytest.warns(UserWarning, match="divides the total loss by both"):
        F.kl_div(x, y)
    with pytest.warns(UserWarning, match="please use reduction='sum'"):
        nn.L1Loss(size_average=False)


def test_parameters_by_name():
    d = nn.ParameterDict({"b": smolder.ones(2), "a": nn.Parameter(smolder.zeros(1)), "n": 3})
    assert list(d) == ["a", "b", "n"] and len(d) == 3 and "a" in d and d["n"] == 3
    assert [n for n, _ in d.named_parameters()] == ["a", "b"] and type(d["b"]) is nn.Parameter
    assert d.pop("n") == 3 and d.setdefault("c", smolder.ones(1)).shape == (1,) and d.get("x", 5) == 5
    assert list((d | {"z": smolder.ones(1)}).keys()) == ["a", "b", "c", "z"]
    assert d.popitem()[0] == "c" and [k for k, _ in d.items()] == ["a", "b"] and list(reversed(d)) == ["b", "a"]
    assert list(d.state_dict()) == ["a", "b"] and list(d.fromkeys(["q"], smolder.ones(1))) == ["q"]
    d.clear()
    assert len(d) == 0
    for wrong, kind in (({3: smolder.ones(1)}, TypeError), (5, TypeError), ([1], TypeError), ([(1, 2, 3)], ValueError)):
        with pytest.raises(kind):
            nn.ParameterDict(wrong)


# -- transformers


def stacks(nn):
    options = {"d_model": 8, "nhead": 2, "dim_feedforward": 12, "dropout": 0.0}
    return [
        nn.Transformer(num_encoder_layers=2, num_decoder_layers=2, **options),
        nn.Transformer(num_encoder_layers=1, num_decoder_layers=2, batch_first=True, norm_first=True,
                       activation="gelu", bias=False, **options),
    ]  # fmt: skip


@needs_torch
def test_transformers_are_torchs(tmp_path):
    made = [m.double() for m in stacks(nn)]
    src, tgt = smolder.randn(5, 3, 8).double(), smolder.randn(4, 3, 8).double()
    smolder.save({"states": [m.state_dict() for m in made], "src": src, "tgt": tgt}, tmp_path / "x.pt")
    code = """
import warnings; warnings.simplefilter("ignore")
from torch import nn
STACKS
file = torch.load(argv[0])
out = []
for i, m in enumerate(stacks(nn)):
    m.double().load_state_dict(file["states"][i])
    src, tgt = (file[n].transpose(0, 1) if i else file[n] for n in ("src", "tgt"))
    mask = m.generate_square_subsequent_mask(tgt.shape[1 if i else 0], dtype=torch.float64)
    padding = torch.zeros(3, 5, dtype=torch.bool); padding[1, 3:] = True
    y = m(src, tgt, tgt_mask=mask, src_key_padding_mask=padding, memory_key_padding_mask=padding)
    y.square().sum().backward()
    out.append([y.tolist(), [p.grad.tolist() for p in m.parameters()], list(m.state_dict()), repr(m)])
"""
    import inspect

    theirs = run_torch(code.replace("STACKS", inspect.getsource(stacks)), tmp_path / "x.pt")
    padding = smolder.tensor([[False] * 5, [False, False, False, True, True], [False] * 5])
    for i, (m, (value, grads, names, text)) in enumerate(zip(made, theirs, strict=True)):
        a, b = (t.transpose(0, 1) if i else t for t in (src, tgt))
        mask = nn.Transformer.generate_square_subsequent_mask(4, dtype=smolder.float64)
        y = m(a, b, tgt_mask=mask, src_key_padding_mask=padding, memory_key_padding_mask=padding)
        y.square().sum().backward()
        np.testing.assert_allclose(y.tolist(), value, rtol=1e-9, atol=1e-11)
        for p, grad in zip(m.parameters(), grads, strict=True):
            np.testing.assert_allclose(p.grad.tolist(), grad, rtol=1e-7, atol=1e-9)
        assert list(m.state_dict()) == names and repr(m) == text


def test_a_transformer_learns_to_copy():
    smolder.manual_seed(0)
    model = nn.Transformer(8, 2, 1, 1, 16, dropout=0.0, batch_first=True)
    out = nn.Linear(8, 5)
    table = nn.Embedding(5, 8)
    parameters = [*model.parameters(), *out.parameters(), *table.parameters()]
    optimizer = smolder.optim.Adam(parameters, lr=0.01)
    words = smolder.randint(0, 5, (16, 4))
    losses = []
    for _ in range(60):
        mask = model.generate_square_subsequent_mask(4)
        y = out(model(table(words), table(words), tgt_mask=mask, tgt_is_causal=True))
        loss = F.cross_entropy(y.transpose(1, 2), words)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.3 * losses[0]
    with pytest.raises(RuntimeError, match="the batch number of src and tgt must be equal"):
        model(smolder.ones(2, 3, 8), smolder.ones(1, 3, 8))
    with pytest.raises(RuntimeError, match="feature number of src and tgt must be equal to d_model"):
        model(smolder.ones(2, 3, 7), smolder.ones(2, 3, 8))


@pytest.mark.filterwarnings("ignore:Using a target size")
def test_losses_of_a_zero_dim_operand_promote_as_of_its_shape():
    x, y = smolder.tensor(-2.25), smolder.tensor([0.1, -0.0, 100.0], dtype=smolder.bfloat16)
    for loss in (F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss):
        assert loss(x, y).dtype == smolder.float32
        expected = loss(x.expand(3), y.float())
        assert loss(x, y).item() == expected.item() == loss(y, x).item()
    wide = smolder.tensor(1.0, dtype=smolder.float64, requires_grad=True)
    F.mse_loss(wide, y).backward()
    assert wide.grad.dtype == smolder.float64
    assert wide.grad.item() == pytest.approx(2 * np.mean(1.0 - y.double().numpy()))


def test_cross_entropy_of_no_rows_of_probabilities():
    none = smolder.zeros(0, 3)
    assert math.isnan(F.cross_entropy(none, none).item())  # as of indices, and in torch
    assert F.cross_entropy(none, none, reduction="sum").item() == 0


def test_class_indices_may_be_bytes_and_probabilities_ignore_no_index():
    logits = smolder.tensor(np.random.default_rng(3).normal(size=(3, 4)))
    numbers = smolder.tensor([1, 3, 0])
    for loss in (F.cross_entropy, F.nll_loss):
        assert loss(logits, numbers.to(smolder.uint8)) == loss(logits, numbers)
    with pytest.raises(RuntimeError, match="ignore_index is not supported for floating point target"):
        F.cross_entropy(logits, logits.softmax(1), ignore_index=0)
