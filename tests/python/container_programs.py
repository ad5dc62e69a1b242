"""Programs that change containers and modules step by step, run by Smolder or by torch.

    python container_programs.py torch       writes the golden file beside the tests, from torch
    python container_programs.py torch TEXT  says what each step of the programs whose name holds TEXT left

A program is a list of statements about `c`, drawn from the kinds below. What `c` holds is noted after each: names in
order, what has them, state_dict, what iterating and printing give, and the type of the error, if there was one. A program
of torch's ends before a statement that fails and yet changes something: with Smolder it changes nothing.
"""

import hashlib
import importlib
import json
import random
import sys
from collections import OrderedDict
from pathlib import Path

GOLDEN = Path(__file__).parents[1] / "golden/container_programs.json"
STEPS, PROGRAMS = 14, 60
NAMES = ["a", "b", "c", "d"]


class Names:
    """The names of a program: makers of values that are told apart by a number."""

    def __init__(self, T):
        class Leaf(T.nn.Module):
            def __init__(self, k):
                super().__init__()
                self.k = k
                self.w = T.nn.Parameter(T.full((1,), float(k)))

            def extra_repr(self):
                return str(self.k)

        self.T, self.nn, self.OrderedDict, self.Leaf = T, T.nn, OrderedDict, Leaf

    def mod(self, k):
        return self.Leaf(k)

    def ten(self, k):
        return self.T.full((1,), float(k))

    def par(self, k):
        return self.nn.Parameter(self.ten(k))

    def buf(self, k, persistent=True):
        return self.nn.Buffer(self.ten(k), persistent=persistent)

    def swap(self, members, name, value):
        if name in members:
            members[name] = value

    def tag(self, value):
        if isinstance(value, self.nn.Module):
            return f"module {getattr(value, 'k', type(value).__name__)}"
        if isinstance(value, self.T.Tensor):
            return f"{'parameter' if isinstance(value, self.nn.Parameter) else 'tensor'} {value.item():g}"
        return repr(value)

    def said(self, use):
        try:
            return use()
        except Exception as error:
            return type(error).__name__

    def state(self, c):
        """The contents of a module, in order."""
        both = [(f"_{g}", [(n, self.tag(v)) for n, v in getattr(c, f"_{g}").items()]) for g in GROUPS]
        named = [[n for n, _ in walk] for walk in (c.named_parameters(), c.named_buffers(), c.named_modules())]
        state = [(n, self.tag(v)) for n, v in c.state_dict().items()]
        attributes = [(n, self.said(lambda n=n: self.tag(getattr(c, n)))) for n in [*NAMES, "0", "1", "x"]]
        listed = self.said(lambda: [len(c), [self.tag(v) if not isinstance(v, str) else v for v in c]])
        text = repr(c).replace(f"{self.T.__name__}.", "")
        return [both, named, state, attributes, listed, text, sorted(c._non_persistent_buffers_set)]


GROUPS = ("parameters", "buffers", "modules")


class Dice:
    def __init__(self, seed):
        self.draw = random.Random(seed).random  # the one method that gives the same in every version of Python
        self.count = 0

    def of(self, choices):
        return choices[int(self.draw() * len(choices))]

    def number(self):
        self.count += 1
        return self.count

    def module(self):
        return f"mod({self.number()})"

    def value(self):
        k = self.number()
        return self.of(
            [f"mod({k})", f"par({k})", f"par({k})", f"ten({k})", f"buf({k})", f"buf({k}, False)", "None", "5"]
        )

    def index(self):
        return self.of(["0", "1", "2", "-1", "-2", "-3", "7", "-9"])

    def slice(self):
        return self.of([":", "1:", ":1", "::2", "-2:", ":-1", "1:3", "::-1", "5:", "3:1"])


def of_module(d):
    n, k = d.of(NAMES), d.number()
    return d.of(
        [f"c.{n} = {d.value()}"] * 8
        + [f"del c.{n}", f"setattr(c, {n!r}, {d.value()})", f"swap(c._modules, {n!r}, {d.module()})"]
        + [f"c.register_parameter({n!r}, {v})" for v in (f"par({k})", "None", f"ten({k})")]
        + [f"c.register_buffer({n!r}, {v})" for v in (f"ten({k})", "None", f"ten({k}), persistent=False", "3")]
        + [f"c.{of}({n!r}, {d.module()})" for of in ("add_module", "register_module")]
        + [f"c.add_module({n!r}, None)", f"c.add_module({n!r}, par({k}))", f"swap(c._parameters, {n!r}, par({k}))"]
        + [f"swap(c._buffers, {n!r}, ten({k}))", f"c._modules.pop({n!r})", f"c._parameters.pop({n!r}, None)"]
        + ["c._modules = OrderedDict(reversed(list(c._modules.items())))", f"c._buffers.pop({n!r}, None)"]
    )


def of_modules(d):
    """Statements that Sequential and ModuleList share."""
    i, m = d.index(), d.module()
    two = f"[{d.module()}, {d.module()}]"
    return (
        [f"c[{i}] = {m}"] * 3
        + [
            f"c[{i}] = None",
            f"c[{i}] = {d.of(['5', 'ten(3)'])}",
            f"setattr(c, '{d.of('012')}', {m})",
            f"del c[{d.slice()}]",
        ]
        + [f"del c[{i}]", f"c.pop({i})", f"c.pop({d.slice()})", f"c = c[{d.slice()}]", f"c[{i}]", f"c.append({m})"]
        + [f"c.append({d.of(['None', '4'])})", f"c.extend({two})", "c.extend(3)", f"swap(c._modules, '1', {m})"]
        + ["c = c[:3]"] * 2
    )


