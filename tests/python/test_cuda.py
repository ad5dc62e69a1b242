"""CUDA: what a machine without a device says, and, on one with a device, every row against the CPU."""

import math
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
from conftest import assert_same_bits
from op_rows import DRAWN, ROWS, TENSORS, Refused, arguments, call, ids, made, own_cases, results

import smolder
from smolder import _core, cuda, nn

on_a_device = pytest.mark.skipif(not cuda.is_available(), reason="there is no CUDA device")
without_a_device = pytest.mark.skipif(cuda.is_available(), reason="there is a CUDA device")

# Rounding units that the two may differ by: the math functions are the same code, but sums go in another order, and
# products of matrices are cuBLASLt's.
UNITS = {"float64": 1e-12, "float32": 2e-5, "float16": 4e-3, "bfloat16": 3e-2}


# The kernel reads results of the forward pass that its decomposition makes anew, so operands that no attention made are
# no test: test_cuda_attention.py has one.
CHECKED_ELSEWHERE = {("attention_backward", "bfloat16")}


def test_devices_are_named_as_in_torch():
    device = smolder.device
    assert str(device("cuda")) == "cuda" and str(device("cuda:1")) == "cuda:1" and str(device("cuda", 1)) == "cuda:1"
    assert device(0) == device("cuda:0") != device("cuda")
    assert repr(device("cuda", 0)) == "device(type='cuda', index=0)"
    assert pickle.loads(pickle.dumps(device("cuda:0"))) == device("cuda:0")
    for wrong in ("cuds", "cuda:x", "cuda:-1"):
        with pytest.raises(RuntimeError, match="device"):
            device(wrong)


@without_a_device
@pytest.mark.parametrize(
    "use",
    [
        lambda: smolder.zeros(2, device="cuda"),
        lambda: smolder.tensor([1.0], device="cuda"),
        lambda: smolder.as_tensor([1.0], None, "cuda"),
        lambda: smolder.zeros_like(smolder.ones(2), device="cuda"),
        lambda: smolder.ones(2).to("cuda"),
        lambda: smolder.ones(2).cuda(),
        lambda: nn.Linear(2, 2).cuda(),
        lambda: nn.Linear(2, 2, device="cuda"),
        lambda: smolder.random.fork_rng(devices=[0]).__enter__(),
        lambda: nn.Linear(2, 2).to("cuda:0"),
        lambda: smolder.device("cuda").__enter__(),
        cuda.synchronize,
        cuda.current_device,
        cuda.get_device_name,
        cuda.mem_get_info,
        cuda.Stream,
        cuda.current_stream,
        lambda: cuda.Event(enable_timing=True),
    ],
)
def test_without_a_device_its_use_says_why(use):
    with pytest.raises(RuntimeError, match=r"CUDA is not available: there is no CUDA d"):
        use()


@without_a_device
def test_without_a_device_one_can_ask():
    assert not cuda.is_available() and cuda.device_count() == 0 and not cuda.is_initialized()
    assert cuda.memory_allocated() == cuda.max_memory_allocated() == 0
    cuda.empty_cache()
    cuda.manual_seed_all(3)
    a = smolder.rand(2)
    smolder.manual_seed(3)
    assert a.tolist() == smolder.rand(2).tolist()
    assert smolder.ones(2).is_cpu and not smolder.ones(2).is_cuda


@on_a_device
def test_tensors_move_and_say_where_they_are():
    x = smolder.arange(6.0).reshape(2, 3)
    y = x.cuda()
    assert y.is_cuda and y.device == smolder.device("cuda:0") and y.cuda() is y and y.to("cuda") is y
    assert y.cpu().is_cpu and y.cpu().tolist() == x.tolist() == y.tolist()
    assert repr(y * 1) == "tensor([[0., 1., 2.],\n        [3., 4., 5.]], device='cuda:0')"
    with pytest.raises(TypeError, match="copy the tensor to host memory first"):
        y.numpy()
    with pytest.raises(RuntimeError, match=r"on the same device.*cuda:0 and cpu"):
        y + x
    assert smolder.ones(3, device="cuda").is_cuda and smolder.zeros_like(y).is_cuda
    assert smolder.zeros_like(y, device="cpu").is_cpu
    with smolder.device("cuda"):
        assert smolder.randn(2).is_cuda and smolder.tensor([1, 2]).is_cuda
    assert smolder.randn(2).is_cpu


