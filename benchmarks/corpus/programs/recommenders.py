"""Users, items and clicks."""

import torch
import torch.nn.functional as F

from corpus.common import Draw, mlp, program, training


@program("recommenders")
def ranking_pairs(device, small):
    """Matrix factorization for rankings: BPR (Rendle et al., 2009)."""
    users, items, width, batch = (20, 30, 4, 8) if small else (50_000, 20_000, 64, 4096)
    draw = Draw(device)
    model = torch.nn.ModuleDict({"user": torch.nn.Embedding(users, width), "item": torch.nn.Embedding(items, width)})
    draw.weights(model)
    who, liked, other = draw.integers(users, batch), draw.integers(items, batch), draw.integers(items, batch)

    def loss(m):
        u = m["user"](who)
        difference = (u * (m["item"](liked) - m["item"](other))).sum(-1)
        return -F.logsigmoid(difference).mean() + 1e-4 * u.square().sum(-1).mean()

    return training(model, torch.optim.SGD(model.parameters(), lr=0.1), loss)


@program("recommenders")
def dlrm(device, small):
    """Bags of categorical features, interactions by products (Naumov et al., 2019)."""
    tables, rows, width, batch = (3, 20, 4, 6) if small else (26, 10_000, 32, 1024)
    draw = Draw(device)

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.bottom = mlp(13, 64, width)
            self.bags = torch.nn.ModuleList(torch.nn.EmbeddingBag(rows, width, mode="sum") for _ in range(tables))
            self.top = mlp(width + (tables + 1) * tables // 2, 64, 1)
            self.pairs = torch.tril_indices(tables + 1, tables + 1, -1, device=device)

        def forward(self, dense, indices, offsets):
            x = self.bottom(dense)
            parts = [x] + [bag(i, o) for bag, i, o in zip(self.bags, indices, offsets)]
            t = torch.stack(parts, 1)
            z = torch.bmm(t, t.transpose(1, 2))[:, self.pairs[0], self.pairs[1]]
            return self.top(torch.cat((x, z), 1)).squeeze(1)

    model = draw.weights(Net())
    dense, clicked = draw.normal(batch, 13), draw.integers(2, batch).float()
    indices = [draw.integers(rows, 3 * batch) for _ in range(tables)]
    offsets = [torch.arange(0, 3 * batch, 3, device=device) for _ in range(tables)]
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.01)
    return training(model, optimizer, lambda m: F.binary_cross_entropy_with_logits(m(dense, indices, offsets), clicked))


@program("recommenders")
def two_towers(device, small):
    """Two towers with a softmax over the batch's other items."""
    batch, width = (6, 8) if small else (2048, 64)
    draw = Draw(device)
    model = torch.nn.ModuleDict({"query": mlp(32, 128, width), "item": mlp(48, 128, width)})
    draw.weights(model)
    query, item = draw.normal(batch, 32), draw.normal(batch, 48)
    labels = torch.arange(batch, device=device)

    def loss(m):
        q, i = F.normalize(m["query"](query), dim=-1), F.normalize(m["item"](item), dim=-1)
        return F.cross_entropy(q @ i.T / 0.05, labels)

    return training(model, torch.optim.AdamW(model.parameters(), lr=1e-3), loss)


@program("recommenders")
def factorization_machine(device, small):
    """Factorization machines over many fields (Rendle, 2010)."""
    fields, rows, width, batch = (4, 50, 4, 6) if small else (39, 100_000, 16, 4096)
    draw = Draw(device)
    model = torch.nn.ModuleDict({"linear": torch.nn.Embedding(rows, 1), "factors": torch.nn.Embedding(rows, width)})
    draw.weights(model)
    x, y = draw.integers(rows, batch, fields), draw.integers(2, batch).float()

    def loss(m):
        v = m["factors"](x)
        pairs = 0.5 * (v.sum(1).pow(2) - v.pow(2).sum(1)).sum(1)
        return F.binary_cross_entropy_with_logits(m["linear"](x).sum((1, 2)) + pairs, y)

    return training(model, torch.optim.Adam(model.parameters(), lr=1e-3), loss)


@program("recommenders")
def alternating_least_squares(device, small):
    """Factors of a table with holes: each row's are the solution of a small system (Zhou et al., 2008)."""
    rows, columns, factors = (6, 5, 2) if small else (60, 50, 8)
    draw = Draw(device)
    table, known = draw.normal(rows, columns), draw.uniform(rows, columns) < 0.7
    u, v = draw.normal(rows, factors), draw.normal(columns, factors)
    ridge = 0.1 * torch.eye(factors, device=device)

    def fit(ours, theirs, values, there):
        for i in range(len(ours)):
            a = theirs[there[i]]
            ours[i] = torch.linalg.solve(a.T @ a + ridge, a.T @ values[i][there[i]])

    def step():
        fit(u, v, table, known)
        fit(v, u, table.T, known.T)
        return u @ v.T

    return step
