"""Images in other sizes, at the points of a grid, as columns, and with their channels dealt anew."""

I = F.interpolate
sp = {3: (2, 3, 5), 4: (2, 3, 5, 6), 5: (1, 2, 4, 3, 5)}
for d in ("float32", "float64"):
    for nd, s in sp.items():
        modes = {
            3: ["nearest", "nearest-exact", "linear", "area"],
            4: ["nearest", "nearest-exact", "bilinear", "bicubic", "area"],
            5: ["nearest", "nearest-exact", "trilinear", "area"],
        }[nd]
        for m in modes:
            for a in (None, True, False) if m in ("linear", "bilinear", "bicubic", "trilinear") else (None,):
                for kw in (
                    dict(size=7),
                    dict(size=1),
                    dict(size=2),
                    dict(scale_factor=2),
                    dict(scale_factor=0.6),
                    dict(scale_factor=1.7),
                    dict(scale_factor=1.7, recompute_scale_factor=True),
                    dict(size=s[2:]),
                    dict(size=tuple(range(3, 3 + nd - 2))),
                    dict(scale_factor=tuple(1.5 + 0.3 * i for i in range(nd - 2))),
                ):
                    if (nd, m) == (5, "nearest") and isinstance(kw.get("scale_factor"), tuple):
                        continue  # torch's gradient of it fails torch's gradcheck
                    case(
                        f"{d} {nd} {m} {a} {kw}",
                        lambda: with_grads(lambda x: I(x, mode=m, align_corners=a, **kw), arr(*s, dtype=d)),
                    )
for m in ("bilinear", "bicubic"):
    for a in (False, True):
        for kw in (
            dict(size=(4, 5)),
            dict(size=(20, 3)),
            dict(scale_factor=0.4),
            dict(size=(13, 11)),
            dict(scale_factor=(0.3, 1.6)),
            dict(size=1),
        ):
            case(
                f"aa {m} {a} {kw}",
                lambda: with_grads(
                    lambda x: I(x, mode=m, align_corners=a, antialias=True, **kw), arr(1, 2, 11, 9, dtype="float64")
                ),
            )
for n in range(1, 14):
    for mm in range(1, 40, 3):
        case(f"nearest {n} {mm}", lambda: I(arr(1, 1, n), size=mm))
        case(f"exact {n} {mm}", lambda: I(arr(1, 1, n), size=mm, mode="nearest-exact"))
for m in ("nearest", "nearest-exact"):
    case(f"u8 {m}", lambda: I(arr(1, 1, 5, 4, low=0, high=255, dtype="uint8"), size=(3, 7), mode=m))
for d in ("float16", "bfloat16"):
    for m in ("nearest", "bilinear", "bicubic", "area"):
        case(f"{d} {m}", lambda: I(arr(1, 2, 5, 4).to(getattr(T, d)), size=(3, 7), mode=m))
x = lambda: arr(1, 1, 4, 4)
for i, kw in enumerate(
    [
        dict(),
        dict(size=2, scale_factor=2),
        dict(size=(2, 3, 4)),
        dict(size=2.5),
        dict(scale_factor=(1, 2, 3)),
        dict(size=2, mode="linear"),
        dict(size=2, mode="trilinear"),
        dict(size=2, mode="foo"),
        dict(size=2, mode="nearest", align_corners=True),
        dict(size=0),
        dict(size=2, recompute_scale_factor=True),
        dict(size=2, mode="nearest", antialias=True),
        dict(size=-1),
    ]
):
    case(f"err {i}", lambda: I(x(), **kw))
case("err 1d", lambda: I(arr(4, 4), size=2))
case("err 1d c", lambda: I(arr(4, 4, 4), size=2, mode="bicubic"))
for kw in (
    dict(kernel_size=2),
    dict(kernel_size=(2, 3), dilation=(1, 2), padding=1, stride=2),
    dict(kernel_size=3, stride=(1, 3), padding=(2, 0)),
):
    for s in ((2, 3, 7, 8), (3, 7, 8)):
        case(f"unfold {kw} {s}", lambda: with_grads(lambda x: F.unfold(x, **kw), arr(*s)))

        def ff():
            c = F.unfold(arr(*s), **kw)
            return with_grads(lambda z: F.fold(z, (7, 8), **kw), c.detach())

        case(f"fold {kw} {s}", ff)
