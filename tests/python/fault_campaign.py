"""Trains a small GPT over several processes and does things to them; test_distributed_faults.py runs a short form.

    python fault_campaign.py --ways ddp,zero,tp --kills 50 --stops 10 --raises 6 --memory 6 --seed 0

Each fault ends a run at a random step, on a random rank. All other ranks must end with an error that names it, in time;
the checkpoint that was saved last must be whole; and the runs that go on from it must end with the loss of a run that
nothing happened to, bit for bit.
"""

import argparse
import importlib.util
import json
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from datetime import timedelta
from pathlib import Path

SIZES = {"ddp": 3, "zero": 3, "tp": 2}
SAVES_EVERY = 2
TIMEOUT = 4.0  # of the groups: who is stopped is found then
WITHIN = {"kill": 10.0, "raise": 10.0, "memory": 10.0, "stop": TIMEOUT + 10.0}


# -- what the processes do


def example():
    place = Path(__file__).parents[2] / "examples" / "parallel_gpt.py"
    spec = importlib.util.spec_from_file_location("parallel_gpt", place)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Training:
    """One rank's part of it."""

    def __init__(self, way, folder):
        import smolder
        from smolder import nn, optim
        from smolder.distributed import checkpoint
        from smolder.distributed.checkpoint import state_dict
        from smolder.distributed.device_mesh import init_device_mesh
        from smolder.distributed.fsdp import fully_shard
        from smolder.distributed.tensor.parallel import parallelize_module

        self.gpt, self.way, self.folder = example(), way, folder
        self.checkpoint, self.states, self.nn = checkpoint, state_dict, nn
        world = int(os.environ["WORLD_SIZE"])
        mesh = init_device_mesh("cpu", (1, world) if way == "tp" else (world, 1), mesh_dim_names=("dp", "tp"))
        self.dp = mesh["dp"]
        smolder.manual_seed(0)
        self.model = self.gpt.GPT()
        if way == "tp":
            parallelize_module(self.model, mesh["tp"], self.gpt.PLAN)
        elif way == "zero":
            for block in self.model.blocks:
                fully_shard(block, mesh=self.dp)
            fully_shard(self.model, mesh=self.dp)
        else:
            self.model = nn.parallel.DistributedDataParallel(self.model)
        self.optimizer = optim.AdamW(self.model.parameters(), lr=1e-2)

    def resume(self):
        """The step to go on from."""
        if not (Path(self.folder) / "index.json").exists():
            return 0
        model, optimizer = self.states.get_state_dict(self.model, self.optimizer)
        saved = {"model": model, "optim": optimizer, "step": 0}
        self.checkpoint.load(saved, checkpoint_id=self.folder)
        self.states.set_state_dict(
            self.model, self.optimizer, model_state_dict=saved["model"], optim_state_dict=saved["optim"]
        )
        return saved["step"]

    def save(self, step):
        model, optimizer = self.states.get_state_dict(self.model, self.optimizer)
        self.checkpoint.save({"model": model, "optim": optimizer, "step": step}, checkpoint_id=self.folder)

    def step(self, number):
        """The loss."""
        from smolder.distributed.tensor.parallel import loss_parallel
        from smolder.nn import functional as F

        rows = 12 // self.dp.size()
        x, y = (t[self.dp.get_local_rank() * rows :][:rows] for t in self.gpt.batch_of(number, 12))
        self.optimizer.zero_grad()
        if self.way == "tp":
            with loss_parallel():
                loss = F.cross_entropy(self.model(x).flatten(0, 1), y.flatten())
                loss.backward()
            loss = loss.full_tensor()
        else:
            loss = F.cross_entropy(self.model(x).flatten(0, 1), y.flatten())
            loss.backward()
        self.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return loss.detach().clone()


def work(way, steps, folder, fault):
    import smolder
    from smolder import distributed as dist

    kind, rank, at = [*fault.split(":"), "", ""][:3]
    dist.init_process_group("gloo", timeout=timedelta(seconds=TIMEOUT if kind == "stop" else 30.0))
    training = Training(way, folder)
    first = training.resume()
    kept = []
    for step in range(first, steps):
        here = rank == str(dist.get_rank()) and at == str(step - first)
        if here and kind == "raise":
            raise LookupError("the data set is empty")
        loss = training.step(step)
        if here and kind == "memory":
            kept.append(smolder.zeros(1 << 45))  # in the step, whose memory is asked for before it runs
        dist.all_reduce(loss, dist.ReduceOp.AVG)
        value = loss.item()
        print(f"step {step - first} from {first}", flush=True)
        if (step + 1) % SAVES_EVERY == 0:
            training.save(step + 1)
            print(f"saved {step + 1}", flush=True)
    print(f"loss {value.hex()}", flush=True)
    dist.destroy_process_group()


# -- what is done to them


class Rank:
    """A process, and what it has printed so far."""

    def __init__(self, rank, command, env):
        self.rank, self.lines, self.ended_at = rank, [], None
        self.process = subprocess.Popen(
            command, env={**env, "RANK": str(rank)}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self.thread = threading.Thread(target=self._read)
        self.thread.start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.append(line)
        self.process.wait()
        self.ended_at = time.monotonic()

    def text(self):
        return "".join(self.lines)


def launch(way, steps, folder, fault="", size=None):
    from smolder import _core

    env = {
        **os.environ,
        "WORLD_SIZE": str(size or SIZES[way]),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(_core._free_port()),
        "SMOLDER_NUM_THREADS": "1",
    }
    command = [sys.executable, str(Path(__file__)), "--worker", way, str(steps), folder, fault]
    return [Rank(r, command, env) for r in range(size or SIZES[way])]


def until(condition, seconds, ranks, what):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"{what}: {[r.text()[-1500:] for r in ranks]}")
        time.sleep(0.002)


