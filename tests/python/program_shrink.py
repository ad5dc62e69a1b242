"""Random programs: a failing one made small."""

import dataclasses

from program_modes import failure_of


def without_step(program, at, keep_operand):
    """The program without a step: its uses take its first operand instead, or go too. None where nothing is left."""
    first = len(program.inputs)
    renamed, steps = {i: i for i in range(first)}, []
    for i, step in enumerate(program.steps):
        if i == at or any(renamed[o] is None for o in step.operands):
            renamed[first + i] = renamed[step.operands[0]] if i == at and keep_operand else None
            continue
        renamed[first + i] = first + len(steps)
        steps.append(dataclasses.replace(step, operands=tuple(renamed[o] for o in step.operands)))
    if not steps:
        return None
    kept, losses = ({renamed[i] for i in old} - {None} for old in (program.kept, program.losses))
    return dataclasses.replace(program, steps=tuple(steps), kept=frozenset(kept), losses=tuple(sorted(losses)))


def smaller(program):
    """Programs that are simpler by one thing: a run of steps, a step, what is kept, differentiated or stepped, an
    extent, a dtype."""
    n = len(program.steps)
    for length in (n // 2, n // 4):
        for start in range(0, n - length + 1, max(length, 1)) if length > 1 else ():
            cut = program
            for at in reversed(range(start, start + length)):
                cut = cut and without_step(cut, at, True)
            yield cut
    if program.optimizer:
        yield dataclasses.replace(program, optimizer="")
    for i in program.losses:
        yield dataclasses.replace(program, losses=tuple(x for x in program.losses if x != i))
    for i in sorted(program.kept):
        yield dataclasses.replace(program, kept=program.kept - {i})
    for at in reversed(range(n)):
        yield without_step(program, at, True)
        yield without_step(program, at, False)
    yield from smaller_inputs(program)


def smaller_inputs(program):
    def replaced(change):
        return dataclasses.replace(program, inputs=tuple(change(x) for x in program.inputs))

    extents = sorted({n for x in program.inputs for n in x.shape if n > 1}, reverse=True)
    for extent in extents:
        for to in sorted({1, 2, extent // 2, extent - 1} - {0, extent}):
            change = {extent: to}
            yield replaced(lambda x: dataclasses.replace(x, shape=tuple(change.get(n, n) for n in x.shape)))  # noqa: B023
    for dtype in sorted({x.dtype for x in program.inputs} & {"float64", "bfloat16", "float16"}):
        yield replaced(lambda x: dataclasses.replace(x, dtype="float32") if x.dtype == dtype else x)  # noqa: B023


def shrunk(program, failure_of=failure_of):
    """A program that fails as `program` does, and from which nothing can be taken so that it still does."""
    failure = failure_of(program)
    progress = failure is not None
    while progress:
        progress = False
        for candidate in smaller(program):
            found = candidate and failure_of(candidate)
            if found and found.kind == failure.kind:
                program, failure, progress = candidate, found, True
                break
    return program, failure
