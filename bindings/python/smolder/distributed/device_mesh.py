"""Meshes: the processes laid out in several dimensions, each line of which is a group."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from smolder import _core, _creation
from smolder._names import listing as _listing
from smolder.distributed import _groups
from smolder.distributed._groups import ProcessGroup

if TYPE_CHECKING:
    from smolder import Tensor

__all__ = ["DeviceMesh", "init_device_mesh"]
__dir__ = _listing(__name__)

_current: list[Any] = []  # meshes that `with mesh:` made current, innermost last


class DeviceMesh:
    """Ranks in an array. In each dimension, the processes of each line of it form a group.

    `mesh` has each rank once, ascending along every dimension. All processes of the default group make the mesh, those
    that are not in it too. Where there is no default group, it is made as init_process_group() makes it.
    """

    def __init__(
        self,
        device_type: str,
        mesh: Tensor | Sequence[Any] | None = None,
        *,
        mesh_dim_names: Sequence[str] | None = None,
        backend_override: Any = None,
        _init_backend: bool = True,
    ) -> None:
        if mesh is None:
            raise TypeError("Must provide either `mesh` or `_layout`/`_rank_map`.")
        if backend_override is not None:
            raise NotImplementedError("DeviceMesh: backend_override is not supported: a type of device has one backend")
        if isinstance(mesh, _core.Tensor) and mesh.device.type != "cpu":
            raise ValueError(f"`mesh` must be a CPU tensor, got {mesh}")
        given = mesh.tolist() if isinstance(mesh, _core.Tensor) else mesh
        ranks = np.atleast_1d(np.array(given, dtype=np.int64))
        names = None if mesh_dim_names is None else tuple(mesh_dim_names)
        if names is not None and len(names) != ranks.ndim:
            raise ValueError(f"mesh_dim_names {names} must name each of the {ranks.ndim} dimensions of the mesh")
        _check_device(device_type)
        if not _groups.is_initialized():
            _groups.init_process_group()
        world = _groups.get_world_size()
        if ranks.size > world:
            raise RuntimeError(
                f"Mesh should not be bigger than default world size {world}, but found {ranks.size} ranks!"
            )
        if len(np.unique(ranks)) != ranks.size:
            raise AssertionError("DeviceMesh cannot have duplicate values")
        if any((np.diff(ranks, axis=d) < 0).any() for d in range(ranks.ndim)):
            raise NotImplementedError("DeviceMesh: ranks must ascend along every dimension")
        self._fill(device_type, ranks, names, None)
        self._groups = [_line_groups(ranks, (d,), names[d] if names else None) for d in range(ranks.ndim)]

    def _fill(self, device_type, ranks, names, root):
        """`ranks` is the whole mesh, or the part of another that this process is in."""
        self._device_type, self._ranks, self._names, self._root = device_type, ranks, names, root
        self._flattened: dict[str, DeviceMesh] = {}
        found = np.argwhere(ranks == _groups.get_rank())
        self._coordinate = tuple(int(i) for i in found[0]) if len(found) else None

    # -- parts

    def _dim(self, dim):
        """The number of a dimension, by its number or name."""
        if isinstance(dim, str):
            if self._names is None:
                raise KeyError("No `mesh_dim_names` found.")
            if dim not in self._names:
                raise KeyError(
                    f"Mesh dimension '{dim}' does not exist. Available mesh dimensions are: mesh_dim_names={self._names}"
                )
            return self._names.index(dim)
        if not -self.ndim <= dim < self.ndim:
            raise IndexError(f"Mesh dimension {dim} does not exist: the mesh has {self.ndim}")
        return dim % self.ndim

    def __getitem__(self, mesh_dim_names: str | Sequence[str]) -> DeviceMesh:
        """The part of the mesh in the named dimensions that this process is in."""
        if not self._names:
            raise RuntimeError("Cannot slice a DeviceMesh without mesh_dim_names!")
        names = (mesh_dim_names,) if isinstance(mesh_dim_names, str) else tuple(mesh_dim_names)
        if names == self._names:
            return self
        whole = self._whole()
        if len(names) == 1 and names[0] in whole._flattened:
            return whole._flattened[names[0]]
        if not set(names) <= set(self._names):
            valid = [*self._names, *whole._flattened]
            raise KeyError(f"Invalid mesh_dim_names {names} specified. Valid mesh_dim_names are {valid}.")
        dims = [self._names.index(n) for n in names]
        if len(set(dims)) != len(dims):
            raise KeyError(f"Invalid mesh_dim_names {names} specified: a dimension comes twice")
        part = _part(self._ranks, dims, self._coordinate)
        made = object.__new__(type(self))
        made._fill(self._device_type, part, names, whole)
        made._groups = [self._groups[d] for d in dims]
        return made

    def _whole(self) -> Any:
        return self if self._root is None else self._root

    def _flatten(self, mesh_dim_name: str | None = None, backend_override: Any = None) -> DeviceMesh:
        """One dimension of all of this mesh's. All processes call it."""
        if backend_override is not None:
            raise NotImplementedError(
                "DeviceMesh._flatten: backend_override is not supported: a type of device has one backend"
            )
        if self.ndim == 1:
            return self
        whole = self._whole()
        name = mesh_dim_name or "_".join(self._names or ())
        if name in whole._flattened:
            return whole._flattened[name]
        if whole._names and name in whole._names:
            raise ValueError(
                f"'{name}' already exists for submesh of the DeviceMesh. The mesh_dim_names of submesh and flattened mesh are {whole._names}"
            )
        dims = tuple(whole._names.index(n) for n in self._names) if self._root is not None else tuple(range(self.ndim))
        if list(dims) != sorted(dims):
            raise NotImplementedError(
                "DeviceMesh._flatten: dimensions must come in the order that the mesh has them in"
            )
        made = object.__new__(type(self))
        made._fill(self._device_type, self._ranks.reshape(-1), (name,), whole)
        made._groups = [_line_groups(whole._ranks, dims, name)]
        whole._flattened[name] = made
        return made

    @classmethod
    def from_group(
        cls,
        group: ProcessGroup | Sequence[ProcessGroup],
        device_type: str,
        mesh: Any = None,
        *,
        mesh_dim_names: Sequence[str] | None = None,
    ) -> DeviceMesh:
        """A mesh of groups that there are: of one group its ranks, of several the mesh is given."""
        groups = [group] if isinstance(group, ProcessGroup) else list(group)
        if not groups:
            raise ValueError("Expects at least one ProcessGroup to be passed")
        if mesh is None and len(groups) > 1:
            raise ValueError("Must pass mesh if passing multiple ProcessGroups")
        _check_device(device_type)
        given = groups[0]._ranks if mesh is None else (mesh.tolist() if isinstance(mesh, _core.Tensor) else mesh)
        ranks = np.atleast_1d(np.array(given, dtype=np.int64))
        if ranks.ndim != len(groups):
            raise ValueError(
                f"Expects mesh with ndim equal to number of ProcessGroups but got mesh {ranks.tolist()} and {len(groups)} ProcessGroups"
            )
        made = object.__new__(cls)
        made._fill(device_type, ranks, None if mesh_dim_names is None else tuple(mesh_dim_names), None)
        made._groups = groups
        return made

    # -- what it is

    @property
    def device_type(self) -> str:
        """ "cpu"."""
        return self._device_type

    @property
    def mesh(self) -> Tensor:
        """The ranks."""
        return _creation.tensor(self._ranks.tolist(), dtype=_core.int32)

    @property
    def mesh_dim_names(self) -> tuple[str, ...] | None:
        """The names of its dimensions, if they have any."""
        return self._names

    @property
    def ndim(self) -> int:
        """How many dimensions there are."""
        return self._ranks.ndim

    @property
    def shape(self) -> tuple[int, ...]:
        """How many processes there are in each dimension."""
        return tuple(self._ranks.shape)

    def size(self, mesh_dim: int | str | None = None) -> int:
        """How many processes there are, in all or along one dimension."""
        return int(self._ranks.size) if mesh_dim is None else self._ranks.shape[self._dim(mesh_dim)]

    def numel(self) -> int:
        """How many processes there are."""
        return int(self._ranks.size)

    # -- where this process is

    def get_group(self, mesh_dim: int | str | None = None) -> ProcessGroup:
        """The group of this process along a dimension, which a mesh of one dimension need not be told."""
        if self.ndim > 1 and mesh_dim is None:
            raise RuntimeError(
                f"Found the DeviceMesh have {self.ndim} dimensions",
                "Optional kwarg `mesh_dim` needs to be specified when device_mesh.ndim > 1.",
                "If you want to get the list of all the ProcessGroups in the DeviceMesh,"
                "please use `get_all_groups()` instead.",
            )
        whole = self._whole()
        if isinstance(mesh_dim, str) and self._names and mesh_dim not in self._names and mesh_dim in whole._flattened:
            return whole._flattened[mesh_dim].get_group()
        found = self._groups[0 if mesh_dim is None else self._dim(mesh_dim)]
        if not isinstance(found, ProcessGroup):
            raise RuntimeError("this process is not in the mesh, and has no group in it")
        return found

    def get_all_groups(self) -> list[ProcessGroup]:
        """The groups of this process, one a dimension."""
        return [self.get_group(d) for d in range(self.ndim)]

    def get_rank(self) -> int:
        """This process's rank in the default group."""
        return _groups.get_rank()

    def get_local_rank(self, mesh_dim: int | str | None = None) -> int:
        """This process's place along a dimension."""
        if self.ndim > 1 and mesh_dim is None:
            raise RuntimeError(
                f"Found the DeviceMesh have {self.ndim} dimensions",
                "Optional kwarg `mesh_dim` needs to be specified when device_mesh.ndim > 1.",
            )
        return self.get_group(0 if mesh_dim is None else mesh_dim).rank()

    def get_coordinate(self) -> tuple[int, ...] | None:
        """This process's place along each dimension; None where it is not in the mesh."""
        return self._coordinate

    def __repr__(self) -> str:
        if self._names:
            sizes = f"({', '.join(f'{n}={s}' for n, s in zip(self._names, self.shape, strict=True))})"
        else:
            sizes = str(self.shape)
        text = f"DeviceMesh({sizes}, '{self._device_type}', stride={self._strides()}"
        if os.environ.get("TORCH_DISTRIBUTED_DEBUG", "") == "DETAIL":
            text += f", Mesh: {self._ranks.tolist()}"
        return text + ")"

    def _strides(self):
        whole = self._whole()._ranks
        if self._root is None or not self._names or not set(self._names) <= set(self._root._names or ()):
            return tuple(math.prod(self.shape[d + 1 :]) for d in range(self.ndim))
        at = [self._root._names.index(n) for n in self._names]
        return tuple(math.prod(whole.shape[d + 1 :]) for d in at)

    def _key(self):
        return self._device_type, self.shape, tuple(self._ranks.reshape(-1).tolist()), self._names

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DeviceMesh) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __enter__(self) -> Self:
        _current.append(self)
        return self

    def __exit__(self, *exception: object) -> None:
        _current.pop()

    def __reduce__(self) -> Any:
        raise TypeError("a mesh has groups, which are this process's own, and is not pickled")


