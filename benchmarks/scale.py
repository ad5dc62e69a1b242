"""What several GPUs of one machine show, on however many there are: prints tables.

`python benchmarks/scale.py [--steps correct,collectives,gpt2] [--columns smolder,torch] [--small]`

- correct: losses of a small GPT under DistributedDataParallel, fully_shard (ZeRO 3 and 2), tensor parallel and both at
  once against one GPU; bits of DistributedDataParallel from run to run.
- collectives: by size, beside torch.distributed with NCCL. Bus bandwidth is what NCCL's own tests call so.
- gpt2: weak scaling of GPT-2 124M in bfloat16 under DistributedDataParallel at one GPU and at all, beside torch.compile.

Each part runs in processes of its own, one a GPU, and is given up when its time is over. `--small` is for devices that are
emulated.
"""

import argparse
import hashlib
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
SECONDS = {"correct": 150, "collectives": 60, "gpt2": 120}  # at most, for each run of processes
TOLERANCE = 1e-3  # of a loss, relative: sums are in another order


# -- the processes


def spawn(column, part, size, options):
    """What the first of `size` processes printed as JSON; None, where one failed, which is told."""
    import socket

    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    command = [sys.executable, __file__, "--worker", f"{column}:{part}", *(["--small"] if options.small else [])]
    env = {**os.environ, "WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    env["NCCL_NVLS_ENABLE"] = os.environ.get("NCCL_NVLS_ENABLE", "0")  # as Smolder does, for all columns
    env.setdefault("NCCL_SOCKET_IFNAME", "lo")  # all are on this machine
    processes = [
        subprocess.Popen(
            command,
            env={**env, "RANK": str(r), "LOCAL_RANK": str(r)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for r in range(size)
    ]
    until, out = time.monotonic() + SECONDS[part] * options.patience, []
    for p in processes:
        try:
            out.append(p.communicate(timeout=max(1.0, until - time.monotonic()))[0])
        except subprocess.TimeoutExpired:
            p.kill()
            out.append(p.communicate()[0] + "\n(its time was over)")
    for r, (p, text) in enumerate(zip(processes, out, strict=True)):
        if p.returncode != 0:
            print(f"{column} {part}, rank {r} of {size}, exit status {p.returncode}:\n{text[-2500:]}", flush=True)
            return None
    said = [line[7:] for line in out[0].splitlines() if line.startswith("result ")]
    if not said:
        print(f"{column} {part}, on {size}: printed no result:\n{out[0][-2500:]}", flush=True)
    return json.loads(said[-1]) if said else None


def say(value):
    if os.environ["RANK"] == "0":
        print("result " + json.dumps(value), flush=True)


# -- losses


def small_shape(small):
    if small:
        return {"vocabulary": 32, "context": 8, "layers": 1, "heads": 4, "width": 16}
    return {"vocabulary": 512, "context": 128, "layers": 4, "heads": 8, "width": 256}


def split_gpt(nn, F, shape):
    """A GPT whose layers tensor parallel can divide: queries, keys and values are three."""
    import smolder

    width, heads = shape["width"], shape["heads"]

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            y = self.norm1(x)
            q, k, v = (f(y).unflatten(-1, (-1, width // heads)).transpose(1, 2) for f in (self.q, self.k, self.v))
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(y.transpose(1, 2).flatten(2))
            return x + self.down(F.gelu(self.up(self.norm2(x))))

    class GPT(nn.Module):
        def __init__(self):
            super().__init__()
            self.token = nn.Embedding(shape["vocabulary"], width)
            self.position = nn.Embedding(shape["context"], width)
            self.blocks = nn.ModuleList([Block() for _ in range(shape["layers"])])
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, shape["vocabulary"], bias=False)

        def forward(self, text):
            x = self.token(text) + self.position(smolder.arange(text.shape[1], device=text.device))
            for block in self.blocks:
                x = block(x)
            return self.head(self.norm(x))

    return GPT()


def train(how, small):
    """Losses of the whole batch, step by step, and a digest of all parameters."""
    import smolder
    from smolder import distributed as dist
    from smolder import nn
    from smolder.distributed.fsdp import fully_shard
    from smolder.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
    from smolder.nn import functional as F
    from smolder.nn.parallel import DistributedDataParallel

    shape, steps, size = small_shape(small), 4 if small else 50, dist.get_world_size()
    tp = {"tp": size, "dp x tp": max(1, size // 2)}.get(how, 1)
    dp = size // tp
    device = f"cuda:{smolder.cuda.current_device()}"
    mesh = dist.init_device_mesh("cuda", (dp, tp), mesh_dim_names=("dp", "tp"))
    smolder.manual_seed(0)
    model = split_gpt(nn, F, shape).to(device)
    if tp > 1:
        columns, rows = ("q", "k", "v", "up"), ("out", "down")
        plan = {f"blocks.*.{name}": ColwiseParallel() for name in columns}
        parallelize_module(model, mesh["tp"], {**plan, **{f"blocks.*.{name}": RowwiseParallel() for name in rows}})
    if how == "ddp":
        model = DistributedDataParallel(model, device_ids=[device])
    elif how != "tp" and size > 1:
        for block in model.blocks:
            fully_shard(block, mesh=mesh["dp"], reshard_after_forward=how != "zero 2")
        fully_shard(model, mesh=mesh["dp"], reshard_after_forward=how != "zero 2")
    optimizer = smolder.optim.AdamW(model.parameters(), lr=1e-3)
    batch = 4 * max(2, size)
    part = batch // dp
    first = mesh["dp"].get_local_rank() * part
    generator, losses = smolder.Generator().manual_seed(1), []
    for _ in range(steps):
        text = smolder.randint(0, shape["vocabulary"], (batch, shape["context"] + 1), generator=generator)
        mine = text[first : first + part].to(device)
        optimizer.zero_grad()
        scores = model(mine[:, :-1])
        loss = F.cross_entropy(scores.flatten(0, 1), mine[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean, dist.ReduceOp.AVG, mesh["dp"].get_group())
        losses.append(mean)
    found = [float(x) for x in losses]
    digest = hashlib.sha256()
    if how == "ddp":
        for p in model.parameters():
            digest.update(p.detach().cpu().numpy().tobytes())
    return found, digest.hexdigest()


def worker_correct(small):
    from smolder import distributed as dist

    size, out = dist.get_world_size(), {}
    ways = ["one"] if size == 1 else ["ddp", "ddp", "zero 3", "zero 2", "tp", *(["dp x tp"] if size % 2 == 0 else [])]
    for how in ways:
        losses, bits = train(how, small)
        before = out.get(how)
        out[how] = {"losses": losses, "bits": bits, **({"same": before["bits"] == bits} if before else {})}
    say(out)


def correct(size, options):
    one = spawn("smolder", "correct", 1, options)
    many = spawn("smolder", "correct", size, options) if size > 1 else {}
    if one is None or many is None:
        return False
    want, good = one["one"]["losses"], True
    print(
        f"\nLosses of a small GPT on {size} GPUs against one: first {want[0]:.5f}, last {want[-1]:.5f}, {len(want)} steps"
    )
    print(f"| {'how':10} | last loss | largest difference | |\n| --- | --- | --- | --- |")
    for how, got in many.items():
        off = max(abs(a - b) / abs(b) for a, b in zip(got["losses"], want, strict=True))
        ok = off < TOLERANCE and got.get("same", True)
        good &= ok
        again = {True: ", same bits again", False: ", OTHER BITS"}.get(got.get("same"), "")
        print(f"| {how:10} | {got['losses'][-1]:.5f} | {off:.1e} | {'ok' if ok else 'WRONG'}{again} |", flush=True)
    return good


# -- collectives

OPS = ("all_reduce", "all_gather", "reduce_scatter")


def sizes_of(small):
    return [1 << k for k in ((10, 14) if small else range(10, 29, 2))]


def worker_collectives(lib, dist, small, finish):
    """Microseconds a call, by op and bytes: of the whole tensor, as NCCL's tests count."""
    size, out = dist.get_world_size(), {}
    device = f"cuda:{lib.cuda.current_device()}"
    for op in OPS:
        for n in sizes_of(small):
            whole = lib.ones(n // 4 // size * size, device=device)
            part = lib.ones(whole.numel() // size, device=device)
            call = {
                "all_reduce": lambda whole=whole: dist.all_reduce(whole),
                "all_gather": lambda whole=whole, part=part: dist.all_gather_into_tensor(whole, part),
                "reduce_scatter": lambda whole=whole, part=part: dist.reduce_scatter_tensor(part, whole),
            }[op]
            repeat, times = (2 if small else 10), []
            for _ in range(2 if small else 6):
                whole.fill_(0.0)
                part.fill_(0.0)
                finish()
                dist.barrier()
                start = time.perf_counter()
                for _ in range(repeat):
                    call()
                finish()
                times.append((time.perf_counter() - start) / repeat)
            out[f"{op} {n}"] = statistics.median(times[1:]) * 1e6
    say(out)


def collectives(size, options):
    found = {c: spawn(c, "collectives", size, options) for c in options.columns}
    found = {c: times for c, times in found.items() if times}
    share = {"all_reduce": 2 * (size - 1) / size, "all_gather": (size - 1) / size, "reduce_scatter": (size - 1) / size}
    print(f"\nCollectives on {size} GPUs, float32: microseconds a call (GB/s of bus bandwidth)")
    print(f"| op | bytes | {' | '.join(found)} |\n| --- | --- |{' --- |' * len(found)}")
    for op in OPS:
        for n in sizes_of(options.small):
            cells = [f"{t:.1f} ({share[op] * n / t / 1e3:.1f})" for t in (found[c][f"{op} {n}"] for c in found)]
            print(f"| {op} | {n} | {' | '.join(cells)} |", flush=True)
    return len(found) == len(options.columns)


# -- GPT-2


def gpt2_shape(small):
    if small:
        return 2, {"vocabulary": 64, "context": 16, "layers": 1, "heads": 2, "width": 32}
    return 16, {"vocabulary": 50304, "context": 1024, "layers": 12, "heads": 12, "width": 768}


def worker_gpt2(lib, dist, wrap, small, finish):
    """Seconds a step and tokens a second of all processes."""
    from models import gpt

    batch, shape = gpt2_shape(small)
    F, device = lib.nn.functional, f"cuda:{lib.cuda.current_device()}"
    lib.manual_seed(0)
    model = wrap(gpt(lib, device=device, **shape))
    optimizer = lib.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.1)
    text = lib.randint(0, shape["vocabulary"], (batch, shape["context"] + 1), device=device)

    def step():
        optimizer.zero_grad(set_to_none=True)
        with lib.autocast("cuda", dtype=lib.bfloat16):
            scores = model(text[:, :-1])
            loss = F.cross_entropy(scores.reshape(-1, shape["vocabulary"]), text[:, 1:].reshape(-1))
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(2 if small else 8):
        loss = step()
    finish()
    times = []
    for _ in range(2 if small else 5):
        dist.barrier()
        finish()
        start = time.perf_counter()
        for _ in range(1 if small else 8):
            step()
        finish()
        times.append((time.perf_counter() - start) / (1 if small else 8))
    seconds = statistics.median(times)
    say(
        {
            "seconds": seconds,
            "tokens": dist.get_world_size() * batch * shape["context"] / seconds,
            "loss": float(loss),
            "gib": lib.cuda.max_memory_allocated() / 2**30,
        }
    )


def gpt2(size, options):
    print(f"\nGPT-2 124M, bfloat16, {gpt2_shape(options.small)[0]} x 1024 tokens a GPU, DistributedDataParallel")
    print("| | GPUs | ms a step | tokens/s | of linear | GiB | loss |\n| --- | --- | --- | --- | --- | --- | --- |")
    good = True
    for column in options.columns:
        alone = None
        for n in sorted({1, size}):
            got = spawn(column, "gpt2", n, options)
            good &= got is not None
            if not got:
                continue
            alone = alone or (got["tokens"] if n == 1 else None)
            linear = f"{got['tokens'] / n / alone:.1%}" if alone else "?"
            cells = [column, n, f"{got['seconds'] * 1e3:.2f}", f"{got['tokens']:.0f}", linear]
            print(f"| {' | '.join(map(str, cells))} | {got['gib']:.1f} | {got['loss']:.4f} |", flush=True)
    return good


# -- both


def work(column, part, small):
    local = int(os.environ["LOCAL_RANK"])
    if column == "torch":
        import torch as lib
        import torch.distributed as dist

        finish = lib.cuda.synchronize
        lib.set_float32_matmul_precision("high")
    else:
        import smolder as lib
        from smolder import distributed as dist

        finish = lib.cuda.synchronize
    lib.cuda.set_device(local)
    dist.init_process_group("nccl")
    if part == "correct":
        worker_correct(small)
    elif part == "collectives":
        worker_collectives(lib, dist, small, finish)
    else:
        wrap = lib.nn.parallel.DistributedDataParallel
        compiled = (lambda m: lib.compile(wrap(m, device_ids=[local]))) if column == "torch" else wrap
        worker_gpt2(lib, dist, compiled, small, finish)
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", default="correct,collectives,gpt2", help="of these")
    parser.add_argument("--columns", default="smolder,torch")
    parser.add_argument("--gpus", type=int, help="how many; all, if not said")
    parser.add_argument("--small", action="store_true", help="sizes for devices that are emulated")
    parser.add_argument("--patience", type=float, default=1.0, help="times the time that each part has")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        sys.path.insert(0, str(HERE))
        work(*options.worker.split(":"), options.small)
        return 0
    options.columns = options.columns.split(",")
    count = "from smolder import cuda; print(cuda.device_count(), cuda.get_device_name())"
    said = subprocess.run([sys.executable, "-c", count], capture_output=True, text=True, check=True).stdout.split(
        " ", 1
    )
    size = options.gpus or int(said[0])
    print(f"{size} of {said[0]} GPUs, {said[1].strip()}, {time.strftime('%Y-%m-%d')}", flush=True)
    parts = {"correct": correct, "collectives": collectives, "gpt2": gpt2}
    began, good = time.monotonic(), True
    for name in options.steps.split(","):
        good &= parts[name](size, options)
    print(f"\n{time.monotonic() - began:.0f} s; {'all is well' if good else 'SOMETHING FAILED'}", flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
