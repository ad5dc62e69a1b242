"""The work of each process of scale.py, one a GPU. The first prints its results as a line of JSON."""

import gzip
import hashlib
import json
import os
import signal
import statistics
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path

HERE = Path(__file__).parent
OPS = ("all_reduce", "all_gather", "reduce_scatter")


def say(value):
    if os.environ["RANK"] == "0":
        print("result " + json.dumps(value), flush=True)


# -- losses


def small_shape(small):
    if small:
        return {"vocabulary": 32, "context": 8, "layers": 2, "heads": 4, "width": 16}
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


class Training:
    """A small GPT by one of the strategies. `step` gives the loss of the whole batch."""

    def __init__(self, how, small, ranks=None):
        import smolder
        from smolder import distributed as dist
        from smolder import nn
        from smolder.distributed.fsdp import fully_shard
        from smolder.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

        self.shape, size = small_shape(small), dist.get_world_size()
        tp = {"tp": size, "dp x tp": max(1, size // 2)}.get(how, 1)
        dp = size // tp
        self.device = f"cuda:{smolder.cuda.current_device()}"
        self.mesh = dist.init_device_mesh("cuda", (dp, tp), mesh_dim_names=("dp", "tp"))
        smolder.manual_seed(0)
        model = split_gpt(nn, nn.functional, self.shape).to(self.device)
        if tp > 1:
            columns, rows = ("q", "k", "v", "up"), ("out", "down")
            plan = {f"blocks.*.{name}": ColwiseParallel() for name in columns}
            plan |= {f"blocks.*.{name}": RowwiseParallel() for name in rows}
            parallelize_module(model, self.mesh["tp"], plan)
        if how == "ddp":
            model = nn.parallel.DistributedDataParallel(model, device_ids=[self.device])
        elif how != "tp" and size > 1:
            for block in model.blocks:
                fully_shard(block, mesh=self.mesh["dp"], reshard_after_forward=how not in ("zero 1", "zero 2"))
            fully_shard(model, mesh=self.mesh["dp"], reshard_after_forward=how not in ("zero 1", "zero 2"))
        self.model, self.parts = model, 2 if how == "zero 1" and size > 1 else 1
        self.optimizer = smolder.optim.AdamW(model.parameters(), lr=1e-3)
        self.batch = 4 * max(2, ranks or size)
        self.mine = self.batch // dp
        self.first = self.mesh["dp"].get_local_rank() * self.mine

    def step(self, number):
        import smolder
        from smolder import distributed as dist

        F = smolder.nn.functional
        generator = smolder.Generator().manual_seed(1000 + number)
        words, context = self.shape["vocabulary"], self.shape["context"]
        text = smolder.randint(0, words, (self.batch, context + 1), generator=generator)
        mine = text[self.first : self.first + self.mine].to(self.device)
        self.optimizer.zero_grad()
        total = 0.0
        for i, part in enumerate(mine.chunk(self.parts)):
            if self.parts > 1:  # ZeRO 1: gradients are reduced once a batch
                self.model.set_requires_gradient_sync(i + 1 == self.parts)
            loss = F.cross_entropy(self.model(part[:, :-1]).flatten(0, 1), part[:, 1:].flatten()) / self.parts
            loss.backward()
            total = total + loss.detach()
        self.optimizer.step()
        mean = total.clone()
        dist.all_reduce(mean, dist.ReduceOp.AVG, self.mesh["dp"].get_group())
        return mean

    def digest(self):
        found = hashlib.sha256()
        for p in self.model.parameters():
            found.update(p.detach().cpu().numpy().tobytes())
        return found.hexdigest()


def worker_correct(small, ranks=None, **_):
    """Losses by strategy; of one GPU with the batch that `ranks` have together."""
    from smolder import distributed as dist

    size, out, steps = dist.get_world_size(), {}, 4 if small else 50
    ways = ["ddp", "ddp", "zero 3", "zero 2", "zero 1", "tp", *(["dp x tp"] if size % 2 == 0 else [])]
    for how in ["one"] if size == 1 else ways:
        training = Training(how, small, ranks)
        losses = [training.step(k) for k in range(steps)]
        found = {"losses": [float(x) for x in losses], "bits": training.digest() if how == "ddp" else ""}
        if how in out:
            found["same"] = out[how] == found
        out[how] = found
        print(f"{how}: last loss {found['losses'][-1]}", flush=True)
    say(out)


def worker_restart(small, folder, ends_at, **_):
    """ZeRO 3, from its checkpoint on; kills the last rank within a step, where that is asked for."""
    from smolder import distributed as dist
    from smolder.distributed import checkpoint
    from smolder.distributed.checkpoint import state_dict

    rank, size = dist.get_rank(), dist.get_world_size()
    training, first = Training("zero 3", small), 0
    if (Path(folder) / "index.json").exists():
        model, optimizer = state_dict.get_state_dict(training.model, training.optimizer)
        saved = {"model": model, "optim": optimizer, "step": 0}
        checkpoint.load(saved, checkpoint_id=folder)
        state_dict.set_state_dict(
            training.model, training.optimizer, model_state_dict=saved["model"], optim_state_dict=saved["optim"]
        )
        first = saved["step"]
    out = {"first": first, "losses": []}
    for k in range(first, 12):
        loss = training.step(k)
        if k == ends_at and rank == size - 1:
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            out["losses"].append(float(loss).hex())
        except RuntimeError as error:
            print("error " + json.dumps({"at": time.time(), "said": str(error)}), flush=True)
            raise
        if k == ends_at - 1:
            print(f"last step {time.time()}", flush=True)
        if (k + 1) % 3 == 0:
            model, optimizer = state_dict.get_state_dict(training.model, training.optimizer)
            checkpoint.save({"model": model, "optim": optimizer, "step": k + 1}, checkpoint_id=folder)
    say(out)


# -- collectives


def sizes_of(small):
    return [1 << k for k in ((10, 14) if small else range(10, 31, 2))]


def microseconds(dist, finish, call, calls, rounds):
    """The median over rounds of as many calls in a row, a call."""
    times = []
    for _ in range(rounds + 1):
        finish()
        dist.barrier()
        finish()
        start = time.perf_counter()
        for _ in range(calls):
            call()
        finish()
        times.append((time.perf_counter() - start) / calls)
    return statistics.median(times[1:]) * 1e6


def worker_collectives(lib, dist, small, finish, **_):
    """Microseconds a call, by op and bytes of the whole tensor, as NCCL's tests count: of many in a row, of one that is
    waited for, and, PyTorch's, of many in a graph."""
    size, out = dist.get_world_size(), {}
    device = f"cuda:{lib.cuda.current_device()}"
    for op in OPS:
        for n in sizes_of(small):
            whole = lib.zeros(n // 4 // size * size, device=device)
            part = lib.zeros(whole.numel() // size, device=device)
            call = {
                "all_reduce": lambda whole=whole: dist.all_reduce(whole),
                "all_gather": lambda whole=whole, part=part: dist.all_gather_into_tensor(whole, part),
                "reduce_scatter": lambda whole=whole, part=part: dist.reduce_scatter_tensor(part, whole),
            }[op]
            calls, rounds = (2, 1) if small else (20, 5) if n < 1 << 24 else (5, 3)
            found = {"row": microseconds(dist, finish, call, calls, rounds)}
            if n <= 1 << 20:
                found["one"] = microseconds(dist, finish, call, 1, 2 if small else 20)
            if lib.__name__ == "torch":
                graph = lib.cuda.CUDAGraph()
                with lib.cuda.graph(graph):
                    for _ in range(calls):
                        call()
                found["graph"] = microseconds(dist, finish, graph.replay, 1, rounds) / calls
                del graph
            out[f"{op} {n}"] = found
    for name in ("MAX", "MIN", "SUM"):  # of nan on the last rank and 1 on the others
        for dtype in ("float32", "bfloat16"):
            x = lib.full((4,), float("nan") if dist.get_rank() == size - 1 else 1.0, device=device)
            x = x.to(getattr(lib, dtype))
            dist.all_reduce(x, getattr(dist.ReduceOp, name))
            out[f"nan {name} {dtype}"] = str(x.tolist()[0])
    say(out)


# -- training steps


def gpt2_shape(small):
    if small:
        return 2, {"vocabulary": 64, "context": 16, "layers": 1, "heads": 2, "width": 32}
    return 16, {"vocabulary": 50304, "context": 1024, "layers": 12, "heads": 12, "width": 768}


def llama_shape(small):
    """Batch, length, and vocabulary, width, heads, groups, hidden, depth: TinyLlama's 1.1 billion parameters."""
    return (2, 16, (64, 32, 4, 2, 64, 3)) if small else (4, 2048, (32000, 2048, 32, 4, 5632, 22))


def gpt2_step(lib, small, local):
    from models import gpt

    batch, shape = gpt2_shape(small)
    device = f"cuda:{local}"
    model = lib.nn.parallel.DistributedDataParallel(gpt(lib, device=device, **shape), device_ids=[local])
    fused = {}
    if lib.__name__ == "torch":
        model, fused = lib.compile(model), {"fused": True}
    optimizer = lib.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.1, **fused)
    text = lib.randint(0, shape["vocabulary"], (batch, shape["context"] + 1), device=device)

    def step():
        optimizer.zero_grad(set_to_none=True)
        with lib.autocast("cuda", dtype=lib.bfloat16):
            scores = model(text[:, :-1])
            loss = lib.nn.functional.cross_entropy(scores.reshape(-1, shape["vocabulary"]), text[:, 1:].reshape(-1))
        loss.backward()
        optimizer.step()
        return loss

    return step, batch * shape["context"]


def llama_step(lib, small, local):
    """Under fully_shard: parameters come together in bfloat16, gradients are reduced in float32. As PyTorch's own
    training programs do, its layers are compiled one by one, and so is the loss."""
    from cuda_models import angles, llama

    if lib.__name__ == "torch":
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    else:
        from smolder.distributed.device_mesh import init_device_mesh
        from smolder.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    batch, length, sizes = llama_shape(small)
    device, F = f"cuda:{local}", lib.nn.functional
    lib.set_default_device(device)
    model = llama(lib, *sizes)
    lib.set_default_device("cpu")
    mesh = init_device_mesh("cuda", (int(os.environ["WORLD_SIZE"]),))
    policy = MixedPrecisionPolicy(param_dtype=lib.bfloat16, reduce_dtype=lib.float32)

    def loss_of(scores, labels):
        return F.cross_entropy(scores.flatten(0, 1).float(), labels.flatten())

    fused = {}
    if lib.__name__ == "torch":
        for layer in model.layers:
            layer.compile()
        loss_of, fused = lib.compile(loss_of), {"fused": True}
    last = (model.layers[-1], model.head)  # backward begins with these, so they stay whole
    for module in (model.embedding, *model.layers, model.head):
        fully_shard(module, mesh=mesh, mp_policy=policy, reshard_after_forward=module not in last)
    fully_shard(model, mesh=mesh, mp_policy=policy)
    optimizer = lib.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.1, **fused)
    cos, sin = angles(lib, device, sizes[1] // sizes[2], length)
    text = lib.randint(0, sizes[0], (batch, length + 1), device=device)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(model(text[:, :-1], cos, sin), text[:, 1:])
        loss.backward()
        optimizer.step()
        return loss

    return step, batch * length


def kernels_of(spans, steps):
    """A line for each name: milliseconds a step, how many, and the name, the longest first."""
    found = {}
    for begin, end, name in spans:
        of = found.setdefault(name, [0.0, 0])
        of[0] += end - begin
        of[1] += 1
    ordered = sorted(found.items(), key=lambda one: -one[1][0])
    return "".join(f"{ms / steps:9.3f} ms {count / steps:7.1f}  {name}\n" for name, (ms, count) in ordered)


def profiled(lib, step, finish, path):
    """Two steps' kernels from the trace of a profile: milliseconds a step in which something is computed, and in which
    collectives are under way, and the share of these that is hidden."""
    from timeline_svg import intervals_of, picture, share_hidden

    kinds = lib.profiler.ProfilerActivity
    with lib.profiler.profile(activities=[kinds.CUDA]) as profile:
        step()
        step()
        finish()
    trace = Path(f"{path}.json")
    profile.export_chrome_trace(str(trace))
    computed, collectives = intervals_of(trace)
    if os.environ["RANK"] == "0":
        with gzip.open(f"{trace}.gz", "wb") as file:
            file.write(trace.read_bytes())
    trace.unlink()
    spans = computed + collectives
    first, last = min(s[0] for s in spans), max(s[1] for s in spans)
    under_way, hidden = share_hidden(computed, collectives)
    Path(f"{path}.txt").write_text(kernels_of(spans, 2))
    found = {"computing_ms": share_hidden([], computed)[0] / 2}
    if not collectives:
        return found
    half = (last - first) / 2
    Path(f"{path}.svg").write_text(picture(computed, collectives, Path(path).name, first + half, half))
    return {**found, "collectives_ms": under_way / 2, "hidden": hidden}


def worker_step(lib, dist, small, finish, part, local, out, **_):
    """Seconds a step, and tokens a second of all processes."""
    began = time.perf_counter()
    lib.manual_seed(0)
    step, tokens = (gpt2_step if part == "gpt2" else llama_step)(lib, small, local)
    losses = [step() for _ in range(1 if small else 4)]
    losses = [float(x) for x in losses]
    finish()
    started = time.perf_counter() - began
    print(f"first steps after {started:.1f} s, losses {losses}", flush=True)
    steps = 1 if small else 6

    def seconds_of_steps():
        finish()
        dist.barrier()
        finish()
        start = time.perf_counter()
        for _ in range(steps):
            loss = step()
        finish()
        return (time.perf_counter() - start) / steps, loss

    for _ in range(1 if small else 3):  # the same until nothing is compiled any more
        seconds_of_steps()
        if lib.__name__ == "smolder":
            lib.wait_for_compiles()
    timed = [seconds_of_steps() for _ in range(2 if small else 5)]
    times, loss = [took for took, _ in timed], timed[-1][1]
    seconds, size = statistics.median(times), dist.get_world_size()
    found = {
        "seconds": seconds,
        "spread": (max(times) - min(times)) / seconds,
        "tokens": size * tokens / seconds,
        "first": losses[0],
        "loss": float(loss),
        "gib": lib.cuda.max_memory_allocated() / 2**30,
        "started": started,
    }
    say(found)
    # Said once more with what the profile adds, which may take long, or fail.
    name = f"{out or tempfile.mkdtemp()}_rank{os.environ['RANK']}"
    say({**found, **profiled(lib, step, finish, name)})


def main():
    """The column, the part and its options, as scale.py gives them."""
    column, part, options = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
    sys.path.insert(0, str(HERE))
    local = int(os.environ["LOCAL_RANK"])
    if column == "torch":
        import torch as lib
        import torch.distributed as dist

        lib.set_float32_matmul_precision("high")
    else:
        import smolder as lib
        from smolder import distributed as dist
    lib.cuda.set_device(local % lib.cuda.device_count())
    dist.init_process_group("nccl", timeout=timedelta(seconds=120))
    options = {**options, "lib": lib, "dist": dist, "finish": lib.cuda.synchronize, "part": part, "local": local}
    worker = {"correct": worker_correct, "restart": worker_restart, "collectives": worker_collectives}
    worker.get(part, worker_step)(**options)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
