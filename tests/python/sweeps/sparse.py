"""Sparse tensors: every function over tensors of all kinds, and their gradients."""


def coo(indices, values, size, **options):
    return T.sparse_coo_tensor(T.tensor(indices, dtype=T.int64).reshape(len(indices), -1), values, size, **options)


def parts(x):
    """A result, whatever its layout: the places of values, in order, and these."""
    if not isinstance(x, T.Tensor):
        return [parts(p) for p in x] if isinstance(x, tuple | list) else x
    if x.layout == T.strided:
        return x
    if x.layout == T.sparse_coo:
        return [repr(x.layout), tuple(x.shape), x._indices(), x._values()]
    if x.layout == T.sparse_csr:
        return [repr(x.layout), tuple(x.shape), x.crow_indices(), x.col_indices(), x.values()]
    return [repr(x.layout), tuple(x.shape), x.ccol_indices(), x.row_indices(), x.values()]


VALUES = [3.0, -4.0, 5.0, 0.5]
KINDS = {
    "plain": lambda d: coo([[0, 1, 1, 2], [2, 0, 2, 3]], T.tensor(VALUES).to(d), (3, 4)).coalesce(),
    "apart": lambda d: coo([[2, 0, 2, 0], [1, 0, 1, 0]], T.tensor(VALUES).to(d), (3, 4)),
    "none": lambda d: coo([[], []], T.tensor([]).to(d), (3, 4)),
    "one": lambda d: coo([[1], [1]], T.tensor([2.0]).to(d), (3, 4)),
    "no rows": lambda d: coo([[], []], T.tensor([]).to(d), (0, 4)),
    "no columns": lambda d: coo([[], []], T.tensor([]).to(d), (3, 0)),
    "hybrid": lambda d: coo([[1, 0, 1]], T.arange(6.0).reshape(3, 2).to(d), (3, 2)),
    "three": lambda d: coo([[0, 1, 1], [2, 0, 2], [1, 1, 0]], T.tensor(VALUES[:3]).to(d), (2, 3, 2)),
    "special": lambda d: coo(
        [[0, 1, 2, 2], [0, 1, 2, 3]], T.tensor([float("nan"), float("inf"), -0.0, 0.0]).to(d), (3, 4)
    ),
}
UNARY = {
    **{
        n: (lambda s, n=n: getattr(s, n)())
        for n in [
            "abs",
            "neg",
            "sin",
            "sinh",
            "tan",
            "tanh",
            "asin",
            "asinh",
            "atan",
            "atanh",
            "sqrt",
            "expm1",
            "log1p",
            "sign",
            "floor",
            "ceil",
            "trunc",
            "frac",
            "relu",
            "square",
            "isnan",
            "isinf",
            "deg2rad",
            "rad2deg",
            "erf",
            "round",
            "exp",
            "cos",
            "log",
            "sigmoid",
            "mean",
            "max",
            "argmax",
            "cumsum",
            "sort",
            "flatten",
            "tolist",
            "numpy",
            "contiguous",
            "exp2",
            "reciprocal",
        ]
        if n not in ("cumsum",)
    },
    "negated": lambda s: -s,
    "times": lambda s: s * 2,
    "scaled": lambda s: 0.5 * s,
    "by a tensor": lambda s: s * T.tensor(3.0).to(s.dtype),
    "over": lambda s: s / 2,
    "floor": lambda s: s // 2,
    "squared": lambda s: s**2,
    "plus one": lambda s: s + 1,
    "sum": lambda s: s.sum(),
    "sum 0": lambda s: T.sparse.sum(s, 0),
    "sum -1": lambda s: T.sparse.sum(s, -1),
    "sum kept": lambda s: s.sum(0, keepdim=True),
    "norm": lambda s: s.norm(),
    "norm 1": lambda s: s.norm(1),
    "t": lambda s: s.t(),
    "transpose": lambda s: s.transpose(0, 1),
    "coalesce": lambda s: s.coalesce(),
    "dense": lambda s: s.to_dense(),
    "clone": lambda s: s.clone(),
    "detach": lambda s: s.detach(),
    "double": lambda s: s.double(),
    "int": lambda s: s.int() if not s._values().isnan().any() and not s._values().isinf().any() else 0,
    "first": lambda s: s[0],
    "select": lambda s: s.select(1, 1),
    "slice": lambda s: s[0:1],
    "indexed": lambda s: s[T.tensor([0])],
    "index_select": lambda s: s.index_select(0, T.tensor([1, 0, 1])),
    "index_select 1": lambda s: s.index_select(-1, T.tensor([1])),
    "narrow_copy": lambda s: s.narrow_copy(0, 1, 1),
    "narrow": lambda s: s.narrow(0, 1, 1),
    "unsqueeze": lambda s: s.unsqueeze(1),
    "unbind": lambda s: s.unbind(0),
    "cat": lambda s: T.cat([s, s]),
    "cat -1": lambda s: T.cat([s, s], -1),
    "stack": lambda s: T.stack([s, s]),
    "self sum": lambda s: s + s,
    "self product": lambda s: s * s if s.is_coalesced() else 0,
    "less": lambda s: s - 2 * s,
    "added": lambda s: T.add(s, s, alpha=3),
    "to a strided": lambda s: T.ones(s.shape).to(s.dtype) + s,
    "from a strided": lambda s: T.ones(s.shape).to(s.dtype) - s,
    "with a strided": lambda s: s + T.ones(s.shape),
    "times a strided": lambda s: s * T.full(s.shape, 3.0).to(s.dtype),
    "over itself": lambda s: s / s,
    "mask": lambda s: T.ones(s.shape).to(s.dtype).sparse_mask(s),
    "own mask": lambda s: s.sparse_mask(s) if s.is_coalesced() else 0,
    "softmax": lambda s: T.sparse.softmax(s, 1),
    "softmax 0": lambda s: T.sparse.softmax(s, 0),
    "log_softmax": lambda s: T.sparse.log_softmax(s, -1),
    "T.softmax": lambda s: T.softmax(s, 1),
    "mm": lambda s: s @ T.arange(s.shape[1] * 2.0).reshape(-1, 2).to(s.dtype),
    "mm other": lambda s: T.arange(s.shape[0] * 2.0).reshape(2, -1).to(s.dtype) @ s,
    "mm wrong": lambda s: s @ T.ones(7, 2),
    "spmm": lambda s: T.spmm(s, T.ones(s.shape[1], 2).to(s.dtype)),
    "sparse.mm": lambda s: T.sparse.mm(s, T.ones(s.shape[1], 1).to(s.dtype)),
    "both": lambda s: T.sparse.mm(s, s.t()).coalesce() if s.dtype.is_floating_point else 0,
    "mv": lambda s: s.mv(T.arange(s.shape[1] * 1.0).to(s.dtype)),
    "addmm": lambda s: T.addmm(
        T.ones(s.shape[0], 2).to(s.dtype), s, T.ones(s.shape[1], 2).to(s.dtype), beta=2, alpha=3
    ),
    "sparse.addmm": lambda s: T.sparse.addmm(T.ones(3, 2).to(s.dtype), s, T.ones(s.shape[1], 2).to(s.dtype)),
    "bmm": lambda s: T.bmm(s, T.ones(s.shape[0], s.shape[2], 2).to(s.dtype)),
    "csr": lambda s: s.to_sparse_csr(),
    "csc": lambda s: s.to_sparse_csc(),
    "zeros_like": lambda s: T.zeros_like(s),
    "ones_like": lambda s: T.ones_like(s),
    "sizes": lambda s: [s.sparse_dim(), s.dense_dim(), s._nnz(), tuple(s.shape), s.dim(), s.numel(), s.stride()],
    "says": lambda s: [s.is_sparse, s.is_sparse_csr, repr(s.layout), s.is_floating_point(), s.element_size(), len(s)],
    "resized": lambda s: s.clone().sparse_resize_((5,) + tuple(s.shape[1:]), s.sparse_dim(), s.dense_dim()),
    "zero_": lambda s: s.clone().zero_(),
    "mul_": lambda s: s.clone().mul_(2).to_dense(),
    "add_": lambda s: s.clone().add_(s).to_dense(),
    "iadd": lambda s: T.ones(s.shape).to(s.dtype).add_(s),
    "fill_": lambda s: s.clone().fill_(1),
    "equal": lambda s: s == s,
    "bool": lambda s: bool(s),
    "float": lambda s: float(s),
    "values": lambda s: s.values(),
    "crow": lambda s: s.crow_indices(),
    "view": lambda s: s.view(-1),
    "reshape": lambda s: s.reshape(-1),
    "where": lambda s: T.where(T.ones(s.shape) > 0, s, s),
}
for kind, make in KINDS.items():
    for dtype in ("float32", "float64", "int64"):
        if (kind == "special" and dtype == "int64") or (dtype == "float64" and kind not in ("plain", "hybrid")):
            continue
        for name, function in UNARY.items():
            if (kind, name) in (("three", "both"), ("no rows", "narrow")):
                continue
            case(f"{kind} {dtype} {name}", lambda: parts(function(make(getattr(T, dtype)))))