case("fold e1", lambda: F.fold(arr(2, 7, 4), (3, 3), 2))
case("fold e2", lambda: F.fold(arr(2, 8, 5), (3, 3), 2))
case("unfold e", lambda: F.unfold(arr(1, 1, 2, 2), 3))
case("unfold e3", lambda: F.unfold(arr(1, 1, 3, 3), 0))
case("unfold e4", lambda: F.unfold(arr(1, 1, 3, 3), 1, padding=-1))
for f, s, r in (
    (F.pixel_shuffle, (2, 8, 3, 4), 2),
    (F.pixel_shuffle, (9, 2, 2), 3),
    (F.pixel_shuffle, (2, 3, 4, 2, 2), 2),
    (F.pixel_unshuffle, (2, 3, 4, 6), 2),
    (F.pixel_unshuffle, (1, 2, 2), 2),
    (F.pixel_shuffle, (3, 4, 4), 2),
    (F.pixel_unshuffle, (3, 5, 4), 2),
    (F.pixel_shuffle, (3, 4), 2),
    (F.pixel_shuffle, (4, 4, 4), 0),
    (F.channel_shuffle if hasattr(F, "channel_shuffle") else T.channel_shuffle, (2, 6, 3, 4), 3),
    (T.channel_shuffle, (2, 6, 3, 4), 4),
):
    case(f"{f.__name__} {s} {r}", lambda: with_grads(lambda x: f(x, r), arr(*s)))
for m in ("bilinear", "nearest", "bicubic"):
    for p in ("zeros", "border", "reflection"):
        for a in (True, False):
            for d in ("float32", "float64"):
                case(
                    f"gs4 {m} {p} {a} {d}",
                    lambda: with_grads(
                        lambda x, g: F.grid_sample(x, g, m, p, a),
                        arr(2, 3, 5, 6, dtype=d),
                        arr(2, 4, 3, 2, low=-3, high=3, dtype=d),
                    ),
                )
                case(
                    f"gs5 {m} {p} {a} {d}",
                    lambda: with_grads(
                        lambda x, g: F.grid_sample(x, g, m, p, a),
                        arr(2, 3, 5, 6, 4, dtype=d),
                        arr(2, 4, 3, 2, 3, low=-3, high=3, dtype=d),
                    ),
                )
                case(
                    f"gs1 {m} {p} {a} {d}",
                    lambda: with_grads(
                        lambda x, g: F.grid_sample(x, g, m, p, a),
                        arr(2, 3, 1, 6, dtype=d),
                        arr(2, 4, 3, 2, low=-3, high=3, dtype=d),
                    ),
                )
for a in (True, False):
    for s in ((2, 1, 3, 4), (2, 5, 1, 4)):
        case(f"ag {a} {s}", lambda: with_grads(lambda t: F.affine_grid(t, s, a), arr(2, 2, 3)))
    for s in ((2, 1, 3, 4, 5), (2, 5, 1, 4, 2)):
        case(f"ag {a} {s}", lambda: with_grads(lambda t: F.affine_grid(t, s, a), arr(2, 3, 4)))
case("ag e", lambda: F.affine_grid(arr(2, 2, 2), (2, 1, 3, 4), False))
case("ag e2", lambda: F.affine_grid(arr(2, 2, 3), (2, 1, 3), False))
case("gs e1", lambda: F.grid_sample(arr(1, 1, 2, 2), arr(2, 2, 2, 2), align_corners=False))
case("gs e2", lambda: F.grid_sample(arr(1, 1, 2, 2), arr(1, 2, 2, 3), align_corners=False))
case("gs e3", lambda: F.grid_sample(arr(1, 1, 2), arr(1, 2, 2), align_corners=False))
case("gs e4", lambda: F.grid_sample(arr(1, 1, 2, 2), arr(1, 2, 2, 2), mode="x"))
case("rrelu", lambda: with_grads(lambda x: F.rrelu(x, 0.1, 0.5), arr(3, 4)))
case("rrelu e", lambda: F.rrelu(arr(3), 0.5, 0.1))
