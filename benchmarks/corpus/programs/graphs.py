"""Graphs of nodes and edges."""

import torch
import torch.nn.functional as F

from corpus.common import Draw, program, training


def random_graph(draw, nodes, edges):
    return draw.integers(nodes, edges), draw.integers(nodes, edges)


@program("graphs")
def gcn(device, small):
    """Two layers of graph convolution by gather and scatter_add (Kipf and Welling, 2017)."""
    nodes, edges, width = (30, 90, 8) if small else (20_000, 200_000, 64)
    draw = Draw(device)
    source, target = random_graph(draw, nodes, edges)
    x, labels = draw.normal(nodes, width), draw.integers(7, nodes)
    degree = torch.zeros(nodes, device=device).scatter_add_(0, target, torch.ones(edges, device=device)).clamp(min=1)
    scale = (degree[source] * degree[target]).rsqrt()[:, None]

    class Convolution(torch.nn.Module):
        def __init__(self, before, after):
            super().__init__()
            self.linear = torch.nn.Linear(before, after)

        def forward(self, h):
            h = self.linear(h)
            messages = h[source] * scale
            return torch.zeros_like(h).scatter_add_(0, target[:, None].expand_as(messages), messages)

    model = draw.weights(torch.nn.Sequential(Convolution(width, width), torch.nn.ReLU(), Convolution(width, 7)))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    return training(model, optimizer, lambda m: F.cross_entropy(m(x), labels))


@program("graphs")
def graph_attention(device, small):
    """Attention over the edges of a graph, with a softmax by scatter_reduce (Velickovic et al., 2018)."""
    nodes, edges, heads, width = (20, 60, 2, 4) if small else (10_000, 100_000, 4, 16)
    draw = Draw(device)
    source, target = random_graph(draw, nodes, edges)
    x = draw.normal(nodes, heads * width)

    class Attention(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(heads * width, heads * width, bias=False)
            self.left = torch.nn.Parameter(torch.zeros(heads, width))
            self.right = torch.nn.Parameter(torch.zeros(heads, width))

        def forward(self, h):
            h = self.linear(h).view(-1, heads, width)
            score = (h * self.left).sum(-1)[source] + (h * self.right).sum(-1)[target]
            score = F.leaky_relu(score, 0.2)
            index = target[:, None].expand(-1, heads)
            top = torch.full((nodes, heads), -1e9, device=device).scatter_reduce(0, index, score, "amax")
            e = torch.exp(score - top[target].detach())
            total = torch.zeros(nodes, heads, device=device).index_add(0, target, e)
            weighted = h[source] * (e / total[target])[..., None]
            return torch.zeros_like(h).index_add(0, target, weighted).flatten(1)

    model = draw.weights(torch.nn.Sequential(Attention(), torch.nn.ELU(), Attention()))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
    return training(model, optimizer, lambda m: m(x).square().mean())


@program("graphs")
def pagerank(device, small):
    """PageRank by power iteration over an edge list."""
    nodes, edges, steps = (20, 80, 5) if small else (50_000, 500_000, 20)
    source, target = random_graph(Draw(device), nodes, edges)
    out = torch.bincount(source, minlength=nodes).clamp(min=1).float()

    def step():
        rank = torch.full((nodes,), 1 / nodes, device=device)
        for _ in range(steps):
            flow = torch.zeros(nodes, device=device).index_add_(0, target, (rank / out)[source])
            rank = 0.15 / nodes + 0.85 * flow
        return rank

    return step


@program("graphs")
def shortest_paths(device, small):
    """Floyd and Warshall's algorithm, a rank-one update a node."""
    n = 12 if small else 400
    distance = Draw(device).uniform(n, n, low=1, high=10)

    def step():
        d = distance.clone()
        for k in range(n):
            d = torch.minimum(d, d[:, k, None] + d[None, k, :])
        return d

    return step


@program("chemistry")
def molecules_by_messages(device, small):
    """Message passing over padded molecules in batches, with masks (after Gilmer et al., 2017)."""
    batch, atoms, width = (3, 5, 8) if small else (128, 32, 64)
    draw = Draw(device)
    count = draw.integers(atoms, batch) + 1
    mask = (torch.arange(atoms, device=device)[None] < count[:, None]).float()
    bonds = (draw.uniform(batch, atoms, atoms) < 0.2).float() * mask[:, :, None] * mask[:, None, :]
    features, energy = draw.normal(batch, atoms, width), draw.normal(batch)

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.message, self.cell = torch.nn.Linear(width, width), torch.nn.GRUCell(width, width)
            self.out = torch.nn.Linear(width, 1)

        def forward(self, h):
            for _ in range(3):
                m = torch.bmm(bonds, torch.relu(self.message(h)))
                h = self.cell(m.reshape(-1, width), h.reshape(-1, width)).view(batch, atoms, width)
            return (self.out(h).squeeze(-1) * mask).sum(1) / mask.sum(1)

    model = draw.weights(Net())
    return training(model, torch.optim.Adam(model.parameters()), lambda m: F.mse_loss(m(features), energy))
