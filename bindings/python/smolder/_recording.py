"""Recording what steps run, for `smolder replay`."""

from __future__ import annotations

import atexit
import os
import sys
from typing import Self

from smolder import _core
from smolder._typing import PathLike

__all__ = ["record_trace"]

_MAX_BYTES = "512M"


class record_trace:
    """Writes the steps that run, until it is left, to a file for `smolder replay` and `smolder trace`.

    Each distinct step is kept once: its graph, sizes, numbers, lines of the program, and how often and in what order
    steps ran. `inputs` also keeps the tensors that each step read when it first ran. What is kept takes at most
    `max_bytes` ("512M", or a number); steps and tensors beyond that are counted, and the file says so.

    A context manager, which ends the step on both sides of its block; or start() and stop(). The file is written on
    leaving, also after an exception.
    """

    path: str

    def __init__(self, path: PathLike, inputs: bool = False, *, max_bytes: int = _MAX_BYTES) -> None:
        from smolder._terminal import parse_size  # which most programs never need

        self.path = os.fspath(path)
        limit = parse_size(max_bytes) if isinstance(max_bytes, str) else int(max_bytes)
        self._log = _core._TraceLog(bool(inputs), limit)

    def start(self) -> None:
        """Begins, or goes on."""
        self._log.start()

    def stop(self) -> None:
        """Ends, and writes the file."""
        self._log.stop()
        self._write(self.path)

    def _write(self, path):
        from smolder import _trace_file  # likewise

        _trace_file.write_log(path, self._log.contents())

    def __enter__(self) -> Self:
        _core.mark_step()
        self.start()
        return self

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        try:
            if kind is None:
                _core.mark_step()
        finally:
            self.stop()


class _Process:
    """The recording that SMOLDER_RECORD asks for. The process that found it first writes the file it names; others, its
    children among them, put their number into the name."""

    def __init__(self, path):
        limit = os.environ.get("SMOLDER_RECORD_BYTES", _MAX_BYTES)
        inputs = os.environ.get("SMOLDER_RECORD_INPUTS", "0") not in ("", "0")
        self.path = os.path.abspath(path)
        self.found = self.identity()
        self.is_first = os.environ.setdefault("_SMOLDER_RECORD_FIRST", str(os.getpid())) == str(os.getpid())
        self.recording = record_trace(self.path, inputs, max_bytes=limit)
        self.recording.start()
        atexit.register(self.write)
        os.register_at_fork(after_in_child=self.begin_anew)

    def begin_anew(self):
        self.is_first = False
        self.recording._log.clear()
        if "multiprocessing.util" in sys.modules:  # whose children skip atexit
            from multiprocessing import util

            util.register_after_fork(self, lambda process: util.Finalize(None, process.write, exitpriority=0))

    def identity(self):
        """An identity that tells the file of that name from one that is written later; None where there is none."""
        try:
            found = os.stat(self.path)
        except OSError:
            return None
        return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns

    def name(self):
        """Where to write: what another process wrote meanwhile stays."""
        if self.is_first and self.identity() in (None, self.found):
            return self.path
        stem, end = os.path.splitext(self.path)
        return f"{stem}-{os.getpid()}{end}"

    def write(self):
        self.recording._log.stop()
        if not self.recording._log.runs:
            return
        try:
            self.recording._write(self.name())
        except OSError as e:
            print(f"smolder: SMOLDER_RECORD: nothing could be written: {e}", file=sys.stderr)


def _record_process():
    path = os.environ.get("SMOLDER_RECORD")
    if path:
        _Process(path)


_record_process()
