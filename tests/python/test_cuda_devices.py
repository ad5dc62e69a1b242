"""Several devices of CUDA: where tensors are, copies between devices, steps that cross them, what each has for itself."""

import copy
import ctypes
import io
import os
import pickle
import subprocess
import sys
import threading

import numpy as np
import pytest
from conftest import assert_same_bits as assert_same_arrays

import smolder
from smolder import cuda, nn

COUNT = cuda.device_count()
pytestmark = pytest.mark.skipif(
    COUNT < 2, reason=f"needs two devices of CUDA, there are {COUNT} (SMOLDER_CUDA_HOST_DEVICES=3 emulates some)"
)
EMULATED = COUNT > 1 and cuda.get_device_name(0) == "CUDA on the host"
emulated = pytest.mark.skipif(not EMULATED, reason="asks the emulated driver")
LAST = COUNT - 1
ONE = "cuda:1"
PLACES = ["cpu", "cuda:0", "cuda:1", f"cuda:{LAST}"]
BAD = rf"CUDA error: invalid device ordinal: there is no cuda:{COUNT + 7}, there are {COUNT} devices"


@pytest.fixture(autouse=True)
def first_device():
    yield
    smolder.set_default_device(None)
    cuda.set_device(0)


def assert_same_bits(a, b):
    assert_same_arrays(*(t.float() if t.dtype == smolder.bfloat16 else t for t in (a, b)))


