"""Programs about fields, games, graphs and ways of training, each as one file of a public repository has it, which needs no library: a paper's model, its data, its loop."""

import copy
import itertools
import math

import torch
from common import Noise, fill, fit, numbers, program, run_programs, sums, tokens
from torch import nn, optim
from torch.autograd import Function, grad
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint, checkpoint_sequential
from torch.utils.data import DataLoader, TensorDataset

noise = Noise()


@program
def equations_through_an_adjoint():
    class Adjoint(Function):
        @staticmethod
        def forward(ctx, z0, t, flat, func):
            with torch.no_grad():
                zs = [z0]
                for a, b in itertools.pairwise(t):
                    zs.append(zs[-1] + (b - a) * func(zs[-1], a))
                z = torch.stack(zs)
            ctx.func = func
            ctx.save_for_backward(t, z.clone(), flat)
            return z

        @staticmethod
        def backward(ctx, gz):
            t, z, flat = ctx.saved_tensors
            func, params = ctx.func, tuple(ctx.func.parameters())
            a, ap = torch.zeros_like(z[0]), torch.zeros_like(flat)
            for i in range(len(t) - 1, 0, -1):
                a = a + gz[i]
                with torch.set_grad_enabled(True):
                    zi = z[i - 1].detach().requires_grad_(True)
                    step = zi + (t[i] - t[i - 1]) * func(zi, t[i - 1])
                    got = torch.autograd.grad(step, (zi, *params), grad_outputs=a, allow_unused=True)
                a, ap = got[0], ap + torch.cat([g.flatten() for g in got[1:]])
            return a + gz[0], None, ap, None

    class Field(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Sequential(nn.Linear(3, 12), nn.ELU(inplace=True), nn.Linear(12, 2))

        def forward(self, z, t):
            return self.net(torch.cat([z, t.expand(len(z), 1)], dim=-1))

    func, z0, t = fill(Field()), numbers(5, 2), torch.linspace(0, 1, 6)

    def loss():
        flat = torch.cat([p.flatten() for p in func.parameters()])
        return Adjoint.apply(z0, t, flat, func)[-1].pow(2).mean()

    first = loss()
    by_adjoint = torch.autograd.grad(first, list(func.parameters()))
    z = z0
    for a, b in itertools.pairwise(t):
        z = z + (b - a) * func(z, a)
    plain = torch.autograd.grad(z.pow(2).mean(), list(func.parameters()))
    assert all(torch.allclose(p, q, atol=1e-6) for p, q in zip(by_adjoint, plain, strict=True))
    return fit(func, loss, 4)


@program
def attention_over_neighbours():
    class Special(Function):
        @staticmethod
        def forward(ctx, indices, values, shape, b):
            assert not indices.requires_grad
            a = torch.sparse_coo_tensor(indices, values, shape)
            ctx.save_for_backward(a, b)
            ctx.n = shape[0]
            return torch.matmul(a, b)

        @staticmethod
        def backward(ctx, grad):
            a, b = ctx.saved_tensors
            dense = grad.matmul(b.t())
            edge = a._indices()[0, :] * ctx.n + a._indices()[1, :]
            return None, dense.view(-1)[edge], None, a.t().matmul(grad)

    class Sparse(nn.Module):
        def __init__(self, i, o):
            super().__init__()
            self.w, self.a = nn.Parameter(torch.zeros(size=(i, o))), nn.Parameter(torch.zeros(size=(1, 2 * o)))

        def forward(self, x, adj):
            n, edge = x.size()[0], adj.nonzero().t()
            h = torch.mm(x, self.w)
            edge_h = torch.cat((h[edge[0, :], :], h[edge[1, :], :]), dim=1).t()
            e = torch.exp(-F.leaky_relu(self.a.mm(edge_h).squeeze(), 0.2))
            rowsum = Special.apply(edge, e, torch.Size([n, n]), torch.ones(size=(n, 1)))
            return F.elu(Special.apply(edge, e, torch.Size([n, n]), h).div(rowsum))

    class Dense(nn.Module):
        def __init__(self, i, o):
            super().__init__()
            self.W, self.a = nn.Parameter(torch.empty(size=(i, o))), nn.Parameter(torch.empty(size=(2 * o, 1)))
            nn.init.xavier_uniform_(self.W.data, gain=1.414)
            nn.init.xavier_uniform_(self.a.data, gain=1.414)
            self.o = o

        def forward(self, h, adj):
            wh = torch.mm(h, self.W)
            e = F.leaky_relu(torch.matmul(wh, self.a[: self.o]) + torch.matmul(wh, self.a[self.o :]).T, 0.2)
            attention = F.softmax(torch.where(adj > 0, e, -9e15 * torch.ones_like(e)), dim=1)
            return F.elu(torch.matmul(attention, wh))

    adj = ((tokens(8, 8, 5) == 0).float() + torch.eye(8)).clamp(max=1)
    x, y, out = numbers(8, 6), torch.arange(8) % 3, []
    for kind in (Dense, Sparse):
        heads, last = nn.ModuleList([kind(6, 4) for _ in range(2)]), kind(8, 3)
        both = fill(nn.ModuleList([heads, last]))
        out += fit(
            both,
            lambda: F.nll_loss(F.log_softmax(last(torch.cat([h(x, adj) for h in heads], dim=1), adj), dim=1), y),  # noqa: B023
            3,
        )
    return out


@program
def splines_instead_of_weights():
    class KANLinear(nn.Module):
        def __init__(self, i, o, size=5, order=3):
            super().__init__()
            h = 2 / size
            grid = (torch.arange(-order, size + order + 1) * h - 1).expand(i, -1).contiguous()
            self.register_buffer("grid", grid)
            self.order, self.i, self.o = order, i, o
            self.base, self.spline = nn.Parameter(torch.Tensor(o, i)), nn.Parameter(torch.Tensor(o, i, size + order))
            self.scaler = nn.Parameter(torch.Tensor(o, i))

        def b_splines(self, x):
            grid, x = self.grid, x.unsqueeze(-1)
            bases = ((x >= grid[:, :-1]) & (x < grid[:, 1:])).to(x.dtype)
            for k in range(1, self.order + 1):
                bases = ((x - grid[:, : -(k + 1)]) / (grid[:, k:-1] - grid[:, : -(k + 1)]) * bases[:, :, :-1]) + (
                    (grid[:, k + 1 :] - x) / (grid[:, k + 1 :] - grid[:, 1:(-k)]) * bases[:, :, 1:]
                )
            return bases.contiguous()

        def curve2coeff(self, x, y):
            a, b = self.b_splines(x).transpose(0, 1), y.transpose(0, 1)
            return torch.linalg.lstsq(a, b, driver="gelsd").solution.permute(2, 0, 1).contiguous()

        def forward(self, x):
            scaled = self.spline * self.scaler.unsqueeze(-1)
            return F.linear(F.silu(x), self.base) + F.linear(
                self.b_splines(x).view(x.size(0), -1), scaled.view(self.o, -1)
            )

    model, x = nn.Sequential(KANLinear(2, 5), KANLinear(5, 1)), numbers(20, 2) * 0.9
    fill(model)
    y = (torch.exp(torch.sin(math.pi * x[:, [0]])) + x[:, [1]] ** 2) / 3
    out = fit(model, lambda: F.mse_loss(model(x), y) + 1e-3 * sum(m.spline.abs().mean() for m in model), 5)
    with torch.no_grad():
        layer = model[0]
        points = layer.grid.T[layer.order : -layer.order]
        noisy = torch.stack([points.sin(), points.cos()], dim=-1)
        coeff = layer.curve2coeff(points.clamp(-0.999, 0.999), noisy.expand(-1, -1, 2))
        again = torch.einsum("bic,oic->bio", layer.b_splines(points.clamp(-0.999, 0.999)), coeff)
    return [*out, *sums(again)]


@program
def memories_of_patterns():
    class Hopfield(nn.Module):
        def __init__(self, d, beta):
            super().__init__()
            self.q, self.k, self.v = (nn.Linear(d, d, bias=False) for _ in range(3))
            self.beta = nn.Parameter(torch.tensor(beta), requires_grad=False)

        def forward(self, state, stored, most=4, eps=1e-4):
            k, v, xi = self.k(stored), self.v(stored), self.q(state)
            active = torch.ones(xi.size(0), dtype=torch.bool)
            for _ in range(most):
                old = xi
                new = torch.softmax(self.beta * xi @ k.transpose(-2, -1), dim=-1) @ k
                xi = torch.where(active.unsqueeze(-1), new, old)
                with torch.no_grad():
                    active = active & (torch.norm(xi - old, p=2, dim=-1) > eps)
                if not active.any():
                    break
            return torch.softmax(self.beta * xi @ k.mT, dim=-1) @ v

    bits = torch.sign(numbers(3, 16))
    w = (bits.T @ bits).fill_diagonal_(0) / 16
    x = bits.clone()
    x[:, ::5] *= -1
    for _ in range(4):
        for i in range(16):  # one unit at a time
            x[:, i] = torch.where((x @ w[i]) >= 0, 1.0, -1.0)
    energy = -0.5 * torch.einsum("bi,ij,bj->b", x, w, x)
    model = fill(Hopfield(16, 2.0))
    out = fit(model, lambda: F.mse_loss(model(bits + 0.1 * numbers(3, 16), bits), bits), 4)
    return [*sums(x, energy, (x * bits).sum(1)), *out]


@program
def energies_by_langevin():
    class Energy(nn.Module):
        def __init__(self):
            super().__init__()
            sn = nn.utils.spectral_norm
            self.net = nn.Sequential(
                sn(nn.Linear(4, 16)), nn.SiLU(), nn.Linear(16, 16), nn.Softplus(beta=2), nn.Linear(16, 1)
            )

        def forward(self, x):
            return self.net(x).squeeze(-1)

    model = fill(Energy())
    with torch.no_grad():
        for b in model.buffers():
            b.copy_(F.normalize(numbers(*b.shape), dim=0))
    real, replay = numbers(12, 4), list(torch.unbind(noise.randn(20, 4)))
    optimizer, out = optim.Adam(model.parameters(), lr=1e-2, betas=(0.0, 0.999)), []
    for k in range(3):
        x = torch.stack(replay[k * 4 : k * 4 + 12]).detach()
        x.requires_grad = True
        for p in model.parameters():
            p.requires_grad = False
        model.eval()
        for _ in range(5):
            x.data.add_(0.005 * noise.randn(12, 4))
            x.data.clamp_(min=-1.0, max=1.0)
            energy = -model(x)
            energy.sum().backward()
            x.grad.data.clamp_(-0.03, 0.03)
            x.data.add_(-10 * x.grad.data)
            x.grad.detach_()
            x.grad.zero_()
        for p in model.parameters():
            p.requires_grad = True
        model.train()
        both = model(torch.cat([real, x.detach()]))
        a, b = both.chunk(2, dim=0)
        loss = 0.1 * (a**2 + b**2).mean() + b.mean() - a.mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), max_norm=0.1)
        optimizer.step()
        out += [loss.item(), float(x.detach().sum())]
    return out


