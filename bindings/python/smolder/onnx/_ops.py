"""Which ONNX ops say what ops of a graph do.

`WHOLE` has ops that ONNX has as they are, or nearly, each with a condition on the node; other nodes are taken apart into
primitives first, and `PRIMITIVES` has these. What writes a node is given the writer and the node.
"""

import numpy as np

from smolder.onnx._writer import FLOATS

_SMALL = ("int8", "int16", "uint8")  # which few kernels take: computed as int32


class Unsupported(Exception):
    """No ONNX op does what a node does; the message says what that is."""


# -- elementwise


def _dtype_of(w, inputs):
    """The dtype that an elementwise node computes in."""
    metas = [w.meta(v) for v in inputs]
    strong = [m.dtype for m in metas if not m.weak]
    if strong:
        return strong[0]
    return "float64" if any(m.dtype == "float64" for m in metas) else "int64"


def _elementwise(write, small=True):
    def node_of(w, node):
        dtype = _dtype_of(w, node.inputs)
        if dtype in _SMALL and small:
            args = [w.cast(w.value(v, dtype), "int32") for v in node.inputs]
            result, wanted = write(w, "int32", *args), w.meta(node.outputs[0]).dtype
            return result if wanted == "bool" else w.cast(result, wanted)
        return write(w, dtype, *(w.value(v, dtype) for v in node.inputs))

    return node_of


def _plain(kind, **attributes):
    return _elementwise(lambda w, dtype, *args: w.op(kind, *args, **attributes))


def _by_kind(floats, integers=None, bools=None):
    """By what is computed in: an ONNX op, or what writes."""

    def write(w, dtype, *args):
        how = floats if dtype in FLOATS else bools if dtype == "bool" else integers
        if how is None:
            raise Unsupported(f"of {dtype}")
        return how(w, dtype, *args) if callable(how) else w.op(how, *args)

    return _elementwise(write)


def _same(w, dtype, x):
    return w.op("Identity", x)


def _trunc(w, dtype, x):
    return w.op("Mul", w.op("Sign", x), w.op("Floor", w.op("Abs", x)))


def _scaled(kind, factor, before=False):
    def write(w, dtype, x):
        scale = w.scalar(factor, dtype)
        return w.op(kind, w.op("Mul", x, scale)) if before else w.op("Mul", w.op(kind, x), scale)

    return write


def _plus(kind, number, before=False):
    def write(w, dtype, x):
        one = w.scalar(number, dtype)
        return w.op(kind, w.op("Add", x, one)) if before else w.op("Add", w.op(kind, x), one)

    return write


def _erfc(w, dtype, x):
    return w.op("Sub", w.scalar(1, dtype), w.op("Erf", x))


def _floor_div(w, dtype, x, y):
    if dtype in FLOATS:
        return w.op("Floor", w.op("Div", x, y))
    return w.op("Div", w.op("Sub", x, w.op("Mod", x, y)), y)


def _remainder(w, dtype, x, y):
    if dtype not in FLOATS:
        return w.op("Mod", x, y)
    r, zero = w.op("Mod", x, y, fmod=1), w.scalar(0, dtype)
    apart = w.op("Xor", w.op("Less", r, zero), w.op("Less", y, zero))
    wrong = w.op("And", apart, w.op("Not", w.op("Equal", r, zero)))
    return w.op("Where", wrong, w.op("Add", r, y), r)


def _atan2(w, dtype, y, x):
    zero = w.scalar(0, dtype)
    pi = w.scalar(np.pi, dtype)
    plain = w.op("Atan", w.op("Div", y, x))
    turned = w.op("Where", _negative(w, dtype, y), w.op("Sub", plain, pi), w.op("Add", plain, pi))
    both = w.op("And", w.op("Equal", x, zero), w.op("Equal", y, zero))
    out = w.op("Where", w.op("Less", x, zero), turned, plain)
    return w.op("Where", both, y, out)


