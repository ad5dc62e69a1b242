"""Memory of a device that others see too, by DLPack: nothing is copied, and what either side queues is in order."""

import gc

import numpy as np
import pytest
from test_cuda import on_a_device

import smolder
from smolder import cuda, nn

pytestmark = on_a_device


def count(name):
    return smolder.metrics()["counters"].get(name, 0)


def twin_of(t):
    """Another tensor in the same memory, as another library would make it."""
    return smolder.from_dlpack(t)


def test_writes_are_seen_on_both_sides():
    x = smolder.arange(6.0, device="cuda").reshape(2, 3) * 1
    before = count("copies.bytes")
    twin = twin_of(x)
    assert twin.data_ptr() == x.data_ptr() and twin.device == x.device and count("copies.bytes") == before
    twin[0] = 9
    assert x.tolist() == [[9, 9, 9], [3, 4, 5]]
    x.add_(1)
    assert twin.tolist() == [[10, 10, 10], [4, 5, 6]]
    assert (x.t() @ twin).tolist() == [[116, 120, 124], [120, 125, 130], [124, 130, 136]]
    with smolder.eager():
        assert (x + twin).tolist() == [[20, 20, 20], [8, 10, 12]]


def test_strides_and_offsets_are_kept():
    x = smolder.arange(24.0, device="cuda").reshape(4, 6) * 1
    view = twin_of(x[1:, ::2].t())
    assert tuple(view.shape) == (3, 3) and view.stride() == (2, 6)
    assert view.data_ptr() == x.data_ptr() + 24
    view[0] = -1
    assert x.tolist()[1] == [-1, 7, 8, 9, 10, 11] and view[1:, 0].tolist() == [8, 10]
    assert twin_of(x[:0]).shape == (0, 6)


@pytest.mark.parametrize(
    "dtype", ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"]
)
def test_dtypes(dtype):
    x = smolder.zeros(3, dtype=getattr(smolder, dtype), device="cuda")
    twin = twin_of(x)
    twin[1] = 1
    assert twin.dtype == x.dtype and x.tolist() == [0, 1, 0]


def test_what_was_recorded_before_a_write_does_not_see_it():
    x = smolder.ones(4, device="cuda")
    twin, doubled = twin_of(x), x * 2
    twin.zero_()
    assert doubled.tolist() == [2] * 4 and x.sum().item() == 0


def test_training_is_seen_by_who_holds_a_parameter():
    layer = nn.Linear(3, 1).cuda()
    twin = twin_of(layer.weight.detach())
    before = twin.cpu().numpy().copy()
    optimizer = smolder.optim.SGD(layer.parameters(), lr=0.5)
    layer(smolder.ones(2, 3, device="cuda")).sum().backward()
    optimizer.step()
    assert np.array_equal(twin.cpu().numpy(), before - 1) and layer.weight.tolist() == twin.tolist()


def test_indexing_reads_only_what_is_asked_for():
    data = smolder.zeros(4096, 256, device="cuda")
    twin = twin_of(data)
    rows = smolder.tensor([5, 7], device="cuda")
    twin[5] = 1
    before = count("copies.bytes")
    got = data.index_select(0, rows)
    twin[5] = 2
    assert got.sum(1).tolist() == [256, 0] and count("copies.bytes") - before < 1 << 16


def test_sharing_ends_with_the_last_that_shares():
    x = smolder.zeros(1000, device="cuda")
    twin = twin_of(x)
    address = x.data_ptr()
    twin += 1
    del twin
    gc.collect()
    before = count("syncs")
    x += 1  # an op like any other, which ends no step
    assert count("syncs") == before and x.sum().item() == 2000 and x.data_ptr() == address


