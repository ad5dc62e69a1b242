"""A compiled function beside what else a process does: code that reads its optimizer, other threads, profilers, tracers."""

import copy
import cProfile
import pickle
import sys
import threading

import pytest
from compile_results import bits, fresh, told  # noqa: F401

import smolder
from smolder import nn


def trained(reads, compile, calls=8):
    """Results of a step that reads its optimizer by `reads`, while the learning rate changes between calls."""
    smolder.manual_seed(1)
    model = nn.Linear(3, 2)
    optimizer = smolder.optim.Adam(model.parameters(), lr=0.1)
    schedule = smolder.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    read = reads(optimizer, schedule, model)

    def step(x):
        optimizer.zero_grad()
        model(x).square().sum().backward()
        optimizer.step()
        return x.sum() * float(read())

    step, out = compile(step), []
    for i in range(calls):
        out.append(step(smolder.full((4, 3), float(i + 1))).item())
        schedule.step()
    return out, [bits(p) for p in model.parameters()], step


READS = {
    "a group": lambda o, s, m: lambda: o.param_groups[0]["lr"],
    "a group that is kept": lambda o, s, m: (lambda g: lambda: g["lr"])(o.param_groups[0]),
    "groups that are kept": lambda o, s, m: (lambda g: lambda: g[0]["lr"])(o.param_groups),
    "values of a group": lambda o, s, m: lambda: next(v for k, v in o.param_groups[0].items() if k == "lr"),
    "the state dict": lambda o, s, m: lambda: o.state_dict()["param_groups"][0]["lr"],
    "a method that is kept": lambda o, s, m: (lambda f: lambda: f()["param_groups"][0]["lr"])(o.state_dict),
    "the schedule": lambda o, s, m: lambda: s.get_last_lr()[0],
    "what the schedule says is next": lambda o, s, m: lambda: s.get_lr()[0],
    "getattr": lambda o, s, m: lambda: getattr(o, "param_" + "groups")[0]["lr"],
    "vars": lambda o, s, m: lambda: vars(o)["param_groups"][0]["lr"],
    "text": lambda o, s, m: lambda: len(f"{o}"),
    "a count": lambda o, s, m: lambda: o.state[m.weight]["step"],
    "a count that is kept": lambda o, s, m: (lambda d: lambda: d[m.weight].get("step", 0))(o.state),
    "counts": lambda o, s, m: lambda: sum(v.get("step", 0) for v in o.state.values()),
    "a count in the state dict": lambda o, s, m: lambda: o.state_dict()["state"][0]["step"],
    "a copy": lambda o, s, m: lambda: copy.copy(o.param_groups[0])["lr"],
}


@pytest.mark.parametrize("name", READS)
def test_what_code_reads_of_its_optimizer_is_what_it_is_now(name):
    got, want = trained(READS[name], smolder.compile), trained(READS[name], lambda f: f)
    assert got[:2] == want[:2]


def test_a_step_that_reads_nothing_of_its_optimizer_is_recorded():
    *_, step = trained(lambda o, s, m: lambda: 1.0, smolder.compile)
    assert sum(step._hits()) == 6


def test_a_step_that_sets_its_learning_rate_does_so_in_each_call():
    def run(compile):
        p = nn.Parameter(smolder.ones(2))
        optimizer = smolder.optim.SGD([p], lr=0.1)

        def step(x):
            for group in optimizer.param_groups:
                group["lr"] = 0.25
            optimizer.zero_grad()
            (p * x).sum().backward()
            optimizer.step()

        step = compile(step)
        for i in range(6):
            optimizer.param_groups[0]["lr"] = 0.1 * i
            step(smolder.ones(2))
        return p.tolist(), optimizer.param_groups[0]["lr"]

    assert run(smolder.compile) == run(lambda f: f)


# -- threads


@pytest.mark.parametrize("optimizer", ["SGD", "Adam"])
def test_other_threads_compute_while_steps_are_recorded(optimizer):
    wrong, stop = [], threading.Event()

    def other():
        generator = smolder.Generator()
        while not stop.is_set():
            x = smolder.full((16,), 3.0)
            if (x * x + 1).sum().item() != 160.0:
                wrong.append("another thread's value")
            smolder.rand(2, generator=generator).tolist()

    def train(compile, seed):
        smolder.manual_seed(seed)
        model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 2))
        adjust = getattr(smolder.optim, optimizer)(model.parameters(), lr=0.01)

        def step(x):
            adjust.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            adjust.step()
            return loss

        step = compile(step)
        losses = [step(smolder.full((3, 4), 0.5 + i)).item() for i in range(4)]
        return losses, [p.tolist() for p in model.parameters()]

    wanted = [train(lambda f: f, seed) for seed in range(40)]
    threads = [threading.Thread(target=other) for _ in range(2)]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for t in threads:
            t.start()
        for seed, want in enumerate(wanted):
            assert train(smolder.compile, seed) == want, seed
    finally:
        sys.setswitchinterval(before)
        stop.set()
        for t in threads:
            t.join()
    assert not wrong


def test_a_function_that_waits_for_a_thread_that_computes_does_not_hang():
    def f(x):
        out = []
        thread = threading.Thread(target=lambda: out.append(smolder.full((2,), 4.0).sum().item()))
        y = x * 2
        thread.start()
        thread.join()
        return y + out[0]

    compiled = smolder.compile(f)
    assert [compiled(smolder.ones(1)).item() for _ in range(3)] == [10.0] * 3


# -- profilers, tracers, debuggers