@program
def soft_actor_critic_and_deep_q():
    class Actor(nn.Module):
        def __init__(self, s, a):
            super().__init__()
            self.fc, self.mean, self.logstd = nn.Linear(s, 16), nn.Linear(16, a), nn.Linear(16, a)
            self.register_buffer("scale", torch.tensor([2.0] * a))

        def get_action(self, x):
            x = F.relu(self.fc(x))
            mean, log_std = self.mean(x), torch.tanh(self.logstd(x))
            log_std = -5 + 0.5 * 7 * (log_std + 1)
            normal = torch.distributions.Normal(mean, log_std.exp())
            xt = mean + log_std.exp() * noise.randn(*mean.shape)
            yt = torch.tanh(xt)
            logp = normal.log_prob(xt)
            logp -= torch.log(self.scale * (1 - yt.pow(2)) + 1e-6)
            return yt * self.scale, logp.sum(1, keepdim=True)

    def critic():
        return fill(nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 1)))

    actor, q1, q2 = fill(Actor(3, 2)), critic(), critic()
    t1, t2 = copy.deepcopy(q1), copy.deepcopy(q2)
    with torch.no_grad():
        q2[0].weight.mul_(0.5)
    qo, ao = optim.Adam([*q1.parameters(), *q2.parameters()], lr=1e-2), optim.Adam(actor.parameters(), lr=1e-2)
    log_alpha = torch.zeros(1, requires_grad=True)
    alpha_o, alpha = optim.Adam([log_alpha], lr=1e-2), 1.0
    s, a, r, s2, done = (
        numbers(10, 3),
        numbers(10, 2),
        numbers(10, 1),
        numbers(10, 3).sin(),
        (torch.arange(10) % 4 == 0).float(),
    )
    out = []
    for _ in range(3):
        with torch.no_grad():
            a2, logp2 = actor.get_action(s2)
            x2 = torch.cat([s2, a2], 1)
            target = torch.min(t1(x2), t2(x2)) - alpha * logp2
            goal = r.flatten() + (1 - done.flatten()) * 0.99 * target.view(-1)
        x = torch.cat([s, a], 1)
        loss = F.mse_loss(q1(x).view(-1), goal) + F.mse_loss(q2(x).view(-1), goal)
        qo.zero_grad()
        loss.backward()
        qo.step()
        pi, logp = actor.get_action(s)
        xp = torch.cat([s, pi], 1)
        a_loss = ((alpha * logp) - torch.min(q1(xp), q2(xp))).mean()
        ao.zero_grad()
        a_loss.backward()
        ao.step()
        alpha_loss = (-log_alpha.exp() * (logp.detach() - 2)).mean()
        alpha_o.zero_grad()
        alpha_loss.backward()
        alpha_o.step()
        alpha = log_alpha.exp().item()
        for p, tp in zip([*q1.parameters(), *q2.parameters()], [*t1.parameters(), *t2.parameters()], strict=True):
            tp.data.copy_(0.05 * p.data + 0.95 * tp.data)
        out += [loss.item(), a_loss.item(), alpha]
    policy, target = fill(nn.Sequential(nn.Linear(3, 12), nn.ReLU(), nn.Linear(12, 4))), None
    target = copy.deepcopy(policy)
    optimizer = optim.AdamW(policy.parameters(), lr=1e-2, amsgrad=True)
    final = torch.tensor([d == 0 for d in done], dtype=torch.bool)
    for _ in range(3):
        value = policy(s).gather(1, (torch.arange(10) % 4).unsqueeze(1))
        nxt = torch.zeros(10)
        with torch.no_grad():
            nxt[final] = target(s2[final]).max(1).values
        loss = nn.SmoothL1Loss()(value, (nxt * 0.99 + r[:, 0]).unsqueeze(1))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_value_(policy.parameters(), 100)
        optimizer.step()
        state, new = target.state_dict(), policy.state_dict()
        for key in new:
            state[key] = new[key] * 0.005 + state[key] * (1 - 0.005)
        target.load_state_dict(state)
        out.append(loss.item())
    return out


