"""Indices are checked where something is taken, and nowhere else, whatever reads the result; and of one step alone."""

import pytest

import smolder
from smolder import cuda
from smolder.nn import functional as F

DEVICES = [
    "cpu",
    pytest.param("cuda", marks=pytest.mark.skipif(not cuda.is_available(), reason="there is no CUDA device")),
]


def written(make, at):
    def use(x):
        out = smolder.zeros(2, 6, dtype=smolder.int64)
        out[at] = make(x)
        return out

    return use


# Each reads a matrix of whole numbers [2, 3] at positions of its own, some of which are of something else.
CONSUMERS = {
    "alone": lambda x: x,
    "cat behind": lambda x: smolder.cat((smolder.zeros(2, 1).long(), x), 1),
    "cat before": lambda x: smolder.cat((x, smolder.zeros(2, 2).long()), 1),
    "cat of one column": lambda x: smolder.cat((smolder.zeros(2, 1).long(), x[:, :1]), 1),
    "cat rows": lambda x: smolder.cat((smolder.zeros(3, 3).long(), x, smolder.ones(1, 3).long())),
    "cat of cats": lambda x: smolder.cat((smolder.cat((x, x + 1), 1), smolder.zeros(2, 1).long()), 1),
    "stack": lambda x: smolder.stack((smolder.zeros(2, 3).long(), x), 1),
    "stack last": lambda x: smolder.stack((x, smolder.zeros(2, 3).long()), -1),
    "pad": lambda x: F.pad(x, (1, 2)),
    "pad all sides": lambda x: F.pad(x, (1, 2, 1, 1), value=5),
    "pad of a pad": lambda x: F.pad(F.pad(x, (1, 0)), (0, 1, 2, 0)),
    "pad of arithmetic": lambda x: F.pad(x * 2 + 1, (2, 0)),
    "roll": lambda x: x.roll(1, 1),
    "flip": lambda x: x.flip(1),
    "slice": lambda x: x[:, 1:],
    "where": lambda x: smolder.where(smolder.arange(3) > 1, x, 3),
    "masked_fill": lambda x: x.masked_fill(smolder.arange(3) > 1, 7),
    "columns written": written(lambda x: x, (slice(None), slice(1, 4))),
    "one column written": written(lambda x: x[:, 0], (slice(None), 2)),
    "row written": written(lambda x: x[1], (1, slice(2, 5))),
    "looked up": lambda x: smolder.arange(40).reshape(8, 5)[smolder.cat((smolder.zeros(2, 1).long(), x), 1)],
    "one_hot": lambda x: F.one_hot(F.pad(x, (1, 1)), 8),
    "sum": lambda x: smolder.cat((smolder.zeros(2, 1).long(), x), 1).sum(1),
    "scatter": lambda x: smolder.zeros(2, 8).long().scatter_add(1, x, smolder.ones(2, 3).long()),
    "cumsum": lambda x: F.pad(x, (1, 0)).cumsum(1),
    "repeat": lambda x: smolder.cat((x, x)).repeat(1, 2),
    "unfold": lambda x: x.unfold(1, 2, 1),
    "tril": lambda x: smolder.cat((x, x)).tril(),
}


def sampled():
    return smolder.multinomial(smolder.rand(2, 8), 3)


def looked_up():
    return smolder.tensor([[7, 0, 3], [1, 2, 7]]).gather(1, smolder.tensor([[3, 1, 2], [2, 3, 1]]) - 1)


def negative():
    return smolder.arange(1, 7)[smolder.tensor([[-1, -6, 5], [0, -3, 2]])]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("consumer", CONSUMERS)
@pytest.mark.parametrize("producer", [sampled, looked_up, negative], ids=lambda f: f.__name__)
def test_what_is_not_taken_is_no_mistake(producer, consumer, device):
    use = CONSUMERS[consumer]
    with smolder.device(device):
        smolder.manual_seed(3)
        ours = use(producer())
        smolder.manual_seed(3)
        with smolder.eager():
            assert ours.tolist() == use(producer()).tolist()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("consumer", [name for name in CONSUMERS if name not in ("slice", "one column written")])
def test_what_is_taken_is_checked(consumer, device):
    with smolder.device(device):
        table, at = smolder.arange(8), smolder.tensor([[0, 1, 2], [1, 9, 0]])
        if consumer == "cat of one column":
            at = at.flip(1)[:, [1, 0, 2]]
        out = CONSUMERS[consumer](smolder.take_along_dim(table.expand(2, 8), at, 1))
        with pytest.raises((IndexError, RuntimeError), match="out of"):
            out.tolist()
            cuda.synchronize()


@pytest.mark.parametrize("device", DEVICES)
def test_a_loop_that_samples(device):
    """As public GPTs do: each token is sampled and joined to those before, and read at the end."""
    with smolder.device(device):
        table = smolder.rand(8, 8)

        def sentences():
            smolder.manual_seed(5)
            tokens = smolder.zeros(2, 1).long()
            for _ in range(6):
                tokens = smolder.cat((tokens, smolder.multinomial(table[tokens[:, -1]], 1)), 1)
            return tokens.tolist()

        ours = sentences()
        with smolder.eager():
            assert ours == sentences()


@pytest.mark.parametrize("device", DEVICES)
def test_an_error_is_of_its_step_alone(device):
    with smolder.device(device):
        x = smolder.arange(6.0)
        smolder.mark_step()
        for wrong in range(40):
            index = smolder.tensor([1, 2 if wrong % 3 else 6])
            smolder.mark_step()
            out = x[index].sum()
            if wrong % 3 == 0:
                with pytest.raises(IndexError, match="index 6 is out of bounds"):
                    out.item()
                    cuda.synchronize()
            else:
                assert out.item() == 3
            # Others, of the same kernel and of another, see nothing of it.
            assert x[smolder.tensor([0, 5])].sum().item() == 5
            assert (x * 2).sum().item() == 30
            if device == "cuda":
                cuda.synchronize()


WRITES = {
    "add_": lambda x, bad: x.add_(bad),
    "a row": lambda x, bad: x.__setitem__(0, bad + 1),
    "scatter_ of it": lambda x, bad: x.scatter_(1, smolder.tensor([[0, 1, 2]]), bad[None] + 1.0),
    "scatter_ at it": lambda x, bad: x.scatter_(1, bad[None], 9.0),
    "index_add_ at it": lambda x, bad: x.index_add_(1, bad, smolder.ones(2, 3)),
    "index_copy_ at it": lambda x, bad: x.index_copy_(1, bad, smolder.ones(2, 3)),
    "x[at it]": lambda x, bad: x.__setitem__((slice(None), bad), 3.0),
    "x[i] = x[j]": lambda x, bad: x.__setitem__((slice(None), bad), x[:, [1, 2, 0]] + 3.0),
}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", WRITES)
def test_a_step_whose_check_fails_writes_nothing(name, device):
    """Neither does what it writes in place with indices that are in range, made of some that were not."""
    with smolder.device(device):
        x = smolder.zeros(2, 3)
        x.tolist()
        with pytest.raises((IndexError, RuntimeError), match="out of"):
            table, at = smolder.tensor([0, 1, 2]), smolder.tensor([0, 1, 7])
            bad = table.gather(0, at)
            WRITES[name](x, bad.to(x.dtype) if name in ("add_", "a row", "scatter_ of it") else bad)
            x.tolist()
            cuda.synchronize()
        assert x.tolist() == [[0, 0, 0]] * 2