COMPRESSED = {
    "csr": lambda: KINDS["plain"](T.float32).to_sparse_csr(),
    "csc": lambda: KINDS["plain"](T.float32).to_sparse_csc(),
    "no csr": lambda: KINDS["none"](T.float32).to_sparse_csr(),
}
OF_COMPRESSED = [
    "abs",
    "neg",
    "sin",
    "negated",
    "times",
    "sum",
    "t",
    "transpose",
    "dense",
    "double",
    "first",
    "mm",
    "spmm",
    "sparse.mm",
    "mv",
    "csr",
    "csc",
    "repr",
    "values",
    "crow",
    "sizes",
    "self",
    "product",
    "coalesce",
    "to",
    "a",
    "strided",
    "addmm",
    "clone",
    "view",
    "T.softmax",
    "bool",
    "float",
]
for kind, make in COMPRESSED.items():
    for name in UNARY:
        if name in OF_COMPRESSED or name in ("self sum", "self product", "to a strided"):
            if name == "sizes":
                case(f"{kind} {name}", lambda: [make().sparse_dim(), make().dense_dim(), make()._nnz(), make().numel()])
            else:
                case(f"{kind} {name}", lambda: parts(UNARY[name](make())))
    case(f"{kind} coo", lambda: parts(make().to_sparse()))
    if kind == "csc":
        continue
    case(f"{kind} reduced", lambda: [T.sparse.mm(make(), T.ones(4, 2), r) for r in ("sum", "mean", "amax", "amin")])
    case(f"{kind} sampled", lambda: parts(T.sparse.sampled_addmm(make(), T.ones(3, 2), T.ones(2, 4), alpha=2.0)))

