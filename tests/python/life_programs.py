"""Random programs of training as people write it, run by Smolder or by torch: hooks, retained graphs, gradients of
gradients, modes that are switched, writes that break a graph, branches on values, compiled functions whose closures
change, and optimizers with groups of parameters.

    python life_programs.py torch NUMBER       says what a program left
    python life_programs.py torch all PATH     writes there what torch leaves of each
    python life_programs.py torch to PATH      the same in brief
    python life_programs.py smolder from PATH  keeps those of which Smolder leaves the same: the golden file

Statements that raise are noted with the class of Python's that catches the error. Numbers are of float64, so that
what differs in the last digits is told from what is wrong.
"""

import contextlib
import copy
import importlib
import json
import pickle
import sys
import warnings
from pathlib import Path

import numpy as np
from container_programs import Dice, digest
from limits import words

GOLDEN = Path(__file__).parents[1] / "golden/life_programs.json"
PROGRAMS = 300

SHAPES = ["(2, 3)", "(3,)", "(2, 3)", "(3, 3)", "()", "(0, 3)", "(2, 1, 3)", "(1, 3)"]
PLAIN = ["float64", "float64", "float64", "int64", "bool", "int32", "float64", "uint8", "float32"]
NUMBERS = words("2 -1 0.5 3 0 True 1.5 inf nan")

