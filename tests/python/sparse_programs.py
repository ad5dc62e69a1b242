"""Programs with sparse tensors as people write them, run by Smolder or by torch: `torch` is either.

    python sparse_programs.py torch              writes the golden file beside the tests, from torch
    python sparse_programs.py MODULE time [N]    times a step of each, one thread, at N times the size

Each takes a module and a size, and yields numbers step by step: losses, norms, what it prints at the end.
"""

import importlib
import json
import math
import sys
import time
from pathlib import Path

import numpy as np

GOLDEN = Path(__file__).parents[1] / "golden/sparse_programs.json"


def filled(torch, module, seed):
    """Gives parameters numbers that do not depend on a generator of torch's."""
    rng = np.random.default_rng(seed)
    with torch.no_grad():
        for p in module.parameters():
            p.copy_(torch.from_numpy((rng.standard_normal(tuple(p.shape)) / math.sqrt(p.shape[-1])).astype("float32")))
    return module


def graph(nodes, degree, seed):
    """Rows, columns and values of a normalised adjacency matrix with loops, as pygcn's normalize makes it."""
    rng = np.random.default_rng(seed)
    a = rng.integers(0, nodes, nodes * degree)
    b = rng.integers(0, nodes, nodes * degree)
    pairs = np.unique(np.stack([np.r_[a, b, np.arange(nodes)], np.r_[b, a, np.arange(nodes)]]), axis=1)
    counts = np.bincount(pairs[0], minlength=nodes)
    return pairs, (1.0 / counts[pairs[0]]).astype("float32"), nodes


