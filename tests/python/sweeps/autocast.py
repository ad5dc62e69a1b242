"""Ops under autocast on the CPU, of its lists and others, in either dtype, from operands of each."""

DTYPES = ("float32", "bfloat16", "float16", "float64")


def region(dtype="bfloat16", **options):
    return T.autocast("cpu", dtype=getattr(T, dtype), **options)


def in_bfloat16(function):
    with region():
        return function()


def in_region(name, function, *shapes, low=-2, high=2, dtypes=DTYPES, lower=("bfloat16", "float16")):
    """The function of tensors of these shapes, all of a dtype, and the first of another, and gradients of float32."""
    for to in lower:
        for dtype in dtypes:

            def alike():
                given = [arr(*shape, low=low, high=high).to(getattr(T, dtype)) for shape in shapes]
                with region(to):
                    return function(*given)

            case(f"{name} {to} of {dtype}", alike)

            def first():
                given = [arr(*shape, low=low, high=high) for shape in shapes]
                with region(to):
                    return function(given[0].to(getattr(T, dtype)), *given[1:])

            if len(shapes) > 1 and dtype in ("bfloat16", "float16"):
                case(f"{name} {to} of {dtype} and float32", first)

    def with_history():
        given = [arr(*shape, low=low, high=high).requires_grad_() for shape in shapes]
        with region():
            out = function(*given)
        total(out).backward()
        grads = [t.grad for t in given if t.grad is not None]
        return [out, *(str(g.dtype) for g in grads), *(g.bfloat16() for g in grads)]  # as precise as they are

    case(f"{name} gradients", with_history)


# -- products
in_region("matmul", lambda a, b: a @ b, (3, 4), (4, 5))
in_region("matmul vectors", T.matmul, (4,), (4,))
in_region("mm", T.mm, (3, 4), (4, 5))
in_region("bmm", T.bmm, (2, 3, 4), (2, 4, 5))
in_region("addmm", lambda c, a, b: T.addmm(c, a, b, beta=0.5, alpha=2.0), (3, 5), (3, 4), (4, 5))
in_region("baddbmm", T.baddbmm, (2, 3, 5), (2, 3, 4), (2, 4, 5))
in_region("addbmm", T.addbmm, (3, 5), (2, 3, 4), (2, 4, 5))
in_region("linear", F.linear, (3, 4), (5, 4), (5,))
in_region("linear no bias", F.linear, (2, 3, 4), (5, 4))
in_region("einsum", lambda a, b: T.einsum("ij,kj->ik", a, b), (3, 4), (5, 4))
in_region("einsum of all", lambda a, b: T.einsum("ij,ij->", a, b), (3, 4), (3, 4))
in_region("einsum without product", lambda a, b: T.einsum("ij,ij->ij", a, b), (3, 4), (3, 4))
in_region("tensordot", lambda a, b: T.tensordot(a, b, 1), (3, 4), (4, 5))
in_region("inner", T.inner, (3, 4), (5, 4))
in_region("outer", T.outer, (3,), (5,))
in_region("prelu", F.prelu, (2, 3, 4), (3,))
in_region("vecdot", T.linalg.vecdot, (3, 4), (3, 4))
# Not on the list: operands of two dtypes are torch's error there.
in_region("dot", T.dot, (4,), (4,))
in_region("vdot", T.vdot, (4,), (4,))
in_region("mv", T.mv, (3, 4), (4,))
in_region("addmv", T.addmv, (3,), (3, 4), (4,), dtypes=("float32", "bfloat16"))
in_region("addr", T.addr, (3, 4), (3,), (4,), dtypes=("float32", "bfloat16"))

in_region("conv1d", F.conv1d, (2, 3, 8), (4, 3, 3), (4,))
in_region("conv1d same", lambda x, w: F.conv1d(x, w, padding="same"), (2, 3, 8), (4, 3, 3))
in_region("conv2d", lambda x, w, b: F.conv2d(x, w, b, padding=1), (2, 3, 6, 6), (4, 3, 3, 3), (4,))
in_region("conv3d", F.conv3d, (1, 2, 4, 4, 4), (3, 2, 2, 2, 2))
in_region("conv_transpose1d", F.conv_transpose1d, (2, 3, 5), (3, 4, 3))
in_region("conv_transpose2d", F.conv_transpose2d, (2, 3, 5, 5), (3, 4, 3, 3), (4,))
in_region("conv_transpose3d", F.conv_transpose3d, (1, 2, 3, 3, 3), (2, 3, 2, 2, 2), dtypes=("float32", "bfloat16"))
in_region("attention", F.scaled_dot_product_attention, (2, 3, 4, 8), (2, 3, 4, 8), (2, 3, 4, 8), lower=("bfloat16",))