# {p} a leaf that wants a gradient, {x} {y} any values, {z} where a result goes, {k} a number, {f} a smooth function
SMOOTH = words("sin tanh exp sigmoid square cos erf atan")
MAKES = """
{z} = {x}.{f}()
{z} = {p}.{f}() * {k}
{z} = {p} * {q}
{z} = {x} * {y}
{z} = {x} + {y}
{z} = {x} / ({y}.abs() + 1)
{z} = T.where({x} > 0, {x}, {y})
{z} = {x}.double().softmax(-1)
{z} = {x}.double().log_softmax(0)
{z} = {x}.sum(-1)
{z} = {x}.double().mean(0, keepdim=True)
{z} = {x}.amax(-1)
{z} = {x}.double().norm()
{z} = {x}.double().var(-1)
{z} = {x}.double().logsumexp(-1)
{z} = {x}.cumsum(0)
{z} = {x}.prod(-1)
{z} = {x}.sort(-1)[0]
{z} = {x}.flip(0)
{z} = {x}.view(-1)
{z} = {x}.reshape(-1)[::2]
{z} = {x}[..., 1:]
{z} = {x}[..., None, 0]
{z} = {x}.transpose(0, -1)
{z} = {x}[0]
{z} = {x}[{x} > 0]
{z} = {x}.t()[1:].T
{z} = {x}.unfold(-1, 2, 1)
{z} = {x}.expand(2, *{x}.shape)
{z} = {x}.detach()
{z} = {x}.detach().requires_grad_()
{z} = {x}.clone()
{z} = {x}.double()
{z} = {x}.to(T.{d})
{z} = {x}.unbind(-1)[0]
{z} = {x}.chunk(2, -1)[-1]
{z} = T.cat([{x}, {y}], -1)
{z} = T.stack([{x}, {x}])
{z} = T.einsum('...i,...i->...', {x}.double(), {x}.double())
{z} = {x}.double() @ {p}.view(-1)[:3]
{z} = {p}.view(-1).outer({q}.view(-1))
{z} = F.layer_norm({x}.double(), (3,), {p}.view(-1)[:3])
{z} = F.gelu({x}.double())
{z} = F.softplus({x}.double(), 2)
{z} = m({x}.double())
{z} = m({x})
{z} = F.mse_loss({x}.double(), {y}.double())
{z} = F.cross_entropy({x}.double(), ({x}.sum(-1) > 1).long())
{z} = F.dropout({x}.double(), 0.0)
{z} = T.nan_to_num({x}, 1.0, 2.0, -2.0)
{z} = {x}.masked_fill({x} != {x}, {k})
{z} = {x}.clamp(0, 2)
{z} = {x} % 3
{z} = {x} ** 2
{z} = {x}.gather(-1, ({x} > 1).long())
{z} = {x}.scatter_add(-1, ({x} > 1).long(), {x})
{z} = {x}.index_select(-1, T.tensor([0, 0, 1]))
{z} = {x}[T.tensor([1, 0, 1])]
{z} = T.zeros_like({x}).copy_({y})
{z} = {x}.new_zeros({x}.shape)
{z} = {x}.topk(2)[0]
{z} = {x}.diff()
{z} = T.autograd.functional.jacobian(lambda t: (t * t).sum(-1), {x}.double())
{z} = T.func.grad(lambda t: (t.{f}() * {p}).sum())({x}.double())
{z} = T.func.vmap(lambda t: t.{f}().sum())({x}.double())
{z} = T.func.jvp(lambda t: t.{f}(), ({x}.double(),), (T.ones_like({x}.double()),))[1]
{z} = T.func.functional_call(m, dict(m.named_parameters()), ({x}.double(),))
{z} = T.func.hessian(lambda t: t.{f}().sum())({q}.detach().view(-1))
{z} = T.utils.checkpoint.checkpoint(lambda t: t.{f}() * {p}, {x}.double(), use_reentrant=False)
{z} = Twice.apply({x}.double())
{z} = Twice.apply({p})
{z} = copy.deepcopy({p})
{z} = pickle.loads(pickle.dumps({p}))
{z} = nn.Parameter({x}.detach().double())
""".strip().splitlines()
WRITES = """
{x}.add_({k})
{x}.mul_({y})
{x}.copy_({y})
{x}[0] = {k}
{x}[..., 0] *= {y}
{x}[..., :1] = {y}
{x}[{x} > 0] = {k}
{x} += {y}
{x} *= {k}
{x}.zero_()
{x}.{f}_()
{x}.clamp_(0, 2)
{x}.detach_()
{x}.requires_grad_()
{x}.requires_grad_(False)
{x}.t_()
{x}.unsqueeze_(0)
{x}.squeeze_()
{x}.view(-1).mul_({k})
{x}.view(-1)[1:] += {x}.view(-1)[:-1]
{x}.transpose(0, -1).add_({y})
{x}.detach().add_(1)
{x}.data.mul_(2)
{x}.data = {y}
{x}.masked_fill_({y} > 0, {k})
{x}.index_add_(-1, T.tensor([0, 1]), {y})
{x}.scatter_(-1, ({x} > 1).long(), {k})
{x}.fill_({y}.sum())
{x}.cumsum_(-1)
{p}.add_(1)
{p}.data.add_(0.5)
{p}.data = {x}
{p}.view(-1)[0] = 2
{p}.grad = {p} * 2
{p}.grad = None
{p}.grad = T.ones_like({p})
{p}.grad.mul_(2)
{p}.requires_grad_(False)
{p}.requires_grad_()
T.add({x}, {y}, out={z})
T.mul({p}, {q}, out={z})
T.nn.init.constant_({p}, 0.25)
F.relu({x}, inplace=True)
F.dropout({x}, 0.0, inplace=True)
""".strip().splitlines()
GRADS = """
{x}.sum().backward()
{x}.double().sum().backward()
{x}.sum().backward(retain_graph=True)
{x}.backward(T.ones_like({x}))
{x}.square().sum().backward(inputs=[{p}])
({p} * {q}).sum().backward()
m({p}).square().sum().backward()
{z} = T.autograd.grad({x}.sum(), {p})[0]
{z} = T.autograd.grad({x}.square().sum(), [{p}, {q}], allow_unused=True)[0]
{z} = T.autograd.grad({x}.square().sum(), {p}, create_graph=True)[0]
{z} = T.autograd.grad({p}.{f}().sum(), {p}, create_graph=True)[0]
{z} = T.autograd.grad(T.autograd.grad(({p}.{f}() * {q}).sum(), {p}, create_graph=True)[0].square().sum(), [{q}])[0]
{z} = T.autograd.grad({x}, {y}, T.ones_like({x}), retain_graph=True)[0]
{z} = T.autograd.grad({x}.sum(), {y}, materialize_grads=True, allow_unused=True)[0]
{z} = T.autograd.grad({p}.{f}(), {p}, T.eye({p}.numel()).double().view(-1, *{p}.shape), is_grads_batched=True)[0]
{x}.sum().backward(create_graph=True)
{x}.retain_grad()
{x}.register_hook(lambda g: g * 2)
{x}.register_hook(lambda g: note(g.sum()))
{p}.register_hook(lambda g: g + 1)
{p}.register_hook(lambda g: None)
h = {p}.register_hook(lambda g: g * 3)
h.remove()
{p}.register_post_accumulate_grad_hook(lambda t: note(t.grad.sum()))
{p}.register_post_accumulate_grad_hook(lambda t: setattr(t, 'grad', None))
h = m.register_forward_hook(lambda s, a, out: out * 2)
h = m.register_forward_pre_hook(lambda s, a: (a[0] + 1,))
h = m.register_full_backward_hook(lambda s, i, o: note(o[0].sum()))
h = m[0].register_full_backward_hook(lambda s, i, o: (i[0] * 2 if i[0] is not None else None,))
h = T.autograd.graph.register_multi_grad_hook([{p}, {q}], lambda g: note(len(g)))
T.autograd.backward([{x}.sum(), {y}.sum()])
note(gradcheck(lambda t: t.{f}() * {p}, {q}))
T.nn.utils.clip_grad_norm_([p0, p1, p2], 0.5)
T.nn.utils.clip_grad_value_(p0, 0.1) if p0.grad is not None else None
""".strip().splitlines()
FLOW = """
{z} = {x} * 2 if {y}.sum() > 0 else {x} - 1
{z} = {x} * {y}.sum().item()
{z} = {x}[:int({y}.long().abs().sum()) % 3]
{z} = sum((row * i for i, row in enumerate({x})), {y} * 0)
{z} = {z} if bool({x}.any()) else {y}
{z} = repeated({x}, lambda t: t * 0.5, lambda t: bool(t.double().abs().sum() > 1))
{z} = T.stack([{x}, {x} + 1])[({y}.sum() > 0).long()]
{z} = {x}.repeat(len({y}), 1)
note({x}.tolist())
note({x}.item())
note(int({x}.sum()))
note(float({x}.sum()))
note(bool({x}))
note({x}.is_contiguous(), {x}.stride(), {x}.storage_offset())
note({x}.requires_grad, {x}.is_leaf, {x}.grad_fn is None)
note({x}._base is None, {x}._version)
note({x} is {y}, {x}.data_ptr() == {y}.data_ptr())
note(T.equal({x}, {y}), T.allclose({x}.double(), {p}.sum()))
note(2 in {x}, list({x}.shape), {x}.nonzero().tolist())
note(T.is_grad_enabled(), T.is_inference_mode_enabled())
{x}, {y} = {y}, {x}
del v3
v3 = made('float64', (2, 3), 9)
{z} = drawn((2, 3))
{z} = T.zeros(2, 3).double().uniform_(1.0, 1.0) + {x}
T.manual_seed(1)
note({x}.data.sum())
note(sorted(o.state_dict()['state']), [len(g['params']) for g in o.param_groups])
""".strip().splitlines()
CLOSURES = """
{z} = called(lambda t: t * k[0] + {p}, {x}, k)
{z} = called(lambda t: (t * {p}).sum() * k[0], {x}.double(), k)
{z} = called(lambda t: m(t) if k[0] > 1 else t, {x}.double(), k)
{z} = called(lambda t: t + len(k), {x}, k)
{z} = called(lambda t: t.add_(k[0]), {x}, k)
{z} = called(lambda t: t.sum() if t.requires_grad else t * k[0], {x}, k)
{z} = called(lambda t: (t.detach() * {p}), {x}, k)
{z} = called(lambda t: {p}.mul(t).{f}(), {y}, k)
{z} = called(lambda t: [t, t.view(-1)][k[0] % 2], {x}, k)
{z} = called(lambda t, w={p}: t * w, {x}, k)
{z} = called(lambda t: T.autograd.grad((t * {p}).{f}().sum(), {p})[0], {x}.detach(), k)
{z} = called(lambda t: t * 2 if T.is_grad_enabled() else t, {x}, k)
{z} = called(lambda t: {x}.mul_(1) + t, {y}, k)
{z} = called(lambda t: t[k[0] % 2:], {x}, k)
{z} = called(lambda t: t * {x}.sum().item(), {y}, k)
{z} = called(lambda t: m.train(k[0] == 2)(t), {x}.double(), k)
{z} = called(lambda t: (note(k[0]), t)[1], {x}, k)
{z} = called(lambda t: t.{f}() if t.sum() > 0 else -t, {x}.double(), k)
k.append(2)
k[0] = 1
k[0] = 3
""".strip().splitlines()
STEPS = """
o.step()
o.step(lambda: loss({p} * {q}))
o.zero_grad()
o.zero_grad(set_to_none=False)
o.param_groups[0]['lr'] = 0.05
o.param_groups[-1]['weight_decay'] = 0.1
o.param_groups[-1]['lr'] *= 0.5
o.add_param_group({{'params': [{p}]}})
o.add_param_group({{'params': [{p}], 'lr': 0.3}})
o.load_state_dict(o.state_dict())
o.load_state_dict(copy.deepcopy(o.state_dict()))
o = pickle.loads(pickle.dumps(o))
s.step()
s = T.optim.lr_scheduler.StepLR(o, 1, 0.5)
s = T.optim.lr_scheduler.CosineAnnealingLR(o, 4)
o = T.optim.{O}
o.param_groups[0]['params'].pop()
loss({p} * {q}); o.step()
loss(m({p})); o.step()
loss({x} * {p}); o.step(); o.zero_grad()
m.eval()
m.train()
m.requires_grad_(False)
m[0].weight.requires_grad_(True)
m.load_state_dict(m.state_dict())
m.zero_grad()
m.double()
m = copy.deepcopy(m)
m[0].weight = nn.Parameter(m[0].weight * 2)
m.register_buffer('b', {x})
""".strip().splitlines()
OPTIMIZERS = """
SGD([{{'params': [p0]}}, {{'params': [p1, p2], 'lr': 0.2, 'momentum': 0.9}}], lr=0.1)
SGD([p0, p1, p2], lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.1)
SGD([p0, p1], lr=0.1, maximize=True, dampening=0.5, momentum=0.5)
Adam([{{'params': [p0], 'betas': (0.8, 0.9)}}, {{'params': [p1]}}, {{'params': [p2], 'amsgrad': True}}], lr=0.05)
AdamW([p0, p1, p2], lr=0.05, weight_decay=0.2)
AdamW([*m.parameters(), p0], lr=0.05)
RMSprop([{{'params': [p0], 'centered': True}}, {{'params': [p1, p2], 'momentum': 0.5}}], lr=0.05)
Adagrad([p0, p1, p2], lr=0.1, lr_decay=0.1)
Adadelta([p0, p1], rho=0.8)
Adamax([p1, p2], lr=0.05)
NAdam([p0, p1], lr=0.05)
RAdam([p0, p2], lr=0.05)
Rprop([p0, p1], lr=0.05)
ASGD([p0, p1], lr=0.05)
""".strip().splitlines()
AROUND = """
with T.no_grad(): {}
with T.inference_mode(): {}
with T.enable_grad(): {}
with T.set_grad_enabled({p}.requires_grad): {}
with T.autograd.set_detect_anomaly(True): {}
with T.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t): {}
with T.autograd.graph.save_on_cpu(): {}
with T.no_grad(), T.enable_grad(): {}
with T.inference_mode(), T.inference_mode(False): {}
for k[0] in range(1, 4): {}
for _ in range(2): {}
if {x}.sum() > 0: {}
T.no_grad()(lambda: ({}))()
T.inference_mode()(lambda: ({}))()
""".strip().splitlines()
KINDS = [MAKES, MAKES, MAKES, WRITES, WRITES, GRADS, GRADS, FLOW, CLOSURES, STEPS]


