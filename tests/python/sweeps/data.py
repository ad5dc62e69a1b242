"""Data sets, samplers, loaders with and without workers, and batches of whatever samples are."""

import collections
import time

D = T.utils.data


class Sq(D.Dataset):
    def __len__(s):
        return 10

    def __getitem__(s, i):
        return i, float(i) * 0.5, np.full((2,), i, "float32"), {"k": T.tensor([i]), "s": str(i)}


class It(D.IterableDataset):
    def __init__(s, n=10):
        s.n = n

    def __iter__(s):
        w = D.get_worker_info()
        lo, st = (w.id, w.num_workers) if w else (0, 1)
        return iter(range(lo, s.n, st))


class Bad(D.Dataset):
    def __len__(s):
        return 4

    def __getitem__(s, i):
        if i == 2:
            raise KeyError("boo")
        return i


P = collections.namedtuple("P", "a b")


def L(*a, **k):
    return list(D.DataLoader(*a, **k))


def deep(x):
    if isinstance(x, dict):
        return [repr(sorted(x))] + [deep(x[k]) for k in sorted(x)]
    if isinstance(x, (list, tuple)):
        return [type(x).__name__] + [deep(y) for y in x]
    return x


TD = D.TensorDataset(T.arange(10), T.arange(20).reshape(10, 2).float())
for nw in (0, 2):
    kw = dict(num_workers=nw)
    case(f"map {nw}", lambda: deep(L(Sq(), batch_size=3, **kw)))
    case(f"map drop {nw}", lambda: deep(L(Sq(), batch_size=3, drop_last=True, **kw)))
    case(f"map none {nw}", lambda: deep(L(Sq(), batch_size=None, **kw)))
    case(f"iter {nw}", lambda: deep(L(It(), batch_size=3, **kw)))
    case(f"iter drop {nw}", lambda: deep(L(It(), batch_size=3, drop_last=True, **kw)))
    case(f"iter none {nw}", lambda: deep(L(It(), batch_size=None, **kw)))
    case(f"td {nw}", lambda: deep(L(TD, batch_size=4, **kw)))
    case(f"td subset {nw}", lambda: deep(L(D.Subset(D.Subset(TD, [3, 1, 4, 1, 5, 9]), [5, 0, 2]), batch_size=2, **kw)))
    case(f"concat {nw}", lambda: deep(L(D.ConcatDataset([TD, TD]), batch_size=7, **kw)))
    case(
        f"shuffle {nw}", lambda: sorted(int(v) for b in L(list(range(20)), batch_size=3, shuffle=True, **kw) for v in b)
    )
    case(f"bad {nw}", lambda: L(Bad(), **kw))
    case(f"collate {nw}", lambda: repr(L(list(range(5)), batch_size=2, collate_fn=list, **kw)))
    case(f"bs {nw}", lambda: deep(L(list(range(5)), batch_sampler=[[0, 2], [4]], **kw)))
    case(f"sampler {nw}", lambda: deep(L(list(range(5)), sampler=[4, 2], **kw)))
case(
    "persist",
    lambda: [
        deep([list(loader), list(loader)])
        for loader in [D.DataLoader(It(7), batch_size=2, num_workers=2, persistent_workers=True)]
    ],
)
case(
    "break",
    lambda: [
        [next(iter(loader)) for _ in range(3)]
        for loader in [D.DataLoader(list(range(9)), num_workers=2, persistent_workers=True)]
    ],
)
case(
    "lens",
    lambda: repr(
        [
            len(D.DataLoader(Sq(), 3)),
            len(D.DataLoader(Sq(), 3, drop_last=True)),
            len(D.DataLoader(Sq(), None)),
            len(D.DataLoader(list(range(5)), batch_sampler=[[1], [2]])),
        ]
    ),
)
case("in_order", lambda: sorted(int(b) for b in L(list(range(9)), num_workers=2, in_order=False)))
for i, kw in enumerate(
    [
        dict(num_workers=-1),
        dict(timeout=-1),
        dict(prefetch_factor=2),
        dict(persistent_workers=True),
        dict(sampler=[1], shuffle=True),
        dict(batch_sampler=[[1]], batch_size=2),
        dict(batch_size=None, drop_last=True),
        dict(batch_size=0),
        dict(batch_size=2.0),
        dict(drop_last=1),
        dict(multiprocessing_context="fork"),
        dict(num_workers=1, multiprocessing_context="x"),
        dict(prefetch_factor=-1, num_workers=1),
    ]
):
    case(f"err {i}", lambda: L(Sq(), **kw))
