"""Programs in the styles of public code, which need no library: weights, checkpoints, hooks, optimizers."""

import collections
import contextlib
import copy
import functools
import io
import math

import torch
from common import fill, net, numbers, program, run_programs, sums, tokens
from torch import nn
from torch.nn import functional as F

# -- models that are made without memory


@program
def weights_made_on_meta_and_assigned():
    with torch.device("meta"):
        model = nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 2))
    assert all(p.is_meta for p in model.parameters())
    state = {k: numbers(*v.shape) for k, v in model.state_dict().items()}
    missing, unexpected = model.load_state_dict(state, strict=True, assign=True)
    assert not missing and not unexpected and not any(p.is_meta for p in model.parameters())
    out = model(numbers(3, 6))
    out.square().mean().backward()
    return sums(out, *(p.grad for p in model.parameters()))


@program
def weights_initialized_after_to_empty():
    class Block(nn.Module):
        def __init__(self, width, device=None, dtype=None):
            super().__init__()
            kw = {"device": device, "dtype": dtype}
            self.up, self.down = nn.Linear(width, 4 * width, **kw), nn.Linear(4 * width, width, **kw)
            self.register_buffer("scale", torch.empty(width, **kw))
            self.reset_parameters()

        def reset_parameters(self):
            for p in self.parameters():
                nn.init.constant_(p, 0.01 * p.dim())
            with torch.no_grad():
                self.scale.fill_(2.0)

        def forward(self, x):
            return x + self.down(F.silu(self.up(x))) * self.scale

    model = nn.ModuleList([Block(4, device="meta", dtype=torch.float64) for _ in range(2)])
    total = sum(p.numel() * p.element_size() for p in model.parameters())
    for module in model.to_empty(device="cpu").modules():
        if callable(reset := getattr(module, "reset_parameters", None)):
            reset()
    for block in model:
        block.reset_parameters()
    x = numbers(3, 4).double()
    for block in model:
        x = block(x)
    return [float(total), *sums(x)]


@program
def layers_made_by_skip_init():
    layer = nn.utils.skip_init(nn.Linear, 5, 3, bias=False)
    embedding = nn.utils.skip_init(nn.Embedding, num_embeddings=7, embedding_dim=5, dtype=torch.float64)
    assert layer.weight.device.type == "cpu" and embedding.weight.dtype == torch.float64
    fill(layer), fill(embedding)
    return sums(layer(embedding(tokens(2, 3, 7)).float()))


@program
def shapes_by_meta_tensors():
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()
    )
    with torch.no_grad():
        features = copy.deepcopy(model).to("meta")(torch.empty(1, 3, 33, 47, device="meta")).shape[-1]
    head = nn.Linear(features, 2)
    return [float(features), *sums(fill(nn.Sequential(model, head)).eval()(numbers(2, 3, 33, 47)))]


# -- state dicts


@program
def state_dict_keys_renamed():
    old = nn.ModuleDict({"encoder": net(4, 6, 6), "classifier": nn.Linear(6, 3)})
    fill(old)
    new = fill(nn.ModuleDict({"backbone": net(4, 6, 6), "head": nn.ModuleDict({"fc": nn.Linear(6, 5)})}))
    renamed = collections.OrderedDict()
    for key, value in old.state_dict().items():
        key = key.replace("encoder.", "backbone.").replace("classifier.", "head.fc.")
        renamed[f"module.{key}"] = value
    state = {k.removeprefix("module."): v for k, v in renamed.items()}
    mine = new.state_dict()
    for key in [k for k in state if mine[k].shape != state[k].shape]:
        kept = state.pop(key)
        mine[key][: kept.shape[0]] = kept
    found = new.load_state_dict(state, strict=False)
    with contextlib.suppress(RuntimeError):
        new.load_state_dict(renamed)
    return [float(len(found.missing_keys)), *sums(*new.state_dict().values())]


