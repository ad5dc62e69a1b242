"""Steps of optimizers under a GradScaler, of which some have gradients that are not finite; its state, and its mistakes."""

import pickle

INF, NAN = float("inf"), float("nan")
BAD = {0: INF, 3: NAN, 4: -INF}


def scaler(**options):
    return T.amp.GradScaler("cpu", **({"init_scale": 8.0, "growth_interval": 2} | options))


def trained(make, bad=BAD, steps=9, clip=False, **options):
    """Parameters, the optimizer's state and the scaler's, after steps that in part are skipped."""
    a, b = arr(3, 4).requires_grad_(), arr(4).requires_grad_()
    optimizer, s = make([a, b]), scaler(**options)
    seen = []
    for i in range(steps):
        optimizer.zero_grad()
        loss = ((a * (b + 0.1 * i)) ** 2).sum() * bad.get(i, 1.0)
        s.scale(loss).backward()
        if clip:
            s.unscale_(optimizer)
            seen.append(nn.utils.clip_grad_norm_([a, b], 1.0))
        s.step(optimizer)
        s.update()
        seen += [s.get_scale(), a.detach().clone()]
    state = optimizer.state_dict()["state"]
    numbers = [float(v) for p in state.values() for k, v in sorted(p.items()) if k == "step"]
    tensors = [
        v for p in state.values() for k, v in sorted(p.items()) if v is not None and k not in ("step", "mu_product")
    ]
    return [seen, a, b, s.state_dict(), numbers, tensors]


O = T.optim
MAKERS = {
    "SGD": lambda p: O.SGD(p, lr=0.01),
    "SGD momentum": lambda p: O.SGD(p, lr=0.01, momentum=0.9),
    "SGD nesterov": lambda p: O.SGD(p, lr=0.01, momentum=0.9, nesterov=True, weight_decay=0.1),
    "SGD dampening": lambda p: O.SGD(p, lr=0.01, momentum=0.9, dampening=0.3),
    "Adam": lambda p: O.Adam(p, lr=0.01),
    "Adam amsgrad": lambda p: O.Adam(p, lr=0.01, amsgrad=True, weight_decay=0.1),
    "AdamW": lambda p: O.AdamW(p, lr=0.01),
    "AdamW groups": lambda p: O.AdamW([{"params": p[:1]}, {"params": p[1:], "lr": 0.1}], lr=0.01),
    "RMSprop": lambda p: O.RMSprop(p, lr=0.01, momentum=0.5, centered=True),
    "Adagrad": lambda p: O.Adagrad(p, lr=0.01, lr_decay=0.1),
    "Adadelta": lambda p: O.Adadelta(p, lr=0.5),
    "Adamax": lambda p: O.Adamax(p, lr=0.01),
    "NAdam": lambda p: O.NAdam(p, lr=0.01),
    "NAdam groups": lambda p: O.NAdam([{"params": p[:1]}, {"params": p[1:], "betas": (0.8, 0.9)}], lr=0.01),
    "RAdam": lambda p: O.RAdam(p, lr=0.01),
}
for name, make in MAKERS.items():
    case(f"{name}", lambda: trained(make))
    case(f"{name} fine", lambda: trained(make, bad={}))
    case(f"{name} clipped", lambda: trained(make, clip=True))
    case(f"{name} disabled", lambda: trained(make, bad={}, enabled=False)[1:3])


def some_without_gradient():
    """Parameters that take turns: each counts its own steps."""
    a, b = arr(3).requires_grad_(), arr(3).requires_grad_()
    optimizer, s = O.Adam([a, b], lr=0.01), scaler()
    for i in range(6):
        optimizer.zero_grad()
        s.scale(((a if i % 3 else b) ** 2).sum() * (INF if i == 2 else 1.0)).backward()
        s.step(optimizer)
        s.update()
    return [a, b, [float(optimizer.state[p]["step"]) for p in (a, b)]]


def interleaved_with_plain():
    """Steps with the scaler, then without, then saved and loaded."""
    a = arr(3).requires_grad_()
    optimizer, s = O.Adam([a], lr=0.01), scaler()
    for i in range(6):
        optimizer.zero_grad()
        if i < 3:
            s.scale((a**2).sum() * (INF if i == 1 else 1.0)).backward()
            s.step(optimizer)
            s.update()
        else:
            (a**2).sum().backward()
            optimizer.step()
        if i == 4:
            other = O.Adam([a], lr=0.01)
            other.load_state_dict(optimizer.state_dict())
            optimizer = other
    return [a, float(optimizer.state[a]["step"])]


case("turns", some_without_gradient)
case("then plain", interleaved_with_plain)


def given(dtype="float32"):
    p = arr(3).to(getattr(T, dtype)).requires_grad_()
    return p, O.SGD([p], lr=0.1), scaler()


def backward(p, s):
    s.scale((p.float() ** 2).sum()).backward()


def twice(*calls, dtype="float32", run=True):
    def body():
        p, optimizer, s = given(dtype)
        if run:
            backward(p, s)
        for call in calls:
            getattr(s, call)(*(() if call == "update" else (optimizer,)))

    return text_of(body)


def text_of(function):
    """torch's words, of an error that has them."""
    try:
        function()
    except Exception as error:
        return [type(error).__name__, str(error)]
    return "fine"


