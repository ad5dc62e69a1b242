"""Points for TensorBoard's projector: files of numbers, labels and images, and one that names them."""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np
from google.protobuf import text_format
from tensorboard.plugins.projector.projector_config_pb2 import EmbeddingInfo, ProjectorConfig

from smolder._names import listing as _listing
from smolder.utils.tensorboard.summary import make_grid, make_np, png

__all__ = ["write_embedding"]
__dir__ = _listing(__name__)


def _encode(text):
    """Text as the name of a folder."""
    for c in "%/\\":
        text = text.replace(c, f"%{ord(c):02x}")
    return text


def _labels(metadata, header):
    if header and len(header) != len(metadata[0]):
        raise AssertionError("len of header must be equal to the number of columns in metadata")
    rows = ["\t".join(map(str, row)) for row in (header, *metadata)] if header else map(str, metadata)
    return ("\n".join(rows) + "\n").encode()


def _sprite(images):
    """All images in one square."""
    grid = make_grid(images, ncols=math.ceil(len(images) ** 0.5)).transpose(1, 2, 0)
    square = np.zeros((grid.shape[1], grid.shape[1], 3))
    square[: len(grid)] = grid
    return png(np.uint8((square * 255).clip(0, 255)))


def write_embedding(
    log_dir: str,
    known: Any,
    mat: Any,
    metadata: Any,
    label_img: Any,
    global_step: int | None,
    tag: str,
    metadata_header: list[str] | None,
) -> Any:
    """Writes the files of one embedding, and the list of all that are `known`, which it is added to."""
    mat, step = make_np(mat), str(global_step or 0).zfill(5)
    folder = f"{step}/{_encode(tag)}"
    path = os.path.join(log_dir, folder)
    if os.path.isdir(path):
        print("warning: Embedding dir exists, did you set global_step for add_embedding()?")
    elif os.path.exists(path):
        raise NotADirectoryError(f"Path: `{path}` exists, but is a file. Cannot proceed.")
    if mat.ndim != 2:
        raise AssertionError("mat should be 2D, where mat.size(0) is the number of data points")
    info = EmbeddingInfo(tensor_name=f"{tag}:{step}", tensor_path=os.path.join(folder, "tensors.tsv"))
    files = {"tensors.tsv": "".join("\t".join(str(x.item()) for x in row) + "\n" for row in mat).encode()}
    if metadata is not None:
        if len(mat) != len(metadata):
            raise AssertionError("#labels should equal with #data points")
        files["metadata.tsv"] = _labels(metadata, metadata_header)
        info.metadata_path = os.path.join(folder, "metadata.tsv")
    if label_img is not None:
        images = make_np(label_img)
        if len(mat) != len(images):
            raise AssertionError("#images should equal with #data points")
        files["sprite.png"] = _sprite(images)
        info.sprite.image_path = os.path.join(folder, "sprite.png")
        info.sprite.single_image_dim.extend([images.shape[3], images.shape[2]])
    os.makedirs(path, exist_ok=True)
    for name, data in files.items():
        with open(os.path.join(path, name), "wb") as file:
            file.write(data)
    known.append(info)
    with open(os.path.join(log_dir, "projector_config.pbtxt"), "w") as file:
        file.write(text_format.MessageToString(ProjectorConfig(embeddings=known)))
