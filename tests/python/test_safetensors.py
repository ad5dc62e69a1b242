"""Files of the safetensors format: as the package of that name writes and reads them, and what it refuses is refused."""

import json

import pytest
from conftest import assert_same_bits

import smolder
from smolder import safetensors
from smolder.safetensors import SafetensorError

DTYPES = ("float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool")

# The bytes that safetensors 0.8 wrote for {"b": ones(2, dtype=float16), "a": [[1.0, 2.0]], "n": tensor(7)}, metadata={"k": "v"}.
WRITTEN = (
    b'\xc0\x00\x00\x00\x00\x00\x00\x00{"__metadata__":{"k":"v"},"n":{"dtype":"I64","shape":[],"data_offsets":[0,8]},'
    b'"a":{"dtype":"F32","shape":[1,2],"data_offsets":[8,16]},"b":{"dtype":"F16","shape":[2],"data_offsets":[16,20]}}   '
    b"\x07\x00\x00\x00\x00\x00\x00\x00\x00\x00\x80?\x00\x00\x00@\x00<\x00<"
)


def file_of(header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def test_every_dtype_comes_back(tmp_path):
    tensors = {n: (smolder.rand(3, 4) * 9 - 1).to(getattr(smolder, n)) for n in DTYPES}
    tensors |= {"scalar": smolder.tensor(2.5), "empty": smolder.zeros(0, 3), "ü": smolder.ones(1)}
    safetensors.save_file(tensors, tmp_path / "x.safetensors", metadata={"format": "pt"})
    back = safetensors.load_file(tmp_path / "x.safetensors")
    assert set(back) == set(tensors)
    for name, tensor in tensors.items():
        assert back[name].dtype == tensor.dtype and back[name].shape == tensor.shape
        assert_same_bits(back[name]._to_numpy(), tensor._to_numpy(), name)
    with safetensors.safe_open(tmp_path / "x.safetensors", framework="pt", device="cpu") as f:
        assert f.metadata() == {"format": "pt"} and f.keys() == sorted(tensors)
        assert f.get_tensor("int64").tolist() == tensors["int64"].tolist()
        with pytest.raises(SafetensorError, match="does not contain tensor x"):
            f.get_tensor("x")
    assert safetensors.load(safetensors.save({})) == {}


def test_the_bytes_are_those_of_the_package():
    tensors = {"b": smolder.ones(2, dtype=smolder.float16), "a": smolder.tensor([[1.0, 2.0]]), "n": smolder.tensor(7)}
    assert safetensors.save(tensors, {"k": "v"}) == WRITTEN
    back = safetensors.load(WRITTEN)
    assert {k: v.tolist() for k, v in back.items()} == {"b": [1, 1], "a": [[1, 2]], "n": 7}


def test_what_the_format_does_not_hold_is_refused():
    x = smolder.arange(6.0).view(2, 3)
    with pytest.raises(ValueError, match="non contiguous tensor: `t`"):
        safetensors.save({"t": x.t()})
    with pytest.raises(RuntimeError, match="share memory"):
        safetensors.save({"x": x, "y": x[0]})
    with pytest.raises(ValueError, match="Expected a dict"):
        safetensors.save([x])
    with pytest.raises(ValueError, match="Key `x` is invalid"):
        safetensors.save({"x": 1})
    with pytest.raises(TypeError, match="metadata"):
        safetensors.save({"x": x}, {"a": 1})
    assert safetensors.load(safetensors.save({"row": x[1]}))["row"].tolist() == [3, 4, 5]


def entry(**changed):
    return {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]} | changed


HOSTILE = {
    "nothing": (b"", "HeaderTooSmall"),
    "half a length": (b"\x01\x00\x00", "HeaderTooSmall"),
    "a length past the end": ((100).to_bytes(8, "little") + b"{}", "InvalidHeaderLength"),
    "a huge length": ((2**63).to_bytes(8, "little") + b"{}", "HeaderTooLarge"),
    "another start": (file_of(b"[]"), "InvalidHeaderStart"),
    "no JSON": (file_of(b"{a}"), "InvalidHeaderDeserialization"),
    "no text": (file_of(b'{"\xff":1}'), "InvalidHeaderDeserialization"),
    "deep JSON": (file_of(b'{"a":' + b"[" * 100000), "InvalidHeaderDeserialization"),
    "a number for a tensor": (file_of({"a": 1}), "has not the fields"),
    "a missing field": (file_of({"a": {"dtype": "F32", "shape": [2]}}), "has not the fields"),
    "a field too many": (file_of({"a": entry(x=1)}, bytes(8)), "has not the fields"),
    "a name twice": (file_of(b'{"a":{},"a":{}}'), "occurs twice"),
    "metadata that is none": (file_of({"__metadata__": {"a": 1}}), "__metadata__"),
    "a negative size": (file_of({"a": entry(shape=[-2])}, bytes(8)), "has shape"),
    "a size that is none": (file_of({"a": entry(shape=[2.0])}, bytes(8)), "has shape"),
    "sizes that overflow": (file_of({"a": entry(shape=[2**62, 2**62])}, bytes(8)), "TensorInvalidInfo"),
    "other bytes than the shape has": (file_of({"a": entry(shape=[3])}, bytes(8)), "TensorInvalidInfo"),
    "offsets in reverse": (file_of({"a": entry(data_offsets=[8, 0])}, bytes(8)), "InvalidOffset"),
    "offsets past the end": (file_of({"a": entry(shape=[4], data_offsets=[0, 16])}, bytes(8)), "MetadataIncomplete"),
    "three offsets": (file_of({"a": entry(data_offsets=[0, 8, 9])}, bytes(8)), "has offsets"),
    "a gap": (file_of({"a": entry(data_offsets=[1, 9])}, bytes(9)), "InvalidOffset"),
    "two in one place": (file_of({"a": entry(), "b": entry()}, bytes(8)), "InvalidOffset"),
    "more bytes than tensors": (file_of({"a": entry()}, bytes(9)), "MetadataIncompleteBuffer"),
    "a dtype that is none": (file_of({"a": entry(dtype=4)}, bytes(8)), "dtype"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_file_that_lies_is_an_error(name, tmp_path):
    data, message = HOSTILE[name]
    with pytest.raises(SafetensorError, match=message):
        safetensors.load(data)
    (tmp_path / "x").write_bytes(data)
    with pytest.raises(SafetensorError, match=message):
        safetensors.load_file(tmp_path / "x")


def test_other_dtypes_and_frameworks_are_named():
    with pytest.raises(NotImplementedError, match="tensor `a` has dtype F8_E8M0"):
        safetensors.load(file_of({"a": entry(dtype="F8_E8M0")}, bytes(8)))
    with pytest.raises(NotImplementedError, match="framework 'np'"):
        safetensors.safe_open("x", framework="np")
    with pytest.raises(RuntimeError, match="lava"):
        safetensors.load_file("x", device="lava")
