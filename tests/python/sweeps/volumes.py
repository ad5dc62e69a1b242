"""Convolutions and pools of volumes, convolutions of integers, and the range of binary_cross_entropy."""

c = T.conv3d
for k, (s, w, kw) in enumerate(
    [
        ((2, 4, 5, 6, 7), (6, 4, 3, 2, 3), {}),
        ((2, 4, 5, 6, 7), (6, 2, 3, 2, 3), dict(groups=2, stride=2, padding=1)),
        ((4, 5, 6, 7), (6, 4, 1, 1, 1), {}),
        ((2, 4, 6, 6, 6), (4, 1, 2, 3, 2), dict(groups=4, dilation=(2, 1, 2), stride=(1, 2, 3))),
        ((1, 3, 4, 4, 4), (2, 3, 3, 3, 3), dict(padding="same")),
        ((1, 3, 4, 4, 4), (2, 3, 2, 2, 4), dict(padding="same", dilation=(2, 1, 1))),
        ((1, 3, 4, 4, 4), (2, 3, 2, 2, 4), dict(padding="valid")),
    ]
):
    for d in ("float32", "float64"):
        case(
            f"conv3d {k} {d}",
            lambda: with_grads(
                lambda x, w_, b: T.conv3d(x, w_, b, **kw), arr(*s, dtype=d), arr(*w, dtype=d), arr(w[0], dtype=d)
            ),
        )
    case(
        f"conv3d int {k}",
        lambda: T.conv3d(arr(*s, low=-9, high=9, dtype="int64"), arr(*w, low=-9, high=9, dtype="int64"), **kw),
    )
for k, (s, w, kw) in enumerate(
    [
        ((2, 4, 3, 4, 3), (4, 3, 3, 2, 3), {}),
        ((2, 4, 3, 4, 3), (4, 3, 3, 2, 3), dict(groups=2, stride=2, padding=1, output_padding=1)),
        ((4, 3, 4, 3), (4, 2, 1, 1, 1), {}),
        (
            (1, 2, 3, 3, 3),
            (2, 3, 3, 3, 3),
            dict(stride=(1, 2, 3), dilation=(2, 1, 4), output_padding=(1, 1, 3), padding=(1, 0, 2)),
        ),
    ]
):
    case(f"convt3d {k}", lambda: with_grads(lambda x, w_: T.conv_transpose3d(x, w_, **kw), arr(*s), arr(*w)))
for d in ("int64", "int32", "int16", "int8", "uint8", "bool"):
    for f, s, w, kw in (
        (T.conv1d, (2, 4, 9), (6, 2, 3), dict(groups=2, stride=2, padding=1)),
        (T.conv2d, (2, 4, 7, 6), (6, 4, 3, 2), dict(padding=1)),
        (T.conv2d, (4, 7, 6), (6, 4, 3, 2), dict(padding="same")),
    ):
        case(
            f"int {f.__name__} {d} {kw}",
            lambda: f(arr(*s, low=0, high=9, dtype=d), arr(*w, low=0, high=9, dtype=d), **kw),
        )
for k, kw in enumerate(
    [
        dict(kernel_size=2),
        dict(kernel_size=(2, 3, 2), stride=(1, 2, 2), padding=(1, 1, 0)),
        dict(kernel_size=3, stride=2, padding=1, ceil_mode=True),
    ]
):
    for s in ((2, 3, 5, 6, 7), (3, 6, 5, 5)):
        case(f"maxpool3d {k} {s}", lambda: with_grads(lambda x: F.max_pool3d(x, **kw, return_indices=True), arr(*s)))
        case(f"avgpool3d {k} {s}", lambda: with_grads(lambda x: F.avg_pool3d(x, **kw), arr(*s)))
        case(
            f"avgpool3d nc {k} {s}",
            lambda: with_grads(lambda x: F.avg_pool3d(x, **kw, count_include_pad=False), arr(*s)),
        )
        case(f"avgpool3d div {k} {s}", lambda: with_grads(lambda x: F.avg_pool3d(x, **kw, divisor_override=5), arr(*s)))
for o in (2, (2, 3, 4), (5, 6, 7), (1, 1, 1), (None, 2, 3), (3, None, 2)):
    case(f"aap3 {o}", lambda: with_grads(lambda x: F.adaptive_avg_pool3d(x, o), arr(2, 3, 5, 6, 7)))
    case(
        f"amp3 {o}", lambda: with_grads(lambda x: F.adaptive_max_pool3d(x, o, return_indices=True), arr(2, 3, 5, 6, 7))
    )
for p in (0.0, 1.0, 1.1, -0.1, float("nan"), 0.5):
    case(f"bce {p}", lambda: F.binary_cross_entropy(T.tensor([p, 0.5]), T.tensor([1.0, 0.0])).item())
    case(
        f"bce none {p}",
        lambda: F.binary_cross_entropy(T.tensor([p, 0.5]), T.tensor([1.0, 0.0]), reduction="none").sum().item(),
    )
case(
    "bce grad",
    lambda: with_grads(
        lambda x: F.binary_cross_entropy(x, T.tensor([[1.0, 0.0], [0.5, 0.5]])), arr(2, 2, low=0.1, high=0.9)
    ),
)
