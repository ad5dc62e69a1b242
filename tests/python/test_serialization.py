"""save and load: torch's files both ways, shared storage stays shared, and no file runs code or crashes."""

import copy
import io
import itertools
import mmap
import os
import pathlib
import pickle
import random
import stat
import struct
import zipfile
from collections import Counter, OrderedDict

import numpy as np
import pytest
from conftest import NUMPY, assert_same_bits
from torch_peer import needs_torch, run_torch

import smolder
from smolder import nn

GOLDEN = pathlib.Path(__file__).parents[1] / "golden" / "saved_by_torch.pt"
DTYPES = ("float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool")


def saved(obj, **options):
    file = io.BytesIO()
    smolder.save(obj, file, **options)
    return file.getvalue()


def again(obj, **options):
    return smolder.load(io.BytesIO(saved(obj)), **options)


def array(t):
    return t.detach()._to_numpy()


# -- what goes in comes out


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (1,), (7,), (3, 0, 2), (2, 3, 5)], ids=str)
def test_every_dtype_and_shape_comes_back(name, shape):
    x = (smolder.rand(shape) * 5 - 1).to(getattr(smolder, name))
    y = again(x)
    assert y.dtype == x.dtype and y.shape == x.shape and y.stride() == x.stride()
    assert_same_bits(array(x), array(y))


def test_special_values_keep_their_bits():
    x = smolder.from_numpy(np.array([0x7FC12345, 0xFFC00001, 0x80000000, 0x7F800000, 1], dtype=np.uint32).view("f4"))
    assert array(again(x)).view("u4").tolist() == array(x).view("u4").tolist()


def test_containers_and_scalars_come_back():
    obj = {
        "list": [1, -5, 300, 70000, 2**40, -(2**70), 2.5, float("inf"), None, True, False, "text ü\n", b"\x00\xff"],
        "tuple": ((), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)),
        "set": {1, "a"},
        "frozen": frozenset((1, 2)),
        "ordered": OrderedDict([("b", 1), ("a", [{}])]),
        "counter": Counter("abca"),
        "complex": 1 - 2j,
        "bytearray": bytearray(b"abc"),
        "size": smolder.Size([2, 3]),
        "dtypes": [getattr(smolder, n) for n in DTYPES],
        "device": smolder.device("cpu"),
        3: {(1, 2): "key"},
    }
    for protocol in (2, 3, 4, 5):
        back = smolder.load(io.BytesIO(saved(obj, pickle_protocol=protocol)))
        assert back == obj and str(back) == str(obj), protocol
        assert type(back["size"]) is smolder.Size and type(back["ordered"]) is OrderedDict


def test_one_object_twice_is_one_object():
    x, items = smolder.ones(2), [1]
    back = again({"a": x, "b": x, "c": items, "d": items})
    assert back["a"] is back["b"] and back["c"] is back["d"]


def views(x):
    yield "whole", x
    yield "detached", x.detach()
    yield "row", x[1]
    yield "rows", x[1:3]
    yield "column", x[:, 2]
    yield "columns", x[:, 1:3]
    yield "last columns of every other row", x[::2, 3:]
    yield "every other row", x[1::2]
    yield "steps", x[::3, ::2]
    yield "transposed", x.t()
    yield "transposed part", x.t()[1:3, ::2]
    yield "element", x[2, 3]
    yield "flat", x.view(-1)
    yield "flat steps", x.view(-1)[3::7]
    yield "block", x.view(5, 2, 3)[1:4, :, 1]
    yield "permuted", x.view(5, 2, 3).permute(2, 0, 1)[1:, 2:]
    yield "expanded", x[:, :1].expand(5, 4)
    yield "with ones", x[1:2, None, :, None]
    yield "empty", x[3:3]


def test_views_share_storage_with_each_other_again():
    x = smolder.arange(30.0).view(5, 6)
    made = dict(views(x))
    for chosen in [list(made), *([name] for name in made), ["column", "row"], ["steps", "whole"]]:
        back = again({name: made[name] for name in chosen})
        for name in chosen:
            assert back[name].shape == made[name].shape, name
            if made[name].numel():
                sizes = made[name].shape
                strides = [
                    [s for s, n in zip(t.stride(), sizes, strict=True) if n > 1] for t in (back[name], made[name])
                ]
                assert strides[0] == strides[1], name
                assert back[name].storage_offset() == made[name].storage_offset(), name
            assert_same_bits(array(back[name]), array(made[name]), name)
    back = again(made)
    back["whole"].mul_(-1)
    for name, view in made.items():
        assert_same_bits(array(back[name]), -array(view), name)
    back["columns"].zero_()
    assert float(back["flat"][7]) == 0


