"""Files for TensorBoard: what is in them is what torch writes for the same calls."""

import io
import os
import subprocess
import zlib
from pathlib import Path

import numpy as np
import pytest
from torch_peer import PYTHON, needs_torch

import smolder

try:
    from smolder.utils.tensorboard import FileWriter, SummaryWriter, summary
except ImportError:
    pytest.skip("tensorboard is not installed", allow_module_level=True)
import tensorboard
from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

CALLS = """
x = torch.arange(24).reshape(2, 3, 4).to(torch.float32) / 24
w.add_scalar("loss", torch.tensor(0.25), 3, walltime=5.0)
w.add_scalar("loss", 0.5, 4, walltime=6.0, new_style=True)
w.add_scalar("loss", np.float64(0.1), 5, walltime=6.0, new_style=True, double_precision=True)
w.add_scalars("both/of", {"a": 1, "b": torch.tensor([2.0])}, 1, walltime=7.0)
for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int32, torch.int64, torch.uint8, torch.int8, torch.int16):
    w.add_tensor("t", (x * 8).to(dtype), 1, 2.0)
w.add_tensor("t", x > 0.5)
w.add_histogram("h", x, 1, walltime=1.0)
w.add_histogram("h", x - 0.5, 2, bins=10, walltime=1.0)
w.add_histogram("h", x, 2, bins="auto", max_bins=3, walltime=1.0)
w.add_histogram("h", np.array([1.0, 1.0, 5.0]), 2, max_bins=64, walltime=1.0)
w.add_histogram_raw("r", 0, 1, 2, 3, 4, [1, 2], [3, 4], 1, 1.0)
w.add_image("i", x[:, :, :3], 0, 1.0, dataformats="HWC")
w.add_image("i", (x[0] * 255).to(torch.uint8), 0, 1.0, dataformats="HW")
w.add_images("i", x.reshape(2, 1, 3, 4), 0, 1.0)
w.add_audio("s", x.flatten() * 2 - 1, 0, walltime=1.0)
w.add_text("note", "**bold** ü", 1, 1.0)
w.add_pr_curve("p", torch.tensor([0, 1, 1, 0]), torch.tensor([0.2, 0.7, 0.4, 0.1]), 0, walltime=1.0)
w.add_pr_curve("p", np.array([0, 1]), np.array([0.2, 0.7]), 0, 10, np.array([1.0, 2.0]), 1.0)
w.add_pr_curve_raw("q", [1, 2], [3, 4], [5, 6], [7, 8], [0.5, 0.25], [0.1, 0.2], 0, 2, walltime=1.0)
w.add_custom_scalars_multilinechart(["a", "b"])
w.add_custom_scalars_marginchart(["a", "b", "c"])
w.add_custom_scalars({"c": {"d": ["Margin", ["a", "b", "c"]], "e": ["Multiline", ["f"]]}})
w.add_hparams({"lr": 0.1, "name": "adam", "on": True, "no": None, "n": 3}, {"hp/loss": 1}, {"n": [3, 4]}, "hp", 7)
w.add_embedding(x[0], ["a", "b", "c"], torch.ones(3, 1, 2, 2), 2, "e/f")
w.add_embedding(x[1], [["a", 1], ["b", 2], ["c", 3]], metadata_header=["l", "n"])
"""
WRITE = "with SummaryWriter({folder!r}, purge_step=2) as w:\n    "


def pixels(data):
    """The bytes of an image, whoever compressed it."""
    from PIL import Image

    return np.asarray(Image.open(io.BytesIO(data))).tolist()


def written(folder):
    """All that is in a folder: the events of each file, without times that calls did not say, and other files."""
    out = {}
    for path in sorted(p for p in Path(folder).rglob("*") if p.is_file()):
        where = path.parent.relative_to(folder).as_posix()
        if "tfevents" not in path.name:
            data = path.read_bytes()
            out[f"{where}/{path.name}"] = pixels(data) if path.suffix == ".png" else data
            continue
        events = []
        for event in LegacyEventFileLoader(str(path)).Load():
            if event.wall_time > 1e6:
                event.wall_time = 0
            event.ClearField("source_metadata")
            parts = []
            for value in event.summary.value:
                plugin = value.metadata.plugin_data
                if plugin.plugin_name == "hparams":  # a map in it has no order
                    parts.append(str(HParamsPluginData.FromString(plugin.content)))
                    plugin.content = b""
                if value.HasField("image"):
                    parts.append(pixels(value.image.encoded_image_string))
                    value.image.encoded_image_string = b""
            events.append((str(event), parts))
        out[where] = events
    return out