def _negative(w, dtype, x):
    """Whether the sign is one: of a zero, that of its reciprocal."""
    zero = w.scalar(0, dtype)
    return w.op("Or", w.op("Less", x, zero), w.op("Less", w.op("Reciprocal", x), zero))


def _copysign(w, dtype, x, y):
    size = w.op("Abs", x)
    return w.op("Where", _negative(w, dtype, y), w.op("Neg", size), size)


def _shift(direction):
    def write(w, node):
        dtype = _dtype_of(w, node.inputs)
        if dtype != "uint8":
            raise Unsupported(f"of {dtype}: ONNX shifts unsigned integers alone")
        return w.op("BitShift", *(w.value(v, dtype) for v in node.inputs), direction=direction)

    return write


def _truth(kind):
    def write(w, dtype, *args):
        return w.op(kind, *(a if dtype == "bool" else w.cast(a, "bool") for a in args))

    return _elementwise(write)


def _comparison(kind, negated=False):
    def write(w, dtype, *args):
        if dtype == "bool":
            args = [w.cast(a, "int32") for a in args]
        out = w.op(kind, *args)
        return w.op("Not", out) if negated else out

    return _elementwise(write)


def _where(w, node):
    condition, *rest = node.inputs
    dtype = _dtype_of(w, rest)
    condition, x, y = w.value(condition, "bool"), *(w.value(v, dtype) for v in rest)
    if dtype == "bool":  # which onnxruntime's kernel does not take
        return w.op("Or", w.op("And", condition, x), w.op("And", w.op("Not", condition), y))
    return w.op("Where", condition, x, y)


def _never(w, dtype, x):
    return w.op("Not", w.op("Equal", x, x))


def _is_finite(w, dtype, x):
    return w.op("Not", w.op("Or", w.op("IsInf", x), w.op("IsNaN", x)))


ELEMENTWISE = {
    "neg": _plain("Neg"),
    "abs": _by_kind("Abs", "Abs", _same),
    "sign": _by_kind("Sign", "Sign", _same),
    "floor": _by_kind("Floor", _same),
    "ceil": _by_kind("Ceil", _same),
    "round": _by_kind("Round", _same),
    "trunc": _by_kind(_trunc, _same),
    "sqrt": _plain("Sqrt"),
    "rsqrt": _elementwise(lambda w, dtype, x: w.op("Reciprocal", w.op("Sqrt", x))),
    "reciprocal": _plain("Reciprocal"),
    "exp": _plain("Exp"),
    "exp2": _elementwise(_scaled("Exp", np.log(2), before=True)),
    "expm1": _elementwise(_plus("Exp", -1)),
    "log": _plain("Log"),
    "log2": _elementwise(_scaled("Log", 1 / np.log(2))),
    "log10": _elementwise(_scaled("Log", 1 / np.log(10))),
    "log1p": _elementwise(_plus("Log", 1, before=True)),
    "erfc": _elementwise(_erfc),
    "relu": _by_kind("Relu", lambda w, dtype, x: w.op("Max", x, w.scalar(0, dtype))),
    "tan": _elementwise(
        lambda w, dtype, x: w.op("Div", w.op("Sin", x), w.op("Cos", x)) if dtype == "float64" else w.op("Tan", x)
    ),
    "logical_not": _truth("Not"),
    "bitwise_not": _by_kind(None, "BitwiseNot", "Not"),
    "isnan": _by_kind("IsNaN", _never, _never),
    "isinf": _by_kind("IsInf", _never, _never),
    "isfinite": _by_kind(_is_finite, lambda w, d, x: w.op("Equal", x, x), lambda w, d, x: w.op("Equal", x, x)),
    "add": _by_kind("Add", "Add", "Or"),
    "sub": _plain("Sub"),
    "mul": _by_kind("Mul", "Mul", "And"),
    "div": _plain("Div"),
    "floor_div": _elementwise(_floor_div),
    "remainder": _elementwise(_remainder),
    "fmod": _plain("Mod", fmod=1),
    "pow": _plain("Pow"),
    "atan2": _elementwise(_atan2),
    "copysign": _elementwise(_copysign),
    "maximum": _by_kind("Max", "Max", "Or"),
    "minimum": _by_kind("Min", "Min", "And"),
    "bitwise_and": _by_kind(None, "BitwiseAnd", "And"),
    "bitwise_or": _by_kind(None, "BitwiseOr", "Or"),
    "bitwise_xor": _by_kind(None, "BitwiseXor", "Xor"),
    "logical_and": _truth("And"),
    "logical_or": _truth("Or"),
    "logical_xor": _truth("Xor"),
    "shl": _shift("LEFT"),
    "shr": _shift("RIGHT"),
    "eq": _comparison("Equal"),
    "ne": _comparison("Equal", negated=True),
    "lt": _comparison("Less"),
    "le": _comparison("LessOrEqual"),
    "gt": _comparison("Greater"),
    "ge": _comparison("GreaterOrEqual"),
    "where": _where,
    "fma": _elementwise(lambda w, dtype, x, y, z: w.op("Add", w.op("Mul", x, y), z)),
}
ELEMENTWISE |= {
    name: _plain(name.capitalize())
    for name in [
        "sin",
        "cos",
        "asin",
        "acos",
        "atan",
        "sinh",
        "cosh",
        "tanh",
        "asinh",
        "acosh",
        "atanh",
        "sigmoid",
        "erf",
    ]
}


