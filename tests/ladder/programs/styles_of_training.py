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


# -- training at large


@program
def adapters_put_into_layers():
    class LoRA(nn.Module):
        def __init__(self, base, r=2, alpha=4):
            super().__init__()
            self.base, self.scale = base.requires_grad_(False), alpha / r
            self.a = nn.Parameter(numbers(r, base.in_features) * 0.1)
            self.b = nn.Parameter(torch.zeros(base.out_features, r))

        def forward(self, x):
            return self.base(x) + F.linear(F.linear(x, self.a), self.b) * self.scale

        def merged(self):
            out = copy.deepcopy(self.base)
            out.weight.data += self.scale * self.b.data @ self.a.data
            return out

    model = fill(nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True))
    for name, child in list(model.named_children()):
        if isinstance(child, nn.Linear):
            setattr(model, name, LoRA(child))
    for n, p in model.named_parameters():
        p.requires_grad = n.endswith((".a", ".b"))
    trained = [p for p in model.parameters() if p.requires_grad]
    opt, losses, x = torch.optim.AdamW(trained, lr=1e-2), [], numbers(2, 4, 8)
    for _ in range(3):
        loss = model(x).pow(2).mean() + model(x)[..., 0].mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.append(loss.item())
    before = model(x)
    for name, child in list(model.named_children()):
        if isinstance(child, LoRA):
            setattr(model, name, child.merged())
    return [*losses, float(len(trained)), float(torch.allclose(before, model(x), atol=1e-5))]


@program
def a_student_of_a_teacher():
    teacher, student = net(6, 16, 4).eval(), net(6, 8, 4)
    opt = torch.optim.SGD(student.parameters(), lr=0.5, momentum=0.9, dampening=0.1, weight_decay=1e-3)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, [lambda s: 0.5**s])
    losses, total = [], 0.0
    for step in range(6):
        x = numbers(4, 6) * (step + 1)
        with torch.no_grad():
            goal = F.softmax(teacher(x) / 2.0, dim=1)
        out = F.log_softmax(student(x) / 2.0, dim=1)
        kd = F.kl_div(out, goal, reduction="batchmean") * 4
        loss = 0.7 * kd + 0.3 * F.nll_loss(F.log_softmax(student(x), 1), torch.arange(4))
        (loss / 2).backward()
        total += loss.item()
        if (step + 1) % 2 == 0:
            opt.step()
            opt.zero_grad()
            sched.step()
            losses.append(total / 2)
            total = 0.0
    return [*losses, sched.get_last_lr()[0]]


@program
def parameters_in_one_buffer():
    model = net(4, 6, 2)
    params = list(model.parameters())
    flat = torch.cat([p.detach().reshape(-1) for p in params])
    grads, at = torch.zeros_like(flat), 0
    for p in params:
        n = p.numel()
        p.data = flat[at : at + n].view_as(p)
        p.grad = grads[at : at + n].view_as(p)
        at += n
    losses = []
    for _ in range(3):
        grads.zero_()
        loss = F.mse_loss(model(numbers(5, 4)), numbers(5, 2))
        loss.backward()
        flat.sub_(grads, alpha=0.1)
        losses.append(loss.item())
    vector = nn.utils.parameters_to_vector(params)
    same = torch.equal(vector.detach(), flat)
    nn.utils.vector_to_parameters(vector * 0, params)
    return [*losses, float(same), *sums(grads, *params)]


@program
def weights_averaged_over_steps():
    from torch.optim import swa_utils

    model = fill(nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1)))
    averaged = swa_utils.AveragedModel(model)
    ema = swa_utils.AveragedModel(model, multi_avg_fn=swa_utils.get_ema_multi_avg_fn(0.9))
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    sched = swa_utils.SWALR(opt, swa_lr=0.01, anneal_epochs=2)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(numbers(8, 4), numbers(8, 1)), batch_size=4)
    for _ in range(3):
        for x, y in loader:
            opt.zero_grad()
            F.huber_loss(model(x), y, delta=0.5).backward()
            opt.step()
        averaged.update_parameters(model)
        ema.update_parameters(model)
        sched.step()
    swa_utils.update_bn(loader, averaged)
    return [
        *sums(averaged.eval()(numbers(3, 4)), ema.eval()(numbers(3, 4))),
        float(averaged.n_averaged),
        sched.get_last_lr()[0],
    ]


