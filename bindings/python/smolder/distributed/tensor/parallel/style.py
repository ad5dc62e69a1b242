"""Styles of tensor parallel: how a module's parameters, inputs and outputs lie."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from smolder import _core, nn
from smolder._names import listing as _listing
from smolder.distributed.tensor._api import DTensor, distribute_module, distribute_tensor
from smolder.distributed.tensor.placement_types import Placement, Replicate, Shard

if TYPE_CHECKING:
    from smolder.distributed.device_mesh import DeviceMesh
    from smolder.nn.module import Module

__all__ = [
    "ColwiseParallel",
    "ParallelStyle",
    "PrepareModuleInput",
    "PrepareModuleInputOutput",
    "PrepareModuleOutput",
    "RowwiseParallel",
    "SequenceParallel",
]
__dir__ = _listing(__name__)


class ParallelStyle(ABC):
    """Base of the styles."""

    src_data_rank: int | None = 0

    @abstractmethod
    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        """Changes the module."""


def _as_dtensor(x, mesh, layout):
    return x if isinstance(x, DTensor) else DTensor.from_local(x, mesh, (layout,), run_check=False)


def _in_layout(x, layout, local):
    out = x.redistribute(placements=(layout,)) if x.placements != (layout,) else x
    return out.to_local() if local else out


class _Divided(ParallelStyle):
    """A layer of one input and output, with parameters that are divided."""

    input_layouts: tuple[Placement, ...]
    output_layouts: tuple[Placement, ...]
    use_local_output: bool

    def __init__(self, input_layouts: Placement, output_layouts: Placement, use_local_output: bool) -> None:
        self.input_layouts, self.output_layouts = (input_layouts,), (output_layouts,)
        self.use_local_output = use_local_output

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        return distribute_module(module, device_mesh, self._partition, self._input, self._output)

    def _partition(self, name, module, mesh):
        for key, p in list(module.named_parameters(recurse=False)):
            if not isinstance(p, DTensor):
                placement = self._placement(module, key)
                module.register_parameter(
                    key, distribute_tensor(p, mesh, [placement], src_data_rank=self.src_data_rank)
                )

    def _input(self, module, inputs, mesh):
        x = _as_dtensor(inputs[0], mesh, self.input_layouts[0])
        wanted = self._wanted(module)
        return (x if x.placements == (wanted,) else x.redistribute(placements=(wanted,)), *inputs[1:])

    def _output(self, module, outputs, mesh):
        return _in_layout(outputs, self.output_layouts[0], self.use_local_output)


class ColwiseParallel(_Divided):
    """Linear and Embedding, each process with some of the columns of the result: Shard(0) of a Linear's weight and bias,
    Shard(1) of an Embedding's. Takes a replicated input, gives Shard(-1), unless layouts say otherwise."""

    def __init__(
        self,
        *,
        input_layouts: Placement | None = None,
        output_layouts: Placement | None = None,
        use_local_output: bool = True,
    ) -> None:
        super().__init__(input_layouts or Replicate(), output_layouts or Shard(-1), use_local_output)

    def _wanted(self, module):
        return Replicate()

    def _placement(self, module, key):
        if isinstance(module, nn.Linear):
            return Shard(0)
        if isinstance(module, nn.Embedding):
            return Shard(1)
        raise NotImplementedError("ColwiseParallel currently only support nn.Linear and nn.Embedding!")

    def _output(self, module, outputs, mesh):
        layout = self.output_layouts[0]
        if isinstance(layout, Shard) and layout.dim < 0:
            layout = Shard(layout.dim + outputs.dim())
        return _in_layout(outputs, layout, self.use_local_output)


