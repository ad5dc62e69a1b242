"""The contract of smolder.compile: whatever changes between two calls, a compiled function answers as the function does.

Programs are made of a kind of state, a way to read it and a place that the reading code is in; two kinds are combined in
some. Each is run by itself and compiled, in a namespace of its own, and the state is changed between calls.
SMOLDER_TEST_CHANGES is how many (2000), SMOLDER_TEST_SEED the first.
"""

import contextlib
import io
import os
import random
import sys
import textwrap
import warnings

import pytest
from compile_results import fresh  # noqa: F401

import smolder
from smolder.compiler import events

COUNT = int(os.environ.get("SMOLDER_TEST_CHANGES", "2000"))
FIRST = int(os.environ.get("SMOLDER_TEST_SEED", "0"))
CHUNK = 100

# For each kind: the expression of the state, expressions that read it, statements that change it.
OBJECT = "class Thing:\n    shade = 2.0\nthing = Thing()"
KINDS = {
    "global": ("number = 2.0", ["number", "[number][0]"], ["number = 3.0", "number = 2", "del number; number = 5.0"]),
    "numpy's random": (
        "import numpy as np\nfrom numpy import random as dice\ndraw = np.random.rand\nnp.random.seed(1)",
        ["float(dice.rand())", "float(draw())", "float(np.random.default_rng(3).random())"],
        ["np.random.seed(5)", "pass"],
    ),
    "a generator of NumPy": (
        "import numpy as np\nrng = np.random.default_rng(2)",
        ["float(rng.random())", "float(rng.integers(9))"],
        ["pass"],
    ),
    "random": ("import random\nfrom random import random as draw\nrandom.seed(1)", ["draw()", "random.random()"], ["pass"]),
    "subclass of int": (
        "class Count(int):\n    pass\ncount = Count(2)\ncount.extra = 3.0",
        ["count.extra", "count + count.extra", "vars(count)['extra']"],
        ["count.extra = 4.0", "count = Count(3); count.extra = 3.0"],
    ),
    "subclass of list": (
        "class Row(list):\n    gain = 1.0\nrow = Row([1.0, 2.0])",
        ["row[0] * row.gain", "sum(row) + row.gain", "len(row) * row.gain"],
        ["row.gain = 2.0", "row.append(4.0)", "row[0] = 7.0", "Row.gain = 5.0"],
    ),
    "subclass of a type in C": (
        "import random\nclass Dice(random.Random):\n    pass\ndice = Dice(3)",
        ["dice.random()", "dice.randint(0, 100)"],
        ["dice.seed(4)", "pass"],
    ),
    "deque": ("import collections\nqueue = collections.deque([1.0, 2.0])", ["queue[0]", "sum(queue)"], ["queue.rotate()", "queue.append(3.0)"]),
    "array": ("import array\nnumbers = array.array('d', [2.0])", ["numbers[0]"], ["numbers[0] = 3.0"]),
    "array of NumPy": ("import numpy as np\nnumbers = np.ones(3)", ["float(numbers[0])", "float(numbers.sum())"], ["numbers[0] = 3.0", "numbers *= 2"]),
    "bytearray": ("data = bytearray(b'ab')", ["data[0]", "len(data)"], ["data[0] = 5", "data.append(1)"]),
    "file": ("import io\nfile = io.StringIO('1\\n2\\n3\\n4\\n5\\n6\\n7\\n8\\n9\\n')", ["float(file.readline())", "float(file.tell()); file.read(1)"][:1], ["file.seek(0)", "file.readline()"]),
    "iterator": ("import itertools\nnumbers = iter(range(100))\ncount = itertools.count()", ["next(numbers)", "next(count)"], ["next(numbers), next(count)"]),
    "generator": ("numbers = (i for i in range(100))", ["next(numbers)"], ["next(numbers)"]),
    "weakref": (
        "import weakref\n" + OBJECT + "\nref = weakref.ref(thing)",
        ["ref().shade", "(ref().shade if ref() else 9.0)"][1:],
        ["thing = None", "thing.shade = 3.0"],
    ),
    "mapping proxy": (
        "import types\nraw = {'a': 2.0}\nview = types.MappingProxyType(raw)",
        ["view['a']", "len(view)"],
        ["raw['a'] = 3.0", "raw['b'] = 1.0"],
    ),
    "view of a __dict__": (
        OBJECT + "\nthing.shade = 2.0\nvalues = vars(thing).values()\nspace = thing.__dict__",
        ["sum(values)", "space['shade']", "len(space)"],
        ["thing.shade = 3.0", "thing.other = 1.0"],
    ),
    "another __dict__": (OBJECT, ["thing.shade"], ["thing.__dict__ = {'shade': 4.0}"]),
    "thread-local": (
        "import threading\nlocal = threading.local()\nlocal.k = 2.0\nclass Local(threading.local):\n    k = 1.0\nother = Local()",
        ["local.k", "other.k"],
        ["local.k = 3.0; other.k = 5.0"],
    ),
    "context variable": ("import contextvars\nvar = contextvars.ContextVar('v', default=2.0)", ["var.get()"], ["var.set(3.0)"]),
    "enum": (
        "import enum\nclass Color(enum.Enum):\n    RED = 2.0\nColor.RED.extra = 1.0",
        ["Color.RED.value", "Color['RED'].extra", "Color.RED.extra", "Color(2.0).extra"],
        ["Color.RED.extra = 5.0", "Color.RED._value_ = 7.0; Color.RED.extra = 6.0"],
    ),
    "metaclass": (
        "class Meta(type):\n    level = 2.0\n    @property\n    def twice(cls):\n        return cls.level * 2\nclass Thing(metaclass=Meta):\n    pass",
        ["Thing.level", "Thing.twice"],
        ["Meta.level = 3.0", "Thing.level = 4.0", "Meta.twice = property(lambda cls: 9.0); Meta.level = 1.0"],
    ),
    "__class__": (
        OBJECT + "\nclass Other:\n    shade = 5.0",
        ["thing.shade", "type(thing).shade"],
        ["thing.__class__ = Other"],
    ),
    "__bases__": (
        "class A:\n    k = 2.0\nclass B:\n    k = 3.0\nclass C(A):\n    pass\nc = C()",
        ["c.k", "C.k"],
        ["C.__bases__ = (B,)", "A.k = 4.0", "C.k = 1.0"],
    ),
    "ABC.register": (
        "import abc\nclass Base(abc.ABC):\n    pass\n" + OBJECT,
        ["(3.0 if isinstance(thing, Base) else 2.0)", "(3.0 if issubclass(Thing, Base) else 2.0)"],
        ["Base.register(Thing)"],
    ),
    "function attribute": (
        "def helper():\n    return 1.0\nhelper.k = 2.0",
        ["helper.k", "helper() + helper.k", "getattr(helper, 'other', 1.0)", "helper.__dict__.get('k')"],
        ["helper.k = 3.0; helper.other = 2.0"],
    ),
    "__defaults__": (
        "def helper(k=2.0, *, l=1.0):\n    return k + l",
        ["helper()", "helper.__defaults__[0]", "(lambda h: h.__defaults__)(helper)[0]"],
        ["helper.__defaults__ = (3.0,)", "helper.__kwdefaults__['l'] = 4.0; helper.__defaults__ = (5.0,)"],
    ),
    "__code__": ("def helper():\n    return 2.0", ["helper()"], ["helper.__code__ = (lambda: 3.0).__code__"]),
    "names of functions": ("def helper():\n    return 2.0\n" + OBJECT, ["len(helper.__name__)", "len(Thing.__name__)", "len(type(thing).__name__)"], ["helper.__name__ = 'other_name'; Thing.__name__ = 'Something'"]),
    "slots": (
        "class Slotted:\n    __slots__ = ('k', 'later', '__hidden')\n    def __init__(self):\n        self.k = 2.0\nslotted = Slotted()",
        ["slotted.k", "getattr(slotted, 'later', 1.0)", "(slotted.later if hasattr(slotted, 'later') else 1.0)"],
        ["slotted.k = 3.0; slotted.later = 4.0", "slotted.later = 5.0; slotted.k = 6.0"],
    ),
    "module attribute": (
        "import types\nmod = types.ModuleType('some_module')\nmod.k = 2.0\nclass Holder:\n    pass\nholder = Holder()\nholder.mod = mod",
        ["mod.k", "holder.mod.k", "getattr(mod, 'later', 1.0)", "(mod.later if hasattr(mod, 'later') else 1.0)"],
        ["mod.k = 3.0; mod.later = 5.0", "mod.later = 5.0; mod.k = 6.0"],
    ),
    "absent attribute": (OBJECT, ["getattr(thing, 'later', 1.0)", "(thing.later if hasattr(thing, 'later') else 1.0)"], ["thing.later = 3.0", "Thing.later = 3.0"]),
    "import inside": (
        "import sys, types\nmod = types.ModuleType('smolder_test_mod')\nmod.k = 2.0\nsys.modules['smolder_test_mod'] = mod\nnew = types.ModuleType('smolder_test_mod')\nnew.k = 7.0\ndef imported():\n    import smolder_test_mod\n    return smolder_test_mod.k\ndef taken():\n    from smolder_test_mod import k\n    return k",
        ["imported()", "taken()"],
        ["mod.k = 3.0", "sys.modules['smolder_test_mod'] = new"],
    ),
    "sys.modules": ("import sys, types\nmod = types.ModuleType('smolder_test_mod')\nmod.k = 2.0\nsys.modules['smolder_test_mod'] = mod\nmodules = sys.modules", ["sys.modules['smolder_test_mod'].k", "modules['smolder_test_mod'].k"], ["mod.k = 3.0"]),
    "lru_cache": (
        "import functools\nk = 2.0\n@functools.lru_cache\ndef cached():\n    return k",
        ["cached()"],
        ["k = 3.0; cached.cache_clear()", "k = 3.0"],
    ),
    "move_to_end": (
        "import collections\nordered = collections.OrderedDict(a=1.0, b=2.0, c=3.0)",
        ["next(iter(ordered.values()))", "list(ordered.values())[-1]", "ordered['b']"],
        ["ordered.move_to_end('a')", "ordered['b'] = 5.0", "ordered.pop('a')"],
    ),
    "order of a dict": ("d = {'a': 1.0, 'b': 2.0}", ["list(d.values())[0]", "[*d][0] == 'a'"], ["d['a'] = d.pop('a')"]),
    "getattr by another name": (
        "import operator\nfetch = getattr\nfrom operator import attrgetter as by\n" + OBJECT + "\nwhich = 'shade'",
        ["fetch(thing, 'sha' + 'de')", "by('sha' + 'de')(thing)", "object.__getattribute__(thing, 'sha' + 'de')", "operator.attrgetter(which)(thing)"],
        ["thing.shade = 3.0", "Thing.shade = 4.0"],
    ),
    "format": (
        "class Shown:\n    def __init__(self):\n        self.hidden = 2.0\n    def __format__(self, spec):\n        return str(self.hidden)\n    __str__ = __repr__ = lambda self: str(self.hidden)\nshown = Shown()",
        ["float(f'{shown}')", "float('{}'.format(shown))", "float(format(shown))", "float('{0.hidden}'.format(shown))", "float('%s' % shown)", "float(str(shown))"],
        ["shown.hidden = 3.0"],
    ),
    "partial": ("import functools\npart = functools.partial(lambda k, l=1.0: k + l, 2.0)", ["part()", "part.keywords.get('l', 3.0)", "part.args[0]"], ["part.keywords['l'] = 5.0", "part = functools.partial(lambda: 6.0)" if False else "part.keywords['l'] = 7.0"]),
    "environment": ("import os\nos.environ['SMOLDER_TEST_K'] = '2'", ["float(os.environ['SMOLDER_TEST_K'])", "float(os.getenv('SMOLDER_TEST_K'))"], ["os.environ['SMOLDER_TEST_K'] = '3'"]),
    "__getattr__": (
        "class Lazy:\n    store = {'k': 2.0}\n    def __getattr__(self, name):\n        try:\n            return self.store[name]\n        except KeyError:\n            raise AttributeError(name)\nlazy = Lazy()",
        ["lazy.k"],
        ["Lazy.store['k'] = 3.0", "lazy.k = 4.0", "Lazy.__getattr__ = lambda self, name: 8.0"],
    ),
    "__getattr__ that raises": ("class Wall:\n    k = 2.0\n    def __getattr__(self, name):\n        raise ValueError(name)\nwall = Wall()", ["wall.k"], ["wall.k = 3.0", "Wall.k = 4.0"]),
    "__getattribute__": ("log = []\nclass Watched:\n    k = 2.0\n    def __getattribute__(self, name):\n        log.append(name)\n        return object.__getattribute__(self, name)\nwatched = Watched()", ["watched.k + len(log)"], ["Watched.k = 3.0"]),
    "property": ("class P:\n    _k = 2.0\n    k = property(lambda self: self._k)\np = P()", ["p.k"], ["p._k = 3.0", "P.k = 4.0"]),
    "cached_property": ("import functools\nclass P:\n    base = 2.0\n    @functools.cached_property\n    def k(self):\n        return self.base\np = P()", ["p.k"], ["p.k = 3.0", "del p.k; P.base = 4.0" if False else "p.__dict__.pop('k', None); P.base = 4.0"]),
    "defaultdict": ("import collections\nd = collections.defaultdict(lambda: 2.0, a=1.0)", ["d['a']", "d.default_factory()"], ["d['a'] = 3.0; d.default_factory = lambda: 5.0"]),
    "set": ("s = {1.0, 2.0}", ["sum(s)", "len(s)"], ["s.add(5.0)", "s.clear()"]),
    "simple namespace": ("import types\nspace = types.SimpleNamespace(k=2.0)", ["space.k", "len(repr(space))"], ["space.k = 3.25"]),
    "dataclass": ("import dataclasses\n@dataclasses.dataclass\nclass Config:\n    k: float = 2.0\nconfig = Config()", ["config.k", "dataclasses.astuple(config)[0]", "dataclasses.replace(config).k", "len(repr(config))"], ["config.k = 3.25"]),
    "tensor attribute": ("w = smolder.ones(1)", ["getattr(w, 'scale', 1.0)", "(w.scale if hasattr(w, 'scale') else 1.0) * w"], ["w.scale = 3.0"]),
    "stack": ("import sys", ["len(sys._getframe().f_code.co_name)", "float(sys.getrecursionlimit())"], ["sys.setrecursionlimit(sys.getrecursionlimit() + 1)"]),
    "clock": ("import time\nclock = time.perf_counter", ["(clock() > 0) * 2.0", "(time.time() > 0) * 1.0"], ["pass"]),
    "replaced builtin": ("size = [1.0, 2.0]", ["len(size)", "max(size)"], ["len = lambda x: 7.0; max = lambda x: 9.0"]),
    "warning": ("import warnings\ndef warned():\n    warnings.warn('told')\n    return 2.0", ["warned()"], ["pass"]),
    "print": ("import functools, sys\nsay = functools.partial(print, 'said')\ndef said():\n    say()\n    return 2.0\ndef wrote():\n    sys.stdout.write('wrote')\n    return 2.0", ["said()", "wrote()"], ["pass"]),
    "counter": ("n = 0\ndef count():\n    global n\n    n += 1\n    return n", ["count()"], ["n = 10"]),
    "store": ("last = 0.0\ndef stores():\n    global last\n    last = 4.0\n    return 2.0", ["stores()"], ["last = 0.0"]),
    "logging": ("import logging\nlogger = logging.getLogger('smolder_test')\nlogger.setLevel(30)\ndef logs():\n    return 2.0 if logger.isEnabledFor(20) else 3.0", ["logs()"], ["logger.setLevel(10)"]),
    "threads": ("smolder_threads = smolder.get_num_threads", ["smolder_threads() * 0 + 1.0"], ["pass"]),
}  # fmt: skip
PLACES = {
    "inline": "def f(x):\n    return x * ({})",
    "helper": "def get():\n    return {}\ndef f(x):\n    return x * get()",
    "method": "class Reader:\n    def read(self, x):\n        return x * ({})\nf = Reader().read",
    "closure": "def make(k):\n    def f(x):\n        return x * ({}) * k\n    return f\nf = make(1.0)",
    "lambda": "f = lambda x: (lambda: x * ({}))()",
    "comprehension": "def f(x):\n    return sum([x * ({}) for _ in range(2)])",
    "module": "class Layer(smolder.nn.Module):\n    def forward(self, x):\n        return x * ({})\nf = Layer()",
    "partial": "import functools\nf = functools.partial(lambda a, x: x * ({}), 1)",
    "with": "def f(x):\n    with smolder.no_grad():\n        return x * ({})",
}