ORDERED = {
    "made": lambda s: s,
    **{
        n: UNARY[n]
        for n in ("times", "abs", "neg", "clone", "detach", "coalesce", "double", "self sum", "added", "cat")
    },
    "dense": lambda s: s.to_dense().to_sparse(),
    "mask": UNARY["mask"],
    "sum 0": UNARY["sum 0"],
}
for kind, make in KINDS.items():
    for name, function in ORDERED.items():
        case(f"{kind} {name} in order", lambda: function(make(T.float32)).is_coalesced())


def leaf(kind):
    return KINDS[kind](T.float64).requires_grad_()


GRADS = {
    "dense": lambda s: s.to_dense(),
    "scaled": lambda s: (s * 3).to_dense(),
    "sparse.mm": lambda s: T.sparse.mm(s, T.arange(8.0).reshape(4, 2).double()),
    "sum": lambda s: T.sparse.sum(s),
    "sum 0": lambda s: T.sparse.sum(s, 0).to_dense(),
    "t": lambda s: s.t().to_dense(),
    "values": lambda s: s.values(),
    "softmax": lambda s: T.sparse.softmax(s, 1).to_dense(),
    "log_softmax": lambda s: T.sparse.log_softmax(s, 1).to_dense(),
    "products": lambda s: (s * s).to_dense(),
}
for name, function in GRADS.items():

    def gradient():
        s = leaf("plain")
        out = function(s)
        total(out).backward()
        return [out, s.grad.coalesce().indices(), s.grad.coalesce().values()]

    case(f"grad {name}", gradient)


def of_values(function):
    v = T.tensor(VALUES, dtype=T.float64).requires_grad_()
    s = T.sparse_coo_tensor(T.tensor([[2, 0, 2, 0], [1, 0, 1, 0]]), v, (3, 4))
    total(function(s)).backward()
    return v.grad