def test_windows_that_overlap_share_their_storage():
    data = archive_with(pickled_tensor(6, 0, (4, 3), (1, 1)))
    x = smolder.load(io.BytesIO(data))
    assert x.tolist() == [[0, 1, 2], [1, 2, 3], [2, 3, 4], [3, 4, 5]]
    x[0, 1] = 9.0
    assert x.tolist() == [[0, 9, 2], [9, 2, 3], [2, 3, 4], [3, 4, 5]]


def test_requires_grad_parameters_and_attributes_come_back():
    p = nn.Parameter(smolder.ones(3), requires_grad=False)
    x = smolder.ones(2, requires_grad=True)
    tagged = smolder.zeros(2)
    tagged.tag = "mine"
    back = again({"p": p, "x": x, "history": x * 2, "q": nn.Parameter(smolder.ones(1)), "tagged": tagged})
    assert type(back["p"]) is nn.Parameter and not back["p"].requires_grad
    assert back["x"].requires_grad and back["x"].is_leaf and type(back["x"]) is smolder.Tensor
    assert back["history"].requires_grad and back["history"].is_leaf
    assert type(back["q"]) is nn.Parameter and back["q"].requires_grad
    assert back["tagged"].tag == "mine"


def test_a_model_and_tied_weights_come_back():
    model = nn.Sequential(nn.Linear(3, 3), nn.LayerNorm(3), nn.Linear(3, 3))
    model[2].weight = model[0].weight
    state = again(model.state_dict())
    assert state._metadata == model.state_dict()._metadata
    state["0.weight"].zero_()
    assert not state["2.weight"].any()
    other = nn.Sequential(nn.Linear(3, 3), nn.LayerNorm(3), nn.Linear(3, 3))
    assert str(other.load_state_dict(again(model.state_dict()))) == "<All keys matched successfully>"
    assert_same_bits(array(other[0].weight), array(model[0].weight))


@NUMPY
def test_memory_of_numpy_is_saved_as_it_is():
    a = np.arange(10.0)
    x = smolder.from_numpy(a[::2])
    back = again({"x": x, "part": x[1:3]})
    assert back["x"].stride() == (2,) and back["x"].tolist() == [0, 2, 4, 6, 8]
    back["x"].neg_()
    assert back["part"].tolist() == [-2, -4]


def test_all_tensors_are_computed_at_once():
    tensors = [smolder.randn(5) * i for i in range(20)]
    before = smolder.metrics()["counters"].get("syncs", 0)
    saved(tensors)
    assert smolder.metrics()["counters"]["syncs"] == before + 1


# -- files


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path):
    path = tmp_path / "x.pt"
    smolder.save([1], path)
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~mask
    path.chmod(0o640)

    class Unpicklable:
        def __reduce__(self):
            raise ValueError("not me")

    with pytest.raises(ValueError, match="not me"):
        smolder.save([2, Unpicklable()], path)
    assert smolder.load(path) == [1] and [p.name for p in tmp_path.iterdir()] == ["x.pt"]
    link = tmp_path / "link.pt"
    link.symlink_to(path)
    smolder.save([3], str(link))
    assert link.is_symlink() and smolder.load(path) == [3] and stat.S_IMODE(path.stat().st_mode) == 0o640
    with pytest.raises(RuntimeError, match=r"Parent directory .* does not exist"):
        smolder.save([1], tmp_path / "nowhere" / "x.pt")


def test_storages_are_aligned_and_the_file_depends_on_what_it_holds_alone(tmp_path):
    obj = {f"tensor {i}": smolder.ones(i) for i in range(5)}
    data = saved(obj)
    assert data == saved(obj)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for info in archive.infolist():
            name, extra = struct.unpack_from("<HH", data, info.header_offset + 26)
            assert (info.header_offset + 30 + name + extra) % 64 == 0, info.filename
    with open(tmp_path / "x.pt", "wb") as file:
        smolder.save(obj, file)
    with open(tmp_path / "x.pt", "rb") as file:
        assert smolder.load(file)["tensor 3"].tolist() == [1, 1, 1]


# -- torch


