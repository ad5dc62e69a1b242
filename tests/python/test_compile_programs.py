"""Random programs as functions: compiled, they leave the bits that they leave by themselves.

SMOLDER_TEST_COMPILED is how many (100), SMOLDER_TEST_SEED the first seed.
"""

import os
import textwrap
import warnings

import numpy as np
import pytest
from compile_results import bits
from programs import Generator

import smolder
from smolder.compiler import events
from smolder.nn import functional as F

COUNT = int(os.environ.get("SMOLDER_TEST_COMPILED", "100"))
FIRST = int(os.environ.get("SMOLDER_TEST_SEED", "0"))
CHUNK = 50


def as_function(program, backward):
    """The program's steps as a function of its inputs, and its source. The gradient is computed by it, or outside."""
    made = [i for i in range(len(program.inputs), len(program.inputs) + len(program.steps)) if program.lives(i)]
    steps = program.lines[2 + len(program.inputs) :]
    steps = [line for line in steps if not line.startswith(("loss", "smolder.optim"))]
    if program.losses:
        steps.append("loss = " + " + ".join(f"v{i}.float().sum()" for i in program.losses))
        if backward == "inside":
            steps.append("loss.requires_grad and loss.backward()")
    results = [f"v{i}" for i in made] + ["loss"] * bool(program.losses)
    arguments = ", ".join(f"v{i}" for i in range(len(program.inputs)))
    text = f"def function({arguments}):\n" + textwrap.indent(
        "\n".join([*steps, f"return [{', '.join(results)}]"]), "    "
    )
    names = {"smolder": smolder, "np": np, "F": F}
    exec(compile(text, f"<program {program.seed}>", "exec"), names)
    return names["function"], text


def inputs_of(program, call):
    names = {"smolder": smolder, "np": np, "dice": np.random.default_rng((program.seed, call))}
    return [eval(str(x), names) for x in program.inputs]


def left_by(function, program, backward, call):
    """The effects of a call: results, inputs and gradients."""
    inputs = inputs_of(program, call)
    smolder.manual_seed(call)
    results = function(*inputs)
    if backward == "outside" and program.losses and results[-1].requires_grad:
        results[-1].backward()
    grads = [None if t.grad is None else bits(t.grad) for t in inputs]
    return [bits(r) for r in results], [bits(t) for t in inputs], grads, bits(smolder.rand(1))


@pytest.mark.parametrize("backward", ["inside", "outside"])
@pytest.mark.parametrize("first", range(FIRST, FIRST + COUNT, CHUNK))
def test_compiled_programs_leave_the_same_bits(first, backward):
    hits = calls = 0
    for seed in range(first, min(first + CHUNK, FIRST + COUNT)):
        program = Generator(seed).program
        function, text = as_function(program, backward)
        smolder.compiler.reset()
        compiled = smolder.compile(function)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of ops without a lowering
            for call in (1, 2, 3, 1):
                try:
                    want = left_by(function, program, backward, call)
                except (RuntimeError, IndexError) as error:
                    with pytest.raises(type(error)):
                        left_by(compiled, program, backward, call)
                    continue
                got = left_by(compiled, program, backward, call)
                assert got == want, f"seed {seed}, call {call}:\n{text}\n{list(events)}"
                calls += 1
        hits += sum(compiled._hits())
    assert hits > calls / 2