def child(code, **environment):
    """The output of a process of its own."""
    run = subprocess.run(
        [sys.executable, "-c", "import smolder\nfrom smolder import cuda, nn\n" + code],
        env=os.environ | environment,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout.split()


# -- where tensors are


@pytest.mark.parametrize("where", [ONE, 1, smolder.device("cuda", 1), smolder.device(1)])
def test_what_makes_tensors_makes_them_on_the_device_that_is_said(where):
    made = [
        smolder.zeros(2, 3, device=where),
        smolder.full((2,), 3.0, device=where),
        smolder.tensor([1.0, 2.0], device=where),
        smolder.as_tensor(np.arange(3), device=where),
        smolder.arange(5, device=where),
        smolder.eye(3, device=where),
        smolder.randn(4, device=where),
        smolder.randint(0, 9, (3,), device=where),
        smolder.empty(2, device=where),
        smolder.ones_like(smolder.zeros(2), device=where),
        smolder.zeros(2, device=where).new_ones(3),
        smolder.zeros_like(smolder.zeros(2, device=where)),
        nn.Linear(2, 3, device=where).weight,
    ]
    for t in made:
        assert t.device == smolder.device(ONE) and t.get_device() == 1 and t.is_cuda
    assert made[2].tolist() == [1.0, 2.0] and made[4].tolist() == [0, 1, 2, 3, 4]
    assert "device='cuda:1'" in repr(made[0])


def test_cuda_is_the_current_device():
    assert cuda.current_device() == 0 and smolder.zeros(1, device="cuda").get_device() == 0
    with cuda.device(1):
        assert cuda.current_device() == 1
        x = smolder.ones(2).cuda()
        assert x.get_device() == smolder.zeros(1, device="cuda").get_device() == 1
        assert x.to("cuda") is x and x.cuda() is x
        with cuda.device(0):
            assert x.to("cuda").get_device() == 0  # torch moves it, too
        with cuda.device(None), cuda.device(-1), cuda.device_of(smolder.zeros(1)):
            assert cuda.current_device() == 1
    assert cuda.current_device() == 0
    with cuda.device_of(x), pytest.raises(ZeroDivisionError), cuda.device(0):
        raise ZeroDivisionError
    assert cuda.current_device() == 0
    for named in (1, ONE, smolder.device(ONE)):
        cuda.set_device(named)
        assert cuda.current_device() == 1 and nn.Linear(2, 2).cuda().weight.get_device() == 1
        cuda.set_device(0)
    cuda.set_device(-1)
    assert cuda.current_device() == 0
    with pytest.raises(ValueError, match="with a specified index or an integer, but got:cuda"):
        cuda.set_device("cuda")
    seen = []
    with cuda.device(1):
        thread = threading.Thread(target=lambda: seen.append(cuda.current_device()))
        thread.start()
        thread.join()
    assert seen == [0]  # each thread has its own


def test_the_default_device_may_be_any():
    smolder.set_default_device("cuda:1")
    assert smolder.zeros(2).get_device() == 1 and smolder.get_default_device() == smolder.device(ONE)
    with cuda.device(0):
        assert smolder.zeros(2).get_device() == 1
    smolder.set_default_device("cuda")
    assert smolder.zeros(2).get_device() == 0
    with cuda.device(1):
        assert smolder.zeros(2).get_device() == 1 and smolder.tensor([1.0]).get_device() == 1
        assert smolder.get_default_device() == smolder.device(ONE)
        with smolder.device("cuda:0"):
            assert smolder.arange(3).get_device() == 0
    smolder.set_default_device(None)
    with smolder.device(ONE):
        assert smolder.ones(2).get_device() == 1
    assert smolder.ones(2).device == smolder.device("cpu")


def test_a_device_that_is_not_there_is_named_with_how_many_there_are():
    bad = f"cuda:{COUNT + 7}"
    x = smolder.ones(2)
    for use in (
        lambda: smolder.zeros(2, device=bad),
        lambda: smolder.tensor([1.0], device=bad),
        lambda: x.to(bad),
        lambda: x.cuda(COUNT + 7),
        lambda: x.cuda().to(bad),
        lambda: nn.Linear(2, 2).to(bad),
        lambda: nn.Linear(2, 2, device=bad),
        lambda: smolder.set_default_device(bad),
        lambda: cuda.set_device(COUNT + 7),
        lambda: cuda.device(bad).__enter__(),
        lambda: cuda.synchronize(COUNT + 7),
        lambda: cuda.memory_allocated(bad),
        lambda: cuda.mem_get_info(bad),
        lambda: cuda.Stream(bad),
        lambda: cuda.get_rng_state(bad),
        lambda: smolder.load(saved(x), map_location=bad),
    ):
        with pytest.raises(RuntimeError, match=BAD):
            use()
    for use in (cuda.get_device_name, cuda.get_device_properties, cuda.get_device_capability):
        with pytest.raises(AssertionError, match="Invalid device id"):
            use(COUNT + 7)
    assert cuda.current_device() == 0 and smolder.get_default_device() == smolder.device("cpu")


def test_questions_about_devices():
    assert COUNT == cuda.device_count() == smolder.accelerator.device_count()
    for i in range(COUNT):
        assert cuda.get_device_name(i) == cuda.get_device_name(f"cuda:{i}") == cuda.get_device_properties(i).name
        free, total = cuda.mem_get_info(i)
        assert 0 < free <= total
    assert cuda.can_device_access_peer(0, 1) in (True, False) and not cuda.can_device_access_peer(0, 0)
    with smolder.accelerator.device_index(1):
        assert smolder.accelerator.current_device_index() == 1
    assert smolder.accelerator.current_device_index() == 0


# -- copies


@pytest.mark.parametrize("source", PLACES)
@pytest.mark.parametrize("target", PLACES)
def test_copies_between_all_devices(source, target):
    for dtype in (smolder.float32, smolder.bfloat16, smolder.int64, smolder.bool):
        x = (smolder.arange(60).reshape(3, 4, 5) % 7).to(dtype)
        there = x.to(source)
        moved = there.to(target)
        assert moved.device == smolder.device(target) and moved.dtype == dtype
        assert (moved is there) == (source == target)
        assert_same_bits(moved.cpu(), x)
        assert_same_bits(there.transpose(0, 2).to(target).cpu(), x.transpose(0, 2))
        assert_same_bits(there[1:, ::2].to(target).cpu(), x[1:, ::2])
        pending = (there + there).to(target)
        assert_same_bits(pending.cpu(), x + x)
    assert smolder.zeros(0, 3, device=source).to(target).shape == (0, 3)
    assert smolder.tensor(2.5, device=source).to(target).item() == 2.5
    like = smolder.zeros(1, dtype=smolder.float64, device=target)
    converted = smolder.ones(2, device=source).to(like)
    assert converted.device == like.device and converted.dtype == smolder.float64
    assert smolder.ones(2, device=source).to(target, smolder.int32, non_blocking=True).tolist() == [1, 1]
    x = smolder.ones(3, device=source)
    x.copy_(smolder.arange(3.0, device=target))
    assert x.tolist() == [0.0, 1.0, 2.0] and x.device == smolder.device(source)


def test_what_is_copied_is_what_was_there_and_memory_is_not_reused_too_early():
    n = 1 << 20
    for turn in range(20):
        x = smolder.full((n,), float(turn), device="cuda:0")
        y = x.to(ONE)
        x.fill_(-1.0)
        del x
        other = smolder.full((n,), -2.0, device="cuda:0")  # where x was
        back = (y + 1).to("cuda:0")
        y.fill_(-3.0)
        del y
        again = smolder.full((n,), -4.0, device=ONE)
        assert back.min().item() == back.max().item() == turn + 1
        assert other.sum().item() == -2.0 * n and again.sum().item() == -4.0 * n


def test_pinned_memory_is_copied_to_any_device_and_not_reused_too_early():
    for turn in range(10):
        x = smolder.full((1 << 18,), float(turn)).pin_memory()
        assert x.is_pinned()
        there = [x.to(f"cuda:{i}", non_blocking=True) for i in range(COUNT)]
        del x
        smolder.full((1 << 18,), -1.0).pin_memory()
        for i, y in enumerate(there):
            assert y.get_device() == i and y.min().item() == y.max().item() == turn


def test_devices_do_not_mix_in_an_op():
    a, b = smolder.ones(3, device="cuda:0"), smolder.ones(3, device=ONE)
    message = "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cuda:1!"
    for use in (
        lambda: a + b,
        lambda: a.mul(2).add_(b),
        lambda: smolder.cat([a, b]),
        lambda: smolder.where(a > 0, a, b),
        lambda: a.reshape(1, 3) @ b.reshape(3, 1),
        lambda: nn.Linear(3, 2, device="cuda:0")(b),
    ):
        with pytest.raises(RuntimeError, match=message.replace("cuda:0 and cuda:1", "cuda:[01] and cuda:[01]")):
            use()
    with pytest.raises(RuntimeError, match=message):
        a + b
    assert (a + b.to(a.device)).tolist() == [2.0, 2.0, 2.0]


def test_pickled_tensors_keep_their_device():
    x = smolder.arange(6.0, device=ONE).reshape(2, 3).t().requires_grad_()
    y = pickle.loads(pickle.dumps(x))
    assert y.device == x.device and y.stride() == x.stride() and y.requires_grad and y.tolist() == x.tolist()


def test_tensors_of_the_host_without_dimensions_go_to_a_device_in_elementwise_ops():
    x = smolder.arange(3.0, device=ONE)
    scale = smolder.tensor(2.0, requires_grad=True)
    for y, expected in (
        (x * scale, [0, 2, 4]),
        (scale - x, [2, 1, 0]),
        (smolder.where(x > 1, x, scale), [2, 2, 2]),
        (x.clone().add_(scale), [2, 3, 4]),
        (smolder.addcmul(x, x, scale), [0, 3, 6]),
    ):
        assert y.device == x.device and y.tolist() == expected
    half = smolder.ones(2, dtype=smolder.float16, device=ONE) * scale
    assert half.dtype == smolder.float16  # it has no dimensions there, too
    (x * scale).sum().backward()
    assert scale.grad.device.type == "cpu" and scale.grad.item() == 3
    for use in (
        lambda: x + smolder.ones(1),
        lambda: scale.detach().add_(x[0]),
        lambda: smolder.cat([x, smolder.tensor(1.0).reshape(1)]),
        lambda: smolder.stack([x[0], smolder.tensor(1.0)]),
        lambda: x @ smolder.ones(3),
    ):
        with pytest.raises(RuntimeError, match=f"found at least two devices, .*{ONE}"):
            use()


@pytest.mark.skipif(not EMULATED, reason="asks the emulated driver")
def test_devices_that_cannot_reach_each_other_copy_through_the_host():
    code = "x = smolder.arange(6., device='cuda:1')\nprint((x * 2).to('cuda:0').sum().item(), cuda.can_device_access_peer(0, 1))"
    assert child(code, SMOLDER_CUDA_HOST_PEERS="0") == ["30.0", "False"]


# -- work


def test_all_kinds_of_work_run_on_each_device():
    def work(device):
        smolder.manual_seed(0)
        x = smolder.randn(6, 8, device=device)
        image = smolder.randn(2, 3, 8, 8, device=device)
        index = smolder.tensor([3, 1, 3, 0], device=device)
        found = [
            (x.exp() * 2).softmax(-1),
            x.sum(0),
            x @ x.t(),
            smolder.baddbmm(x.new_zeros(1), x.reshape(1, 6, 8), x.t().reshape(1, 8, 6)),
            nn.functional.conv2d(image, image[:, :, :3, :3]),
            nn.functional.max_pool2d(image, 2),
            x.sort(descending=True).values,
            x.cumsum(1),
            x[index],
            x.new_zeros(6, 8).index_add(0, index, x[:4]),
            x[x > 0],
            x.to(smolder.bfloat16) @ x.t().to(smolder.bfloat16),
            smolder.linalg.inv(x[:, :6] + 9 * smolder.eye(6, device=device)),
            nn.functional.dropout(x, 0.5),
            smolder.randperm(9, device=device),
        ]
        assert all(str(t.device) == device for t in found)
        return [t.cpu() for t in found]

    first = work("cuda:0")
    for i in range(1, COUNT):
        for a, b in zip(first, work(f"cuda:{i}"), strict=True):
            assert_same_bits(a, b)


def test_gradients_come_back_to_where_values_came_from():
    x = smolder.arange(4.0, requires_grad=True)
    w = smolder.arange(1.0, 5.0, device=ONE, requires_grad=True)
    a = (x.to("cuda:0") * 3).exp2()
    (a.to(ONE) * w).to("cuda:0").sum().backward()
    assert str(x.grad.device) == "cpu" and str(w.grad.device) == ONE
    assert w.grad.tolist() == [1.0, 8.0, 64.0, 512.0]
    expected = np.log(2) * 3 * np.array([1, 8, 64, 512]) * np.arange(1, 5)
    np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-5)
    z = smolder.ones(3, device="cuda:0", requires_grad=True)
    (g,) = smolder.autograd.grad((z.to(ONE) ** 3).sum(), z, create_graph=True)
    assert str(g.device) == "cuda:0"
    g.sum().backward()
    assert z.grad.tolist() == [6.0, 6.0, 6.0]


