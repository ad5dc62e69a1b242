"""Writes op_values.json: what PyTorch computes for the test cases of the op table.

    python tests/golden/make_op_values.py build/release/generated/smolder/ops.json

Needs PyTorch, so the result is kept in the tree; run it again when rows or cases change. Each record names a row,
its operands and attributes in the order of its signature, and the outputs expected.
"""

import json
import math
import sys
import zlib
from pathlib import Path

import torch
import torch.nn.functional as F

aten = torch.ops.aten
FLOATS = ["float32", "bfloat16"]
ELEMENTWISE_SHAPES = [([3, 4], [3, 4], [3, 4]), ([2, 3, 4], [4], [3, 1]), ([], [3], [3])]
SKIPPED = []
MIXED = [
    ("float32", "int64"),
    ("bfloat16", "float16"),
    ("uint8", "int32"),
    ("uint8", "int8"),
    ("int16", "bfloat16"),
    ("bool", "float32"),
    ("float16", "float32 zero-dim"),
    ("int32", "float64 zero-dim"),
]


def dtype_of(name):
    return getattr(torch, name)


def axes(a):
    """Axes as torch takes them: None means all."""
    return None if a["dim"] == [] else a["dim"]


def flatten_dims(kw):
    return {k: (v or None) if k == "dim" and isinstance(v, list) else v for k, v in kw.items()}


# -- what each row is in torch, where the name alone does not say. Arguments come by the row's parameter names.


def adam(cls, a):
    p = a["param"].clone().requires_grad_()
    opt = cls([p], lr=a["lr"], betas=(a["beta1"], a["beta2"]), eps=a["eps"], weight_decay=a["weight_decay"],
              amsgrad=a["max_exp_avg_sq"] is not None, maximize=a["maximize"], foreach=False)  # fmt: skip
    state = {"step": torch.tensor(float(a["step"] - 1)), "exp_avg": a["exp_avg"].clone()}
    state["exp_avg_sq"] = a["exp_avg_sq"].clone()
    if a["max_exp_avg_sq"] is not None:
        state["max_exp_avg_sq"] = a["max_exp_avg_sq"].clone()
    opt.state[p] = state
    p.grad = a["grad"]
    opt.step()
    s = opt.state[p]
    return p.detach(), s["exp_avg"], s["exp_avg_sq"], s.get("max_exp_avg_sq", s["exp_avg_sq"])


def sgd(a):
    p = a["param"].clone().requires_grad_()
    opt = torch.optim.SGD([p], lr=a["lr"], momentum=a["momentum"], weight_decay=a["weight_decay"],
                          dampening=0 if a["nesterov"] else a["dampening"], nesterov=a["nesterov"],
                          maximize=a["maximize"], foreach=False)  # fmt: skip
    if a["momentum_buffer"] is not None:
        opt.state[p]["momentum_buffer"] = a["momentum_buffer"].clone()
    p.grad = a["grad"]
    opt.step()
    return p.detach(), opt.state[p]["momentum_buffer"]


def optimizer(cls, states, options, extra=()):
    """A step of an optimizer of torch's, whose state has tensors `states` and what else `extra` makes of the case."""

    def run(a):
        p = a["param"].clone().requires_grad_()
        given = {k: a[k] for k in ("lr", "eps", "weight_decay", "maximize")}
        opt = cls([p], **given, **{k: v(a) for k, v in options.items()}, foreach=False)
        state = {"step": torch.tensor(float(a.get("step", 1) - 1))}
        state |= {name: a[row].clone() for name, row in states.items() if a[row] is not None}
        opt.state[p] = state | {k: v(a) for k, v in dict(extra).items()}
        p.grad = a["grad"]
        opt.step()
        first = next(iter(states))
        return p.detach(), *(opt.state[p].get(name, opt.state[p][first]) for name in states)

    return run


def betas(a):
    return a["beta1"], a["beta2"]


def decoupled(a):
    return a["decoupled"]