case("unscale twice", lambda: twice("unscale_", "unscale_"))
case("unscale after step", lambda: twice("step", "unscale_"))
case("step twice", lambda: twice("step", "step"))
case("step, update, step", lambda: twice("step", "update", "step"))
case("update first", lambda: twice("update"))
case("no scale", lambda: twice("step", run=False))
case("no scale, update", lambda: twice("update", run=False))
case("no scale, unscale", lambda: twice("unscale_", run=False))
case("float16", lambda: twice("step", dtype="float16"))
case("bfloat16", lambda: twice("step", "update", dtype="bfloat16"))
case("growth", lambda: text_of(lambda: T.amp.GradScaler("cpu", growth_factor=1.0)))
case("backoff", lambda: text_of(lambda: T.amp.GradScaler("cpu", backoff_factor=1.0)))
case("scale of text", lambda: text_of(lambda: scaler().scale(3)))


def no_gradients():
    _, optimizer, s = given()
    s.scale(arr(2))
    s.step(optimizer)


def closure():
    p, optimizer, s = given()
    backward(p, s)
    s.step(optimizer, closure=lambda: 1)


case("no gradients", lambda: text_of(no_gradients))
case("closure", lambda: text_of(closure))


def settings():
    s = scaler(init_scale=4.0)
    before = s.state_dict()
    s.set_growth_factor(3.0)
    s.set_backoff_factor(0.25)
    s.set_growth_interval(7)
    got = [s.get_growth_factor(), s.get_backoff_factor(), s.get_growth_interval(), s.get_scale(), s.is_enabled()]
    other = scaler()
    other.load_state_dict(s.state_dict())
    other.scale(arr(2))
    other.load_state_dict({**s.state_dict(), "scale": 32.0, "_growth_tracker": 5})
    off = scaler(enabled=False)
    return [before, got, other.state_dict(), off.state_dict(), off.get_scale(), off.is_enabled(), off.scale(3)]


def set_scale():
    s = scaler()
    s.scale(arr(2))
    s.update(2.5)
    first = s.get_scale()
    s.update(T.tensor(4.5))
    return [first, s.get_scale(), text_of(lambda: s.update(T.tensor([1.0, 2.0])))[0]]


def several():
    s = scaler()
    return [*s.scale([arr(2), (arr(2, 3),)]), s.scale(arr(2).double()), s.scale(arr().half())]


def two_optimizers():
    a, b = arr(3).requires_grad_(), arr(3).requires_grad_()
    first, second, s = O.SGD([a], lr=0.1), O.Adam([b], lr=0.1), scaler()
    for i in range(4):
        first.zero_grad()
        second.zero_grad()
        s.scale((a**2).sum()).backward()
        s.scale((b**2).sum() * (INF if i == 1 else 1.0)).backward()
        s.step(first)
        s.step(second)
        s.update()
    return [a, b, s.state_dict()]


class Own(O.Optimizer):
    """A program's own optimizer: not called where gradients are not finite."""

    def __init__(self, params):
        super().__init__(params, {})
        self.calls = 0

    def step(self):
        self.calls += 1
        with T.no_grad():
            for group in self.param_groups:
                for p in group["params"]:
                    p.sub_(p.grad)


class Scaling(Own):
    """One that divides by the scale itself."""

    _step_supports_amp_scaling = True

    def step(self):
        self.calls += 1
        self.seen = [float(self.grad_scale), float(self.found_inf)]


def own(kind):
    p = arr(3).requires_grad_()
    optimizer, s = kind([p]), scaler()
    for i in range(4):
        optimizer.zero_grad()
        s.scale((p**2).sum() * 0.1 * (NAN if i == 2 else 1.0)).backward()
        s.step(optimizer)
        s.update()
    return [p, optimizer.calls, getattr(optimizer, "seen", None), hasattr(optimizer, "found_inf"), s.state_dict()]


def pickled():
    s = scaler()
    s.scale(arr(2))
    s.update(16.0)
    copy = pickle.loads(pickle.dumps(s))
    return [copy.state_dict(), copy.scale(T.tensor(1.0))]


case("settings", settings)
case("set scale", set_scale)
case("several", several)
case("empty state", lambda: text_of(lambda: scaler().load_state_dict({})))
case("two optimizers", two_optimizers)
case("own optimizer", lambda: own(Own))
case("own optimizer that scales", lambda: own(Scaling))
case("pickled", pickled)


def kernels(grads, found, inv):
    T._amp_foreach_non_finite_check_and_unscale_(grads, found, inv)
    return [*grads, found]


for dtype in ("float32", "float16", "bfloat16", "float64"):
    for bad in (1.0, INF, NAN):
        for inv in (1.0, 0.25):
            grads = lambda: [
                (arr(5) * T.tensor([1.0, 1, bad, 1, 1])).to(getattr(T, dtype)),
                arr(2, 2).to(getattr(T, dtype)),
            ]
            case(f"unscale {dtype} {bad} {inv}", lambda: kernels(grads(), T.tensor(0.0), T.tensor(inv)))
case("unscale keeps", lambda: kernels([arr(3)], T.tensor(1.0), T.tensor(0.5)))


def updated(found, tracker, scale=8.0):
    s, t = T.tensor(scale), T.tensor(tracker, dtype=T.int32)
    T._amp_update_scale_(s, t, T.tensor(found), 2.0, 0.5, 3)
    return [s, t]


for found in (0.0, 1.0, 2.0):
    for tracker in (0, 1, 2, 3):
        case(f"update {found} {tracker}", lambda: updated(found, tracker))
case("update to infinity", lambda: updated(0.0, 2, 3e38))