# -- movement


def _reshape(w, node):
    shape = node.sizes("shape")
    return w.op("Reshape", w.value(node.inputs[0]), w.shape(shape), allowzero=int(0 in shape))


def _permute(w, node):
    rank = len(w.meta(node.inputs[0]).shape)
    return w.op("Transpose", w.value(node.inputs[0]), perm=[d % rank for d in node.sizes("dims")])


def _expand(w, node):
    meta = w.meta(node.outputs[0])
    if 0 in meta.shape and meta.dtype != "bfloat16" and not any(isinstance(d, str) for d in meta.shape):
        return w.constant(np.empty(meta.shape, meta.dtype))  # onnxruntime does not expand 1 to 0
    return w.op("Expand", w.value(node.inputs[0]), w.shape(w.meta(node.outputs[0]).shape))


def _slice(w, node):
    axis, rank = node.integer("dim"), len(w.meta(node.inputs[0]).shape)
    ends = [w.size(d) for d in (*node.sizes_of("start"), *node.sizes_of("end"))]
    return w.op("Slice", w.value(node.inputs[0]), *ends, w.ints([axis % rank]), w.ints([node.integer("step")]))


def _flip(w, node):
    axes = node.sizes("dims")
    if not axes:
        return w.op("Identity", w.value(node.inputs[0]))
    n = len(axes)
    least = np.iinfo(np.int64).min
    return w.op("Slice", w.value(node.inputs[0]), *(w.ints(x) for x in ([-1] * n, [least] * n, axes, [-1] * n)))


def _pad(w, node):
    x, meta = w.value(node.inputs[0]), w.meta(node.inputs[0])
    computed = "int32" if meta.dtype == "bool" or meta.dtype in _SMALL else meta.dtype
    if computed != meta.dtype:
        x = w.cast(x, computed)
    pads = w.shape([*node.sizes("low"), *node.sizes("high")])
    out = w.op("Pad", x, pads, w.scalar(node.real("fill"), computed))
    return out if computed == meta.dtype else w.cast(out, meta.dtype)


def _cat(w, node):
    rank = len(w.meta(node.outputs[0]).shape)
    return w.op("Concat", *(w.value(v) for v in node.inputs), axis=node.integer("dim") % rank)


def _take(w, node):
    return w.op("Gather", *(w.value(v) for v in node.inputs), axis=node.integer("axis"))


