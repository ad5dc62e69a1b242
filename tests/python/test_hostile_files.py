"""Files that were changed by somebody who means harm, or by a failing disk: an error that names what is wrong, and never
a crash, a hang, memory without bound, or code that runs.

SMOLDER_TEST_HOSTILE is how many traces are changed (150), SMOLDER_TEST_SEED the first seed.
"""

import contextlib
import faulthandler
import io
import json
import os
import pickle
import random
import re
import zipfile

import pytest
from conftest import of_the_cpu

import smolder
from smolder import _core, _trace_file, cli, nn, optim, safetensors
from smolder.distributed import checkpoint
from smolder.nn import functional as F

COUNT = int(os.environ.get("SMOLDER_TEST_HOSTILE", "150"))
FIRST = int(os.environ.get("SMOLDER_TEST_SEED", "0"))

pytestmark = of_the_cpu("files are the same wherever they are read")


@pytest.fixture(autouse=True)
def deadline():
    """Ends the process, and says where it was, where a test hangs in code that no signal ends."""
    faulthandler.dump_traceback_later(900, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


# -- traces

_JUNK = [None, True, -1, 0, 2**31, 2**63 - 1, 2**63, 10**400, 1.5, 1e308, "", "nan", "\ud800", "\x1b[31m", "<script>harm()", [],
         {}, [[]], {"a": 1}, "cuda", "float32", "int64", [-1], [2**40, 2**40]]  # fmt: skip
_NUMBERS = [0, 1, -1, 2, 3, 7, 255, 2**20, 2**31, 2**32, 2**40, 2**62, 2**63 - 1, -(2**63), -2, -9]
_WORDS = [
    "float32", "int64", "bool", "uint8", "float16", "true", "false", "none", "mean", "_", "s0", "weak float32", "nan",
]  # fmt: skip
_PIECES = ["", "(", ")", "[", "]", ",", "%1", "@9", "@99999999999", "\0", "é", "{", "s0*s0"]


def _models():
    """The recorded steps: training, layers of images, indices, control flow, attention and random numbers."""
    kept = []
    model = nn.Sequential(nn.Linear(9, 17), nn.ReLU(), nn.Dropout(0.1), nn.Linear(17, 3))
    optimizer = optim.AdamW(model.parameters(), lr=1e-2)
    x, image, kernel = smolder.randn(33, 9), smolder.randn(2, 3, 8, 8), smolder.randn(4, 3, 3, 3)
    index, table, q = smolder.randint(0, 5, (7,)), smolder.randn(5, 6), smolder.randn(1, 2, 5, 4)

    def train():
        loss = F.cross_entropy(model(x), (x[:, 0] > 0).long())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    def images():
        h = F.conv2d(image, kernel, padding=1, stride=2)
        kept.extend([F.max_pool2d(h, 2), F.avg_pool2d(h, 2).mean((2, 3)), F.pad(h, (1, 2))])
        kept.append(F.interpolate(h, size=(5, 7), mode="bilinear"))

    def indices():
        e = F.embedding(index, table)
        kept.extend([e.gather(1, smolder.zeros(7, 2).long()), e.topk(2)[0], e.sort(0)[1], F.one_hot(index, 5)])
        kept.extend([table.index_add(0, index, e), smolder.cat([e, e], 1)[::2].roll(1, 0), e.cumsum(0) * 2.5 + 3])
        kept.append(e.repeat(2, 3).unfold(0, 3, 2))

    def flow():
        kept.append(smolder.cond(x.sum() > 0, lambda a: a * 2, lambda a: a - 1, (x,)))

    def attention():
        kept.append(F.scaled_dot_product_attention(q, q, q, is_causal=True))
        kept.extend([q.softmax(-1).tril().var(-1), smolder.linspace(0, 1, 5), smolder.arange(3, 9)])
        kept.extend([smolder.rand(3, 3), smolder.randperm(5)])

    return (train, images, indices, flow, attention)


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    """The bytes, contents and tensors of files of recorded steps."""
    folder, out = tmp_path_factory.mktemp("traces"), []
    for model in _models():
        path = folder / f"{model.__name__}.trace"
        smolder.mark_step()
        with smolder.record_trace(path, inputs=len(out) % 2 == 0):
            model()
            smolder.mark_step()
        with safetensors.safe_open(path) as file:
            contents = json.loads(file.metadata()["smolder.trace"])
            out.append((path.read_bytes(), contents, {name: file.get_tensor(name) for name in file.keys()}))  # noqa: SIM118
    return out


def _places(value, path=()):
    keys = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield (*path, key)
        yield from _places(value[key], (*path, key))


def _changed_bytes(data, dice):
    data = bytearray(data)
    for _ in range(dice.randrange(1, 4)):
        at = dice.randrange(max(len(data), 1))
        change = dice.randrange(4)
        if change == 0:
            data[at : at + 1] = [dice.randrange(256)]
        elif change == 1:
            del data[at + 1 :]
        elif change == 2:
            del data[at : at + dice.randrange(9)]
        else:
            data[at:at] = data[at : at + dice.randrange(20)]
    return bytes(data)


def _changed_contents(contents, dice):
    for _ in range(dice.choice([1, 1, 2])):
        *path, last = dice.choice(list(_places(contents)))
        owner = contents
        for key in path:
            owner = owner[key]
        if dice.random() < 0.2:
            del owner[last]
        else:
            owner[last] = dice.choice(_JUNK)


def _replace(text, pattern, fresh, dice):
    found = list(re.finditer(pattern, text))
    if not found:
        return text
    at = dice.choice(found)
    return text[: at.start()] + fresh + text[at.end() :]


def _changed_text(text, dice):
    for _ in range(dice.choice([1, 1, 1, 2, 3])):
        change = dice.randrange(8)
        if change < 3:
            number = dice.choice(_NUMBERS) if dice.random() < 0.6 else dice.randrange(12)
            text = _replace(text, r"-?\d+", str(number), dice)
        elif change == 3:
            text = _replace(text, r"%\d+", f"%{dice.randrange(60)}", dice)
        elif change == 4:
            text = _replace(text, r"(?<== )\w+(?=\()", dice.choice(_OPS), dice)
        elif change == 5:
            lines = text.split("\n")
            line = lines[at := dice.randrange(len(lines))]
            if dice.random() < 0.5:
                del lines[at]
            lines.insert(dice.randrange(len(lines) + 1), line)
            text = "\n".join(lines)
        elif change == 6:
            text = _replace(text, "|".join(_WORDS[:9]), dice.choice(_WORDS), dice)
        else:
            at = dice.randrange(len(text) + 1)
            text = text[:at] + dice.choice(_PIECES) + text[at + dice.randrange(6) :]
    return text


_OPS = ["matmul", "expand", "reshape", "conv2d", "max_pool2d", "repeat", "full", "arange_from", "unfold", "slice", "cat",
        "sort", "cumsum", "embedding", "dropout", "rand", "one_hot", "tril", "gather", "leaf", "parameter", "extent",
        "constant", "iota", "barrier", "sum", "linear", "add", "where"]  # fmt: skip


def _changed_nodes(step, dice):
    """Sizes, attributes, operands or ops of a step, with the results that their rules say."""
    nodes, outputs = _core._parse_graph(step["graph"])
    nodes = [_trace_file.Node(*node) for node in nodes]
    for _ in range(dice.choice([1, 1, 2])):
        node = dice.choice(nodes)
        dtype, shape, number = node.results[0]
        if node.is_leaf and shape and dice.random() < 0.7:
            shape = list(shape)
            shape[dice.randrange(len(shape))] = dice.choice([0, 1, 2, 3, 1000, 2**20, 2**31, 2**40, -1, 2**62])
            node.results[0] = (dtype, shape, number)
        elif node.is_leaf:
            node.results[0] = (dice.choice(["float32", "int64", "bool", "float16", "uint8"]), shape, number)
        elif node.words and dice.random() < 0.7:
            node.words[dice.randrange(len(node.words))] = (
                dice.choice(_NUMBERS) if dice.random() < 0.6 else dice.randrange(6)
            )
        elif node.inputs and dice.random() < 0.5:
            node.inputs[dice.randrange(len(node.inputs))] = dice.randrange(-1, 40)
        elif not node.is_number:
            node.op = dice.choice(_OPS)
    graph = _core._ReplayGraph([node.plain(node.source) for node in nodes], outputs)
    leaves = [node.results[0] for node in nodes if node.is_leaf]
    step |= {"graph": graph.text, "runs": 99, "device": "cpu"}
    step["leaves"] = [{"dtype": dtype, "shape": list(shape), "data": None} for dtype, shape, _ in leaves]


def _write_changed(path, trace, dice):
    """Writes a changed trace; False where the change makes none."""
    data, contents, tensors = trace
    kind = dice.randrange(10)
    if kind == 0:
        path.write_bytes(_changed_bytes(data, dice))
        return True
    contents = json.loads(json.dumps(contents))
    step = dice.choice(contents["steps"])
    if kind < 4:
        _changed_contents(contents, dice)
    elif kind < 7:
        step["graph"] = _changed_text(step["graph"], dice)
    else:
        try:
            _changed_nodes(step, dice)
        except (ValueError, RuntimeError, NotImplementedError, TypeError, IndexError, KeyError):
            return False
    safetensors.save_file(tensors, path, {"smolder.trace": json.dumps(contents)})
    return True


_COMMANDS = [["trace", "show"], ["trace", "stats"], ["trace", "html", "-o", "-"], ["trace", "diff"],
             ["replay", "--iters", "1"], ["replay", "--check"]]  # fmt: skip


def _run_command(command, path):
    """The exit status of `smolder trace` or `replay`, and what it printed."""
    at = 2 if command[0] == "trace" else 1
    out = io.TextIOWrapper(io.BytesIO(), "utf-8")
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        status = cli.main([*command[:at], str(path), *command[at:]])
        out.flush()
    return status, out.buffer.getvalue().decode()


@pytest.mark.runs_op_by_op
def test_traces(traces, tmp_path):
    path = tmp_path / "tried.trace"
    read = refused = 0
    for seed in range(FIRST, FIRST + COUNT):
        dice = random.Random(seed)
        if not _write_changed(path, dice.choice(traces), dice):
            continue
        try:
            _trace_file.read(path)
            read += 1
        except _trace_file.TraceError as e:
            assert str(path) in str(e), f"seed {seed}: the error does not name the file: {e}"
            refused += 1
        for command in dice.sample(_COMMANDS, 2):
            status, text = _run_command(command, path)
            assert status in (0, 1, 2, 3), f"seed {seed}: {command} ended with {status}: {text}"
            harm = "\x1b" in text or ("html" in command and "<script>harm" in text)
            assert not harm, f"seed {seed}: {command} prints what the file says"
    assert read > COUNT // 20 and refused > COUNT // 4, (read, refused)


def test_a_step_beyond_the_memory_of_the_machine(traces, tmp_path):
    """Half of an address space may be asked for without an error, until it is written to."""
    path = tmp_path / "large.trace"
    extent = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 4 + 1
    graph = _core._ReplayGraph([("leaf", [], [], ("float32", [extent]), 0), ("neg", [0], [], ("float32", []), 0)], [1])
    contents = json.loads(json.dumps(traces[0][1]))
    leaf = {"dtype": "float32", "shape": [extent], "data": None}
    contents["steps"] = [contents["steps"][0] | {"graph": graph.text, "leaves": [leaf], "numbers": [], "modes": []}]
    contents["order"] = []
    safetensors.save_file({}, path, {"smolder.trace": json.dumps(contents)})
    status, text = _run_command(["replay"], path)
    assert status == 3 and "of memory at least, and this machine has" in text, text


def test_calls_of_ops_that_no_signature_allows():
    leaf = ("leaf", [], [], ("float32", [4, 4]), 0)
    for node, message in [
        (("sum", [0], [-9, 0, 0, 0], ("float32", []), 0), "no value of attribute dim"),
        (("sum", [0], [], ("float32", []), 0), "no value of attribute dim"),
        (("sum", [-1], [0, 0, 0, 0], ("float32", []), 0), "operand 0 is absent"),
        (("matmul", [0], [], ("float32", []), 0), "has 1 operands"),
        (("neg", [0], [1, 2], ("float32", []), 0), "2 attribute words too many"),
    ]:
        with pytest.raises(ValueError, match=message):
            _core._ReplayGraph([leaf, node], [1])


# -- pickles

_HEAD = b"\x80\x02"  # protocol 2


def _archive(pickled):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for name, data in (("data.pkl", pickled), ("version", b"3\n"), ("byteorder", b"little")):
            archive.writestr(f"archive/{name}", data)
    out.seek(0)
    return out


_DEEP = b"N" + b"\x85" * 200_000  # a tuple in a tuple in ...
_WIDE = b"N\x85q\x00" + b"".join(
    bytes([ord("h"), i, 0x86, ord("q"), i + 1]) for i in range(60)
)  # each twice in the next


@pytest.mark.parametrize("key", [_DEEP, _WIDE], ids=["deep", "wide"])
@pytest.mark.parametrize(
    "around",
    [
        lambda key: b"}" + key + b"Ns.",
        lambda key: b"c__builtin__\nset\n](" + key + b"e\x85R.",
        lambda key: b"c__builtin__\nfrozenset\n](" + key + b"e\x85R.",
        lambda key: b"ccollections\nCounter\n](" + key + b"e\x85R.",
        lambda key: b"ccollections\nOrderedDict\n](](" + key + b"Nee\x85R.",
        lambda key: b"\x8f(" + key + b"\x90.",
        lambda key: b"(" + key + b"\x91.",
    ],
    ids=["dict", "set", "frozenset", "Counter", "OrderedDict", "set items", "frozenset items"],
)
def test_keys_of_pickles_that_python_cannot_hash(around, key):
    """Hashing them ends the process, or never ends."""
    with pytest.raises(pickle.UnpicklingError, match="a key is a tuple of more than 10000 values"):
        smolder.load(_archive(_HEAD + around(key)))


def test_ordinary_keys_of_pickles_are_read():
    saved = {("a", (1, 2.5)): 1, "s": {1, ("x", "y")}, "f": frozenset([(1, 2)]), "t": tuple(range(20_000))}
    assert smolder.load(_archive(pickle.dumps(saved, 2))) == saved
    assert smolder.load(_archive(pickle.dumps(saved, 4))) == saved


# -- safetensors


def test_a_shape_of_a_million_extents(tmp_path):
    """Multiplying them takes hours."""
    entry = {"dtype": "F32", "shape": [2**62] * 1_000_000, "data_offsets": [0, 4]}
    text = json.dumps({"x": entry}).encode()
    path = tmp_path / "large.safetensors"
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"\0" * 4)
    with pytest.raises(safetensors.SafetensorError, match="has 4 bytes for shape"):
        safetensors.load_file(path)


