"""Writers of the files that TensorBoard reads."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from datetime import datetime
from typing import Any, ClassVar, Self

from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from smolder._names import listing as _listing
from smolder._typing import Tensor
from smolder.cuda._refused import refused
from smolder.utils.tensorboard import summary
from smolder.utils.tensorboard.embedding import write_embedding

__all__ = ["FileWriter", "SummaryWriter"]
__dir__ = _listing(__name__)


class FileWriter:
    """Writes events and summaries to a file in a folder, from a thread of its own."""

    event_writer: Any

    def __init__(self, log_dir: str, max_queue: int = 10, flush_secs: int = 120, filename_suffix: str = "") -> None:
        self.event_writer = EventFileWriter(str(log_dir), max_queue, flush_secs, filename_suffix)

    def get_logdir(self) -> str:
        """The folder."""
        return self.event_writer.get_logdir()

    def add_event(self, event: Any, step: Any = None, walltime: float | None = None) -> None:
        """Writes an event as of a time, now unless said."""
        event.wall_time = time.time() if walltime is None else walltime
        if step is not None:
            event.step = int(step)
        self.event_writer.add_event(event)

    def add_summary(self, summary: Any, global_step: int | None = None, walltime: float | None = None) -> None:
        """Writes a summary as of a step and a time."""
        self.add_event(Event(summary=summary), global_step, walltime)

    def flush(self) -> None:
        """Writes what waits."""
        self.event_writer.flush()

    def close(self) -> None:
        """Writes what waits, and closes the file."""
        self.event_writer.close()


def _default_bins():
    """Limits that grow by a tenth each, on both sides of 0."""
    limits, v = [], 1e-12
    while v < 1e20:
        limits.append(v)
        v *= 1.1
    return [-v for v in reversed(limits)] + [0] + limits


class SummaryWriter:
    """Writes what a program measures to a folder, for TensorBoard. A tensor that is given is read, which ends the step."""

    log_dir: str
    max_queue: int
    flush_secs: int
    filename_suffix: str
    file_writer: FileWriter
    all_writers: dict[str, FileWriter]
    default_bins: list[Any]

    def __init__(
        self,
        log_dir: str | None = None,
        comment: str = "",
        purge_step: int | None = None,
        max_queue: int = 10,
        flush_secs: int = 120,
        filename_suffix: str = "",
    ) -> None:
        if not log_dir:
            now = datetime.now().strftime("%b%d_%H-%M-%S")
            log_dir = os.path.join("runs", f"{now}_{socket.gethostname()}{comment}")
        self.log_dir, self.purge_step, self.max_queue = log_dir, purge_step, max_queue
        self.flush_secs, self.filename_suffix = flush_secs, filename_suffix
        self.file_writer = self.all_writers = None
        self._get_file_writer()
        self.default_bins = _default_bins()

    def _open(self, folder):
        return FileWriter(folder, self.max_queue, self.flush_secs, self.filename_suffix)

    def _get_file_writer(self):
        if self.all_writers is None or self.file_writer is None:
            self.file_writer = self._open(self.log_dir)
            self.all_writers = {self.file_writer.get_logdir(): self.file_writer}
            if self.purge_step is not None:
                self.file_writer.add_event(Event(step=self.purge_step, file_version="brain.Event:2"))
                start = SessionLog(status=SessionLog.START)
                self.file_writer.add_event(Event(step=self.purge_step, session_log=start))
                self.purge_step = None
        return self.file_writer

    def _add(self, made, global_step=None, walltime=None):
        self._get_file_writer().add_summary(made, global_step, walltime)

    def get_logdir(self) -> str:
        """The folder."""
        return self.log_dir

    def add_hparams(
        self,
        hparam_dict: dict[str, Any],
        metric_dict: dict[str, Any],
        hparam_domain_discrete: dict[str, Any] | None = None,
        run_name: str | None = None,
        global_step: int | None = None,
    ) -> None:
        """Numbers and words that a run was made with, and what came of it, in a folder of their own."""
        if type(hparam_dict) is not dict or type(metric_dict) is not dict:
            raise TypeError("hparam_dict and metric_dict should be dictionary.")
        made = summary.hparams(hparam_dict, metric_dict, hparam_domain_discrete)
        folder = os.path.join(self._get_file_writer().get_logdir(), run_name or str(time.time()))
        with SummaryWriter(log_dir=folder) as writer:
            for one in made:
                writer._add(one, global_step)
            for k, v in metric_dict.items():
                writer.add_scalar(k, v, global_step)

    def add_scalar(
        self,
        tag: str,
        scalar_value: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        new_style: bool = False,
        double_precision: bool = False,
    ) -> None:
        """One number."""
        made = summary.scalar(tag, scalar_value, new_style=new_style, double_precision=double_precision)
        self._add(made, global_step, walltime)

    def add_scalars(
        self,
        main_tag: str,
        tag_scalar_dict: dict[str, Any],
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Numbers for one chart, each in a folder of its own."""
        walltime = time.time() if walltime is None else walltime
        folder = self._get_file_writer().get_logdir()
        for tag, value in tag_scalar_dict.items():
            path = f"{folder}/{main_tag.replace('/', '_')}_{tag}"
            if path not in self.all_writers:
                self.all_writers[path] = self._open(path)
            self.all_writers[path].add_summary(summary.scalar(main_tag, value), global_step, walltime)

    def add_tensor(
        self, tag: str, tensor: Tensor, global_step: int | None = None, walltime: float | None = None
    ) -> None:
        """A tensor as a whole."""
        self._add(summary.tensor_proto(tag, tensor), global_step, walltime)

    def add_histogram(
        self,
        tag: str,
        values: Any,
        global_step: int | None = None,
        bins: str = "tensorflow",
        walltime: float | None = None,
        max_bins: int | None = None,
    ) -> None:
        """How values are distributed."""
        if isinstance(bins, str) and bins == "tensorflow":
            bins = self.default_bins
        self._add(summary.histogram(tag, values, bins, max_bins), global_step, walltime)

    def add_histogram_raw(
        self,
        tag: str,
        min: Any,
        max: Any,
        num: Any,
        sum: Any,
        sum_squares: Any,
        bucket_limits: Any,
        bucket_counts: Any,
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """The same of values that were counted already."""
        if len(bucket_limits) != len(bucket_counts):
            raise ValueError("len(bucket_limits) != len(bucket_counts), see the document.")
        made = summary.histogram_raw(tag, min, max, num, sum, sum_squares, bucket_limits, bucket_counts)
        self._add(made, global_step, walltime)

    def add_image(
        self,
        tag: str,
        img_tensor: Tensor,
        global_step: int | None = None,
        walltime: float | None = None,
        dataformats: str = "CHW",
    ) -> None:
        """An image, of bytes or of numbers from 0 to 1."""
        self._add(summary.image(tag, img_tensor, dataformats=dataformats), global_step, walltime)

    def add_images(
        self,
        tag: str,
        img_tensor: Tensor,
        global_step: int | None = None,
        walltime: float | None = None,
        dataformats: str = "NCHW",
    ) -> None:
        """Images in a grid."""
        self._add(summary.image(tag, img_tensor, dataformats=dataformats), global_step, walltime)

    def add_figure(
        self, tag: str, figure: Any, global_step: int | None = None, close: bool = True, walltime: float | None = None
    ) -> None:
        """Figures of matplotlib."""
        formats = "NCHW" if isinstance(figure, list) else "CHW"
        self.add_image(tag, summary.figure_to_image(figure, close), global_step, walltime, formats)

    def add_audio(
        self,
        tag: str,
        snd_tensor: Any,
        global_step: int | None = None,
        sample_rate: int = 44100,
        walltime: float | None = None,
    ) -> None:
        """A sound, of numbers from -1 to 1."""
        self._add(summary.audio(tag, snd_tensor, sample_rate), global_step, walltime)

    def add_text(
        self, tag: str, text_string: str, global_step: int | None = None, walltime: float | None = None
    ) -> None:
        """A text, in Markdown."""
        self._add(summary.text(tag, text_string), global_step, walltime)

    def add_embedding(
        self,
        mat: Tensor,
        metadata: dict[str, Any] | None = None,
        label_img: Any = None,
        global_step: int | None = None,
        tag: str = "default",
        metadata_header: Any = None,
    ) -> None:
        """Points, a row each, with labels and images."""
        folder = self._get_file_writer().get_logdir()
        self._embeddings = getattr(self, "_embeddings", [])
        write_embedding(folder, self._embeddings, mat, metadata, label_img, global_step, tag, metadata_header)

    def add_pr_curve(
        self,
        tag: str,
        labels: Any,
        predictions: Any,
        global_step: int | None = None,
        num_thresholds: int = 127,
        weights: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Precision and recall of predictions, which are probabilities."""
        labels, predictions = summary.make_np(labels), summary.make_np(predictions)
        self._add(summary.pr_curve(tag, labels, predictions, num_thresholds, weights), global_step, walltime)

    def add_pr_curve_raw(
        self,
        tag: str,
        true_positive_counts: Any,
        false_positive_counts: Any,
        true_negative_counts: Any,
        false_negative_counts: Any,
        precision: Any,
        recall: Any,
        global_step: int | None = None,
        num_thresholds: int = 127,
        weights: Any = None,
        walltime: float | None = None,
    ) -> None:
        """The same of what was counted already."""
        counts = true_positive_counts, false_positive_counts, true_negative_counts, false_negative_counts
        made = summary.pr_curve_raw(tag, *counts, precision, recall, num_thresholds, weights)
        self._add(made, global_step, walltime)

    def add_custom_scalars_multilinechart(self, tags: Any, category: str = "default", title: str = "untitled") -> None:
        """A chart of several scalars."""
        self._add(summary.custom_scalars({category: {title: ["Multiline", tags]}}))

    def add_custom_scalars_marginchart(self, tags: Any, category: str = "default", title: str = "untitled") -> None:
        """A chart of a scalar between two others."""
        if len(tags) != 3:
            raise AssertionError(f"Expected 3 tags, got {len(tags)}.")
        self._add(summary.custom_scalars({category: {title: ["Margin", tags]}}))

    def add_custom_scalars(self, layout: Any) -> None:
        """Charts of scalars: {category: {chart: ["Multiline" or "Margin", tags]}}."""
        self._add(summary.custom_scalars(layout))

    _WHY = "SummaryWriter writes no {}"
    add_graph: ClassVar[Callable[..., Any]] = refused("SummaryWriter.add_graph", _WHY.format("graphs of models"))
    add_image_with_boxes: ClassVar[Callable[..., Any]] = refused(
        "SummaryWriter.add_image_with_boxes", _WHY.format("boxes on images")
    )
    add_mesh: ClassVar[Callable[..., Any]] = refused("SummaryWriter.add_mesh", _WHY.format("meshes"))
    add_onnx_graph: ClassVar[Callable[..., Any]] = refused(
        "SummaryWriter.add_onnx_graph", _WHY.format("graphs of models")
    )
    add_video: ClassVar[Callable[..., Any]] = refused("SummaryWriter.add_video", _WHY.format("videos"))

    def flush(self) -> None:
        """Writes what waits."""
        for writer in (self.all_writers or {}).values():
            writer.flush()

    def close(self) -> None:
        """Writes what waits, and closes the files; what is added later goes to new ones."""
        for writer in (self.all_writers or {}).values():
            writer.flush()
            writer.close()
        self.file_writer = self.all_writers = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