def gcn(torch, scale, steps=6):
    """Kipf's pygcn: two graph convolutions, torch.spmm with a sparse adjacency matrix, Adam with weight decay."""
    nn, F = torch.nn, torch.nn.functional
    nodes, features, hidden, classes = 60 * scale, 24, 16, 5
    places, values, n = graph(nodes, 3, 0)
    adj = torch.sparse.FloatTensor(torch.from_numpy(places), torch.from_numpy(values), torch.Size((n, n)))
    rng = np.random.default_rng(1)
    x = torch.FloatTensor(rng.standard_normal((n, features)).astype("float32"))
    labels = torch.LongTensor(rng.integers(0, classes, n))
    train = torch.LongTensor(list(range(n // 2)))

    class GraphConvolution(nn.Module):
        def __init__(self, in_features, out_features):
            super().__init__()
            self.weight = nn.parameter.Parameter(torch.FloatTensor(in_features, out_features))
            self.bias = nn.parameter.Parameter(torch.FloatTensor(out_features))

        def forward(self, input, adj):
            support = torch.mm(input, self.weight)
            output = torch.spmm(adj, support)
            return output + self.bias

    class GCN(nn.Module):
        def __init__(self):
            super().__init__()
            self.gc1 = GraphConvolution(features, hidden)
            self.gc2 = GraphConvolution(hidden, classes)

        def forward(self, x, adj):
            x = F.relu(self.gc1(x, adj))
            x = F.dropout(x, 0.0, training=self.training)
            x = self.gc2(x, adj)
            return F.log_softmax(x, dim=1)

    model = filled(torch, GCN(), 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    for _ in range(steps):
        model.train()
        optimizer.zero_grad()
        output = model(x, adj)
        loss = F.nll_loss(output[train], labels[train])
        loss.backward()
        optimizer.step()
        yield loss.item()


def gcn_csr(torch, scale, steps=6):
    """The same product with a CSR matrix that is a buffer, and gradients for its values too."""
    nodes = 60 * scale
    places, values, n = graph(nodes, 3, 3)
    held = torch.sparse_coo_tensor(torch.from_numpy(places), torch.from_numpy(values), (n, n)).coalesce()
    crow = held.to_sparse_csr()
    x = torch.from_numpy(np.random.default_rng(4).standard_normal((n, 8)).astype("float32"))
    module = torch.nn.Module()
    module.register_buffer("adjacency", crow)
    module.weight = torch.nn.Parameter(torch.from_numpy(np.eye(8, 4, dtype="float32")))
    edges = torch.nn.Parameter(held.values().clone())
    optimizer = torch.optim.SGD([module.weight, edges], lr=0.05)
    for _ in range(steps):
        optimizer.zero_grad()
        first = module.adjacency @ (x @ module.weight)
        weighted = torch.sparse_coo_tensor(held.indices(), edges, (n, n))
        out = torch.sparse.mm(weighted, first.tanh())
        loss = (out - 0.1).square().mean()
        loss.backward()
        optimizer.step()
        yield loss.item()


def factorization(torch, scale, steps=8):
    """Matrix factorisation with sparse embeddings, SGD: one batch of ratings a step."""
    nn = torch.nn
    users, items, rank, batch = 50 * scale, 70 * scale, 8, 64

    class MatrixFactorization(nn.Module):
        def __init__(self):
            super().__init__()
            self.user_factors = nn.Embedding(users, rank, sparse=True)
            self.item_factors = nn.Embedding(items, rank, sparse=True)
            self.user_biases = nn.Embedding(users, 1, sparse=True)

        def forward(self, user, item):
            dot = (self.user_factors(user) * self.item_factors(item)).sum(1)
            return dot + self.user_biases(user).squeeze(1)

    model = filled(torch, MatrixFactorization(), 5)
    loss_function = nn.MSELoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    rng = np.random.default_rng(6)
    for _ in range(steps):
        user, item = (torch.from_numpy(rng.integers(0, n, batch)) for n in (users, items))
        rating = torch.from_numpy(rng.standard_normal(batch).astype("float32"))
        optimizer.zero_grad()
        loss = loss_function(model(user, item), rating)
        loss.backward()
        optimizer.step()
        yield loss.item()


def skipgram(torch, scale, steps=8):
    """word2vec's skip-gram with negative samples: SparseAdam on two sparse embeddings."""
    nn, F = torch.nn, torch.nn.functional
    words, width, batch = 80 * scale, 12, 48
    model = nn.Module()
    model.u, model.v = nn.Embedding(words, width, sparse=True), nn.Embedding(words, width, sparse=True)
    filled(torch, model, 7)
    optimizer = torch.optim.SparseAdam(list(model.parameters()), lr=0.02)
    rng = np.random.default_rng(8)
    for _ in range(steps):
        u, v = (torch.from_numpy(rng.integers(0, words, batch)) for _ in range(2))
        other = torch.from_numpy(rng.integers(0, words, (batch, 4)))
        optimizer.zero_grad()
        emb_u, emb_v, emb_other = model.u(u), model.v(v), model.v(other)
        score = F.logsigmoid((emb_u * emb_v).sum(1).clamp(-10, 10))
        negative = F.logsigmoid(-torch.bmm(emb_other, emb_u.unsqueeze(2)).squeeze(2)).sum(1)
        loss = -(score + negative).mean()
        loss.backward()
        optimizer.step()
        yield loss.item()


def classification(torch, scale, steps=8):
    """The tutorial's text classifier: EmbeddingBag(sparse=True) with offsets, a linear layer, SGD and Adagrad."""
    nn = torch.nn
    words, width, classes, batch = 200 * scale, 16, 4, 16

    class TextClassificationModel(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.EmbeddingBag(words, width, sparse=True)
            self.fc = nn.Linear(width, classes)

        def forward(self, text, offsets):
            return self.fc(self.embedding(text, offsets))

    model = filled(torch, TextClassificationModel(), 9)
    optimizers = [
        torch.optim.Adagrad(model.embedding.parameters(), lr=0.1),
        torch.optim.SGD(model.fc.parameters(), lr=0.5),
    ]
    criterion = torch.nn.CrossEntropyLoss()
    rng = np.random.default_rng(10)
    for _ in range(steps):
        text = torch.from_numpy(rng.integers(0, words, batch * 12))
        offsets = torch.arange(0, batch * 12, 12)
        label = torch.from_numpy(rng.integers(0, classes, batch))
        for o in optimizers:
            o.zero_grad()
        loss = criterion(model(text, offsets), label)
        loss.backward()
        for o in optimizers:
            o.step()
        yield loss.item()


def pagerank(torch, scale, steps=12):
    """PageRank by torch.sparse.mm of the transition matrix and the ranks."""
    places, values, n = graph(100 * scale, 3, 11)
    transition = torch.sparse_coo_tensor(torch.from_numpy(places), torch.from_numpy(values).double(), (n, n)).t()
    ranks = torch.full((n, 1), 1 / n, dtype=torch.float64)
    for _ in range(steps):
        new = 0.85 * torch.sparse.mm(transition, ranks) + 0.15 / n
        change, ranks = (new - ranks).abs().sum(), new
        yield change.item()
    yield from ranks.flatten()[:5].tolist()


def conjugate_gradient(torch, scale, steps=10):
    """Solves a system with the Laplacian of a grid plus the identity, by conjugate gradients."""
    side = 12 * int(math.sqrt(scale))
    n = side * side
    number = torch.arange(n).reshape(side, side)
    right = torch.stack([number[:, :-1].flatten(), number[:, 1:].flatten()])
    down = torch.stack([number[:-1].flatten(), number[1:].flatten()])
    edges = torch.cat([right, down, right.flip(0), down.flip(0)], dim=1)
    adjacency = torch.sparse_coo_tensor(edges, torch.ones(edges.shape[1], dtype=torch.float64), (n, n)).coalesce()
    degrees = torch.sparse.sum(adjacency, dim=1).to_dense()
    diagonal = torch.sparse_coo_tensor(torch.arange(n).repeat(2, 1), degrees + 1, (n, n))
    laplacian = (diagonal - adjacency).coalesce()
    yield float(laplacian._nnz())
    b = torch.sin(torch.arange(n, dtype=torch.float64)).unsqueeze(1)
    x = torch.zeros_like(b)
    r = b - torch.sparse.mm(laplacian, x)
    p, rs = r, (r * r).sum()
    for _ in range(steps):
        ap = torch.sparse.mm(laplacian, p)
        alpha = rs / (p * ap).sum()
        x, r = x + alpha * p, r - alpha * ap
        new = (r * r).sum()
        p, rs = r + (new / rs) * p, new
        yield rs.item()


def attention(torch, scale, steps=6):
    """Graph attention by hand: scores of edges, sparse.softmax over neighbours, sparse.mm with the features."""
    nodes = 40 * scale
    places, _, n = graph(nodes, 3, 12)
    edges = torch.from_numpy(places)
    rng = np.random.default_rng(13)
    x = torch.from_numpy(rng.standard_normal((n, 8)).astype("float32"))
    a = torch.from_numpy(rng.standard_normal((8, 2)).astype("float32")).requires_grad_()
    for _ in range(steps):
        s = x @ a
        scores = torch.tanh(s[edges[0], 0] + s[edges[1], 1])
        weights = torch.sparse.softmax(torch.sparse_coo_tensor(edges, scores, (n, n)), dim=1)
        loss = (torch.sparse.mm(weights, x) - 0.5).square().mean()
        (gradient,) = torch.autograd.grad(loss, a)
        a = (a - 0.5 * gradient).detach().requires_grad_()
        yield loss.item()


PROGRAMS = {
    f.__name__: f
    for f in (gcn, gcn_csr, factorization, skipgram, classification, pagerank, conjugate_gradient, attention)
}


def timed(torch, scale):
    """Milliseconds of a step, the median of those after the first few."""
    torch.set_num_threads(1)
    for name, program in PROGRAMS.items():
        times, last = [], time.perf_counter()
        for _ in program(torch, scale, steps=60):
            now = time.perf_counter()
            times.append(now - last)
            last = now
        print(f"{name:20} {1e3 * float(np.median(times[20:])):8.3f} ms")


if __name__ == "__main__":
    module = importlib.import_module(sys.argv[1])
    if sys.argv[2:3] == ["time"]:
        timed(module, int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    else:
        results = {name: list(program(module, 1)) for name, program in PROGRAMS.items()}
        GOLDEN.write_text(json.dumps(results, indent=0) + "\n")
