"""Random programs of views, writes in place and aliases: lines of Python that run on plain NumPy arrays, whose sharing
is the model, and on tensors."""

import random

import numpy as np

import smolder

DTYPES = ["float32", "float64", "int64"]


def elements(seed, shape, dtype):
    return np.random.default_rng(seed).integers(-9, 10, shape).astype(dtype)


def broadcasts(shape, to):
    """Whether `to` is what both broadcast to."""
    return len(shape) <= len(to) and all(n in (1, m) for n, m in zip(shape[::-1], to[::-1], strict=False))


class Model:
    """The meaning of a line: a tensor is an array, a view a view, an alias the array itself."""

    def __init__(self):
        self.log = []

    def new(self, seed, shape, dtype):
        return elements(seed, shape, dtype)

    def permute(self, x, order):
        return x.transpose(order)

    def expand(self, x, shape):
        return np.broadcast_to(x, shape)

    def clone(self, x):
        return x.copy()

    def detach(self, x):
        return x[...]

    data = array = through_dlpack = from_numpy = from_dlpack = detach

    def copy_(self, x, y):
        x[...] = y

    def zero_(self, x):
        x[...] = 0

    def set_data(self, x, y):
        return y

    def mask(self, x):
        return x

    def indices(self, values):
        return np.array(values)

    def rows(self, x, values):
        return np.ascontiguousarray(x[values])  # NumPy may lay its result out as x is

    def see(self, x):
        self.log.append(np.array(x))


class Tensors(Model):
    """The same on tensors."""

    def new(self, seed, shape, dtype):
        return smolder.tensor(elements(seed, shape, dtype))

    def permute(self, x, order):
        return x.permute(order)

    def expand(self, x, shape):
        return x.expand(shape)

    def clone(self, x):
        return x.clone()

    def detach(self, x):
        return x.detach()

    def data(self, x):
        return x.data

    def array(self, x):
        return x.numpy()

    def through_dlpack(self, x):
        return smolder.from_dlpack(x)

    def from_numpy(self, a):
        return smolder.from_numpy(a)

    def from_dlpack(self, a):
        return smolder.from_dlpack(a)

    def copy_(self, x, y):
        x.copy_(y)

    def zero_(self, x):
        x.zero_()

    def set_data(self, x, y):
        x.data = y
        return x

    def indices(self, values):
        return smolder.tensor(values)

    def rows(self, x, values):
        return x[smolder.tensor(values)]

    def see(self, x):
        self.log.append(np.array(x.tolist()) if isinstance(x, smolder.Tensor) else x.copy())


def run(lines, api, between=lambda names: None):
    """The tensors that the lines leave, and those that they read, as arrays by name."""
    names = {"api": api, "elements": elements}
    for line in lines:
        exec(line, names)
        between(names)
    left = {k: v for k, v in names.items() if k[0] in "va" and k[1:].isdigit()}
    out = {k: np.array(v.tolist() if isinstance(v, smolder.Tensor) else v) for k, v in left.items()}
    return out | {f"seen {i}": a for i, a in enumerate(api.log)}


