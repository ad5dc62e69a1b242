"""Recurrent layers and cells, packed and padded sequences, weights taken apart, and what modules print."""

R = T.nn.utils.rnn


def fill(m):
    for i, (_, p) in enumerate(sorted(m.state_dict().items())):
        r = np.random.default_rng(i)
        p.copy_(T.tensor(r.uniform(-0.5, 0.5, tuple(p.shape)).astype("float64")).to(p.dtype))
    return m


def run(m, x, hx=None):
    if not isinstance(x, tuple):
        x.requires_grad_()
    y, h = m(x, hx) if hx is not None else m(x)
    hs = h if isinstance(h, tuple) else (h,)
    yd = y.data if isinstance(y, R.PackedSequence) else y
    loss = sum((t * T.cos(T.arange(t.numel()).to(t.dtype)).reshape(t.shape)).sum() for t in (yd, *hs))
    loss.backward()
    return [yd, *hs, *[p.grad for n, p in sorted(m.named_parameters())]] + (
        [x.grad] if not isinstance(x, tuple) else []
    )


for C in ("RNN", "LSTM", "GRU"):
    for kw in (
        dict(),
        dict(num_layers=2),
        dict(bidirectional=True),
        dict(num_layers=3, bidirectional=True, batch_first=True),
        dict(bias=False),
        dict(num_layers=2, proj_size=2) if C == "LSTM" else dict(batch_first=True),
        dict(proj_size=2, bidirectional=True, bias=False)
        if C == "LSTM"
        else dict(num_layers=2, nonlinearity="relu")
        if C == "RNN"
        else dict(num_layers=2, bias=False),
    ):
        mk = lambda: fill(getattr(nn, C)(4, 5, **kw))
        case(f"{C} {kw} repr", lambda: repr(mk()))
        case(f"{C} {kw} state", lambda: [repr((k, tuple(v.shape))) for k, v in mk().state_dict().items()])
        case(f"{C} {kw} 3d", lambda: run(mk(), arr(6, 3, 4)))
        case(f"{C} {kw} 2d", lambda: run(mk(), arr(6, 4)))
        D = 2 if kw.get("bidirectional") else 1
        L = kw.get("num_layers", 1) * D
        H = kw.get("proj_size", 5) or 5

        def hx(*lead):
            h = arr(L, *lead, H)
            return (h, arr(L, *lead, 5)) if C == "LSTM" else h

        case(f"{C} {kw} hx", lambda: run(mk(), arr(6, 3, 4), hx(6 if kw.get("batch_first") else 3)))
        case(f"{C} {kw} hx2", lambda: run(mk(), arr(6, 4), hx()))
        for es, ln in ((True, [6, 4, 4, 1]), (False, [2, 6, 1, 5])):

            def pk(withh):
                x = arr(6, 4, 4) if not kw.get("batch_first") else arr(4, 6, 4)
                p = R.pack_padded_sequence(x, ln, batch_first=kw.get("batch_first", False), enforce_sorted=es)
                m = mk()
                out = run(m, p, hx(4) if withh else None)
                y, _ = m(p)
                return out + list(R.pad_packed_sequence(y, batch_first=True, padding_value=-1.0, total_length=7))

            case(f"{C} {kw} packed {es}", lambda: pk(False))
            case(f"{C} {kw} packed {es} hx", lambda: pk(True))
        case(f"{C} {kw} e1", lambda: mk()(arr(6, 3, 5)))
        case(f"{C} {kw} e2", lambda: mk()(arr(6)))
        case(f"{C} {kw} e3", lambda: mk()(arr(6, 3, 4, dtype="float64")))
        case(f"{C} {kw} e4", lambda: mk()(arr(6, 3, 4), hx(7)))
        case(f"{C} {kw} e5", lambda: mk()(arr(6, 3, 4), hx()))
        case(f"{C} {kw} e6", lambda: mk()(arr(6, 4), hx(3)))
        case(f"{C} {kw} e7", lambda: mk()(arr(0, 3, 4)))
    case(f"{C} eval dropout", lambda: run(fill(getattr(nn, C)(4, 5, 2, dropout=0.5)).eval(), arr(6, 3, 4)))
    for i, a in enumerate([(0, 5), (4, 0), (4, 5, 0), (4.0, 5)]):
        case(f"{C} ctor {i}", lambda: getattr(nn, C)(*a))
    for i, a in enumerate(
        [
            dict(dropout=2.0),
            dict(bias=1),
            dict(batch_first=0),
            dict(proj_size=5),
            dict(proj_size=-1),
            dict(dropout=True),
        ]
    ):
        case(f"{C} ctork {i}", lambda: getattr(nn, C)(4, 5, **a))
