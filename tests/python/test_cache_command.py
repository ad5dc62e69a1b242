"""`smolder cache`: in processes of its own, over a database of its own, also while another process trains."""

import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time

import pytest
from conftest import of_the_cpu
from forked import Commands

pytestmark = of_the_cpu("kernels of the host, whose objects objdump reads")

TRAIN = """
import sys
import time
import smolder
from smolder import nn, optim

smolder.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
optimizer = optim.AdamW(model.parameters(), lr=1e-2)
x = smolder.randn(32, 8)
y = (x[:, 0] > 0).long()
for step in range(int(sys.argv[1])):
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    smolder.mark_step()
    if step in (2, 5):
        print("warm", flush=True)
    if step > 5:
        time.sleep(0.02)  # leaves the processor to the commands that look on
print(smolder.metrics()["counters"].get("kernels.compiled", 0), loss.item())
"""
SUMS = """
import smolder
x = smolder.randn(6, 4)
smolder.mark_step()
for dim in (0, 1):
    y = x.sum(dim)
    smolder.mark_step()
"""
# Every command that reads, in one process: of a damaged file each says so or shows what it can.
READS = """
from smolder import cli
for command in (["ls"], ["stats"], ["why"], ["show", "a"], ["diff", "a", "b"]):
    assert cli.main(["cache", *command]) in (0, 1, 3), command
"""


class Place:
    """A directory for the cache, and what runs over it."""

    def __init__(self, folder):
        self.folder = folder
        self.directory = folder / "cache"
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("SMOLDER_CACHE")}
        self.env |= {"SMOLDER_CACHE_DIR": str(self.directory), "COLUMNS": "100"}

    @property
    def path(self):
        return self.directory / "cache-v3.db"

    def script(self, text, *arguments, name="script.py"):
        file = self.folder / name
        file.write_text(text)
        return [sys.executable, str(file), *map(str, arguments)]

    def python(self, text, *arguments, name="script.py"):
        run = subprocess.run(self.script(text, *arguments, name=name), env=self.env, capture_output=True, text=True)
        assert run.returncode == 0, run.stderr
        return run.stdout

    def cache(self, *arguments, status=0, **env):
        run = self.commands.run(["cache", *map(str, arguments)], self.env | env)
        assert run.returncode == status, (arguments, run.returncode, run.stdout, run.stderr)
        return run.stderr if status == 3 else run.stdout

    def json(self, *arguments, status=0, **env):
        return json.loads(self.cache(*arguments, "--json", status=status, **env))


@pytest.fixture(scope="module", autouse=True)
def commands():
    Place.commands = Commands()
    yield
    Place.commands.close()


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    place = Place(tmp_path_factory.mktemp("trained"))
    place.python(TRAIN, 6, name="train.py")
    place.python(SUMS, name="sums.py")
    return place


@pytest.fixture
def own(trained, tmp_path):
    """A copy that a test may break."""
    place = Place(tmp_path)
    shutil.copytree(trained.directory, place.directory)
    return place


def test_ls_lists_kernels_in_a_table_that_fits(trained):
    rows = trained.json("ls")
    assert len(rows) > 5 and {r["kind"] for r in rows} == {"kernel"}
    assert all(r["build_ms"] > 0 and r["where"].startswith(str(trained.folder)) for r in rows)
    assert any("sum" in r["name"] for r in rows)
    for columns in (60, 100, 300):
        lines = trained.cache("ls", COLUMNS=str(columns)).splitlines()
        assert len(lines) == len(rows) + 1 and max(map(len, lines)) <= columns
        assert all(r["key"][:12] in text for r, text in zip(rows, lines[1:], strict=True))
    slowest = trained.json("ls", "--sort", "ms", "--limit", 2)
    assert [r["build_ms"] for r in slowest] == sorted((r["build_ms"] for r in rows), reverse=True)[:2]
    assert trained.json("ls", "--kind", "nothing") == []


def test_show_has_loop_ir_source_and_assembly(trained):
    row = next(r for r in trained.json("ls") if "sums.py" in r["where"])
    shown = trained.json("show", row["key"][:10])
    assert shown["key"] == row["key"] and shown["payload_bytes"] > 100 and "sum" in shown["structure"]
    text = trained.cache("show", row["key"])
    assert shown["structure"] in text and row["where"][-30:] in text and "llvm" in text
    assert "store" in trained.cache("show", row["key"], "--source")
    if shutil.which("objdump"):
        assert re.search(r"\bret", trained.cache("show", row["key"], "--asm"))
    message = trained.cache("show", row["key"], "--asm", status=3, PATH="/nonexistent")
    assert "objdump or llvm-objdump" in message and "apt-get install binutils" in message


def test_keys_that_name_no_row_or_several(trained):
    keys = {r["key"] for r in trained.json("ls") + trained.json("ls", "--kind", "recompile")}
    trained.cache("show", "zz", status=1)
    first = min(keys)[0]
    trained.cache("show", first, status=int(sum(k.startswith(first) for k in keys) > 1))
    trained.cache("show", "", status=1)  # the start of them all


