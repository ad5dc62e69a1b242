"""Modules and functions that are traced by torch.fx, and what becomes of them: the text of graph and code.

`python fx_models.py` prints it as JSON. With PyTorch's Python that is tests/golden/fx.json; test_fx.py runs it as
`python -m smolder.torch`, and compares. Written for torch.fx's public names, and nothing else.
"""

import copy
import json
import math
import operator
import pickle
import sys
from collections import namedtuple

import torch
import torch.nn.functional as F
from torch import fx, nn
from torch.fx.passes.shape_prop import ShapeProp
from torch.fx.passes.split_module import split_module

Pair = namedtuple("Pair", "left right")


def leaf(x, times=1):
    return x + times if x.sum() > 0 else x


fx.wrap("leaf")
fx.wrap("len")


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.1), nn.Linear(8, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


class Block(nn.Module):
    def __init__(self, inside, out, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(inside, out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(out)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(out)
        self.down = nn.Sequential(nn.Conv2d(inside, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x):
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += self.down(x)
        return self.relu(out)


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 3, 2, 1)
        self.blocks = nn.ModuleList([Block(4, 4), Block(4, 8, 2)])
        self.pool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(8, 5)

    def forward(self, x):
        x = F.max_pool2d(self.stem(x), 2)
        for block in self.blocks:
            x = block(x)
        return self.fc(torch.flatten(self.pool(x), 1))


class Attention(nn.Module):
    def __init__(self, size=8, heads=2):
        super().__init__()
        self.heads, self.size = heads, size // heads
        self.qkv = nn.Linear(size, 3 * size)
        self.out = nn.Linear(size, size)
        self.register_buffer("mask", torch.ones(4, 4).tril().view(1, 1, 4, 4))

    def forward(self, x):
        b, t, c = x.size()
        q, k, v = self.qkv(x).split(c, dim=2)
        q = q.view(b, t, self.heads, c // self.heads).transpose(1, 2)
        k = k.view(b, t, self.heads, c // self.heads).transpose(1, 2)
        v = v.view(b, t, self.heads, c // self.heads).transpose(1, 2)
        scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(self.size))
        scores = scores.masked_fill(self.mask[:, :, :4, :4] == 0, float("-inf"))
        y = F.softmax(scores, dim=-1) @ v
        return self.out(y.transpose(1, 2).contiguous().view(b, t, c))


class FlashAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(8)
        self.q = nn.Linear(8, 8)

    def forward(self, x, mask=None):
        h = self.norm(x)
        out = F.scaled_dot_product_attention(self.q(h), h, h, attn_mask=mask, is_causal=True)
        return x + F.gelu(F.linear(out, self.q.weight, self.q.bias), approximate="tanh")


class RNNCell(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight_ih = nn.Parameter(torch.ones(5, 3))
        self.weight_hh = nn.Parameter(torch.ones(5, 5))
        self.bias = nn.Parameter(torch.zeros(5))

    def forward(self, input, hidden):
        return torch.tanh(F.linear(input, self.weight_ih, self.bias) + hidden @ self.weight_hh.t())


class Unrolled(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = RNNCell()

    def forward(self, x, h):
        outs = []
        for step in range(3):
            h = self.cell(x[step], h)
            outs.append(h)
        return torch.stack(outs), h


class Dicts(nn.Module):
    def forward(self, batch):
        a, b = batch["a"], batch["b"]
        return {"sum": a + b, "list": [a, (b, a)], "slice": a[:, 1:3, ..., None]}


class Keywords(nn.Module):
    def forward(self, x, *, scale=2.0, bias=None, mode="add"):
        return torch.clamp(x * scale, min=-1, max=1)


class Defaults(nn.Module):
    def forward(self, x, dim=-1, keepdim: bool = True, names=("a", "b"), dtype=torch.float32):
        return x.sum(dim, keepdim=keepdim).to(dtype), names


class Variadic(nn.Module):
    def forward(self, first, *rest, **named):
        return first + rest[0] * named["last"]


class Slices(nn.Module):
    def forward(self, x, i):
        y = x[0], x[-1:], x[..., 1], x[:, None], x[i], x[i : i + 1], x[[0, 1]], x[x > 0]
        return y[0] + y[2], y


class Buffers(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(3))
        self.register_buffer("std", torch.ones(3), persistent=False)
        self.plain = torch.ones(3)
        self.scale = nn.Parameter(torch.ones(3))

    def forward(self, x):
        y = (x - self.mean) / self.std * self.scale + self.plain
        return (
            y,
            self.mean + x,
            self.plain * x,
            self.std.add(x),
            self.mean > x,
            self.scale - x,
            torch.add(self.plain, x),
        )


class Direct(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(3, 3)
        self.gains = nn.ParameterList([nn.Parameter(torch.ones(3)), nn.Parameter(torch.zeros(3))])

    def forward(self, x):
        return F.linear(x, self.inner.weight.t(), self.inner.bias) * self.gains[0] + self.inner.weight.shape[0]


class Functional(nn.Module):
    def forward(self, x, target):
        h = F.relu(F.layer_norm(x, (4,)))
        h = F.dropout(F.silu(h), 0.3, self.training) + F.leaky_relu(h, 0.2) + torch.relu(h) + F.elu(h)
        h = F.pad(h, (1, 1)).narrow(-1, 0, 4) + F.normalize(h, dim=1) + F.softplus(h) + F.hardtanh(h)
        return F.cross_entropy(h, target, label_smoothing=0.1) + F.mse_loss(h, x) + F.log_softmax(h, 1).sum()


class Norms(nn.Module):
    def forward(self, x):
        h = F.group_norm(x, 2) + F.batch_norm(x, torch.zeros(4), torch.ones(4)) + F.instance_norm(x)
        h = h + F.softsign(h) + F.tanhshrink(h) + torch.tensordot(F.glu(h, 1), torch.ones(3, 3), dims=1).mean()
        a, b = torch.meshgrid(h[0, 0, 0], h[0, 1, 0], indexing="ij")
        return (
            F.l1_loss(h, x),
            torch.exp_(h.clone()),
            a + b,
            torch.unique(torch.round(x)),
            F.interpolate(x, scale_factor=2),
        )


class TorchNames(nn.Module):
    def forward(self, x):
        a, b = torch.split(x, 2)
        c = torch.einsum("ij,kj->ik", a, b) + torch.linalg.norm(x) + torch.norm(b, dim=1, keepdim=True)
        d = (
            torch.special.xlog1py(c, c.abs())
            + torch.exp(c)
            + torch.max(c, dim=1, keepdim=True).values
            + torch.fft.fft(c).real
        )
        e = torch.cat([c, d], dim=0).chunk(2)[0] + torch.where(c > 0, c, torch.zeros_like(c))
        return torch.topk(e, 1)[0], torch.cdist(a, b), torch.arange(x.size(0)), torch.full((2,), 1.5)


class Methods(nn.Module):
    def forward(self, x):
        y = x.float().to("cpu").to(torch.float64).type_as(x).abs().add_(1).mul(x.new_ones(3))
        n = x.dim() + x.numel() + x.ndim
        return y.permute(0, 1).reshape(-1).unsqueeze(0).expand(2, -1), y.T, y.shape[-1], n, x.is_cuda


class Operators(nn.Module):
    def forward(self, x, y):
        a = x + y - 1 * x / 2 // 3 % 4
        b = -(a**2) @ y + abs(x) + (2 - x) + 2**y
        c = (x > y) & (x <= 1) | ~(x == y) ^ (x != 2)
        a += 1
        return a, b, c, 1 < x, +x, operator.add(x, y), divmod  # noqa: SIM300


class Wrapped(nn.Module):
    def forward(self, x):
        return leaf(x, times=3) * len(x) + math.sqrt(x.size(0)) + math.pi


class Constants(nn.Module):
    def forward(self, x):
        return (
            x + torch.tensor([1.0, 2.0, 3.0]),
            float("inf"),
            float("nan"),
            torch.device("cpu"),
            torch.int64,
            ...,
            None,
        )


class Shared(nn.Module):
    def __init__(self):
        super().__init__()
        self.one = nn.Linear(3, 3)
        self.two = self.one
        self.add = nn.Identity()
        self.max = nn.Tanh()

    def forward(self, x, input, type=None):
        return self.add(self.two(self.one(x))) + self.max(input)


class CustomLeaf(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = MLP()
        self.net = nn.ModuleDict({"inner": MLP(), "other": nn.Tanh()})

    def forward(self, x):
        return self.net["other"](self.net["inner"](x) + self.block(x))


class Flag(nn.Module):
    def forward(self, x, flag, n=3):
        if flag:
            for _ in range(n):
                x = x * 2
        return x + 1


class Checked(nn.Module):
    def forward(self, x):
        torch._assert(x.size(0) == 2, "two rows")
        return x.size(-1) * x


class Trees(nn.Module):
    def forward(self, x, batch):
        total = x
        for value in batch.values():
            total = total + value
        return {"total": total, "first": [x]}


class Tuples(nn.Module):
    def forward(self, x):
        pair = Pair(x, x + 1)
        return Pair(pair.right, x.view((2, -1))), torch.nn.functional.one_hot(x.long(), 4), (x,)


class Losses(nn.Module):
    def __init__(self):
        super().__init__()
        self.loss = nn.CrossEntropyLoss()
        self.mha = nn.MultiheadAttention(4, 2)
        self.gru = nn.GRU(4, 4)
        self.emb = nn.Embedding(5, 4)

    def forward(self, ids, target):
        x = self.emb(ids)
        y, _ = self.mha(x, x, x, need_weights=False)
        z, state = self.gru(y)
        return self.loss(z.flatten(0, 1), target), state


class Leaves(fx.Tracer):
    def is_leaf_module(self, m, module_qualified_name):
        return isinstance(m, MLP) or super().is_leaf_module(m, module_qualified_name)


class NoLeaves(fx.Tracer):
    """Traces through torch's own modules too."""

    def is_leaf_module(self, m, module_qualified_name):
        return False


class Through(nn.Module):
    def __init__(self):
        super().__init__()
        self.convs = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.AvgPool2d(2))
        self.rest = nn.Sequential(nn.Flatten(), nn.Linear(16, 4), nn.LayerNorm(4), nn.GELU(), nn.Softmax(dim=1))
        self.acts = nn.Sequential(nn.SiLU(), nn.LeakyReLU(), nn.Sigmoid(), nn.Tanh(), nn.ELU(), nn.Hardtanh())
        self.drop = nn.Dropout(0.5)
        self.emb = nn.Embedding(4, 4)

    def forward(self, x, ids):
        return self.drop(self.acts(self.rest(self.convs(x)))) + self.emb(ids)


def through(model):
    graph = NoLeaves().trace(model.eval())
    return fx.GraphModule(model, graph)


def with_leaves(model):
    return fx.GraphModule(model, Leaves().trace(model))


TRACED = {
    "mlp": lambda: fx.symbolic_trace(MLP()),
    "resnet": lambda: fx.symbolic_trace(ResNet()),
    "attention": lambda: fx.symbolic_trace(Attention()),
    "flash": lambda: fx.symbolic_trace(FlashAttention()),
    "rnn_cell": lambda: fx.symbolic_trace(RNNCell()),
    "unrolled": lambda: fx.symbolic_trace(Unrolled()),
    "dicts": lambda: fx.symbolic_trace(Dicts()),
    "keywords": lambda: fx.symbolic_trace(Keywords()),
    "defaults": lambda: fx.symbolic_trace(Defaults()),
    "variadic": lambda: fx.symbolic_trace(Variadic()),
    "slices": lambda: fx.symbolic_trace(Slices()),
    "buffers": lambda: fx.symbolic_trace(Buffers()),
    "direct": lambda: fx.symbolic_trace(Direct()),
    "functional": lambda: fx.symbolic_trace(Functional()),
    "norms": lambda: fx.symbolic_trace(Norms()),
    "torch_names": lambda: fx.symbolic_trace(TorchNames()),
    "methods": lambda: fx.symbolic_trace(Methods()),
    "operators": lambda: fx.symbolic_trace(lambda x, y: Operators().forward(x, y)[:-1]),
    "wrapped": lambda: fx.symbolic_trace(Wrapped()),
    "constants": lambda: fx.symbolic_trace(Constants()),
    "shared": lambda: fx.symbolic_trace(Shared()),
    "custom_leaf": lambda: with_leaves(CustomLeaf()),
    "not_leaf": lambda: fx.symbolic_trace(CustomLeaf()),
    "through": lambda: through(Through()),
    "flag": lambda: fx.symbolic_trace(Flag(), concrete_args={"flag": True, "n": 2}),
    "no_flag": lambda: fx.symbolic_trace(Flag(), concrete_args={"flag": None}),
    "trees": lambda: fx.symbolic_trace(Trees(), concrete_args={"batch": {"a": fx.PH, "b": fx.PH}}),
    "checked": lambda: fx.symbolic_trace(Checked()),
    "tuples": lambda: fx.symbolic_trace(Tuples()),
    "losses": lambda: fx.symbolic_trace(Losses()),
}


def by_hand():
    graph = fx.Graph()
    x, y = graph.placeholder("x"), graph.placeholder("y", default_value=3)
    p = fx.Proxy(x)
    out = torch.relu(p).neg() + F.relu(p, inplace=True) * fx.Proxy(y)
    with graph.inserting_before(out.node):
        extra = graph.call_function(torch.sigmoid, (x,))
    with graph.inserting_after(x):
        graph.call_method("exp", (x,))
    out.node.args = (extra, out.node.args[1])
    graph.output([out.node, {"y": y}])
    text = [str(graph), str(graph.eliminate_dead_code())]
    module = fx.GraphModule({}, graph)
    return [*text, str(graph), module.code, str(next(iter(graph.nodes)) < out.node)]


class Swaps(fx.Transformer):
    def call_function(self, target, args, kwargs):
        return F.silu(args[0]) if target is F.relu else super().call_function(target, args, kwargs)

    def call_method(self, target, args, kwargs):
        return args[0].abs() if target == "neg" else super().call_method(target, args, kwargs)


def replaced():
    def model(x, w1, w2):
        m1 = torch.cat([w1, w2]).sum()
        m2 = torch.cat([w1, w2]).sum()
        return x + torch.max(m1) + torch.max(m2) + F.relu(x + 1) * F.relu(w1 + 1)

    traced = fx.symbolic_trace(model)
    first = fx.replace_pattern(traced, lambda a, b: torch.cat([a, b]), lambda a, b: torch.stack([a, b]))
    text = traced.code
    second = fx.replace_pattern(traced, lambda a: F.relu(a + 1), lambda a: a.clamp(min=0).add(1))
    found = [[len(first), len(second)], [sorted(map(str, m.nodes_map.values())) for m in (*first, *second)]]
    return [text, traced.code, found]


def split():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.param = nn.Parameter(torch.ones(3, 4))
            self.linear = nn.Linear(4, 5)

        def forward(self, x, y):
            z = self.linear(x + self.param).clamp(min=0.0, max=1.0)
            w = self.linear(y).clamp(min=0.0, max=1.0)
            return z + w

    traced = fx.symbolic_trace(Model())
    count, names = iter(range(100)), {}
    parts = {n: next(count) % 3 for n in traced.graph.nodes if n.op not in ("placeholder", "get_attr", "output")}
    made = split_module(traced, traced, parts.__getitem__, names)
    return [made.code, *(m.code for m in made.children()), names, str(made)]


def shapes():
    traced = fx.symbolic_trace(Attention())
    ShapeProp(traced).propagate(torch.ones(2, 4, 8))
    meta = [(n.name, str(n.meta.get("tensor_meta")), str(n.meta["type"].__name__)) for n in traced.graph.nodes]
    return [meta, traced.print_readable(print_output=False)]


OTHERS = {
    "by_hand": by_hand,
    "transformed": lambda: Swaps(fx.symbolic_trace(lambda x: F.relu(x).neg() + 1)).transform().code,
    "replaced": replaced,
    "split": split,
    "shapes": shapes,
    "table": lambda: [
        [str(n.op), n.name, str(n.args), str(n.kwargs)] for n in fx.symbolic_trace(Keywords()).graph.nodes
    ],
    "module_text": lambda: str(fx.symbolic_trace(MLP())),
    "meta": lambda: [
        [n.name, str({key: list(value.items()) for key, value in n.meta.items()})]
        for n in fx.symbolic_trace(CustomLeaf()).graph.nodes
    ],
}

# Functions, with as many arguments as they take at least: what a call of each is recorded as.
FUNCTIONS = """
abs_:1 acos_:1 acosh_:1 addmv_:3 arccos_:1 arcsin_:1 arctan_:1 asin_:1 asinh_:1 atan_:1 atanh_:1 atleast_1d:1
atleast_2d:1 atleast_3d:1 block_diag:1 broadcast_tensors:1 cartesian_prod:1 cdist:2 ceil_:1 celu_:1 clamp_:1
clamp_max_:2 clamp_min_:2 clip_:1 cos_:1 cosh_:1 deg2rad_:1 detach_:1 einsum:2 erf_:1 erfc_:1 exp2_:1 exp_:1
expm1_:1 fill_:2 fix_:1 floor_:1 frac_:1 index_put_:3 ldexp_:2 log10_:1 log1p_:1 log2_:1 log_:1 logit_:1
meshgrid:1 nan_to_num_:1 neg_:1 negative_:1 norm:1 pca_lowrank:1 rad2deg_:1 reciprocal_:1 relu_:1 resize_as_:2
round_:1 rrelu_:1 rsqrt_:1 selu_:1 sigmoid_:1 sin_:1 sinc_:1 sinh_:1 split:2 sqrt_:1 square_:1 stft:2
svd_lowrank:1 tan_:1 tanh_:1 tensordot:2 threshold_:3 trunc_:1 unique:1 unique_consecutive:1 xlogy_:2 zero_:1
nn.functional.adaptive_avg_pool1d:2 nn.functional.adaptive_avg_pool2d:2 nn.functional.adaptive_avg_pool3d:2
nn.functional.adaptive_max_pool1d:2 nn.functional.adaptive_max_pool2d:2 nn.functional.adaptive_max_pool3d:2
nn.functional.affine_grid:2 nn.functional.avg_pool1d:2 nn.functional.avg_pool2d:2 nn.functional.avg_pool3d:2
nn.functional.batch_norm:3 nn.functional.binary_cross_entropy:2 nn.functional.binary_cross_entropy_with_logits:2
nn.functional.celu:1 nn.functional.channel_shuffle:2 nn.functional.conv1d:2 nn.functional.conv2d:2
nn.functional.conv3d:2 nn.functional.conv_transpose1d:2 nn.functional.conv_transpose2d:2
nn.functional.conv_transpose3d:2 nn.functional.cosine_embedding_loss:3 nn.functional.cosine_similarity:2
nn.functional.cross_entropy:2 nn.functional.ctc_loss:4 nn.functional.dropout:1 nn.functional.dropout1d:1
nn.functional.dropout2d:1 nn.functional.dropout3d:1 nn.functional.elu:1 nn.functional.elu_:1
nn.functional.embedding:2 nn.functional.embedding_bag:2 nn.functional.fold:3 nn.functional.gaussian_nll_loss:3
nn.functional.gelu:1 nn.functional.glu:1 nn.functional.grid_sample:2 nn.functional.group_norm:2
nn.functional.gumbel_softmax:1 nn.functional.hardshrink:1 nn.functional.hardsigmoid:1 nn.functional.hardswish:1
nn.functional.hardtanh:1 nn.functional.hardtanh_:1 nn.functional.hinge_embedding_loss:2 nn.functional.huber_loss:2
nn.functional.instance_norm:1 nn.functional.interpolate:1 nn.functional.kl_div:2 nn.functional.l1_loss:2
nn.functional.layer_norm:2 nn.functional.leaky_relu:1 nn.functional.leaky_relu_:1 nn.functional.linear:2
nn.functional.log_softmax:1 nn.functional.logsigmoid:1 nn.functional.margin_ranking_loss:3
nn.functional.max_pool1d:2 nn.functional.max_pool2d:2 nn.functional.max_pool3d:2 nn.functional.mish:1
nn.functional.mse_loss:2 nn.functional.nll_loss:2 nn.functional.normalize:1 nn.functional.one_hot:1
nn.functional.pad:2 nn.functional.pairwise_distance:2 nn.functional.pixel_shuffle:2
nn.functional.pixel_unshuffle:2 nn.functional.poisson_nll_loss:2 nn.functional.prelu:2 nn.functional.relu:1
nn.functional.relu6:1 nn.functional.rms_norm:2 nn.functional.rrelu:1 nn.functional.scaled_dot_product_attention:3
nn.functional.selu:1 nn.functional.silu:1 nn.functional.smooth_l1_loss:2 nn.functional.soft_margin_loss:2
nn.functional.softmax:1 nn.functional.softmin:1 nn.functional.softplus:1 nn.functional.softshrink:1
nn.functional.softsign:1 nn.functional.tanhshrink:1 nn.functional.triplet_margin_loss:3 nn.functional.unfold:2
nn.functional.upsample:1 nn.functional.upsample_bilinear:1 nn.functional.upsample_nearest:1 linalg.cholesky:1
linalg.cholesky_ex:1 linalg.cond:1 linalg.cross:2 linalg.det:1 linalg.diagonal:1 linalg.eigh:1 linalg.eigvalsh:1
linalg.householder_product:2 linalg.inv:1 linalg.inv_ex:1 linalg.lstsq:2 linalg.lu:1 linalg.lu_factor:1
linalg.lu_factor_ex:1 linalg.lu_solve:3 linalg.matmul:2 linalg.matrix_exp:1 linalg.matrix_norm:1
linalg.matrix_power:2 linalg.matrix_rank:1 linalg.multi_dot:1 linalg.norm:1 linalg.pinv:1 linalg.qr:1
linalg.slogdet:1 linalg.solve:2 linalg.solve_ex:2 linalg.svd:1 linalg.svdvals:1 linalg.tensorinv:1
linalg.tensorsolve:2 linalg.vander:1 linalg.vecdot:2 linalg.vector_norm:1 special.entr:1 special.gammainc:2
special.gammaincc:2 special.i0:1 special.i0e:1 special.i1:1 special.i1e:1 special.multigammaln:2 special.ndtr:1
special.xlog1py:2 fft.fft:1 fft.fft2:1 fft.fftn:1 fft.fftshift:1 fft.hfft:1 fft.hfft2:1 fft.hfftn:1 fft.ifft:1
fft.ifft2:1 fft.ifftn:1 fft.ifftshift:1 fft.ihfft:1 fft.ihfft2:1 fft.ihfftn:1 fft.irfft:1 fft.irfft2:1
fft.irfftn:1 fft.rfft:1 fft.rfft2:1 fft.rfftn:1
"""


def recorded(path, count):
    graph = fx.Graph()
    tracer = fx.proxy.GraphAppendingTracer(graph)
    function = torch
    for part in path.split("."):
        function = getattr(function, part)
    return function(*(fx.Proxy(graph.placeholder("abcdefg"[i]), tracer) for i in range(count))).node.format_node()


REFUSED = {
    "branch": lambda x: x if x.sum() > 0 else -x,
    "not": lambda x: not x,
    "loop": lambda x: list(x),
    "star": lambda x: torch.cat([*x]),
    "in": lambda x: 1 in x,
    "float": lambda x: float(x),
    "int": lambda x: int(x),
    "range": lambda x: list(range(x)),
    "index": lambda x: [1, 2][x],
    "kwargs": lambda x: dict(**x),
    "round": lambda x: round(x),
    "module": lambda x: nn.Linear(2, 2)(x),
    "object": lambda x: x.add(object()),
    "setitem": lambda x: operator.setitem([1], 0, x) or x.__setitem__,
    "erase": lambda x: next(iter(x.tracer.graph.nodes)).graph.erase_node((x + 1).node.args[0]),
    "mutate": lambda x: torch.cat([x, x]).node.args[0].append(1),
    "lint": lambda x: x.tracer.graph.output(fx.Graph().placeholder("other")) and x.tracer.graph.lint(),
    "target": lambda x: x.tracer.graph.create_node("call_function", "name"),
    "op": lambda x: x.tracer.graph.create_node("call", "name"),
}


def leaves_of(value):
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return [x for v in value for x in leaves_of(v)]
    return [value]


def same(a, b):
    """Whether two results are alike, bit for bit."""
    a, b = leaves_of(a), leaves_of(b)
    pairs = list(zip(a, b, strict=True))
    return all(torch.equal(x, y) if isinstance(x, torch.Tensor) else x == y or x != x for x, y in pairs)


def batch(*shape):
    return torch.arange(math.prod(shape), dtype=torch.float32).reshape(shape) / 7 - 1


# Modules with arguments for which a graph of each does what the module does.
VALUES = {
    "mlp": (MLP, lambda: (batch(2, 4),)),
    "resnet": (ResNet, lambda: (batch(2, 3, 16, 16),)),
    "attention": (Attention, lambda: (batch(2, 4, 8),)),
    "flash": (FlashAttention, lambda: (batch(2, 4, 8),)),
    "rnn_cell": (RNNCell, lambda: (batch(2, 3), batch(2, 5))),
    "unrolled": (Unrolled, lambda: (batch(3, 2, 3), batch(2, 5))),
    "dicts": (Dicts, lambda: ({"a": batch(2, 4), "b": batch(2, 4)},)),
    "keywords": (Keywords, lambda: (batch(3),)),
    "defaults": (Defaults, lambda: (batch(2, 3), 0)),
    "slices": (Slices, lambda: (batch(3, 3), 1)),
    "buffers": (Buffers, lambda: (batch(2, 3),)),
    "direct": (Direct, lambda: (batch(2, 3),)),
    "functional": (Functional, lambda: (batch(2, 4), torch.tensor([1, 2]))),
    "norms": (Norms, lambda: (batch(2, 4, 3, 3),)),
    "torch_names": (TorchNames, lambda: (batch(4, 3),)),
    "methods": (Methods, lambda: (batch(2, 3),)),
    "wrapped": (Wrapped, lambda: (batch(3),)),
    "constants": (Constants, lambda: (batch(3),)),
    "shared": (Shared, lambda: (batch(2, 3), batch(2, 3))),
    "custom_leaf": (CustomLeaf, lambda: (batch(2, 4),)),
    "through": (Through, lambda: (batch(4, 3, 8, 8), torch.tensor([0, 1, 2, 3]))),
    "checked": (Checked, lambda: (batch(2, 3),)),
    "tuples": (Tuples, lambda: (batch(2, 3).abs(),)),
    "losses": (Losses, lambda: (torch.tensor([[0, 1], [2, 3]]), torch.tensor([0, 1, 2, 3]))),
}


def runs_alike(make, inputs):
    """Results of a module's graph: traced, copied, and gone through node by node."""
    model = make().eval()
    traced, expected = fx.symbolic_trace(model), model(*inputs())
    copied = pickle.loads(pickle.dumps(copy.deepcopy(traced)))
    found = [traced(*inputs()), copied(*inputs()), fx.Interpreter(traced).run(*inputs())]
    return [same(f, expected) for f in found]


def error_of(function):
    try:
        return ["no error", str(function())]
    except BaseException as error:
        return [type(error).__name__, str(error).split("\n")[0]]


def main():
    out = {"graphs": {}, "others": {}, "errors": {}, "values": {}}
    for name, make in TRACED.items():
        try:
            traced = make()
            out["graphs"][name] = [str(traced.graph).split("\n"), traced.code.split("\n")]
        except Exception as error:
            out["graphs"][name] = [*error_of(make), str(error)]
    for name, make in OTHERS.items():
        try:
            out["others"][name] = make()
        except Exception as error:
            out["others"][name] = [type(error).__name__, str(error)]
    for name, function in REFUSED.items():
        out["errors"][name] = error_of(lambda f=function: fx.symbolic_trace(f).code)
    out["functions"] = {}
    for word in FUNCTIONS.split():
        path, _, count = word.partition(":")
        out["functions"][path] = recorded(path, int(count))
    for name, (make, inputs) in VALUES.items():
        try:
            out["values"][name] = runs_alike(make, inputs)
        except Exception as error:
            out["values"][name] = [type(error).__name__, str(error)]
    return out


if __name__ == "__main__":
    json.dump(main(), sys.stdout, indent=1)
