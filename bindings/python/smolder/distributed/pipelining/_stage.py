"""A stage: a module that takes what the stage before gives, and gives to the one after."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from smolder import _core, _creation, autograd
from smolder.distributed import _groups
from smolder.distributed._collectives import recv, send
from smolder.distributed._objects import recv_object_list, send_object_list

if TYPE_CHECKING:
    from smolder.nn.module import Module

__all__ = ["PipelineStage"]


def _tuple(x):
    return tuple(x) if isinstance(x, tuple | list) else (x,)


class PipelineStage:
    """The stage `stage_index` of `num_stages`, each of which is on the process of the same rank of the group.

    What goes between stages is tensors, of shapes that are the same for all parts of a batch; the first part tells them.
    """

    submod: Module
    stage_index: int
    num_stages: int
    group: Any
    device: Any
    group_rank: int
    group_size: int

    def __init__(
        self,
        submodule: Module,
        stage_index: int,
        num_stages: int,
        device: Any = "cpu",
        input_args: Any = None,
        output_args: Any = None,
        group: Any = None,
        dw_builder: Callable[..., Any] | None = None,
        get_mesh: Any = None,
    ) -> None:
        if not 0 <= stage_index < num_stages:
            raise ValueError(f"Stage index {stage_index} is out of range of {num_stages}")
        if getattr(device, "type", str(device)).partition(":")[0] != "cpu":
            raise NotImplementedError(f"PipelineStage: device={device!r} is not supported: stages are on the CPU")
        if dw_builder is not None or get_mesh is not None:
            raise NotImplementedError("PipelineStage: dw_builder and get_mesh are not supported")
        found = _groups.resolve(group)
        if found is None:
            raise ValueError("PipelineStage: this process is not in the group")
        if found.size() != num_stages:
            raise ValueError(
                f"Pipeline group size {found.size()} must be the number of stages {num_stages}: a process has one stage"
            )
        if found.rank() != stage_index:
            raise ValueError(f"stage {stage_index} is on the process of that rank, and this one's is {found.rank()}")
        del input_args, output_args  # the first part of a batch says what they are like
        self.submod, self.stage_index, self.num_stages, self.group = submodule, stage_index, num_stages, found
        self.device, self.group_rank, self.group_size = device, found.rank(), found.size()
        self._before: list[Any] | None = None  # shapes, dtypes and whether there are gradients of what comes in
        self._told = False
        self._kept: dict[int, Any] = {}

    @property
    def is_first(self) -> bool:
        """Whether batches begin here."""
        return self.stage_index == 0

    @property
    def is_last(self) -> bool:
        """Whether losses are found here."""
        return self.stage_index == self.num_stages - 1

    @property
    def has_backward(self) -> bool:
        """Whether parts wait here for their backward pass."""
        return bool(self._kept)

    def forward_one_chunk(self, number: int, args: Any, kwargs: Any, training: bool) -> Any:
        """The forward pass of a part of a batch, from the stage before and to the one after. Returns the outputs."""
        inputs = args if self.is_first else self._received(training)
        with autograd.set_grad_enabled(training):
            out = self.submod(*inputs, **kwargs)
        outputs = _tuple(out)
        if not self.is_last:
            self._sent(outputs)
        if training:
            self._kept[number] = (() if self.is_first else inputs, outputs)
        return out

    def backward_one_chunk(self, number: int, loss: Any = None) -> None:
        """The backward pass of a part: of its loss on the last stage, of the gradients of its outputs elsewhere."""
        inputs, outputs = self._kept.pop(number)
        if self.is_last:
            loss.backward()
        else:
            wanted = [t for t in outputs if t.requires_grad]
            grads = []
            for t in wanted:
                grads.append(_creation.empty(list(t.shape), dtype=t.dtype))
                recv(grads[-1], group=self.group, group_src=self.stage_index + 1)
            if wanted:
                autograd.backward(wanted, grads)
        for t in inputs:
            if t.requires_grad:
                grad = t.grad if t.grad is not None else _creation.zeros(list(t.shape), dtype=t.dtype)
                send(grad, group=self.group, group_dst=self.stage_index - 1)

    def clear(self) -> None:
        """Forgets what waits for a backward pass."""
        self._kept.clear()

    def _sent(self, outputs):
        """Sends outputs on, and what they are like before the first ones."""
        for t in outputs:
            if not isinstance(t, _core.Tensor):
                raise TypeError(f"a stage gives tensors to the next, not {type(t).__name__}")
        to = self.stage_index + 1
        if not self._told:
            self._told = True
            like = [(list(t.shape), str(t.dtype).rpartition(".")[2], t.requires_grad) for t in outputs]
            self._like = like
            send_object_list([like], group=self.group, group_dst=to)
        like = [(list(t.shape), str(t.dtype).rpartition(".")[2], t.requires_grad) for t in outputs]
        if [x[:2] for x in like] != [x[:2] for x in self._like]:
            raise RuntimeError(
                f"outputs of stage {self.stage_index} are {like}; those of the first part were {self._like}"
            )
        for t in outputs:
            send(t.detach(), group=self.group, group_dst=to)

    def _received(self, training):
        source = self.stage_index - 1
        if self._before is None:
            told = [None]
            recv_object_list(told, group=self.group, group_src=source)
            self._before = told[0]
        inputs = []
        for shape, dtype, has_gradient in self._before or ():
            t = _creation.empty(shape, dtype=_core.dtype_named(dtype))
            recv(t, group=self.group, group_src=source)
            inputs.append(t.requires_grad_() if has_gradient and training else t)
        return tuple(inputs)

    def scale_grads(self, grad_scale_factor: int) -> None:
        """Divides gradients."""
        if grad_scale_factor != 1:
            for p in self.submod.parameters():
                if p.grad is not None:
                    p.grad.div_(grad_scale_factor)
