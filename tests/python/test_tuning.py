"""mode="max-autotune": what is tried on a device, kept, and used by whom."""

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest
from conftest import same_bits

import smolder
from smolder import _core, cli

on_cuda = pytest.mark.skipif(not smolder.cuda.is_available(), reason="there is no CUDA device")
# Several algorithms, each of which adds in another order and takes a known time: tests/cpp/cuda_host.
emulated = pytest.mark.skipif(
    not smolder.cuda.is_available() or smolder.cuda.get_device_name() != "CUDA on the host",
    reason="which algorithm is fastest is known of the device that is the host only",
)

# A product that cuBLASLt makes, by operands that lie in two ways, and the same in eager mode and op by op.
PROGRAM = """
import contextlib, hashlib, json, sys, time
import smolder

what = json.loads(sys.argv[1])
smolder.manual_seed(0)
a, b, c = (smolder.randn(*shape).cuda() for shape in ((16, 1100), (1100, 16), (16, 1100)))
smolder.mark_step()

def f(a, b, c):
    return (a @ b).tanh() + (a @ c.t()).tanh()

def bits(t):
    return hashlib.md5(t.cpu().numpy().tobytes()).hexdigest()

def counters():
    return {k: v for k, v in smolder.metrics()["counters"].items() if k.startswith(("tuning.", "graphs."))}

g = smolder.compile(f, mode=what["mode"]) if what["mode"] else f
out = {"seen": []}
for _ in range(what["calls"]):
    with smolder.compiler.checked() if what.get("checked") else contextlib.nullcontext():
        now = bits(g(a, b, c))
    if now not in out["seen"]:
        out["seen"].append(now)
    if what.get("until_tuned"):
        if not counters().get("tuning.pending", 1):
            break
        time.sleep(0.02)
before = counters()
out["last"] = [bits(g(a, b, c)) for _ in range(4)]
after = counters()
out["captured"], out["replayed"] = (after.get(k, 0) - before.get(k, 0) for k in ("graphs.captured", "graphs.replayed"))
out["lazy"] = bits(f(a, b, c))
with smolder.eager():
    out["eager"] = bits((a @ b).tanh() + (a @ c.t()).tanh())
out["counters"] = counters()
out["events"] = [e["reason"] for e in smolder.metrics()["events"] if e["kind"] == "tuning"]
print(json.dumps(out))
"""


@pytest.fixture
def program(tmp_path):
    def run(mode, calls=6, env=None, **what):
        environment = os.environ | {"SMOLDER_CACHE_DIR": str(tmp_path / "cache"), "SMOLDER_HOST_ALGORITHMS": "1"}
        environment |= env or {}
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, json.dumps({"mode": mode, "calls": calls, **what})],
            capture_output=True, text=True, env=environment,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


def tune(program, **more):
    return program("max-autotune", calls=500, until_tuned=True, **more)


@emulated
def test_the_fastest_that_all_layouts_take_is_chosen(program):
    usual = program(None)["eager"]
    tuned = tune(program)
    assert tuned["seen"] == [usual, tuned["eager"]] or tuned["seen"] == [usual]
    assert tuned["counters"]["tuning.products"] == tuned["counters"]["tuning.changed"] == 1
    # One that fails, and one that takes rows only, would have been faster; what splits the depth in two is best.
    (told,) = tuned["events"]
    assert told == "16x16x1100 float32: 200.0 us instead of 800.0 us, 7 algorithms tried"


@emulated
def test_compiled_lazy_and_eager_are_one(program):
    tuned = tune(program)
    assert set(tuned["last"]) == {tuned["lazy"]} == {tuned["eager"]} != {tuned["seen"][0]}


@emulated
def test_graphs_are_captured_anew(program):
    tuned = tune(program)
    assert tuned["captured"] == 1 and tuned["replayed"] >= 1
    assert program("max-autotune")["counters"]["graphs.captured"] == 1


@emulated
def test_other_processes_use_it_where_they_say_so(program):
    usual, tuned = program(None), tune(program)
    again = program("max-autotune")
    assert again["seen"] == [again["eager"]] == [tuned["eager"]]
    assert again["counters"]["tuning.loaded"] == 1 and "tuning.trials" not in again["counters"]
    assert program("max-autotune-no-cudagraphs")["seen"] == [tuned["eager"]]
    assert program(None, env={"SMOLDER_AUTOTUNE": "1"})["seen"] == [tuned["eager"]]
    for mode, env in (
        (None, {}),
        ("default", {}),
        ("reduce-overhead", {}),
        ("max-autotune", {"SMOLDER_AUTOTUNE": "0"}),
    ):
        plain = program(mode, env=env)
        assert plain["seen"] == [usual["eager"]] == [plain["eager"]]
        assert not any(plain["counters"].get(f"tuning.{name}") for name in ("loaded", "trials", "products"))


@emulated
def test_a_process_that_is_tuned_whole(program):
    tuned = program(None, calls=500, until_tuned=True, env={"SMOLDER_AUTOTUNE": "1"})
    assert tuned["counters"]["tuning.changed"] == 1
    assert set(tuned["last"]) == {tuned["eager"]} == {program("max-autotune")["eager"]}