def watched(how, run):
    """Runs it while somebody watches; returns whether anything was seen of `helper`."""
    seen = []

    def event(frame, what, arg):
        seen.append(frame.f_code.co_name)
        return event

    if how == "cProfile":
        profile = cProfile.Profile()
        profile.runcall(run)
        profile.create_stats()
        return any(name == "helper" for _, _, name in profile.stats)
    set_, get = (sys.setprofile, sys.getprofile) if how == "setprofile" else (sys.settrace, sys.gettrace)
    before = get()
    set_(event)
    try:
        run()
        assert get() is event
    finally:
        set_(before)
    return "helper" in seen


@pytest.mark.parametrize("how", ["cProfile", "setprofile", "settrace"])
def test_profilers_and_tracers_work_during_and_after(how):
    def helper(x):
        return x * 2

    f, out = smolder.compile(lambda x: helper(x) + 1), []
    assert watched(how, lambda: out.extend(f(smolder.ones(2)).tolist() for _ in range(3)))
    assert watched(how, lambda: helper(1))
    assert out == [[3.0, 3.0]] * 3
    assert sum(f._hits()) == 2, told("broke")


def test_a_profiler_that_begins_and_ends_within_a_call():
    def f(x):
        profile = cProfile.Profile()
        profile.enable()
        y = x * 2
        profile.disable()
        return y

    compiled = smolder.compile(f)
    for _ in range(3):
        assert compiled(smolder.ones(1)).item() == 2.0
    assert sys.getprofile() is None


class Wall:
    """Whose attributes that it has not raise what no attribute raises."""

    scale = 3.0

    def __getattr__(self, name):
        raise ValueError(name)

    def __eq__(self, other):
        raise ValueError("compared")

    def __len__(self):
        raise ValueError("counted")

    __hash__ = None


def test_objects_whose_methods_raise():
    wall = Wall()
    kept = {"wall": wall, "walls": [wall]}
    f = smolder.compile(lambda x, w: x * w.scale * kept["wall"].scale * len(kept["walls"]))
    for _ in range(3):
        assert f(smolder.ones(1), wall).item() == 9.0
    wall.scale = 2.0
    assert f(smolder.ones(1), wall).item() == 4.0
    returned = smolder.compile(lambda x: (x * 2, kept["wall"]))
    for _ in range(3):
        assert returned(smolder.ones(1))[1] is wall


# -- pure


def test_pure_takes_the_rest_for_constant():
    model, scale = nn.Linear(2, 2), {"k": 2.0}
    f = smolder.pure(lambda x: model(x) * scale["k"])
    x = smolder.ones(3, 2)
    before = f(x).tolist()
    scale["k"] = 5.0
    assert f(x).tolist() == before
    with smolder.checked(), pytest.raises(RuntimeError, match="checked"):
        f(x)
    scale["k"] = 2.0
    with smolder.no_grad():
        model.weight.mul_(2)
    assert f(x).tolist() == (model(x) * 2.0).tolist()
    model.weight = nn.Parameter(smolder.zeros(2, 2))
    assert f(x).tolist() == (model(x) * 2.0).tolist()
    assert f(smolder.ones(5, 2)).tolist() == (model(smolder.ones(5, 2)) * 2.0).tolist()


def test_a_pure_step_trains_as_the_step_does():
    def run(compile):
        smolder.manual_seed(3)
        model = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.Linear(4, 1))
        optimizer = smolder.optim.Adam(model.parameters(), lr=0.1)
        schedule = smolder.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)

        def step(x):
            optimizer.zero_grad()
            model(x).sum().backward()
            optimizer.step()

        step = compile(step)
        for i in range(6):
            step(smolder.full((2, 3), i + 1.0))
            schedule.step()
        return [bits(p) for p in model.parameters()], step

    got, want = run(smolder.pure), run(lambda f: f)
    assert got[0] == want[0]
    assert sum(got[1]._hits()) >= 3, told("broke")


@pytest.mark.parametrize("dtype", [smolder.uint16, smolder.float8_e4m3fn])
def test_results_of_a_dtype_that_kernels_do_not_know(dtype):
    step = smolder.compile(lambda x: (x.to(dtype), x * 2))
    for _ in range(3):
        cast, twice = step(smolder.tensor([1.0, 2.0, 8.0]))
        assert cast.dtype == dtype and cast.float().tolist() == [1, 2, 8] and twice.tolist() == [2, 4, 16]


# -- wrappers of modules


def test_a_compiled_module_stands_for_its_module():
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    model.name = "mine"
    compiled, x = smolder.compile(model), smolder.ones(5, 3)
    assert len(compiled) == 3 and compiled[0] is model[0] and list(compiled) == list(model) and compiled.name == "mine"
    compiled.name = "yours"
    assert model.name == "yours"
    compiled(x), compiled(x)
    calls = []
    handle = compiled.register_forward_hook(lambda m, i, o: calls.append(m) or o + 1)
    assert compiled(x).tolist() == (model(x)).tolist() == compiled(x).tolist()
    assert calls and all(m is model for m in calls)
    handle.remove()
    for other in (copy.deepcopy(compiled), pickle.loads(pickle.dumps(compiled))):
        assert other._orig_mod is not model
        assert [other(x).tolist() for _ in range(3)] == [model(x).tolist()] * 3
        with smolder.no_grad():
            other[0].weight.zero_()
        assert other(x).tolist() != model(x).tolist()
    assert list(compiled.state_dict()) == ["_orig_mod." + k for k in model.state_dict()]
