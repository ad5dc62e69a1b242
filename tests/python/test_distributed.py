"""Several processes on this machine. What they run is in distributed_programs.py."""

import gc
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import smolder
from smolder import distributed as dist
from smolder import nn

PROGRAMS = Path(__file__).with_name("distributed_programs.py")
pytestmark = pytest.mark.skipif(not dist.is_gloo_available(), reason="built without Gloo")


def start(program, size, programs=PROGRAMS, **env):
    """The processes of a program."""
    port = smolder._core._free_port()
    common = {
        **os.environ,
        "WORLD_SIZE": str(size),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "SMOLDER_NUM_THREADS": "1",
        "SMOLDER_COMPILE": "wait",
        **env,
    }
    return [
        subprocess.Popen(
            [sys.executable, str(programs), program],
            env={**common, "RANK": str(r)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for r in range(size)
    ]


def ended(processes, timeout=600):
    """The output of each, once all have ended."""
    until = time.monotonic() + timeout
    try:
        return [p.communicate(timeout=max(0.1, until - time.monotonic()))[0] for p in processes]
    finally:
        for p in processes:
            if p.poll() is None:
                p.kill()


def run(program, size, programs=PROGRAMS, timeout=600, **env):
    processes = start(program, size, programs, **env)
    out = ended(processes, timeout)
    for r, (p, text) in enumerate(zip(processes, out, strict=True)):
        assert p.returncode == 0 and "done" in text, f"rank {r} of {program}: {text[-3000:]}"
    return out


@pytest.mark.parametrize(
    ("program", "size"),
    [("dtypes,peers,functional", 3), ("steps,later,objects,compiled,barriers", 2), ("ddp_more", 2), ("unread", 2)],
)
def test_program(program, size):
    run(program, size)


def test_groups(tmp_path):
    run("groups", 4, FILE_URL=f"file://{tmp_path}/meet")
    assert not list(tmp_path.iterdir())  # the last one removed it


@pytest.mark.parametrize("seed", [0, 1])
def test_random_programs(seed):
    run("random", 4, PROGRAMS=os.environ.get("SMOLDER_TEST_PROGRAMS", "20"), SEED=str(seed))


def test_ddp():
    """Losses are those of one process with the whole batch; bits are equal from run to run."""
    bits = [re.search("bits (.*)", run("ddp", 2)[0])[1] for _ in range(2)]
    assert bits[0] == bits[1]


def errors_of(processes, timeout=600):
    """By rank: the error that each said."""
    out = ended(processes, timeout)
    return {r: m[1] for r, text in enumerate(out) if (m := re.search("^error (.*)", text, re.M))}, out


def test_mismatch():
    run("mismatch", 3)


def test_killed():
    """kill -9 of a rank: all others name it, the collective, its number and shape, and the user's line."""
    errors, out = errors_of(start("killed", 4, TIMEOUT="1200"))  # whose end is not that of the group's time
    assert set(errors) == {0, 1, 3}, out
    for rank, text in errors.items():
        assert "rank 2 has left: it has ended" in text, text
        assert re.search(
            rf"all_reduce\(SUM\) of float32\[1000\], number 6 of the default group, on rank {rank}", text
        ), text
        assert "distributed_programs.py" in text, text


def test_killed_master():
    """The rank that serves the store is killed."""
    processes = start("stopped", 2)
    for line in processes[1].stdout:
        if "stopped" in line:
            break
    while Path(f"/proc/{processes[1].pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
        time.sleep(0.01)  # what goes on before it has stopped would not go on after
    processes[0].kill()
    os.kill(processes[1].pid, signal.SIGCONT)
    text = processes[1].communicate(timeout=600)[0]
    assert "error" in text and "rank 0" in text, text


def test_stopped():
    """A rank that hangs is named when time is up."""
    processes = start("stopped", 3, TIMEOUT="3")
    try:
        texts = {r: processes[r].communicate(timeout=600)[0] for r in (0, 2)}
    finally:
        for p in processes:
            p.kill()
            p.wait()
    for text in texts.values():
        assert re.search("error .*rank 1 did not answer within 2000ms: stopped", text), text


def test_raises():
    """A rank that ends by an exception tells the others."""
    errors, out = errors_of(start("raises", 3))
    assert set(errors) == {0, 2}, out
    for text in errors.values():
        assert "rank 1" in text and "LookupError: the data set is empty" in text, text
    assert "the data set is empty" in out[1]


def test_interrupted():
    errors, out = errors_of(start("interrupted", 2))
    assert errors.get(0) == "interrupted" and "rank 0 failed: it was interrupted" in errors.get(1, ""), out


def test_failed_step():
    errors, out = errors_of(start("failed_step", 2))
    assert set(errors) == {0, 1}, out
    assert "rank 1 failed: index out of range" in errors[0], errors


def test_launcher(tmp_path):
    """python -m smolder.distributed.run: torchrun's options and environment, and restarts."""
    command = [sys.executable, "-m", "smolder.distributed.run", "--nproc_per_node=2", "--max-restarts", "1"]
    command += [str(PROGRAMS), "restarted", "--lr", "3"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    assert "rank 1 (process" in done.stderr and "with exit status 3; starting all anew, 1 of 1" in done.stderr
    for r in range(2):
        assert f"rank {r} of 2, local {r}, args ['--lr', '3']" in done.stdout
    failing = subprocess.run(
        [sys.executable, "-m", "smolder.distributed.run", "--nproc-per-node", "1", "-m", "no_such_module"],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert failing.returncode == 1 and "rank 0" in failing.stderr
    refused = subprocess.run(
        [sys.executable, "-m", "smolder.distributed.run", "--nproc-per-node=gpu", "x.py"],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert (
        refused.returncode == 2 and '--nproc-per-node=gpu is not supported: a number, "auto" or "cpu"' in refused.stderr
    )


def test_example():
    """Two processes have the losses of one."""
    example = str(PROGRAMS.parents[2] / "examples" / "ddp.py")
    alone = [sys.executable, example, "--epochs", "2"]
    two = [sys.executable, "-m", "smolder.distributed.run", "--nproc-per-node", "2", *alone[1:]]
    said = [subprocess.run(c, capture_output=True, text=True, timeout=600, check=True).stdout for c in (alone, two)]
    losses = [[float(x) for x in re.findall(r"loss ([\d.]+)", text)] for text in said]
    assert len(losses[0]) == 2 and losses[0] == pytest.approx(losses[1], abs=2e-3), said
    assert "2 processes, " in said[1]


# -- in this process


@pytest.fixture
def alone(tmp_path):
    dist.init_process_group(init_method=f"file://{tmp_path}/one", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def test_one_process(alone):
    """A group of one needs no Gloo, and does what one of several does."""
    x = smolder.tensor([1.0, 2.0])
    dist.all_reduce(x)
    out = [smolder.zeros(2)]
    dist.all_gather(out, x)
    assert out[0].tolist() == [1.0, 2.0] and dist.get_world_size() == 1
    model = nn.parallel.DistributedDataParallel(nn.Linear(2, 1))
    model(x).sum().backward()
    assert model.module.weight.grad.tolist() == [[1.0, 2.0]]


def test_data_parallel_is_freed(alone):
    import gc
    import weakref

    module = nn.Linear(2, 1)
    model = nn.parallel.DistributedDataParallel(module)
    model(smolder.ones(2)).sum().backward()
    gone = [weakref.ref(model), weakref.ref(module), weakref.ref(module.weight)]
    del model
    gc.collect()
    assert gone[0]() is None
    module(smolder.ones(2)).sum().backward()  # whose hooks find nobody
    del module
    gc.collect()
    assert [r() for r in gone] == [None] * 3


def test_mistakes(alone, tmp_path):
    x = smolder.ones(2)
    for text, call in {
        "of type torch.Tensor": lambda: dist.all_reduce([x]),
        "one shape": lambda: dist.all_gather([smolder.ones(3)], x),
        "a tensor for each of 1 processes": lambda: dist.all_gather([x, x], x),
        "one dtype": lambda: dist.all_gather_into_tensor(smolder.ones(2, dtype=smolder.int64), x),
        "Must specify src or group_src": lambda: dist.broadcast(x),
        "Global rank 3 is not part": lambda: dist.broadcast(x, 3),
        "floating-point": lambda: dist.all_reduce(smolder.tensor([1]), dist.ReduceOp.AVG),
        "PREMUL_SUM is not supported": lambda: dist.all_reduce(x, dist.ReduceOp.PREMUL_SUM),
        "same as the rank of the current": lambda: dist.send(x, 0),
        "initialize the default process group twice": lambda: dist.init_process_group("gloo"),
        "within the world_size": lambda: dist.new_group([0, 1]),
        "at least 1": lambda: dist.scatter_object_list([]),
        "any parameter that requires": lambda: nn.parallel.DistributedDataParallel(nn.ReLU()),
        "device_ids": lambda: nn.parallel.DistributedDataParallel(nn.Linear(1, 1), device_ids=[0]),
        "bits of integers": lambda: dist.all_reduce(x, dist.ReduceOp.BAND) or x.numpy(),
    }.items():
        with pytest.raises((ValueError, TypeError, RuntimeError, NotImplementedError), match=text):
            call()


def test_no_group():
    assert dist.is_available() and not dist.is_initialized()
    for call in (dist.get_rank, dist.barrier, lambda: dist.all_reduce(smolder.ones(1))):
        with pytest.raises(ValueError, match="Default process group has not been initialized"):
            call()
    with pytest.raises(RuntimeError, match="doesn't have NCCL built in"):
        dist.init_process_group("nccl")
    with pytest.raises(RuntimeError, match=r"have MPI built in.*OMPI_COMM_WORLD_RANK"):
        dist.init_process_group("mpi")
    with pytest.raises(ValueError, match=r"there (is|are) gloo"):
        dist.init_process_group("carrier_pigeon")


@pytest.mark.parametrize("missing", ["RANK", "WORLD_SIZE", "MASTER_PORT"])
def test_environment_is_missing(monkeypatch, missing):
    for name, value in {"RANK": "0", "WORLD_SIZE": "1", "MASTER_PORT": "1"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv(missing)
    with pytest.raises(ValueError, match=f"environment variable {missing} expected, but not set"):
        dist.init_process_group()


def test_under_torchrun_the_store_is_on_the_next_port(monkeypatch):
    """Its own speaks another protocol."""
    port = smolder._core._free_port()
    given = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_PORT": str(port), "TORCHELASTIC_USE_AGENT_STORE": "True"}
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    dist.init_process_group()
    try:
        assert dist.TCPStore("127.0.0.1", port + 1).check([]) and dist.get_world_size() == 1
    finally:
        dist.destroy_process_group()


# -- stores


def stores(tmp_path):
    server = dist.TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False)
    return [
        (dist.HashStore(), None),
        (dist.FileStore(f"{tmp_path}/store", 2), dist.FileStore(f"{tmp_path}/store", 2)),
        (server, dist.TCPStore("127.0.0.1", server.port, None, False)),
        (dist.PrefixStore("a", server), dist.PrefixStore("a", dist.TCPStore("localhost", server.port))),
    ]


def test_stores(tmp_path):
    from datetime import timedelta

    for store, other in stores(tmp_path):
        other = other or store
        store.set("k", "value")
        assert other.get("k") == b"value" and other.check(["k"]) and not other.check(["k", "none"])
        store.set("k", bytes(range(256)))
        assert other.get("k") == bytes(range(256))
        assert store.add("n", 2) == 2 and other.add("n", -5) == -3 and store.get("n") == b"-3"
        assert store.compare_set("c", "", "1") == b"1" and other.compare_set("c", "0", "2") == b"1"
        assert other.compare_set("c", "1", "2") == b"2" and store.compare_set("none", "x", "y") == b"x"
        store.append("log", "a")
        other.append("log", "b")
        assert store.get("log") == b"ab" and other.num_keys() >= 4
        assert store.delete_key("log") and not other.delete_key("log")
        store.multi_set(["x", "y"], ["1", b"2"])
        assert other.multi_get(["x", "y"]) == [b"1", b"2"]
        other.set_timeout(timedelta(seconds=0.2))
        assert other.timeout == timedelta(seconds=0.2)
        with pytest.raises(dist.DistStoreError, match="wait timeout after 200ms, keys: /never"):
            other.get("never")
        with pytest.raises(dist.DistStoreError, match="is no number"):
            store.add("k", 1)
    assert issubclass(dist.DistStoreError, dist.DistError) and issubclass(dist.DistError, RuntimeError)


def test_store_listens_on_its_address_alone():
    """The loopback, where the store is there: not all of the machine's addresses."""
    store = dist.TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False)
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    places = [line.split()[1] for line in lines if line.split()[3] == "0A"]
    assert f"0100007F:{store.port:04X}" in places and f"00000000:{store.port:04X}" not in places


def test_store_refuses_strangers():
    """Wrong magic, version or size: the connection ends, and the others go on."""
    import socket
    import struct

    store = dist.TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False)
    good = struct.pack("<IHHI", 0x53444D53, 1, 7, 12) + b"\0" * 12
    for message, answered in [
        (good, True),
        (b"GET / HTTP/1.1\r\n\r\n", False),
        (struct.pack("<IHHI", 0x53444D53, 2, 7, 12) + b"\0" * 12, False),
        (struct.pack("<IHHI", 0x53444D53, 1, 7, 1 << 30), False),
        (struct.pack("<IHHI", 0x53444D53, 1, 99, 12) + b"\0" * 12, False),
        (struct.pack("<IHHI", 0x53444D53, 1, 1, 12) + struct.pack("<I", 1 << 20) + b"\0" * 8, False),
        (
            struct.pack("<IHHI", 0x53444D53, 1, 3, 13) + struct.pack("<I", 0) + struct.pack("<I", 1) + b"x" + b"\0" * 4,
            False,
        ),
    ]:
        with socket.create_connection(("127.0.0.1", store.port), timeout=60) as s:
            s.sendall(message)
            assert bool(s.recv(64)) == answered, message
    store.set("still", "here")
    assert store.get("still") == b"here"


def test_store_that_is_none():
    """A client that reaches another program says so; one that reaches nothing says that."""
    import socket
    import threading
    from datetime import timedelta

    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer():
            connection, _ = server.accept()
            connection.recv(100)
            connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            connection.close()

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(dist.DistNetworkError, match="is no store of Smolder's"):
            dist.TCPStore("127.0.0.1", server.getsockname()[1]).add("x", 1)
        thread.join()
    with pytest.raises(dist.DistNetworkError, match="has timed out"):
        dist.TCPStore("127.0.0.1", smolder._core._free_port(), timeout=timedelta(seconds=0.3))
    with pytest.raises(dist.DistNetworkError, match="has no address"):
        dist.TCPStore("no.such.host.invalid", 1, timeout=timedelta(seconds=0.3))


def test_damaged_file_store(tmp_path):
    (tmp_path / "text").write_text("not a store at all")
    with pytest.raises(dist.DistStoreError, match="is no store of this version"):
        dist.FileStore(str(tmp_path / "text")).set("a", "b")
    path = tmp_path / "cut"
    store = dist.FileStore(str(path))
    store.set("key", "value")
    path.write_bytes(path.read_bytes()[:-2])
    with pytest.raises(dist.DistStoreError, match="ends within a record"):
        dist.FileStore(str(path)).get("key")


def test_work_made_by_hand():
    """One that was not begun is done; nothing is said when it goes, nor of one whose class leaves out __init__."""

    class Mine(dist.Work):
        def __init__(self):
            pass

    unraised = []
    before, sys.unraisablehook = sys.unraisablehook, unraised.append
    try:
        for work in (dist.Work(), Mine()):
            assert work.wait() and work.result() == []
        del work
        with pytest.raises(TypeError):
            dist.Work(no_such_argument=1)
        gc.collect()
    finally:
        sys.unraisablehook = before
    assert not unraised