def _gather(w, node):
    x, index = node.inputs
    axis, shape, wanted = node.integer("dim"), w.meta(x).shape, w.meta(index).shape
    name = w.value(x)
    axis %= max(len(shape), 1)
    if not shape:
        return w.op("Identity", name)
    for i, (have, want) in enumerate(zip(shape, wanted, strict=True)):
        if i != axis and have != want:
            name = w.op("Slice", name, w.ints([0]), w.size(want), w.ints([i]))
    return w.op("GatherElements", name, w.value(index), axis=axis)


def _iota(w, node):
    shape, axis = node.sizes("shape"), node.integer("axis")
    n = w.size(shape[axis]) if shape else w.ints([1])
    count = w.op("Range", w.scalar(0, "int64"), w.op("Squeeze", n, w.ints([0])), w.scalar(1, "int64"))
    others = [i for i in range(len(shape)) if i != axis]
    row = w.op("Unsqueeze", count, w.ints(others)) if others else count
    return w.op("Expand", row, w.shape(shape))


def _extent(w, node):
    (value,) = node.sizes_of("value")
    if isinstance(value, int):
        w.numbers[node.outputs[0]] = value
        return None
    return w.op("Squeeze", w.size(value), w.ints([0]))


def _cast(w, node):
    return w.cast(w.value(node.inputs[0]), node.attrs["dtype"])


# -- reductions, products and the rest


_REDUCTIONS = {"sum": "ReduceSum", "prod": "ReduceProd", "max": "ReduceMax", "min": "ReduceMin"}
_TRUTHS = {"any": "ReduceMax", "all": "ReduceMin"}


