"""Steps of a device, recorded and run again there and on the host."""

import pytest

import smolder
from smolder import _core, _trace_file, cli, nn
from smolder.cli import _rerun

pytestmark = pytest.mark.skipif(not smolder.cuda.is_available(), reason="there is no CUDA device")


@pytest.fixture
def path(tmp_path):
    x, w = smolder.randn(16, 8).to("cuda"), smolder.randn(4, 8).to("cuda")
    target = smolder.randint(0, 4, (16,)).to("cuda")
    smolder.mark_step()
    with smolder.record_trace(tmp_path / "a.trace", inputs=True):
        held = nn.functional.cross_entropy(nn.functional.linear(x.tanh(), w) - 1.5, target)  # noqa: F841
        smolder.mark_step()
    return tmp_path / "a.trace"


def test_inputs_of_a_device_are_kept(path):
    trace = _trace_file.read(path)
    assert trace.steps[0].device == "cuda"
    assert all(leaf.data for leaf in trace.steps[0].leaves)
    here, there = (_rerun.prepare(trace, 0, device)[0] for device in ("cpu", "cuda"))
    assert here.inputs[0].tolist() == there.inputs[0].cpu().tolist()
    assert _rerun.compare(there.eager()[0], here.eager()[0], exact=False) is None


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_tiers_agree(path, capsys, device):
    assert cli.main(["replay", str(path), "--device", device, "--check"]) == 0
    assert cli.main(["replay", str(path), "--device", device, "--iters", "2"]) == 0
    assert f"on {device}, inputs saved" in capsys.readouterr().out


def test_a_wrong_compiler_is_found_there(path, capsys):
    _core._plant_miscompile("sub", "simplify")
    try:
        assert cli.main(["replay", str(path), "--device", "cuda", "--check"]) == 1
        assert cli.main(["replay", str(path), "--device", "cuda", "--bisect"]) == 1
        said = capsys.readouterr().out
        assert "jit and the host differ" in said and "every kernel computes what its primitives say" in said
        _core._plant_miscompile("sub", "lower")
        assert cli.main(["replay", str(path), "--device", "cuda", "--bisect"]) == 1
        said = capsys.readouterr().out
        assert "the first kernel that computes something else than its primitives: sub_cross_entropy" in said, said
    finally:
        _core._plant_miscompile("", "")