def test_what_torch_saved_is_read():
    check_torchs(smolder.load(GOLDEN))
    check_torchs(smolder.load(GOLDEN, weights_only=False))


def check_torchs(got):
    for name in DTYPES:
        x = got["dtypes"][name]
        assert x.dtype == getattr(smolder, name)
        assert [float(v) for v in x.flatten()] == ([0, 1, 1, 1, 1, 1] if name == "bool" else [0, 1, 2, 3, 4, 5])
    assert got["state"]["0.weight"].tolist() == [[1, 1], [1, 1]] and got["state"]._metadata[""] == {"version": 1}
    assert type(got["parameter"]) is nn.Parameter and got["parameter"].requires_grad
    assert got["others"] == [(1, 2), {1, 2}, smolder.Size([2, 3]), smolder.float32, smolder.device("cpu"), 2.5, None]
    assert type(got["others"][2]) is smolder.Size
    assert got["optimizer"]["param_groups"][0]["momentum"] == 0.9
    got["base"].zero_()
    assert not got["column"].any() and not got["transposed"].any() and got["column"].shape == (2,)


MADE_BY_TORCH = """
from torch import nn
base = torch.arange(6.0).view(2, 3)
model = nn.Sequential(nn.Linear(2, 2, bias=False))
nn.init.ones_(model[0].weight)
optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
model(torch.ones(1, 2)).sum().backward()
state = {k: v.clone() for k, v in model.state_dict().items()}
obj = {
    "dtypes": {n: torch.arange(6).view(2, 3).to(getattr(torch, n)) for n in argv[1].split()},
    "state": model.state_dict(), "parameter": nn.Parameter(torch.ones(2)),
    "others": [(1, 2), {1, 2}, torch.Size([2, 3]), torch.float32, torch.device("cpu"), 2.5, None],
    "optimizer": optimizer.state_dict(),
    "base": base, "column": base[:, 1], "transposed": base.t(),
}
torch.save(obj, argv[0])
out = None
"""


@needs_torch
def test_what_torch_saves_today_is_read(tmp_path):
    run_torch(MADE_BY_TORCH, tmp_path / "x.pt", " ".join(DTYPES))
    check_torchs(smolder.load(tmp_path / "x.pt"))


@needs_torch
def test_torch_reads_what_is_saved_here(tmp_path):
    x = smolder.arange(30.0).view(5, 6)
    made = {name: v for name, v in views(x) if v.numel()}
    dtypes = {n: (smolder.rand(3, 2) * 9).to(getattr(smolder, n)) for n in DTYPES}
    model = nn.Linear(2, 2)
    others = [(1,), {1, 2}, smolder.Size([2]), smolder.float16, smolder.device("cpu"), "x", b"x", 1j, None]
    everything = {"views": made, "dtypes": dtypes, "state": model.state_dict(), "others": others}
    everything |= {"parameter": nn.Parameter(smolder.ones(2)), "grad": smolder.ones(2, requires_grad=True)}
    smolder.save(everything, tmp_path / "x.pt")
    code = """
got = torch.load(argv[0], weights_only=True, mmap=argv[1] == "1")
out = {"views": {k: [list(v.shape), list(v.stride()), v.tolist()] for k, v in got["views"].items()},
       "dtypes": {k: [str(v.dtype), v.double().tolist()] for k, v in got["dtypes"].items()},
       "state": {k: v.tolist() for k, v in got["state"].items()}, "others": str(got["others"]),
       "parameter": [type(got["parameter"]).__name__, got["parameter"].requires_grad, got["grad"].requires_grad]}
got["views"]["whole"].zero_()
out["shared"] = [bool(v.any()) for v in got["views"].values()]
"""
    for mapped in "01":
        out = run_torch(code, tmp_path / "x.pt", mapped)
        assert out["views"] == {k: [list(v.shape), list(v.stride()), v.tolist()] for k, v in made.items()}
        assert out["dtypes"] == {k: [f"torch.{k}", v.double().tolist()] for k, v in dtypes.items()}
        assert out["state"] == {k: v.tolist() for k, v in model.state_dict().items()}
        assert out["others"].replace("torch.", "smolder.") == str(others)
        assert out["parameter"] == ["Parameter", True, True] and not any(out["shared"])


# -- map_location


