"""Training over Ray's actors that goes on with those that are left, from the last checkpoint, when one is lost.

    pip install ray
    python examples/ray_elastic.py --workers 3
    python examples/ray_elastic.py --workers 3 --kill-at 12     # one actor is killed on the way, and not replaced

Each actor is a rank of a group over Gloo. The batch is divided among however many there are, so the losses are those
of a run that nothing happened to, but for rounding.
"""

import argparse
import os
import signal
import tempfile

import numpy as np
import ray

BATCH, SAVES_EVERY = 12, 5


@ray.remote(num_cpus=1, max_restarts=0)
class Worker:
    """One rank, in a process of its own."""

    def meeting_place(self):
        from smolder import _core

        return ray.util.get_node_ip_address(), _core._free_port()

    def train(self, rank, size, place, folder, steps, kill_at):
        import smolder
        from smolder import distributed as dist
        from smolder import nn, optim
        from smolder.distributed import checkpoint

        os.environ.update(RANK=str(rank), WORLD_SIZE=str(size), MASTER_ADDR=place[0], MASTER_PORT=str(place[1]))
        dist.init_process_group("gloo")
        smolder.manual_seed(0)
        model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
        ddp, optimizer = nn.parallel.DistributedDataParallel(model), optim.SGD(model.parameters(), lr=0.05)
        first = 0
        if os.path.exists(os.path.join(folder, "index.json")):
            saved = {"model": model.state_dict(), "step": 0}
            checkpoint.load(saved, checkpoint_id=folder)
            model.load_state_dict(saved["model"])
            first = saved["step"]
        for step in range(first, steps):
            if step == kill_at and rank == size - 1:
                os.kill(os.getpid(), signal.SIGKILL)
            rng = np.random.default_rng(step)
            x = rng.standard_normal((BATCH, 8)).astype(np.float32)
            y = np.sin(x.sum(axis=1, keepdims=True)).astype(np.float32)
            part = slice(rank * BATCH // size, (rank + 1) * BATCH // size)
            optimizer.zero_grad()
            # The mean over ranks of this is the mean over the batch, also where their parts differ by a row.
            loss = ((ddp(smolder.tensor(x[part])) - smolder.tensor(y[part])) ** 2).sum() * (size / BATCH)
            loss.backward()
            optimizer.step()
            total = loss.detach().clone()
            dist.all_reduce(total, dist.ReduceOp.AVG)
            if (step + 1) % SAVES_EVERY == 0:
                checkpoint.save({"model": model.state_dict(), "step": step + 1}, checkpoint_id=folder)
        value = total.item()
        dist.destroy_process_group()
        return {"from": first, "loss": value}


def attempt(size, args, folder, kill_at):
    """The result of each rank, or the error of the first that failed."""
    workers = [Worker.remote() for _ in range(size)]
    try:
        place = ray.get(workers[0].meeting_place.remote())
        return ray.get([w.train.remote(r, size, place, folder, args.steps, kill_at) for r, w in enumerate(workers)])
    except ray.exceptions.RayError as error:
        return error
    finally:
        for w in workers:
            ray.kill(w)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--least", type=int, default=1, help="workers to go on with")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--kill-at", type=int, default=-1, help="the step at which the last worker is killed")
    args = parser.parse_args()
    ray.init(num_cpus=args.workers, include_dashboard=False, logging_level="ERROR", log_to_driver=False)
    size, kill_at = args.workers, args.kill_at
    with tempfile.TemporaryDirectory() as folder:
        while True:
            said = attempt(size, args, folder, kill_at)
            if not isinstance(said, ray.exceptions.RayError):
                print(f"{size} workers, from step {said[0]['from']}: loss {said[0]['loss']:.6f}")
                break
            print(f"{size} workers: {str(said).strip().splitlines()[-1]}")
            size, kill_at = size - 1, -1  # a cluster would be asked how many it has: ray.cluster_resources()
            if size < args.least:
                raise SystemExit("too few workers are left")
            print(f"going on with {size}")
    ray.shutdown()


if __name__ == "__main__":
    main()