@on_a_device
def test_modules_and_files_are_where_they_are_asked_to_be(tmp_path):
    layer = nn.TransformerEncoderLayer(4, 2, 8, device="cuda")
    assert all(p.is_cuda for p in layer.parameters())
    smolder.save(layer.state_dict(), tmp_path / "layer.pt")
    loaded = smolder.load(tmp_path / "layer.pt")
    assert all(t.is_cuda for t in loaded.values())
    on_host = smolder.load(tmp_path / "layer.pt", map_location="cpu")
    assert all(t.is_cpu and t.tolist() == loaded[k].tolist() for k, t in on_host.items())
    assert smolder.load(tmp_path / "layer.pt", map_location=lambda s, _: s.cpu())["norm1.bias"].is_cpu
    smolder.safetensors.save_file({"a": loaded["norm1.weight"]}, tmp_path / "a")
    assert smolder.safetensors.load_file(tmp_path / "a", device="cuda")["a"].is_cuda
    x = smolder.ones(2, device="cuda")
    for other in (x.new_zeros(2), x.new_tensor([1]), smolder.full_like(x, 3), smolder.rand_like(x), x.clone()):
        assert other.is_cuda


@on_a_device
def test_what_a_tensor_says_of_its_memory():
    x = smolder.arange(8, device="cuda")
    assert x.get_device() == 0 and x.cpu().get_device() == -1
    assert x.data_ptr() % 512 == 0 and x.data_ptr() == x.data_ptr() != (x + 1).data_ptr()
    assert x.__dlpack_device__() == (2, 0) and x.cpu().__dlpack_device__() == (1, 0)


@on_a_device
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
@pytest.mark.parametrize("m, k, n", [(32, 784, 256), (5, 10, 7), (128, 512, 512), (1000, 333, 77), (2048, 768, 2304)])
def test_a_linear_layer_is_by_itself_what_it_is_in_a_step(m, k, n, dtype):
    rng, t = np.random.default_rng(0), getattr(smolder, dtype)
    x, w, rows = (
        smolder.tensor(rng.standard_normal(s).astype(np.float32)).to(t).cuda() for s in ((m, k), (n, k), (2 * n + 1,))
    )
    x[0, 0] = float("nan")  # which relu keeps
    linear, relu, gelu = nn.functional.linear, nn.functional.relu, nn.functional.gelu
    for bias in (rows[:n], rows[1 : n + 1], rows[: 2 * n : 2]):
        smolder.mark_step()
        in_a_step = [gelu(linear(x, w, bias)), relu(linear(x, w, bias)), linear(x, w, bias)]
        smolder.mark_step()
        alone = linear(x, w, bias)
        smolder.mark_step()
        for got, want in zip(in_a_step, [gelu(alone), relu(alone), alone], strict=True):
            assert_same_bits(got.double().cpu().numpy(), want.double().cpu().numpy())
        exact = (x.double() @ w.double().t() + bias.double()).cpu().numpy()
        np.testing.assert_allclose(alone.double().cpu().numpy(), exact, rtol=UNITS[dtype], atol=UNITS[dtype] * k**0.5)


@on_a_device
def test_the_default_device():
    smolder.set_default_device("cuda")
    try:
        assert smolder.get_default_device() == smolder.device("cuda:0") and smolder.ones(2).is_cuda
        assert nn.Linear(2, 2).weight.is_cuda and smolder.ones(2, device="cpu").is_cpu
    finally:
        smolder.set_default_device(None)
    assert smolder.ones(2).is_cpu


@on_a_device
def test_gradients_cross_devices():
    x = smolder.ones(3, requires_grad=True)
    (x.cuda() * 2).sum().backward()
    assert x.grad.is_cpu and x.grad.tolist() == [2, 2, 2]


def moved(tensors):
    return {k: [t.cuda() for t in v] if isinstance(v, list) else v.cuda() for k, v in tensors.items()}


def outcome(row, arrays, words, on_device):
    tensors = made(arrays)
    smolder.manual_seed(0)
    try:
        if not on_device:
            return [t._to_numpy() for t in results(call(row, tensors, words))]
        tensors = moved(tensors)
        with smolder.device("cuda"):
            out = results(call(row, tensors, words))
        assert all(t.is_cuda for t in out)
        return [t._to_numpy() for t in out]
    except (RuntimeError, TypeError, IndexError, ValueError, NotImplementedError) as e:
        return Refused(e)