def archive_with(pickled, elements=range(6), name="archive", **records):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(f"{name}/data.pkl", pickled)
        archive.writestr(f"{name}/data/0", np.array(list(elements), dtype=np.float32).tobytes())
        for key, value in records.items():
            archive.writestr(f"{name}/{key}", value)
    return file.getvalue()


def op(value):
    """A pickled value, without the end."""
    return pickle.dumps(value, 2)[2:-1]


def call(function, *arguments):
    module, _, name = function.rpartition(".")
    return b"c" + f"{module}\n{name}\n".encode() + b"(" + b"".join(arguments) + b"tR"


def storage(elements=6, key="0", location="cpu", kind="FloatStorage"):
    return b"(" + op("storage") + f"ctorch\n{kind}\n".encode() + op(key) + op(location) + op(elements) + b"tQ"


def pickled_tensor(elements, offset, size, stride, **options):
    parts = storage(elements, **options), op(offset), op(size), op(stride), op(False), call("collections.OrderedDict")
    return b"\x80\x02" + call("torch._utils._rebuild_tensor_v2", *parts) + b"."


@pytest.mark.skipif(smolder.cuda.is_available(), reason="there is a CUDA device")
def test_storages_of_other_devices_come_where_they_are_sent():
    data = archive_with(pickled_tensor(6, 0, (6,), (1,), location="cuda:0"))
    with pytest.raises(RuntimeError, match="Attempting to deserialize object on a CUDA device"):
        smolder.load(io.BytesIO(data))
    for where in ("cpu", smolder.device("cpu"), {"cuda:0": "cpu"}, lambda s, location: s):
        assert smolder.load(io.BytesIO(data), map_location=where).tolist() == [0, 1, 2, 3, 4, 5]
    for where in ("cuda:1", {"cuda:1": "cpu"}, lambda s, location: None):
        with pytest.raises(RuntimeError, match="CUDA device"):
            smolder.load(io.BytesIO(data), map_location=where)
    with pytest.raises(RuntimeError, match="tagged with meta"):
        smolder.load(io.BytesIO(data), map_location="meta")
    with pytest.raises(TypeError, match="map_location"):
        smolder.load(io.BytesIO(data), map_location=3)


def test_files_of_the_other_byte_order_are_read():
    data = archive_with(pickled_tensor(6, 0, (6,), (1,)), np.arange(6, dtype=">f4").view("<f4"), byteorder=b"big")
    assert smolder.load(io.BytesIO(data)).tolist() == [0, 1, 2, 3, 4, 5]


# -- hostile and damaged files

