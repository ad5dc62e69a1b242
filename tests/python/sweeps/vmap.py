"""vmap: elements, dims, randomness, writes, transforms of each other, and mistakes."""

fn = T.func
vmap, grad, vjp, jvp, jacrev, jacfwd, hessian = (
    getattr(fn, name) for name in ("vmap", "grad", "vjp", "jvp", "jacrev", "jacfwd", "hessian")
)


def filled(m):
    with T.no_grad():
        for i, p in enumerate(m.parameters()):
            p.copy_(T.tensor(np.random.default_rng(i).uniform(-0.5, 0.5, tuple(p.shape)).astype("float32")))
    return m


def state(m):
    return {k: v.detach() for k, v in m.named_parameters()}


# -- dims and forms

case("axes", lambda: vmap(lambda a: a * 2 + a.sum(), -1, -1)(arr(3, 4, 5)))
case("middle", lambda: vmap(lambda a, b: a @ b, (1, 2), 1)(arr(3, 2, 4), arr(4, 5, 2)))
case("none", lambda: vmap(lambda a, b: a @ b, (None, 0))(arr(3, 4), arr(2, 4)))
case(
    "tree",
    lambda: list(
        vmap(lambda t: {"s": t["a"] + t["b"][0], "a": t["a"]}, ({"a": 0, "b": [None]},))(
            {"a": arr(2, 3), "b": [arr(3)]}
        ).values()
    ),
)
case("out none", lambda: vmap(lambda a: (a, T.ones(2)), out_dims=(0, None))(arr(3)))
case("unbatched result", lambda: vmap(lambda a: T.arange(3))(arr(2, 3)))
case("no elements", lambda: vmap(lambda a: a.sin().sum())(arr(0, 3)))
case("one element", lambda: vmap(lambda a: a.softmax(0))(arr(1, 3)))
case("number", lambda: vmap(lambda a, n: a * n, (0, None))(arr(3), 2))
case("chunks", lambda: vmap(lambda a, b: a @ b, (0, 1), 1, chunk_size=2)(arr(5, 3, 2), arr(2, 5)))
case("chunks of trees", lambda: list(vmap(lambda a: {"s": a.sum(), "a": a}, chunk_size=3)(arr(7, 2)).values()))
case("keywords", lambda: vmap(lambda a, scale: a * scale)(arr(3), scale=T.tensor(2.0)))
case("nested", lambda: vmap(vmap(lambda a, b: (a - b).pow(2).sum(), (None, 0)), (0, None))(arr(4, 3), arr(5, 3)))
case("nested axes", lambda: vmap(vmap(lambda a: a.cumsum(0), 1, 1), 2, 2)(arr(3, 4, 2)))
case("thrice", lambda: vmap(vmap(vmap(T.sin)))(arr(2, 3, 4)))
case("numbers promote", lambda: vmap(lambda a, b: a + b)(arr(3, 2), arr(3, dtype="float64")))
case("integers promote", lambda: vmap(lambda a, b: a * b)(T.arange(6).reshape(3, 2), arr(3)))
case("where", lambda: vmap(lambda a: T.where(a > 0, a, 0.0))(arr(3, 4)))
case("comparison", lambda: vmap(lambda a, b: a > b, (0, None))(arr(3, 4), arr(4)))

# -- indices, writes and views

case("rows", lambda: vmap(lambda a, i: a[i])(arr(3, 5), T.tensor([1, 0, 4])))
case("several rows", lambda: vmap(lambda a, i: a[i])(arr(3, 5, 2), T.tensor([[1, 2], [0, 0], [4, -1]])))
case("shared table", lambda: vmap(lambda a, i: a[i], (None, 0))(arr(5, 2), T.tensor([[1, 2], [0, 0], [4, 3]])))
case(
    "pairs", lambda: vmap(lambda a, i, j: a[i, j])(arr(2, 4, 5), T.tensor([[1, 2], [3, 0]]), T.tensor([[0, 1], [4, 2]]))
)
case("slices", lambda: vmap(lambda a: a[1:, ::2])(arr(3, 4, 5)))
case("gather", lambda: vmap(lambda a, i: a.gather(0, i))(arr(2, 5), T.tensor([[1, 2], [4, 4]])))
case("embedding", lambda: vmap(lambda w, i: F.embedding(i, w))(arr(2, 5, 3), T.tensor([[1, 2], [4, 4]])))
case("take", lambda: vmap(lambda a, i: a.take(i), (0, None))(arr(2, 5), T.tensor([1, 3])))
case("scatter", lambda: vmap(lambda a, i, s: a.scatter_add(0, i, s))(arr(2, 5), T.tensor([[1, 1], [4, 0]]), arr(2, 2)))
case(
    "index_add",
    lambda: vmap(lambda a, i, s: a.index_add(0, i, s))(arr(2, 5, 3), T.tensor([[1, 1], [4, 0]]), arr(2, 2, 3)),
)
case("index_put", lambda: vmap(lambda a, i, v: a.index_put((i,), v))(arr(2, 5), T.tensor([[1, 2], [4, 0]]), arr(2, 2)))