@on_a_device
@pytest.mark.parametrize("row", ROWS, ids=ids(ROWS))
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int64"])
def test_a_row_is_on_the_device_what_it_is_on_the_host(row, dtype):
    takes_tensors = any(p["type"] in (*TENSORS, "Tensor[]") for p in row["params"])
    if dtype != "float32" and not takes_tensors:
        return
    if (row["key"], dtype) in CHECKED_ELSEWHERE:
        return
    for case in own_cases(row)[:2]:
        arrays, words = arguments(row, case, dtype)
        host, device = outcome(row, arrays, words, False), outcome(row, arrays, words, True)
        if isinstance(host, Refused):
            assert isinstance(device, Refused) and type(device.error) is type(host.error), (case, host, device)
            continue
        assert not isinstance(device, Refused), (case, device)
        if row["key"] in ("empty", "empty_like"):
            continue
        for a, b in zip(host, device, strict=True):
            assert a.shape == b.shape and a.dtype == b.dtype, case
            if a.dtype.kind == "f":
                unit = max(UNITS.get(dtype, 1e-05), 4e-3 if a.dtype == np.float16 else 0)
                scale = unit * max(1.0, float(np.nanmax(np.abs(a[np.isfinite(a)]), initial=0.0)))
                np.testing.assert_allclose(b, a, rtol=unit, atol=scale, err_msg=str(case))
            else:
                np.testing.assert_array_equal(a, b, err_msg=str(case))
        if row["key"] not in DRAWN:
            with smolder.eager():
                eager = outcome(row, arrays, words, True)
            for a, b in zip(device, eager, strict=True):
                assert_same_bits(a, b, f"{row['key']} {case}, compiled and eager")


def train(where, steps=20):
    smolder.manual_seed(0)
    model = nn.Sequential(nn.Linear(20, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 5)).to(where)
    optimizer = smolder.optim.AdamW(model.parameters(), lr=1e-2)
    rng, losses = np.random.default_rng(0), []
    for _ in range(steps):
        x = smolder.tensor(rng.standard_normal((16, 20)), dtype=smolder.float32, device=where)
        y = smolder.tensor(rng.integers(0, 5, 16), device=where)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        smolder.mark_step()
        losses.append(loss.detach())
    return [one.item() for one in losses]


@on_a_device
def test_a_model_trains_on_the_device_as_on_the_host():
    np.testing.assert_allclose(train("cuda"), train("cpu"), rtol=1e-3)


@on_a_device
@pytest.mark.parametrize(
    ("batch", "length", "width", "classes"), [(4, 33, 72, 65), (4, 33, 72, 1001), (2, 1056, 512, 1001)]
)
def test_gradients_of_scores_whose_rows_have_room(batch, length, width, classes):
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(s).astype(np.float32) for s in ((batch, length, width), (classes, width))]
    target = smolder.tensor(rng.integers(0, classes, (batch, length)))

    def gradients(device):
        x, w = (smolder.tensor(a, device=device, requires_grad=True) for a in arrays)
        with smolder.autocast(device, dtype=smolder.bfloat16):
            scores = nn.functional.linear(x, w).tanh()
        loss = nn.functional.cross_entropy(scores.reshape(-1, classes), target.to(device).reshape(-1))
        loss.backward()
        return [t.detach().float().cpu().numpy() for t in (loss, x.grad, w.grad)]

    for got, want in zip(gradients("cuda"), gradients("cpu"), strict=True):
        np.testing.assert_allclose(got, want, rtol=0, atol=0.02 * np.abs(want).max())


@on_a_device
def test_large_products_of_odd_sizes_are_cut():
    """Rows of scores lie by columns, of the gradient by depth; the weight's gradient has only odd rows."""
    script = """
import smolder
x = smolder.randn(2112, 512, device="cuda", dtype=smolder.bfloat16).requires_grad_()
w = smolder.randn(1001, 512, device="cuda", dtype=smolder.bfloat16).requires_grad_()
smolder.nn.functional.linear(x, w).tanh().sum().backward()
print(float(x.grad.float().sum()), float(w.grad.float().sum()))
"""
    environment = {**os.environ, "SMOLDER_DEBUG": "2"}
    said = subprocess.run([sys.executable, "-c", script], env=environment, check=True, capture_output=True, text=True)
    products = [line for line in said.stderr.splitlines() if "by cuBLASLt" in line]
    assert sorted("in parts" in line for line in products) == [False, True, True], said.stderr


