"""Libraries of flows, equations, processes and equivariant networks, from PyPI."""

import torch
from common import Noise, fill, fit, net, numbers, program, run_programs, tokens, told, train
from torch import nn
from torch.nn import functional as F

X, Y = numbers(16, 8), torch.arange(16) % 3
noise = Noise(1)


def small():
    return net(8, 16, 3)


@program
def nflows():
    from nflows.distributions.normal import StandardNormal
    from nflows.flows.base import Flow
    from nflows.transforms import autoregressive
    from nflows.transforms.base import CompositeTransform
    from nflows.transforms.permutations import ReversePermutation

    parts = []
    for _ in range(2):
        spline = autoregressive.MaskedPiecewiseRationalQuadraticAutoregressiveTransform(
            4, 8, tails="linear", tail_bound=3.0
        )
        parts += [ReversePermutation(4), autoregressive.MaskedAffineAutoregressiveTransform(4, 8), spline]
    flow, x = fill(Flow(CompositeTransform(parts), StandardNormal([4]))), numbers(16, 4)
    return train(flow, lambda: -flow.log_prob(x).mean())


@program
def normflows():
    import normflows as nf

    layers = []
    for _ in range(3):
        layers += [
            nf.flows.AffineCouplingBlock(nf.nets.MLP([1, 8, 2], init_zeros=False)),
            nf.flows.Permute(2, mode="swap"),
        ]
    model, x = fill(nf.NormalizingFlow(nf.distributions.base.DiagGaussian(2), layers)), numbers(16, 2)
    out = train(model, lambda: model.forward_kld(x))
    spline = [nf.flows.AutoregressiveRationalQuadraticSpline(3, 1, 8)]
    model, x = fill(nf.NormalizingFlow(nf.distributions.base.DiagGaussian(3), spline)), numbers(16, 3)
    return out + train(model, lambda: model.forward_kld(x))


@program
def zuko():
    import zuko as z

    x, c, out = numbers(16, 3), numbers(16, 5), []
    for kind, options in (
        ("MAF", {}),
        ("NSF", {}),
        ("NICE", {}),
        ("NAF", {}),
        ("SOSPF", {}),
        ("BPF", {}),
        ("GF", {}),
        ("CNF", {"exact": True}),
    ):
        if hasattr(z.flows, kind):
            flow = fill(
                getattr(z.flows, kind)(
                    3,
                    5,
                    **(
                        {"transforms": 2, "hidden_features": [8]}
                        if kind != "CNF"
                        else {"hidden_features": [8], **options}
                    ),
                )
            )
            if kind == "CNF":
                out += told(flow(c).log_prob(x))
            else:
                out += train(flow, lambda: -flow(c).log_prob(x).mean(), 2)  # noqa: B023
    return out


@program
def invertible_networks():
    import FrEIA.framework as ff
    import FrEIA.modules as fm

    def sub(i, o):
        return nn.Sequential(nn.Linear(i, 8), nn.ReLU(), nn.Linear(8, o))

    x, out = numbers(12, 4), []
    for kind, options in (
        (fm.AllInOneBlock, {"permute_soft": False}),
        (fm.RNVPCouplingBlock, {}),
        (fm.GLOWCouplingBlock, {}),
        (fm.NICECouplingBlock, {}),
        (fm.GINCouplingBlock, {}),
    ):
        inn = ff.SequenceINN(4)
        for _ in range(2):
            inn.append(kind, subnet_constructor=sub, **options)
        fill(inn)

        def loss(inn=inn):
            z, jac = inn(x)
            return (0.5 * (z**2).sum(1) - jac).mean()

        out += train(inn, loss, 3)
        out += told(inn(inn(x)[0], rev=True)[0])
    return out


@program
def simulated_inference():
    from sbi.neural_nets import posterior_nn

    theta, x = numbers(32, 2), numbers(32, 3).sin()
    out = []
    for kind in ("mdn", "made"):
        made = fill(posterior_nn(model=kind, hidden_features=8, num_transforms=2)(theta, x))
        out += train(made, lambda: made.loss(theta, x).mean(), 3)  # noqa: B023
    return out


