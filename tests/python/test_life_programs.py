"""Random programs of training with hooks, gradients of gradients, modes, closures, branches and groups of parameters,
as torch left them, in every tier."""

import contextlib
import json
import random

import life_programs
import pytest

import smolder

# The golden file has none of programs that end otherwise here. They take the absolute value of bools, or the Jacobian of
# nothing; sum bools in place; differentiate what inference mode made; write to such a tensor, which torch does before it
# refuses; change the shape of a leaf that is in a graph; have views from before their base wanted a gradient; or run hooks
# of several gradients in batches, which torch refuses.
PROGRAMS = list(life_programs.programs())
EXPECTED = json.loads(life_programs.GOLDEN.read_text())


def test_most_programs_are_compared():
    assert len(EXPECTED) == len(PROGRAMS) == life_programs.PROGRAMS
    assert sum(map(bool, EXPECTED)) > 0.95 * len(PROGRAMS)


def test_every_program_leaves_what_torch_left():
    found = {i: life_programs.kept(ours) for i, ours in enumerate(life_programs.everything(smolder)) if EXPECTED[i]}
    wrong = [f"program {i}: {ours} for {EXPECTED[i]}" for i, ours in found.items() if ours != EXPECTED[i]]
    assert not wrong, "\n".join([f"{len(wrong)} programs", *wrong[:5], *PROGRAMS[int(wrong[0].split()[1][:-1])]])


class Syncs:
    """Ends the step, or reads a value, anywhere."""

    def __init__(self, seed):
        self.dice = random.Random(seed)

    def __call__(self, names):
        roll = self.dice.random()
        value = names.get(self.dice.choice(["v0", "v1", "v2", "v3", "p0"]))
        if roll < 0.3:
            smolder.mark_step()
        elif roll < 0.6 and isinstance(value, smolder.Tensor):
            with contextlib.suppress(RuntimeError):
                value.detach().tolist()


def left(i, statements, mode):
    """As text; the tiers give the same bits."""
    options = {"random_tiers": i + 1 if mode == "tiers at random" else 0}
    smolder.set_options(**options)
    try:
        with smolder.eager() if mode == "eager" else contextlib.nullcontext():
            between = Syncs(i) if mode == "syncs at random" else lambda names: None
            out, raised = life_programs.run(
                smolder, statements, smolder.compile if mode == "compiled" else None, between
            )
            return json.dumps(out) + "".join(
                f"\nraised at {statements[j]}: {e}" for j, e in raised.items() if "double backward" not in e[1]
            )
    finally:
        smolder.set_options(random_tiers=0)


def wrong(mode, numbers):
    for i in numbers:
        refused = {int(word.split(":")[0]) for word in EXPECTED[i].split(" ")[1:]}
        taken = [s for j, s in enumerate(PROGRAMS[i]) if j not in refused]
        ours, eagerly = left(i, taken, mode), left(i, taken, "eager")
        if ours != eagerly:
            yield "\n".join([f"program {i}, {mode}:", *taken, ours, "and eagerly", eagerly])


@pytest.mark.parametrize("mode", ["recorded", "compiled", "syncs at random", "tiers at random"])
def test_every_tier_leaves_the_same_bits(mode):
    found = next(wrong(mode, [i for i in range(0, len(PROGRAMS), 60) if EXPECTED[i]]), "")
    assert not found, found
