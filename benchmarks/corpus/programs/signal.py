"""Speech and signals."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from corpus.common import Draw, program, training


@program("speech")
def filter_bank(device, small):
    """Log energies of a bank of filters over windows of a signal, the transform as a product."""
    samples, size = (512, 64) if small else (160_000, 512)
    hop, bands = size // 2, 20
    x = Draw(device).normal(4, samples)
    t = torch.arange(size, device=device, dtype=torch.float32)
    k = torch.arange(size // 2, device=device, dtype=torch.float32)
    angle = 2 * math.pi * k[:, None] * t[None] / size
    cosine, sine = torch.cos(angle), torch.sin(angle)
    window = torch.hann_window(size, device=device)
    centres = torch.linspace(0, size / 2, bands + 2, device=device)
    bank = torch.relu(1 - (k[None] - centres[1:-1, None]).abs() / (centres[1] - centres[0]))

    def step():
        frames = x.unfold(-1, size, hop) * window
        power = (frames @ cosine.T).square() + (frames @ sine.T).square()
        return torch.log(power @ bank.T + 1e-6)

    return step


@program("speech")
def wavenet(device, small):
    """Dilated causal convolutions with gates and skips (van den Oord et al., 2016)."""
    batch, length, width, layers = (1, 40, 4, 3) if small else (4, 4096, 32, 10)
    draw = Draw(device)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Conv1d(1, width, 1)
            self.gates = nn.ModuleList(nn.Conv1d(width, 2 * width, 2, dilation=2**i) for i in range(layers))
            self.mixes = nn.ModuleList(nn.Conv1d(width, width, 1) for _ in range(layers))
            self.last = nn.Conv1d(width, 256, 1)

        def forward(self, x):
            x, skips = self.first(x), 0
            for i, (gate, mix) in enumerate(zip(self.gates, self.mixes)):
                a, b = gate(F.pad(x, (2**i, 0))).chunk(2, dim=1)
                y = mix(torch.tanh(a) * torch.sigmoid(b))
                skips = skips + y
                x = x + y
            return self.last(F.relu(skips))

    model = draw.weights(Net())
    x, y = draw.normal(batch, 1, length), draw.integers(256, batch, length)
    return training(model, torch.optim.Adam(model.parameters(), lr=1e-3), lambda m: F.cross_entropy(m(x), y))


@program("speech")
def speech_ctc(device, small):
    """A bidirectional LSTM with a CTC loss."""
    batch, length, width = (2, 12, 8) if small else (16, 100, 128)
    draw = Draw(device)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm = nn.LSTM(40, width, bidirectional=True, batch_first=True)
            self.out = nn.Linear(2 * width, 29)

        def forward(self, x):
            return self.out(self.lstm(x)[0]).log_softmax(-1).transpose(0, 1)

    model = draw.weights(Net())
    x, y = draw.normal(batch, length, 40), draw.integers(28, batch, length // 4) + 1
    lengths, words = torch.full((batch,), length), torch.full((batch,), length // 4)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    return training(model, optimizer, lambda m: F.ctc_loss(m(x), y, lengths, words))


@program("robotics")
def kalman(device, small):
    """A Kalman filter for many tracks, a loop over times with small matrices."""
    tracks, times = (3, 6) if small else (1000, 50)
    seen = Draw(device).normal(times, tracks, 2, 1)
    eye = torch.eye(4, device=device)
    move = eye + 0.1 * torch.diag(torch.ones(2, device=device), 2)
    look = eye[:2]

    def step():
        x, p, total = torch.zeros(tracks, 4, 1, device=device), eye.expand(tracks, 4, 4), 0.0
        for t in range(times):
            x, p = move @ x, move @ p @ move.T + 0.01 * eye
            s = look @ p @ look.T + 0.1 * eye[:2, :2]
            gain = torch.linalg.solve(s, look @ p).transpose(-1, -2)
            error = seen[t] - look @ x
            x, p = x + gain @ error, p - gain @ look @ p
            total = total + error.square().sum()
        return total

    return step


@program("signal")
def sparse_coding(device, small):
    """ISTA for a sparse code of many signals."""
    signals, atoms, size, steps = (4, 12, 8, 5) if small else (2048, 512, 128, 30)
    draw = Draw(device)
    dictionary, y = F.normalize(draw.normal(size, atoms), dim=0), draw.normal(size, signals)

    def step():
        rate = 1 / torch.linalg.matrix_norm(dictionary, 2) ** 2
        code = torch.zeros(atoms, signals, device=device)
        for _ in range(steps):
            code = F.softshrink(code - rate * (dictionary.T @ (dictionary @ code - y)), 0.01)
        return code

    return step