@program
def checkpoint_with_optimizer_and_scheduler():
    def made():
        model = net(4, 8, 1)
        opt = torch.optim.AdamW(model.parameters(), lr=0.05, weight_decay=0.1)
        return model, opt, torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=10)

    def run(model, opt, sched, steps):
        losses = []
        for _ in range(steps):
            loss = F.mse_loss(model(numbers(8, 4)), numbers(8, 1))
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            sched.step()
            losses.append(loss.item())
        return losses

    first = made()
    losses = run(*first, 4)
    buffer = io.BytesIO()
    torch.save(
        {k: o.state_dict() for k, o in zip(("model", "opt", "sched"), first, strict=True)} | {"epoch": 4}, buffer
    )
    buffer.seek(0)
    saved, second = torch.load(buffer, map_location="cpu", weights_only=True), made()
    for key, o in zip(("model", "opt", "sched"), second, strict=True):
        o.load_state_dict(saved[key])
    return losses + run(*second, 4) + [saved["epoch"], second[2].get_last_lr()[0]]


@program
def exponential_moving_average_of_weights():
    class EMA:
        def __init__(self, model, decay):
            self.decay = decay
            self.shadow = copy.deepcopy(model).eval().requires_grad_(False)

        @torch.no_grad()
        def update(self, model):
            for s, p in zip(self.shadow.parameters(), model.parameters(), strict=True):
                s.lerp_(p.detach(), 1.0 - self.decay)
            for s, b in zip(self.shadow.buffers(), model.buffers(), strict=True):
                s.copy_(b)

    model = fill(nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1)))
    ema, opt = EMA(model, 0.9), torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)
    for _ in range(5):
        opt.zero_grad()
        model(numbers(8, 4)).pow(2).mean().backward()
        opt.step()
        ema.update(model)
    return sums(ema.shadow(numbers(8, 4)), *ema.shadow.buffers())


@program
def weights_shared_and_counted_by_storage():
    class Language(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.out = nn.Embedding(20, 8), nn.Linear(8, 20, bias=False)
            self.out.weight = self.embed.weight

        def forward(self, ids):
            return self.out(self.embed(ids).mean(1))

    model = fill(Language())
    seen = {p.untyped_storage().data_ptr(): p.untyped_storage().nbytes() for p in model.state_dict().values()}
    pointers = {p.data_ptr() for p in model.parameters()}
    F.cross_entropy(model(tokens(4, 5, 20)), torch.arange(4)).backward()
    return [float(len(seen)), float(sum(seen.values())), float(len(pointers)), *sums(model.embed.weight.grad)]


# -- hooks


@program
def activations_and_gradients_by_hooks():
    model, seen = net(4, 6, 2), {}

    def forward_hook(name):
        return lambda module, inputs, output: seen.update({name: output.detach()})

    def backward_hook(name):
        return lambda module, grad_input, grad_output: seen.update({f"{name}.grad": grad_output[0]})

    handles = []
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear):
            handles.append(module.register_forward_hook(forward_hook(name)))
            handles.append(module.register_full_backward_hook(backward_hook(name)))
    out = model(numbers(3, 4))
    out.register_hook(lambda g: g * 2)
    out.sum().backward()
    for h in handles:
        h.remove()
    model(numbers(3, 4) * 5)
    return sums(*(seen[k] for k in sorted(seen)), model[0].weight.grad)


