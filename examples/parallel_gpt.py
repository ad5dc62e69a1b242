"""A small GPT over several processes: sharded over one dimension of a mesh, tensor parallel over the other.

    python -m smolder.distributed.run --nproc-per-node 4 examples/parallel_gpt.py --mesh dp=2,tp=2

The losses are those of one process with whole batches (`python examples/parallel_gpt.py`), but for rounding. Run it again
with other processes and `--checkpoint FOLDER`, and it goes on from where it was.
"""

import argparse
import os

import smolder
from smolder import distributed as dist
from smolder import nn, optim
from smolder.distributed import checkpoint as dcp
from smolder.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from smolder.distributed.device_mesh import init_device_mesh
from smolder.distributed.fsdp import fully_shard
from smolder.distributed.tensor import Replicate
from smolder.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, loss_parallel, parallelize_module
from smolder.nn import functional as F

TEXT = "the quick brown fox jumps over the lazy dog. " * 40
LETTERS = sorted(set(TEXT))
WIDTH, HEADS, LENGTH = 32, 4, 16


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.q, self.k, self.v, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        y = self.norm1(x)
        q, k, v = (f(y).unflatten(-1, (-1, WIDTH // HEADS)).transpose(1, 2) for f in (self.q, self.k, self.v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.letters, self.places = nn.Embedding(len(LETTERS), WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList([Block() for _ in range(2)])
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, len(LETTERS), bias=False)

    def forward(self, ids):
        x = self.letters(ids) + self.places(smolder.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


# Which layers each process has some columns or rows of. Between the two of a pair nothing is sent.
PLAN = {
    "letters": RowwiseParallel(input_layouts=Replicate()),
    **{f"blocks.*.{name}": ColwiseParallel() for name in ("q", "k", "v", "up")},
    **{f"blocks.*.{name}": RowwiseParallel() for name in ("out", "down")},
    "head": ColwiseParallel(use_local_output=False),
}


def batch_of(step, rows):
    ids = smolder.tensor([LETTERS.index(c) for c in TEXT])
    begins = smolder.randint(0, len(TEXT) - LENGTH - 1, (rows,), generator=smolder.Generator().manual_seed(step))
    windows = begins.unsqueeze(1) + smolder.arange(LENGTH + 1)
    return ids[windows][:, :-1], ids[windows][:, 1:]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--mesh", default="dp=1,tp=1", help="processes that divide batches, and layers")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--batch", type=int, default=16, help="of all processes together")
    parser.add_argument("--checkpoint", help="a folder to go on from, and to save into")
    args = parser.parse_args()
    sizes = dict(part.split("=") for part in args.mesh.split(","))

    if "RANK" not in os.environ:  # started by hand: a group of one
        os.environ.update(RANK="0", WORLD_SIZE="1", MASTER_PORT="0")
    mesh = init_device_mesh("cpu", (int(sizes["dp"]), int(sizes["tp"])), mesh_dim_names=("dp", "tp"))
    dp = mesh["dp"]

    smolder.manual_seed(0)
    model = parallelize_module(GPT(), mesh["tp"], PLAN)
    for block in model.blocks:
        fully_shard(block, mesh=dp)
    fully_shard(model, mesh=dp)
    optimizer = optim.AdamW(model.parameters(), lr=1e-2)

    first = 0
    if args.checkpoint and os.path.exists(args.checkpoint):
        state, optim_state = get_state_dict(model, optimizer)
        saved = {"model": state, "optim": optim_state, "step": 0}
        dcp.load(saved, checkpoint_id=args.checkpoint)
        set_state_dict(model, optimizer, model_state_dict=saved["model"], optim_state_dict=saved["optim"])
        first = saved["step"]

    rows = args.batch // dp.size()
    for step in range(first, first + args.steps):
        x, y = (t[dp.get_local_rank() * rows :][:rows] for t in batch_of(step, args.batch))
        with loss_parallel():
            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
            loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        if step % 10 == 9 or step + 1 == first + args.steps:
            total = loss.full_tensor().detach().clone()
            dist.all_reduce(total, dist.ReduceOp.AVG, dp.get_group())
            if dist.get_rank() == 0:
                print(f"step {step + 1}: loss {total.item():.4f}", flush=True)

    if args.checkpoint:
        state, optim_state = get_state_dict(model, optimizer)
        dcp.save({"model": state, "optim": optim_state, "step": first + args.steps}, checkpoint_id=args.checkpoint)
    held = sum(p.to_local().numel() for p in model.parameters())
    print(f"rank {dist.get_rank()} of {mesh}: {held} of {sum(p.numel() for p in model.parameters())} parameters")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