class Stages(nn.Module):
    """Layers, each on a device."""

    def __init__(self, *devices):
        super().__init__()
        sizes = [(6, 16), (16, 16), (16, 4)]
        self.layers = nn.ModuleList([nn.Linear(a, b) for a, b in sizes])
        for layer, device in zip(self.layers, devices, strict=True):
            layer.to(device)

    def forward(self, x):
        for layer in self.layers:
            x = nn.functional.gelu(layer(x.to(layer.weight.device)))
        return x


def trained(devices, make=smolder.optim.AdamW, steps=8, clip=False, compiled=False):
    smolder.manual_seed(1)
    model = Stages(*devices)
    optimizer = make(model.parameters(), lr=0.01)
    x, y = smolder.randn(10, 6), smolder.randint(0, 4, (10,))
    run = smolder.compile(model) if compiled else model
    losses = []
    for _ in range(steps):
        out = run(x.to(devices[0]))
        loss = nn.functional.cross_entropy(out, y.to(out.device))
        optimizer.zero_grad()
        loss.backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
        losses.append(loss)
    for layer, device in zip(model.layers, devices, strict=True):
        assert str(layer.weight.device) == str(layer.bias.grad.device) == device
    return [t.detach().cpu() for t in (*losses, *model.parameters())]


@pytest.mark.parametrize("make", [smolder.optim.AdamW, smolder.optim.SGD])
@pytest.mark.parametrize("clip", [False, True])
def test_a_model_on_several_devices_trains_as_on_one(make, clip):
    alone = trained(["cuda:0"] * 3, make, clip=clip)
    for devices in (["cuda:0", ONE, ONE], [f"cuda:{LAST}", "cuda:0", ONE], ["cpu", ONE, "cuda:0"]):
        for a, b in zip(alone, trained(devices, make, clip=clip), strict=True):
            if devices[0] == "cpu" or clip:  # the sum of all norms is of other parts
                np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=2e-4, atol=1e-6)
            else:
                assert_same_bits(a, b)