def nadam(a):
    """The formula: torch works the momenta out itself."""
    p, g = a["param"], -a["grad"] if a["maximize"] else a["grad"]
    if a["decoupled"]:
        p = p * (1 - a["lr"] * a["weight_decay"])
    else:
        g = g + a["weight_decay"] * p
    mean = a["exp_avg"] * a["beta1"] + (1 - a["beta1"]) * g
    square = a["exp_avg_sq"] * a["beta2"] + (1 - a["beta2"]) * g * g
    root = (square / (1 - a["beta2"] ** a["step"])).sqrt() + a["eps"]
    p = p - a["lr"] * (1 - a["mu"]) / (1 - a["mu_product"]) * g / root
    return p - a["lr"] * a["mu_next"] / (1 - a["mu_product"] * a["mu_next"]) * mean / root, mean, square


def cross_entropy(a):
    kw = {k: a[k] for k in ("weight", "ignore_index", "reduction", "label_smoothing")}
    axis = 0 if a["self"].dim() == 1 else 1
    valid = a["target"] != a["ignore_index"]
    w = a["weight"] if a["weight"] is not None else torch.ones(a["self"].shape[axis])
    total = (w[torch.where(valid, a["target"], 0)] * valid).sum()
    return F.cross_entropy(a["self"], a["target"], **kw), a["self"].logsumexp(axis), total


def nll_loss(a):
    kw = {k: a[k] for k in ("weight", "ignore_index", "reduction")}
    return F.nll_loss(a["self"], a["target"], **kw), cross_entropy({**a, "label_smoothing": 0.0})[2]


def attention(a):
    if a["attn_mask"] is None and a["is_causal"]:
        mask = torch.ones(a["query"].shape[-2], a["key"].shape[-2], dtype=torch.bool).tril()
    else:
        mask = a["attn_mask"]
    s = a["query"] @ a["key"].mT * a["scale"]
    s = s if mask is None else s.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else s + mask
    return torch.softmax(s, -1) @ a["value"], s.logsumexp(-1, True)


def layer_norm(a):
    return torch.native_layer_norm(a["self"], a["normalized_shape"], a["weight"], a["bias"], a["eps"])


STEPS = ("stride", "padding", "dilation", "groups")


def fft_r2c(a):
    out = aten._fft_r2c(a["self"], a["dim"], a["normalization"], True)
    return torch.view_as_real((out if a["forward"] else out.conj()).resolve_conj())


def fft_c2r(a):
    half = torch.view_as_complex(a["self"])
    return aten._fft_c2r(half.conj() if a["forward"] else half, a["dim"], a["normalization"], a["last_dim_size"])


def conv_backward_input(a):
    grad, weight = a["grad_output"], a["weight"]
    shape = (grad.shape[0], weight.shape[1] * a["groups"], *a["input_size"])
    return torch.nn.grad.conv2d_input(shape, weight, grad, *(a[k] for k in STEPS))


