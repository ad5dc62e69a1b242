"""Which results are views: writes through what an expression gives, and through its operand, and gradients of both, for operands
of several layouts. `copied` is what copy_ of different elements leaves where they are in windows that overlap."""

EXPRESSIONS = """
x[1]
x[1, 2]
x[tensor(1)]
x[tensor(1), 0]
x[0, tensor(-1)]
x[tensor(1), tensor(1)]
x[:, tensor(1)]
x[..., tensor(1)]
x[None, tensor(1)]
x[tensor(1):3]
x[tensor(1, dtype=T.int32)]
x[tensor(1, dtype=T.uint8)]
x[tensor(True)]
x[np.array(1)]
x[np.array(1), 0]
x[np.int64(1)]
x[[1]]
x[[1], 0]
x[i]
x[i[1]]
x[...]
x[x > 0]
x.unfold(1, 2, 1)
x.unfold(1, 3, 1)
x.unfold(0, 1, 1)
x.unfold(0, 2, 1)
x.unfold(1, 2, 2)
x.unfold(1, 2, 3)
x.unfold(-1, 4, 1)
x.unfold(0, 2, 1).unfold(1, 2, 1)
x.t().unfold(0, 2, 1)
x.unfold(1, 2, 1)[1]
x.unfold(1, 2, 1).transpose(0, 1)
x.unfold(1, 2, 2).reshape(-1)
x.as_strided((2, 2), (1, 2), 1)
x.as_strided((2, 2), (1, 1), 1)
x.as_strided((3, 2), (2, 1), 0)
x.as_strided((2, 2), (1, 1))
x.as_strided((12,), (1,), 0)
x.as_strided((), (), 3)
x.as_strided((0, 2), (1, 1), 0)
x.as_strided((2, 2, 2), (4, 1, 1), 0)
x.as_strided((3, 2), (1, 4), 0)
x[1:].as_strided((2, 2), (1, 1))
x[1].as_strided((2, 2), (1, 1), 2)
x.diagonal()
x.diagonal(1)
x.diagonal(-1)
x.diagonal(5)
x[:, :2].diagonal()
x[:2, 1:3].diagonal()
x[:, 1:].diagonal(-1)
x[..., None].expand(3, 4, 1).diagonal()
x.view(3, 2, 2).diagonal(0, 1, 2)
x.view(3, 2, 2).diagonal(1, 0, 2)
x.detach()
x.squeeze().unsqueeze(1).select(1, 0)
x.movedim(0, 1)
x.chunk(2, 1)[0]
x.tensor_split(3)[1]
x.flip(0)
x.index_select(0, i)
x.contiguous()
x.reshape(2, -1)
F.pad(x, (0, 0))
""".strip().splitlines()
LAYOUTS = {
    "plain": "x",
    "transposed": "x.t().contiguous().t()",
    "sliced": "T.arange(24.0).reshape(3, 8)[:, ::2]",
    "cut": "T.arange(30.0).reshape(5, 6)[1:4, 1:5]",
}


def evaluated(text, x):
    seen = {"T": T, "F": F, "np": np, "tensor": T.tensor, "i": T.tensor([0, 2, 1]), "x": x}
    return eval(text, seen)


def operand(layout):
    return evaluated(LAYOUTS[layout], T.arange(12.0).reshape(3, 4))


def written(layout, text):
    """The operand after a write to the view, and the view after one to the operand."""
    x, again = operand(layout), operand(layout)
    evaluated(text, x).fill_(7.5)
    y = evaluated(text, again)
    again.mul_(3)
    return [x, y, y.shape]


def copied(layout, text):
    x = operand(layout)
    y = evaluated(text, x)
    y.copy_(T.arange(y.numel()).reshape(y.shape) + 100.0)
    return [x, y]


def gradients(layout, text):
    """Through the view, and through a write to it."""
    leaf = T.arange(12.0).reshape(3, 4).requires_grad_()
    x = leaf * 2
    if layout == "transposed":
        x = x.t().contiguous().t()
    total(evaluated(text, x)).backward()
    base = operand(layout)
    y = evaluated(text, base)
    source = T.ones(y.shape, requires_grad=True)
    y.copy_(source * 3)
    (base * (T.arange(base.numel()).reshape(base.shape) + 1.0)).sum().backward()
    return [leaf.grad, source.grad]


for layout in LAYOUTS:
    for text in EXPRESSIONS:
        case(f"{layout} {text}", lambda: written(layout, text))
        case(f"{layout} {text} copied", lambda: copied(layout, text))
        if layout in ("plain", "transposed"):
            case(f"{layout} {text} gradients", lambda: gradients(layout, text))