def test_files_hold_what_is_shared(tmp_path):
    x = smolder.arange(6.0, device="cuda").reshape(2, 3) * 1
    twin = twin_of(x)
    smolder.save({"x": twin.t()}, tmp_path / "x.pt")
    smolder.safetensors.save_file({"x": twin[:, 1:].contiguous()}, tmp_path / "x")
    assert smolder.load(tmp_path / "x.pt")["x"].tolist() == [[0, 3], [1, 4], [2, 5]]
    assert smolder.safetensors.load_file(tmp_path / "x")["x"].tolist() == [[1, 2], [4, 5]]


def test_capsules():
    x = smolder.ones(3, device="cuda")
    assert x.__dlpack_device__() == (2, 0)
    smolder.from_dlpack(x.__dlpack__(copy=True)).zero_()
    assert x.tolist() == [1, 1, 1]
    for stream in (None, -1, 1, 2, cuda.current_stream().cuda_stream):
        assert "dltensor" in repr(x.__dlpack__(stream=stream))
    assert "dltensor_versioned" in repr(x.__dlpack__(stream=1, max_version=(1, 0)))
    assert smolder.from_dlpack(x.__dlpack__(dl_device=(1, 0))).is_cpu
    assert smolder.from_dlpack(np.ones(2), device="cuda").is_cuda
    on_cpu = x.cpu()
    for call, error, text in [
        (lambda: x.__dlpack__(stream=0), AssertionError, "unsupported stream on CUDA: 0"),
        (lambda: x.__dlpack__(stream="1"), TypeError, "stream must be ``int`` or ``none``"),
        (lambda: on_cpu.__dlpack__(stream=1), AssertionError, "stream should be None on cpu"),
        (lambda: x.__dlpack__(dl_device=(2, 63)), BufferError, r"device \(2, 0\) can't be had on \(2, 63\)"),
        (lambda: x.__dlpack__(dl_device=(1, 0), copy=False), BufferError, r"can't be had on \(1, 0\)"),
        (lambda: x.requires_grad_().__dlpack__(), BufferError, "require gradient"),
        (lambda: smolder.from_dlpack(x, device="cpu", copy=False), ValueError, "without copying"),
        (lambda: np.from_dlpack(on_cpu.cuda()), (BufferError, RuntimeError), "Unsupported device"),
        (lambda: on_cpu.cuda().numpy(), TypeError, "copy the tensor to host memory first"),
    ]:
        with pytest.raises(error, match=text):
            call()
        x.requires_grad_(False)


def test_the_interface_of_arrays():
    x = smolder.arange(24.0, device="cuda").reshape(4, 6) * 1
    said = x[1:, ::2].t().__cuda_array_interface__
    assert said == {
        "version": 3,
        "shape": (3, 3),
        "typestr": "<f4",
        "data": (x.data_ptr() + 24, False),
        "strides": (8, 24),
        "stream": 1,
    }
    address = x.data_ptr()
    x.add_(1)  # where it lies, whoever looks
    assert x.data_ptr() == address and x.__cuda_array_interface__["strides"] is None
    for dtype, name in [("bfloat16", "<V2"), ("bool", "|b1"), ("uint8", "|u1"), ("int64", "<i8"), ("float16", "<f2")]:
        y = smolder.zeros(2, dtype=getattr(smolder, dtype), device="cuda")
        assert y.__cuda_array_interface__["typestr"] == name
    assert smolder.zeros(0, device="cuda").__cuda_array_interface__["data"] == (0, False)
    assert not hasattr(x.cpu(), "__cuda_array_interface__")
    with pytest.raises(RuntimeError, match="on Variable that requires grad"):
        _ = x.clone().requires_grad_().__cuda_array_interface__


@pytest.fixture
def torch():
    torch = pytest.importorskip("torch", reason="needs PyTorch")
    if not torch.cuda.is_available():
        pytest.skip("needs a PyTorch that uses CUDA")
    return torch


BUSY = 3000  # rows of products that a device takes some milliseconds for


def busy_torch(torch, steps=30):
    """Queues work on the current stream; the result is a number, 1."""
    x = torch.eye(BUSY, device="cuda")
    for _ in range(steps):
        x = x @ x
    return x[0, 0]