@on_a_device
def test_scores_that_a_script_holds_are_copies_of_those_that_are_multiplied():
    script = """
import smolder
from smolder.nn.functional import cross_entropy
x = smolder.randn(2, 264, 512, device="cuda").requires_grad_()
w = smolder.randn(4099, 512, device="cuda").requires_grad_()
target = smolder.randint(0, 4099, (528,), device="cuda")

def step():
    with smolder.autocast("cuda", dtype=smolder.bfloat16):
        scores = smolder.nn.functional.linear(x, w)
        loss = cross_entropy(scores.reshape(-1, 4099), target)
    loss.backward()
    return scores, loss

smolder.mark_step()
other = step()[1]  # its scores are dropped
smolder.mark_step()
gradients, x.grad, w.grad = [x.grad, w.grad], None, None
held, loss = step()
smolder.mark_step()
print([bool((a == b).all()) for a, b in zip([other, *gradients], [loss, x.grad, w.grad])])
print(float((held.float() - x.detach() @ w.detach().T).abs().max()) < 1, held.is_contiguous())
"""
    environment = {**os.environ, "SMOLDER_DEBUG": "2"}
    said = subprocess.run([sys.executable, "-c", script], env=environment, check=True, capture_output=True, text=True)
    assert said.stdout.split("\n")[:2] == ["[True, True, True]", "True True"]
    runs = [line for line in said.stderr.splitlines() if "[smolder:run]" in line]
    assert ["in parts" in line for line in runs if ": linear (dot" in line] == [True, True], said.stderr
    assert sum(": expand" in line for line in runs) == 1, said.stderr


@on_a_device
def test_a_repeated_step_compiles_nothing():
    train("cuda", 3)
    before = smolder.metrics()["counters"]["kernels.compiled"]
    train("cuda", 5)
    assert smolder.metrics()["counters"]["kernels.compiled"] == before


@on_a_device
def test_an_index_out_of_range_raises_and_the_process_lives():
    weight = smolder.ones(4, 2, device="cuda")
    with pytest.raises(IndexError, match="out of range"):
        smolder.nn.functional.embedding(smolder.tensor([9], device="cuda"), weight).tolist()
    assert (weight + 1).tolist() == [[2, 2]] * 4


@on_a_device
def test_a_process_may_end_at_once():
    """While libraries are being opened on another thread. Many side by side, so that some take long to open them."""
    code = "import smolder; print(smolder.ones(3, device='cuda').sum().item())"
    running = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2 * os.cpu_count())
    ]
    assert {(*p.communicate(), p.returncode) for p in running} == {("3.0\n", "", 0)}


@on_a_device
def test_an_index_out_of_range_is_told_once():
    """Though threads of a kernel that runs yet go on writing that they found one."""
    x, bad = smolder.ones(1 << 10, device="cuda"), smolder.full((1 << 22,), 1 << 20, device="cuda")
    for _ in range(20):
        with pytest.raises(IndexError):
            for _ in range(100):
                held = x[bad]  # noqa: F841
                smolder.mark_step()
            cuda.synchronize()
        assert (x + 1).sum().item() == 2048


@on_a_device
def test_an_index_out_of_range_is_told_at_the_next_step_or_wait():
    weight, bad = smolder.ones(4, 2, device="cuda"), smolder.tensor([9], device="cuda")
    held = smolder.nn.functional.embedding(bad, weight)
    with pytest.raises(IndexError, match=r"out of range in embedding: 9 is not in \[0, 4\) at .*test_cuda.py"):
        smolder.mark_step()  # waits for nothing: it tells what the step did if that has run already
        cuda.synchronize()
    cuda.synchronize()
    with pytest.raises(RuntimeError, match=r"computed by a step that failed .* 9 is not in"):
        held.tolist()