def test_stats_add_up(trained):
    stats = trained.json("stats")
    kinds = {k["kind"]: k for k in stats["kinds"]}
    assert set(kinds) == {"kernel", "recompile"} and stats["path"] == str(trained.path)
    assert sum(k["rows"] for k in kinds.values()) == stats["rows"]
    assert kinds["kernel"]["rows"] == len(trained.json("ls")) and stats["processes"] == 0
    assert stats["max_bytes"] == 2 << 30 and trained.json("stats", SMOLDER_CACHE_BYTES="1M")["max_bytes"] == 1 << 20
    assert str(trained.path) in trained.cache("stats")


def test_why_names_the_cause_and_both_lines(trained):
    reasons = trained.json("why", "--limit", 100)
    (dim,) = (r for r in reasons if r["cause"] == "attribute" and "sums.py" in r["where"])
    assert dim["reason"] == "`sum`: `dim` is [1], was [0]"
    assert dim["where"] == dim["before"] == f"{trained.folder}/sums.py:6 in <module>"
    (kernel,) = dim["kernels"]
    text = trained.cache("why", kernel["key"][:12])
    assert dim["reason"] in text and "the nearest kernel then" in text and "now at     " in text
    explained = trained.json("why", kernel["key"])
    assert [s["reason"] for s in explained["steps"]] == [dim["reason"]]
    assert explained["nearest_kernel"]["nearest"]["key"] != kernel["key"]
    assert dim["reason"] in trained.cache("why")
    assert len(trained.json("why", "--limit", 1)) == 1


def test_why_keeps_what_was_built_when_a_process_finds_it(own):
    (before,) = (r for r in own.json("why", "--limit", 99) if r["cause"] == "attribute" and "sums.py" in r["where"])
    moved = f"import runpy; runpy.run_path({before['where'].split(':')[0]!r})"
    own.python(moved)
    reasons = [r for r in own.json("why", "--limit", 99) if r["reason"] == before["reason"] and "sums.py" in r["where"]]
    assert [r["kernels"] for r in reasons] == [before["kernels"]] and reasons[0]["created"] > before["created"]


def test_diff_of_two_rows(trained):
    a, b = (r["key"] for r in trained.json("ls") if "sums.py" in r["where"])
    lines = trained.json("diff", a, b, status=1)["diff"]
    assert any(line.startswith("+") for line in lines) and any(line.startswith("-") for line in lines)
    assert trained.cache("diff", a, b, status=1).splitlines() == lines
    assert trained.cache("diff", a, a) == ""


def test_an_exported_cache_makes_a_first_step_compile_nothing(trained, tmp_path):
    shipped = tmp_path / "warm.db"
    count = trained.json("export", shipped)["rows_written"]
    assert count == trained.json("stats")["rows"]
    trained.cache("export", shipped, status=3)  # it is there
    fresh = Place(tmp_path)
    assert fresh.json("import", shipped, "--trust") == {"rows_added": count}
    assert trained.cache("diff", shipped).startswith(f"{len(trained.json('ls'))} rows in both, 0 only")
    compiled, loss = fresh.python(TRAIN, 6, name="train.py").split()[-2:]
    assert compiled == "0"
    (tmp_path / "cold").mkdir()
    cold = Place(tmp_path / "cold").python(TRAIN, 6, name="train.py").split()[-2:]
    assert int(cold[0]) > 5 and cold[1] == loss


def test_diff_of_caches_shows_what_one_lacks(trained, tmp_path):
    shipped, other = tmp_path / "a.db", Place(tmp_path)
    trained.cache("export", shipped)
    other.python(SUMS, name="sums.py")
    found = other.json("diff", shipped, status=1)
    both = len(other.json("ls"))
    assert found["both"] == both > 1 and found["only_a"] == []
    assert len(found["only_b"]) == len(trained.json("ls")) - both > 0
    other.cache("export", tmp_path / "b.db")
    back = other.json("diff", shipped, tmp_path / "b.db", status=1)
    assert len(back["only_a"]) == len(found["only_b"]) and back["only_b"] == []


def test_prune_and_clear(own):
    before = own.json("stats")["rows"]
    assert own.json("prune") == {"rows_dropped": 0}
    dropped = own.json("prune", "--bytes", "100K")["rows_dropped"]
    assert dropped > 0 and own.json("stats")["rows"] == before - dropped
    assert own.json("clear") == {"rows_dropped": before - dropped}
    assert own.json("ls") == [] and "no step was compiled" in own.cache("why")
    own.cache("prune", "--bytes", "much", status=2)


def test_an_empty_place_stays_empty(tmp_path):
    place = Place(tmp_path)
    assert place.json("ls") == place.json("why") == []
    assert place.json("stats")["rows"] == 0 and place.json("verify")["sound"]
    assert place.json("prune") == place.json("clear") == {"rows_dropped": 0}
    place.cache("export", tmp_path / "x.db", status=1)
    assert not place.directory.exists()