for i, kw in enumerate([dict(shuffle=True), dict(sampler=[1]), dict(batch_sampler=[[1]])]):
    case(f"ierr {i}", lambda: L(It(), **kw))


def setbs():
    loader = D.DataLoader(Sq())
    loader.batch_size = 3


case("fixed", setbs)
case("split", lambda: sorted(i for s in D.random_split(range(10), [3, 7]) for i in s.indices))
case("split f", lambda: repr([len(s) for s in D.random_split(range(11), [0.3, 0.3, 0.4])]))
case("split e", lambda: D.random_split(range(10), [3, 6]))
case("split e2", lambda: D.random_split(range(10), [1.5, -0.5]))
case("td e", lambda: D.TensorDataset(T.zeros(2), T.zeros(3)))
case("cat e", lambda: D.ConcatDataset([]))
case("rs e", lambda: D.RandomSampler([]))
case("rs e2", lambda: D.RandomSampler([1], num_samples=0))
case("wrs", lambda: len(list(D.WeightedRandomSampler([0.1, 0.9], 5))))
case("wrs e", lambda: D.WeightedRandomSampler([[0.1]], 5))
case("bse", lambda: D.BatchSampler([1], 0, False))
case("srs", lambda: sorted(D.SubsetRandomSampler([3, 5, 7])))
case("rs rep", lambda: len(list(D.RandomSampler(range(3), replacement=True, num_samples=70))))
case("rs many", lambda: len(list(D.RandomSampler(range(3), num_samples=8))))
for i, b in enumerate(
    [
        [1, 2],
        [1.0, 2.0],
        [True, False],
        ["a", "b"],
        [b"a"],
        [(1, 2.0), (3, 4.0)],
        [[1, "a"], [2, "b"]],
        [P(1, 2), P(3, 4)],
        [{"a": 1}, {"a": 2}],
        [np.float32(1), np.float32(2)],
        [np.array(1), np.array(2)],
        [np.zeros(2), np.ones(2)],
        [None],
        [[1], [1, 2]],
        [np.array(["a"])],
        [object()],
        [T.zeros(2), T.zeros(3)],
    ]
):
    case(f"default_collate {i}", lambda: deep(D.default_collate(b)))
for i, b in enumerate(
    [1, "a", np.zeros(2), (1, np.zeros(2)), [np.ones(1)], {"a": np.zeros(1)}, P(np.zeros(1), 2), np.array(["a"])]
):
    case(f"convert {i}", lambda: deep(D.default_convert(b)))
case("stack", lambda: deep([D.StackDataset(range(3), range(3, 6))[1], D.StackDataset(a=range(3), b=range(3, 6))[2]]))
case("chain", lambda: list(D.ChainDataset([It(3), It(2)])))
case("add", lambda: len(TD + TD))
case("neg", lambda: deep(D.ConcatDataset([TD, TD])[-1]))


def init(i):
    assert D.get_worker_info().id == i


case("init", lambda: deep(L(range(3), num_workers=2, worker_init_fn=init)))
case("none info", lambda: repr(D.get_worker_info()))


class Slow(D.Dataset):
    def __len__(s):
        return 2

    def __getitem__(s, i):
        time.sleep(3)
        return i


case("timeout", lambda: L(Slow(), num_workers=1, timeout=1))
