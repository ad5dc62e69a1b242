"""Records a step of a compiled function when none that is recorded fits a call, or says why it cannot."""

from __future__ import annotations

import contextlib
import functools
import gc
import os
import sys
from collections import deque
from typing import Any

from smolder import _core
from smolder._settings import _settings
from smolder.compiler import _allowed
from smolder.compiler._structure import Results, containers, describe, unchanged
from smolder.compiler._world import Unguarded, World, codes_of, difference
from smolder.nn import hooks
from smolder.optim import Optimizer

MOST_ENTRIES = 8  # of a function; the one that was not hit for longest is dropped
_LONGEST_PAUSE = 1024

events: deque[dict[str, Any]] = deque(maxlen=1000)
_told = {name for name in os.environ.get("SMOLDER_LOGS", "").split(",") if name}
_NAMES_OF_OPTIMIZER = {*dir(Optimizer), "defaults", "param_groups", "state"} - {*dir(object), "step", "zero_grad"}
_OPTIM = os.path.dirname(sys.modules[Optimizer.__module__].__file__) + os.sep
_OF_A_STEP = {"step", "zero_grad"}
_TOPICS = {"recorded": "guards", "missed": "guards", "broke": "graph_breaks"}


def _tell(event, name, reason, where=""):
    _core._count_compile_event(event)
    events.append({"event": event, "function": name, "reason": reason, "where": where})
    if _TOPICS[event] in _told:
        at = f" ({where})" if where else ""
        print(f"[smolder:{_TOPICS[event]}] {name}: {event}: {reason}{at}", file=sys.stderr)


class Watch:
    """Which code `ran` while it was entered, and which functions in C it called."""

    def __init__(self):
        self._watch, self._disturbed = _core._Watch(), False

    def __enter__(self):
        self._watch.start()
        _sentinel()

    def __exit__(self, *exception):
        _sentinel()
        self._disturbed |= not self._watch.stop()

    @functools.cached_property
    def ran(self):
        return {*self._watch.ran}

    def refused(self, codes):
        """The effect that no recorded step can have, as text, or None. `codes` are those of functions that were met."""
        if self._disturbed or _sentinel.__code__ not in self.ran:
            return "calls could not be watched, as another profiler began or ended"
        for code in self.ran - codes:
            if not _allowed.is_library(code.co_filename):
                return f"{code.co_qualname} ran, which no guard reaches"
            if not _allowed.is_module(code.co_filename):
                return f"{code.co_qualname} of {code.co_filename} ran, which is on no list"
        for function, code in self._watch.called:
            if not _allowed.is_library(code.co_filename) and not _allowed.is_called(function):
                return f"{function.__qualname__}(), a function in C that is on no list"
        return None

    def reads_optimizer(self):
        """Whether code that ran may read what an optimizer keeps, other than to make its step."""
        for code in self.ran:
            if code.co_filename.startswith(_OPTIM):
                inner = code.co_name.startswith(("_", "<")) and not code.co_name.startswith("__")
                if not inner and code.co_name not in _OF_A_STEP:
                    return True
            elif not _allowed.is_library(code.co_filename) and _NAMES_OF_OPTIMIZER & {
                name for part in codes_of(code) for name in part.co_names
            }:
                return True
        return False


def _sentinel():
    """Has to be seen by who watches."""


class Recorder:
    """Stands behind a _Compiled: is called with what it was called with when no entry holds."""

    def __init__(self, function, name, fullgraph, backend=None, run_mode=None, pure=False):
        self.function, self.name, self.fullgraph, self.backend = function, name, fullgraph, backend
        self.pure = pure  # what else it reads than arguments, modules and generators is taken for constant
        self.run_mode = run_mode  # of its steps; None for what the process says
        self.compiled = None  # set by who makes it
        self.every = 0  # calls that hit from one comparison to the next; see checked()
        self._failures = self._pause = 0
        self._told = None  # why it could not be recorded last

    def forget(self):
        """Forgets what was recorded."""
        self.compiled._forget()
        self._failures, self._pause, self._told = 0, 0, None

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
        if self._told != (why, where):
            self._told = why, where
            _tell("broke", self.name, why, where)
        if self.fullgraph:
            raise RuntimeError(f"smolder.compile with fullgraph=True: {self.name} cannot be recorded whole: {why}")

    def _look(self, args, kwargs, ran=None, every_name=False, without=()):
        world, tensors = World(None if self.pure else ran, every_name, without), []
        positional = describe(args, "args", tensors, world)
        named = describe(kwargs, "kwargs", tensors, world)
        world.walk(self.function, self.name)
        for state in (hooks._forward_pre, hooks._forward, hooks._backward_pre, hooks._backward, _settings):
            world.walk(state, "a global hook or setting")
        if world.dynamic and world.named is not None:
            return self._look(args, kwargs, ran, True, without)
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
        watch = Watch()
        capture = _core._StepCapture(known, self.fullgraph, self.pure, self.run_mode)
        try:
            with watch:
                out = self.function(*args, **kwargs)
            results = Results(out, before, containers((args, kwargs), set()))
            results.check(known)
            generators = [_core.default_generator, *before.generators]
            with watch, contextlib.ExitStack() as own:  # gradients may be the program's code, too
                if results.why:  # tensors of a class of their own, which no step returns, would answer for themselves
                    from smolder.overrides import DisableTorchFunction

                    own.enter_context(DisableTorchFunction())
                step = capture.finish(results.tensors, generators)
            _core.clear_autocast_cache()
            free = self._numbers(capture, watch, args, kwargs)
            why = self._refusal(capture, watch, before, spec, results, free, args, kwargs)
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
            items = after.modules() if self.pure else after.items
            guards = _core._Guards(spec, items, numbers, free, touched)
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

    def _refusal(self, capture, watch, before, spec, results, free, args, kwargs):
        """Why what ran cannot be a recorded step; None where it can."""
        if capture.broken:
            return capture.reason
        if results.why or self.pure:
            return results.why
        try:
            after, _, spec_after = self._look(args, kwargs, watch.ran)
        except Unguarded as why:
            return str(why)
        if not unchanged(spec, spec_after):
            return "an argument was changed by the call"
        return after.unguarded or watch.refused(after.codes) or difference(before, after, free)

    def _numbers(self, capture, watch, args, kwargs):
        """The numbers that a step is told at each run: {id(dict): keys}. None where code of the program may read them."""
        free = {}
        for mapping, key in capture.numbers:
            free.setdefault(id(mapping), []).append(key)
        if not free or self.pure:
            return free
        world = self._look(args, kwargs, watch.ran, without=Optimizer)[0]
        read = world.named is None or watch.reads_optimizer() or any(world.knows(m) for m, _ in capture.numbers)
        return {} if read else free