class RowwiseParallel(_Divided):
    """Linear and Embedding, each process with some of the rows of what is multiplied: Shard(1) of a Linear's weight, and
    Shard(0), the vocabulary, of an Embedding's. Takes Shard(-1), an Embedding a replicated input; gives a replicated
    result, unless layouts say otherwise."""

    def __init__(
        self,
        *,
        input_layouts: Placement | None = None,
        output_layouts: Placement | None = None,
        use_local_output: bool = True,
    ) -> None:
        super().__init__(input_layouts or Shard(-1), output_layouts or Replicate(), use_local_output)

    def _wanted(self, module):
        return Shard(-1) if isinstance(module, nn.Linear) else Replicate()

    def _placement(self, module, key):
        if isinstance(module, nn.Linear):
            return Shard(1) if key == "weight" else Replicate()
        if isinstance(module, nn.Embedding):
            return Shard(0)
        raise NotImplementedError("RowwiseParallel currently only support nn.Linear and nn.Embedding!")

    def _input(self, module, inputs, mesh):
        x, layout = inputs[0], self.input_layouts[0]
        rank = x.dim()
        if isinstance(layout, Shard) and layout.dim < 0:
            layout = Shard(layout.dim + rank)
        x = _as_dtensor(x, mesh, layout)
        wanted = Shard(rank - 1) if isinstance(module, nn.Linear) else Replicate()
        return (x if x.placements == (wanted,) else x.redistribute(placements=(wanted,)), *inputs[1:])


class SequenceParallel(ParallelStyle):
    """LayerNorm, RMSNorm, Dropout and their like, each process with some of the positions of a sequence. Parameters are
    replicated. An input that is no DTensor is this process's part of dimension sequence_dim."""

    sequence_sharding: tuple[Placement, ...]
    use_local_output: bool

    def __init__(self, *, sequence_dim: int = 1, use_local_output: bool = False) -> None:
        self.sequence_sharding = (Shard(sequence_dim),)
        self.use_local_output = use_local_output

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        return distribute_module(module, device_mesh, self._partition, self._input, self._output)

    def _partition(self, name, module, mesh):
        for key, p in list(module.named_parameters(recurse=False)):
            if not isinstance(p, DTensor):
                module.register_parameter(
                    key, distribute_tensor(p, mesh, [Replicate()], src_data_rank=self.src_data_rank)
                )

    def _input(self, module, inputs, mesh):
        x = inputs[0]
        if not isinstance(x, DTensor | _core.Tensor):
            raise ValueError(f"expecting input of {module} to be a torch.Tensor or DTensor, but got {x}")
        x = _as_dtensor(x, mesh, self.sequence_sharding[0])
        return (x if x.placements == self.sequence_sharding else x.redistribute(placements=self.sequence_sharding),)

    def _output(self, module, outputs, mesh):
        return outputs.to_local() if self.use_local_output else outputs


def _tuple(x):
    return x if isinstance(x, tuple) else (x,)


class PrepareModuleInput(ParallelStyle):
    """Makes DTensors of a module's inputs, of which input_layouts says how they lie, as desired_input_layouts says.

    None stands for an input that is left as it is. Keyword arguments go by name.
    """

    input_layouts: tuple[Placement | None, ...] | None
    desired_input_layouts: tuple[Placement | None, ...] | None
    input_kwarg_layouts: dict[str, Placement]
    desired_input_kwarg_layouts: dict[str, Placement]
    use_local_output: bool

    def __init__(
        self,
        *,
        input_layouts: Placement | Sequence[Placement | None] | None = None,
        desired_input_layouts: Placement | Sequence[Placement | None] | None = None,
        input_kwarg_layouts: dict[str, Placement] | None = None,
        desired_input_kwarg_layouts: dict[str, Placement] | None = None,
        use_local_output: bool = False,
    ) -> None:
        self.input_layouts = None if input_layouts is None else _tuple(input_layouts)
        self.desired_input_layouts = None if desired_input_layouts is None else _tuple(desired_input_layouts)
        self.input_kwarg_layouts = input_kwarg_layouts or {}
        self.desired_input_kwarg_layouts = desired_input_kwarg_layouts or {}
        self.use_local_output = use_local_output
        if self.input_layouts is not None:
            if self.desired_input_layouts is None:
                raise AssertionError("desired module inputs should not be None!")
            if len(self.input_layouts) != len(self.desired_input_layouts):
                raise AssertionError("input_layouts and desired_input_layouts should have same length!")

    def _prepared(self, x, mesh, layout, desired):
        if layout is None:
            return x
        x = _as_dtensor(x, mesh, layout)
        if desired is not None and x.placements != (desired,):
            x = x.redistribute(placements=(desired,))
        return x.to_local() if self.use_local_output else x

    def _inputs(self, inputs, mesh):
        if self.input_layouts is None:
            return inputs
        inputs = _tuple(inputs)
        if len(inputs) != len(self.input_layouts):
            raise ValueError("module inputs and input_layouts should have same length!")
        wanted = self.desired_input_layouts or ()
        return tuple(
            self._prepared(*one) for one in zip(inputs, [mesh] * len(inputs), self.input_layouts, wanted, strict=True)
        )

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        def prepare(_, inputs, kwargs):
            named = dict(kwargs)
            for name, layout in self.input_kwarg_layouts.items():
                if name in named:
                    named[name] = self._prepared(
                        named[name], device_mesh, layout, self.desired_input_kwarg_layouts.get(name)
                    )
            return self._inputs(inputs, device_mesh), named

        module.register_forward_pre_hook(prepare, with_kwargs=True)
        return module


