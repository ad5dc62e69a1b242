"""Measures several GPUs of one machine, however many there are: prints tables, and writes them under $OUT.

`python benchmarks/scale.py [--parts correct,restart,collectives,llama,gpt2] [--columns smolder,torch] [--within 400]`

A column may have settings of its own, as `smolder@NCCL_MAX_CTAS=16`: of steps it is run on all GPUs alone. Pictures, logs and
traces are in $OUT/scale.tar.gz.

- correct: losses of a small GPT under DistributedDataParallel, fully_shard (ZeRO 1, 2, 3), tensor parallel and data and
  tensor parallel at once against one GPU; bits of DistributedDataParallel from run to run.
- restart: a rank is killed within a step, and all start again from the checkpoint: losses are those of a run that nothing
  happened to, bit for bit.
- collectives: by size, beside torch.distributed with NCCL. Bus bandwidth is what NCCL's own tests call so.
- llama: weak scaling of a Llama of 1.1 billion parameters under fully_shard at 1, 2, 4, ... GPUs, beside torch.compile, and
  the share of communication that is hidden: of the time in which NCCL's kernels run, that in which others run, too. A picture
  of one step is drawn (timeline_svg.py), and its kernels are listed by the time that they take.
- gpt2: the same of GPT-2 124M under DistributedDataParallel at one GPU and at all.

Each run is processes of its own, one a GPU (scale_work.py), which end when one of them fails, or when its time is over. Runs
of fewer GPUs than there are go side by side. A part that does not fit in what is left of --within seconds is not begun.
`--small` is for devices that are emulated.
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

from scale_work import OPS, gpt2_shape, llama_shape, sizes_of

HERE = Path(__file__).parent
SECONDS = {"correct": 75, "restart": 40, "collectives": 45, "llama": 75, "gpt2": 75}  # at most, for a run
TOLERANCE = 1e-3  # of a loss, relative: sums are in another order
PARTING = 8.0  # seconds that others have to end once one has failed


class Report:
    """Lines that are printed and kept in $OUT as they come, and files that are packed into one."""

    def __init__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="scale_"))
        self.out = Path(os.environ.get("OUT") or self.folder)
        self.path = self.out / "scale.md"

    def pack(self):
        """Writes what there is so far."""
        with tarfile.open(self.out / "scale.tar.gz", "w:gz") as archive:
            for path in sorted(self.folder.iterdir()):
                if path.suffix in (".log", ".svg", ".gz", ".txt") and path.name != "scale.tar.gz":
                    archive.add(path, path.name)

    def __call__(self, *lines):
        with open(self.path, "a") as file:
            for line in lines:
                print(line, flush=True)
                print(line, file=file)


class Run:
    """Processes of one column and part, on GPUs of their own."""

    def __init__(self, column, part, gpus, options, **given):
        self.column, self.part, self.gpus = column, part, gpus
        library, *settings = column.split("@")
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        name = f"{column}_{part}_{len(gpus)}"
        given = {"small": options.small, "out": str(options.report.folder / name), **given}
        command = [sys.executable, str(HERE / "scale_work.py"), library, part, json.dumps(given)]
        env = {
            "NCCL_NVLS_ENABLE": "0",  # as Smolder does, for all columns
            "NCCL_SOCKET_IFNAME": "lo",  # all are on this machine
            **os.environ,
            **dict(one.split("=", 1) for one in settings),
            "WORLD_SIZE": str(len(gpus)),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
            "CUDA_VISIBLE_DEVICES": ",".join(gpus),
        }
        options.runs += 1
        self.logs = [options.report.folder / f"{name}_{options.runs}_rank{r}.log" for r in range(len(gpus))]
        self.began, self.ended = time.monotonic(), [None] * len(gpus)
        self.processes = []
        for r, log in enumerate(self.logs):
            with open(log, "w") as file:
                rank = {"RANK": str(r), "LOCAL_RANK": str(r)}
                self.processes.append(
                    subprocess.Popen(command, env={**env, **rank}, stdout=file, stderr=subprocess.STDOUT)
                )
        self.seconds = SECONDS[part] * options.patience

    def look(self):
        """Whether all have ended. Ends them once one has failed and the others had time to say what they saw."""
        now = time.monotonic()
        for r, p in enumerate(self.processes):
            if self.ended[r] is None and p.poll() is not None:
                self.ended[r] = now
        failed = [at for r, at in enumerate(self.ended) if at is not None and self.processes[r].returncode != 0]
        if now - self.began > self.seconds or (failed and now - min(failed) > PARTING):
            for p in self.processes:
                if p.poll() is None:
                    p.kill()
                    p.wait()
        return all(p.poll() is not None for p in self.processes)

    def text(self, rank):
        return self.logs[rank].read_text(errors="replace")

    def result(self, report):
        """The last words of the first process. Failures are told, the first one before others."""
        failed = [r for r, p in enumerate(self.processes) if p.returncode != 0]
        for r in sorted(failed, key=lambda r: self.ended[r] or time.monotonic())[:2]:
            over = ", its time was over" if self.ended[r] is None else ""
            status = f"exit status {self.processes[r].returncode}{over}"
            head = f"{self.column} {self.part}, rank {r} of {len(self.gpus)}, {status}:"
            report(head, self.text(r)[-2000:])
        said = [line[7:] for line in self.text(0).splitlines() if line.startswith("result ")]
        if not said and not failed:
            report(f"{self.column} {self.part}, on {len(self.gpus)}: printed no result", self.text(0)[-2000:])
        return json.loads(said[-1]) if said else None


def run(options, column, part, size, **given):
    """One run: what it said, or None."""
    r = Run(column, part, options.gpus[:size], options, **given)
    while not r.look():
        time.sleep(0.05)
    return r.result(options.report)


def run_beside(options, wanted):
    """Runs (column, part, size), side by side as far as there are GPUs: yields each with what it said."""
    free, under_way, left = list(options.gpus), [], list(wanted)
    while left or under_way:
        for one in list(left):
            if one[2] <= len(free):
                taken, free = free[: one[2]], free[one[2] :]
                under_way.append((one, Run(one[0], one[1], taken, options)))
                left.remove(one)
            else:
                break  # in this order: those of all GPUs are last, and are alone
        for one, r in list(under_way):
            if r.look():
                under_way.remove((one, r))
                free += r.gpus
                yield one, r.result(options.report)
        time.sleep(0.05)


def correct(size, options, report):
    one = run(options, "smolder", "correct", 1, ranks=size)
    many = run(options, "smolder", "correct", size) if size > 1 else {}
    if one is None or many is None:
        return False
    want, good = one["one"]["losses"], True
    report(
        f"\nLosses of a small GPT on {size} GPUs against one: first {want[0]:.5f}, last {want[-1]:.5f}, {len(want)} steps",
        f"| {'how':10} | last loss | largest difference | |\n| --- | --- | --- | --- |",
    )
    for how, got in many.items():
        off = max(abs(a - b) / abs(b) for a, b in zip(got["losses"], want, strict=True))
        ok = off < TOLERANCE and got.get("same", True)
        good &= ok
        again = {True: ", same bits again", False: ", OTHER BITS"}.get(got.get("same"), "")
        report(f"| {how:10} | {got['losses'][-1]:.5f} | {off:.1e} | {'ok' if ok else 'WRONG'}{again} |")
    return good


def restart(size, options, report):
    """Killed in the eighth of twelve steps; a checkpoint is written after every third."""
    with tempfile.TemporaryDirectory() as base:
        want = run(options, "smolder", "restart", size, folder=f"{base}/alone", ends_at=-1)
        struck = Run("smolder", "restart", options.gpus[:size], options, folder=f"{base}/struck", ends_at=7)
        while not struck.look():
            time.sleep(0.01)
        codes = [p.returncode for p in struck.processes]
        got = run(options, "smolder", "restart", size, folder=f"{base}/struck", ends_at=-1)
    if want is None or got is None:
        return False
    report(f"\nRank {size - 1} of {size} killed within a step, ZeRO 3, and started again from the checkpoint")
    died, good = struck.ended[-1], codes[-1] == -9
    for r in range(size - 1):
        said = [line for line in struck.text(r).splitlines() if line.startswith("error ")]
        text = json.loads(said[-1][6:])["said"] if said else struck.text(r)[-600:]
        named = f"rank {size - 1}" in text
        good &= named and codes[r] not in (0, None)
        ended = f"{struck.ended[r] - died:.1f} s after" if struck.ended[r] else "KILLED LATE"
        report(f"- rank {r} ended {ended}, {'naming it' if named else 'NOT NAMING IT'}: {text[:160]}")
    same = want["losses"][got["first"] :] == got["losses"]
    good &= same and got["first"] == 6
    said = "the losses of the uninterrupted run, bit for bit" if same else "OTHER LOSSES"
    report(f"- went on from step {got['first']}, {len(got['losses'])} steps: {said}")
    return good


def collectives(size, options, report):
    found = {c: run(options, c, "collectives", size) for c in options.columns}
    found = {c: times for c, times in found.items() if times}
    share = {"all_reduce": 2 * (size - 1) / size, "all_gather": (size - 1) / size, "reduce_scatter": (size - 1) / size}
    ways = {"row": "many in a row", "graph": "many in a graph", "one": "one, waited for"}
    cells = [(c, w) for c in found for w in ways if any(w in of for of in found[c].values())]
    report(
        f"\nCollectives on {size} GPUs, float32: microseconds a call (GB/s of bus bandwidth)",
        f"| op | bytes | {' | '.join(f'{c}, {ways[w]}' for c, w in cells)} |\n| --- | --- |{' --- |' * len(cells)}",
    )
    for op in OPS:
        for n in sizes_of(options.small):
            texts = []
            for c, w in cells:
                t = found[c][f"{op} {n}"].get(w)
                texts.append("" if t is None else f"{t:.1f} ({share[op] * n / t / 1e3:.1f})")
            report(f"| {op} | {n} | {' | '.join(texts)} |")
    for c, of in found.items():
        nans = ", ".join(f"{name[4:]} {value}" for name, value in of.items() if name.startswith("nan "))
        report(f"{c}, all_reduce of nan on one rank and 1 on the others: {nans}")
    return len(found) == len(options.columns)


def steps(part, title, sizes, options, report):
    """Weak scaling of a training step."""
    report(
        f"\n{title}",
        "| | GPUs | ms a step | spread | tokens/s | of linear | computing, ms | collectives, ms | hidden | GiB | first loss | loss "
        "| s to start |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    )
    sizes = [n for n in sizes if n in options.sizes] if options.sizes else sizes
    columns = [(c, n) for n in sizes for c in options.columns if "@" not in c or n == sizes[-1]]
    wanted = sorted(((c, part, n) for c, n in columns), key=lambda one: one[2])
    alone, good, late = {}, True, []
    for (column, _, n), got in run_beside(options, wanted):
        good &= got is not None
        if not got:
            report(f"| {column} | {n} | FAILED |")
            continue
        if n == 1:
            alone[column] = got["tokens"]
        library = column.split("@")[0]
        linear = f"{got['tokens'] / n / alone[library]:.1%}" if library in alone else "?"
        if linear == "?":
            late.append((library, n, got["tokens"]))
        cells = [column, n, f"{got['seconds'] * 1e3:.2f}", f"{got['spread']:.1%}", f"{got['tokens']:.0f}", linear]
        cells.append(f"{got['computing_ms']:.2f}" if "computing_ms" in got else "")
        cells.append(f"{got['collectives_ms']:.2f}" if "collectives_ms" in got else "")
        cells.append(f"{got['hidden']:.1%}" if "hidden" in got else "")
        cells += [f"{got['gib']:.1f}", f"{got['first']:.4f}", f"{got['loss']:.4f}", f"{got['started']:.1f}"]
        report(f"| {' | '.join(map(str, cells))} |")
    for column, n, tokens in late:
        if column in alone:
            report(f"{column} at {n}: {tokens / n / alone[column]:.1%} of linear")
    return good


def llama(size, options, report):
    batch, length, _ = llama_shape(options.small)
    sizes = [n for n in (1, 2, 4, 8) if n <= size]
    title = f"Llama 1.1B, bfloat16, {batch} x {length} tokens a GPU, fully_shard (ZeRO 3)"
    return steps("llama", title, sizes if size in sizes else [*sizes, size], options, report)


def gpt2(size, options, report):
    title = f"GPT-2 124M, bfloat16, {gpt2_shape(options.small)[0]} x 1024 tokens a GPU, DistributedDataParallel"
    return steps("gpt2", title, sorted({1, size}), options, report)


PARTS = {"correct": correct, "restart": restart, "collectives": collectives, "llama": llama, "gpt2": gpt2}


def visible(count):
    """Names of the GPUs, for CUDA_VISIBLE_DEVICES."""
    given = os.environ.get("CUDA_VISIBLE_DEVICES")
    return given.split(",") if given else [str(i) for i in range(count)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", default=",".join(PARTS), help="of these")
    parser.add_argument("--columns", default="smolder,torch")
    parser.add_argument("--sizes", type=lambda text: [int(n) for n in text.split(",")], help="of steps: how many GPUs")
    parser.add_argument("--gpus", type=int, help="how many; all, if not said")
    parser.add_argument("--small", action="store_true", help="sizes for devices that are emulated")
    parser.add_argument("--patience", type=float, default=1.0, help="times the time that each run has")
    parser.add_argument("--within", type=float, default=400.0, help="seconds after which no part is begun")
    options = parser.parse_args()
    unknown = set(options.parts.split(",")) - set(PARTS)
    if unknown:
        parser.error(f"there are no parts {', '.join(sorted(unknown))}")
    options.columns, options.report, options.runs = options.columns.split(","), Report(), 0
    count = "from smolder import cuda; print(cuda.device_count(), cuda.get_device_name())"
    said = subprocess.run([sys.executable, "-c", count], capture_output=True, text=True, check=True).stdout
    there, name = said.split(" ", 1)
    size = options.gpus or int(there)
    options.gpus = visible(int(there))[:size]
    report = options.report
    report(f"{size} of {there} GPUs, {name.strip()}, {time.strftime('%Y-%m-%d')}")
    began, good = time.monotonic(), True
    for part in options.parts.split(","):
        if time.monotonic() - began > options.within:
            report(f"\n{part}: not begun, time is over")
            good = False
            continue
        start = time.monotonic()
        good &= bool(PARTS[part](size, options, report))
        report(f"({part}: {time.monotonic() - start:.0f} s)")
        report.pack()
    report(f"\n{time.monotonic() - began:.0f} s; {'all is well' if good else 'SOMETHING FAILED'}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
