"""The version, as the build system knows it."""

from importlib import metadata


def _find():
    try:
        return metadata.version("smolder")
    except metadata.PackageNotFoundError:  # run from a build folder
        return "0.1.0"


__version__ = _find()