def current() -> DeviceMesh:
    """The mesh of the innermost `with`."""
    if not _current:
        raise RuntimeError("No device mesh is currently active!")
    return _current[-1]


def _check_device(device_type):
    if device_type not in ("cpu", "cuda"):
        raise NotImplementedError(f"a mesh of {device_type!r} is not supported: there are meshes of 'cpu' and 'cuda'")


def _part(ranks, dims, coordinate):
    """The ranks that differ from this process's in the given dimensions alone, in their order."""
    if coordinate is None:
        coordinate = (0,) * ranks.ndim
    at = tuple(slice(None) if d in dims else coordinate[d] for d in range(ranks.ndim))
    kept = sorted(dims)
    return np.transpose(ranks[at], [kept.index(d) for d in dims])


def _line_groups(ranks, dims, name):
    """The group of this process of those that differ in `dims` alone. All processes come here in the same order."""
    others = [d for d in range(ranks.ndim) if d not in dims]
    lines = np.transpose(ranks, [*others, *dims]).reshape(-1, math.prod(ranks.shape[d] for d in dims)).tolist()
    if len(lines) == 1 and lines[0] == list(range(_groups.get_world_size())):
        return _groups.resolve(None)
    own, _ = _groups.new_subgroups_by_enumeration(lines, group_desc=f"mesh_{name}" if name else None)
    return own