def of_sequential(d):
    m, two = d.module(), f"nn.Sequential({d.module()}, {d.module()})"
    numbered = "if list(c._modules) == [str(i) for i in range(len(c))]:"
    return d.of(
        of_modules(d)
        + [f"c.insert({d.index()}, {m})"] * 2
        + [f"c += {two}", f"c = c + {two}", "c = c[:2] * 2", f"{numbered} c *= {d.of('012')}", "c *= 'a'", "c += [3]"]
        + [f"c.x = {m}", f"c.add_module('x', {m})", f"c = nn.Sequential(OrderedDict(a={m}, b={d.module()}))"]
        + ["c.insert(0, None)", f"c.insert(1, par({d.number()}))"]
    )


def of_list(d):
    m, two = d.module(), f"[{d.module()}, {d.module()}]"
    own = [f"c += {two}", f"c = c + {two}", "c = nn.ModuleList(reversed(c))", "c += 3"]
    return d.of([*own, f"c.insert(0, {m})", f"c.insert(len(c), {m})", "c.insert(0, None)", *of_modules(d)])


def of_dict(d):
    n, m = d.of(NAMES), d.module()
    return d.of(
        [f"c[{n!r}] = {m}"] * 5
        + [f"c[{n!r}] = None", f"c[{n!r}] = {d.value()}", f"del c[{n!r}]", f"c.pop({n!r})", f"c.{n} = {d.value()}"]
        + [f"c.update({{{n!r}: {m}, 'b': {d.module()}}})", f"c.update([({n!r}, {m})])", f"c.update([({n!r},)])"]
        + [f"c.update(nn.ModuleDict({{{n!r}: {m}}}))", f"c[{n!r}]", "c.update(3)", "c.update([3])", "list(c.items())"]
        + ["c[3] = mod(1)", "c['keys'] = mod(1)", "c[''] = mod(1)", "c['a.b'] = mod(1)", "c.clear()"]
    )


def of_parameter_list(d):
    i, v, k = d.index(), d.value(), d.number()
    return d.of(
        [f"c[{i}] = par({k})"] * 4
        + [f"c[{i}] = {v}", f"c.append({v})", f"c.append(par({k}))", f"c += [{d.value()}, ten({k})]", f"c[{i}]"]
        + [f"c.extend([{v}])", f"c = c[{d.slice()}]", f"setattr(c, '{d.of('012')}', par({k}))", "c.extend(3)"]
        + [f"c.extend(ten({k}))", f"c += nn.ParameterList([{v}])", "c(1)", f"c.x = {v}", f"c.pop({i})", f"del c[{i}]"]
    )


def of_parameter_dict(d):
    n, v, k = d.of(NAMES), d.value(), d.number()
    return d.of(
        [f"c[{n!r}] = par({k})"] * 4
        + [f"c[{n!r}] = {v}", f"c[{n!r}] = ten({k})", f"del c[{n!r}]", f"c.pop({n!r})", "c.popitem()", f"c.{n} = {v}"]
        + [f"c.update({{'d': {v}, {n!r}: par({k})}})", f"c.update(OrderedDict(d={v}, {n}=par({k})))", "c.update(3)"]
        + [f"c.update([({n!r}, {v})])", "c.update([3])", f"c.update([({n!r},)])", f"c.setdefault({n!r}, {v})"]
        + [f"c.setdefault({n!r})", f"c.get({n!r})", "c = c.copy()", f"c = c | nn.ParameterDict({{{n!r}: {v}}})"]
        + [f"c |= {{{n!r}: {v}}}", f"c = c.fromkeys(['b', {n!r}], {v})", "c(1)", "list(reversed(c))"]
        + ["c.clear()"]
    )


KINDS = {
    "Module": ("nn.Module()", of_module),
    "Sequential": ("nn.Sequential(mod(91), mod(92), mod(93))", of_sequential),
    "ModuleList": ("nn.ModuleList([mod(91), mod(92), mod(93)])", of_list),
    "ModuleDict": ("nn.ModuleDict({'b': mod(91), 'a': mod(92)})", of_dict),
    "ParameterList": ("nn.ParameterList([par(91), ten(92), par(93)])", of_parameter_list),
    "ParameterDict": ("nn.ParameterDict({'b': par(91), 'a': ten(92)})", of_parameter_dict),
}


def programs():
    """Name and statements of each."""
    for kind, (begin, step) in KINDS.items():
        for i in range(PROGRAMS):
            dice = Dice(f"{kind} {i}")
            yield f"{kind} {i}", [f"c = {begin}", *(step(dice) for _ in range(STEPS))]


def run(T, statements):
    """The container after each statement, as text."""
    before = None
    names = Names(T)
    seen = {name: getattr(names, name) for name in ("nn", "OrderedDict", "mod", "ten", "par", "buf", "swap")}
    for statement in statements:
        error = names.said(lambda statement=statement: exec(statement, seen))
        state = names.state(seen["c"])
        if error is not None and state != before and T.__name__ == "torch":
            return
        yield json.dumps([error, state])
        before = state


def digest(text):
    return hashlib.sha256(text.encode()).hexdigest()[:6]


if __name__ == "__main__":
    T = importlib.import_module(sys.argv[1])
    if len(sys.argv) > 2:
        chosen = {name: list(run(T, lines)) for name, lines in programs() if sys.argv[2] in name}
        print("\n" + json.dumps(chosen))
    else:
        results = {name: " ".join(map(digest, run(T, lines))) for name, lines in programs()}
        GOLDEN.write_text(json.dumps(results, indent=0) + "\n")
