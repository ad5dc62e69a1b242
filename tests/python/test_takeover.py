"""Steps whose plans are not compiled yet: they run op by op, at once, and plans take over."""

import os
import signal
import subprocess
import sys
import textwrap

import pytest
from conftest import assert_same_bits, of_the_cpu

import smolder
from smolder import _core, nn, optim
from smolder.nn import functional as F

pytestmark = of_the_cpu("on a device steps wait for their plans")


@pytest.fixture
def behind():
    """Plans are compiled behind the program, kernels anew."""
    _core.forget_traces()
    _core._build_kernels_anew(True)
    before = _core._set_compiling(True)
    yield
    _core._set_compiling(before)
    _core._build_kernels_anew(False)
    _core.forget_traces()


def before_plans():
    return smolder.metrics()["counters"]["steps.op_by_op_while_compiling"]


def training():
    smolder.manual_seed(3)
    model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 4))
    optimizer = optim.Adam(model.parameters(), lr=0.01)
    x, y = smolder.randn(8, 6), smolder.arange(8) % 4

    def step():
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.item()

    return model, step


def test_a_plan_takes_over_and_changes_no_bit(behind):
    before = _core._set_compiling(False)
    model, step = training()
    expected = [step() for _ in range(8)], [p.tolist() for p in model.parameters()]
    _core._set_compiling(before)
    _core.forget_traces()
    began = before_plans()
    model, step = training()
    losses = [step() for _ in range(4)]
    smolder.wait_for_compiles()
    ran = before_plans()
    assert ran > began
    losses += [step() for _ in range(4)]
    assert before_plans() == ran
    assert losses == expected[0] and [p.tolist() for p in model.parameters()] == expected[1]


def test_lengths_that_never_come_again_are_not_compiled(behind):
    cell = nn.LSTMCell(3, 4)
    compiled = smolder.metrics()["counters"]["plans.compiled"]
    for n in range(2, 40):
        h, c = smolder.zeros(2, 4), smolder.zeros(2, 4)
        for _ in range(n):
            h, c = cell(smolder.ones(2, 3), (h, c))
        h.sum().backward()
        cell.zero_grad()
        smolder.mark_step()
    # Those that were planned while there was time for it, four guesses, and what came again.
    assert smolder.metrics()["counters"]["plans.compiled"] - compiled < 38


def test_explain_is_of_plans(behind):
    x = smolder.rand(5)
    report = smolder.explain(lambda: (x.sin() * 3).sum())()
    assert [g.how for g in report.graphs] == ["plan"]


def test_the_log_of_steps_names_the_tier(behind):
    x = smolder.rand(7)
    smolder.mark_step()
    log = _core._start_step_log(False)
    (x.cos() + 2).tolist()
    smolder.wait_for_compiles()
    (x.cos() + 2).tolist()
    first, second = _core._stop_step_log(log)
    assert (first.how, first.note) == ("one by one", "its plan is being compiled")
    assert second.how == "plan" and second.recompile["behind"] and second.recompile["kernels"]


def test_a_profile_names_the_tier(behind):
    x = smolder.rand(7)
    smolder.mark_step()
    with smolder.profiler.profile() as p:
        (x.cos() * 5).tolist()
        smolder.wait_for_compiles()
        (x.cos() * 5).tolist()
    names = [e.name for e in p.events()]
    assert {"cos", "plan: build plan", "plan: take over"} <= {*names}, names


def test_who_asks_to_be_told_of_compiles_waits_for_them(behind):
    x = smolder.rand(9)
    before = before_plans()
    smolder.on_recompile("raise")
    try:
        with pytest.raises(RuntimeError, match="a step was compiled in"):
            (x * 4).tolist()
    finally:
        smolder.on_recompile("ignore")
    with smolder.strict():
        (x / 3).tolist()
    assert before_plans() == before


def test_ops_of_users_run_as_often(behind):
    runs = []

    @smolder.library.custom_op("takeover::twice", mutates_args=())
    def twice(x: smolder.Tensor) -> smolder.Tensor:
        runs.append(1)
        return x * 2

    @twice.register_fake
    def _(x):
        return smolder.empty_like(x)

    def runs_of_a_step():
        began = len(runs)
        assert (twice(x) + twice(x)).tolist() == [4.0] * 3
        return len(runs) - began

    x = smolder.ones(3)
    counts = {runs_of_a_step() for _ in range(3)}
    before = _core._set_compiling(False)
    counts.add(runs_of_a_step())
    _core._set_compiling(before)
    assert len(counts) == 1


def test_empty_tensors(behind):
    x = smolder.zeros(0, 3)
    smolder.mark_step()
    assert (x + 1).sum(0).tolist() == [0.0, 0.0, 0.0]
    assert smolder.cat([x, smolder.ones(1, 3)]).tolist() == [[1.0] * 3]