def busy_smolder(steps=30):
    x = smolder.eye(BUSY, device="cuda")
    for _ in range(steps):
        x = x @ x
    return x[0, 0]


def test_torch_shares_memory(torch):
    x = smolder.zeros(3, device="cuda")
    theirs = torch.from_dlpack(x)
    assert theirs.data_ptr() == x.data_ptr() and theirs.is_cuda
    theirs[0] = 1
    x[1] = 2
    assert x.tolist() == [1, 2, 0] and theirs.tolist() == [1, 2, 0]
    t = torch.arange(6, device="cuda", dtype=torch.bfloat16).reshape(2, 3).t()
    ours = smolder.from_dlpack(t)
    assert ours.data_ptr() == t.data_ptr() and ours.dtype == smolder.bfloat16 and ours.stride() == (1, 3)
    ours *= 2
    assert t.tolist() == ours.tolist() == [[0, 6], [2, 8], [4, 10]]


def test_torch_takes_the_interface_of_arrays(torch):
    x = smolder.zeros(3, device="cuda")
    theirs = torch.as_tensor(x)
    assert theirs.data_ptr() == x.data_ptr()
    theirs.add_(busy_torch(torch))
    x.add_(busy_smolder())
    assert theirs.tolist() == x.tolist() == [2, 2, 2]
    del x
    assert theirs.tolist() == [2, 2, 2]


def test_work_on_the_default_stream_is_in_order(torch):
    """Neither side waits on the host, and each reads what the other is still to write."""
    x = smolder.zeros(4, device="cuda")
    theirs = torch.from_dlpack(x)
    for i in range(4):
        theirs.add_(busy_torch(torch))
        x.add_(busy_smolder())
        assert x.tolist() == theirs.tolist() == [2 * i + 2] * 4 if i % 2 else True
    assert x.sum().item() == 32


def test_work_on_another_stream_is_in_order_after_an_exchange(torch):
    side = torch.cuda.Stream()
    x = smolder.zeros(4, device="cuda")
    for i in range(4):
        x.add_(busy_smolder())  # is still to run
        with torch.cuda.stream(side):
            theirs = torch.from_dlpack(x)  # tells us of the stream, which then waits
            seen = theirs.clone()
            theirs.add_(busy_torch(torch))
            again = smolder.from_dlpack(theirs)  # tells it of our queue
        assert (again * 1).tolist() == x.tolist() == [2 * i + 2] * 4
        side.synchronize()
        assert seen.tolist() == [2 * i + 1] * 4


def test_a_stream_may_be_our_queue(torch):
    x = smolder.zeros(4, device="cuda")
    with torch.cuda.stream(torch.cuda.ExternalStream(cuda.current_stream().cuda_stream)):
        theirs = torch.from_dlpack(x)
        for _ in range(4):
            theirs.add_(busy_torch(torch))
            x.add_(1)
        assert x.tolist() == theirs.tolist() == [8] * 4


def test_memory_is_not_used_again_before_its_last_use(torch):
    """The memory that torch is told to read, of a tensor that is gone by then."""
    for i in range(8):
        x = smolder.full((1 << 20,), float(i), device="cuda")
        theirs = torch.from_dlpack(x)
        busy_torch(torch)
        total = theirs.sum()
        del x, theirs
        other = smolder.full((1 << 20,), -1.0, device="cuda")  # likely to be in the same memory
        smolder.mark_step()
        assert total.item() == i * (1 << 20)
        del other
    before = torch.cuda.memory_allocated()
    for i in range(8):
        t = torch.full((1 << 20,), float(i), device="cuda")
        ours = smolder.from_dlpack(t)
        busy_smolder()
        total = ours.sum()
        del t, ours
        other = torch.full((1 << 20,), -1.0, device="cuda")
        assert total.item() == i * (1 << 20)
        del other
    cuda.synchronize()
    assert torch.cuda.memory_allocated() - before < 4 << 20