def _reduce(w, node):
    x, meta = w.value(node.inputs[0]), w.meta(node.inputs[0])
    kind, axis, chunk = node.attrs["kind"], node.integer("axis"), node.sizes_of("chunk")[0]
    computed = meta.dtype
    if kind in _TRUTHS or meta.dtype == "bool" or meta.dtype in _SMALL:
        computed = "int32"
        x = w.cast(w.cast(x, "bool") if kind in _TRUTHS and meta.dtype != "bool" else x, computed)
    reduction = _REDUCTIONS.get(kind) or _TRUTHS[kind]
    if chunk != 0:  # rows of chunks, the last filled up with what changes nothing
        if isinstance(chunk, str) or isinstance(meta.shape[axis], str):
            raise Unsupported("of a long axis of dynamic size, which is reduced in parts")
        parts = -(-meta.shape[axis] // chunk)
        nothing = {"sum": 0, "prod": 1, "max": _lowest(computed), "min": _highest(computed), "any": 0, "all": 1}[kind]
        rank = len(meta.shape)
        pads = [0] * (2 * rank)
        pads[rank + axis] = parts * chunk - meta.shape[axis]
        x = w.op("Pad", x, w.ints(pads), w.scalar(nothing, computed))
        shape = [*meta.shape[:axis], parts, chunk, *meta.shape[axis + 1 :]]
        x = w.op(reduction, w.op("Reshape", x, w.shape(shape)), w.ints([axis + 1]), keepdims=0)
    else:
        x = w.op(reduction, x, w.ints([axis]), keepdims=1)
    return x if computed == meta.dtype else w.cast(x, meta.dtype)


def _lowest(dtype):
    return -np.inf if dtype in FLOATS else np.iinfo(dtype).min


def _highest(dtype):
    return np.inf if dtype in FLOATS else np.iinfo(dtype).max


def _dot(w, node):
    a, b, bias = node.inputs
    dtype = w.meta(a).dtype
    computed = "int32" if dtype in _SMALL else dtype
    if dtype == "bool":
        raise Unsupported("of bool")
    x, y = (w.value(v) if computed == dtype else w.cast(w.value(v), computed) for v in (a, b))
    out = w.op("MatMul", x, y)
    if bias is not None:
        out = w.op("Add", out, w.value(bias))
    wanted = node.attrs["dtype"]
    return out if wanted == computed else w.cast(out, wanted)


def _convolution(w, node):
    x, weight = node.inputs
    padding = node.sizes("padding")
    return w.op(
        "Conv",
        w.value(x),
        w.value(weight),
        strides=node.sizes("stride"),
        pads=padding * 2,
        dilations=node.sizes("dilation"),
        group=node.integer("groups"),
    )


def _transposed_convolution(w, node):
    grad, weight = node.inputs
    stride, padding, dilation = (node.sizes(n) for n in ("stride", "padding", "dilation"))
    kernel, have = w.meta(weight).shape[2:], w.meta(grad).shape[2:]
    wanted = w.meta(node.outputs[0]).shape[2:]
    if any(isinstance(d, str) for d in (*have, *wanted)):
        raise Unsupported("of an image of dynamic size")
    sizes = zip(wanted, have, stride, padding, dilation, kernel, strict=True)
    more = [out - ((n - 1) * s - 2 * p + d * (k - 1) + 1) for out, n, s, p, d, k in sizes]
    return w.op(
        "ConvTranspose",
        w.value(grad),
        w.value(weight),
        strides=stride,
        pads=padding * 2,
        dilations=dilation,
        output_padding=more,
        group=node.integer("groups"),
    )


def _running(w, node):
    if node.attrs["kind"] != "sum":
        raise Unsupported(f"a running {node.attrs['kind']}")
    return w.op("CumSum", w.value(node.inputs[0]), w.scalar(node.integer("axis"), "int64"))


def _sorted(w, node):
    largest = int(node.flag("descending"))
    limit = w.size(node.sizes_of("limit")[0])
    meta = w.meta(node.inputs[0])
    x = w.value(node.inputs[0])
    computed = "int32" if meta.dtype == "bool" or meta.dtype in _SMALL else meta.dtype
    x = x if computed == meta.dtype else w.cast(x, computed)
    values, indices = w.op("TopK", x, limit, outputs=2, axis=node.integer("axis"), largest=largest, sorted=1)
    return [values if computed == meta.dtype else w.cast(values, meta.dtype), indices]


_SCATTERS = {"set": "none", "prod": "mul", "max": "max", "min": "min"}


def _scatter(reduction):
    def write(w, node):
        how = reduction or _SCATTERS[node.attrs["kind"]]
        axis = node.integer("axis" if "axis" in node.attrs else "dim")
        x, index, src = node.inputs
        wanted, have = w.meta(index).shape, w.meta(src).shape
        name = w.value(src)
        if not wanted:
            raise Unsupported("of tensors without dimensions")
        for i, (n, m) in enumerate(zip(wanted, have, strict=True)):
            if n != m:
                name = w.op("Slice", name, w.ints([0]), w.size(n), w.ints([i]))
        rank = len(wanted)
        return w.op("ScatterElements", w.value(x), w.value(index), name, axis=axis % rank, reduction=how)

    return write


def _scatter_rows(reduction):
    """self with rows of an axis written: that axis first, rows by number."""

    def write(w, node):
        x, index, src = node.inputs
        axis, rank = node.integer("axis"), len(w.meta(x).shape)
        of_index = len(w.meta(index).shape)
        first = [axis, *(i for i in range(rank) if i != axis)]
        of_src = [*range(axis, axis + of_index), *range(axis), *range(axis + of_index, rank - 1 + of_index)]
        rest = [d for i, d in enumerate(w.meta(x).shape) if i != axis]
        rows = w.op("Reshape", w.op("Transpose", w.value(src), perm=of_src), w.shape([-1, *rest]))
        at = w.op("Reshape", w.value(index), w.ints([-1, 1]))
        at = at if w.meta(index).dtype == "int64" else w.cast(at, "int64")
        out = w.op("ScatterND", w.op("Transpose", w.value(x), perm=first), at, rows, reduction=reduction)
        return w.op("Transpose", out, perm=[first.index(i) for i in range(rank)])

    return write


def _slice_write(w, node):
    x, src = node.inputs
    shape, part = w.meta(x).shape, w.meta(src).shape
    starts, steps = node.sizes("starts"), node.sizes("steps")
    if any(isinstance(d, str) for d in (*shape, *part, *starts)):
        raise Unsupported("of a slice of dynamic size")
    places = np.arange(int(np.prod(shape)), dtype=np.int64).reshape(shape)
    places = places[
        tuple(slice(a, a + (n - 1) * s + 1 if n else a, s) for a, s, n in zip(starts, steps, part, strict=True))
    ]
    flat = w.op("Reshape", w.value(x), w.ints([-1]))
    rows = w.op("Reshape", w.value(src), w.ints([-1]))
    out = w.op("ScatterElements", flat, w.constant(places.reshape(-1)), rows, axis=0)
    return w.op("Reshape", out, w.shape(shape), allowzero=int(0 in shape))


def _random(w, node):
    raise Unsupported("random numbers: ONNX has none that are Smolder's. Export a model in eval() mode")


PRIMITIVES = ELEMENTWISE | {
    "reshape": _reshape,
    "permute": _permute,
    "expand": _expand,
    "slice": _slice,
    "flip": _flip,
    "pad": _pad,
    "cat": _cat,
    "take": _take,
    "gather": _gather,
    "iota": _iota,
    "extent": _extent,
    "cast": _cast,
    "barrier": lambda w, node: w.op("Identity", w.value(node.inputs[0])),
    "reduce": _reduce,
    "dot": _dot,
    "conv_forward": _convolution,
    "conv_backward_input": _transposed_convolution,
    "scan": _running,
    "sorted": _sorted,
    "scatter_add": _scatter("add"),
    "scatter_into": _scatter(None),
    "index_add": _scatter_rows("add"),
    "index_set": _scatter_rows("none"),
    "slice_write": _slice_write,
    "random_bits": _random,
}


# -- ops that ONNX has


def _floats(w, node):
    metas = [w.meta(v) for v in node.inputs if v is not None]
    strong = {m.dtype for m in metas if not m.weak}
    return len(strong) == 1 and strong <= set(FLOATS) and w.meta(node.outputs[0]).dtype in strong


def _known(w, *values):
    return all(v in w.numbers for v in values)


def _first_alone(w, node):
    """Whether nobody reads the results after the first."""
    return not any(v in w.read for v in node.outputs[1:])


def _one_dtype(w, node):
    """Whether elementwise operands are promoted by nothing."""
    rest = node.inputs[1:] if node.op == "where" else node.inputs
    strong = {w.meta(v).dtype for v in rest if not w.meta(v).weak}
    if len(strong) != 1:
        return False
    (dtype,) = strong
    order = ("bool", "int", "float")
    kind = lambda d: order.index("float" if d in FLOATS else "bool" if d == "bool" else "int")  # noqa: E731
    if any(kind(w.meta(v).dtype) > kind(dtype) for v in rest if w.meta(v).weak):
        return False
    out = w.meta(node.outputs[0])
    if out.dtype != dtype and out.dtype != "bool":
        return False
    return dtype in FLOATS or node.op not in ("pow", "reciprocal")


def _linear(w, node):
    x, weight, bias = node.inputs
    if len(w.meta(x).shape) == 2:
        return w.op("Gemm", *(w.value(v) for v in (x, weight, bias) if v is not None), transB=1)
    out = w.op("MatMul", w.value(x), w.op("Transpose", w.value(weight), perm=[1, 0]))
    return out if bias is None else w.op("Add", out, w.value(bias))


def _addmm(w, node):
    c, a, b, beta, alpha = node.inputs
    scales = {"beta": float(w.numbers[beta]), "alpha": float(w.numbers[alpha])}
    return w.op("Gemm", w.value(a), w.value(b), w.value(c), **scales)


def _layer_norm(w, node):
    x, weight, bias, eps = node.inputs
    given = [w.value(v) for v in (x, weight, bias) if v is not None]
    axis = -len(node.sizes("normalized_shape"))
    return w.op("LayerNormalization", *given, axis=axis, epsilon=float(w.numbers[eps]))


def _along(kind):
    return lambda w, node: w.op(kind, w.value(node.inputs[0]), axis=node.integer("dim"))


def _with_number(kind, name):
    return lambda w, node: w.op(kind, w.value(node.inputs[0]), **{name: float(w.numbers[node.inputs[1]])})


def _reduction(kind):
    def write(w, node):
        axes = [w.ints(node.sizes("dim"))] if node.sizes("dim") else []
        return w.op(kind, w.value(node.inputs[0]), *axes, keepdims=int(node.flag("keepdim")))

    return write


def _arg(kind):
    def write(w, node):
        axis, keep = node.integer("dim"), int(node.flag("keepdim"))
        return w.op(kind, w.value(node.inputs[0]), axis=axis, keepdims=keep)

    return write


def _pool_pads(w, node):
    """Padding on both sides that gives the size wanted."""
    sizes, wanted = w.meta(node.inputs[0]).shape, w.meta(node.outputs[0]).shape
    kernel, stride, padding = (node.sizes(n) for n in ("kernel_size", "stride", "padding"))
    dilation = node.sizes("dilation") if "dilation" in node.attrs else [1] * len(kernel)
    n = len(kernel)
    parts = zip(sizes[-n:], wanted[-n:], kernel, stride, padding, dilation, strict=True)
    ends = [max((out - 1) * s + d * (k - 1) + 1 - have - p, 0) for have, out, k, s, p, d in parts]
    return padding, ends


def _pools(w, node):
    if not _floats(w, node) or not _first_alone(w, node):
        return False
    n, shape = len(node.sizes("kernel_size")), w.meta(node.inputs[0]).shape
    return len(shape) == n + 2 and not any(isinstance(d, str) for d in shape[-n:])


def _max_pool(w, node):
    begin, end = _pool_pads(w, node)
    end = [max(e, 0) for e in end]
    return w.op(
        "MaxPool",
        w.value(node.inputs[0]),
        kernel_shape=node.sizes("kernel_size"),
        strides=node.sizes("stride"),
        dilations=node.sizes("dilation"),
        pads=begin + end,
    )


def _avg_pools(w, node):
    if not _pools(w, node) or node.given("divisor_override"):
        return False
    begin, end = _pool_pads(w, node)
    return all(e <= b for b, e in zip(begin, end, strict=True))


def _avg_pool(w, node):
    padding = node.sizes("padding")
    return w.op(
        "AveragePool",
        w.value(node.inputs[0]),
        kernel_shape=node.sizes("kernel_size"),
        strides=node.sizes("stride"),
        pads=padding * 2,
        count_include_pad=int(node.flag("count_include_pad")),
    )


def _dtype_stays(w, node):
    x = w.meta(node.inputs[0])
    return x.dtype == w.meta(node.outputs[0]).dtype and x.dtype in (*FLOATS, "int64", "int32") and len(x.shape) > 0


def _clip(w, node):
    dtype = w.meta(node.inputs[0]).dtype
    return w.op("Clip", *(w.value(v, dtype) for v in node.inputs))


WHOLE = {
    "linear": (lambda w, n: _floats(w, n) and len(w.meta(n.inputs[1]).shape) == 2, _linear),
    "matmul": (_floats, lambda w, n: w.op("MatMul", *(w.value(v) for v in n.inputs))),
    "addmm": (lambda w, n: _floats(w, n) and _known(w, *n.inputs[3:]), _addmm),
    "layer_norm": (
        lambda w, n: _floats(w, n) and n.inputs[1] is not None and _first_alone(w, n) and _known(w, n.inputs[3]),
        _layer_norm,
    ),
    "softmax": (lambda w, n: _floats(w, n) and w.meta(n.inputs[0]).shape, _along("Softmax")),
    "log_softmax": (lambda w, n: _floats(w, n) and w.meta(n.inputs[0]).shape, _along("LogSoftmax")),
    "gelu": (
        lambda w, n: _floats(w, n) and w.opset >= 20,
        lambda w, n: w.op("Gelu", w.value(n.inputs[0]), approximate=n.attrs["approximate"]),
    ),
    "silu": (_floats, lambda w, n: w.op("Mul", w.value(n.inputs[0]), w.op("Sigmoid", w.value(n.inputs[0])))),
    "elu": (lambda w, n: _floats(w, n) and _known(w, n.inputs[1]), _with_number("Elu", "alpha")),
    "leaky_relu": (lambda w, n: _floats(w, n) and _known(w, n.inputs[1]), _with_number("LeakyRelu", "alpha")),
    "selu": (_floats, lambda w, n: w.op("Selu", w.value(n.inputs[0]))),
    "softsign": (_floats, lambda w, n: w.op("Softsign", w.value(n.inputs[0]))),
    "mish": (_floats, lambda w, n: w.op("Mish", w.value(n.inputs[0]))),
    "hardswish": (_floats, lambda w, n: w.op("HardSwish", w.value(n.inputs[0]))),
    "hardsigmoid": (_floats, lambda w, n: w.op("HardSigmoid", w.value(n.inputs[0]), alpha=1 / 6, beta=0.5)),
    "softplus_unit": (_floats, lambda w, n: w.op("Softplus", w.value(n.inputs[0]))),
    "clamp": (lambda w, n: _dtype_stays(w, n) and _known(w, *n.inputs[1:]) and _one_dtype(w, n), _clip),
    "sum": (lambda w, n: _dtype_stays(w, n) and not n.given("dtype"), _reduction("ReduceSum")),
    "mean": (lambda w, n: _dtype_stays(w, n) and not n.given("dtype"), _reduction("ReduceMean")),
    "prod": (lambda w, n: _dtype_stays(w, n) and not n.given("dtype"), _reduction("ReduceProd")),
    "amax": (_dtype_stays, _reduction("ReduceMax")),
    "amin": (_dtype_stays, _reduction("ReduceMin")),
    "argmax": (lambda w, n: _is_plain(w, n) and n.given("dim"), _arg("ArgMax")),
    "argmin": (lambda w, n: _is_plain(w, n) and n.given("dim"), _arg("ArgMin")),
    "max_pool": (_pools, _max_pool),
    "avg_pool": (_avg_pools, _avg_pool),
    "embedding": (lambda w, n: True, lambda w, n: w.op("Gather", *(w.value(v) for v in n.inputs))),
    "index_select": (
        lambda w, n: w.meta(n.inputs[0]).shape and len(w.meta(n.inputs[1]).shape) == 1,
        lambda w, n: w.op("Gather", *(w.value(v) for v in n.inputs), axis=n.integer("dim")),
    ),
    "cumsum": (
        lambda w, n: _dtype_stays(w, n) and not n.given("dtype"),
        lambda w, n: w.op("CumSum", w.value(n.inputs[0]), w.scalar(n.integer("dim"), "int64")),
    ),
    "to": (lambda w, n: True, _cast),
    "cat": (lambda w, n: len({w.meta(v).dtype for v in n.inputs}) == 1, _cat),
}
WHOLE |= {name: (_one_dtype, write) for name, write in ELEMENTWISE.items()}


def _is_plain(w, node):
    x = w.meta(node.inputs[0])
    return x.dtype in (*FLOATS, "int64", "int32") and len(x.shape) > 0
