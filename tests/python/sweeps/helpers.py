"""Bags of embeddings, ops on lists, windows, trees, and other helpers."""

import collections
import importlib

for mode in ("sum", "mean", "max"):
    for kw in (dict(), dict(padding_idx=2), dict(padding_idx=-1)):
        for offsets in ([0, 3], [0, 0, 2, 7], [0, 8]):
            bag = lambda w: F.embedding_bag(T.tensor([1, 2, 4, 5, 4, 3, 2, 9]), w, T.tensor(offsets), mode=mode, **kw)
            case(f"bag {mode} {kw} {offsets}", lambda: with_grads(bag, arr(10, 3)))
        rows = lambda w: F.embedding_bag(T.tensor([[1, 2, 4], [5, 4, 3], [2, 2, 2]]), w, mode=mode, **kw)
        case(f"bag {mode} {kw} rows", lambda: with_grads(rows, arr(10, 3)))
        last = lambda w: F.embedding_bag(
            T.tensor([1, 2, 4, 5]), w, T.tensor([0, 1, 4]), mode=mode, include_last_offset=True, **kw
        )
        case(f"bag {mode} {kw} last", lambda: with_grads(last, arr(10, 3)))
weighted = lambda w, p: F.embedding_bag(T.tensor([1, 2, 4, 5]), w, T.tensor([0, 1]), mode="sum", per_sample_weights=p)
case("bag weighted", lambda: with_grads(weighted, arr(10, 3), arr(4)))
case("bag weighted mean", lambda: F.embedding_bag(T.tensor([[1]]), arr(10, 3), per_sample_weights=arr(1, 1)))
case("bag no offsets", lambda: F.embedding_bag(T.tensor([1]), arr(10, 3)))
case("bag both", lambda: F.embedding_bag(T.tensor([[1]]), arr(10, 3), T.tensor([0])))
case("bag mode", lambda: F.embedding_bag(T.tensor([[1]]), arr(10, 3), mode="x"))
case("bag 3d", lambda: F.embedding_bag(T.tensor([[[1]]]), arr(10, 3)))
case("bag weight", lambda: F.embedding_bag(T.tensor([[1]]), arr(10)))
case("bag sizes", lambda: F.embedding_bag(T.tensor([[1]]), arr(10, 3), mode="sum", per_sample_weights=arr(2)))
case("bag module", lambda: [repr(nn.EmbeddingBag(5, 3)), repr(nn.EmbeddingBag(5, 3, mode="max", padding_idx=-1))])
case("bag padding", lambda: nn.EmbeddingBag(5, 3, padding_idx=1).weight[1])
case("bag outside", lambda: nn.EmbeddingBag(5, 3, padding_idx=7))

some = lambda: [arr(2, 3, low=0.1, high=1), arr(4, low=0.1, high=1)]
for name in ("abs", "neg", "sqrt", "exp", "log", "sigmoid", "tanh", "sign", "reciprocal", "floor", "round"):
    case(f"foreach {name}", lambda: getattr(T, f"_foreach_{name}")(some()))

    def in_place():
        given = some()
        return [getattr(T, f"_foreach_{name}_")(given) and None, *given]

    case(f"foreach {name}_", in_place)
for name in ("add", "sub", "mul", "div", "pow", "clamp_max", "clamp_min", "maximum", "minimum"):
    for kind, other in (("number", lambda: 0.5), ("numbers", lambda: [0.5, 2.0]), ("tensors", some)):
        case(f"foreach {name} {kind}", lambda: getattr(T, f"_foreach_{name}")(some(), other()))

        def in_place():
            given = some()
            return [getattr(T, f"_foreach_{name}_")(given, other()) and None, *given]

        case(f"foreach {name}_ {kind}", in_place)
case("foreach add alpha", lambda: T._foreach_add(some(), some(), alpha=2))
case("foreach lerp", lambda: T._foreach_lerp(some(), some(), 0.3))
for name in ("addcmul", "addcdiv"):
    case(f"foreach {name}", lambda: getattr(T, f"_foreach_{name}")(some(), some(), some(), 0.5))
    case(f"foreach {name} each", lambda: getattr(T, f"_foreach_{name}")(some(), some(), some(), [0.5, 2.0]))
