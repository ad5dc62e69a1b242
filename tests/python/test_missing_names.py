"""A name that torch has and Smolder lacks says so, and a misspelt one is told the nearest name."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import smolder
from smolder import _missing, _unheld

PAGE = Path(__file__).resolve().parents[2] / "docs" / "torch.md"


def test_the_page_prints_the_table():
    assert _missing.table() in PAGE.read_text()


@pytest.mark.parametrize("name", [name for name in _missing.REASONS if not hasattr(_unheld, name)])
def test_what_is_listed_is_missing_and_says_what_to_use(name):
    what, why, instead = _missing.REASONS[name]
    with pytest.raises(AttributeError) as raised:
        getattr(smolder, name)
    assert str(raised.value) == (
        f"module 'smolder' has no attribute '{name}': {what} are not supported ({why}). Use {instead}"
    )
    assert not hasattr(smolder.optim, name)


@pytest.mark.parametrize(
    ("module", "name", "meant"),
    [
        ("smolder", "matmull", "matmul"),
        ("smolder.nn", "Linaer", "Linear"),
        ("smolder.nn.functional", "cross_entropi", "cross_entropy"),
        ("smolder.nn.utils", "clip_grad_nrm_", "clip_grad_norm_"),
        ("smolder.optim", "AdaW", "Adam"),
        ("smolder.autograd", "Functoin", "Function"),
        ("smolder.utils.data", "DataLoadr", "DataLoader"),
    ],
)
def test_what_is_misspelt_is_told_the_nearest_name(module, name, meant):
    with pytest.raises(AttributeError, match=f"^module '{module}' has no attribute '{name}'$") as raised:
        getattr(importlib.import_module(module), name)
    assert (raised.value.name, raised.value.obj) == (name, sys.modules[module])
    code = f"import {module} as m\nm.{name}"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stderr
    assert f"Did you mean: '{meant}" in said or f"Did you mean: '.{meant}" in said, said