class Generator:
    """Makes a program by running it on the model as it grows. v1, v2, ... are tensors, a1, a2, ... arrays."""

    def __init__(self, seed, length=24):
        self.dice = random.Random(seed)
        self.names = {"api": Model(), "elements": elements}
        self.lines = []
        self.made = 0
        self.add_tensor()
        while len(self.lines) < length:
            kind = self.dice.choices(
                [self.add_tensor, self.add_view, self.add_view, self.add_value, self.add_write, self.add_alias,
                 self.add_array_write, self.add_array, self.set_data, self.drop, self.see],
                weights=[2, 5, 5, 3, 9, 5, 4, 2, 3, 2, 2],
            )[0]  # fmt: skip
            kind()

    def do(self, line):
        self.lines.append(line)
        exec(line, self.names)

    def fresh(self, letter="v"):
        self.made += 1
        return f"{letter}{self.made}"

    def all(self, letter):
        return [k for k in self.names if k[0] == letter and k[1:].isdigit()]

    def tensor(self):
        return self.dice.choice(self.all("v"))

    def writable(self, letter):
        names = [k for k in self.all(letter) if self.names[k].flags.writeable and self.names[k].size]
        return self.dice.choice(names) if names else None

    def shape(self):
        return tuple(self.dice.choice([1, 2, 3, 4, 6]) for _ in range(self.dice.choice([1, 1, 2, 2, 3])))

    def index(self, shape):
        """A basic index: integers, slices with steps, None, an ellipsis."""
        parts = []
        for n in shape:
            kind = self.dice.random()
            if kind < 0.25:
                parts.append(str(self.dice.randrange(-n, n)))
            elif kind < 0.7:
                start = self.dice.randrange(n)
                end = self.dice.randrange(start + 1, n + 1)
                parts.append(f"{start}:{end}" + self.dice.choice(["", "", ":2"]))
            else:
                parts.append(":")
        if self.dice.random() < 0.2:
            parts.insert(self.dice.randrange(len(parts) + 1), "None")
        cut = self.dice.randrange(len(parts) + 1) if self.dice.random() < 0.3 else None
        if cut is not None and len(shape) == len(parts):
            parts = [*parts[:cut], "..."] if self.dice.random() < 0.5 else ["...", *parts[cut:]]
        if all(p.lstrip("-").isdigit() for p in parts):
            parts.append("...")  # NumPy makes a number of an element otherwise
        return ", ".join(parts)

    def add_tensor(self):
        self.do(f"{self.fresh()} = api.new({len(self.lines)}, {self.shape()}, {self.dice.choice(DTYPES)!r})")

    def add_array(self):
        self.do(f"{self.fresh('a')} = elements({len(self.lines)}, {self.shape()}, {self.dice.choice(DTYPES)!r})")

    def add_view(self):
        x = self.tensor()
        value, name = self.names[x], self.fresh()
        kind = self.dice.choice(["index", "index", "permute", "reshape", "expand", "detach", "data"])
        if kind == "index":
            if value.ndim == 0:
                return
            self.do(f"{name} = {x}[{self.index(value.shape)}]")
        elif kind == "permute":
            order = list(range(value.ndim))
            self.dice.shuffle(order)
            self.do(f"{name} = api.permute({x}, {tuple(order)})")
        elif kind == "reshape":
            shapes = [(-1,), (1, *value.shape), (*value.shape, 1)]
            shapes += [(n, value.size // n) for n in (2, 3) if value.size % n == 0]
            self.do(f"{name} = {x}.reshape({self.dice.choice(shapes)})")
        elif kind == "expand":
            shape = (self.dice.choice([1, 2]), *(self.dice.choice([2, 3]) if n == 1 else n for n in value.shape))
            if len(shape) < 5:
                self.do(f"{name} = api.expand({x}, {shape})")
        else:
            self.do(f"{name} = api.{kind}({x})")

    def add_value(self):
        x = self.tensor()
        y = self.operand(x)
        texts = [f"api.clone({x})"]
        if self.names[x].ndim:  # NumPy makes a number of what has none
            texts += [f"{x} + {y}", f"{x} * {y}", f"{x} - {y}"]
            n = self.names[x].shape[0]
            texts.append(f"api.rows({x}, {[self.dice.randrange(n) for _ in range(3)]})")
        self.do(f"{self.fresh()} = {self.dice.choice(texts)}")

    def operand(self, x, inside=None):
        """A number, or a tensor that broadcasts to x (or to the part of it that is written): a clone where it shares
        some of x's memory, which a write that reads it refuses."""
        to = self.names[x] if inside is None else inside
        fits = []
        for k in self.all("v"):
            v = self.names[k]
            if v.dtype == to.dtype and broadcasts(v.shape, to.shape):
                fits.append(k if (k == x and inside is None) or not np.shares_memory(v, to) else f"api.clone({k})")
        return self.dice.choice([*fits, str(self.dice.randrange(-3, 4))]) if fits else "2"

    def add_write(self):
        x = self.writable("v")
        if not x:
            return
        value = self.names[x]
        kind = self.dice.choice(["+=", "*=", "-=", "index", "index", "indices", "mask", "copy_", "zero_"])
        if kind in ("+=", "*=", "-="):
            self.do(f"{x} {kind} {self.operand(x)}")
        elif kind in ("copy_", "zero_"):
            self.do(f"api.zero_({x})" if kind == "zero_" else f"api.copy_({x}, {self.operand(x, value)})")
        elif kind == "mask":
            self.do(f"{x}[{x} > {self.dice.randrange(-5, 5)}] = {self.dice.randrange(9)}")
        elif value.ndim:
            index = self.index(value.shape)
            if kind == "indices":
                n = value.shape[0]
                index = f"api.indices({self.dice.sample(range(n), self.dice.randrange(1, n + 1))})"
            part = np.asarray(eval(f"x[{index}]", {"x": value, "api": self.names["api"]}))
            self.do(f"{x}[{index}] = {self.operand(x, np.array(part) if kind == 'indices' else part)}")

    def add_alias(self):
        kind = self.dice.choice(["array", "array", "through_dlpack", "from_numpy", "from_dlpack"])
        if kind.startswith("from"):
            arrays = [k for k in self.all("a") if self.names[k].flags.writeable]
            if arrays:
                self.do(f"{self.fresh()} = api.{kind}({self.dice.choice(arrays)})")
        elif kind == "array":
            self.do(f"{self.fresh('a')} = api.array({self.tensor()})")
        else:
            self.do(f"{self.fresh()} = api.through_dlpack({self.tensor()})")

    def add_array_write(self):
        a = self.writable("a")
        if a:
            value = self.names[a]
            where = self.index(value.shape) if value.ndim else "..."
            self.do(f"{a}[{where}] {self.dice.choice(['=', '+=', '*='])} {self.dice.randrange(-4, 5)}")

    def set_data(self):
        """x.data = y, where nothing else is in x's memory."""
        x, y = self.tensor(), self.tensor()
        others = [v for k, v in self.names.items() if isinstance(v, np.ndarray) and k != x]
        if x != y and not any(np.shares_memory(self.names[x], v) for v in others):
            self.do(f"{x} = api.set_data({x}, {y})")

    def drop(self):
        names = self.all("v") + self.all("a")
        if len(self.all("v")) > 2:
            self.do(f"del {self.dice.choice(names)}")
            if not self.all("v"):
                self.add_tensor()

    def see(self):
        self.do(f"api.see({self.tensor()})")


def shrunk(lines, failure_of):
    """The lines without those that failing does not need."""
    failure = failure_of(lines)
    progress = failure is not None
    while progress:
        progress = False
        for at in reversed(range(len(lines))):
            fewer = lines[:at] + lines[at + 1 :]
            try:
                run(fewer, Model())
            except Exception:
                continue
            found = failure_of(fewer)
            if found:
                lines, failure, progress = fewer, found, True
    return lines, failure