case("foreach norm", lambda: T._foreach_norm(some()))
case("foreach norm 1", lambda: T._foreach_norm(some(), 1))
case("foreach wrong length", lambda: T._foreach_mul(some(), [1.0]))
case("foreach nothing", lambda: T._foreach_mul([], 1.0))


def copied():
    a, b = some(), some()
    T._foreach_copy_(a, b)
    T._foreach_zero_(b)
    return [*a, *b]


case("foreach copy and zero", copied)

for name in ("hann", "hamming", "blackman", "bartlett"):
    make = getattr(T, f"{name}_window")
    for n in (0, 1, 2, 5, 16):
        for periodic in (True, False):
            case(f"{name} {n} {periodic}", lambda: make(n, periodic))
    case(f"{name} double", lambda: make(7, dtype=T.float64))
    case(f"{name} negative", lambda: make(-1))
    case(f"{name} integers", lambda: make(3, dtype=T.int64))
case("hamming alpha", lambda: T.hamming_window(6, True, 0.6, 0.4))

tree = importlib.import_module(f"{T.__name__}.utils._pytree")
Pair = collections.namedtuple("Pair", "a b")
TREES = {
    "leaf": 1,
    "none": None,
    "list": [1, [2, 3]],
    "tuple": (1, (), {"x": 2}),
    "ordered": collections.OrderedDict([("b", 1), ("a", [2])]),
    "default": collections.defaultdict(list, {"x": [1]}),
    "named": Pair(1, [2]),
    "deque": collections.deque([1, 2], maxlen=3),
    "empty": {},
}
for name, made in TREES.items():
    case(f"leaves {name}", lambda: repr(tree.tree_leaves(made)))
    case(f"round {name}", lambda: repr(tree.tree_unflatten(*tree.tree_flatten(made))))
    case(f"count {name}", lambda: tree.tree_flatten(made)[1].num_leaves)
    case(f"map {name}", lambda: repr(tree.tree_map(lambda x: (x or 0) * 2, made)))
    case(f"only {name}", lambda: repr(tree.tree_map_only(int, lambda x: x + 1, made)))
    case(f"any {name}", lambda: [tree.tree_any(lambda x: x == 2, made), tree.tree_all(lambda x: x, made)])
case("two trees", lambda: tree.tree_map(lambda a, b: a + b, [1, (2,)], [10, (20,)]))
case("two forms", lambda: tree.tree_map(lambda a, b: a + b, [1, (2,)], [10, 20]))
case("is_leaf", lambda: repr(tree.tree_leaves([1, (2, 3)], is_leaf=lambda x: isinstance(x, tuple))))
case("too few", lambda: tree.tree_unflatten([1], tree.tree_flatten([1, 2])[1]))
case("no spec", lambda: tree.tree_unflatten([1], 3))
case("same form", lambda: tree.tree_flatten([1, {"a": 2}])[1] == tree.tree_flatten([3, {"a": 4}])[1])
case("other form", lambda: tree.tree_flatten([1, {"a": 2}])[1] == tree.tree_flatten([3, {"b": 4}])[1])

case("check", lambda: T._check(True))
case("check fails", lambda: T._check(False))
case("check message", lambda: T._check(False, "text"))
case("check no bool", lambda: T._check(1))
case("scheduler", lambda: issubclass(T.optim.lr_scheduler._LRScheduler, T.optim.lr_scheduler.LRScheduler))
case("fans", lambda: repr(nn.init._calculate_fan_in_and_fan_out(T.zeros(2, 3, 4))))
for name in ("uniform", "normal", "xavier_uniform", "kaiming_normal", "orthogonal"):
    case(f"old {name}", lambda: tuple(getattr(nn.init, name)(T.zeros(3, 4)).shape))
case("dirac", lambda: [nn.init.dirac_(T.ones(4, 2, 3)), nn.init.dirac_(T.ones(4, 2, 3), 2), nn.init.eye_(T.ones(2, 3))])
case("dirac wrong", lambda: nn.init.dirac_(T.ones(3, 2, 3), 2))
case("sparse", lambda: (nn.init.sparse_(T.ones(10, 4), 0.3) == 0).sum(0))
attention = importlib.import_module(f"{T.__name__}.nn.attention")