# -- float32
target = lambda: T.tensor([0, 2, 1])
in_region("cross_entropy", lambda x: F.cross_entropy(x, target()), (3, 4))
in_region("cross_entropy smooth", lambda x: F.cross_entropy(x, target(), label_smoothing=0.1, reduction="none"), (3, 4))
in_region("cross_entropy of probabilities", F.cross_entropy, (3, 4), (3, 4), low=0.1, high=1)
in_region("nll_loss", lambda x: F.nll_loss(x, target()), (3, 4))
in_region("mse_loss", F.mse_loss, (3, 4), (3, 4))
in_region("l1_loss", F.l1_loss, (3, 4), (3, 4))
in_region("smooth_l1_loss", F.smooth_l1_loss, (3, 4), (3, 4))
in_region("huber_loss", F.huber_loss, (3, 4), (3, 4))
in_region("kl_div", lambda a, b: F.kl_div(a, b, reduction="sum"), (3, 4), (3, 4), low=0.1, high=1)
in_region("poisson", F.poisson_nll_loss, (3, 4), (3, 4), low=0.1, high=1)
in_region("bce", F.binary_cross_entropy, (3, 4), (3, 4), low=0.1, high=0.9)
in_region("bce logits", F.binary_cross_entropy_with_logits, (3, 4), (3, 4), low=0.1, high=0.9)
in_region("soft_margin", lambda a, b: F.soft_margin_loss(a, b.detach()), (3, 4), (3, 4))
in_region("hinge", F.hinge_embedding_loss, (3, 4), (3, 4))
in_region("margin_ranking", F.margin_ranking_loss, (3,), (3,), (3,))
in_region("triplet", F.triplet_margin_loss, (3, 4), (3, 4), (3, 4))
in_region("cosine_embedding", lambda a, b: F.cosine_embedding_loss(a, b, T.tensor([1, -1, 1])), (3, 4), (3, 4))
lengths = (T.tensor([5, 5]), T.tensor([2, 3]))
labels = lambda: T.tensor([[1, 2, 1], [2, 1, 3]])
in_region(
    "ctc", lambda x: F.ctc_loss(x, labels(), *lengths), (5, 2, 4), low=-2, high=-1, dtypes=("float32", "bfloat16")
)
in_region("prod", T.prod, (3, 4))
in_region("prod of a dim", lambda x: x.prod(1), (3, 4))
in_region("prod in a dtype", lambda x: x.prod(1, dtype=T.float64), (3, 4))
in_region("quantile", lambda x: T.quantile(x, 0.3, 1), (3, 4))
in_region("nanquantile", lambda x: T.nanquantile(x, 0.3, 1), (3, 4))
in_region("cdist", T.cdist, (3, 4), (5, 4))
in_region("trace", T.trace, (4, 4))
in_region("max_pool3d", lambda x: F.max_pool3d(x, 2), (1, 2, 4, 4, 4))
in_region("avg_pool3d", lambda x: F.avg_pool3d(x, 2), (1, 2, 4, 4, 4))
in_region("adaptive_avg_pool3d", lambda x: F.adaptive_avg_pool3d(x, 2), (1, 2, 4, 4, 4))
in_region("adaptive_max_pool3d", lambda x: F.adaptive_max_pool3d(x, 2), (1, 2, 4, 4, 4))
in_region(
    "grid_sample", lambda x, g: F.grid_sample(x, g, align_corners=False), (1, 2, 4, 4), (1, 3, 3, 2), low=-1, high=1
)
for n, shape in ((1, (2, 3, 6)), (2, (2, 3, 6, 6)), (3, (1, 2, 5, 5, 5))):
    for mode in ("reflect", "replicate", "circular", "constant"):
        in_region(f"pad {mode} {n}", lambda x: F.pad(x, (1, 2) * n, mode=mode), shape, dtypes=("float32", "bfloat16"))