@on_a_device
@pytest.mark.skipif(
    os.environ.get("SMOLDER_CUDA_INTERPRETER") in ("only", "random"), reason="what is interpreted is in no graph"
)
def test_a_loop_is_replayed_as_a_graph_with_the_same_bits():
    def count(name):
        return smolder.metrics()["counters"].get(f"graphs.{name}", 0)

    smolder._core._cuda_set_graphs(False)
    try:
        expected = train("cuda", 30)
    finally:
        smolder._core._cuda_set_graphs(True)
    captured, replayed = count("captured"), count("replayed")
    assert train("cuda", 30) == expected
    assert count("replayed") - replayed >= 15, "most of the steps, though each loss is kept and each batch is new"
    assert count("captured") - captured <= 6


@on_a_device
def test_losses_that_are_kept_do_not_move_gradients():
    def staged():
        return smolder.metrics()["counters"].get("graphs.staged", 0)

    model = nn.Sequential(*(nn.Linear(48, 48) for _ in range(4))).cuda()
    optimizer = smolder.optim.AdamW(model.parameters())
    x, losses, before = smolder.randn(8, 48, device="cuda"), [], staged()
    for _ in range(20):
        optimizer.zero_grad()
        losses.append(model(x).square().mean())
        losses[-1].backward()
        optimizer.step()
        smolder.mark_step()
    assert staged() - before <= 1, "the loss, if it has no address that comes again"


@on_a_device
def test_a_row_that_a_kernel_writes_and_does_not_read():
    """As the nans of the weights here, which the kernel of their gradient has at hand already."""

    def values(device):
        smolder.manual_seed(0)
        scores, added = smolder.randn(6, 5, 100, dtype=smolder.float64), smolder.randn(6, 1, 100, dtype=smolder.float64)
        hidden = smolder.rand(6, 1, 100) > 0.7
        x = scores.to(device).requires_grad_()
        weights = smolder.softmax((x * 0.2 + added.to(device)).masked_fill(hidden.to(device), -math.inf), -1)
        out = smolder.where(weights.isnan(), 0.0, weights) @ smolder.ones(100, 4, dtype=smolder.float64, device=device)
        out.backward(smolder.ones_like(out))
        return [t.detach().cpu().numpy() for t in (out, x.grad)]

    for got, wanted in zip(values("cuda"), values("cpu"), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-12, atol=1e-14)


@on_a_device
@pytest.mark.parametrize("compiled", [False, True])
def test_models_of_one_shape_after_each_other_are_replayed_where_they_are(compiled):
    def train():
        model = nn.Sequential(nn.Linear(24, 8), nn.ReLU(), nn.Linear(8, 3)).cuda()
        optimizer = smolder.optim.AdamW(model.parameters())
        x, y = smolder.randn(6, 24, device="cuda"), smolder.randint(0, 3, (6,), device="cuda")

        def step():
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()

        run = smolder.compile(step) if compiled else step
        for _ in range(14):
            run()
            smolder.mark_step()
        return model, optimizer, x, y

    before = smolder.metrics()["counters"].get("graphs.staged", 0)
    alive = [train() for _ in range(4)]
    assert smolder.metrics()["counters"].get("graphs.staged", 0) == before, f"of {len(alive)} models"


@on_a_device
def test_a_compiled_step_gives_back_gradients_before_it_makes_new_ones():
    model = nn.Sequential(*(nn.Linear(512, 512, bias=False) for _ in range(4))).cuda()
    optimizer = smolder.optim.SGD(model.parameters(), lr=1e-3)
    x = smolder.randn(8, 512, device="cuda")

    @smolder.compile
    def step():
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    held, before = [], smolder.metrics()["counters"].get("graphs.staged", 0)
    for i in range(20):
        held[:] = [step()]
        if i == 4:
            cuda.synchronize()
            cuda.reset_peak_memory_stats()
            settled = cuda.memory_allocated()
    gradients = sum(p.numel() * 4 for p in model.parameters())
    assert cuda.max_memory_allocated() - settled < gradients / 2
    assert smolder.metrics()["counters"].get("graphs.staged", 0) == before