def init_device_mesh(
    device_type: str,
    mesh_shape: Sequence[int],
    *,
    mesh_dim_names: Sequence[str] | None = None,
    backend_override: Any = None,
) -> DeviceMesh:
    """A mesh of all processes, in row-major order. Where there is no default group, it is made."""
    shape = tuple(mesh_shape)
    if mesh_dim_names is not None:
        if len(set(mesh_dim_names)) != len(mesh_dim_names):
            raise RuntimeError(
                "Each mesh_dim_name must be unique.", f"Found repeated mesh_dim_name in mesh_dim_names {mesh_dim_names}"
            )
        if len(shape) != len(mesh_dim_names):
            raise RuntimeError(
                "mesh_shape and mesh_dim_names should have same length!",
                f"Found len(mesh_dim_names): {len(mesh_dim_names)} and len(mesh_shape):{len(shape)}.",
            )
    if device_type and not device_type.isalpha():
        raise RuntimeError(
            f"Device type with index is not supported but got {device_type}. ",
            "If you maintained a 'torch.device' object, it's recommended to pass in 'device.type'.",
        )
    ranks = np.arange(math.prod(shape)).reshape(shape)
    return DeviceMesh(device_type, ranks, mesh_dim_names=mesh_dim_names, backend_override=backend_override)
