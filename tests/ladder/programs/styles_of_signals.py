"""Programs in the styles of public code, which need no library: complex numbers, Fourier transforms, spectrograms; nested batches."""

import math

import torch
from common import fill, numbers, program, run_programs, sums
from torch import nn
from torch.nn import functional as F


def parts(*tensors):
    """The sum of the real parts, and of the imaginary ones, of each."""
    return [x for t in tensors for x in sums(*((t.real, t.imag) if t.is_complex() else (t,)))]


def complex_numbers(*shape):
    return torch.complex(numbers(*shape), numbers(*shape).flip(0) * 0.5)


def descend(parameters, loss_of, steps=4, lr=0.05, make=torch.optim.Adam):
    optimizer = make(parameters, lr=lr)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = loss_of()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


class SpectralConv2d(nn.Module):
    """A layer of Fourier neural operators (Li et al., 2021)."""

    def __init__(self, width, modes):
        super().__init__()
        self.modes = modes
        scale = 1 / width**2
        self.weights1 = nn.Parameter(scale * complex_numbers(width, width, modes, modes))
        self.weights2 = nn.Parameter(scale * complex_numbers(width, width, modes, modes))

    def forward(self, x):
        batch, width, rows, columns = x.shape
        x_ft = torch.fft.rfft2(x)
        out_ft = torch.zeros(batch, width, rows, columns // 2 + 1, dtype=torch.cfloat, device=x.device)
        m = self.modes
        out_ft[:, :, :m, :m] = torch.einsum("bixy,ioxy->boxy", x_ft[:, :, :m, :m], self.weights1)
        out_ft[:, :, -m:, :m] = torch.einsum("bixy,ioxy->boxy", x_ft[:, :, -m:, :m], self.weights2)
        return torch.fft.irfft2(out_ft, s=(rows, columns))


@program
def fourier_neural_operator_in_two_dimensions():
    spectral, local = SpectralConv2d(3, 2), fill(nn.Conv2d(3, 3, 1))
    x, y = numbers(2, 3, 8, 8), numbers(2, 3, 8, 8).roll(1, -1)
    parameters = [*spectral.parameters(), *local.parameters()]
    losses = descend(parameters, lambda: F.mse_loss(F.gelu(spectral(x) + local(x)), y))
    return [*losses, *parts(spectral.weights1.grad)]


@program
def fourier_neural_operator_in_one_dimension():
    weights = nn.Parameter(0.1 * complex_numbers(4, 4, 3))
    x = numbers(2, 4, 16)

    def forward():
        x_ft = torch.fft.rfft(x)
        out = torch.zeros(2, 4, 9, dtype=torch.cfloat)
        out[:, :, :3] = torch.einsum("bix,iox->box", x_ft[:, :, :3], weights)
        return torch.fft.irfft(out, n=x.size(-1))

    return descend([weights], lambda: (forward() - x).square().mean(), make=torch.optim.AdamW)


def precompute_freqs_cis(dim, end, theta=10000.0):
    freqs = 1.0 / (theta ** (torch.arange(0, dim, 2)[: (dim // 2)].float() / dim))
    freqs = torch.outer(torch.arange(end), freqs).float()
    return torch.polar(torch.ones_like(freqs), freqs)


@program
def rotary_positions_of_llama():
    q = numbers(2, 6, 3, 8).requires_grad_()
    k = numbers(2, 6, 3, 8) * 0.5
    freqs_cis = precompute_freqs_cis(8, 12)[:6].view(1, 6, 1, 4)

    def rotate(x):
        x_ = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
        return torch.view_as_real(x_ * freqs_cis).flatten(3).type_as(x)

    scores = torch.einsum("bqhd,bkhd->bhqk", rotate(q), rotate(k)).softmax(-1)
    scores.square().sum().backward()
    return parts(scores.diagonal(dim1=-2, dim2=-1), q.grad, freqs_cis)


@program
def spectrogram_and_back():
    x = numbers(2, 128)
    window = torch.hann_window(32)
    spectrum = torch.stft(x, 32, 8, window=window, return_complex=True)
    back = torch.istft(spectrum, 32, 8, window=window, length=128)
    return [*parts(spectrum, spectrum.abs(), spectrum.angle().cos()), float((back - x).abs().max() < 1e-4)]


@program
def griffin_lim():
    magnitude = torch.stft(numbers(64), 16, 4, window=torch.hann_window(16), return_complex=True).abs()
    window, angles = torch.hann_window(16), torch.ones_like(magnitude).to(torch.complex64)
    for _ in range(5):
        signal = torch.istft(magnitude * angles, 16, 4, window=window, length=64)
        rebuilt = torch.stft(signal, 16, 4, window=window, return_complex=True)
        angles = rebuilt / (rebuilt.abs() + 1e-8)
    return parts(signal.square(), rebuilt.abs())


@program
def losses_at_several_resolutions():
    target, guess = numbers(2, 96), (numbers(2, 96) * 0.7).requires_grad_()
    loss = 0.0
    for n_fft in (16, 32):
        a, b = (
            torch.stft(t, n_fft, n_fft // 4, window=torch.hann_window(n_fft), return_complex=True).abs().clamp(min=1e-5)
            for t in (guess, target)
        )
        loss = loss + (a - b).norm() / b.norm() + (a.log() - b.log()).abs().mean()
    loss.backward()
    return [loss.item(), float(guess.grad.isfinite().all())]


@program
def long_convolution_by_transforms():
    x, k = numbers(2, 4, 32), nn.Parameter(numbers(4, 32) * 0.1)

    def forward():
        n = 2 * x.size(-1)
        spectrum = torch.fft.rfft(x, n=n) * torch.fft.rfft(k, n=n)
        return torch.fft.irfft(spectrum, n=n)[..., : x.size(-1)]

    direct = F.conv1d(F.pad(x, (31, 0)), k.detach().flip(-1).unsqueeze(1), groups=4)
    return [float((forward() - direct).abs().max() < 1e-4), *descend([k], lambda: (forward() - 1).square().mean())]


@program
def diagonal_state_spaces():
    log_dt = nn.Parameter(torch.full((3,), -3.0))
    c = nn.Parameter(torch.view_as_real(complex_numbers(3, 4)).clone())
    log_a_real = nn.Parameter(torch.log(0.5 * torch.ones(3, 4)))
    a_imag = nn.Parameter(math.pi * torch.arange(4).repeat(3, 1).float())
    u = numbers(2, 3, 16)

    def forward():
        dt, a = torch.exp(log_dt), -torch.exp(log_a_real) + 1j * a_imag
        dta = a * dt.unsqueeze(-1)
        exponents = dta.unsqueeze(-1) * torch.arange(16)
        weights = torch.view_as_complex(c) * (torch.exp(dta) - 1.0) / a
        k = 2 * torch.einsum("hn,hnl->hl", weights, torch.exp(exponents)).real
        return torch.fft.irfft(torch.fft.rfft(u, n=32) * torch.fft.rfft(k, n=32), n=32)[..., :16]

    return descend([log_dt, c, log_a_real, a_imag], lambda: (forward() - u).square().mean(), lr=0.01)


@program
def power_spectrum_of_windows():
    x = numbers(256) + torch.sin(torch.arange(256) * 0.3)
    frames = x.unfold(0, 64, 32) * torch.hann_window(64)
    density = torch.fft.rfft(frames).abs().pow(2).mean(0)
    frequencies = torch.fft.rfftfreq(64, 1 / 100.0)
    return [float(frequencies[density.argmax()]), *parts(density.log())]


@program
def analytic_signal_and_envelope():
    x = numbers(3, 32)
    h = torch.zeros(32)
    h[0] = h[16] = 1
    h[1:16] = 2
    analytic = torch.fft.ifft(torch.fft.fft(x) * h)
    phase = torch.diff(analytic.angle()).cos()
    return parts(analytic, analytic.abs(), phase)


@program
def poisson_equation_on_a_torus():
    n = 16
    k = torch.fft.fftfreq(n, 1 / n)
    kx, ky = torch.meshgrid(k, k, indexing="ij")
    laplacian = -(kx**2 + ky**2)
    laplacian[0, 0] = 1.0
    f = numbers(n, n) - numbers(n, n).mean()
    f_hat = torch.fft.fft2(f)
    f_hat[0, 0] = 0
    u = torch.fft.ifft2(f_hat / laplacian).real
    back = torch.fft.ifft2(torch.fft.fft2(u) * laplacian).real
    return [float((back - f).abs().max() < 1e-3), *parts(u.square(), torch.fft.fftshift(f_hat.abs())[8])]


@program
def gates_on_qubits():
    hadamard = torch.tensor([[1, 1], [1, -1]], dtype=torch.complex64) / math.sqrt(2)
    angle = nn.Parameter(torch.tensor([0.3, 0.7, 1.1]))

    def circuit():
        state = torch.zeros(2, 2, 2, dtype=torch.complex64)
        state[0, 0, 0] = 1
        for q in range(3):
            state = torch.tensordot(hadamard, state, dims=([1], [q])).movedim(0, q)
            phase = torch.exp(1j * angle[q])
            gate = torch.stack([torch.ones_like(phase), phase])
            state = state * gate.reshape([2 if i == q else 1 for i in range(3)])
            state = torch.einsum("ab,b...->a...", hadamard, state.movedim(q, 0)).movedim(0, q)
        return state.abs().square()

    losses = descend([angle], lambda: 1 - circuit()[1, 1, 0], lr=0.2)
    return [*losses, *parts(circuit().flatten()), float(circuit().sum())]


@program
def reduced_representations_by_circular_convolution():
    keys, values = numbers(4, 16), numbers(4, 16).flip(0)
    bound = torch.fft.irfft(torch.fft.rfft(keys) * torch.fft.rfft(values), n=16).sum(0)
    inverse = torch.fft.irfft(torch.fft.rfft(keys).conj(), n=16)
    found = torch.fft.irfft(torch.fft.rfft(bound) * torch.fft.rfft(inverse), n=16)
    return parts(bound, F.cosine_similarity(found, values))


@program
def rotations_as_relations_of_knowledge_graphs():
    entities, relations = nn.Parameter(complex_numbers(6, 4)), nn.Parameter(numbers(3, 4))
    heads, kinds, tails = torch.tensor([0, 1, 2]), torch.tensor([0, 1, 2]), torch.tensor([3, 4, 5])

    def loss():
        turned = entities[heads] * torch.polar(torch.ones(3, 4), relations[kinds])
        distance = (turned - entities[tails]).abs().sum(-1)
        return F.softplus(distance - 2).mean()

    losses = descend([entities, relations], loss, make=lambda p, lr: torch.optim.SGD(p, lr=lr, momentum=0.9))
    return [*losses, *parts(entities)]


class ComplexLinear(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = nn.Parameter(0.3 * complex_numbers(outputs, inputs))
        self.bias = nn.Parameter(torch.zeros(outputs, dtype=torch.complex64))

    def forward(self, x):
        return F.linear(x, self.weight, self.bias)


@program
def layers_with_complex_weights():
    def crelu(z):
        return torch.complex(F.relu(z.real), F.relu(z.imag))

    first, last = ComplexLinear(5, 6), ComplexLinear(6, 2)
    x, y = complex_numbers(4, 5), complex_numbers(4, 2)
    losses = descend(
        [*first.parameters(), *last.parameters()], lambda: (last(crelu(first(x))) - y).abs().square().mean()
    )
    state = first.state_dict()
    again = ComplexLinear(5, 6)
    again.load_state_dict(state)
    return [*losses, *parts(again(x)), float(sum(p.numel() for p in again.parameters()))]


@program
def phases_from_magnitudes():
    measured = torch.fft.fft2(numbers(6, 6)).abs()
    guess = nn.Parameter(numbers(6, 6).roll(1, 0) * 0.8)
    losses = descend([guess], lambda: (torch.fft.fft2(guess, norm="ortho").abs() * 6 - measured).square().mean())
    return [*losses, *parts(guess)]


@program
def cosine_transform_by_a_fourier_one():
    x = numbers(3, 8)
    v = torch.cat([x[:, ::2], x[:, 1::2].flip(1)], dim=1)
    k = -torch.arange(8) * math.pi / 16
    spectrum = torch.view_as_real(torch.fft.fft(v, dim=1))
    dct = 2 * (spectrum[..., 0] * torch.cos(k) - spectrum[..., 1] * torch.sin(k))
    n = torch.arange(8)
    direct = 2 * x @ torch.cos(math.pi * (2 * n[:, None] + 1) * n[None] / 16)
    return [float((dct - direct).abs().max() < 1e-4), *parts(dct)]


@program
def mixing_tokens_by_transforms():
    x = numbers(2, 6, 8).requires_grad_()
    mixed = torch.fft.fft(torch.fft.fft(x, dim=-1), dim=-2).real
    F.layer_norm(mixed, (8,)).square().mean(-1).sum().backward()
    return parts(mixed, x.grad.square())


@program
def autocorrelation_and_impulse_responses():
    x = numbers(64)
    spectrum = torch.fft.rfft(x, n=128)
    correlation = torch.fft.irfft(spectrum * spectrum.conj(), n=128)[:64]
    poles = torch.polar(torch.tensor([0.9, 0.8]), torch.tensor([0.5, 1.5]))
    response = (poles[:, None] ** torch.arange(10)).sum(0)
    product = torch.linalg.norm(response) * torch.vdot(poles, poles).real
    return parts(correlation, response, product)


# -- batches of sentences of several lengths


def sentences():
    return [numbers(n, 8).roll(n, 0) for n in (3, 1, 5)]


@program
def attention_over_sentences_without_padding():
    heads, size = 2, 4
    layers = nn.ModuleDict({name: nn.Linear(8, 8) for name in ("query", "key", "value", "out")})
    layers["norm"] = nn.LayerNorm(8)
    fill(layers)
    x = torch.nested.nested_tensor(sentences(), layout=torch.jagged, requires_grad=True)
    normed = layers["norm"](x)
    q, k, v = (layers[n](normed).unflatten(-1, [heads, size]).transpose(1, 2) for n in ("query", "key", "value"))
    out = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(-2)
    y = x + layers["out"](out)
    padded = torch.nested.to_padded_tensor(y, 0.0)
    pooled = padded.sum(1)
    pooled.square().sum().backward()
    return parts(pooled, y.detach().mean(1), *(layers[n].weight.grad for n in layers), *x.grad.unbind())


@program
def packed_values_and_their_offsets():
    values, offsets = numbers(9, 4).requires_grad_(), torch.tensor([0, 3, 4, 9])
    x = torch.nested.nested_tensor_from_jagged(values, offsets)
    bag = (x * torch.sigmoid(x)).sum(dim=1)
    weights = torch.softmax(x.detach(), dim=1)
    (weights * x * torch.sigmoid(x)).to_padded_tensor(1.0).pow(3).sum().backward()
    return [*parts(bag, weights.values(), values.grad), *x.offsets().tolist()]


@program
def projections_split_by_lists_of_sizes():
    inner, rank, states = 8, 2, 3
    project = fill(nn.Linear(inner, rank + 2 * states))
    x = numbers(2, 5, inner)
    step, b, c = project(x).split(split_size=[rank, states, states], dim=-1)
    gates = torch.split(x, split_size_or_sections=4, dim=-1)
    out = torch.einsum("bln,bln,blr->blr", b, c, F.softplus(step)).sum() * gates[0].sum() + gates[1].square().sum()
    out.backward()
    return parts(
        out, project.weight.grad, torch.zeros(2, layout=torch.strided), x.gather(1, x.long().abs(), sparse_grad=False)
    )


if __name__ == "__main__":
    run_programs()