def into_zeros(like):
    def f(a):
        z = like(a)
        z[0] = a[0] * 2
        z[1:] += a[1:].sum()
        return z

    return f


case("writes to zeros_like", lambda: vmap(into_zeros(T.zeros_like))(arr(3, 4)))
case("writes to new_zeros", lambda: vmap(into_zeros(lambda a: a.new_zeros(4)))(arr(3, 4)))
case("writes to clone", lambda: vmap(into_zeros(lambda a: a.clone()))(arr(3, 4)))
case("writes to zeros", lambda: vmap(into_zeros(lambda a: T.zeros(4)))(arr(3, 4)))


def writes_input(f, **options):
    x = arr(3, 4)
    return lambda: (vmap(f, **options)(x), x)


case("writes to the input", writes_input(lambda a: a.mul_(2)))
case("writes to a view", writes_input(lambda a: a[1:].add_(a[0]) * 1))
case("writes along the last axis", writes_input(lambda a: a.add_(1) * 1, in_dims=1))
case("writes what is the same", writes_input(lambda a: a.copy_(T.ones(4)) * 1))
case("fills", writes_input(lambda a: a.fill_(3.0) * 1))
case("masked writes", writes_input(lambda a: a.masked_fill_(a > 0, 0.5) * 1))


def chain(a):
    b = a * 2
    v = b[1:]
    v.mul_(3)
    b.add_(1)
    return b, v


case("views see writes", lambda: vmap(chain)(arr(3, 4)))
case("gradients of writes", lambda: vmap(grad(lambda a: (chain(a)[0] * chain(a)[1].sum()).sum()))(arr(3, 4)))

# -- transforms

case("grad", lambda: vmap(grad(lambda a: (a.sin() * a).sum()))(arr(3, 4)))
case("grad of shared", lambda: vmap(grad(lambda w, a: (w @ a).tanh().sum()), (None, 0))(arr(2, 4), arr(3, 4)))
case(
    "grad outside",
    lambda: grad(lambda w, a: vmap(lambda a: (w @ a).tanh().sum())(a).pow(2).sum())(arr(2, 4), arr(3, 4)),
)
case("grad grad", lambda: vmap(grad(grad(lambda a: (a**3).sum() * a)))(arr(3)))
x3 = T.tensor(np.sin(np.arange(12.0)).reshape(3, 4).astype("float32"))
case("grad of vmap of grad", lambda: grad(lambda w: vmap(grad(lambda a: (w * a).sin().sum()))(x3).pow(2).sum())(arr(4)))
case("closure", lambda: vmap(grad(lambda a: (x3 @ a).pow(2).sum()))(arr(2, 4)))
case("vjp", lambda: vmap(lambda a, t: vjp(lambda b: b.sin() * b.sum(), a)[1](t)[0])(arr(3, 4), arr(3, 4)))
case("jvp", lambda: vmap(lambda a, t: jvp(lambda b: b.sin() * b.sum(), (a,), (t,)))(arr(3, 4), arr(3, 4)))
case("tangents alone", lambda: vmap(lambda t: jvp(lambda b: b.sin() * b.sum(), (x3[0],), (t,))[1])(arr(3, 4)))
case("jacrev", lambda: vmap(jacrev(lambda a: a.cumsum(0) * a))(arr(3, 4)))
case("jacfwd", lambda: vmap(jacfwd(lambda a: a.cumsum(0) * a))(arr(3, 4)))
case("hessian", lambda: vmap(hessian(lambda a: a.prod() + (a**3).sum()))(arr(3, 4)))
case("jacrev chunks", lambda: jacrev(lambda a: a.cumsum(0) * a, chunk_size=3)(arr(4)))
case("jacrev of vmap", lambda: jacrev(vmap(lambda a: a.sin() * a.sum()))(arr(2, 3)))
case("jacfwd of vmap", lambda: jacfwd(vmap(lambda a: a.sin() * a.sum()))(arr(2, 3)))
case("jacfwd several", lambda: jacfwd(lambda a, b: (a @ b, b * 2), (0, 1))(arr(2, 3), arr(3)))
case("jacrev with aux", lambda: jacrev(lambda a: (a * a, a.sum()), has_aux=True)(arr(3)))
case("jacfwd with aux", lambda: jacfwd(lambda a: (a * a, a.sum()), has_aux=True)(arr(3)))
case("hessian several", lambda: hessian(lambda a, b: (a * b).sum() ** 2, (0, 1))(arr(3), arr(3)))
case("hessian of rows", lambda: hessian(lambda a: (a @ a.T).sin().sum())(arr(2, 3)))
case("hvp", lambda: vmap(lambda a, v: jvp(grad(lambda b: (b**3).sum()), (a,), (v,))[1])(arr(3, 4), arr(3, 4)))


