"""Starts a program in several processes, with torchrun's options and the environment that it sets.

    python -m smolder.distributed.run --nproc-per-node 4 train.py --epochs 3

When a process fails, the others get a few seconds to say what they saw, and are ended; --max-restarts starts all anew.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Sequence

from smolder import _core
from smolder._names import listing as _listing

__all__ = ["get_args_parser", "main", "run"]
__dir__ = _listing(__name__)

# How long processes may go on after one failed, and after they were asked to end.
_LAST_WORDS, _ENDING = 6.0, 5.0


def _option(parser, name, **settings):
    """An option as torchrun writes it: --nproc-per-node and --nproc_per_node."""
    parser.add_argument(f"--{name}", f"--{name.replace('-', '_')}", **settings)


def get_args_parser() -> argparse.ArgumentParser:
    """The parser of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m smolder.distributed.run", description="Starts a program in several processes."
    )
    _option(parser, "nnodes", default="1", help="how many machines there are")
    _option(
        parser, "nproc-per-node", default="1", help='processes on this machine: a number, "auto" or "cpu": its cores'
    )
    _option(parser, "node-rank", type=int, default=0, help="which machine this is, from 0 on")
    _option(parser, "master-addr", default=None, help="the address of the first machine (default: the loopback)")
    _option(parser, "master-port", type=int, default=None, help="a free port there (default with one machine: any)")
    _option(parser, "rdzv-endpoint", default="", help="HOST:PORT, the same as --master-addr and --master-port")
    _option(
        parser, "rdzv-backend", default="static", help='"static" or "c10d": the processes meet at the first machine'
    )
    _option(parser, "rdzv-id", default="", help="a name of the job")
    parser.add_argument("--standalone", action="store_true", help="one machine, any free port")
    _option(parser, "max-restarts", type=int, default=0, help="how often all are started anew when one fails")
    _option(parser, "monitor-interval", type=float, default=0.1, help="seconds between two looks at the processes")
    parser.add_argument("-m", "--module", action="store_true", help="the program is a module, as of python -m")
    _option(parser, "no-python", action="store_true", help="the program is no Python file")
    parser.add_argument("training_script", help="the program")
    parser.add_argument("training_script_args", nargs=argparse.REMAINDER, help="its arguments")
    return parser


def _processes(text):
    if text in ("auto", "cpu"):
        return len(os.sched_getaffinity(0))
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f'--nproc-per-node={text} is not supported: a number, "auto" or "cpu"')
    return int(text)


def _command(args):
    command = [args.training_script, *args.training_script_args]
    if args.no_python:
        if args.module:
            raise ValueError("Don't use both the '--no-python' flag and the '--module' flag at the same time.")
        return command
    return [sys.executable, "-u", *(["-m"] if args.module else []), *command]


def _master(args, nodes):
    host, port = args.master_addr, args.master_port
    if args.rdzv_endpoint and not args.standalone:
        endpoint, _, number = args.rdzv_endpoint.partition(":")
        host, port = endpoint, int(number) if number else port
    if args.rdzv_backend not in ("static", "c10d"):
        raise ValueError(f'--rdzv-backend={args.rdzv_backend} is not supported: "static" and "c10d" are')
    if nodes > 1 and (host is None or port is None):
        raise ValueError("with several machines --master-addr and --master-port must be given")
    return host or "127.0.0.1", port


def _start(args, local, host, port, nodes, job, restart):
    """The processes of this machine."""
    processes = []
    for i in range(local):
        rank = args.node_rank * local + i
        env = {
            **os.environ,
            "RANK": str(rank),
            "LOCAL_RANK": str(i),
            "WORLD_SIZE": str(nodes * local),
            "LOCAL_WORLD_SIZE": str(local),
            "GROUP_RANK": str(args.node_rank),
            "ROLE_RANK": str(rank),
            "MASTER_ADDR": host,
            "MASTER_PORT": str(port),
            "TORCHELASTIC_RUN_ID": job,
            "TORCHELASTIC_RESTART_COUNT": str(restart),
            "TORCHELASTIC_MAX_RESTARTS": str(args.max_restarts),
        }
        # Processes share the cores.
        env.setdefault("SMOLDER_NUM_THREADS", str(max(1, len(os.sched_getaffinity(0)) // local)))
        env.pop("TORCHELASTIC_USE_AGENT_STORE", None)
        processes.append(subprocess.Popen(_command(args), env=env))
    return processes


def _watch(processes, interval):
    """Waits for all. The first that failed, as (local rank, exit status); None when none did."""
    failed, until = None, None
    while True:
        states = [p.poll() for p in processes]
        if failed is None:
            failed = next(((i, s) for i, s in enumerate(states) if s), None)
            if failed:
                until = time.monotonic() + _LAST_WORDS
        if all(s is not None for s in states):
            return failed
        if until is not None and time.monotonic() > until:
            return failed
        time.sleep(interval)


def _end(processes):
    """Ends what still runs."""
    for p in processes:
        if p.poll() is None:
            p.send_signal(signal.SIGTERM)
    until = time.monotonic() + _ENDING
    for p in processes:
        try:
            p.wait(max(0.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            p.kill()
            p.wait()


def run(args: argparse.Namespace) -> int:
    """Runs the program. The exit status: 0, or that of the process that failed first."""
    nodes = 1 if args.standalone else int(args.nnodes.partition(":")[0])
    if ":" in args.nnodes and args.nnodes.partition(":")[0] != args.nnodes.partition(":")[2]:
        raise ValueError(f"--nnodes={args.nnodes} is not supported: the number of machines is fixed")
    local = _processes(args.nproc_per_node)
    host, port = _master(args, nodes)
    job = args.rdzv_id or uuid.uuid4().hex[:12]
    for restart in range(args.max_restarts + 1):
        processes = _start(args, local, host, port or _core._free_port(), nodes, job, restart)
        try:
            failed = _watch(processes, args.monitor_interval)
        finally:
            _end(processes)
        if failed is None:
            return 0
        number, status = failed
        how = f"by signal {signal.Signals(-status).name}" if status < 0 else f"with exit status {status}"
        again = restart < args.max_restarts
        print(
            f"smolder.distributed.run: rank {args.node_rank * local + number} (process {processes[number].pid}) ended {how}"
            f"{f'; starting all anew, {restart + 1} of {args.max_restarts}' if again else ''}",
            file=sys.stderr,
        )
    return 128 - status if status < 0 else status


def main(args: Sequence[str] | None = None) -> int:
    """The command."""
    parser = get_args_parser()
    try:
        return run(parser.parse_args(args))
    except ValueError as error:
        parser.error(str(error))


if __name__ == "__main__":
    sys.exit(main())