@program
def class_activation_maps():
    class GradCAM:
        def __init__(self, model, layer):
            self.model, self.maps, self.grads = model, None, None
            layer.register_forward_hook(self.keep)

        def keep(self, module, inputs, output):
            self.maps = output
            output.register_hook(functools.partial(setattr, self, "grads"))

        def __call__(self, x, target):
            self.model.zero_grad()
            self.model(x)[:, target].sum().backward()
            weights = self.grads.mean(dim=(2, 3), keepdim=True)
            cam = F.relu((weights * self.maps).sum(1, keepdim=True))
            cam = F.interpolate(cam, size=x.shape[2:], mode="bilinear", align_corners=False)
            low, high = cam.amin((1, 2, 3), keepdim=True), cam.amax((1, 2, 3), keepdim=True)
            return (cam - low) / (high - low + 1e-8)

    model = fill(
        nn.Sequential(
            nn.Conv2d(3, 6, 3, padding=1), nn.ReLU(), nn.AvgPool2d(2), nn.Conv2d(6, 6, 3), nn.ReLU(),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 4),
        )
    )  # fmt: skip
    return sums(GradCAM(model, model[3])(numbers(2, 3, 12, 12), 1))


@program
def optimizer_hooks_clip_and_log():
    model, log = net(4, 8, 1), []
    opt = torch.optim.Adam(model.parameters(), lr=0.1)

    def clip(optimizer, args, kwargs):
        ps = [p for g in optimizer.param_groups for p in g["params"]]
        log.append(float(nn.utils.clip_grad_norm_(ps, 0.5)))

    before = opt.register_step_pre_hook(clip)
    opt.register_step_post_hook(lambda o, a, k: log.append(float(next(iter(o.state.values()))["step"])))
    for i in range(4):
        opt.zero_grad()
        model(numbers(8, 4)).pow(2).sum().backward()
        opt.step()
        if i == 2:
            before.remove()
    return log + sums(*model.parameters())


@program
def gradients_of_parameters_by_hooks():
    model = net(3, 5, 2)
    opts = {p: torch.optim.SGD([p], lr=0.1) for p in model.parameters()}

    def step(p):
        opts[p].step()
        opts[p].zero_grad()

    for p in model.parameters():
        p.register_post_accumulate_grad_hook(step)
    losses = []
    for _ in range(3):
        loss = model(numbers(4, 3)).pow(2).mean()
        loss.backward()
        losses.append(loss.item())
    return [*losses, float(all(p.grad is None for p in model.parameters()))]


# -- schedulers and optimizers


@program
def schedules_of_every_kind():
    S, out = torch.optim.lr_scheduler, []
    kinds = [
        lambda o: S.LambdaLR(o, lambda e: min((e + 1) / 4, 1 / math.sqrt(e + 1))),
        lambda o: S.OneCycleLR(o, max_lr=0.5, total_steps=12, pct_start=0.3),
        lambda o: S.CosineAnnealingWarmRestarts(o, T_0=3, T_mult=2),
        lambda o: S.CyclicLR(o, 0.01, 0.1, step_size_up=3, mode="triangular2"),
        lambda o: S.SequentialLR(o, [S.LinearLR(o, 0.1, total_iters=3), S.ExponentialLR(o, 0.8)], milestones=[4]),
        lambda o: S.ChainedScheduler([S.ConstantLR(o, 0.5, 2), S.StepLR(o, 3, 0.5)]),
        lambda o: S.MultiStepLR(o, [2, 5], 0.3),
        lambda o: S.PolynomialLR(o, 8, power=2.0),
        lambda o: S.MultiplicativeLR(o, lambda e: 0.9),
    ]
    for kind in kinds:
        p = nn.Parameter(torch.ones(1))
        opt = torch.optim.SGD([{"params": [p]}], lr=0.2, momentum=0.5)
        sched = kind(opt)
        for _ in range(11):
            p.grad = torch.ones(1)
            opt.step()
            sched.step()
            out.append(opt.param_groups[0]["lr"])
        out.append(float(p))
    plateau = S.ReduceLROnPlateau(opt, factor=0.5, patience=1, threshold=1e-2)
    for loss in (1.0, 0.9, 0.899, 0.8985, 0.898, 0.5):
        plateau.step(loss)
        out.append(opt.param_groups[0]["lr"])
    return out