@program
def many_models_at_once():
    models = [net(3, 5, 2) for _ in range(3)]
    with torch.no_grad():
        for i, m in enumerate(models):
            m[0].weight.add_(i * 0.1)
    params, buffers = torch.func.stack_module_state(models)
    base = copy.deepcopy(models[0]).to("meta")

    def call(p, b, x):
        return torch.func.functional_call(base, (p, b), (x,))

    x = numbers(4, 3)
    out = torch.vmap(call, in_dims=(0, 0, None))(params, buffers, x)
    _, tangent = torch.func.jvp(models[0], (x,), (torch.ones_like(x),))
    value, pull = torch.func.vjp(models[1], x)
    grads, aux = torch.func.grad(lambda w: (w.pow(3).sum(), w.sum()), has_aux=True)(x)
    return sums(out, tangent, value, *pull(torch.ones_like(value)), grads, aux)


@program
def tensors_saved_elsewhere():
    packed = []

    def pack(t):
        packed.append(t.numel())
        return t.to(torch.bfloat16), t.dtype

    def unpack(saved):
        return saved[0].to(saved[1])

    w = numbers(4, 4).requires_grad_()
    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        y = (numbers(3, 4) @ w).exp()
    y.sum().backward()
    first = w.grad.clone()
    w.grad = None
    with torch.autograd.graph.save_on_cpu():
        (numbers(3, 4) @ w).exp().sum().backward()
    return [*sums(w.grad), float((first - w.grad).abs().max() < 0.5), float(len(packed) > 0)]


@program
def compiled_scripted_and_profiled():
    @torch.compile(dynamic=False)
    def gelu(x):
        return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))

    @torch.jit.script
    def relu_sq(x: torch.Tensor, scale: float = 2.0) -> torch.Tensor:
        return torch.relu(x).square() * scale

    x, out = numbers(4, 4), []
    for _ in range(3):
        with torch.profiler.record_function("step"), torch.autograd.set_detect_anomaly(False):
            out += sums(gelu(x), relu_sq(x))
    model = torch.compile(net(4, 8, 2))
    return [*out, *sums(model(x)), float(all(not k.startswith("other") for k in model.state_dict()))]


@program
def modules_initialized_and_hooked_by_state():
    class Old(nn.Module):
        _version = 2

        def __init__(self):
            super().__init__()
            self.conv, self.norm = nn.Conv1d(3, 3, 3, padding=1), nn.LayerNorm(5)
            self.register_load_state_dict_post_hook(lambda m, keys: keys.missing_keys.clear())

        def _load_from_state_dict(self, state, prefix, *args):
            for old in [k for k in state if k.startswith(f"{prefix}ln.")]:
                state[old.replace("ln.", "norm.")] = state.pop(old)
            super()._load_from_state_dict(state, prefix, *args)

        def get_extra_state(self):
            return {"version": 2}

        def set_extra_state(self, state):
            self.version = state["version"]

    def init(m):
        if isinstance(m, nn.Conv1d):
            nn.init.dirac_(m.weight)
            nn.init.zeros_(m.bias)
        elif isinstance(m, nn.LayerNorm):
            nn.init.ones_(m.weight)

    model = Old().apply(init)
    state = {k.replace("norm.", "ln."): v for k, v in model.state_dict().items()}
    state["conv.weight"] = state["conv.weight"] * 2
    del state["conv.bias"]
    model.load_state_dict(state)
    gain = nn.init.calculate_gain("leaky_relu", 0.2)
    eye = nn.init.eye_(torch.empty(3, 4))
    return [gain, float(model.version), *sums(model.conv(numbers(2, 3, 5)), eye, model.norm.weight)]


if __name__ == "__main__":
    run_programs()