def _changed_header(data, dice):
    """A safetensors file whose header says something else, of the right length."""
    size = int.from_bytes(data[:8], "little")
    contents = json.loads(data[8 : 8 + size])
    _changed_contents(contents, dice)
    text = json.dumps(contents).encode()
    return len(text).to_bytes(8, "little") + text + data[8 + size :]


def _changed_file(data, dice):
    return _changed_bytes(data, dice) if dice.random() < 0.4 else _changed_header(data, dice)


_BESIDE = {"a": smolder.arange(6.0).reshape(2, 3), "b": smolder.tensor([True, False]), "c": smolder.zeros(0, 4)}


def test_safetensors(tmp_path):
    """Reads stay within the file, or nothing is read."""
    path, read = tmp_path / "tried.safetensors", 0
    data = safetensors.save(_BESIDE, {"note": "x"})
    for seed in range(FIRST, FIRST + 4 * COUNT):
        changed = _changed_file(data, random.Random(seed))
        path.write_bytes(changed)
        for load in (lambda: safetensors.load(changed), lambda: safetensors.load_file(path)):  # noqa: B023
            try:
                loaded = load()
            except (safetensors.SafetensorError, NotImplementedError):  # a dtype of another name
                continue
            read += 1
            assert sum(t.numel() * t.itemsize for t in loaded.values()) <= len(changed), f"seed {seed}"
    assert read > COUNT // 10