REFUSED = {
    "code": (b"\x80\x02" + call("os.system", op("false")) + b".", r"GLOBAL os\.system was not an allowed global"),
    "code under its old name": (b"\x80\x02" + call("__builtin__.eval", op("1")) + b".", r"GLOBAL builtins\.eval"),
    "code by name on the stack": (b"\x80\x04" + op("os") + op("system") + b"\x93.", r"GLOBAL os\.system"),
    "a method of what is allowed": (
        b"\x80\x02" + call("collections.OrderedDict.__class__", op("x")) + b".",
        r"GLOBAL collections\.OrderedDict\.__class__",
    ),
    "instances by name": (b"\x80\x02(ios\nsystem\n.", "Unsupported operand 105"),
    "extensions": (b"\x80\x02\x82\x01.", "Unsupported operand"),
    "a call of a value": (b"\x80\x02" + op("x") + b")R.", "unrecognized function 'x'"),
    "a call of a dtype": (b"\x80\x02ctorch\nfloat32\n)R.", "not callable"),
    "state of a function": (b"\x80\x02ctorch\nSize\n" + op({"__code__": 1}) + b"b.", "Can not set the state"),
    "state of a class": (b"\x80\x02ccollections\nOrderedDict\n" + op({"a": 1}) + b"b.", "Can not set the state"),
    "a new object": (b"\x80\x02ctorch\nTensor\n)\x81.", "Can not create new object"),
    "a huge buffer": (b"\x80\x02" + call("builtins.bytearray", op(10**12)) + b".", "bytearray of int"),
    "a codec": (b"\x80\x02" + call("_codecs.encode", op("x"), op("punycode")) + b".", "_codecs.encode"),
    "a huge memo": (b"\x80\x02Nr\xff\xff\xff\xff0.", "Unsupported operand"),
    "an unknown memo": (b"\x80\x02h\x09.", "damaged: KeyError"),
    "no mark": (b"\x80\x02Nt.", "no mark"),
    "a mark for a value": (b"\x80\x02(\x85.", "a mark in place of a value"),
    "an empty stack": (b"\x80\x02\x86.", "damaged"),
    "the end of nothing": (b"\x80\x02.", "damaged: IndexError"),
    "items of a tuple": (b"\x80\x02)Na.", "Can only add items to list, but got tuple"),
    "items of a number": (b"\x80\x02K\x01NNs.", "Can only add items to dict, but got int"),
    "an unhashable key": (b"\x80\x02}]Ns.", "unhashable"),
    "a text past the end": (b"\x80\x02X\xff\xff\xff\x7fabc", "truncated"),
    "text that is none": (b"\x80\x02X\x01\x00\x00\x00\xff.", "damaged: UnicodeDecodeError"),
    "no end": (b"\x80\x02N", "truncated"),
    "nothing": (b"", "truncated"),
    "another kind of persistent id": (b"\x80\x02" + op("storage") + b"Q.", "Unknown typename for persistent_load"),
    "a storage of no type": (
        b"\x80\x02(" + op(("storage", 1, "0", "cpu", 6))[1:] + b"Q.",
        "Unknown typename|described",
    ),
    "a tensor without a storage": (
        b"\x80\x02" + call("torch._utils._rebuild_tensor_v2", op(1), op(0), op((1,)), op((1,))) + b".",
        "has a int for a storage",
    ),
    "a size of text": (pickled_tensor(6, 0, ("a",), (1,)), "has size"),
    "a size of floats": (pickled_tensor(6, 0, (1.5,), (1,)), "has size"),
    "too few strides": (pickled_tensor(6, 0, (2, 3), (1,)), "has size"),
    "another type for a tensor": (
        b"\x80\x02ctorch._tensor\n_rebuild_from_type_v2\n("
        + b"ctorch\nSize\n"
        + b"ccollections\nOrderedDict\n"
        + b"))tR.",
        "damaged|not allowed",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_pickle_that_is_refused_says_why(name):
    pickled, message = REFUSED[name]
    with pytest.raises(pickle.UnpicklingError, match=message) as caught:
        smolder.load(io.BytesIO(archive_with(pickled)))
    assert str(caught.value).startswith("Weights only load failed")


WRONG = {
    "a view past the end": (pickled_tensor(6, 1, (6,), (1,)), RuntimeError, "out of bounds for storage of size 24"),
    "an offset past the end": (pickled_tensor(6, 2**62, (1,), (1,)), RuntimeError, "out of bounds"),
    "a stride past the end": (pickled_tensor(6, 0, (2, 2), (2**61, 1)), RuntimeError, "out of bounds"),
    "sizes that overflow": (pickled_tensor(6, 0, (2**40, 2**40), (0, 0)), RuntimeError, "out of bounds"),
    "a negative size": (pickled_tensor(6, 0, (-1,), (1,)), RuntimeError, "negative dimension"),
    "a negative offset": (pickled_tensor(6, -1, (1,), (1,)), RuntimeError, "negative dimension or offset"),
    "a negative stride": (pickled_tensor(6, 5, (2,), (-1,)), RuntimeError, "Negative strides are not supported"),
    "a storage that is larger than said": (pickled_tensor(5, 0, (1,), (1,)), RuntimeError, "24 bytes in the file"),
    "a storage that is smaller than said": (pickled_tensor(2**40, 0, (1,), (1,)), RuntimeError, "24 bytes in the file"),
    "a storage that is not there": (pickled_tensor(6, 0, (1,), (1,), key="1"), RuntimeError, "failed locating file"),
    "a path out of the archive": (
        pickled_tensor(6, 0, (1,), (1,), key="../../../etc/passwd"),
        RuntimeError,
        "failed locating file",
    ),
    "more dimensions than there are": (pickled_tensor(6, 0, (1,) * 65, (1,) * 65), ValueError, "dimensions"),
    "another dtype": (pickled_tensor(6, 0, (1,), (1,), kind="QInt8Storage"), NotImplementedError, "QInt8"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_tensor_that_lies_about_its_memory_is_an_error(name):
    pickled, kind, message = WRONG[name]
    with pytest.raises((kind, pickle.UnpicklingError), match=message):
        smolder.load(io.BytesIO(archive_with(pickled)))


def test_a_bool_is_zero_or_one_whatever_the_file_holds():
    data = archive_with(pickled_tensor(24, 0, (24,), (1,), kind="BoolStorage"), np.full(6, -3.7))
    assert set(array(smolder.load(io.BytesIO(data))).view(np.uint8)) <= {0, 1}


def test_archives_that_are_none_are_errors(tmp_path):
    good = archive_with(pickled_tensor(6, 0, (6,), (1,)))
    with pytest.raises(EOFError):
        smolder.load(io.BytesIO(b""))
    with pytest.raises(pickle.UnpicklingError, match="before are not supported"):
        smolder.load(io.BytesIO(pickle.dumps([1])))
    with pytest.raises(FileNotFoundError):
        smolder.load(tmp_path / "nothing.pt")
    with pytest.raises(RuntimeError, match=r"locating file data\.pkl"):
        smolder.load(io.BytesIO(good.replace(b"data.pkl", b"data.pkx")))
    for cut in (5, 100, len(good) // 2, len(good) - 1):
        with pytest.raises(RuntimeError, match="failed reading zip archive"):
            smolder.load(io.BytesIO(good[:cut]))
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/data.pkl", bytes(10**7))
    bomb.seek(0)
    with pytest.raises(RuntimeError, match="overlap or are compressed"):
        smolder.load(bomb)
    script = archive_with(b"\x80\x02N.", **{"constants.pkl": b""})
    with pytest.raises(RuntimeError, match="TorchScript"):
        smolder.load(io.BytesIO(script))


def test_any_damage_is_an_error_or_does_not_show():
    """Flipped, cut and repeated bytes: an error of the kinds that load has, or a load that works."""
    x = smolder.arange(30.0).view(5, 6)
    good = saved({"x": x, "views": [x[1], x.t()], "p": nn.Parameter(x), "more": [1, "a", (2.5, None), {1: {2}}]})
    rng, failed = random.Random(0), 0
    for _ in range(1500):
        bad = bytearray(good)
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(len(bad))
            if rng.random() < 0.8:
                bad[at] = rng.randrange(256)
            else:
                bad[at : at + rng.randint(0, 40)] = bad[rng.randrange(len(bad)) :][: rng.randint(0, 40)]
        try:
            smolder.load(io.BytesIO(bytes(bad)))
        except (RuntimeError, pickle.UnpicklingError, ValueError, NotImplementedError, EOFError, TypeError):
            failed += 1
    assert failed > 500


def test_pickles_of_random_opcodes_are_errors():
    rng, failed = random.Random(1), 0
    good = pickled_tensor(6, 0, (2, 3), (3, 1))
    for _ in range(3000):
        bad = bytearray(good)
        for _ in range(rng.randint(1, 4)):
            bad[rng.randrange(2, len(bad))] = rng.choice(b"(.)]}NRQbcsuetqrhj\x85\x86\x87\x88\x89KMJGX0aed\x81\x93")
        try:
            smolder.load(io.BytesIO(archive_with(bytes(bad))))
        except (RuntimeError, pickle.UnpicklingError, ValueError, NotImplementedError):
            failed += 1
    assert failed > 2000


# -- what a file may name


class Mine:
    def __init__(self, value):
        self.value = value


def test_classes_are_made_when_they_were_called_safe():
    data = saved({"mine": Mine(smolder.ones(2))})
    with pytest.raises(pickle.UnpicklingError, match=r"add_safe_globals\(\[Mine\]\)"):
        smolder.load(io.BytesIO(data))
    with smolder.serialization.safe_globals([Mine]):
        assert smolder.serialization.get_safe_globals() == [Mine]
        assert smolder.load(io.BytesIO(data))["mine"].value.tolist() == [1, 1]
    assert smolder.serialization.get_safe_globals() == []
    assert smolder.load(io.BytesIO(data), weights_only=False)["mine"].value.tolist() == [1, 1]
    with pytest.raises(TypeError, match="takes classes and functions"):
        smolder.serialization.add_safe_globals([3])


def made_of(value):
    return Mine(value * 2)


class MadeByFunction(Mine):
    def __reduce__(self):
        return made_of, (self.value,)


def test_functions_are_called_when_they_were_called_safe():
    data = saved({"mine": MadeByFunction(smolder.ones(2))})
    with pytest.raises(pickle.UnpicklingError, match=r"add_safe_globals\(\[made_of\]\)"):
        smolder.load(io.BytesIO(data))
    with smolder.serialization.safe_globals([made_of]):
        assert smolder.load(io.BytesIO(data))["mine"].value.tolist() == [2, 2]
    with smolder.serialization.safe_globals([(Mine, f"{__name__}.made_of")]):  # by the path that the file has
        assert smolder.load(io.BytesIO(data))["mine"].value.tolist() == [1, 1]


def test_functions_of_the_module_are_copied_and_pickled_by_name():
    model = nn.TransformerEncoderLayer(4, 2, activation="gelu")  # which holds one
    assert copy.deepcopy(model).activation is nn.functional.gelu
    assert pickle.loads(pickle.dumps(smolder.gelu)) is smolder.gelu


def test_whole_modules_come_back_from_files_that_are_trusted():
    model = nn.Sequential(nn.Linear(3, 2), nn.GELU())
    x = smolder.ones(1, 3)
    assert_same_bits(array(again(model, weights_only=False)(x)), array(model(x)))
    with pytest.raises(pickle.UnpicklingError, match=r"GLOBAL smolder\.nn\.container\.Sequential"):
        again(model)


def test_arguments_that_are_not_supported_say_so():
    with pytest.raises(NotImplementedError, match="not supported"):
        smolder.load(GOLDEN, pickle_module=io)
    with pytest.raises(TypeError, match="unexpected"):
        smolder.load(GOLDEN, something=1)
    with pytest.raises(NotImplementedError, match="not supported"):
        smolder.save(1, io.BytesIO(), _use_new_zipfile_serialization=False)
    with pytest.raises(AttributeError, match="'write' attribute"):
        smolder.save(1, 5)
    with pytest.raises(AttributeError, match="seekable"):
        smolder.load(itertools.count())


@pytest.mark.parametrize("name", [*DTYPES, "complex64"])
def test_a_mapped_file_is_read_as_a_file_that_is_not(name, tmp_path):
    file = tmp_path / "x.pt"
    x = smolder.arange(24).reshape(4, 6).to(getattr(smolder, name))
    smolder.save({"x": x, "rows": x[1:3], "turned": x.t(), "none": x[:0], "w": nn.Parameter(smolder.ones(3))}, file)
    plain, mapped = smolder.load(file), smolder.load(file, mmap=True)
    assert isinstance(mapped["w"], nn.Parameter)
    for key, value in plain.items():
        assert mapped[key].dtype == value.dtype and mapped[key].stride() == value.stride()
        assert mapped[key].tolist() == value.tolist()
    mapped["x"].zero_()
    assert not mapped["rows"].any()  # they share memory
    assert smolder.load(file)["x"].tolist() == plain["x"].tolist()  # and the file stays as it was


def test_mapped_files_are_read_as_they_are_asked_for(tmp_path):
    file = tmp_path / "x.pt"
    smolder.save(smolder.zeros(1000), file)
    x = smolder.load(file, mmap=True)
    x[0]  # computes nothing of it yet that a later write to the file would not show
    begin = file.read_bytes().find(bytes(4000))
    with open(file, "r+b") as f:
        f.seek(begin + 8)
        f.write(np.float32(5).tobytes())
    assert x[2].item() == 5


def test_writes_to_shared_maps_go_to_the_file(tmp_path):
    file = tmp_path / "x.pt"
    smolder.save(smolder.zeros(3), file)
    options = smolder.serialization.set_default_mmap_options
    with options(mmap.MAP_SHARED):
        assert smolder.serialization.get_default_mmap_options() == mmap.MAP_SHARED
        x = smolder.load(file, mmap=True)
    assert smolder.serialization.get_default_mmap_options() == mmap.MAP_PRIVATE
    x.add_(2)
    x.tolist()  # has the step run
    assert smolder.load(file, mmap=True).tolist() == [2, 2, 2]
    with pytest.raises(ValueError, match="MAP_SHARED, but got 77"):
        options(77)


def test_what_cannot_be_mapped_is_refused(tmp_path):
    with pytest.raises(ValueError, match="f must be a file path in order to use the mmap argument"):
        smolder.load(io.BytesIO(saved(1)), mmap=True)
    file = tmp_path / "x.pt"
    file.write_bytes(b"")
    with pytest.raises(EOFError):
        smolder.load(file, mmap=True)


def test_complex_tensors_that_were_computed_are_read_again():
    """Their storages are of pairs of parts, which were counted as elements: no such file could be read."""
    made = smolder.tensor([1 + 2j, 3 - 1j], dtype=smolder.complex128)
    pairs = smolder.view_as_complex(smolder.ones(3, 2))
    for x in (
        made,
        made * 2,
        made.to(smolder.complex64),
        pairs,
        pairs[1:],
        nn.Parameter(made + 1),
        made[1:],
        made.imag,
    ):
        assert smolder.load(io.BytesIO(saved([x, x])))[1].tolist() == x.tolist()
    whole, part = smolder.load(io.BytesIO(saved([pairs, pairs[1:]])))
    part.zero_()
    assert whole.tolist() == [1 + 1j, 0, 0]


def test_tensors_of_two_dtypes_in_one_storage_are_refused_when_they_are_saved():
    x = smolder.tensor([1 + 2j, 3 - 1j])
    with pytest.raises(RuntimeError, match="view the same data as different types"):
        saved([x, x.real])


def test_packages_say_where_storages_belong(monkeypatch):
    from smolder import serialization

    monkeypatch.setattr(serialization, "_packages", [])
    asked = []
    serialization.register_package(30, lambda storage: "late", lambda storage, location: None)
    serialization.register_package(
        5, lambda storage: "moon:1" if storage.nbytes() == 12 else None, lambda *given: asked.append(given[1])
    )
    file = saved({"far": smolder.arange(3.0), "near": smolder.arange(2.0)})
    with pytest.raises(RuntimeError, match=r"restore data location of a storage \(tagged with moon:1\)"):
        smolder.load(io.BytesIO(file))
    assert asked == ["moon:1"]
    serialization.register_package(
        6, lambda storage: None, lambda storage, where: storage.cpu() if ":" in where else None
    )
    back = smolder.load(io.BytesIO(file))
    assert back["far"].tolist() == [0, 1, 2] and back["near"].tolist() == [0, 1] and asked == ["moon:1"] * 2 + ["cpu"]


class Marked(smolder.Tensor):
    pass


def test_a_class_of_tensors_of_a_users_is_loaded_where_it_is_trusted():
    x = smolder.arange(3.0).as_subclass(Marked)
    x.mark = 7
    file = io.BytesIO()
    smolder.save({"x": x}, file)
    file.seek(0)
    found = smolder.load(file, weights_only=False)["x"]
    assert type(found) is Marked and found.tolist() == [0, 1, 2] and found.mark == 7
    file.seek(0)
    with pytest.raises(pickle.UnpicklingError, match="Marked"):
        smolder.load(file)
    file.seek(0)
    with smolder.serialization.safe_globals([Marked]):
        assert type(smolder.load(file)["x"]) is Marked


def test_layers_without_a_size_are_saved(tmp_path):
    layer = smolder.nn.LazyLinear(3)
    smolder.save(layer, tmp_path / "layer.pt")
    loaded = smolder.load(tmp_path / "layer.pt", weights_only=False)
    assert smolder.nn.parameter.is_lazy(loaded.weight) and loaded(smolder.ones(2, 4)).shape == (2, 3)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.rnn, self.out = nn.Embedding(10, 4), nn.LSTM(4, 4, 2), nn.Linear(4, 10)
        self.register_buffer("scale", smolder.ones(1))

    def forward(self, x):
        return self.out(self.rnn(self.embedding(x))[0]) * self.scale


def test_a_whole_module_names_its_classes_alone(tmp_path):
    """Programs that allow the classes of their modules, and nothing else, load such files with torch."""
    m, x = Recurrent(), smolder.arange(6).reshape(2, 3)
    smolder.save(m, tmp_path / "m.pt")
    with smolder.serialization.safe_globals([Recurrent, nn.Embedding, nn.LSTM, nn.Linear]):
        back = smolder.load(tmp_path / "m.pt")
    np.testing.assert_array_equal(back(x).detach().numpy(), m(x).detach().numpy())
    back.extra = nn.Parameter(smolder.ones(1))  # its dictionaries are a module's own again
    assert next(n for n, _ in back.named_parameters()) == "extra"


def test_pairs_of_a_dtype_and_a_path_are_safe_globals():
    before = smolder.serialization.get_safe_globals()
    with smolder.serialization.safe_globals([(smolder.uint1, "torch.uint1"), (smolder.float32, "torch.float32")]):
        assert len(smolder.serialization.get_safe_globals()) == len(before) + 2
    with pytest.raises(TypeError, match="takes classes and functions"):
        smolder.serialization.add_safe_globals([smolder.float32])
