"""Sparse tensors: how they are made and printed, and mistakes. tests/golden/sparse.json has what torch said."""


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
MISTAKES = {
    "counts": lambda: T.sparse_coo_tensor([[0, 1], [1, 2]], [1.0, 2.0, 3.0]),
    "dimensions": lambda: T.sparse_coo_tensor([[0, 1], [1, 2]], [1.0, 2.0], (2, 3, 4)),
    "index": lambda: T.sparse_coo_tensor([[0, 1], [1, 5]], [1.0, 2.0], (2, 3), check_invariants=True),
    "negative": lambda: T.sparse_coo_tensor([[0, -1], [1, 2]], [1.0, 2.0], (2, 3), check_invariants=True),
    "values": lambda: T.sparse_coo_tensor([[0, 1]], T.ones(2, 3), (2, 4)),
    "csr": lambda: T.sparse_csr_tensor([0, 1, 3], [2, 0, 5], [3.0, 4, 5], (2, 3), check_invariants=True),
    "layout": lambda: T.sparse_compressed_tensor([0, 1, 3], [2, 0, 2], [3.0, 4, 5], (2, 3)),
    "apart": lambda: KINDS["apart"](T.float32).indices(),
    "strided": lambda: T.ones(2).values(),
    "strided nnz": lambda: T.ones(2)._nnz(),
    "cat": lambda: T.cat([T.eye(2).to_sparse(), T.eye(2)]),
    "sizes": lambda: T.eye(2).to_sparse() + T.eye(3).to_sparse(),
    "assigned": lambda: T.eye(2).to_sparse().__setitem__(0, 1),
    "copied": lambda: T.eye(2).copy_(T.eye(2).to_sparse()),
    "dim": lambda: T.sparse.sum(T.eye(2).to_sparse(), 3),
    "leaf": lambda: T.eye(2).to_sparse().requires_grad_().mul_(2),
    "ints": lambda: T.eye(2).long().to_sparse().requires_grad_(),
}
for name, function in MISTAKES.items():
    case(f"mistake {name}", lambda: parts(function()))

MADE = {
    "size": lambda: T.sparse_coo_tensor((2, 3)),
    "named size": lambda: T.sparse_coo_tensor(size=(2, 3)),
    "lists": lambda: T.sparse_coo_tensor([[0, 1], [1, 2]], [1, 2]),
    "dtype": lambda: T.sparse_coo_tensor([[0, 1], [1, 2]], [1, 2], dtype=T.float64),
    "arrays": lambda: T.sparse_coo_tensor(np.array([[0, 1], [1, 2]]), np.array([1.5, 2.5])),
    "no values": lambda: T.sparse_coo_tensor([[], []], [], (2, 3)),
    "grad": lambda: [T.sparse_coo_tensor([[0]], [1.0], (2,), requires_grad=True).requires_grad],
    "csr": lambda: T.sparse_csr_tensor([0, 1, 3], [2, 0, 2], [3.0, 4, 5]),
    "csr size": lambda: T.sparse_csr_tensor([0, 1, 3], [2, 0, 2], [3.0, 4, 5], (2, 4), dtype=T.float64),
    "csc": lambda: T.sparse_csc_tensor([0, 1, 3], [2, 0, 2], [3.0, 4, 5], (4, 2)),
    "compressed": lambda: T.sparse_compressed_tensor([0, 1], [0], [1.0], layout=T.sparse_csr),
    "FloatTensor": lambda: T.sparse.FloatTensor(T.tensor([[0, 1], [1, 2]]), T.tensor([1.0, 2.0]), T.Size([2, 3])),
    "LongTensor": lambda: T.sparse.LongTensor(T.tensor([[0, 1]]), T.tensor([1, 2])),
    "sizes": lambda: T.sparse.DoubleTensor(2, 3),
    "is": lambda: [isinstance(T.eye(2).to_sparse(), T.sparse.FloatTensor), isinstance(T.eye(2), T.sparse.FloatTensor)],
    "type": lambda: [T.eye(2).to_sparse().type(), T.is_tensor(T.eye(2).to_sparse())],
    "eye": lambda: T.eye(3).to_sparse(1),
    "scalar": lambda: T.tensor(3.0).to_sparse(),
    "zero": lambda: T.zeros(2, 0).to_sparse(),
    "spdiags": lambda: T.sparse.spdiags(T.arange(9.0).reshape(3, 3), T.tensor([0, 1, -1]), (3, 3)),
    "spdiags csr": lambda: T.sparse.spdiags(T.ones(3), T.tensor(1), (3, 4), T.sparse_csr),
}
for name, function in MADE.items():
    case(f"made {name}", lambda: parts(function()))
for dtype in ("float16", "bfloat16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "bool"):
    case(
        f"dtype {dtype}",
        lambda: [repr(KINDS["plain"](getattr(T, dtype))), KINDS["plain"](getattr(T, dtype)).to_dense()],
    )
case("printed long", lambda: repr((T.arange(1200.0).reshape(30, 40) + 1).to_sparse()))
case("printed long csr", lambda: repr((T.arange(1200.0).reshape(30, 40) + 1).to_sparse_csr()))
case("printed leaf", lambda: repr(KINDS["plain"](T.float64).requires_grad_()))
case("printed parameter-like", lambda: repr(T.eye(2).to_sparse_csr().requires_grad_()))
for kind, make in KINDS.items():
    case(f"printed {kind}", lambda: repr(make(T.float32)))
    case(f"printed {kind} of ints", lambda: repr(make(T.int64)) if kind != "special" else 0)
for layout in (T.sparse_csr, T.sparse_csc):
    for kind in ("plain", "apart", "none", "no rows"):
        case(
            f"printed {kind} {layout}".replace("torch.", "").replace("smolder.", ""),
            lambda: repr(KINDS[kind](T.float32).to_sparse(layout=layout)),
        )