def backward(f, *xs):
    xs = [x.requires_grad_() for x in xs]
    out = f(*xs)
    out.backward()
    return [out, *(x.grad for x in xs)]


case("backward", lambda: backward(lambda w, a: vmap(lambda b: (w @ b).tanh().sum())(a).prod(), arr(2, 4), arr(3, 4)))
leaf = T.tensor([0.5, -1.0, 2.0]).requires_grad_()
y3 = lambda: leaf.cumsum(0) * leaf
case("batched grads", lambda: T.autograd.grad(y3(), [leaf], T.eye(3), is_grads_batched=True))
case("vectorized jacobian", lambda: T.autograd.functional.jacobian(lambda a: a.cumsum(0) * a, arr(3), vectorize=True))
case("vectorized hessian", lambda: T.autograd.functional.hessian(lambda a: (a**3).sum() * a[0], arr(3), vectorize=True))
case("strict", lambda: T.autograd.functional.jacobian(lambda a: a, arr(3), vectorize=True, strict=True))
case("no_grad", lambda: vmap(grad(lambda a: (a.detach() * a).sum()))(arr(3, 4)))

# -- modules

NETS = {
    "mlp": (lambda: nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)), (4,)),
    "cnn": (
        lambda: nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(0), nn.Linear(8, 3)),
        (1, 6, 6),
    ),
    "norm": (lambda: nn.Sequential(nn.Linear(4, 6), nn.LayerNorm(6), nn.GELU(), nn.Linear(6, 3)), (4,)),
    "grouped": (
        lambda: nn.Sequential(
            nn.Conv1d(4, 4, 3, groups=2, padding=1), nn.GroupNorm(2, 4), nn.Flatten(0), nn.Linear(20, 3)
        ),
        (4, 5),
    ),
}
for name, (make, shape) in NETS.items():
    net = filled(make())

    def loss(p, x, y, net=net):
        out = fn.functional_call(net, p, (x.unsqueeze(0) if name == "grouped" else x,))
        return F.cross_entropy(out, y)

    case(
        f"per sample {name}",
        lambda: list(vmap(grad(loss), (None, 0, 0))(state(net), arr(4, *shape), T.tensor([0, 2, 1, 1])).values()),
    )
    case(
        f"ensemble {name}",
        lambda: [
            t
            for p, b in [fn.stack_module_state([filled(make()) for _ in range(3)])]
            for t in [
                vmap(lambda p, x: fn.functional_call(net, p, (x.unsqueeze(0) if name == "grouped" else x,)), (0, None))(
                    p, arr(*shape)
                )
            ]
        ],
    )