# -- ways of training


@program
def noise_that_bends_around():
    """Gradients of one's own, twice differentiable, checked against finite differences."""

    class Cube(Function):
        @staticmethod
        def forward(x):
            return x**3, 3 * x**2

        @staticmethod
        def setup_context(ctx, inputs, output):
            (x,) = inputs
            ctx.save_for_backward(x, output[1])
            ctx.mark_non_differentiable(output[1])

        @staticmethod
        def backward(ctx, g, _):
            x, d = ctx.saved_tensors
            return Slope.apply(x, g, d)

    class Slope(Function):
        @staticmethod
        def forward(ctx, x, g, d):
            ctx.save_for_backward(x, g)
            return g * d

        @staticmethod
        def backward(ctx, gg):
            x, g = ctx.saved_tensors
            return gg * g * 6 * x, gg * 3 * x * x, None

    x = numbers(6).double().requires_grad_()
    assert torch.autograd.gradcheck(lambda v: Cube.apply(v)[0], (x,))
    assert torch.autograd.gradgradcheck(lambda v: Cube.apply(v)[0], (x,))
    (first,) = grad(Cube.apply(x)[0].sum(), x, create_graph=True)
    (second,) = grad(first.sum(), x)
    return sums(first, second, torch.autograd.functional.hessian(lambda v: Cube.apply(v)[0].sum(), x))