@program
def curved_spaces():
    import geoopt

    ball, x, y = geoopt.PoincareBall(), numbers(5, 3) * 0.1, numbers(5, 3).sin() * 0.1
    start, _ = torch.linalg.qr(torch.eye(4, 3) + 0.3 * numbers(4, 3))
    p = geoopt.ManifoldParameter(start.clone(), manifold=geoopt.Stiefel())
    optimizer, goal, out = geoopt.optim.RiemannianAdam([p], lr=0.05), numbers(4, 3).cos(), []
    for _ in range(4):
        optimizer.zero_grad()
        loss = (p - goal).pow(2).sum()
        loss.backward()
        optimizer.step()
        out.append(float(loss))
    sphere = geoopt.SphereExact()
    return [
        *out,
        *told(ball.dist(x, y), ball.mobius_add(x, y), ball.expmap(x, y), sphere.projx(x), p.detach().T @ p.detach()),
    ]


@program
def distances_of_measures():
    from geomloss import SamplesLoss

    x, y, out = numbers(20, 3).requires_grad_(), numbers(25, 3).sin(), []
    for kind in ("sinkhorn", "gaussian", "energy", "laplacian"):
        value = SamplesLoss(kind, blur=0.5, backend="tensorized")(x, y)
        out += told(value, torch.autograd.grad(value, x))
    return out