attention = filled(nn.MultiheadAttention(4, 2, batch_first=True))
case("attention", lambda: vmap(lambda x: attention(x, x, x, need_weights=False)[0])(arr(3, 5, 4)))
case("attention by batches", lambda: vmap(lambda x: attention(x, x, x, need_weights=False)[0])(arr(3, 2, 5, 4)))
case(
    "sdpa", lambda: vmap(lambda q, k: F.scaled_dot_product_attention(q, k, k), (0, None))(arr(3, 2, 5, 4), arr(2, 5, 4))
)
case("batch norm", lambda: vmap(lambda x: F.batch_norm(x, None, None, training=True))(arr(3, 5, 4)))
case("batch norm buffers", lambda: vmap(lambda x: nn.BatchNorm1d(4)(x))(arr(3, 5, 4)))
case("evaluated batch norm", lambda: vmap(lambda x: nn.BatchNorm1d(4).eval()(x))(arr(3, 5, 4)))
for name in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy_with_logits"):
    for reduction in ("none", "mean", "sum"):
        case(
            f"{name} {reduction}",
            lambda: vmap(lambda a, b: getattr(F, name)(a, b, reduction=reduction))(arr(3, 4), arr(3, 4, low=0, high=1)),
        )
for reduction in ("none", "mean", "sum"):
    for options in ({}, {"ignore_index": 1}, {"label_smoothing": 0.1}, {"weight": T.tensor([0.5, 1.0, 2.0])}):
        target = T.tensor([[0, 1, 2], [1, 1, 1], [2, 0, 0]])[: 2 if "ignore_index" in options else 3]
        named = f"{reduction} {sorted(options)}"
        case(
            f"cross_entropy {named}",
            lambda: vmap(lambda a, t: F.cross_entropy(a, t, reduction=reduction, **options))(
                arr(len(target), 3, 3), target
            ),
        )
        case(
            f"its gradient {named}",
            lambda: vmap(grad(lambda a, t: F.cross_entropy(a, t, reduction=reduction, **options).sum()))(
                arr(len(target), 3, 3), target[:, :3]
            ),
        )

# -- random numbers

rand = lambda a: T.rand(2) + 0 * a.sum()
for randomness in ("error", "same", "different"):
    mode = dict(randomness=randomness)
    alike = lambda out: [bool((out[0] == out[1]).all()), list(out.shape)]
    case(f"rand {randomness}", lambda: alike(vmap(rand, **mode)(arr(3, 4))))
    case(f"randn_like {randomness}", lambda: alike(vmap(T.randn_like, **mode)(arr(3, 40))))
    case(f"dropout {randomness}", lambda: alike(vmap(lambda a: F.dropout(a), **mode)(T.ones(3, 40))))
    case(
        f"shared dropout {randomness}",
        lambda: alike(vmap(lambda a, b: F.dropout(b), (0, None), **mode)(T.ones(3), T.ones(40))),
    )
    case(f"bernoulli {randomness}", lambda: alike(vmap(T.bernoulli, **mode)(T.full((3, 40), 0.5))))
    case(f"randperm {randomness}", lambda: alike(vmap(lambda a: T.randperm(40), **mode)(T.ones(3))))
    case(f"normal_ {randomness}", lambda: alike(vmap(lambda a: a.normal_(), **mode)(T.ones(3, 40))))
    case(f"normal_ of others {randomness}", lambda: alike(vmap(lambda a: T.zeros(40).normal_() + a, **mode)(T.ones(3))))
    if randomness != "same":  # which torch does not take
        case(
            f"multinomial {randomness}",
            lambda: alike(vmap(lambda a: T.multinomial(a, 30, True), **mode)(T.ones(3, 40))),
        )
    case(f"nested {randomness}", lambda: [alike(o) for o in vmap(vmap(rand, **mode), randomness="same")(arr(2, 3, 4))])
    case(
        f"within different {randomness}", lambda: alike(vmap(vmap(rand, randomness="different"), **mode)(arr(2, 3, 4)))
    )
    case(f"chunks {randomness}", lambda: alike(vmap(rand, chunk_size=1, **mode)(arr(3, 4))))

# -- functions with a gradient of their own


class Double(T.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x, y):
        return x * 2 + y

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        return g * 5 * x, g * y


class Ruled(T.autograd.Function):
    @staticmethod
    def forward(x):
        return T.tensor(np.sin(x.detach().numpy()))

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        return g * ctx.saved_tensors[0].cos()

    @staticmethod
    def vmap(info, in_dims, x):
        assert info.batch_size == 3 and info.randomness == "error"
        return Ruled.apply(x), in_dims[0]


