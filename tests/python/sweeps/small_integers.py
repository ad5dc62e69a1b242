"""int8 and int16, beside torch: arithmetic that wraps, promotion, reductions, order, indices, products, exchange."""

import io
import pickle

ALL = ("int8", "int16", "uint8", "bool", "int32", "int64", "float16", "bfloat16", "float32", "float64")
SMALL = {"int8": [0, 1, -1, 2, 7, -7, 100, 127, -128], "int16": [0, 1, -1, 2, 7, -7, 300, 32767, -32768]}


def words(text):
    return text.split()


UNARY = words(
    """neg abs sign square bitwise_not logical_not floor ceil trunc round relu isnan isinf isfinite
    signbit positive sqrt exp sin tanh sigmoid reciprocal log1p erf sgn"""
)
REDUCTIONS = words("sum prod mean max min amax amin any all argmax argmin median count_nonzero")


def of(dtype, values):
    return T.tensor(values, dtype=getattr(T, dtype))


def put(t, index, value):
    t = t.clone()
    t[index] = value
    return t


def kept(t):
    file = io.BytesIO()
    T.save(t, file)
    file.seek(0)
    return file


for d, values in SMALL.items():
    x, y = of(d, values), of(d, values[::-1])
    square = of(d, [[3, -5, 90], [127, -128, 4], [-1, 0, 11]])
    # Operators, with tensors and with numbers.
    for op in ("+", "-", "*", "&", "|", "^", "==", "<", ">=", "/"):
        case(f"{d} {op}", lambda: eval(f"x {op} y"))
        for number in ("3", "-2", "True", "127", "2.5"):
            case(f"{d} {op} {number}", lambda: eval(f"x {op} {number}"))
            case(f"{number} {op} {d}", lambda: eval(f"{number} {op} x"))
    for op in ("//", "%"):
        for number in ("3", "-2", "-1", "2.5"):
            case(f"{d} {op} {number}", lambda: eval(f"x {op} {number}"))
        case(f"{d} {op}", lambda: eval(f"x {op} y.abs().clamp(min=1)"))
    case(f"{d} least over -1", lambda: [values[-1] // of(d, [-1]), x // -1, T.fmod(x, -1)])
    for op in ("<<", ">>"):
        for number in ("0", "1", "3", "7", "8", "15", "16", "20"):
            case(f"{d} {op} {number}", lambda: eval(f"x {op} {number}"))
    for exponent in (0, 1, 2, 3, 5, 7, 0.5):
        case(f"{d} power {exponent}", lambda: x**exponent)
    case(f"{d} powers", lambda: [T.pow(x, of(d, [3])), T.pow(2, of(d, [1, 6, 7, 8, 15])), (-x) ** 3])
    for mode in ("trunc", "floor", None):
        case(f"{d} div {mode}", lambda: T.div(x, of(d, [3]), rounding_mode=mode))
    for name in UNARY:
        case(f"{d} {name}", lambda: getattr(T, name)(x))
    case(f"{d} numbers out of range", lambda: x + 1000)
    case(f"{d} compared with what it does not hold", lambda: x < 70000)
    case(f"{d} alpha", lambda: [T.add(x, y, alpha=3), T.sub(x, y, alpha=-2)])
    case(f"{d} alpha of a float", lambda: T.add(x, y, alpha=1.5))
    case(f"{d} addcmul", lambda: T.addcmul(x, y, x, value=3))
    case(f"{d} lerp", lambda: T.lerp(x, y, 0.5))
    # Other dtypes.
    for other in ALL:
        z = of(other, [1, 0, 1, 1, 0, 1, 1, 0, 1])
        case(f"{d} with {other}", lambda: [x + z, z * x, T.where(x > 0, x, z), T.cat([x, z]), T.maximum(x, z)])
        case(f"{d} zero-dim with {other}", lambda: [x[1] + z, x + z[0]])
        case(f"{d} promoted with {other}", lambda: repr([T.promote_types(x.dtype, z.dtype), T.result_type(x, z[0])]))
        case(f"{d} to {other}", lambda: [x.to(z.dtype), x.to(z.dtype).to(x.dtype)])
        case(f"{d} in place with {other}", lambda: [x.clone().add_(z), z.clone().mul_(x)])
    whole = [0, -1, 127, 128, 200, 255, 256, 300, -129, -300, 32767, 32768, 65535, 65536, -32769, 2**31 - 1, -(2**31)]
    case(
        f"{d} of wide integers", lambda: [of("int64", [*whole, 2**40 + 5]).to(x.dtype), of("int32", whole).to(x.dtype)]
    )
    case(f"{d} of floats", lambda: [of(f, [0.5, -0.9, 2.9, -3.5, 100.9, -128.0]).to(x.dtype) for f in ALL[6:]])
    case(f"{d} copied", lambda: x.clone().copy_(of("int64", [256 + v for v in values])))
    case(
        f"{d} filled",
        lambda: [x.clone().fill_(5), T.full((2,), -7, dtype=x.dtype), T.full_like(x, 3.0), x.new_full((2,), 9)],
    )
    # Reductions and scans.
    for name in REDUCTIONS:
        case(f"{d} {name}", lambda: getattr(x, name)())
        case(
            f"{d} {name} of rows",
            lambda: getattr(square, name)(1) if name != "count_nonzero" else square.count_nonzero(1),
        )
    case(f"{d} sums of its own", lambda: [x.sum(dtype=x.dtype), x.prod(dtype=x.dtype), square.sum(0, dtype=x.dtype)])
    case(f"{d} mean as floats", lambda: [x.mean(dtype=T.float32), square.mean(1, dtype=T.float64)])
    case(f"{d} sums of many", lambda: [of(d, [100]).expand(5000).sum(), of(d, [100]).expand(5000).sum(dtype=x.dtype)])
    case(f"{d} scans", lambda: [x.cumsum(0), x.cumprod(0), x.cumsum(0, dtype=x.dtype), square.cumsum(1), *x.cummax(0)])
    case(f"{d} least so far", lambda: [*square.cummin(1)])
    case(f"{d} differences", lambda: [T.diff(x), T.diff(square, dim=0)])
    case(f"{d} extremes of many", lambda: [of(d, [5]).repeat(777).min(), of(d, [[-5]]).repeat(7, 77).amax(1)])
    case(f"{d} dot", lambda: [T.dot(x, y), T.vdot(x, y)])
    case(f"{d} logsumexp", lambda: T.logsumexp(x, 0))
    case(f"{d} softmax", lambda: T.softmax(x, 0))
    case(f"{d} softmax as floats", lambda: T.softmax(x, 0, dtype=T.float32))
    # Order.
    for descending in (False, True):
        case(
            f"{d} sort {descending}",
            lambda: [*x.sort(descending=descending, stable=True), x.argsort(descending=descending)],
        )
        case(f"{d} sort columns {descending}", lambda: [*square.sort(0, descending=descending)])
    case(f"{d} topk", lambda: [*x.topk(3), *x.topk(2, largest=False)])
    case(f"{d} kth", lambda: [*square.kthvalue(2, 1), *square.median(0)])
    case(f"{d} unique", lambda: [*T.unique(of(d, [5, -5, 5, 0]), return_inverse=True, return_counts=True)])
    case(
        f"{d} searchsorted",
        lambda: [T.searchsorted(of(d, [-5, 0, 9]), of(d, [-9, 0, 100])), T.bucketize(x, of(d, [0, 5]))],
    )
    case(f"{d} isin", lambda: T.isin(x, of(d, [1, 127])))
    case(f"{d} bincount", lambda: T.bincount(of(d, [1, 3, 3, 0])))
    case(f"{d} clamp", lambda: [x.clamp(-3, 5), x.clamp(max=of(d, [4])), x.clamp(min=-1.5), x.clip(2)])
    case(f"{d} extremes", lambda: [T.maximum(x, y), T.minimum(x, y), T.fmax(x, y), T.fmin(x, y), *T.aminmax(x)])
    # Shapes, places and products.
    index = T.tensor([2, 0, 2])
    case(
        f"{d} shapes",
        lambda: [square.t(), square.flip(1), square.roll(1, 0), square.tril(), square[:, None].expand(3, 2, 3)],
    )
    case(f"{d} parts", lambda: [square[1:, ::2], square[square > 3], square[index], square[:, [1, 0]], x.diag()])
    case(f"{d} written parts", lambda: [put(square, (slice(1, None), 0), 9), put(square, square > 3, -1)])
    case(f"{d} out of range", lambda: put(square, 0, 100000))
    case(
        f"{d} gather",
        lambda: [square.gather(1, index[:, None]), square.take_along_dim(index[None], 0), square.take(index)],
    )
    case(f"{d} select", lambda: [square.index_select(0, index), T.masked_select(square, square < 0)])
    case(f"{d} index_add", lambda: [square.index_add(0, index, square), square.index_add(1, index, square, alpha=2)])
    case(f"{d} index_fill", lambda: [square.index_fill(0, index, 4), square.masked_fill(square > 0, -3)])
    case(f"{d} index_copy", lambda: square.index_copy(0, T.tensor([1, 0, 2]), square))
    case(f"{d} scatter", lambda: [square.scatter(1, index[:, None], 5), square.scatter_add(0, index[None], square[:1])])
    for reduce in ("sum", "prod", "amax", "amin", "mean"):
        case(f"{d} scatter {reduce}", lambda: square.scatter_reduce(0, index[None], square[1:2], reduce))
    case(f"{d} put", lambda: square.index_put((index, index), of(d, [1, 2, 3]), accumulate=True))
    case(f"{d} as an index", lambda: square[of(d, [0, 1])])
    case(f"{d} as an index of gather", lambda: square.gather(0, of(d, [[0, 1, 0]])))
    case(f"{d} one_hot", lambda: F.one_hot(of(d, [0, 1])))
    case(f"{d} repeats", lambda: [square.repeat(2, 1), x.repeat_interleave(2), T.stack([x, y]), T.cat([x, y])])
    case(f"{d} pad", lambda: [F.pad(square, (1, 2), value=-4), F.pad(square[None], (1, 1), "circular")])
    case(f"{d} windows", lambda: [x.unfold(0, 3, 2), x.split(4)[1], x.chunk(2)[0]])
    case(f"{d} products", lambda: [square @ square, square @ square[0], T.bmm(square[None], square[None])])
    case(
        f"{d} more products",
        lambda: [T.addmm(square, square, square), T.outer(x, y), T.einsum("ij,kj->ik", square, square)],
    )
    case(f"{d} long products", lambda: of(d, [[v % 100 for v in range(700)]]) @ of(d, [[v % 90] for v in range(700)]))
    case(f"{d} linear", lambda: F.linear(square, square, square[0]))
    case(f"{d} convolution", lambda: F.conv2d(square[None, None], square[None, None, :2, :2]))
    case(f"{d} pools", lambda: F.max_pool1d(x[None, None].float(), 2))
    case(f"{d} nearest", lambda: F.interpolate(square[None, None], scale_factor=2))
    case(f"{d} of a gradient", lambda: x.requires_grad_())
    case(f"{d} between", lambda: [T.allclose(x, x), T.equal(x, y), T.isclose(x, y)])
    # Numbers, text, making.
    case(f"{d} made", lambda: [T.arange(5, dtype=x.dtype), T.arange(-3, 9, 4, dtype=x.dtype), T.eye(2, dtype=x.dtype)])
    case(
        f"{d} made equal",
        lambda: [T.zeros(2, dtype=x.dtype), T.ones_like(x), T.empty_like(x).zero_(), x.new_tensor([1, 2])],
    )
    case(f"{d} made in steps", lambda: [T.linspace(-3, 9, 5, dtype=x.dtype), T.logspace(0, 2, 3, dtype=x.dtype)])
    case(f"{d} drawn", lambda: repr([T.randint(-5, 5, (4,), dtype=x.dtype).dtype, x.clone().random_(0, 9).dtype]))
    case(f"{d} drawn beyond", lambda: T.randint(0, 100000, (4,), dtype=x.dtype))
    case(f"{d} drawn normal", lambda: T.randn(2, dtype=x.dtype))
    case(f"{d} text", lambda: [repr(x), repr(x[7]), repr(square), str(square[:0])])
    case(f"{d} numbers", lambda: repr((x.tolist(), x[7].item(), int(x[8]), float(x[8]), bool(x[0]), x[6].__index__())))
    case(f"{d} says", lambda: repr((x.element_size(), x.is_floating_point(), x.dtype.itemsize, x.nbytes)))
    case(f"{d} type", lambda: repr((x.type(), T.typename(x), x.dtype.is_signed, x.dtype.is_complex)))
    case(f"{d} limits", lambda: repr([(i.bits, i.min, i.max, i.dtype) for i in [T.iinfo(x.dtype)]]))
    case(f"{d} limits of floats", lambda: T.finfo(x.dtype))
    case(f"{d} too large", lambda: of(d, [40000]))
    # Other memory.
    case(f"{d} NumPy", lambda: [T.from_numpy(x.numpy()), T.tensor(x.numpy()), T.as_tensor(x.numpy()[::2].copy())])
    case(f"{d} NumPy's own", lambda: repr((x.numpy().dtype, x.numpy().tolist(), np.add(x.numpy(), 1).dtype)))
    case(f"{d} NumPy's numbers", lambda: [T.tensor(np.array(values, d)), T.tensor([np.dtype(d).type(3)])])
    case(f"{d} DLPack", lambda: [T.from_dlpack(x), T.from_dlpack(x.numpy()), T.tensor(np.from_dlpack(x))])
    case(
        f"{d} buffers",
        lambda: [
            T.frombuffer(bytearray(range(8)), dtype=x.dtype),
            T.frombuffer(bytearray(range(8)), dtype=x.dtype, offset=2, count=2),
        ],
    )
    case(f"{d} pickled", lambda: [pickle.loads(pickle.dumps(x)), T.load(kept(square))])

x = T.tensor([300.7, -1.2, 5.0])
case("conversions", lambda: [x.int().char(), x.short(), x.int().short(), T.arange(3).char(), x.type(T.ShortTensor)])
case("names", lambda: repr((T.short is T.int16, x.short().type(), T.arange(2).char().type(), x.type(T.int16).type())))
case("types", lambda: [T.CharTensor([1, -2]), T.ShortTensor([[3], [4]]), T.ShortTensor(2, 0)])
case("instances", lambda: repr((isinstance(x.short(), T.ShortTensor), isinstance(x, T.CharTensor))))