@program
def controlled_equations():
    import torchcde

    class Field(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Linear(4, 12)

        def forward(self, t, z):
            return torch.tanh(self.net(z)).view(z.size(0), 4, 3)

    field, x = fill(Field()), numbers(2, 9, 3)
    out = []
    for make in (torchcde.hermite_cubic_coefficients_with_backward_differences, torchcde.natural_cubic_coeffs):
        path = torchcde.CubicSpline(make(x))
        z = torchcde.cdeint(
            X=path,
            func=field,
            z0=torch.ones(2, 4),
            t=path.interval,
            adjoint=False,
            method="rk4",
            options={"step_size": 0.5},
        )
        out += told(z, torch.autograd.grad(z.sum(), field.net.weight))
    return out


@program
def stochastic_equations():
    import torchsde

    class Path(nn.Module):
        noise_type, sde_type = "diagonal", "ito"

        def __init__(self):
            super().__init__()
            self.drift, self.spread = fill(nn.Linear(3, 3)), fill(nn.Linear(3, 3))

        def f(self, t, y):
            return self.drift(y)

        def g(self, t, y):
            return 0.0 * torch.sigmoid(self.spread(y))

    path, out = Path(), []
    for method in ("euler", "srk", "milstein"):
        y = torchsde.sdeint(path, torch.ones(5, 3), torch.linspace(0, 1, 4), dt=0.25, method=method)
        out += told(y, torch.autograd.grad(y.sum(), path.drift.weight))
    return out


@program
def equations_in_parallel():
    import torchode as to

    term = to.ODETerm(lambda t, y: -y * (1 + t[:, None]))
    controller = to.IntegralController(atol=1e-5, rtol=1e-4, term=term)
    solver = to.AutoDiffAdjoint(to.Tsit5(term=term), controller)
    y0 = numbers(4, 2).requires_grad_()
    solution = solver.solve(to.InitialValueProblem(y0=y0, t_eval=torch.linspace(0, 1, 6).expand(4, -1)))
    return told(solution.ys, torch.autograd.grad(solution.ys.sum(), y0), solution.stats["n_steps"])


@program
def neural_operators():
    from neuralop.models import FNO

    x, out = numbers(2, 1, 16, 16), []
    model = fill(FNO(n_modes=(8, 8), hidden_channels=8, in_channels=1, out_channels=1, n_layers=2))
    for p in model.parameters():
        if p.is_complex():
            with torch.no_grad():
                p.copy_(torch.complex(numbers(*p.shape), numbers(*p.shape).sin()) * 0.05)
    return out + train(model, lambda: (model(x) - x).pow(2).mean())


@program
def equivariant_tensors():
    from e3nn import o3

    product = o3.FullyConnectedTensorProduct("2x0e+1x1o", "1x0e+1x1o", "2x0e+1x1o", internal_weights=True)
    a, b, x = numbers(4, 5), numbers(4, 4), numbers(5, 3)
    fill(product)
    angles = torch.tensor([0.3, 0.2, 0.1])
    return told(
        o3.spherical_harmonics([0, 1, 2], x, True),
        product(a, b),
        o3.wigner_3j(1, 1, 1),
        o3.Irreps("1x1o").D_from_angles(*angles),
    )


@program
def equivariant_graphs():
    from egnn_pytorch import EGNN, EGNN_Network

    layer = fill(EGNN(dim=8, m_dim=8))
    feats, coors = numbers(1, 6, 8), numbers(1, 6, 3) * 2
    out = train(layer, lambda: sum(x.pow(2).mean() for x in layer(feats, coors)), 3)
    whole = fill(EGNN_Network(num_tokens=5, dim=8, depth=2, num_nearest_neighbors=3))
    return [*out, *told(whole(tokens(1, 6, 5), coors))]


@program
def gaussian_processes():
    import gpytorch as g

    class Process(g.models.ExactGP):
        def __init__(self, x, y, likelihood, kernel):
            super().__init__(x, y, likelihood)
            self.mean, self.kernel = g.means.LinearMean(1), g.kernels.ScaleKernel(kernel)
            fill(self.mean)

        def forward(self, x):
            return g.distributions.MultivariateNormal(self.mean(x), self.kernel(x))

    x, out = torch.linspace(0, 1, 12)[:, None], []
    y = torch.sin(x[:, 0] * 6)
    for kernel in (
        g.kernels.MaternKernel(1.5),
        g.kernels.PeriodicKernel(),
        g.kernels.RQKernel(),
        g.kernels.RBFKernel() + g.kernels.LinearKernel(),
    ):
        likelihood = g.likelihoods.GaussianLikelihood()
        model = Process(x, y, likelihood, kernel).train()
        score = g.mlls.ExactMarginalLogLikelihood(likelihood, model)
        out += train(model, lambda: -score(model(x), y), 3, 0.1)  # noqa: B023
        model.eval()
        with torch.no_grad():
            p = likelihood(model(torch.linspace(0, 1, 7)[:, None]))
        out += told(p.mean, p.variance)
    return out


@program
def bayesian_optimization():
    from botorch.acquisition import LogExpectedImprovement, UpperConfidenceBound
    from botorch.fit import fit_gpytorch_mll
    from botorch.models import SingleTaskGP
    from gpytorch.mlls import ExactMarginalLogLikelihood

    x = (numbers(10, 2).double() + 1) / 2
    y = (x - 0.4).pow(2).sum(1, keepdim=True).neg()
    model = SingleTaskGP(x, y)
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    at = torch.linspace(0.1, 0.9, 6).double().view(3, 1, 2)
    return told(
        LogExpectedImprovement(model, y.max())(at),
        UpperConfidenceBound(model, beta=0.2)(at),
        model.posterior(at[:, 0]).mean,
    )


@program
def laplace_approximation():
    from laplace import Laplace
    from torch.utils.data import DataLoader, TensorDataset

    model, out = small(), []
    fit(model, lambda: F.cross_entropy(model(X), Y), 10)
    for subset, structure in (("last_layer", "full"), ("all", "diag"), ("last_layer", "kron")):
        la = Laplace(model, "classification", subset_of_weights=subset, hessian_structure=structure)
        la.fit(DataLoader(TensorDataset(X, Y), batch_size=8))
        la.optimize_prior_precision(method="marglik")
        out += told(la(X, link_approx="probit"), la.log_marginal_likelihood())
    return out


@program
def bayesian_layers():
    from bayesian_torch.layers import Conv2dFlipout, LinearReparameterization

    layer = LinearReparameterization(8, 3)
    conv = Conv2dFlipout(1, 2, 3)
    layer(X), conv(numbers(1, 1, 6, 6))
    return [*told(layer.kl_loss() * 0 + 1, conv.kl_loss() * 0 + 1), float(sum(p.numel() for p in conv.parameters()))]


@program
def pykan():
    from kan import KAN

    model = KAN(width=[2, 3, 1], grid=3, k=3, seed=0, auto_save=False, symbolic_enabled=False)
    x = numbers(20, 2) * 0.9
    for _, p in sorted(model.named_parameters()):
        with torch.no_grad():
            p.copy_(numbers(*p.shape) * 0.3)
    return [*told(model(x)), *fit(model, lambda: model(x).pow(2).mean(), 3)]


if __name__ == "__main__":
    run_programs()