def test_steps_on_several_devices_repeat_and_are_replayed_as_graphs():
    def counted(*names):
        return [smolder.metrics()["counters"][name] for name in names]

    names = ("predictor.misses", "graphs.captured", "graphs.replayed", "kernels.compiled")
    trained(["cuda:0", ONE, ONE], steps=6)
    before = counted(*names)
    trained(["cuda:0", ONE, ONE], steps=30)
    _, _, replayed, compiled = np.subtract(counted(*names), before)
    assert replayed > 30 and compiled == 0


def test_a_kernel_is_compiled_once_for_devices_of_one_kind():
    if len({cuda.get_device_capability(i) for i in range(COUNT)}) > 1:
        pytest.skip("devices are of several kinds")
    compiled = []
    for i in range(COUNT):
        before = smolder.metrics()["counters"]["kernels.compiled"]
        x = smolder.arange(7.0, device=f"cuda:{i}")
        assert (x * 1.25 + x.cos() * 0.375).sum().item() == pytest.approx(26.25 + 0.375 * np.cos(np.arange(7)).sum())
        compiled.append(smolder.metrics()["counters"]["kernels.compiled"] - before)
    assert not any(compiled[1:]), compiled


def test_compiled_functions_run_where_their_operands_are():
    @smolder.compile
    def f(x, w):
        return (x * w).tanh().sum()

    counters = smolder.metrics()["counters"]
    for where in ("cuda:0", ONE, "cuda:0", ONE, ONE):
        x = smolder.arange(5.0, device=where).div(5).requires_grad_()
        out = f(x, smolder.ones(5, device=where))
        out.backward()
        assert str(out.device) == str(x.grad.device) == where
        np.testing.assert_allclose(out.item(), np.tanh(np.arange(5) / 5).sum(), rtol=1e-5)
    after = smolder.metrics()["counters"]
    assert after["compile.recorded"] - counters["compile.recorded"] == 2  # once for each device
    assert after["compile.hits"] - counters["compile.hits"] == 3
    for a, b in zip(trained(["cuda:0"] * 3), trained(["cuda:0", ONE, ONE], compiled=True), strict=True):
        assert_same_bits(a, b)


