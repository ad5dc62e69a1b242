"""Weights from the net, out of a server of this process, and models from a folder."""

import hashlib
import http.server
import os
import threading
import zipfile

import pytest
from torch_peer import assert_torch_says, needs_torch

import smolder
from smolder import hub
from smolder.utils import model_zoo


@pytest.fixture
def server(tmp_path):
    """The address of a server of the folder tmp_path/site, with one file of weights under two names."""
    site = tmp_path / "site"
    site.mkdir()
    smolder.save({"w": smolder.arange(3.0)}, site / "plain.pth")
    data = (site / "plain.pth").read_bytes()
    (site / f"named-{hashlib.sha256(data).hexdigest()[:8]}.pth").write_bytes(data)
    (site / "wrong-00000000.pth").write_bytes(data)

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args):
            super().__init__(*args, directory=str(site))

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as made:
        threading.Thread(target=made.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{made.server_port}", site
        made.shutdown()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "home"))
    return tmp_path / "home/hub/checkpoints"


def test_a_file_is_fetched_once(server, folder, capfd):
    address, site = server
    state = hub.load_state_dict_from_url(f"{address}/plain.pth?x=1")
    said = capfd.readouterr()
    assert state["w"].tolist() == [0, 1, 2]
    assert said.out == f'Downloading: "{address}/plain.pth?x=1" to {folder / "plain.pth"}\n' and "100" in said.err
    (site / "plain.pth").unlink()
    assert model_zoo.load_url(f"{address}/plain.pth", weights_only=True)["w"].tolist() == [0, 1, 2]
    assert capfd.readouterr().out == "" and os.listdir(folder) == ["plain.pth"]


def test_hashes_are_checked(server, folder):
    address, site = server
    (named,) = site.glob("named-*")
    hub.load_state_dict_from_url(f"{address}/{named.name}", check_hash=True, progress=False)
    with pytest.raises(RuntimeError, match=r'invalid hash value .expected "00000000", got'):
        hub.load_state_dict_from_url(f"{address}/wrong-00000000.pth", check_hash=True, progress=False)
    assert os.listdir(folder) == [named.name], "what is not whole has no name"
    hub.load_state_dict_from_url(f"{address}/wrong-00000000.pth", progress=False, file_name="other.pth")
    assert (folder / "other.pth").exists()
    with pytest.raises(OSError, match="404"):
        hub.download_url_to_file(f"{address}/missing.pth", str(folder / "missing.pth"))
    assert sorted(os.listdir(folder)) == sorted([named.name, "other.pth"])


def test_an_archive_of_one_file_is_opened(server, folder, tmp_path):
    address, site = server
    with zipfile.ZipFile(site / "old.zip", "w") as archive:
        archive.write(site / "plain.pth", "inner.pth")
    where = tmp_path / "there"
    state = hub.load_state_dict_from_url(f"{address}/old.zip", model_dir=str(where), progress=False)
    assert state["w"].tolist() == [0, 1, 2] and sorted(os.listdir(where)) == ["inner.pth", "old.zip"]


def test_models_of_a_folder(tmp_path):
    (tmp_path / "helper_of_hub.py").write_text("SIZE = 3\n")
    (tmp_path / "hubconf.py").write_text(
        "dependencies = ['json']\nfrom smolder import nn\nfrom helper_of_hub import SIZE\n"
        "def linear(n, bias=True):\n    return nn.Linear(SIZE, n, bias)\n"
    )
    model = hub.load(str(tmp_path), "linear", 2, source="local", bias=False)
    assert repr(model) == "Linear(in_features=3, out_features=2, bias=False)"
    with pytest.raises(RuntimeError, match="Cannot find callable other in hubconf"):
        hub.load(str(tmp_path), "other", source="local")
    with pytest.raises(ValueError, match='Unknown source: "net"'):
        hub.load(str(tmp_path), "linear", source="net")
    with pytest.raises(NotImplementedError, match='source="github" is not supported'):
        hub.load("pytorch/vision", "resnet18")
    with pytest.raises(NotImplementedError, match=r"hub\.list is not supported"):
        hub.list("pytorch/vision")
    (tmp_path / "hubconf.py").write_text("dependencies = ['no_such_package']\ndef f(): pass\n")
    with pytest.raises(RuntimeError, match="Missing dependencies: no_such_package"):
        hub.load(str(tmp_path), "f", source="local")


@needs_torch
def test_the_folder_is_that_of_torch(monkeypatch):
    for name in ("TORCH_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    uses = ["torch.hub.get_dir()", "torch.hub.set_dir('~/x')", "torch.hub.get_dir()", "torch.hub._get_torch_home()"]
    try:
        assert_torch_says(uses)
        hub._hub_dir = None
        monkeypatch.setenv("XDG_CACHE_HOME", "/a")
        assert_torch_says(uses)
        hub._hub_dir = None
        monkeypatch.setenv("TORCH_HOME", "~/b")
        assert_torch_says(uses)
    finally:
        hub._hub_dir = None


def test_without_tqdm_there_is_a_bar_too(server, folder, capfd):
    import importlib
    import sys

    address, _ = server
    there = sys.modules.get("tqdm")
    sys.modules["tqdm"] = None
    try:
        plain = importlib.reload(hub)
        plain.load_state_dict_from_url(f"{address}/plain.pth")
        assert capfd.readouterr().err.endswith("\r100.0%\n")
    finally:
        del sys.modules["tqdm"]
        if there is not None:
            sys.modules["tqdm"] = there
        importlib.reload(hub)