def finish(ranks):
    """All of them end well; the last loss."""
    try:
        until(lambda: all(r.ended_at for r in ranks), 1200, ranks, "they did not end")
        assert all(r.process.returncode == 0 for r in ranks), [r.text()[-2000:] for r in ranks]
        losses = {re.search(r"^loss (\S+)", r.text(), re.M)[1] for r in ranks}
        assert len(losses) == 1, losses
        return losses.pop()
    finally:
        end(ranks)


def end(ranks):
    for r in ranks:
        if r.process.poll() is None:
            r.process.kill()
        r.thread.join()


def error_at(rank):
    found = re.search(r"^error at (\S+)$", rank.text(), re.M)
    return float(found[1]) if found else None


def strike(ranks, kind, victim, at, delay):
    """Does it, and returns after how long each other rank had an error that names the victim, and had ended."""
    struck = ranks[victim]
    try:
        if kind in ("kill", "stop"):
            until(lambda: f"step {at} " in struck.text() or struck.ended_at, 120, ranks, f"step {at} did not come")
            time.sleep(delay)
            began = time.monotonic()
            os.kill(struck.process.pid, signal.SIGKILL if kind == "kill" else signal.SIGSTOP)
        else:
            until(lambda: struck.ended_at, 120, ranks, "it did not end")
            began = struck.ended_at
        others = [r for r in ranks if r is not struck]
        what = f"{kind} of rank {victim}: no error in time"
        until(lambda: all(error_at(r) or r.ended_at for r in others), WITHIN[kind], others, what)
        until(lambda: all(r.ended_at for r in others), 60, others, f"{kind} of rank {victim}: they did not end")
        for r in others:
            assert r.process.returncode not in (0, None), (kind, victim, r.text()[-1500:])
            assert f"rank {victim}" in r.text(), (kind, victim, r.text()[-3000:])
        return [max(0.0, error_at(r) - began) for r in others], [max(0.0, r.ended_at - began) for r in others]
    finally:
        end(ranks)


def check_saved(folder):
    """The checkpoint is whole: all files that its index names are there."""
    index = Path(folder) / "index.json"
    if index.exists():
        names = set(re.findall(r'"([^"]+\.safetensors)"', json.dumps(json.loads(index.read_text()))))
        assert names
        for name in names:
            assert (Path(folder) / name).exists(), name


def campaign(way, faults, rng, size=None):
    """By kind of fault: seconds until errors, and until ends. And how many there were."""
    steps = 2 * len(faults) + 6
    took, start = {kind: ([], []) for kind in WITHIN}, time.monotonic()
    with tempfile.TemporaryDirectory() as base:
        want = finish(launch(way, steps, f"{base}/alone", size=size))
        folder, known, done = f"{base}/struck", 0, 0
        for kind in faults:
            if known + 4 > steps:  # nothing is left to be done to
                break
            done += 1
            victim, at, delay = rng.randrange(size or SIZES[way]), rng.randrange(1, 4), rng.random() * 0.05
            ranks = launch(way, steps, folder, f"{kind}:{victim}:{at}", size)
            for list_of, seconds in zip(took[kind], strike(ranks, kind, victim, at, delay), strict=True):
                list_of += seconds
            print(f"  {way} {done}: {kind} of rank {victim}, {time.monotonic() - start:.0f} s", flush=True)
            told = [int(n) for r in ranks for n in re.findall(r"^saved (\d+)", r.text(), re.M)]
            resumed = [int(n) for r in ranks for n in re.findall(r"^step \d+ from (\d+)", r.text(), re.M)]
            assert not resumed or min(resumed) >= known, f"a checkpoint was lost: {resumed}, saved was {known}"
            known = max([known, *told])
            check_saved(folder)
        got = finish(launch(way, steps, folder, size=size))
        assert got == want, (way, got, want)
    return took, done


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--worker", nargs=4)
    parser.add_argument("--ways", default="ddp,zero,tp")
    for kind in ("kills", "stops", "raises", "memory"):
        parser.add_argument(f"--{kind}", type=int, default=0, help="of all ways together")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    if args.worker:
        way, steps, folder, fault = args.worker
        try:
            return work(way, int(steps), folder, fault)
        except RuntimeError:
            print(f"error at {time.monotonic()}", flush=True)  # the clock of the machine
            raise
    rng = random.Random(args.seed)
    faults = ["kill"] * args.kills + ["stop"] * args.stops + ["raise"] * args.raises + ["memory"] * args.memory
    rng.shuffle(faults)
    ways = args.ways.split(",")
    for i, way in enumerate(ways):
        took, done = campaign(way, faults[i :: len(ways)], rng)
        for kind, (errors, ends) in took.items():
            if errors:
                print(
                    f"{way}: {kind}, errors on {len(errors)} other ranks after {statistics.median(errors):.2f} s "
                    f"(median), {max(errors):.2f} s (most); all had ended after {max(ends):.2f} s",
                    flush=True,
                )
        print(f"{way}: {done} faults, the same last loss", flush=True)


if __name__ == "__main__":
    main()