def test_eager_mode_on_another_device():
    with smolder.eager():
        x = smolder.arange(6.0, device=ONE).reshape(2, 3)
        y = (x @ x.t()).relu()
        assert str(y.device) == ONE and y.tolist() == [[5.0, 14.0], [14.0, 50.0]]


def test_control_flow_on_another_device():
    x = smolder.arange(4.0, device=ONE, requires_grad=True)
    y = smolder.cond(x.sum() > 3, lambda x: x * 2, lambda x: x - 1, (x,))
    y.sum().backward()
    assert str(y.device) == str(x.grad.device) == ONE and x.grad.tolist() == [2.0] * 4
    n = smolder.tensor(0, device=ONE)
    count, total = smolder.while_loop(lambda i, t: i < 5, lambda i, t: (i + 1, t + i), (n, n.clone()))
    assert (count.item(), total.item(), str(total.device)) == (5, 10, ONE)
    with pytest.raises(RuntimeError, match="uses a tensor on cuda:0, its operands are on cuda:1"):
        smolder.cond(x.sum() > 3, lambda x: x * smolder.ones(1, device="cuda:0"), lambda x: x, (x,))


def test_a_bad_index_is_told_by_its_own_device():
    table = smolder.ones(3, 2, device=ONE)
    other = smolder.ones(3, device="cuda:0") * 2
    out = table[smolder.tensor([0, 7], device=ONE)]
    cuda.synchronize(0)
    assert other.sum().item() == 6.0
    with pytest.raises(IndexError):
        cuda.synchronize(1)
    assert out.shape == (2, 2) and table.sum().item() == 6.0


def test_autocast_and_scaled_gradients_on_several_devices():
    model = Stages("cuda:0", ONE, ONE)
    optimizer = smolder.optim.SGD(model.parameters(), lr=0.1)
    scaler = smolder.amp.GradScaler(init_scale=64.0, growth_interval=1)
    before = [p.detach().clone() for p in model.parameters()]
    with smolder.autocast("cuda", smolder.bfloat16):
        out = model(smolder.ones(3, 6, device="cuda:0"))
        assert out.dtype == smolder.bfloat16 and str(out.device) == ONE
        loss = out.float().square().sum()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() == 128.0
    assert any((p - b).abs().sum().item() > 0 for p, b in zip(model.parameters(), before, strict=True))