@pytest.mark.runs_op_by_op
def test_graphs(tmp_path):
    """A graph that was changed is refused, or runs as what it says: its inputs are of the shapes that it has."""
    linear = nn.Linear(4, 3)
    example = smolder.rand(2, 4)
    graph = smolder.capture(lambda x: F.softmax(linear(x).relu()[:, :2].reshape(-1), 0), example)
    path = tmp_path / "g.safetensors"
    graph.save(path)
    data, refused, read = path.read_bytes(), 0, 0
    size = int.from_bytes(data[:8], "little")
    for seed in range(FIRST, FIRST + 3 * COUNT):
        dice = random.Random(seed)
        if dice.random() < 0.5:
            contents = json.loads(data[8 : 8 + size])
            key = dice.choice(sorted(contents["__metadata__"]))
            contents["__metadata__"][key] = _changed_text(contents["__metadata__"][key], dice)
            text = json.dumps(contents).encode()
            path.write_bytes(len(text).to_bytes(8, "little") + text + data[8 + size :])
        else:
            path.write_bytes(_changed_file(data, dice))
        try:
            loaded = smolder.load_graph(path)
            read += 1
        except ValueError as error:
            assert str(path) in str(error), f"seed {seed}: the error does not name the file: {error}"
            refused += 1
            continue
        with contextlib.suppress(ValueError, RuntimeError, TypeError, IndexError, NotImplementedError):
            loaded(example).tolist()
    assert refused > COUNT // 2 and read > COUNT // 20, (refused, read)