@program
def groups_without_weight_decay():
    model = fill(nn.Sequential(nn.Embedding(11, 8), nn.Linear(8, 8), nn.LayerNorm(8), nn.Linear(8, 2)))
    decay, rest = set(), set()
    for mn, m in model.named_modules():
        for pn, _p in m.named_parameters(recurse=False):
            name = f"{mn}.{pn}" if mn else pn
            (decay if pn == "weight" and isinstance(m, nn.Linear) else rest).add(name)
    params = dict(model.named_parameters())
    assert not decay & rest and not params.keys() - (decay | rest)
    opt = torch.optim.AdamW(
        [
            {"params": [params[n] for n in sorted(decay)], "weight_decay": 0.1},
            {"params": [params[n] for n in sorted(rest)], "weight_decay": 0.0, "lr": 1e-3},
        ],
        lr=1e-2, betas=(0.9, 0.95), eps=1e-8,
    )  # fmt: skip
    losses = []
    for _ in range(4):
        loss = F.cross_entropy(model(tokens(4, 3, 11)).mean(1), torch.tensor([0, 1, 0, 1]))
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.append(loss.item())
    return losses


@program
def an_optimizer_of_ones_own():
    class Lion(torch.optim.Optimizer):
        def __init__(self, params, lr=1e-3, betas=(0.9, 0.99), weight_decay=0.0):
            if not lr >= 0.0:
                raise ValueError(f"Invalid learning rate: {lr}")
            super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

        @torch.no_grad()
        def step(self, closure=None):
            loss = None
            if closure is not None:
                with torch.enable_grad():
                    loss = closure()
            for group in self.param_groups:
                for p in group["params"]:
                    if p.grad is None:
                        continue
                    p.data.mul_(1 - group["lr"] * group["weight_decay"])
                    state = self.state[p]
                    if len(state) == 0:
                        state["exp_avg"] = torch.zeros_like(p, memory_format=torch.preserve_format)
                    m, (b1, b2) = state["exp_avg"], group["betas"]
                    p.add_((m * b1 + p.grad * (1 - b1)).sign_(), alpha=-group["lr"])
                    m.mul_(b2).add_(p.grad, alpha=1 - b2)
            return loss

    model = net(4, 8, 1)
    opt = Lion(model.parameters(), lr=0.01, weight_decay=0.1)

    def closure():
        opt.zero_grad()
        loss = F.smooth_l1_loss(model(numbers(8, 4)), numbers(8, 1))
        loss.backward()
        return loss

    return [float(opt.step(closure)) for _ in range(6)]


@program
def sharpness_aware_minimization():
    model, rho = net(4, 8, 3), 0.05
    base = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    x, y, losses = numbers(9, 4), torch.arange(9) % 3, []
    for _ in range(4):
        loss = F.cross_entropy(model(x), y, label_smoothing=0.1)
        loss.backward()
        norm = torch.norm(torch.stack([p.grad.norm(p=2) for p in model.parameters()]), p=2)
        moved = {}
        with torch.no_grad():
            for p in model.parameters():
                moved[p] = p.grad * (rho / (norm + 1e-12))
                p.add_(moved[p])
        model.zero_grad()
        F.cross_entropy(model(x), y, label_smoothing=0.1).backward()
        with torch.no_grad():
            for p, e in moved.items():
                p.sub_(e)
        base.step()
        base.zero_grad()
        losses.append(loss.item())
    return losses


@program
def second_order_by_lbfgs():
    x = torch.tensor([-1.2, 1.0], dtype=torch.float64, requires_grad=True)
    opt, seen = torch.optim.LBFGS([x], lr=1, max_iter=8, line_search_fn="strong_wolfe"), []

    def closure():
        opt.zero_grad()
        loss = (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2
        loss.backward()
        return loss

    for _ in range(4):
        seen.append(opt.step(closure).item())
    return [round(v, 4) for v in seen]


if __name__ == "__main__":
    run_programs()
