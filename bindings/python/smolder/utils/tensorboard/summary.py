"""Summaries, the protocol buffers that TensorBoard reads, made of numbers, tensors, images and texts."""

from __future__ import annotations

import io
import struct
import wave
import zlib
from typing import Any

import numpy as np
from google.protobuf import struct_pb2
from tensorboard.compat.proto.summary_pb2 import HistogramProto, Summary, SummaryMetadata
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.plugins.custom_scalar import layout_pb2
from tensorboard.plugins.hparams import api_pb2, metadata, plugin_data_pb2
from tensorboard.plugins.pr_curve.plugin_data_pb2 import PrCurvePluginData
from tensorboard.plugins.text.plugin_data_pb2 import TextPluginData

from smolder import _core
from smolder._names import listing as _listing

__all__ = [
    "audio", "custom_scalars", "figure_to_image", "histogram", "histogram_raw", "hparams", "image", "make_grid",
    "make_np", "png", "pr_curve", "pr_curve_raw", "scalar", "tensor_proto", "text",
]  # fmt: skip
__dir__ = _listing(__name__)


def make_np(x: Any) -> np.ndarray:
    """A tensor, number or array as an array; a tensor is read, which ends the step."""
    if isinstance(x, np.ndarray):
        return x
    if np.isscalar(x):
        return np.array([x])
    if isinstance(x, _core.Tensor):
        x = x.detach().cpu()
        return (x.to(_core.float16) if x.dtype == _core.bfloat16 else x).numpy()
    raise NotImplementedError(f"Got {type(x)}, but numpy array or smolder tensor are expected.")


def _summary(tag, plugin=None, content=b"", **value):
    if plugin is not None:
        value["metadata"] = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name=plugin, content=content))
    return Summary(value=[Summary.Value(tag=tag, **value)])


def _shape(sizes):
    return TensorShapeProto(dim=[TensorShapeProto.Dim(size=n) for n in sizes])


def scalar(
    name: str, tensor: Any, collections: Any = None, new_style: bool = False, double_precision: bool = False
) -> Summary:
    """One number; the new style keeps it as a tensor."""
    tensor = make_np(tensor).squeeze()
    if tensor.ndim != 0:
        raise AssertionError(
            "Tensor should contain one element (0 dimensions). "
            f"Was given size: {tensor.size} and {tensor.ndim} dimensions."
        )
    value = float(tensor)
    if not new_style:
        return _summary(name, simple_value=value)
    kept = (
        {"double_val": [value], "dtype": "DT_DOUBLE"}
        if double_precision
        else {"float_val": [value], "dtype": "DT_FLOAT"}
    )
    return _summary(name, "scalars", tensor=TensorProto(**kept))


def _as_words(values):
    """As torch has them: the bits of each number in float32."""
    return [struct.unpack("i", struct.pack("f", x))[0] for x in values]


_DTYPES = {
    _core.float16: ("DT_HALF", "half_val"),
    _core.bfloat16: ("DT_BFLOAT16", "half_val"),
    _core.float32: ("DT_FLOAT", "float_val"),
    _core.float64: ("DT_DOUBLE", "double_val"),
    _core.uint8: ("DT_UINT8", "uint32_val"),
    _core.int8: ("DT_INT8", "int_val"),
    _core.int16: ("DT_INT16", "int_val"),
    _core.int32: ("DT_INT32", "int_val"),
    _core.int64: ("DT_INT64", "int64_val"),
    _core.bool: ("DT_BOOL", "bool_val"),
}


def tensor_proto(tag: str, tensor: Any) -> Summary:
    """A tensor as a whole."""
    if tensor.numel() * tensor.itemsize >= 1 << 31:
        raise ValueError("tensor is bigger than protocol buffer's hard limit of 2GB in size")
    if tensor.dtype not in _DTYPES:
        raise ValueError(f"{tag} has unsupported tensor dtype {tensor.dtype}")
    dtype, field = _DTYPES[tensor.dtype]
    values = tensor.flatten().tolist()
    values = {field: _as_words(values) if field == "half_val" else values}
    return _summary(tag, "tensor", tensor=TensorProto(dtype=dtype, tensor_shape=_shape(tensor.shape), **values))