def test_distributed_checkpoints(tmp_path):
    """Everything comes back as it was saved, or one kind of error says that it cannot."""
    state = {"w": smolder.rand(4, 3), "more": {"b": smolder.arange(5), "step": 7}}
    checkpoint.save(state, checkpoint_id=tmp_path, no_dist=True)
    index, whole = tmp_path / "index.json", {p: p.read_bytes() for p in tmp_path.iterdir()}
    same, refused = 0, 0
    for seed in range(FIRST, FIRST + 2 * COUNT):
        dice = random.Random(seed)
        for path, data in whole.items():
            path.write_bytes(data)
        path = dice.choice(sorted(whole))
        if path == index and dice.random() < 0.7:
            contents = json.loads(whole[index])
            _changed_contents(contents, dice)
            path.write_text(json.dumps(contents))
        else:
            path.write_bytes(_changed_bytes(whole[path], dice))
        found = {"w": smolder.full((4, 3), -1.0), "more": {"b": smolder.full((5,), -1), "step": 0}}
        try:
            checkpoint.load(found, checkpoint_id=tmp_path, no_dist=True)
        except (RuntimeError, ValueError) as error:
            assert "checkpoint" in str(error) or "Size mismatch" in str(error), f"seed {seed}: {error}"
            refused += 1
            continue
        assert not (found["w"] == -1).any() and not (found["more"]["b"] == -1).any(), f"seed {seed}: parts are missing"
        same += 1
    assert refused > COUNT // 2 and same > COUNT // 20, (refused, same)


def test_parts_of_a_checkpoint_that_cover_each_other(tmp_path):
    """Their elements are as many as the tensor has, and some places have none."""
    checkpoint.save({"w": smolder.arange(4.0)}, checkpoint_id=tmp_path, no_dist=True)
    index = tmp_path / "index.json"
    contents = json.loads(index.read_text())
    (file,) = tmp_path.glob("*.safetensors")
    safetensors.save_file({contents["tensors"][0]["name"]: smolder.arange(2.0)}, file)
    part = contents["tensors"][0] | {"box": [[0, 2]]}
    index.write_text(json.dumps(contents | {"tensors": [part, part]}))
    with pytest.raises(RuntimeError, match=r"the checkpoint has 4 of 4 elements .* some of them twice"):
        checkpoint.load({"w": smolder.zeros(4)}, checkpoint_id=tmp_path, no_dist=True)
