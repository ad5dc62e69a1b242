"""A model of modules in modules: calls are typed by forward()."""

from collections import OrderedDict
from collections.abc import Iterator

import smolder
import smolder.nn.functional as F
from smolder import Tensor, nn


class Block(nn.Module):
    scale: Tensor

    def __init__(self, width: int, dropout: float = 0.1) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, 2, batch_first=True)
        self.feed = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
        self.dropout = nn.Dropout(dropout)
        self.gain = nn.Parameter(smolder.ones(width))
        self.register_buffer("scale", smolder.tensor(0.5))

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        normed = self.norm(x)
        mixed, _ = self.attention(normed, normed, normed, attn_mask=mask, need_weights=False)
        out: Tensor = self.feed(x + mixed)
        return self.dropout(out) * self.gain * self.scale


class Classifier(nn.Module):
    def __init__(self, classes: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 8)
        self.blocks = nn.ModuleList(Block(8) for _ in range(2))
        self.pool = nn.AdaptiveAvgPool1d(1)
        self.heads = nn.ModuleDict({"label": nn.Linear(8, classes)})

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        x = self.pool(x.transpose(1, 2)).squeeze(-1)
        return self.heads["label"](F.relu(x))


model = Classifier(3)
logits = model(smolder.randint(0, 11, (4, 5)))
loss: Tensor = nn.CrossEntropyLoss(label_smoothing=0.1)(logits, smolder.tensor([0, 1, 2, 0]))
loss.backward()
norm: Tensor = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
weight: nn.Parameter = nn.Linear(2, 3).weight
width: int = nn.Linear(2, 3).in_features
parameters: Iterator[nn.Parameter] = model.parameters()
names = [name for name, _ in model.named_parameters()]
saved = model.state_dict()
model.load_state_dict(OrderedDict(saved))
model = model.to(smolder.float64).eval()
frozen = model.requires_grad_(False).train(False)


def count(module: nn.Module) -> None:
    for parameter in module.parameters(recurse=False):
        nn.init.normal_(parameter, std=0.02)


frozen.apply(count)
handle = frozen.register_forward_hook(lambda module, args, output: output)
handle.remove()
print(loss.item(), norm, weight, width, names[0], next(parameters).shape)
