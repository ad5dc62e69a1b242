"""What goes wrong between processes, of which test_distributed.py has the rest."""

from pathlib import Path

import pytest
import test_distributed

from smolder import distributed as dist

MISMATCH = Path(__file__).with_name("mismatch_programs.py")
pytestmark = pytest.mark.skipif(not dist.is_gloo_available(), reason="built without Gloo")


@pytest.mark.parametrize(
    ("cases", "size"),
    [
        ("order,shape,dtype,op,root,kind,missing,missing_last,known,group,group_order,ring,new_group,late", 3),
        ("receive,received_shape", 2),
        ("missing,group_order", 4),
    ],
)
def test_mismatch(cases, size, tmp_path):
    """All ranks raise; the error names the rank, the collective, its number, shapes and the user's line."""
    test_distributed.run(cases, size, MISMATCH, FOLDER=str(tmp_path))