# -- histograms and curves


def histogram_raw(
    name: str, min: Any, max: Any, num: Any, sum: Any, sum_squares: Any, bucket_limits: Any, bucket_counts: Any
) -> Summary:
    """A histogram that was counted already."""
    return _summary(
        name,
        histo=HistogramProto(
            min=min,
            max=max,
            num=num,
            sum=sum,
            sum_squares=sum_squares,
            bucket_limit=bucket_limits,
            bucket=bucket_counts,
        ),
    )


def histogram(name: str, values: Any, bins: Any, max_bins: int | None = None) -> Summary:
    """How many values are in each of the bins, of which neighbours are joined where they are more than max_bins."""
    values = make_np(values).astype(float).reshape(-1)
    if values.size == 0:
        raise ValueError("The input has no element.")
    counts, limits = np.histogram(values, bins=bins)
    if max_bins is not None and len(counts) > max_bins:
        joined = len(counts) // max_bins
        if len(counts) % joined:
            counts = np.pad(counts, [[0, joined - len(counts) % joined]])
        counts = counts.reshape(-1, joined).sum(axis=-1)
        limits = np.append(limits[:-1:joined], limits[-1])
    # From the first bin with something in it to the last; before it an empty one, whose limit is where that begins.
    inside = np.cumsum(counts > 0)
    start, end = (int(i) for i in np.searchsorted(inside, [0, inside[-1] - 1], side="right"))
    counts = counts[start - 1 : end + 1] if start > 0 else np.concatenate([[0], counts[: end + 1]])
    limits = limits[start : end + 2]
    if counts.size == 0 or limits.size == 0:
        raise ValueError("The histogram is empty, please file a bug report.")
    return histogram_raw(
        name,
        values.min(),
        values.max(),
        len(values),
        values.sum(),
        values.dot(values),
        limits.tolist(),
        counts.tolist(),
    )


_THRESHOLDS = 127  # at most: TensorBoard's plugin reads no more


def pr_curve_raw(
    tag: str,
    tp: Any,
    fp: Any,
    tn: Any,
    fn: Any,
    precision: Any,
    recall: Any,
    num_thresholds: int = _THRESHOLDS,
    weights: Any = None,
) -> Summary:
    """A curve of precision and recall that was computed already."""
    data = np.stack((tp, fp, tn, fn, precision, recall))
    content = PrCurvePluginData(version=0, num_thresholds=min(num_thresholds, _THRESHOLDS)).SerializeToString()
    tensor = TensorProto(dtype="DT_FLOAT", float_val=data.reshape(-1).tolist(), tensor_shape=_shape(data.shape))
    return _summary(tag, "pr_curves", content, tensor=tensor)


def pr_curve(
    tag: str, labels: Any, predictions: Any, num_thresholds: int = _THRESHOLDS, weights: Any = None
) -> Summary:
    """Precision and recall of predictions of labels, for thresholds that are evenly spread."""
    num_thresholds = min(num_thresholds, _THRESHOLDS)
    weights = 1.0 if weights is None else weights
    bucket, labels = np.int32(np.floor(predictions * (num_thresholds - 1))), labels.astype(np.float64)

    def above(weights):
        counts, _ = np.histogram(bucket, bins=num_thresholds, range=(0, num_thresholds - 1), weights=weights)
        return np.cumsum(counts[::-1])[::-1]

    tp, fp = above(labels * weights), above((1.0 - labels) * weights)
    tn, fn = fp[0] - fp, tp[0] - tp
    least = 1e-7  # what stands for none
    precision, recall = tp / np.maximum(least, tp + fp), tp / np.maximum(least, tp + fn)
    return pr_curve_raw(tag, tp, fp, tn, fn, precision, recall, num_thresholds)


# -- images and sounds