class Case:
    """A program and its change."""

    def __init__(self, seed):
        dice = random.Random(seed)
        names = list(KINDS)
        self.kind = names[seed % len(names)]
        setup, reads, changes = KINDS[self.kind]
        read, self.change = dice.choice(reads), dice.choice(changes)
        if dice.random() < 0.3:
            other = dice.choice(names)
            more, other_reads, _ = KINDS[other]
            if other != self.kind:
                setup, read = setup + "\n" + more, f"({read}) + ({dice.choice(other_reads)})"
        place = PLACES[dice.choice(list(PLACES))].format(read)
        self.text = f"import smolder\n{setup}\n{place}\n"
        self.before, self.after = dice.randrange(1, 4), dice.randrange(1, 3)

    def run(self, compile):
        """The results, prints and warnings of the calls; and the state that they leave."""
        out, said = [], io.StringIO()
        space = {"__name__": "program", "__builtins__": __builtins__}
        limit = sys.getrecursionlimit()
        with contextlib.redirect_stdout(said), warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            exec(self.text, space)
            space["f"] = compile(space["f"])
            try:
                for i in range(self.before + self.after):
                    try:
                        if i == self.before:
                            exec(self.change, space)
                        out.append(space["f"](smolder.ones(2)).tolist())
                    except Exception as error:
                        out.append(repr(error))
            finally:
                sys.setrecursionlimit(limit)
                sys.modules.pop("smolder_test_mod", None)
        left = {k: v for k, v in space.items() if type(v) in (int, float, list, dict, set)}
        (
            left.pop("space", None),
            left.pop("__builtins__", None),
            left.pop("modules", None),
            left.pop("__warningregistry__", None),
        )
        return out, said.getvalue(), [str(w.message) for w in told], repr(left)


@pytest.mark.parametrize("first", range(FIRST, FIRST + COUNT, CHUNK))
def test_whatever_changes_a_compiled_function_answers_as_the_function(first):
    stale = []
    for seed in range(first, min(first + CHUNK, FIRST + COUNT)):
        case = Case(seed)
        events.clear()
        want, got = case.run(lambda f: f), case.run(smolder.compile)
        if got != want:
            stale.append(f"seed {seed}, {case.kind}: {got} is not {want}, after {case.change!r} of\n{case.text}")
    assert not stale, "\n\n".join(map(textwrap.dedent, stale))