positive = lambda x: x @ x.transpose(-2, -1) + 4 * T.eye(3).to(x.dtype)
in_region("inv", T.linalg.inv, (3, 3), dtypes=("float32", "bfloat16", "float16"))
in_region("inverse", T.inverse, (3, 3), dtypes=("float32", "bfloat16"))
in_region("pinverse", lambda x: T.pinverse(x + 4 * T.eye(3).to(x.dtype)), (3, 3), dtypes=("float32", "bfloat16"))
in_region("solve", T.linalg.solve, (3, 3), (3, 2), dtypes=("float32", "bfloat16"))
in_region("cholesky", lambda x: T.linalg.cholesky(positive(x)), (3, 3), dtypes=("float32", "bfloat16"))
in_region("svdvals", T.linalg.svdvals, (3, 3), dtypes=("float32", "bfloat16"))
in_region("eigvalsh", T.linalg.eigvalsh, (3, 3), dtypes=("float32", "bfloat16"))

# -- the widest
in_region("cat", lambda a, b: T.cat([a, b]), (3, 4), (3, 4))
in_region("stack", lambda a, b: T.stack([a, b]), (3, 4), (3, 4))
in_region("index_copy", lambda a, b: a.index_copy(0, T.tensor([0, 2]), b), (3, 4), (2, 4))
in_region("hstack", lambda a, b: T.hstack([a, b]), (3, 4), (3, 4))
case("cat of both halves", lambda: in_bfloat16(lambda: T.cat([arr(2).bfloat16(), arr(2).half()])))
case("cat of integers", lambda: in_bfloat16(lambda: T.cat([T.tensor([1]), T.tensor([2.0])])))


# -- what is on no list of the CPU's: as it comes
for name in ("exp", "log", "sqrt", "rsqrt", "sum", "mean", "softmax", "log_softmax", "cumsum", "cumprod", "norm"):
    options = (0,) if name in ("softmax", "log_softmax", "cumsum", "cumprod") else ()
    in_region(name, lambda x: getattr(T, name)(x, *options), (3, 4), low=0.1, dtypes=("float32", "bfloat16"))
in_region("add", lambda a, b: a + b, (3, 4), (3, 4))
in_region("gelu", F.gelu, (3, 4), dtypes=("float32", "bfloat16"))
in_region("pow", lambda x: x**2, (3, 4), dtypes=("float32", "bfloat16"))
in_region("layer_norm", lambda x: F.layer_norm(x, (4,)), (3, 4), dtypes=("float32", "bfloat16"))
in_region("interpolate", lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), (1, 2, 3, 3), dtypes=("float32",))
in_region("affine_grid", lambda x: F.affine_grid(x, (1, 1, 3, 3), False), (1, 2, 3), dtypes=("float32",))
in_region("cosine_similarity", F.cosine_similarity, (3, 4), (3, 4), dtypes=("float32",))

# -- modules
for kind in ("LSTM", "GRU", "RNN"):
    for options in (dict(), dict(num_layers=2, bidirectional=True)):

        def recurrent():
            T.manual_seed(0)
            layer = getattr(nn, kind)(4, 3, **options)
            for p in layer.parameters():
                p.data = arr(*p.shape, low=-0.5, high=0.5)
            with region():
                return layer(arr(5, 2, 4))

        case(f"{kind} {options}", recurrent)
for kind in ("LSTMCell", "GRUCell", "RNNCell"):

    def cell():
        layer = getattr(nn, kind)(4, 3)
        for p in layer.parameters():
            p.data = arr(*p.shape, low=-0.5, high=0.5)
        with region():
            return layer(arr(2, 4))

    case(kind, cell)


def packed():
    layer = nn.LSTM(4, 3)
    for p in layer.parameters():
        p.data = arr(*p.shape, low=-0.5, high=0.5)
    with region():
        out, _ = layer(nn.utils.rnn.pack_padded_sequence(arr(5, 2, 4), [5, 3]))
    return out.data


case("LSTM packed", packed)


def filled(module):
    for p in module.parameters():
        p.data = arr(*p.shape, low=-0.5, high=0.5)
    return module


def transformed(make, *given):
    def body():
        layer = filled(make()).eval()
        inputs = [arr(*shape) for shape in given]
        with region():
            out = layer(*inputs)
        out = out[0] if isinstance(out, tuple) else out
        return [str(out.dtype), out.bfloat16()]

    return body


