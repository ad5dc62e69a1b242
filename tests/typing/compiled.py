"""smolder.compile keeps signatures; graphs, files, explanations."""

import tempfile
from pathlib import Path
from typing import Any

import smolder
from smolder import Tensor, nn


@smolder.compile
def affine(x: Tensor, scale: float, *, shift: float = 0.0) -> Tensor:
    return x * scale + shift


@smolder.compile(fullgraph=True, dynamic=False)
def squared(x: Tensor) -> tuple[Tensor, Tensor]:
    return x * x, x.sum()


class Tiny(nn.Module):
    def forward(self, x: Tensor, times: int = 1) -> Tensor:
        return x * times


tiny = smolder.compile(Tiny())
first: Tensor = affine(smolder.ones(2), 2.0, shift=1.0)
second: tuple[Tensor, Tensor] = squared(smolder.ones(2))
third: Tensor = tiny(smolder.ones(2), times=3)
module: Tiny = tiny
model = nn.Linear(2, 2)
graph: smolder.Graph = smolder.capture(model, smolder.ones(1, 2))
explanation = smolder.explain(affine)(smolder.ones(2), 2.0)
breaks: int = explanation.graph_break_count
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "model.pt"
    smolder.save(model.state_dict(), path)
    loaded: dict[str, Any] = smolder.load(path)
    model.load_state_dict(loaded)
    graph.save(Path(folder) / "model.graph")
    again = smolder.load_graph(Path(folder) / "model.graph")
    smolder.safetensors.save_file({"w": model.weight.detach()}, Path(folder) / "w.safetensors")
    tensors: dict[str, Tensor] = smolder.safetensors.load_file(Path(folder) / "w.safetensors")
print(first, second, third, module, breaks, again, tensors["w"].shape)