def attended(backends):
    with attention.sdpa_kernel(backends):
        return F.scaled_dot_product_attention(arr(1, 2, 3, 4), arr(1, 2, 3, 4), arr(1, 2, 3, 4))


case("math", lambda: attended(attention.SDPBackend.MATH))
case("either", lambda: attended([attention.SDPBackend.FLASH_ATTENTION, attention.SDPBackend.MATH]))
case("neither", lambda: attended("math"))
case("another device's", lambda: attended(attention.SDPBackend.EFFICIENT_ATTENTION))
case("none", lambda: attended([]))


def ctc(lp, targets, inputs, lengths, **kw):
    return with_grads(lambda x: F.ctc_loss(x.log_softmax(-1), targets(), inputs, lengths, **kw), lp())


labels = lambda: T.tensor([[1, 2, 2, 3], [4, 1, 0, 0], [2, 2, 2, 2]])
flat = lambda: T.tensor([1, 2, 2, 3, 4, 1, 2, 2, 2, 2])
steps = lambda: arr(9, 3, 5, dtype="float64")
for reduction in ("none", "mean", "sum"):
    kw = dict(reduction=reduction)
    case(f"ctc rows {reduction}", lambda: ctc(steps, labels, [9, 7, 8], [4, 2, 4], **kw))
    case(f"ctc tensors {reduction}", lambda: ctc(steps, labels, T.tensor([9, 7, 8]), T.tensor([4, 2, 4]), **kw))
    case(f"ctc flat {reduction}", lambda: ctc(steps, flat, [9, 7, 8], [4, 2, 4], **kw))
    case(f"ctc empty target {reduction}", lambda: ctc(steps, labels, [9, 9, 9], [0, 1, 0], **kw))
    no_way = lambda x: F.ctc_loss(x.log_softmax(-1), labels(), [9, 7, 4], [4, 2, 4], **kw)
    case(f"ctc no way {reduction}", lambda: no_way(steps()))
    case(f"ctc zero {reduction}", lambda: ctc(steps, labels, [9, 7, 4], [4, 2, 4], zero_infinity=True, **kw))
    case(f"ctc one {reduction}", lambda: ctc(lambda: arr(6, 5), lambda: T.tensor([1, 2]), (6,), (2,), **kw))
case("ctc last blank", lambda: ctc(steps, lambda: T.tensor([[1, 2], [0, 1], [2, 2]]), [9, 9, 9], [2, 2, 2], blank=4))
case("ctc module", lambda: nn.CTCLoss(reduction="sum")(steps().log_softmax(2), labels(), (9, 9, 9), (4, 2, 4)))
case("ctc blank", lambda: F.ctc_loss(steps(), labels(), [9, 9, 9], [4, 2, 4], blank=5))
case("ctc lengths", lambda: F.ctc_loss(steps(), labels(), [9, 9], [4, 2, 4]))
case("ctc too long", lambda: F.ctc_loss(steps(), labels(), [10, 9, 9], [4, 2, 4]))


class Kept(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Buffer(T.ones(2))
        self.b = nn.Buffer(T.zeros(2), persistent=False)
        self.c = nn.Parameter(T.zeros(1))


case("buffers", lambda: repr(([n for n, _ in Kept().named_buffers()], list(Kept().state_dict()))))
case("buffer sum", lambda: Kept().a + 1)

case("pair", lambda: repr([f(x) for f in (nn.modules.utils._pair, nn.modules.utils._triple) for x in (3, [1, 2])]))
case(
    "single",
    lambda: repr((nn.modules.utils._single(2), nn.modules.utils._quadruple(1), nn.modules.utils._ntuple(5)(0))),
)
case("is norm", lambda: [isinstance(x, nn.modules.batchnorm._BatchNorm) for x in (nn.BatchNorm2d(3), nn.LayerNorm(3))])
case("is conv", lambda: isinstance(nn.Conv3d(1, 1, 1), nn.modules.conv._ConvNd))
case("is loss", lambda: isinstance(nn.MSELoss(), nn.modules.loss._Loss))
case("same", lambda: [nn.modules.Linear is nn.Linear, nn.modules.Module is nn.Module, nn.modules.ReLU is nn.ReLU])
