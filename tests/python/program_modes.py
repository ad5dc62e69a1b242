"""Random programs: every way of running one, and what differs between them."""

import dataclasses
import random
import warnings

import numpy as np
from conftest import same_bits

import smolder
from smolder import _core
from smolder.nn import functional as F


def execute(program, syncs=None):
    """The program's results: the values that live, the inputs (which an optimizer may have stepped) and their
    gradients, as arrays by name."""
    names = {"smolder": smolder, "np": np, "F": F}
    for code in program.code:
        exec(code, names)
        if syncs and syncs.random() < 0.3:
            live = [t for t in names.values() if isinstance(t, smolder.Tensor)]
            smolder.mark_step() if syncs.random() < 0.5 or not live else syncs.choice(live).tolist()
    values = {k: t for k, t in names.items() if isinstance(t, smolder.Tensor)}
    grads = {f"{k}.grad": t.grad for k, t in values.items() if t.is_leaf and t.grad is not None}
    del names  # a loss is not kept by the caller's namespace alone
    return {k: t.detach()._to_numpy() for k, t in (values | grads).items()}


def cold(program):
    """Every kernel is built for it, whatever the cache has."""
    _core.forget_traces()
    _core._build_kernels_anew(True)
    try:
        return execute(program)
    finally:
        _core._build_kernels_anew(False)


def again(program):
    """The same step once more: the predictor follows it."""
    return execute(program)


def warm(program):
    """A new plan of kernels that are in memory."""
    _core.forget_traces()
    return execute(program)


def from_disk(program):
    """A new plan of kernels that are in the database (or built, where there is none)."""
    _core._leave_kernels_on_disk()
    return warm(program)


def eager(program):
    with smolder.eager():
        return execute(program)


def without(option):
    def run(program):
        smolder.set_options(**{option: False})
        try:
            return execute(program)
        finally:
            smolder.set_options(**{option: True})

    return run


def with_syncs(program):
    """Steps end anywhere."""
    return execute(program, random.Random(program.seed))


def tiers_at_random(draw):
    """Each step runs as a plan or op by op, as it would while its plan is compiled; and so again."""

    def run(program):
        smolder.set_options(random_tiers=program.seed * 2 + draw + 1)
        try:
            execute(program)
            return execute(program, random.Random(program.seed) if draw else None)
        finally:
            smolder.set_options(random_tiers=0)

    return run


def compiled_behind(program):
    """Plans take over when they are ready, whenever that is."""
    behind = _core._set_compiling(True)
    _core.forget_traces()
    _core._leave_kernels_on_disk()
    try:
        execute(program)
        if program.seed % 2:
            smolder.wait_for_compiles()
        return execute(program)
    finally:
        _core._set_compiling(behind)


REFERENCE = cold
MODES = {
    "once more": again,
    "warm cache": warm,
    "eager": eager,
    "predictor off": without("predict"),
    "fusion off": without("fuse"),
    "rules off": without("simplify"),
    "syncs at random": with_syncs,
    "kernels from disk": from_disk,
    "tiers at random": tiers_at_random(0),
    "tiers and syncs at random": tiers_at_random(1),
    "compiled behind": compiled_behind,
}


@dataclasses.dataclass
class Failure:
    """The failures: a mode whose bits differ from the cold run's, or one that raised."""

    mode: str
    what: str
    kind: str


def modes_of(program):
    """Every mode; of those without rules, which build kernels of their own, a tenth."""
    return [mode for mode in MODES if mode != "rules off" or program.seed % 10 == 0]


def failure_of(program):
    """The first mode that fails, or None."""
    mode = "cold cache"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of ops without a lowering
            base = REFERENCE(program)
            for mode in modes_of(program):
                got = MODES[mode](program)
                if got.keys() != base.keys():
                    return Failure(mode, f"{sorted(got.keys() ^ base.keys())} on one side only", "names")
                for name, a in base.items():
                    if not same_bits(a, got[name]):
                        return Failure(mode, f"{name} differs from the cold run's:\n{a}\n{got[name]}", "bits")
    except Exception as e:
        return Failure(mode, f"{type(e).__name__}: {e}", type(e).__name__)
    return None