for C in ("RNNCell", "LSTMCell", "GRUCell"):
    for kw in (dict(), dict(bias=False), dict(nonlinearity="relu") if C == "RNNCell" else dict(bias=True)):
        mk = lambda: fill(getattr(nn, C)(4, 5, **kw))

        def go(x, h=None):
            m = mk()
            y = m(x, h) if h is not None else m(x)
            ys = y if isinstance(y, tuple) else (y,)
            sum((t * t).sum() for t in ys).backward()
            return [*ys, *[p.grad for n, p in sorted(m.named_parameters())]]

        one = lambda *s: (arr(*s, 5), arr(*s, 5)) if C == "LSTMCell" else arr(*s, 5)
        case(f"{C} {kw} r", lambda: repr(mk()))
        case(f"{C} {kw} a", lambda: go(arr(3, 4)))
        case(f"{C} {kw} b", lambda: go(arr(3, 4), one(3)))
        case(f"{C} {kw} c", lambda: go(arr(4), one()))
        case(f"{C} {kw} d", lambda: go(arr(4)))
        case(f"{C} {kw} e", lambda: mk()(arr(2, 3, 4)))
        case(f"{C} {kw} e2", lambda: mk()(arr(2, 4), one(2, 2)))
S = lambda: [arr(3, 2), arr(5, 2), arr(1, 2)]
for bf in (True, False):
    for side in ("left", "right"):
        case(f"pad {bf} {side}", lambda: R.pad_sequence(S(), bf, -2.0, side))
    case(f"unpad {bf}", lambda: R.unpad_sequence(R.pad_sequence(S(), bf), T.tensor([3, 5, 1]), bf))
case("pack seq", lambda: list(R.pack_sequence(S(), enforce_sorted=False)))
case("unpack seq", lambda: R.unpack_sequence(R.pack_sequence(S(), enforce_sorted=False)))
case("pack e", lambda: R.pack_sequence(S()))
case("pad e", lambda: R.pad_sequence([]))
case("pad e2", lambda: R.pad_sequence([arr(2, 3), arr(2, 2)]))
case("pad e3", lambda: R.pad_sequence(3))
case("pack e2", lambda: R.pack_padded_sequence(arr(3, 2, 1), [2, 0]))
case("pack e3", lambda: R.pack_padded_sequence(arr(3, 2, 1), [2]))
case("pp e", lambda: R.pad_packed_sequence(R.pack_padded_sequence(arr(3, 2, 1), [3, 2]), total_length=2))


def wn(dim, M=lambda: nn.Linear(4, 3)):
    m = fill(M())
    m = nn.utils.weight_norm(m, dim=dim)
    x = arr(2, 4)
    y = m(x)
    y.square().sum().backward()
    r = [y] + [p.grad for n, p in sorted(m.named_parameters())] + [repr(sorted(m.state_dict())), repr(m)]
    nn.utils.remove_weight_norm(m)
    return r + [m(x), repr(sorted(m.state_dict()))]


for d in (0, 1, None):
    case(f"wn {d}", lambda: wn(d))


def sn():
    m = fill(nn.Linear(4, 3))
    m = nn.utils.spectral_norm(m, n_power_iterations=60)
    x = arr(2, 4)
    m(x)
    y = m(x)
    y.square().sum().backward()
    r = [y, m.weight_orig.grad, m.bias.grad, repr(sorted(m.state_dict()))]
    nn.utils.remove_spectral_norm(m)
    return r + [m(x), repr(sorted(m.state_dict()))]


case("sn", sn)
case("wn twice", lambda: nn.utils.weight_norm(nn.utils.weight_norm(nn.Linear(2, 2))))
case("rm", lambda: nn.utils.remove_weight_norm(nn.Linear(2, 2)))
for n in ("Constant", "Zero", "Reflection", "Replication", "Circular"):
    for d in (1, 2, 3):
        C = getattr(nn, f"{n}Pad{d}d")
        a = (1.5,) if n == "Constant" else ()
        case(
            f"{n}{d}",
            lambda: [
                C(1, *a)(arr(2, 3, *[4, 5, 6][:d])),
                C(tuple([1, 2] * d), *a)(arr(2, 3, *[4, 5, 6][:d])),
                repr(C(2, *a)),
            ],
        )
for e in [
    "nn.Upsample(scale_factor=2)",
    'nn.Upsample(size=(2,3),mode="bilinear")',
    "nn.Upsample(scale_factor=(2,3))",
    "nn.UpsamplingNearest2d(scale_factor=2)",
    "nn.UpsamplingBilinear2d(size=2)",
    "nn.PixelShuffle(2)",
    "nn.PixelUnshuffle(2)",
    "nn.ChannelShuffle(2)",
    "nn.Unfold(2)",
    "nn.Fold(3,2)",
    "nn.RReLU()",
    "nn.RReLU(.1,.2,True)",
    "nn.Conv3d(2,3,2)",
    "nn.ConvTranspose3d(2,3,(1,2,3),stride=2)",
    "nn.BatchNorm3d(3)",
    "nn.InstanceNorm3d(3)",
    "nn.MaxPool3d(2)",
    "nn.AvgPool3d(2)",
    "nn.AdaptiveAvgPool3d((1,None,2))",
    "nn.AdaptiveMaxPool3d(2)",
    "nn.Dropout3d()",
]:
    case(e, lambda: repr(eval(e)))
case("bn3", lambda: nn.BatchNorm3d(3)(arr(2, 3, 2, 3, 4)))
case("in3", lambda: nn.InstanceNorm3d(3)(arr(2, 3, 2, 3, 4)))
case("gumbel", lambda: F.gumbel_softmax(arr(3, 4), hard=True).sum(-1))