FIRST_STEPS = """
import sys
import smolder
from smolder import nn

name, sizes = sys.argv[1], [int(n) for n in sys.argv[2:]]
model = nn.Sequential(nn.Linear(24, 8), nn.ReLU(), nn.Linear(8, 3)).cuda()
optimizer = {
    "AdamW": lambda p: smolder.optim.AdamW(p, amsgrad=True),
    "RMSprop": lambda p: smolder.optim.RMSprop(p, centered=True, momentum=0.9),
}[name](model.parameters())
for size in sizes:
    x, y = smolder.randn(size, 24, device="cuda"), smolder.randint(0, 3, (size,), device="cuda")
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    smolder.mark_step()
    loss = x = y = None
    counters = smolder.metrics()["counters"]
    print(counters["kernels.compiled"], counters["plans.compiled"])
"""


def run_alone(folder, code, *arguments):
    """The lines that a process prints which begins with no kernel compiled."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    environment = os.environ | {"SMOLDER_CACHE_DIR": str(folder)}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.splitlines()


@on_a_device
@pytest.mark.parametrize("name", ["AdamW", "RMSprop"])
def test_optimizers_compile_nothing_in_the_second_step(tmp_path, name):
    first, second, third = (line.split()[0] for line in run_alone(tmp_path, FIRST_STEPS, name, 8, 8, 8))
    assert first == second == third


@on_a_device
def test_24_batch_sizes_compile_nothing_after_the_second(tmp_path):
    compiled = run_alone(tmp_path, FIRST_STEPS, "AdamW", 32, *range(40, 40 + 24))
    assert compiled[1:] == [compiled[1]] * 24


MADE_UP = """
import smolder

x = smolder.ones(6, 10).cuda()
y = smolder.randint(0, 10, (6,), device="cuda")
for _ in range(2):
    print(smolder.nn.functional.cross_entropy(x, y).item())
    print(smolder.metrics()["counters"]["kernels.compiled"])
"""


@on_a_device
def test_kernels_of_a_step_that_makes_up_its_data_serve_the_next(tmp_path):
    first, compiled, second, in_all = run_alone(tmp_path, MADE_UP)
    assert first == second
    assert compiled == in_all


PRODUCTS = """
import hashlib
import smolder

for n in (64, 96, 96, 96, 96):
    x = (smolder.arange(n * 64) % 37 / 7).reshape(n, 64).cuda()
    before = smolder.metrics()["counters"].get("kernels.compiled", 0)
    product = x @ x.T
    smolder.mark_step()
    compiled = smolder.metrics()["counters"]["kernels.compiled"] - before
    print(compiled, hashlib.sha256(product.cpu().numpy().tobytes()).hexdigest())