class PrepareModuleOutput(ParallelStyle):
    """Brings a module's outputs, of which output_layouts says how they lie, into desired_output_layouts."""

    output_layouts: tuple[Placement | None, ...]
    desired_output_layouts: tuple[Placement | None, ...]
    use_local_output: bool

    def __init__(
        self,
        *,
        output_layouts: Placement | Sequence[Placement | None],
        desired_output_layouts: Placement | Sequence[Placement | None],
        use_local_output: bool = True,
    ) -> None:
        self.output_layouts, self.desired_output_layouts = _tuple(output_layouts), _tuple(desired_output_layouts)
        self.use_local_output = use_local_output
        if len(self.output_layouts) != len(self.desired_output_layouts):
            raise AssertionError("output_layouts and desired_output_layouts should have same length!")

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        module.register_forward_hook(lambda _, inputs, outputs: self._outputs(outputs, device_mesh))
        return module

    def _outputs(self, outputs, mesh):
        several = _tuple(outputs)
        if len(several) != len(self.output_layouts):
            raise ValueError("module outputs and output_layouts should have same length!")
        out = []
        for x, layout, desired in zip(several, self.output_layouts, self.desired_output_layouts, strict=True):
            if layout is not None:
                x = _in_layout(_as_dtensor(x, mesh, layout), desired, self.use_local_output)
            out.append(x)
        return tuple(out) if isinstance(outputs, tuple) else out[0]


class PrepareModuleInputOutput(ParallelStyle):
    """Both of the above."""

    prepare_module_input: PrepareModuleInput
    prepare_module_output: PrepareModuleOutput

    def __init__(
        self,
        *,
        input_layouts: Any = None,
        desired_input_layouts: Any = None,
        input_kwarg_layouts: dict[str, Placement] | None = None,
        desired_input_kwarg_layouts: dict[str, Placement] | None = None,
        use_local_input: bool = False,
        output_layouts: Any,
        desired_output_layouts: Any,
        use_local_output: bool = True,
    ) -> None:
        self.prepare_module_input = PrepareModuleInput(
            input_layouts=input_layouts,
            desired_input_layouts=desired_input_layouts,
            input_kwarg_layouts=input_kwarg_layouts,
            desired_input_kwarg_layouts=desired_input_kwarg_layouts,
            use_local_output=use_local_input,
        )
        self.prepare_module_output = PrepareModuleOutput(
            output_layouts=output_layouts,
            desired_output_layouts=desired_output_layouts,
            use_local_output=use_local_output,
        )

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        self.prepare_module_input._apply(module, device_mesh)
        return self.prepare_module_output._apply(module, device_mesh)