def conv_backward_weight(a):
    grad, x = a["grad_output"], a["self"]
    shape = (grad.shape[1], x.shape[1] // a["groups"], *a["kernel_size"])
    return torch.nn.grad.conv2d_weight(x, shape, grad, *(a[k] for k in STEPS))


def avg_pool(a, x):
    given = a["kernel_size"], a["stride"], a["padding"], False, a["count_include_pad"], a["divisor_override"]
    return F.avg_pool2d(x, *given)


def avg_pool_backward(a):
    grad = a["grad_output"]
    x = torch.zeros(*grad.shape[:-2], *a["input_size"], dtype=grad.dtype, requires_grad=True)
    return torch.autograd.grad(avg_pool(a, x), x, grad)[0]


def resample(a, x):
    """Along the last of two dimensions, as images of one channel, whose other dimension stays as it is."""
    mode = {"exact": "nearest-exact", "linear": "bilinear", "cubic": "bicubic"}.get(a["mode"], a["mode"])
    aligned = a["align_corners"] if mode.startswith("bi") else None
    x = x.movedim(a["dim"], -1)
    size = (x[..., 0].numel(), a["size"])
    y = F.interpolate(x.reshape(1, 1, size[0], -1), size, mode=mode, align_corners=aligned)
    return y.reshape(*x.shape[:-1], -1).movedim(-1, a["dim"])


def resample_backward(a):
    grad, dim = a["grad_output"], a["dim"]
    shape = list(grad.shape)
    shape[dim] = a["size"]
    x = torch.zeros(shape, dtype=grad.dtype, requires_grad=True)
    return torch.autograd.grad(resample({**a, "size": grad.shape[dim]}, x), x, grad)[0]


def batch_norm_train(a):
    x = a["self"].float()
    axes, shape = [i for i in range(x.dim()) if i != 1], [-1 if i == 1 else 1 for i in range(x.dim())]
    mean, var = x.mean(axes), x.var(axes, correction=0)
    y = (x - mean.view(shape)) * torch.rsqrt(var.view(shape) + a["eps"])
    y = y if a["weight"] is None else y * a["weight"].float().view(shape)
    y = y if a["bias"] is None else y + a["bias"].float().view(shape)
    return y.to(a["self"].dtype), mean, var


FOLDS = {"prod": "prod", "amax": "amax", "amin": "amin"}
TORCH = {
    "polygamma": lambda a: torch.polygamma(a["n"], a["self"]),
    "logit": lambda a: torch.logit(a["self"], a["eps"]),
    "nan_to_num": lambda a: torch.nan_to_num(a["self"], a["nan"], a["posinf"], a["neginf"]),
    "isclose": lambda a: torch.isclose(a["self"], a["other"], a["rtol"], a["atol"], a["equal_nan"]),
    "heaviside": lambda a: torch.heaviside(a["self"], a["values"]),
    "xlogy": lambda a: torch.xlogy(a["self"], a["other"]),
    "scatter": lambda a: torch.scatter(a["self"], a["dim"], a["index"], a["src"]),
    "scatter_fold": lambda a: torch.scatter_reduce(a["self"], a["dim"], a["index"], a["src"], FOLDS[a["kind"]]),
    "index_copy": lambda a: torch.index_copy(a["self"], a["dim"], a["index"], a["source"]),
    "index_fill": lambda a: torch.index_fill(a["self"], a["dim"], a["index"], a["value"]),
    "masked_rows": lambda a: masked_rows(a["source"], a["mask"], a["dim"]),
    "checked_samples": lambda a: a["samples"],
    "checked_deviations": lambda a: a["self"],
    "checked_bound": lambda a: a["self"],
    "checked_divisor": lambda a: a["self"],
    "checked_probabilities": lambda a: a["self"],
    "sort": lambda a: tuple(torch.sort(a["self"], dim=a["dim"], descending=a["descending"], stable=True)),
    "topk": lambda a: tuple(torch.topk(a["self"], a["k"], a["dim"], a["largest"], a["sorted"])),
    "cummax": lambda a: tuple(torch.cummax(a["self"], a["dim"])),
    "cummin": lambda a: tuple(torch.cummin(a["self"], a["dim"])),
    "cumprod": lambda a: torch.cumprod(a["self"], a["dim"]),
    "trunc_divide": lambda a: torch.div(a["self"], a["other"], rounding_mode="trunc"),
    "relu_backward": lambda a: aten.threshold_backward(a["grad_output"], a["output"], 0),
    "sigmoid_backward": lambda a: aten.sigmoid_backward(a["grad_output"], a["output"]),
    "tanh_backward": lambda a: aten.tanh_backward(a["grad_output"], a["output"]),
    "silu_backward": lambda a: aten.silu_backward(a["grad_output"], a["self"]),
    "gelu_backward": lambda a: aten.gelu_backward(a["grad_output"], a["self"], approximate=a["approximate"]),
    "hardtanh": lambda a: F.hardtanh(a["self"], a["min_val"], a["max_val"]),
    "threshold": lambda a: F.threshold(a["self"], a["threshold"], a["value"]),
    "softshrink": lambda a: F.softshrink(a["self"], a["lambd"]),
    "hardshrink": lambda a: F.hardshrink(a["self"], a["lambd"]),
    "celu": lambda a: F.celu(a["self"], a["alpha"]),
    **{
        n: lambda a, n=n: getattr(F, n)(a["self"])
        for n in ("relu6", "hardsigmoid", "hardswish", "selu", "mish", "softsign", "logsigmoid", "tanhshrink")
    },
    "leaky_relu": lambda a: F.leaky_relu(a["self"], a["negative_slope"]),
    "elu": lambda a: F.elu(a["self"], a["alpha"]),
    "softplus": lambda a: F.softplus(a["self"], a["beta"], a["threshold"]),
    "softplus_unit": lambda a: F.softplus(a["self"]),
    "pow_int": lambda a: a["self"] ** a["exponent"],
    "silu": lambda a: F.silu(a["self"]),
    "gelu": lambda a: F.gelu(a["self"], approximate=a["approximate"]),
    "clamp": lambda a: torch.clamp(a["self"], a["min"], a["max"]),
    "where": lambda a: torch.where(a["condition"], a["self"], a["other"]),
    "masked_fill": lambda a: a["self"].masked_fill(a["mask"], a["value"]),
    "wrapped_index": lambda a: a["self"],
    "one_hot": lambda a: F.one_hot(a["self"], a["num_classes"]),
    "embedding": lambda a: F.embedding(a["indices"], a["weight"]),
    "embedding_backward": lambda a: aten.embedding_dense_backward(
        a["grad_output"], a["indices"], a["num_weights"], a["padding_idx"], False
    ),
    "gather": lambda a: torch.gather(a["self"], a["dim"], a["index"]),
    "scatter_add": lambda a: torch.scatter_add(a["self"], a["dim"], a["index"], a["src"]),
    "index_select": lambda a: torch.index_select(a["self"], a["dim"], a["index"]),
    "index_add_rows": lambda a: torch.index_add(a["self"], a["dim"], a["index"], a["source"]),
    "cross_entropy": cross_entropy,
    "nll_loss": nll_loss,
    "mse_loss": lambda a: F.mse_loss(*torch.broadcast_tensors(a["self"], a["target"]), reduction=a["reduction"]),
    "l1_loss": lambda a: F.l1_loss(a["self"], a["target"], reduction=a["reduction"]),
    "binary_cross_entropy_with_logits": lambda a: F.binary_cross_entropy_with_logits(
        a["self"], a["target"], a["weight"], pos_weight=a["pos_weight"], reduction=a["reduction"]
    ),
    "binary_cross_entropy": lambda a: F.binary_cross_entropy(
        a["self"], a["target"], a["weight"], reduction=a["reduction"]
    ),
    "smooth_l1_loss": lambda a: F.smooth_l1_loss(
        *torch.broadcast_tensors(a["self"], a["target"]), reduction=a["reduction"], beta=a["beta"]
    ),
    "huber_loss": lambda a: F.huber_loss(
        *torch.broadcast_tensors(a["self"], a["target"]), reduction=a["reduction"], delta=a["delta"]
    ),
    "linear": lambda a: F.linear(a["self"], a["weight"], a["bias"]),
    "weight_int8pack_mm": lambda a: (a["self"].float() @ a["mat2"].float().T * a["scales"].float()).to(a["self"].dtype),
    "addmm": lambda a: torch.addmm(a["self"], a["mat1"], a["mat2"], beta=a["beta"], alpha=a["alpha"]),
    "baddbmm": lambda a: torch.baddbmm(a["self"], a["batch1"], a["batch2"], beta=a["beta"], alpha=a["alpha"]),
    "sum_to_size": lambda a: a["self"].sum_to_size(a["size"]),
    "expand": lambda a: a["self"].expand(a["size"]),
    "slice": lambda a: aten.slice(a["self"], a["dim"], a["start"], a["end"], a["step"]),
    "slice_backward": lambda a: aten.slice_backward(
        a["grad_output"],
        [a["length"] if i == a["dim"] % a["grad_output"].dim() else n for i, n in enumerate(a["grad_output"].shape)],
        a["dim"],
        a["start"],
        a["end"],
        a["step"],
    ),
    "slice_scatter": lambda a: torch.slice_scatter(a["self"], a["src"], a["dim"], a["start"], a["end"], a["step"]),
    "pad": lambda a: F.pad(
        a["self"], [n for pair in zip(a["low"][::-1], a["high"][::-1]) for n in pair], value=a["fill"]
    ),
    "to": lambda a: a["self"].to(dtype_of(a["dtype"])),
    "fill": lambda a: torch.full_like(a["self"], a["value"]),
    "zero": lambda a: torch.zeros_like(a["self"]),
    "copy": lambda a: torch.empty_like(a["self"]).copy_(a["src"]),
    "full": lambda a: torch.full(a["size"], a["fill_value"], dtype=a["dtype"] and dtype_of(a["dtype"])),
    "arange_from": lambda a: (
        a["start"] + torch.arange(a["length"], dtype=torch.float64) * a["step"]
        if a["dtype"].startswith("float")
        else int(a["start"]) + torch.arange(a["length"]) * int(a["step"])
    ).to(dtype_of(a["dtype"])),
    "linspace_of": lambda a: torch.linspace(a["start"], a["end"], a["length"], dtype=dtype_of(a["dtype"])),
    "eye_matrix": lambda a: torch.eye(a["n"], a["m"], dtype=dtype_of(a["dtype"])),
    "max_dim": lambda a: tuple(torch.max(a["self"], a["dim"], a["keepdim"])),
    "min_dim": lambda a: tuple(torch.min(a["self"], a["dim"], a["keepdim"])),
    "var": lambda a: torch.var(a["self"], axes(a), correction=a["correction"], keepdim=a["keepdim"]),
    "std": lambda a: torch.std(a["self"], axes(a), correction=a["correction"], keepdim=a["keepdim"]),
    "norm": lambda a: torch.linalg.vector_norm(a["self"], a["p"], axes(a), a["keepdim"]),
    "softmax": lambda a: torch.softmax(a["self"], a["dim"], dtype=a["dtype"] and dtype_of(a["dtype"])),
    "log_softmax": lambda a: torch.log_softmax(a["self"], a["dim"], dtype=a["dtype"] and dtype_of(a["dtype"])),
    "softmax_backward": lambda a: aten._softmax_backward_data(
        a["grad_output"], a["output"], a["dim"], a["output"].dtype
    ),
    "log_softmax_backward": lambda a: aten._log_softmax_backward_data(
        a["grad_output"], a["output"], a["dim"], a["output"].dtype
    ),
    "prod": lambda a: prod(a["self"], a["dim"], a["keepdim"]),
    "any": lambda a: torch.any(a["self"], axes(a), keepdim=a["keepdim"]),
    "all": lambda a: torch.all(a["self"], axes(a), keepdim=a["keepdim"]),
    "layer_norm": layer_norm,
    "conv_forward": lambda a: F.conv2d(a["self"], a["weight"], None, *(a[k] for k in STEPS)),
    "conv_backward_input": conv_backward_input,
    "conv_backward_weight": conv_backward_weight,
    "fft_c2c": lambda a: torch.view_as_real(
        aten._fft_c2c(torch.view_as_complex(a["self"]), a["dim"], a["normalization"], a["forward"])
    ),
    "fft_r2c": fft_r2c,
    "fft_c2r": fft_c2r,
    "max_pool": lambda a: F.max_pool2d(
        a["self"], a["kernel_size"], a["stride"], a["padding"], a["dilation"], return_indices=True
    ),
    "avg_pool": lambda a: avg_pool(a, a["self"]),
    "avg_pool_backward": avg_pool_backward,
    "resample": lambda a: resample(a, a["self"]),
    "resample_backward": resample_backward,
    "batch_norm_train": batch_norm_train,
    "attention": attention,
    "rmsprop_step": optimizer(
        torch.optim.RMSprop,
        {"square_avg": "square_avg", "grad_avg": "grad_avg", "momentum_buffer": "momentum_buffer"},
        {
            "alpha": lambda a: a["alpha"],
            "centered": lambda a: a["grad_avg"] is not None,
            "momentum": lambda a: a["momentum"] if a["momentum_buffer"] is not None else 0,
        },
    ),
    "adagrad_step": optimizer(torch.optim.Adagrad, {"sum": "state_sum"}, {"lr_decay": lambda a: a["lr_decay"]}),
    "adadelta_step": optimizer(
        torch.optim.Adadelta, {"square_avg": "square_avg", "acc_delta": "acc_delta"}, {"rho": lambda a: a["rho"]}
    ),
    "adamax_step": optimizer(torch.optim.Adamax, {"exp_avg": "exp_avg", "exp_inf": "exp_inf"}, {"betas": betas}),
    "radam_step": optimizer(
        torch.optim.RAdam,
        {"exp_avg": "exp_avg", "exp_avg_sq": "exp_avg_sq"},
        {"betas": betas, "decoupled_weight_decay": decoupled},
    ),
    "nadam_step": nadam,
    "sgd_step": sgd,
    "adam_step": lambda a: adam(torch.optim.Adam, a),
    "adamw_step": lambda a: adam(torch.optim.AdamW, a),
}


def prod(x, dims, keepdim):
    wide = torch.float64 if x.is_floating_point() else torch.int64
    dims = [dims] if isinstance(dims, int) else dims or range(x.dim())
    axes = sorted({d % x.dim() for d in dims})
    out = x.to(wide)
    for d in axes:
        out = out.prod(d, keepdim=True)
    out = out.to(x.dtype if x.is_floating_point() else wide)
    return out if keepdim else out.reshape([n for d, n in enumerate(x.shape) if d not in axes])


def masked_rows(source, mask, dim):
    at = torch.where(mask.flatten(), mask.flatten().cumsum(0) - 1, 0)
    shape = source.shape
    return source.index_select(dim, at).reshape(*shape[:dim], *mask.shape, *shape[dim + 1 :])


# -- gradients of whole ops: inputs that the forward kept, then torch's autograd


def backward_of(forward, names, kept):
    """A case of `forward` turned into one of its backward op."""

    def run(a, rng):
        leaves = {k: v.detach().clone().requires_grad_() for k, v in a.items() if k in names and v is not None}
        outputs = TORCH[forward]({**a, **leaves})
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        grad = torch.randn(outputs[0].shape, generator=rng).to(outputs[0].dtype)
        grads = torch.autograd.grad(outputs[0], list(leaves.values()), grad, allow_unused=True)
        out = dict(zip(leaves, grads))
        return {"grad_output": grad, **kept(a, [o.detach() for o in outputs])}, [out.get(n) for n in names]

    return run


BACKWARD = {
    "cross_entropy_backward": (
        "cross_entropy",
        backward_of("cross_entropy", ["self"], lambda a, o: {"lse": o[1], "total": o[2]}),
    ),
    "nll_loss_backward": ("nll_loss", backward_of("nll_loss", ["self"], lambda a, o: {"total": o[1]})),
    "layer_norm_backward": (
        "layer_norm",
        backward_of("layer_norm", ["self", "weight", "bias"], lambda a, o: {"mean": o[1], "rstd": o[2]}),
    ),
    "batch_norm_backward": (
        "batch_norm_train",
        backward_of("batch_norm_train", ["self", "weight", "bias"], lambda a, o: {"mean": o[1], "var": o[2]}),
    ),
    "attention_backward": (
        "attention",
        backward_of("attention", ["query", "key", "value", "attn_mask"], lambda a, o: {"output": o[0], "lse": o[1]}),
    ),
}

# -- cases


class Source:
    """Random inputs, the same every time for a case."""

    def __init__(self, row, text):
        self.row = row
        self.rng = torch.Generator().manual_seed(zlib.crc32((row["key"] + text).encode()))

    def domain(self, name):
        d = self.row["test"]["domain"]
        if isinstance(d, dict):
            d = d.get(name, next((v for v in d.values() if isinstance(v, list)), [-1, 1]))
        return d

    def tensor(self, name, shape, dtype, args):
        d = self.domain(name)
        if d == "int8":
            return torch.randint(-128, 128, shape, generator=self.rng).to(torch.int8)
        if isinstance(d, str):
            return self.index(d, shape, args)
        lo, hi = d
        if dtype == "bool":
            return torch.randint(0, 2, shape, generator=self.rng).bool()
        if not dtype_of(dtype).is_floating_point:
            lo, hi = math.ceil(lo), math.floor(hi)
            lo = max(lo, 0) if dtype == "uint8" else lo
            return torch.randint(lo, hi + 1, shape, generator=self.rng).to(dtype_of(dtype))
        x = torch.rand(shape, generator=self.rng, dtype=torch.float64) * (hi - lo) + lo
        return x.to(dtype_of(dtype))

    def index(self, what, shape, args):
        words = what.split()
        if words[0] == "class":
            x = args["self"]
            n = x.shape[0 if x.dim() == 1 else 1]
        elif words[1] == "below":
            n = int(words[2])
        else:
            axis = args["dim"] if words[-1] == "dim" else int(words[-1])
            x = args[words[2]]  # the shape alone, where the operand comes later
            n = getattr(x, "shape", x)[axis]
        if words[0] == "permutation":  # no index twice
            axis = args["dim"] if len(shape) > 1 else 0
            order = torch.rand([n if i == axis else k for i, k in enumerate(shape)], generator=self.rng)
            return order.argsort(axis).narrow(axis, 0, shape[axis])
        return torch.randint(0, n, shape, generator=self.rng)

    def number(self, name):
        lo, hi = self.domain(name)
        if name in ("step", "seed", "offset") or "F" not in self.row.get("dtypes", "F").upper():
            return int(torch.randint(int(lo), int(hi) + 1, (), generator=self.rng))
        return round(float(torch.rand((), generator=self.rng)) * (hi - lo) + lo, 4)


def resolve_sizes(row, args):
    """Sizes as the user's function records them."""
    if row["key"] == "reshape":
        args["shape"] = list(args["self"].reshape(args["shape"]).shape)
    if row["key"] == "expand":
        args["size"] = list(args["self"].expand(args["size"]).shape)
    if row["key"] == "select" and args["index"] < 0:
        args["index"] += args["self"].shape[args["dim"]]


def arguments(row, case, dtype):
    """Values of all parameters for a case, which gives shapes for tensors."""
    source, args = Source(row, json.dumps(case) + dtype), {}
    for p in row["params"]:
        name, kind, given = p["name"], p["type"], case.get(p["name"])
        other = f"{name} dtype" in case and case[f"{name} dtype"]
        if kind.startswith("Tensor") and kind != "Tensor[]":
            if isinstance(given, list):
                mask = name in ("mask", "condition") and "bool"
                args[name] = source.tensor(name, given, other or mask or dtype, {**case, **args})
            elif given is not None:
                args[name] = given
            else:
                args[name] = None if kind == "Tensor?" else source.number(name)
        elif kind == "Tensor[]":
            args[name] = [source.tensor(name, s, dtype, args) for s in given]
        elif kind == "Number":
            args[name] = given if given is not None else source.number(name)
        else:
            args[name] = given if name in case else p.get("default")
    return args


def elementwise_cases(row):
    operands = [p for p in row["params"] if p["type"] in ("Tensor", "Tensor|Number")]
    open_at = [p["name"] for p in operands if p["type"] == "Tensor|Number"]
    cases = [{p["name"]: s for p, s in zip(operands, shapes)} for shapes in ELEMENTWISE_SHAPES]
    if len(operands) > 1 and open_at:
        cases.append({p["name"]: [3, 2] for p in operands if p["name"] != open_at[-1]})
        if len(open_at) > 1:
            cases.append({p["name"]: [3, 2] for p in operands if p["name"] != open_at[0]})
    return cases


def dtypes_of(row):
    allowed = row.get("dtypes", "all")
    if row["kind"] == "primitive" and row["elementwise"]:
        return [d for d, c in (("float32", "F"), ("bfloat16", "F"), ("int64", "I"), ("int8", "I"), ("uint8", "I"), ("bool", "B"))
                if c in allowed or (allowed == "F" and d == "int64")]  # fmt: skip
    if allowed == "float" or "backward" in row["key"]:
        return FLOATS
    if allowed == "int":
        return ["int64", "int8", "uint8"]
    if row["elementwise"] or row["file"] in ("reduce", "movement", "indexing"):
        return [*FLOATS, "int64"]
    return FLOATS


def case_dtypes(row):
    if any(k in row["key"] for k in ("arange", "eye", "full")):
        return ["float32"]
    return dtypes_of(row)


# -- running


def reference(row, args):
    if row["key"] in TORCH:
        return TORCH[row["key"]](args)
    fn = getattr(torch, row["name"])
    if row["name"] in ("unsqueeze", "squeeze", "select", "permute", "transpose", "reshape", "flip", "cat", "stack"):
        return fn(*args.values())
    kw = flatten_dims(args)
    positional = [kw.pop(p["name"]) for p in row["params"] if not p["keyword_only"] and p["type"].startswith("Tensor")]
    return fn(*positional, **{k: v for k, v in kw.items() if not (v is None and k == "dtype")})


def widened(args):
    """Floats in float64: what a result rounded once from exact arithmetic is computed from."""
    wide = lambda v: v.double() if isinstance(v, torch.Tensor) and v.is_floating_point() else v  # noqa: E731
    return {k: [wide(x) for x in v] if isinstance(v, list) else wide(v) for k, v in args.items()}


def number(x):
    return x if isinstance(x, (bool, int)) else "nan" if math.isnan(x) else str(x) if math.isinf(x) else x


def dump(t):
    if t is None:
        return None
    values = t.double().flatten().tolist() if t.is_floating_point() else t.flatten().int().tolist()
    if t.dtype == torch.float32:
        values = [float(f"{v:.9g}") for v in values]
    return {"dtype": str(t.dtype)[6:], "shape": list(t.shape), "data": [number(v) for v in values]}


def dump_argument(p, v):
    if p["type"] == "Tensor[]":
        return [dump(x) for x in v]
    if isinstance(v, torch.Tensor):
        return dump(v)
    return "inf" if v == math.inf else v


def record(row, args, outputs):
    is_operand = lambda p: p["type"].startswith(("Tensor", "Number"))  # noqa: E731
    return {
        "op": row["key"],
        "in": [dump_argument(p, args[p["name"]]) for p in row["params"] if is_operand(p)],
        "attrs": [dump_argument(p, args[p["name"]]) for p in row["params"] if not is_operand(p)],
        "out": [dump(o) for o in outputs],
    }


def run(row, case, dtype):
    args = arguments(row, case, dtype)
    resolve_sizes(row, args)
    outputs = reference(row, args)
    outputs = list(outputs) if isinstance(outputs, tuple) else [outputs]
    if dtype == "bfloat16" and row["key"] not in ("sgd_step", "adam_step", "adamw_step"):
        exact = reference(row, widened(args))
        exact = exact if isinstance(exact, tuple) else [exact]
        # Values kept for a gradient are float32.
        types = [o.dtype if i < row["returns"] else torch.float32 for i, o in enumerate(outputs)]
        outputs = [e.to(t) if e.is_floating_point() else e for e, t in zip(exact, types)]
    return record(row, args, outputs)


def run_backward(row, rows, dtype):
    forward, make = BACKWARD[row["key"]]
    for case in rows[forward]["test"]["cases"]:
        args = arguments(rows[forward], case, dtype)
        extra, grads = make(args, torch.Generator().manual_seed(7))
        yield record(row, {**args, **extra}, grads)


def records(rows):
    for row in rows.values():
        if row["file"] == "complex":  # which are views of pairs; tests/python/test_complex.py compares them
            continue
        if row["kind"] == "composite" or row["internal"] or row["random"]:
            continue
        if row["key"] in BACKWARD:
            yield from run_backward(row, rows, "float32")
            continue
        cases = row["test"].get("cases") or elementwise_cases(row)
        for case in cases:
            for dtype in case_dtypes(row):
                try:
                    yield run(row, case, dtype)
                except (NotImplementedError, RuntimeError, TypeError) as e:
                    SKIPPED.append(f"{row['key']} {dtype} {case}: {str(e).splitlines()[0][:90]}")
        if row["elementwise"] and row["kind"] == "primitive" and row["key"] in ("add", "mul", "maximum", "lt", "where"):
            for a, b in MIXED:
                case = {"self": [2, 3], "other": [] if "zero-dim" in b else [3], "condition": [2, 3]}
                yield run(row, {**case, "self dtype": a, "other dtype": b.split()[0]}, a)


def main():
    rows = {r["key"]: r for r in json.loads(Path(sys.argv[1]).read_text())}
    torch.use_deterministic_algorithms(True)
    out = list(records(rows))
    path = Path(__file__).with_name("op_values.json")
    path.write_text("[\n" + ",\n".join(json.dumps(r, separators=(",", ":")) for r in out) + "\n]\n")
    print("torch does not take", *SKIPPED, sep="\n  ")
    print(f"{len(out)} records of {len({r['op'] for r in out})} ops")


if __name__ == "__main__":
    main()