"""


@on_a_device
def test_a_product_of_another_size_waits_for_no_compiler_and_its_bits_stay(tmp_path):
    lines = [line.split() for line in run_alone(tmp_path, PRODUCTS)]
    assert [compiled for compiled, _ in lines] in (["1", "0", "0", "1", "0"], ["0", "0", "0", "1", "0"]), lines
    assert len({bits for _, bits in lines[1:]}) == 1


@on_a_device
def test_a_second_process_compiles_nothing(tmp_path):
    code = (
        "import smolder; from smolder import nn; model = nn.Linear(24, 8).cuda()\n"
        "model(smolder.ones(4, 24, device='cuda')).square().sum().backward(); smolder.mark_step()\n"
        "counters = smolder.metrics()['counters']; print(model.weight.grad.sum().item())\n"
        "print(counters['kernels.compiled'], counters['cache.disk_hits'])"
    )
    environment = os.environ | {"SMOLDER_CACHE_DIR": str(tmp_path)}

    def run():
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        return done.stdout.split()[1:]

    compiled, _ = run()
    assert int(compiled) > 0 and run() == ["0", compiled]


@on_a_device
@pytest.mark.parametrize("n", [7, 128, 1000, 4096, 20000])
def test_reductions_of_what_is_computed_from_positions(n):
    places = smolder.arange(n, device="cuda")
    assert (places * places % 97).sum().item() == sum(i * i % 97 for i in range(n))
    rows = (smolder.arange(4 * n, device="cuda").reshape(4, n) * 5 % 1009).max(1).values.tolist()
    assert rows == [max(i * 5 % 1009 for i in range(r * n, (r + 1) * n)) for r in range(4)]
    ones = smolder.randint(0, 3, (n,), device="cuda")
    assert ones.sum().item() == sum(ones.tolist())


@on_a_device
def test_numbers_change_between_replays():
    x, out = smolder.ones(1000, device="cuda"), []
    for i in range(20):
        y = (x * float(i)).sum() + x.cumsum(0)[-1]
        out.append((y * 1).cpu().item())
        smolder.mark_step()
    assert out == [1000.0 * i + 1000 for i in range(20)]


@on_a_device
def test_numbers_are_constants_of_compiled_functions():
    def f(x):
        table = smolder.tensor([[1.0, 2.0], [3.0, 4.0]], device="cuda")
        return x[smolder.tensor([2, 0])] * table

    compiled = smolder.compile(f, fullgraph=True)
    for i in range(4):
        x = (smolder.arange(6.0).reshape(3, 2) + i).cuda()
        assert compiled(x).tolist() == f(x).tolist() == [[4.0 + i, 10.0 + 2 * i], [3.0 * i, 4.0 + 4 * i]]
    assert compiled._hits() == [3]


@on_a_device
def test_where_memory_is_scarce_steps_take_less_of_it_with_the_same_bits():
    def train(scarce, beside):
        _core._set_scarce_bytes(scarce)
        smolder.manual_seed(5)
        known = {p["plan"] for p in _core._known_plans()}
        part = lambda: (nn.LayerNorm(64), nn.Linear(64, 256), nn.GELU(approximate="tanh"), nn.Linear(256, 64))  # noqa: E731
        net = nn.Sequential(*part(), *part(), *part(), nn.Linear(64, 3000)).to("cuda")
        optimizer = smolder.optim.AdamW(net.parameters(), lr=1e-2)
        x, y = smolder.randn(96, 64, device="cuda"), smolder.randint(0, 3000, (96,), device="cuda")
        for _ in range(4):
            optimizer.zero_grad(set_to_none=True)
            with smolder.autocast("cuda", dtype=smolder.bfloat16):
                loss = nn.functional.cross_entropy(net(x), y)
            kept = beside(x)  # noqa: F841 - so that plans are made anew
            loss.backward()
            optimizer.step()
            smolder.mark_step()
        plan = max((p for p in _core._known_plans() if p["plan"] not in known), key=lambda p: len(p["steps"]))
        writes = [[b for b, _ in s["writes"]] for s in plan["steps"] if "gelu_backward" in s["name"]]
        gradients = [sum(plan["buffers"][b]["shape"] == [96, 256] for b in w) for w in writes]
        values = [loss.detach()] + [t for p in net.parameters() for t in (p.detach(), p.grad)]
        return [t.cpu().numpy() for t in values], plan["arena_bytes"], gradients

    before = _core._scarce_bytes()
    try:
        wanted, most, once = train(1 << 40, smolder.abs)
        got, least, twice = train(0, smolder.neg)
    finally:
        _core._set_scarce_bytes(before)
    for a, b in zip(got, wanted, strict=True):
        assert_same_bits(a, b)
    assert once == [1, 1, 1] and sum(twice) > 3  # of gelu's input, and its output once more
    assert least < most - 64 * 3000 * 2  # halves of the last weight are where its gradient will be


@on_a_device
def test_memory_is_counted():
    def requested(of="current"):
        return cuda.memory_stats()[f"requested_bytes.all.{of}"]

    def use():
        """Bytes of x, and of what x + 1 takes while it is there."""
        before = requested()
        x = smolder.ones(1 << 20, device="cuda")
        smolder.mark_step()
        held = requested()
        assert held <= cuda.memory_allocated() <= cuda.memory_reserved()
        cuda.reset_peak_memory_stats()
        y = x + 1
        smolder.mark_step()
        del y
        smolder.mark_step()
        return held - before, requested("peak") - held

    # A hole of little more than x: x gets the whole of it, as with torch's allocator.
    hole, beside = smolder.ones((1 << 20) + 70912, device="cuda"), smolder.ones(1 << 20, device="cuda")
    smolder.mark_step()
    del hole
    use()
    smolder.mark_step()  # the plans of its steps are made, and hold the numbers that they need
    before = cuda.memory_allocated()
    assert use() == (4 << 20, 4 << 20)
    stats = cuda.memory_stats()
    assert stats["allocated_bytes.all.allocated"] - stats["allocated_bytes.all.freed"] == cuda.memory_allocated()
    smolder.mark_step()
    assert cuda.memory_allocated() <= before
    del beside
    cuda.empty_cache()
    assert cuda.memory_allocated() <= before


@on_a_device
def test_out_of_memory_in_a_step_leaves_parameters_and_training_goes_on():
    model = nn.Linear(64, 64).cuda()
    optimizer = smolder.optim.AdamW(model.parameters())

    def step(batch):
        optimizer.zero_grad()
        y = model(smolder.randn(batch, 64, device="cuda"))
        ((y @ y.T).exp() @ y).sum().backward()
        optimizer.step()
        smolder.mark_step()

    step(8)
    before = [p.detach().cpu().numpy().copy() for p in model.parameters()]
    with pytest.raises(MemoryError, match=r"CUDA out of memory. Tried to allocate \d+ MiB .*held by Smolder"):
        step(math.isqrt(cuda.mem_get_info()[1]))  # y @ y.T is four times the memory that there is
    for a, p in zip(before, model.parameters(), strict=True):
        assert_same_bits(a, p.detach().cpu().numpy())
    step(8)
    assert all(not np.array_equal(a, p.detach().cpu().numpy()) for a, p in zip(before, model.parameters(), strict=True))
    assert cuda.memory_stats()["num_ooms"] >= 1


SHORT_OF_MEMORY = """
import smolder
from smolder import cuda
w, x = smolder.zeros(1 << 22, device="cuda"), smolder.ones(4096, 2048, device="cuda")
b = smolder.ones(1024, 64, device="cuda")
smolder.mark_step()
cuda.empty_cache()
held, total = cuda.memory_reserved(), cuda.mem_get_info()[1]
for room in (8, 64):  # enough for the result, and for the copy of 16 MiB, too
    cuda.set_per_process_memory_fraction((held + (room << 20)) / total)
    try:
        w.add_(1)  # in place, before the product
        y = x[:, ::2] @ b
        smolder.mark_step()
        assert room == 64
    except MemoryError:
        assert room == 8
        del y
        assert w[0].item() == w[-1].item() == 0
        cuda.empty_cache()