def filled(text, dice):
    p, q = dice.of(["p0", "p1", "p2"]), dice.of(["p0", "p1", "p2"])
    values = ["v0", "v1", "v2", "v3", "p0", "v0", "v1", "v2"]
    own = {"x": dice.of(values), "y": dice.of(values), "z": dice.of(values[:4]), "k": dice.of(NUMBERS)}
    own |= {"p": p, "q": q, "f": dice.of(SMOOTH), "d": dice.of(PLAIN)}
    if "{O}" in text:
        text = text.replace("{O}", dice.of(OPTIMIZERS))
    return text.format(**own)


def statement(dice):
    text = filled(dice.of(dice.of(KINDS)), dice)
    if dice.of("012345") == "0":
        around = dice.of(AROUND)
        if "lambda: (" in around:
            text = text if " = " not in text and not text.startswith(("del", "h.")) and "+= " not in text else "None"
            text = "None" if "= " in text or ";" in text else text
        text = filled(around.replace(": {}", ": {{}}").replace("({})", "({{}})"), dice).replace("{}", text)
    return text


def programs():
    for i in range(PROGRAMS):
        dice = Dice(f"life {i}")
        begin = []
        for n in range(4):
            begin.append(f"v{n} = made({dice.of(PLAIN)!r}, {dice.of(SHAPES)}, {n})")
        begin += [f"p{n} = made('float64', {dice.of(SHAPES[:4])}, {n + 10}).requires_grad_()" for n in range(3)]
        if dice.of("0123") == "0":
            begin.append(f"v0 = special({dice.of(['(2, 3)', '(3,)'])})")
        begin.append(f"o = T.optim.{dice.of(OPTIMIZERS).format()}")
        yield [*begin, *(statement(dice) for _ in range(6 + i % 12))]


