"""Comparing recorded steps with the functions they were recorded of: smolder.checked."""

from smolder import _core
from smolder._modes import no_grad
from smolder.compiler._structure import Results
from smolder.compiler._world import World, same


def _value(t):
    """A tensor with the value that another has now, whatever is written to that."""
    return _core._KeptTensor(t).unpack().detach()


def _bytes(t):
    return (t.float() if t.dtype is _core.bfloat16 else t).cpu().numpy().tobytes()


class _State:
    """The contents of tensors, their gradients, generators and dicts."""

    def __init__(self, tensors, world):
        self._tensors = [(t, path, _value(t), t.grad) for t, path in tensors]
        self._gradients = [None if g is None else _value(g) for *_, g in self._tensors]
        self._generators = [(g, g.get_state()) for g in (_core.default_generator, *world.generators)]
        self._dicts = [(item[2], item[3]) for item in world.items if item[0] == "dict"]

    def values(self):
        """(what, value) of all tensors and gradients as they are now."""
        for t, path, *_ in self._tensors:
            yield path, _value(t)
            yield f"{path}.grad", None if t.grad is None else _value(t.grad)

    def restore(self):
        with no_grad():
            for (t, _, value, grad), before in zip(self._tensors, self._gradients, strict=True):
                if not _unchanged(t, value):
                    _core.assign(t, value)
                if grad is not None and not _unchanged(grad, before):
                    _core.assign(grad, before)
                if t.grad is not grad:
                    t.grad = grad
        for generator, state in self._generators:
            generator.set_state(state)
        for d, before in self._dicts:
            for key, value in before.items():
                if key in d and not same(d[key], value):
                    d[key] = value


def _unchanged(t, value):
    return _bytes(_value(t)) == _bytes(value)


def _results(o):
    return [(f"result {i}", _value(t)) for i, t in enumerate(Results(o, World(), set()).tensors)]


def compared(recorder, args, kwargs):
    """Runs a recorded step and then, from the same state, the function; raises where they differ.

    Returns whether a recorded step fits, and what the function returned.
    """
    world, given, _ = recorder._look(args, kwargs)
    state = _State([*given, *world.tensors], world)
    hit = recorder.compiled._run_hit(args, kwargs)
    if hit is None:
        return False, None
    got = [*_results(hit[0]), *state.values()]
    after = [g.get_state() for g, _ in state._generators]
    state.restore()
    out = recorder.function(*args, **kwargs)
    want = [*_results(out), *state.values()]
    for (what, a), (_, b) in zip(got, want, strict=True):
        if (a is None) != (b is None) or (a is not None and _differ(a, b)):
            raise RuntimeError(f"smolder.checked: {recorder.name}: {what} of the recorded step is not the function's")
    for (g, _), a in zip(state._generators, after, strict=True):
        if _differ(g.get_state(), a):
            raise RuntimeError(f"smolder.checked: {recorder.name}: the recorded step draws other random numbers")
    return True, out


def _differ(a, b):
    return a.dtype != b.dtype or a.shape != b.shape or _bytes(a) != _bytes(b)