@needs_torch
def test_files_hold_what_those_of_torch_hold(tmp_path):
    pytest.importorskip("PIL")
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    names = {"torch": smolder, "np": np, "SummaryWriter": SummaryWriter}
    body = WRITE + CALLS.replace("\n", "\n    ")
    exec(body.replace("{folder!r}", repr(str(ours))), names)
    code = "import torch, numpy as np\nfrom torch.utils.tensorboard import SummaryWriter\n"
    packages = str(Path(tensorboard.__file__).parents[1])
    run = subprocess.run(
        [PYTHON, "-c", code + body.replace("{folder!r}", repr(str(theirs)))],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": packages},
    )
    assert run.returncode == 0, run.stderr
    here, there = written(ours), written(theirs)
    assert list(here) == list(there)
    for name in here:
        assert len(here[name]) == len(there[name])
        for mine, other in zip(here[name], there[name], strict=True):
            assert mine == other, name


def test_a_figure_is_an_image(tmp_path):
    plt = pytest.importorskip("matplotlib.pyplot")
    figure = plt.figure(figsize=(1, 1), dpi=20)
    with SummaryWriter(tmp_path) as w:
        w.add_figure("f", figure, 1)
        w.add_figure("f", [plt.figure(figsize=(1, 1), dpi=20) for _ in range(2)], 2)
    (events,) = written(tmp_path).values()
    assert np.shape(events[1][1][0]) == (20, 20, 3) and np.shape(events[2][1][0]) == (20, 40, 3)


def test_images_are_png():
    data = summary.png(np.arange(24, dtype=np.uint8).reshape(2, 4, 3))
    assert data.startswith(b"\x89PNG\r\n\x1a\n") and data.endswith(b"IEND\xaeB`\x82")
    at = data.index(b"IDAT")
    size = int.from_bytes(data[at - 4 : at], "big")
    assert zlib.decompress(data[at + 4 : at + 4 + size]) == bytes([0, *range(12), 0, *range(12, 24)])


@pytest.mark.parametrize(
    ("use", "error", "match"),
    [
        (lambda w: w.add_scalar("a", smolder.ones(2)), AssertionError, "should contain one element"),
        (lambda w: w.add_scalar("a", [1]), NotImplementedError, "Got <class 'list'>"),
        (lambda w: w.add_histogram("a", smolder.ones(0)), ValueError, "The input has no element"),
        (lambda w: w.add_histogram_raw("a", 0, 1, 2, 3, 4, [1], [1, 2]), ValueError, "len.bucket_limits"),
        (lambda w: w.add_image("a", smolder.ones(2, 2)), AssertionError, "input format are different"),
        (lambda w: w.add_image("a", smolder.ones(2, 2), dataformats="HH"), AssertionError, "same dimension shorthand"),
        (lambda w: w.add_hparams([], {}), TypeError, "should be dictionary"),
        (lambda w: w.add_hparams({"a": []}, {}), ValueError, "value should be one of int"),
        (lambda w: w.add_hparams({"a": 1}, {}, {"a": ["x"]}), TypeError, "list of same type"),
        (lambda w: w.add_embedding(smolder.ones(2)), AssertionError, "mat should be 2D"),
        (lambda w: w.add_embedding(smolder.ones(2, 2), ["a"]), AssertionError, "#labels should equal"),
        (lambda w: w.add_custom_scalars_marginchart(["a"]), AssertionError, "Expected 3 tags, got 1"),
        (lambda w: w.add_graph(smolder.nn.Linear(1, 1)), NotImplementedError, "add_graph is not supported"),
        (lambda w: w.add_video("a", None), NotImplementedError, "add_video is not supported"),
        (lambda w: w.add_mesh("a", None), NotImplementedError, "add_mesh is not supported"),
    ],
)
def test_mistakes(tmp_path, use, error, match):
    with SummaryWriter(tmp_path) as w, pytest.raises(error, match=match):
        use(w)


def test_a_writer_can_be_closed_and_used_again(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    w = SummaryWriter(comment="_x")
    assert w.get_logdir().startswith("runs" + os.sep) and w.get_logdir().endswith("_x")
    w.flush()
    w.close()
    w.close()
    w.flush()
    w.add_scalar("a", 1)
    w.close()
    plain = FileWriter(tmp_path / "plain")
    plain.close()
    assert plain.get_logdir() == str(tmp_path / "plain")