def test_threads_train_each_on_a_device_of_its_own():
    expected = trained(["cuda:0"] * 3, steps=5)
    found = [None] * COUNT

    def train(i):
        generator = smolder.Generator().manual_seed(i)
        w = smolder.randn(8, 8, generator=generator).to(f"cuda:{i}").requires_grad_()
        for _ in range(10):
            (w @ w).square().mean().backward()
            with smolder.no_grad():
                w -= 0.1 * w.grad
            w.grad = None
            smolder.mark_step()
        found[i] = w.detach().cpu()

    threads = [threading.Thread(target=train, args=(i,)) for i in range(COUNT)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    beside = list(found)
    for i in range(COUNT):
        train(i)
        assert_same_bits(beside[i], found[i])
    for a, b in zip(expected, trained([ONE] * 3, steps=5), strict=True):
        assert_same_bits(a, b)


# -- what a device has for itself


def test_memory_is_counted_by_device():
    cuda.synchronize(0)
    before = [cuda.memory_allocated(i) for i in range(COUNT)]
    x = smolder.zeros(1 << 20, device=ONE)
    cuda.synchronize(1)
    assert 4 << 20 <= cuda.memory_allocated(1) - before[1] < 5 << 20  # numbers of a plan, too
    assert [cuda.memory_allocated(i) for i in range(COUNT) if i != 1] == before[:1] + before[2:]
    assert cuda.max_memory_allocated(ONE) >= cuda.memory_allocated(ONE)
    with cuda.device(1):
        assert cuda.memory_allocated() == cuda.memory_allocated(1) == cuda.memory_stats()["allocated_bytes.all.current"]
    assert f"device ID {1}" in cuda.memory_summary(1)
    cuda.reset_peak_memory_stats(1)
    del x
    cuda.synchronize(1)
    assert cuda.max_memory_allocated(1) - cuda.memory_allocated(1) >= 4 << 20
    reserved = cuda.memory_reserved(1)
    cuda.empty_cache()
    assert cuda.memory_reserved(1) <= reserved - (4 << 20)
    cuda.set_per_process_memory_fraction(0.5, 1)
    assert cuda.get_per_process_memory_fraction(1) == 0.5 and cuda.get_per_process_memory_fraction(0) == 1.0
    cuda.set_per_process_memory_fraction(1.0, 1)
    smolder.memory._record_memory_history()
    y = smolder.ones(3, device=ONE) + 1
    cuda.synchronize(1)
    assert {b.device for b in smolder.memory.alive(ONE)} == {ONE} and y.tolist() == [2.0] * 3
    assert not smolder.memory.alive("cuda:0")
    smolder.memory._record_memory_history(None)


def test_memory_that_runs_out_is_of_one_device():
    free, _ = cuda.mem_get_info(1)
    with pytest.raises(smolder.OutOfMemoryError, match=r"GPU 1 has a total capacity"):
        smolder.empty(free + (1 << 30), dtype=smolder.uint8, device=ONE).add_(1).cpu()
    assert (smolder.ones(3, device=ONE) + 1).tolist() == [2.0] * 3


@emulated
def test_devices_that_are_not_used_have_no_context():
    bits = "\nimport ctypes; f = ctypes.CDLL(None).smolder_host_contexts; f.restype = ctypes.c_uint64\nprint(f())"
    ask = "cuda.device_count(), cuda.get_device_name(0), cuda.get_device_properties(1), cuda.memory_allocated(0)"
    assert child(ask + bits) == ["0"]
    use = """
model = nn.Linear(4, 4, device='cuda:1')
for _ in range(4):
    model(smolder.ones(2, 4, device='cuda:1')).sum().backward()
    smolder.mark_step()
x = smolder.ones(5).pin_memory()
x.to('cuda:1', non_blocking=True).cpu(); x.is_pinned(); del x
smolder.synchronize() if hasattr(smolder, 'synchronize') else None
cuda.synchronize(0); cuda.synchronize(1); cuda.empty_cache(); smolder.from_dlpack(smolder.ones(2, device='cuda:1'))
"""
    assert child("cuda.set_device(1)\n" + use + bits) == ["2"]
    assert child("smolder.ones(2, device='cuda').add(1).tolist()" + bits) == ["1"]


def test_streams_and_events_have_devices():
    assert cuda.Stream(1).device == cuda.current_stream(ONE).device == smolder.device(ONE)
    assert cuda.Stream(1) != cuda.Stream(0) and cuda.Stream(1) == cuda.default_stream(1)
    assert cuda.Stream(1).cuda_stream != cuda.Stream(0).cuda_stream
    with cuda.stream(cuda.Stream(1)):
        assert cuda.current_stream().device == smolder.device(ONE) and cuda.current_device() == 1
        event = cuda.Event(enable_timing=True)
        event.record()
        assert event.device == smolder.device(ONE)
    assert cuda.current_device() == 0
    x = smolder.ones(1 << 12, device=ONE) * 2
    done = cuda.current_stream(1).record_event(cuda.Event(enable_timing=True))
    done.synchronize()
    assert done.query() and event.elapsed_time(done) >= 0 and x[0].item() == 2.0
    with pytest.raises(RuntimeError, match="Event device 1 does not match recording stream's device 0"):
        done.record(cuda.Stream(0))
    done.wait(cuda.Stream(0))
    cuda.Stream(0).wait_event(done)
    cuda.Stream(0).wait_stream(cuda.Stream(1))
    cuda.Stream(1).synchronize()
    assert cuda.Stream(1).query()
    cuda.set_stream(cuda.Stream(1))
    assert cuda.current_device() == 1


def test_one_generator_serves_all_devices():
    drawn = []
    for i in range(COUNT):
        smolder.manual_seed(5)
        drawn.append(smolder.randn(100, device=f"cuda:{i}").cpu())
    for other in drawn[1:]:
        assert_same_bits(drawn[0], other)
    assert len(cuda.get_rng_state_all()) == COUNT
    state = cuda.get_rng_state(1)
    a = smolder.rand(3, device="cuda:0")
    cuda.set_rng_state(state, 1)
    assert_same_bits(a.cpu(), smolder.rand(3, device=ONE).cpu())


def saved(x):
    file = io.BytesIO()
    smolder.save(x, file)
    file.seek(0)
    return file


def test_files_remember_devices_and_may_be_loaded_to_others(tmp_path):
    x = {"a": smolder.arange(4.0, device=ONE), "b": smolder.ones(2, device="cuda:0"), "c": smolder.ones(1)}

    def devices(map_location=None):
        back = smolder.load(saved(x), map_location=map_location)
        assert back["a"].tolist() == [0.0, 1.0, 2.0, 3.0] and back["b"].tolist() == [1.0, 1.0]
        return [str(back[name].device) for name in "abc"]

    assert devices() == [ONE, "cuda:0", "cpu"]
    assert devices(ONE) == [ONE] * 3
    assert devices(smolder.device("cuda:0")) == ["cuda:0"] * 3
    assert devices("cpu") == ["cpu"] * 3
    assert devices({"cuda:1": "cuda:0", "cpu": ONE}) == ["cuda:0", "cuda:0", ONE]
    assert devices(lambda storage, where: storage.cuda(1) if where == "cuda:0" else None) == [ONE, ONE, "cpu"]
    with cuda.device(1):
        assert devices("cuda") == [ONE] * 3
    again = copy.deepcopy(x["a"])
    assert str(again.device) == ONE and again.tolist() == [0.0, 1.0, 2.0, 3.0]
    model = Stages("cuda:0", ONE, ONE)
    other = Stages("cpu", "cpu", "cpu")
    other.load_state_dict(model.state_dict())
    assert_same_bits(other.layers[1].weight.detach(), model.layers[1].weight.detach().cpu())
    smolder.safetensors.save_file({"a": x["a"]}, tmp_path / "a.safetensors")
    assert str(smolder.safetensors.load_file(tmp_path / "a.safetensors", device=ONE)["a"].device) == ONE


def test_dlpack_of_another_device():
    x = smolder.arange(5.0, device=ONE) * 2
    assert x.__dlpack_device__() == (2, 1)
    shared = smolder.from_dlpack(x)
    assert str(shared.device) == ONE and shared.data_ptr() == x.data_ptr()
    shared.add_(1)
    assert x.tolist() == [1.0, 3.0, 5.0, 7.0, 9.0]
    assert str((shared + 1).device) == ONE and (shared + 1).tolist() == [2.0, 4.0, 6.0, 8.0, 10.0]
    assert shared.to("cuda:0").tolist() == x.tolist()
    there = x.__dlpack__(dl_device=(2, 0))
    assert smolder.from_dlpack(there).get_device() == 0
    assert smolder.as_tensor(x, device="cuda:0").get_device() == 0
    assert ctypes.c_void_p(x.__cuda_array_interface__["data"][0]).value == x.data_ptr()


def test_reports_name_devices():
    x = smolder.ones(3, 3, device=ONE)

    def f(x):
        return (x @ x + 1).to("cuda:0") * 2

    told = str(smolder.explain(f)(x))
    assert ONE in told and "cuda:0" in told
    with smolder.profiler.profile() as p:
        f(x).tolist()
    assert {e.device_index for e in p.events() if e.device_type.name == "CUDA"} == {0, 1}