case("attention layer", transformed(lambda: nn.MultiheadAttention(8, 2), (5, 2, 8), (5, 2, 8), (5, 2, 8)))
case("encoder layer", transformed(lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), (2, 5, 8)))
case("decoder layer", transformed(lambda: nn.TransformerDecoderLayer(8, 2, 16), (5, 2, 8), (4, 2, 8)))
case(
    "conv, norm, pool",
    transformed(lambda: nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.MaxPool2d(2)), (2, 2, 8, 8)),
)
case("group norm", transformed(lambda: nn.Sequential(nn.Conv1d(2, 4, 3), nn.GroupNorm(2, 4)), (2, 2, 8)))
case(
    "instance norm",
    transformed(lambda: nn.Sequential(nn.Conv1d(2, 4, 3), nn.InstanceNorm1d(4, affine=True)), (2, 2, 8)),
)
case(
    "layer norm",
    transformed(lambda: nn.Sequential(nn.Linear(4, 6), nn.LayerNorm(6), nn.GELU(), nn.Dropout(0.1)), (3, 4)),
)
case("embedding", lambda: in_bfloat16(lambda: F.linear(filled(nn.Embedding(5, 4))(T.tensor([1, 2])), arr(3, 4))))

# -- regions
x, w = (lambda: arr(3, 4)), (lambda: arr(4, 4).requires_grad_())


def nested():
    a, b = x(), w()
    with region():
        first = a @ b
        with region(enabled=False):
            second = a @ b
            with region("float16"):
                third = a @ b.detach()
        fourth = a @ b
    return [first, second, third, fourth, a @ b]


def after_no_grad():
    a, b = x(), w()
    with region():
        with T.no_grad():
            first = a @ b
        out = a @ b + a @ b
    out.sum().backward()
    return [first, first.requires_grad, out, b.grad]


def states():
    seen = []

    def see():
        seen.append((T.is_autocast_enabled("cpu"), str(T.get_autocast_dtype("cpu")), T.is_autocast_cache_enabled()))

    see()
    with region("float16", cache_enabled=False):
        see()
        with region():
            see()
        see()
    see()
    return seen


@T.autocast("cpu")
def decorated(a, b):
    return a @ b


case("nested", nested)
case("after no_grad", after_no_grad)
case("states", states)
case("decorated", lambda: [decorated(x(), w()), T.is_autocast_enabled("cpu")])
case("in place", lambda: in_bfloat16(lambda: arr(3, 3).addmm_(arr(3, 4), arr(4, 3))))
case("out of place to in place", lambda: in_bfloat16(lambda: arr(3, 3).add_(arr(3, 4) @ arr(4, 3))))
case("not a callable", lambda: region()(1))
case("no string", lambda: T.autocast(T.device("cpu")))
case("unknown", lambda: T.autocast("nothing"))
case("other dtype", lambda: T.autocast("cpu", T.float64)._enabled)
case("available", lambda: [T.amp.is_autocast_available("cpu"), T.amp.is_autocast_available("cuda")])
case("defaults", lambda: [str(T.get_autocast_dtype("cpu")), str(T.get_autocast_dtype("cuda"))])
case("enable with 1", lambda: T.set_autocast_enabled("cpu", 1))
case("dtype 1", lambda: T.set_autocast_dtype("cpu", 1))


class Halves(T.autograd.Function):
    @staticmethod
    @T.amp.custom_fwd(device_type="cpu", cast_inputs=T.float32)
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a @ b

    @staticmethod
    @T.amp.custom_bwd(device_type="cpu")
    def backward(ctx, grad):
        a, b = ctx.saved_tensors
        return grad @ b.T, a.T @ grad


class Asis(T.autograd.Function):
    @staticmethod
    @T.amp.custom_fwd(device_type="cpu")
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a @ b

    @staticmethod
    @T.amp.custom_bwd(device_type="cpu")
    def backward(ctx, grad):
        a, b = ctx.saved_tensors
        return grad @ b.T, a.T @ grad


for kind in (Halves, Asis):
    for dtype in ("float32", "bfloat16"):

        def custom():
            a, b = arr(3, 4).to(getattr(T, dtype)).requires_grad_(), arr(4, 3).requires_grad_()
            with region():
                out = kind.apply(a, b)
            out.sum().backward()
            return [out, a.grad, b.grad]

        case(f"custom {kind.__name__} {dtype}", custom)


def checkpointed(reentrant):
    a, b = x().requires_grad_(), w()
    with region():
        out = T.utils.checkpoint.checkpoint(lambda t: F.gelu(t @ b) @ b, a, use_reentrant=reentrant)
    out.sum().backward()
    return [out, a.grad, b.grad]


case("checkpoint", lambda: checkpointed(False))
case("checkpoint reentrant", lambda: checkpointed(True))