def make_grid(images: Any, ncols: int = 8) -> np.ndarray:
    """Images [N, C, H, W] as one of rows of ncols."""
    if images.ndim == 4 and images.shape[1] == 1:
        images = np.concatenate([images] * 3, 1)
    if images.ndim != 4 or images.shape[1] != 3:
        raise AssertionError("Input should be a 4D numpy array with 3 channels")
    n, _, height, width = images.shape
    ncols = min(n, ncols)
    grid = np.zeros((3, height * -(-n // ncols), width * ncols), dtype=images.dtype)
    for i, image in enumerate(images):
        y, x = i // ncols * height, i % ncols * width
        grid[:, y : y + height, x : x + width] = image
    return grid


def _convert_to_hwc(array, dataformats):
    if len(set(dataformats)) != len(dataformats):
        raise AssertionError(f"You can not use the same dimension shorthand twice. input_format: {dataformats}")
    if array.ndim != len(dataformats):
        raise AssertionError(
            "size of input tensor and input format are different. "
            f"tensor shape: {array.shape}, input_format: {dataformats}"
        )
    dataformats = dataformats.upper()
    order = {4: "NCHW", 3: "HWC", 2: "HW"}[array.ndim]
    array = array.transpose([dataformats.find(c) for c in order])
    if array.ndim == 4:
        return make_grid(array).transpose(1, 2, 0)
    if array.ndim == 2:
        return np.stack([array] * 3, 2)
    return np.concatenate([array] * 3, 2) if array.shape[2] == 1 else array


_COLOURS = {1: 0, 2: 4, 3: 2, 4: 6}  # of PNG, by channels


def png(pixels: Any) -> bytes:
    """An image [H, W, C] of bytes as a PNG file."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    height, width, channels = pixels.shape
    head = struct.pack(">IIBBBBB", width, height, 8, _COLOURS[channels], 0, 0, 0)
    rows = np.zeros((height, 1 + width * channels), np.uint8)  # each begins with its filter: none
    rows[:, 1:] = pixels.reshape(height, -1)
    data = zlib.compress(rows.tobytes())
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def image(tag: str, tensor: Any, rescale: float = 1, dataformats: str = "NCHW") -> Summary:
    """An image, or several in a grid: bytes, or numbers from 0 to 1."""
    if rescale != 1:
        raise NotImplementedError(f"utils.tensorboard: rescale={rescale} is not supported: images keep their size")
    pixels = _convert_to_hwc(make_np(tensor), dataformats)
    scale = 1 if pixels.dtype == np.uint8 else 255
    pixels = (pixels.astype(np.float32) * scale).clip(0, 255).astype(np.uint8)
    height, width, channels = pixels.shape
    if channels not in _COLOURS:
        raise TypeError(f"add_image: an image has 1 to 4 channels, got {channels}")
    made = Summary.Image(height=height, width=width, colorspace=channels, encoded_image_string=png(pixels))
    return _summary(tag, image=made)


def figure_to_image(figures: Any, close: bool = True) -> np.ndarray:
    """Figures of matplotlib as an image [C, H, W], or as images for a list."""
    import matplotlib.pyplot as plt
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    if isinstance(figures, list):
        return np.stack([figure_to_image(figure, close) for figure in figures])
    canvas = FigureCanvasAgg(figures)
    canvas.draw()
    width, height = canvas.get_width_height()
    pixels = np.frombuffer(canvas.buffer_rgba(), np.uint8).reshape(height, width, 4)
    if close:
        plt.close(figures)
    return np.moveaxis(pixels[:, :, :3], 2, 0)


def audio(tag: str, tensor: Any, sample_rate: int = 44100) -> Summary:
    """One channel of numbers from -1 to 1 as a sound."""
    array = make_np(tensor).squeeze()
    if abs(array).max() > 1:
        print("warning: audio amplitude out of range, auto clipped.")
        array = array.clip(-1, 1)
    if array.ndim != 1:
        raise AssertionError("input tensor should be 1 dimensional.")
    array = (array * np.iinfo(np.int16).max).astype("<i2")
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(sample_rate)
        out.writeframes(array.data)
    made = Summary.Audio(
        sample_rate=sample_rate,
        num_channels=1,
        length_frames=array.shape[-1],
        encoded_audio_string=file.getvalue(),
        content_type="audio/wav",
    )
    return _summary(tag, audio=made)


# -- texts, and what plugins lay out


def text(tag: str, text: str) -> Summary:
    """A text, in Markdown."""
    tensor = TensorProto(dtype="DT_STRING", string_val=[text.encode()], tensor_shape=_shape([1]))
    return _summary(f"{tag}/text_summary", "text", TextPluginData(version=0).SerializeToString(), tensor=tensor)


def custom_scalars(layout: Any) -> Summary:
    """Charts of several scalars: {category: {chart: ["Multiline" or "Margin", tags]}}."""
    categories = []
    for title, charts in layout.items():
        made = []
        for name, (kind, tags, *_) in charts.items():
            if kind == "Margin":
                if len(tags) != 3:
                    raise AssertionError("len(tags) != 3")
                series = layout_pb2.MarginChartContent.Series(value=tags[0], lower=tags[1], upper=tags[2])
                made.append(layout_pb2.Chart(title=name, margin=layout_pb2.MarginChartContent(series=[series])))
            else:
                made.append(layout_pb2.Chart(title=name, multiline=layout_pb2.MultilineChartContent(tag=tags)))
        categories.append(layout_pb2.Category(title=title, chart=made))
    text = layout_pb2.Layout(category=categories).SerializeToString()
    tensor = TensorProto(dtype="DT_STRING", string_val=[text], tensor_shape=TensorShapeProto())
    return _summary("custom_scalars__config__", "custom_scalars", tensor=tensor)


_KINDS = (
    ((int, float), "number_value", "DATA_TYPE_FLOAT64"),  # bools too, as in torch's
    (str, "string_value", "DATA_TYPE_STRING"),
)


def hparams(
    hparam_dict: Any = None, metric_dict: Any = None, hparam_domain_discrete: Any = None
) -> tuple[Summary, Summary, Summary]:
    """The three summaries of an experiment: what it is about, its beginning and its end."""
    domains = hparam_domain_discrete or {}
    for name, given in (
        ("hparam_dict", hparam_dict),
        ("metric_dict", metric_dict),
        ("hparam_domain_discrete", domains),
    ):
        if not isinstance(given, dict):
            raise TypeError(f"parameter: {name} should be a dictionary, nothing logged.")
    for k, domain in domains.items():
        known = k in hparam_dict and isinstance(domain, list)
        if not known or not all(isinstance(d, type(hparam_dict[k])) for d in domain):
            raise TypeError(
                f"parameter: hparam_domain_discrete[{k}] should be a list of same type as hparam_dict[{k}]."
            )
    start, infos = plugin_data_pb2.SessionStartInfo(), []
    for k, v in hparam_dict.items():
        if v is None:
            continue
        if isinstance(v, _core.Tensor):
            v = float(make_np(v).reshape(-1)[0])
        kind = next((kind for kind in _KINDS if isinstance(v, kind[0])), None)
        if kind is None:
            raise ValueError("value should be one of int, float, str, bool, or smolder.Tensor")
        _, field, dtype = kind
        setattr(start.hparams[k], field, v)
        domain = None
        if k in domains:
            domain = struct_pb2.ListValue(values=[struct_pb2.Value(**{field: d}) for d in domains[k]])
        infos.append(api_pb2.HParamInfo(name=k, type=api_pb2.DataType.Value(dtype), domain_discrete=domain))
    metrics = [api_pb2.MetricInfo(name=api_pb2.MetricName(tag=k)) for k in metric_dict]
    experiment = api_pb2.Experiment(hparam_infos=infos, metric_infos=metrics)
    end = plugin_data_pb2.SessionEndInfo(status=api_pb2.Status.Value("STATUS_SUCCESS"))

    def made(tag, **part):
        data = plugin_data_pb2.HParamsPluginData(version=metadata.PLUGIN_DATA_VERSION, **part)
        return _summary(tag, metadata.PLUGIN_NAME, data.SerializeToString())

    return (
        made(metadata.EXPERIMENT_TAG, experiment=experiment),
        made(metadata.SESSION_START_INFO_TAG, session_start_info=start),
        made(metadata.SESSION_END_INFO_TAG, session_end_info=end),
    )