class Run:
    """Runs statements. `compile` is what functions go through."""

    def __init__(self, T, compile=None):
        self.T, self.compile, self.noted = T, compile or (lambda f: f), []
        nn = T.nn
        m = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Dropout(0.0), nn.LayerNorm(3)).double()
        with T.no_grad():
            for n, p in enumerate(m.parameters()):
                p.copy_(self.made("float64", tuple(p.shape), n + 20))

        class Twice(T.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x * x

            @staticmethod
            def backward(ctx, grad):
                return grad * 2 * ctx.saved_tensors[0]

        self.names = {"T": T, "F": nn.functional, "nn": nn, "m": m, "Twice": Twice, "copy": copy, "pickle": pickle}
        own = "made special called repeated note loss drawn gradcheck"
        self.names |= {name: getattr(self, name) for name in own.split()} | {
            "k": [2],
            "h": None,
            "inf": np.inf,
            "nan": np.nan,
        }
        exec("s = T.optim.lr_scheduler.LambdaLR(T.optim.SGD([T.zeros(1)], lr=1.0), lambda n: 1.0)", self.names)

    def made(self, dtype, shape, n):
        array = np.random.default_rng(n).integers(0 if dtype == "uint8" else -6, 7, shape)
        array = array > 0 if dtype == "bool" else array / 4 if dtype.startswith("float") else array
        return self.T.tensor(array, dtype=getattr(self.T, dtype))

    def special(self, shape):
        array = np.resize([np.nan, 1.5, np.inf, -0.0, -np.inf, 1e300], shape)
        return self.T.tensor(array, dtype=self.T.float64)

    def called(self, function, x, k):
        """Three times, after what it closes over has changed, and without gradients."""
        function, before = self.compile(function), list(k)
        out = function(x)
        k[0] += 1
        out = function(x) + out.sum()
        k.append(0)
        with self.T.no_grad():
            self.note(function(x))
        k[:] = before
        return out

    def repeated(self, x, step, more):
        for _ in range(6):
            if not more(x):
                break
            x = step(x)
        return x

    def drawn(self, shape):
        x = self.T.rand(shape, dtype=self.T.float64)
        self.note(bool((x >= 0).all() and (x < 1).all()))
        return x.ceil() + (x == 0)

    def loss(self, x):
        out = x.double().square().sum()
        out.backward()
        return out

    def gradcheck(self, function, x):
        return self.T.autograd.gradcheck(function, (x,), raise_exception=False)

    def note(self, *found):
        self.noted.append([self.value(x) for x in found])

    def value(self, x):
        if isinstance(x, self.T.Tensor):
            try:
                dtype = str(x.dtype).rpartition(".")[2]
                return [dtype, list(x.shape), x.detach().to(self.T.float64).reshape(-1).tolist()]
            except Exception as error:
                return kind(error)
        if isinstance(x, float):
            return ["number", [], [x]]
        if isinstance(x, list):
            return [self.value(y) for y in x]
        return repr(x).replace(self.T.__name__, "T")

    def said(self, use):
        try:
            return use()
        except Exception as error:
            return kind(error)

    def left(self, statements, between=lambda names: None):
        """The errors of the statements that raised, and what is left."""
        raised = {}
        for i, s in enumerate(statements):
            try:
                exec(s, self.names)
            except Exception as error:
                # Not the error: its frames would keep torch's checkpoint from taking its hooks back.
                raised[i] = [kind(error), str(error)[:150]]
            between(self.names)
        each = {n: self.names.get(n) for n in words("v0 v1 v2 v3 p0 p1 p2")}
        each |= {f"m.{n}": p for n, p in self.names["m"].named_parameters()}
        out = {"noted": self.noted}
        for n, t in each.items():
            out[n] = self.said(lambda t=t: self.about(t))
        out["groups"] = self.said(lambda: [[g["lr"], len(g["params"])] for g in self.names["o"].param_groups])
        out["groups"] = self.value(out["groups"])
        return out, raised

    def about(self, t):
        flags = [t.requires_grad, t.is_leaf, t.grad_fn is None, t.is_inference()]
        grad = t.grad if t.is_leaf or t.retains_grad else None
        return [repr(flags), self.value(t), self.value(grad)]


def kind(error):
    """The class of Python's that catches it; of NotImplementedError that of which it is one."""
    name = next(c.__name__ for c in type(error).__mro__ if c.__module__ == "builtins")
    return "RuntimeError" if name == "NotImplementedError" else name


def run(T, statements, compile=None, between=lambda names: None):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with contextlib.redirect_stdout(None):
            return Run(T, compile).left(statements, between)


def brief(value):
    """The values left, with the digits that every order of their sums has; of floats of 32 bits no elements."""
    if isinstance(value, dict):
        return {name: brief(x) for name, x in value.items()}
    if isinstance(value, list) and len(value) == 3 and str(value[0]) in [*PLAIN, "number"]:
        dtype, shape, elements = value
        return [dtype, shape, [rounded(x) for x in elements] if dtype != "float32" else []]
    return [brief(x) for x in value] if isinstance(value, list) else value


def rounded(x):
    return f"{x:.6g}" if abs(x) > 1e-7 else "nan" if x != x else "0"


def everything(T):
    """Each program's values, and by statement the class of the error and its text."""
    for p in programs():
        with T.eager() if T.__name__ == "smolder" else contextlib.nullcontext():
            yield run(T, p)


def kept(found):
    """A program's entry in the golden file: a digest and the statements that raised."""
    return " ".join([digest(json.dumps(brief(found[0]))), *(f"{i}:{name}" for i, (name, _) in found[1].items())])


if __name__ == "__main__":
    T = importlib.import_module(sys.argv[1])
    if len(sys.argv) == 3:
        program = list(programs())[int(sys.argv[2])]
        print("\n".join(program))
        out, raised = run(T, program)
        print(json.dumps(out, indent=1), raised)
    elif sys.argv[2] == "to":
        Path(sys.argv[3]).write_text(json.dumps([kept(found) for found in everything(T)]))
    elif sys.argv[2] == "all":
        Path(sys.argv[3]).write_text(json.dumps(dict(enumerate(everything(T)))))
    else:
        theirs, ours = json.loads(Path(sys.argv[3]).read_text()), map(kept, everything(T))
        lines = [json.dumps(a if a == b else "") for a, b in zip(theirs, ours, strict=True)]
        GOLDEN.write_text("[" + ",\n".join(lines) + "]\n")