case("values dense", lambda: of_values(lambda s: s.to_dense()))
case("values mm", lambda: of_values(lambda s: T.sparse.mm(s, T.arange(8.0).reshape(4, 2).double())))
case("values coalesced", lambda: of_values(lambda s: s.coalesce().values()))
case(
    "dense's",
    lambda: with_grads(lambda d: T.sparse.mm(KINDS["apart"](T.float64), d), T.arange(8.0).reshape(4, 2).double()),
)
case("dense's of csr", lambda: with_grads(lambda d: COMPRESSED["csr"]() @ d, T.arange(8.0).reshape(4, 2)))
case("strided to sparse", lambda: with_grads(lambda d: (d.to_sparse() * 3).to_dense(), T.eye(3)))
case("mask's", lambda: with_grads(lambda d: d.sparse_mask(KINDS["plain"](T.float32)).to_dense(), T.ones(3, 4)))
case(
    "sampled's",
    lambda: with_grads(
        lambda a, b: T.sparse.sampled_addmm(COMPRESSED["csr"](), a, b).to_dense(), T.ones(3, 2), T.ones(2, 4)
    ),
)


def embedded(**options):
    w = T.arange(12.0).reshape(6, 2).requires_grad_()
    F.embedding(T.tensor([[1, 1], [3, 5]]), w, sparse=True, **options).square().sum().backward()
    return w


case("embedding", lambda: [parts(embedded().grad), repr(embedded().grad)])
case("embedding padded", lambda: embedded(padding_idx=1).grad.to_dense())


def twice(first, second):
    w = T.ones(4, 2).requires_grad_()
    for sparse in (first, second):
        (F.embedding(T.tensor([1, 1, 3]), w, sparse=sparse) * 2).sum().backward()
    return [w.grad.is_sparse, w.grad.to_dense()]


for first in (True, False):
    for second in (True, False):
        case(f"accumulated {first} {second}", lambda: twice(first, second))


def together():
    w = T.ones(4, 2).requires_grad_()
    (F.embedding(T.tensor([1, 1, 3]), w, sparse=True).sum() + (w * 3).sum()).backward()
    return parts(w.grad)


case("sparse and strided together", together)


def bag(mode):
    w = T.arange(12.0).reshape(6, 2).requires_grad_()
    F.embedding_bag(T.tensor([1, 1, 3, 5]), w, T.tensor([0, 3]), mode=mode, sparse=True).square().sum().backward()
    return parts(w.grad)


for mode in ("sum", "mean", "max"):
    case(f"bag {mode}", lambda: bag(mode))
case(
    "autograd.grad",
    lambda: parts(
        T.autograd.grad(F.embedding(T.tensor([1, 1]), w := T.ones(3, 2).requires_grad_(), sparse=True).sum(), w)
    ),
)


def hooked():
    seen, w = [], T.ones(4, 2).requires_grad_()
    w.register_hook(lambda g: seen.append(parts(g)))
    w.register_hook(lambda g: g * 2)
    F.embedding(T.tensor([1, 1, 3]), w, sparse=True).sum().backward()
    return [seen, parts(w.grad)]


case("hooks", hooked)


def trained(name, **options):
    w = T.linspace(-1, 1, 12).reshape(6, 2).requires_grad_()
    optimizer = getattr(T.optim, name)([w], **options)
    for step in range(4):
        optimizer.zero_grad()
        rows = F.embedding(T.tensor([1, 1, 3, step]), w, sparse=True)
        (rows - 0.3).square().sum().backward()
        optimizer.step()
    return w


for name, options in (
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    ("SGD", {"lr": 0.1, "maximize": True}),
    ("SGD", {"lr": 0.1, "weight_decay": 0.1}),
    ("SparseAdam", {"lr": 0.1}),
    ("SparseAdam", {"lr": 0.1, "betas": (0.5, 0.9), "maximize": True}),
    ("Adagrad", {"lr": 0.1}),
    ("Adagrad", {"lr": 0.1, "lr_decay": 0.1, "initial_accumulator_value": 0.3}),
    ("Adagrad", {"lr": 0.1, "weight_decay": 0.1}),
    *((n, {}) for n in ("Adam", "AdamW", "RMSprop", "Adadelta", "Adamax", "NAdam", "RAdam", "Rprop", "ASGD")),
):
    case(f"{name} {options}", lambda: trained(name, **options))
case("SparseAdam of a strided gradient", lambda: twice(False, False) and T.optim.SparseAdam([embedded()]).step())
case("zero_grad", lambda: [(w := embedded(), T.optim.SGD([w]).zero_grad(set_to_none=False), w.grad.to_dense())[2]])
