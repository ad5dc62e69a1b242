"""Libraries of optimizers and of functions that are differentiated, from PyPI."""

import torch
from common import Noise, fit, net, numbers, program, run_programs, stepped, told
from torch import nn
from torch.nn import functional as F

X, Y = numbers(16, 8), torch.arange(16) % 3
noise = Noise(1)


def small():
    return net(8, 16, 3)


@program
def torch_optimizer():
    import torch_optimizer as o

    kinds = "Lamb RAdam AdaBound AdamP DiffGrad NovoGrad Yogi QHAdam QHM AdaMod AggMo AccSGD SGDW SGDP PID Shampoo SWATS MADGRAD Apollo Adafactor LARS Ranger Lookahead"
    out = []
    for kind in kinds.split():
        if kind == "Lookahead":
            out += stepped(lambda p: o.Lookahead(torch.optim.SGD(p, lr=0.1), k=2), steps=5)
        elif hasattr(o, kind):
            out += stepped(getattr(o, kind), **({} if kind == "Adafactor" else {"lr": 1e-2}))
    return out


@program
def pytorch_optimizer():
    import pytorch_optimizer as o

    kinds = """AdaBelief AdaBound AdaDelta AdaFactor AdaHessian AdaMod AdaNorm AdaPNM AdaSmooth AdEMAMix Adai AdamMini AdamP Adalite Aida AggMo Amos
        Apollo AvaGrad DAdaptAdam DAdaptAdaGrad DAdaptLion DAdaptSGD DiffGrad FAdam FTRL FOCUS Fromage GaLore GrokFastAdamW Grams
        Lamb LARS LaProp Lion MADGRAD MARS Nero NovoGrad PAdam PID PNM Prodigy QHAdam QHM RAdam Ranger Ranger21 SGDP SGDW
        ScalableShampoo ScheduleFreeAdamW ScheduleFreeSGD Shampoo SignSGD SM3 SOAP SophiaH SRMM StableAdamW SWATS Tiger VSGD Yogi ADOPT
        Muon Kron APOLLO Ranger25 SPAM TAM AdamC Conda EmoNavi FriendlySAM SCION"""
    out, bad = [], []
    for kind in kinds.split():
        make = getattr(o, kind, None)
        if make is None or kind in (
            "AdaHessian",
            "SophiaH",
            "AdamMini",
            "FriendlySAM",
            "Ranger21",
            "Muon",
            "ScalableShampoo",
        ):
            continue
        try:
            out += stepped(make, steps=3)
        except Exception as error:
            bad.append(f"{kind}: {type(error).__name__}: {error}")
    if bad:
        raise RuntimeError(" | ".join(bad)[:1500])
    return out


@program
def schedule_free():
    import schedulefree

    model = small()
    optimizer = schedulefree.AdamWScheduleFree(model.parameters(), lr=0.05, warmup_steps=2)
    out = []
    for _ in range(5):
        optimizer.train()
        optimizer.zero_grad()
        loss = F.cross_entropy(model(X), Y)
        loss.backward()
        optimizer.step()
        optimizer.eval()
        with torch.no_grad():
            out += [float(loss), float(F.cross_entropy(model(X), Y))]
    return [*out, *stepped(schedulefree.SGDScheduleFree, lr=0.1), *stepped(schedulefree.RAdamScheduleFree)]


@program
def lion():
    from lion_pytorch import Lion

    return stepped(Lion, lr=1e-2, weight_decay=1e-2)


@program
def averages_of_weights():
    from ema_pytorch import EMA
    from torch_ema import ExponentialMovingAverage

    model = small()
    whole, own = (
        EMA(model, beta=0.9, update_after_step=1, update_every=1),
        ExponentialMovingAverage(model.parameters(), decay=0.9),
    )
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for i in range(6):
        optimizer.zero_grad()
        model(numbers(5, 8) * (i + 1)).pow(2).sum().backward()
        optimizer.step()
        whole.update()
        own.update()
    with own.average_parameters():
        inside = model(X)
    return told(whole(X), inside, model(X))


@program
def warmup_of_rates():
    import pytorch_warmup as warmup

    model, out = small(), []
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=8)
    slow = warmup.UntunedLinearWarmup(optimizer)
    for _ in range(5):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(X), Y)
        loss.backward()
        optimizer.step()
        with slow.dampening():
            scheduler.step()
        out += [float(loss), optimizer.param_groups[0]["lr"]]
    return out


@program
def torchopt():
    import torchopt as t

    model = small()
    return [
        *fit(model, lambda: F.cross_entropy(model(X), Y)),
        *stepped(t.Adam, lr=0.05),
        *stepped(t.RMSProp, lr=0.05),
        *functional(t),
    ]


@program
def torchopt_through_its_steps():
    import torchopt as t

    model, scale = small(), nn.Parameter(torch.tensor(1.0))
    optimizer = t.MetaSGD(model, lr=0.1)
    for _ in range(3):
        optimizer.step(F.cross_entropy(model(X * scale), Y))
    F.cross_entropy(model(X), Y).backward()
    return told(scale.grad)


def functional(t):
    """Gradients by functorch, steps by functions."""
    import functorch

    function, params = functorch.make_functional(small())
    optimizer, out = t.adam(0.05), []
    state = optimizer.init(params)
    for _ in range(3):
        loss = F.cross_entropy(function(params, X), Y)
        updates, state = optimizer.update(torch.autograd.grad(loss, params), state, inplace=False)
        params = t.apply_updates(params, updates, inplace=False)
        out.append(float(loss))
    return out


@program
def functions_of_functorch():
    from functorch import combine_state_for_ensemble, grad, jacrev, make_functional_with_buffers, vmap

    models = [small() for _ in range(3)]
    with torch.no_grad():
        models[1][0].weight.mul_(2)
    function, params, buffers = combine_state_for_ensemble(models)
    out = told(vmap(function, in_dims=(0, 0, None))(params, buffers, X))
    one, weights, held = make_functional_with_buffers(small())
    each = vmap(grad(lambda w, x, y: F.cross_entropy(one(w, held, x[None]), y[None])), in_dims=(None, 0, 0))(
        weights, X, Y
    )
    return [*out, *told(each, jacrev(lambda x: one(weights, held, x))(X[0]))]


if __name__ == "__main__":
    run_programs()