def test_views_of_what_is_kept(behind):
    x = smolder.arange(12.0).reshape(3, 4)
    y = x.T
    z = y[1:3].flip(0)
    assert_same_bits(z.numpy(), x.numpy().T[1:3][::-1])
    x += 1
    assert_same_bits(y.numpy(), x.numpy().T)


def run(program, **env):
    program = textwrap.dedent(program)
    env = dict(os.environ, SMOLDER_COMPILE="behind") | env
    return subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, timeout=600)


def test_the_variable(tmp_path):
    program = """
        import smolder
        x = smolder.rand(5)
        (x.sin() * 3).tolist()
        print(smolder.metrics()["counters"]["steps.op_by_op_while_compiling"])
    """
    done = [run(program, SMOLDER_COMPILE=how, SMOLDER_CACHE_DIR=str(tmp_path / how)) for how in ("wait", "behind", "")]
    assert [p.stdout.strip() for p in done[:2]] == ["0", "1"], done
    wrong = run(program, SMOLDER_COMPILE="later")
    assert "SMOLDER_COMPILE must be wait or behind, is 'later'" in wrong.stderr


MANY = """
    import os, signal, sys, time
    import smolder
    signal.signal(signal.SIGINT, signal.default_int_handler)
    x = smolder.rand(33)
    def steps(k):
        for i in range(k):
            y = x
            for j in range(i % 40 + 20):
                y = smolder.sin(y * (j + 1.5)) if (i >> (j % 6)) & 1 else smolder.exp(-y * y)
            y.unsqueeze(0).expand(30, 33).cumsum(0).sum(i % 2).tolist()
    for _ in range(2):
        steps(8)
"""


@pytest.mark.parametrize("line, status", [("", 0), ("sys.exit(3)", 3), ("os._exit(4)", 4), ("raise ValueError", 1)])
def test_a_process_ends_while_plans_are_compiled(line, status, tmp_path):
    done = run(MANY + f"    {line}\n", SMOLDER_CACHE_DIR=str(tmp_path))
    assert done.returncode == status and "terminate" not in done.stderr, done.stderr


def test_ctrl_c_while_waiting(tmp_path):
    program = (
        MANY
        + """
    import threading
    threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        smolder._core._build_kernels_anew(True)
        while True:
            steps(4)
            smolder.wait_for_compiles()
            smolder.forget_traces()
    except KeyboardInterrupt:
        print("stopped")
    smolder.forget_traces()  # what is not compiled yet is not wanted any more
    smolder.wait_for_compiles()
    print((x + 1 == 1 + x).all().item())
    """
    )
    done = run(program, SMOLDER_CACHE_DIR=str(tmp_path))
    assert done.stdout.split() == ["stopped", "True"], done.stdout + done.stderr


def test_forks_while_plans_are_compiled(tmp_path):
    program = (
        MANY
        + """
    for i in range(4):
        time.sleep(0.01 * i)
        child = os.fork()
        if not child:
            steps(8)
            smolder.wait_for_compiles()
            steps(8)
            os._exit(0)
        steps(3)
        assert os.waitpid(child, 0)[1] == 0
    print("good")
    """
    )
    done = run(program, SMOLDER_CACHE_DIR=str(tmp_path))
    assert done.stdout.split() == ["good"], done.stdout + done.stderr


def test_signals_are_the_programs(tmp_path):
    program = (
        MANY
        + """
    got = []
    signal.signal(signal.SIGUSR1, lambda *a: got.append(1))
    os.kill(os.getpid(), signal.SIGUSR1)
    time.sleep(0.1)
    print(len(got))
    """
    )
    assert signal.SIGUSR1 and run(program, SMOLDER_CACHE_DIR=str(tmp_path)).stdout.split() == ["1"]


LONG = """
import smolder

def step():
    x = smolder.arange(7).float()
    for i in range(300):
        x = x.sin() * 0.5
    return x.tolist()

for i in range(2):
    print(step(), smolder.metrics()["counters"]["steps.op_by_op_while_compiling"])
    smolder.wait_for_compiles()
"""


def test_a_long_step_runs_by_its_plan_at_once_where_another_process_kept_the_kernels(tmp_path):
    environment = {**os.environ, "SMOLDER_CACHE_DIR": str(tmp_path), "SMOLDER_COMPILE": "behind"}
    command = [sys.executable, "-c", LONG]
    new, again = [
        subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout for _ in range(2)
    ]
    assert [line.split("]")[1] for line in new.splitlines()] == [" 1", " 1"]
    assert [line.split("]")[1] for line in again.splitlines()] == [" 0", " 0"]
    assert len({line.split("]")[0] for line in new.splitlines() + again.splitlines()}) == 1