class Neither(T.autograd.Function):
    @staticmethod
    def forward(x):
        return x * 2

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, g):
        return g


case("generated", lambda: vmap(Double.apply)(arr(3, 4), arr(3, 4)))
case("generated, shared", lambda: vmap(Double.apply, (0, None))(arr(3, 4), arr(4)))
case("generated, grad", lambda: vmap(grad(lambda a, b: Double.apply(a, b).sin().sum(), (0, 1)))(arr(3, 4), arr(3, 4)))
case(
    "generated, grad outside",
    lambda: grad(lambda a, b: vmap(Double.apply, (0, None))(a, b).sin().sum(), (0, 1))(arr(3, 4), arr(4)),
)
case("generated, jacrev", lambda: jacrev(vmap(Double.apply))(arr(2, 2), arr(2, 2)))
case("ruled", lambda: vmap(Ruled.apply)(arr(3, 4)))
case("ruled, grad", lambda: vmap(grad(lambda a: Ruled.apply(a).sum()))(arr(3, 4)))
case("ruled, grad outside", lambda: grad(lambda a: vmap(Ruled.apply)(a).sum())(arr(3, 4)))
case("without a rule", lambda: vmap(Neither.apply)(arr(3, 4)))

# -- linear algebra

spd = lambda *s: (lambda a: a @ a.mT + 3 * T.eye(s[-1]))(arr(*s, s[-1]))
case("inv", lambda: vmap(T.linalg.inv)(spd(3, 4)))
case("solve", lambda: vmap(T.linalg.solve, (0, None))(spd(3, 4), arr(4)))
case("cholesky", lambda: vmap(T.linalg.cholesky)(spd(3, 4)))
case("det", lambda: vmap(T.linalg.det)(spd(3, 4)))
case("slogdet", lambda: list(vmap(lambda a: tuple(T.linalg.slogdet(a)))(spd(3, 4))))
case("lu", lambda: list(vmap(lambda a: tuple(T.linalg.lu(a)))(spd(3, 4))))
case("lu_solve", lambda: vmap(lambda a, b: T.linalg.lu_solve(*T.linalg.lu_factor(a), b))(spd(3, 4), arr(3, 4, 2)))
case("eigvalsh", lambda: vmap(T.linalg.eigvalsh)(spd(3, 4)))
case("grad of inv", lambda: vmap(grad(lambda a: T.linalg.inv(a).sum()))(spd(3, 4)))
case("grad of det outside", lambda: grad(lambda a: vmap(T.linalg.det)(a).sum())(spd(3, 4)))

# -- mistakes

case("item", lambda: vmap(lambda a: a.sum().item())(arr(3, 4)))
case("bool", lambda: vmap(lambda a: a if a.sum() > 0 else -a)(arr(3, 4)))
case("float", lambda: vmap(lambda a: T.tensor(float(a[0])))(arr(3, 4)))
case("tolist", lambda: vmap(lambda a: a.tolist())(arr(3, 4)))
case("numpy", lambda: vmap(lambda a: a.numpy())(arr(3, 4)))
case("nonzero", lambda: vmap(T.nonzero)(arr(3, 4)))
case("masked_select", lambda: vmap(lambda a: a.masked_select(a > 0))(arr(3, 4)))
case("mask", lambda: vmap(lambda a: a[a > 0])(arr(3, 4)))
case("unique", lambda: vmap(T.unique)(arr(3, 4)))
case("requires_grad_", lambda: vmap(lambda a: a.requires_grad_())(arr(3, 4)))
case("backward inside", lambda: vmap(lambda a: a.sum().backward())(arr(3, 4).requires_grad_()))
case("sizes", lambda: vmap(T.add)(arr(3), arr(4)))
case("no tensors", lambda: vmap(lambda a: a, (None,))(arr(3)))
case("out of range", lambda: vmap(lambda a: a, 2)(arr(3)))
case("out_dims out of range", lambda: vmap(lambda a: a, 0, 3)(arr(3)))
case("results that are none", lambda: vmap(lambda a: 3)(arr(3)))
case("batch without a place", lambda: vmap(lambda a: a, out_dims=None)(arr(3)))
case("shapes of elements", lambda: vmap(lambda a, b: a + b)(arr(3, 4), arr(3, 5)))
