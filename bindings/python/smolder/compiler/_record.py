"""What a compiled function does when no recorded step fits a call: records one, or says why it cannot."""

import gc
import os
import sys
from collections import deque

from smolder import _core
from smolder._settings import _settings
from smolder.compiler._structure import Results, containers, describe, unchanged
from smolder.compiler._watch import Watch
from smolder.compiler._world import Unguarded, World, difference
from smolder.nn import hooks

MOST_ENTRIES = 8  # of a function; the one that was not hit for longest is dropped
_LONGEST_PAUSE = 1024

events = deque(maxlen=1000)
_told = {name for name in os.environ.get("SMOLDER_LOGS", "").split(",") if name}
_TOPICS = {"recorded": "guards", "missed": "guards", "broke": "graph_breaks"}


def _tell(event, name, reason, where=""):
    _core._count_compile_event(event)
    events.append({"event": event, "function": name, "reason": reason, "where": where})
    if _TOPICS[event] in _told:
        at = f" ({where})" if where else ""
        print(f"[smolder:{_TOPICS[event]}] {name}: {event}: {reason}{at}", file=sys.stderr)


class Recorder:
    """Stands behind a _Compiled: is called with what it was called with when no entry holds."""

    def __init__(self, function, name, fullgraph, backend=None, run_mode=None):
        self.function, self.name, self.fullgraph, self.backend = function, name, fullgraph, backend
        self.run_mode = run_mode  # of its steps; None for what the process says
        self.compiled = None  # set by who makes it
        self.every = 0  # calls that hit from one comparison to the next; see checked()
        self._failures = self._pause = 0

    def forget(self):
        """Forgets what was recorded."""
        self.compiled._forget()
        self._failures = self._pause = 0

    def __call__(self, args, kwargs):
        if self.every and self.compiled._until_check == 0:
            from smolder.compiler._checked import compared

            self.compiled._until_check = self.every - 1
            found, out = compared(self, args, kwargs)
            if found:
                return out
        misses = self.compiled._misses(args, kwargs)
        if misses:
            _tell("missed", self.name, misses[0])
        elif self._pause:
            self._pause -= 1
            return self.function(*args, **kwargs)
        return self._record(args, kwargs)

    def _broke(self, why, where=""):
        # A function that cannot be recorded is not looked at in each call: that costs more than running it.
        self._failures += 1
        self._pause = min(2 ** (self._failures - 1) - 1, _LONGEST_PAUSE)
        _tell("broke", self.name, why, where)
        if self.fullgraph:
            raise RuntimeError(f"smolder.compile with fullgraph=True: {self.name} cannot be recorded whole: {why}")

    def _look(self, args, kwargs, ran=None, every_name=False):
        world, tensors = World(ran, every_name), []
        positional = describe(args, "args", tensors, world)
        named = describe(kwargs, "kwargs", tensors, world)
        world.walk(self.function, self.name)
        for state in (hooks._forward_pre, hooks._forward, hooks._backward_pre, hooks._backward, _settings):
            world.walk(state, "a global hook or setting")
        return world, tensors, ("sequence", "arguments", tuple, [positional, named])

    def _record(self, args, kwargs):
        try:
            before, given, spec = self._look(args, kwargs)
        except Unguarded as why:
            self._broke(str(why))
            return self.function(*args, **kwargs)
        known = [t for t, _ in given]
        ids = {id(t) for t in known}
        known += [t for t, _ in before.tensors if id(t) not in ids]
        _core.clear_autocast_cache()
        capture = _core._StepCapture(known, self.fullgraph, self.run_mode)
        try:
            with Watch(capture.note_break) as watch:
                out = self.function(*args, **kwargs)
            results = Results(out, before, containers((args, kwargs), set()))
            results.check(known)
            generators = [_core.default_generator, *before.generators]
            with watch:  # gradients may be the program's code, too
                step = capture.finish(results.tensors, generators)
            _core.clear_autocast_cache()
            why = self._refusal(capture, watch, before, spec, results, args, kwargs)
            if why is not None or step is None:
                self._broke(why or capture.reason, capture.where)
                return out
            if self.run_mode is not None:
                step.set_mode(self.run_mode)
            if self.backend is not None and step.ops:
                step.set_runner(self.backend(step.graph, capture.example()))
            touched = capture.touched_gradients  # before results are made, which sets them
            made = capture.first_results()
            gradients = dict(zip(map(id, known), capture.gradients_before()))
            used = [known[i] for i in step.used]
            for every_name in (False, True):  # no code need name a detached tensor that sees a write
                after, given, spec = self._look(args, kwargs, watch.ran, every_name)
                numbers = [(t, path, gradients.get(id(t), 0)) for t, path in [*given, *after.tensors]]
                places = {id(t): i for i, (t, *_) in reversed([*enumerate(numbers)])}
                if all(id(t) in places for t in used):
                    break
            else:
                self._broke("a tensor that no guard reaches")
                return out
            free = _free(capture)
            guards = _core._Guards(spec, after.items, numbers, free, touched)
            self.compiled._add(
                step, guards, [places[id(t)] for t in used], results.spec(step.places), capture, MOST_ENTRIES
            )
            del out, results
            out = self.compiled._put_together(made, used)
            if capture.leaks() and (gc.collect() or True) and capture.leaks():
                self.compiled._forget_first()
                self._broke("a tensor that it computes is kept somewhere else than in its results")
                return out
            self._failures = 0
            _tell("recorded", self.name, f"{step.ops} ops")
            return out
        finally:
            capture.close()

    def _refusal(self, capture, watch, before, spec, results, args, kwargs):
        """Why what ran cannot be a recorded step; None where it can."""
        if capture.broken:
            return capture.reason
        if results.why:
            return results.why
        try:
            after, _, spec_after = self._look(args, kwargs, watch.ran)
        except Unguarded as why:
            return str(why)
        if not unchanged(spec, spec_after):
            return "an argument was changed by the call"
        return after.unguarded or watch.unseen(after.codes) or difference(before, after, _free(capture))


def _free(capture):
    """The numbers that a step is told at each run: {id(dict): keys}."""
    free = {}
    for mapping, key in capture.numbers:
        free.setdefault(id(mapping), []).append(key)
    return free