def test_a_cache_that_is_off_cannot_be_used(trained):
    for command in ("ls", "stats", "why", "clear"):
        assert "SMOLDER_CACHE=off" in trained.cache(command, status=3, SMOLDER_CACHE="off")


def break_row(path):
    with sqlite3.connect(path) as db:
        db.execute(
            "UPDATE record SET payload = zeroblob(64) WHERE id = (SELECT min(id) FROM record WHERE kind = 'kernel')"
        )


def test_verify_finds_and_drops_a_broken_row(own):
    assert own.json("verify")["sound"]
    break_row(own.path)
    found = own.json("verify", status=1)
    assert (found["broken"], found["dropped"], found["complaints"]) == (1, 0, "")
    assert "--repair" in own.cache("verify", status=1)
    assert own.json("verify", "--repair")["dropped"] == 1
    assert own.json("verify")["sound"]


@pytest.mark.parametrize("damage", ["header", "middle", "cut", "empty", "text"])
def test_damaged_files_are_told_of_and_left_until_repaired(own, damage):
    content = bytearray(own.path.read_bytes())
    if damage == "header":
        content[:40] = b"x" * 40
    elif damage == "middle":
        for page in range(2 * 4096, len(content) - 4096, 4096):
            content[page : page + 600] = b"\xff" * 600
    elif damage == "cut":
        del content[len(content) // 3 :]
    else:
        content = bytearray(b"" if damage == "empty" else b"this is no database\n")
    for extra in own.directory.glob("*-wal"):
        extra.unlink()
    own.path.write_bytes(content)
    report = own.json("verify", status=1)
    assert not report["sound"] and report["complaints"]
    run = subprocess.run([sys.executable, "-c", READS], env=own.env, capture_output=True, text=True)
    assert run.returncode == 0 and "Traceback" not in run.stderr, run.stderr
    assert own.path.read_bytes() == content  # nothing was repaired unasked
    own.cache("verify", "--repair")
    assert own.json("verify")["sound"] and own.json("ls") == []
    assert list(own.directory.glob("*.damaged-*"))
    assert int(own.python(TRAIN, 2, name="train.py").split()[-2]) > 5


@pytest.mark.parametrize("content", [b"", b"no database", None])
def test_import_refuses_what_is_no_export(own, content):
    file = own.folder / "bad.db"
    if content is not None:
        file.write_bytes(content)
    assert "cannot import" in own.cache("import", file, status=3)
    assert own.json("verify")["sound"]


def test_all_of_it_works_while_another_process_trains(own):
    command = own.script(TRAIN, 10**9, name="train.py")
    with subprocess.Popen(command, env=own.env, stdout=subprocess.PIPE, text=True) as trains:
        try:
            assert trains.stdout.readline() == "warm\n" == trains.stdout.readline()
            until = time.monotonic() + 60
            while (held := own.json("stats"))["leased_rows"] <= 3 and time.monotonic() < until:
                time.sleep(0.05)  # leases are written behind the program
            assert held["processes"] == 1 and held["leased_rows"] > 3
            assert any(r["leases"] for r in own.json("ls"))
            assert own.json("verify")["sound"] and own.json("why")
            own.json("prune", "--bytes", 0)
            assert len(own.json("ls")) >= held["leased_rows"]  # what is used stays
            own.json("export", own.folder / "live.db")
            own.json("import", own.folder / "live.db")
            own.json("clear")
            assert trains.poll() is None
        finally:
            trains.send_signal(signal.SIGKILL)
    assert own.json("verify")["sound"]
    assert int(own.python(TRAIN, 2, name="train.py").split()[-2]) > 5  # it was cleared


def test_what_only_reads_loads_no_code_generator(trained):
    code = (
        "import sys; from smolder.cli import main; status = main(['cache', 'ls']);"
        "maps = open('/proc/self/maps').read(); sys.exit(status or ('smolder_llvm' in maps or 'libcuda' in maps))"
    )
    run = subprocess.run([sys.executable, "-c", code], env=trained.env, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


def test_help_says_what_there_is():
    run = subprocess.run([sys.executable, "-m", "smolder.cli", "cache", "--help"], capture_output=True, text=True)
    assert run.returncode == 0 and "Exit status: 0 fine; 1" in run.stdout
    for word in ("ls", "show", "stats", "why", "verify", "prune", "clear", "export", "import", "diff"):
        assert re.search(rf"^    {word} ", run.stdout, re.MULTILINE), word


def test_a_pipe_gets_whole_lines_and_may_close_early(trained):
    command = f"{sys.executable} -m smolder.cli cache ls"
    env = {k: v for k, v in trained.env.items() if k != "COLUMNS"}
    run = subprocess.run(command, shell=True, env=env, capture_output=True, text=True)
    where = max((r["where"] for r in trained.json("ls")), key=len)
    assert where in run.stdout and "…" not in run.stdout
    early = subprocess.run(
        f"{sys.executable} -m smolder.cli cache ls --json | head -1",
        shell=True,
        env=env,
        capture_output=True,
        text=True,
    )
    assert early.stdout == "[\n" and early.stderr == ""