@program
def memory_for_time():
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.fc = nn.LayerNorm(8), nn.Linear(8, 8)

        def forward(self, x, scale=1.0):
            return x + scale * torch.tanh(self.fc(self.norm(x)))

    blocks, x, out = nn.ModuleList([Block() for _ in range(4)]), numbers(6, 8).requires_grad_(), []
    fill(blocks)

    def plain():
        h = x
        for b in blocks:
            h = b(h, scale=0.5)
        return h.pow(2).mean()

    def saving():
        h = x
        for b in blocks:
            h = checkpoint(b, h, 0.5, use_reentrant=False)
        return h.pow(2).mean()

    def old():
        h = x
        for b in blocks:
            h = checkpoint(b, h, 0.5, use_reentrant=True)
        return h.pow(2).mean()

    for way in (plain, saving, old):
        x.grad = None
        blocks.zero_grad()
        way().backward()
        out += [float(x.grad.abs().sum()), *(float(p.grad.sum()) for p in blocks[0].parameters())]
    seq = nn.Sequential(*blocks)
    y = checkpoint_sequential(seq, 2, x, use_reentrant=False)
    return [*out, *sums(y), *fit(blocks, saving, 2)]


@program
def averages_at_the_end():
    def make():
        return fill(nn.Sequential(nn.Linear(6, 10), nn.BatchNorm1d(10), nn.ReLU(), nn.Linear(10, 3)))

    model, x, y = make(), numbers(24, 6), torch.arange(24) % 3
    loader = DataLoader(TensorDataset(x, y), batch_size=8)
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    swa = optim.swa_utils.AveragedModel(model)
    ema = optim.swa_utils.AveragedModel(model, multi_avg_fn=optim.swa_utils.get_ema_multi_avg_fn(0.9))
    cosine = optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=5)
    late, rates = optim.swa_utils.SWALR(optimizer, anneal_strategy="linear", anneal_epochs=2, swa_lr=0.05), []
    for epoch in range(6):
        for a, b in loader:
            optimizer.zero_grad()
            F.cross_entropy(model(a), b, label_smoothing=0.1).backward()
            optimizer.step()
            ema.update_parameters(model)
        if epoch > 2:
            swa.update_parameters(model)
            late.step()
        else:
            cosine.step()
        rates.append(optimizer.param_groups[0]["lr"])
    optim.swa_utils.update_bn(loader, swa)
    with torch.no_grad():
        return [
            *rates,
            *sums(swa.eval()(x).abs(), ema.eval()(x).abs(), swa.n_averaged),
            float(swa.module[1].running_mean.sum()),
        ]


if __name__ == "__main__":
    run_programs()