@emulated
def test_all_at_once(program):
    usual = program(None)["eager"]
    tuned = program("max-autotune", calls=6, env={"SMOLDER_AUTOTUNE": "at_once"})
    assert tuned["seen"] == [usual, tuned["eager"]] and not tuned["counters"].get("tuning.pending")
    assert program("max-autotune", calls=1)["seen"] == [tuned["eager"]]


@emulated
def test_nothing_is_tuned_while_runs_are_compared(program):
    found = program("max-autotune", calls=30, checked=True, env={"SMOLDER_AUTOTUNE": "at_once"})
    assert len(found["seen"]) == 1 and found["seen"][0] != found["last"][-1]  # it was tuned afterwards
    assert found["counters"]["tuning.products"] == 1


@emulated
def test_trials_take_a_small_share(program):
    tuned = program("max-autotune", calls=30)
    assert tuned["counters"].get("tuning.us", 0) <= 60_000  # each call takes a few milliseconds at most


@emulated
def test_no_graphs_where_none_are_asked_for(program):
    assert program("max-autotune-no-cudagraphs", calls=8)["replayed"] == 0
    assert program("max-autotune", calls=8)["replayed"] == 4


@emulated
def test_rows_are_shown_and_broken_ones_are_not_used(program, tmp_path):
    usual, tuned = program(None), tune(program)
    env = os.environ | {"SMOLDER_CACHE_DIR": str(tmp_path / "cache")}

    def command(*args):
        code = "import sys; from smolder import cli; sys.exit(cli.main(sys.argv[1:]))"
        return subprocess.run([sys.executable, "-c", code, "cache", *args], capture_output=True, text=True, env=env)

    (row,) = json.loads(command("ls", "--kind", "product", "--json").stdout)
    assert row["name"] == "product 16x16x1100 float32" and row["leases"] == 0
    shown = command("show", row["key"]).stdout
    assert "tried 7" in shown and "usual 0" in shown

    path = tmp_path / "cache" / os.path.basename(_core._cache_options()["path"])
    for wrong in (b"algorithm zz", b""):
        with closing(sqlite3.connect(path)) as database, database:
            assert database.execute("update record set payload = ? where kind = 'product'", (wrong,)).rowcount == 1
        damaged = program("max-autotune", calls=1)
        assert damaged["eager"] == usual["eager"] and not damaged["counters"]["tuning.loaded"]
        assert tune(program)["eager"] == tuned["eager"]  # and the row is there again


@on_cuda
@pytest.mark.parametrize("mode", ["max-autotune", "max-autotune-no-cudagraphs"])
def test_a_net_trains_as_without(mode):
    def losses(mode):
        smolder.manual_seed(1)
        model = smolder.nn.Sequential(smolder.nn.Linear(1200, 8), smolder.nn.GELU(), smolder.nn.Linear(8, 4)).cuda()
        optimizer = smolder.optim.SGD(model.parameters(), lr=0.1)
        x, y = smolder.randn(8, 1200).cuda(), smolder.randint(0, 4, (8,)).cuda()

        def step(x, y):
            optimizer.zero_grad()
            loss = smolder.nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            return loss

        run = smolder.compile(step, mode=mode) if mode else step
        return [run(x, y).item() for _ in range(12)]

    for a, b in zip(losses(None), losses(mode), strict=True):
        assert abs(a - b) < 1e-3 * abs(b) + 1e-4


def test_the_cpu_has_nothing_to_try():
    x = smolder.randn(8, 8)
    for mode in ("max-autotune", "max-autotune-no-cudagraphs"):
        compiled = smolder.compile(lambda x: (x @ x).exp(), mode=mode)
        for _ in range(3):
            assert same_bits(compiled(x).numpy(), (x @ x).exp().numpy())
        assert compiled._hits() == [2]
    assert smolder.compiler.list_mode_options("max-autotune") == {}


@on_cuda
def test_the_tuned_tier(tmp_path, capsys):
    a, b = smolder.randn(16, 1100).cuda(), smolder.randn(1100, 16).cuda()
    smolder.mark_step()
    with smolder.record_trace(tmp_path / "a.trace", inputs=True):
        held = (a @ b).tanh()  # noqa: F841
        smolder.mark_step()
    assert cli.main(["replay", str(tmp_path / "a.trace"), "--tier", "tuned", "--iters", "3", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["tier"] == "tuned" and found["jit"] > 0 and found["median"] > 0
    assert found["tuning"]["tried"] + found["tuning"]["known"] <= 1
    assert cli.main(["replay", str(tmp_path / "a.trace"), "--tier", "tuned", "--iters", "3"]) == 0
    text = capsys.readouterr().out
    assert "tuned in " in text and "\njit: " in text and "\ntuned: " in text


def test_what_is_asked_for_must_be_known():
    code = "import smolder; f = smolder.compile(lambda x: x + 1, mode='max-autotune'); print(f(smolder.ones(1)).item())"
    env = os.environ | {"SMOLDER_AUTOTUNE": "at-once"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert done.stdout == "2.0\n"
    assert "SMOLDER_AUTOTUNE is 0, 1 or at_once, found 'at-once': it says nothing" in done.stderr
