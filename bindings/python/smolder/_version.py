"""The version. It is written in one place, CMakeLists.txt: a checkout reads it there, an installed package in its
metadata, into which the build copied it."""

import pathlib
import re
from importlib import metadata

_DISTRIBUTION = "smolder-tensor"  # its name in package indexes, where `smolder` is another's


def _find():
    file = pathlib.Path(__file__).resolve()  # of a build folder a link into the tree
    if file.parts[-4:-1] == ("bindings", "python", "smolder"):
        text = (file.parents[3] / "CMakeLists.txt").read_text()
        return re.search(r"project\(smolder VERSION ([0-9.]+)", text)[1]
    return metadata.version(_DISTRIBUTION)


__version__ = _find()
