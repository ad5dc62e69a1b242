"""Old constructors, and what tensors say of themselves."""

for name in (
    "FloatTensor",
    "DoubleTensor",
    "LongTensor",
    "IntTensor",
    "ShortTensor",
    "CharTensor",
    "ByteTensor",
    "BoolTensor",
    "HalfTensor",
    "Tensor",
):
    make = getattr(T, name)
    case(f"{name} list", lambda: make([1, 0, 1]))
    case(f"{name} nested", lambda: make([[1, 0], [0, 1]]))
    case(f"{name} sizes", lambda: repr((tuple(make(2, 3).shape), make(2, 3).dtype)))
    case(f"{name} one size", lambda: tuple(make(3).shape))
    case(f"{name} a Size", lambda: tuple(make(T.zeros(2, 3).shape).shape))
    case(f"{name} nothing", lambda: make())
    case(f"{name} empty list", lambda: make([]))
    case(f"{name} array", lambda: make(np.array([1, 2], dtype="float32")) if name in ("FloatTensor", "Tensor") else 0)
    case(f"{name} float", lambda: make(2.5))
    case(f"{name} text", lambda: make("a"))
    case(f"{name} device", lambda: tuple(make(2, device="cpu").shape))
    if name != "Tensor":
        case(f"{name} is", lambda: [isinstance(make(1), make), isinstance(T.ones(1), make)])
        case(f"{name} converts", lambda: T.tensor([0.0, 1.5]).type(make))
        case(f"{name} other dtype", lambda: make(T.zeros(2).to(T.bfloat16)))
for x in (T.zeros(2, 3), T.zeros(4, dtype=T.int64), T.zeros(0, dtype=T.bool), T.zeros(())):
    shown = f"{tuple(x.shape)} {x.dtype}".replace("torch.", "").replace("smolder.", "")
    case(f"itemsize {shown}", lambda: [x.itemsize, x.nbytes, x.get_device(), x.is_pinned()])
    case(f"kinds {shown}", lambda: [x.is_sparse, x.is_meta, x.is_quantized, x.is_mkldnn])
    case(f"parts {shown}", lambda: [x.real, repr(x.layout)])
    case(f"H {shown}", lambda: x.H)
    case(f"typename {shown}", lambda: T.typename(x))
for sizes in ((2,), (3, 2), ((2, 3),), (0,), (6,), (7,)):
    start = lambda: T.arange(6)
    if len(sizes) > 1 or sizes != (7,):
        case(f"resize {sizes}", lambda: start().resize_(*sizes))
    case(f"resize shape {sizes}", lambda: tuple(start().resize_(*sizes).shape))
case("resize as", lambda: T.arange(6).resize_as_(T.zeros(3, 2)))
case("resize grad", lambda: T.zeros(3, requires_grad=True).resize_(2))
for name in ("new_zeros", "new_ones", "new_empty"):
    case(name, lambda: tuple(getattr(T.zeros(2), name)(2, 3, device="cpu").shape))
case("new_full", lambda: T.zeros(2).new_full((2,), 3.0, device="cpu"))
case("new_tensor", lambda: T.zeros(2).new_tensor([1, 2], device="cpu"))
for form in ("contiguous_format", "preserve_format"):
    wanted = getattr(T, form)
    case(f"repr {form}", lambda: repr(wanted))
    case(f"clone {form}", lambda: T.ones(2, 2).clone(memory_format=wanted))
    case(f"to {form}", lambda: T.ones(2, 2).to(T.float64, memory_format=wanted))
    case(f"module {form}", lambda: nn.Linear(2, 2).to(memory_format=wanted).weight.dtype.is_floating_point)
case("contiguous", lambda: T.ones(2, 3).t().contiguous(memory_format=T.contiguous_format))
case("contiguous wrong", lambda: T.ones(2).contiguous(memory_format=3))
case("is_contiguous", lambda: [T.ones(2, 3).t().is_contiguous(memory_format=T.contiguous_format)])
case("is_contiguous last", lambda: T.ones(1, 2, 3, 4).is_contiguous(memory_format=T.channels_last))
case("precision", lambda: [T.set_float32_matmul_precision("high"), T.get_float32_matmul_precision()])
case("precision back", lambda: [T.set_float32_matmul_precision("highest"), T.get_float32_matmul_precision()])
case("deterministic", lambda: [T.use_deterministic_algorithms(True), T.are_deterministic_algorithms_enabled()])
case("deterministic off", lambda: [T.use_deterministic_algorithms(False), T.are_deterministic_algorithms_enabled()])
case("default dtype", lambda: [T.set_default_dtype(T.float32), repr(T.get_default_dtype())])
case("default dtype wrong", lambda: T.set_default_dtype(T.int64))