assert w[0].item() == w[-1].item() == 1
assert y[0, 0].item() == y[-1, -1].item() == 1024
"""


@on_a_device
def test_out_of_memory_for_a_copy_of_an_operand_loses_nothing():
    """In a process where no other test left memory to take from."""
    done = subprocess.run([sys.executable, "-c", SHORT_OF_MEMORY], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@on_a_device
def test_events_time_what_is_between_them():
    start, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
    assert end.query() and "uninitialized" in repr(end)
    with pytest.raises(ValueError, match="must be recorded"):
        start.elapsed_time(end)
    x = smolder.randn(300, 300, device="cuda")
    start.record()
    for _ in range(10):
        x = x @ x * 1e-3
    end.record()
    end.synchronize()
    assert end.query() and 0 < start.elapsed_time(end) < 10_000
    with pytest.raises(ValueError, match="enable_timing"):
        start.elapsed_time(cuda.current_stream().record_event())


@on_a_device
def test_streams_are_one_queue():
    side, x = cuda.Stream(), smolder.ones(1000, device="cuda")
    with cuda.stream(side):
        y = x + 1
        side.wait_stream(cuda.current_stream())
        done = side.record_event()
    cuda.current_stream().wait_event(done)
    assert (y * 2).sum().item() == 4000
    side.synchronize()
    assert side.query() and side == cuda.default_stream() and hash(side) == hash(cuda.Stream("cuda:0"))


@on_a_device
def test_workers_of_a_loader_are_of_the_cpu_after_the_device_was_used():
    assert smolder.ones(2, device="cuda").sum().item() == 2
    with smolder.device("cpu"):
        batches = list(smolder.utils.data.DataLoader(range(6), batch_size=3, num_workers=2))
    assert [b.cuda().tolist() for b in batches] == [[0, 1, 2], [3, 4, 5]]


@on_a_device
def test_a_forked_child_says_that_it_cannot_use_the_device():
    x = smolder.ones(2, device="cuda")
    smolder.mark_step()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            (x + 1).tolist()
            said = "nothing was raised"
        except RuntimeError as e:
            said = str(e)
        os.write(writing, said.encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert "Cannot re-initialize CUDA in forked subprocess" in os.read(reading, 10000).decode()
    assert (x + 1).tolist() == [2, 2]
