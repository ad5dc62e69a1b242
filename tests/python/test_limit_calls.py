"""Every op with an argument at a limit, as torch answers."""

import json
import subprocess
from pathlib import Path

import limit_calls
import pytest
import torch_peer
from conftest import of_the_cpu
from test_sweeps import differs

import smolder


def wrong(ours, theirs):
    assert ours.keys() == theirs.keys()
    found = {name: text for name in ours if (text := differs(ours[name], theirs[name]))}
    return "\n".join(f"{name}: {text}" for name, text in found.items())


@of_the_cpu("results end in the bits of its functions")
def test_calls_that_gave_what_torch_gave_still_do():
    """The golden file has those calls of each op, among a few, for which both give the same."""
    golden = json.loads(limit_calls.GOLDEN.read_text())
    with smolder.eager():
        assert not wrong(limit_calls.results(smolder, golden), golden)


@torch_peer.needs_torch
def test_torch_still_gives_that(tmp_path):
    program = [torch_peer.PYTHON, str(Path(limit_calls.__file__)), "torch", str(tmp_path / "golden.json")]
    subprocess.run(program, check=True, timeout=300)
    now, golden = json.loads((tmp_path / "golden.json").read_text()), json.loads(limit_calls.GOLDEN.read_text())
    assert not wrong({name: now[name] for name in golden}, golden)


@pytest.mark.parametrize("mode", ["eager", "lazy"])
@pytest.mark.parametrize(
    "call",
    [
        "smolder.where(z, x, x)",
        "x.masked_fill(z, 2.5)",
        "x.gather(0, z)",
        "x.scatter(0, z, x)",
        "x.scatter_add(0, z, x)",
        "x.scatter_reduce(0, z, x, 'sum')",
        "x.index_select(0, z)",
        "x.index_add(0, z, x)",
        "x.index_copy(0, z, x)",
        "smolder.nn.functional.embedding(z, x)",
    ],
)
def test_complex_numbers_are_no_index(call, mode):
    """Each of these ran until its stack was full."""
    names = {"smolder": smolder, "x": smolder.ones(3, 3), "z": smolder.zeros(3, 3, dtype=smolder.complex64)}
    with pytest.raises((RuntimeError, IndexError), match=r"index|indices|mask|condition"):
        if mode == "eager":
            with smolder.eager():
                eval(call, names)
        else:
            eval(call, names)


@pytest.mark.parametrize("dtype", ["float16", "int64", "bool"])
def test_pairs_of_other_dtypes_are_no_complex_numbers(dtype):
    """Eagerly their memory was taken for that of floats, and more of it than there is."""
    with smolder.eager(), pytest.raises(RuntimeError, match="view_as_complex is only supported for"):
        smolder.view_as_complex(smolder.ones(3, 2).to(getattr(smolder, dtype)))
    with smolder.eager(), pytest.raises(RuntimeError, match="view_as_real is only supported for complex tensors"):
        smolder.view_as_real(smolder.ones(3, 2).to(getattr(smolder, dtype)))


@pytest.mark.parametrize("pieces", [2**31, 2**63 - 1])
def test_no_more_pieces_than_memory_has_room_for(pieces):
    with pytest.raises(RuntimeError, match="more tensors than fit into memory"):
        smolder.ones(7).tensor_split(pieces)
    with pytest.raises(RuntimeError, match="more tensors than fit into memory"):
        smolder.ones(0).chunk(pieces)
    assert len(smolder.ones(7).chunk(pieces)) == 7
    assert [len(t) for t in smolder.ones(0, 3).chunk(4)] == [0] * 4


@pytest.mark.parametrize("shape", [(0,), (0, 3), (2, 0), (0, 1, 2)])
def test_an_index_without_elements_adds_nothing(shape):
    x, index = smolder.ones(3, 3), smolder.zeros(*shape, dtype=smolder.int64)
    assert x.scatter_add(0, index, smolder.ones(2)).tolist() == x.tolist()
    assert x.scatter_add(0, index, smolder.ones(2)) is not x


def test_index_fill_counts_from_the_last():
    x = smolder.zeros(3, 2)
    assert x.index_fill(0, smolder.tensor([-1, 0]), 5).tolist() == [[5, 5], [0, 0], [5, 5]]
    assert x.index_fill(1, smolder.tensor(-2), 5).tolist() == [[5, 0]] * 3
    rows = smolder.func.vmap(lambda i: smolder.zeros(3).index_fill(0, i, 5))(smolder.tensor([[-1], [1]]))
    assert rows.tolist() == [[0, 0, 5], [0, 5, 0]]
    with pytest.raises(IndexError):
        x.index_fill(0, smolder.tensor([-4]), 5).tolist()


def test_index_reduce():
    x, index = smolder.ones(3, 2) * 2, smolder.tensor([0, 2, 0])
    source = smolder.arange(6.0).reshape(3, 2)
    assert x.index_reduce(0, index, source, "amax").tolist() == [[4, 5], [2, 2], [2, 3]]
    assert x.index_reduce(0, index, source, "prod").tolist() == [[0, 10], [2, 2], [4, 6]]
    assert x.index_reduce(0, index, source, "mean", include_self=False).tolist() == [[2, 3], [2, 2], [2, 3]]
    assert smolder.index_reduce(x.T, 1, index, source.T, "amin").tolist() == [[0, 2, 2], [1, 2, 2]]
    assert x.index_reduce_(0, index, source, "amax") is x
    assert x.tolist() == [[4, 5], [2, 2], [2, 3]]
    with pytest.raises(RuntimeError, match="Expected reduce to be one of"):
        x.index_reduce(0, index, source, "sum")
    with pytest.raises(RuntimeError, match="Number of indices"):
        x.index_reduce(0, index, source[:2], "amax")
