"""The order in which a stage does forward and backward passes of the parts of a batch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from smolder import _core
from smolder._modes import no_grad

if TYPE_CHECKING:
    from smolder.distributed.pipelining._stage import PipelineStage

__all__ = ["Schedule1F1B", "ScheduleGPipe"]


def _split(values, n):
    """Arguments of each part of a batch: tensors along the first dimension, other values as they are."""

    def parts(v):
        if not isinstance(v, _core.Tensor):
            return [v] * n
        if v.dim() == 0 or v.shape[0] < n:
            raise RuntimeError(f"a batch of shape {tuple(v.shape)} is not split into {n} parts")
        return v.tensor_split(n)

    if isinstance(values, dict):
        split = {k: parts(v) for k, v in values.items()}
        return [{k: v[i] for k, v in split.items()} for i in range(n)]
    split = [parts(v) for v in values]
    return [tuple(v[i] for v in split) for i in range(n)]


class _Schedule(ABC):
    scale_grads: bool

    def __init__(
        self,
        stage: PipelineStage,
        n_microbatches: int,
        loss_fn: Callable[..., Any] | None = None,
        args_chunk_spec: Any = None,
        kwargs_chunk_spec: Any = None,
        output_merge_spec: Any = None,
        scale_grads: bool = True,
    ) -> None:
        for name, given in (
            ("args_chunk_spec", args_chunk_spec),
            ("kwargs_chunk_spec", kwargs_chunk_spec),
            ("output_merge_spec", output_merge_spec),
        ):
            if given is not None:
                raise NotImplementedError(f"{type(self).__name__}: {name} is not supported: batches are dimension 0")
        if n_microbatches < 1:
            raise ValueError(f"n_microbatches must be positive, got {n_microbatches}")
        self._stage, self._n_microbatches, self._loss_fn = stage, n_microbatches, loss_fn
        self.scale_grads = scale_grads

    @abstractmethod
    def _order(self) -> Iterator[tuple[str, int]]:
        """Passes of this stage, "forward" or "backward", and the part that each is of."""

    def step(
        self,
        *args: Any,
        target: Any = None,
        losses: list[Any] | None = None,
        return_outputs: bool = True,
        **kwargs: Any,
    ) -> Any:
        """A batch: forward and, where there is a loss_fn, backward passes of all its parts.

        The first stage is given the batch, the last one targets, and a list that losses of the parts are put into. All
        processes call it. Returns the outputs on the last stage, None elsewhere.
        """
        return self._run(self._loss_fn is not None, args, kwargs, target, losses, return_outputs)

    def eval(
        self,
        *args: Any,
        target: Any = None,
        losses: list[Any] | None = None,
        return_outputs: bool = True,
        **kwargs: Any,
    ) -> Any:
        """The forward passes alone."""
        with no_grad():
            return self._run(False, args, kwargs, target, losses, return_outputs)

    def _run(self, training, args, kwargs, target, losses, return_outputs):
        stage, n = self._stage, self._n_microbatches
        stage.clear()
        parts = _split(args, n) if stage.is_first else [()] * n
        named = _split(kwargs, n) if kwargs else [{}] * n
        targets = target.tensor_split(n) if stage.is_last and target is not None else [None] * n
        outputs, found = {}, {}
        for what, i in self._order():
            if what == "forward":
                out = stage.forward_one_chunk(i, parts[i], named[i], training)
                if stage.is_last:
                    outputs[i] = out
                    if self._loss_fn is not None and targets[i] is not None:
                        found[i] = self._loss_fn(out, targets[i])
            elif training:
                if stage.is_last and i not in found:
                    raise RuntimeError("the last stage needs targets for a backward pass: step(target=...)")
                stage.backward_one_chunk(i, found.get(i))
        if training and self.scale_grads:
            with no_grad():
                stage.scale_grads(n)
        if losses is not None and stage.is_last:
            losses.clear()
            losses.extend(found[i].detach() for i in sorted(found))
        _core.mark_step()  # stages before this one wait for what was recorded
        if not stage.is_last or not return_outputs:
            return None
        with no_grad():
            return _merged([outputs[i] for i in range(n)])


def _merged(parts):
    if isinstance(parts[0], tuple | list):
        return type(parts[0])(_core.cat([p[i] for p in parts]) for i in range(len(parts[0])))
    return _core.cat([p.detach() for p in parts])


class ScheduleGPipe(_Schedule):
    """All forward passes, then all backward passes: what they keep is kept of all parts at once."""

    def _order(self) -> Iterator[tuple[str, int]]:
        for what in ("forward", "backward"):
            for i in range(self._n_microbatches):
                yield what, i


class Schedule1F1B(_Schedule):
    """Forward passes until the first part comes back, then one backward and one forward pass in turn: a stage keeps what
    passes keep of as many parts as there are stages after it, and its own."""

    def _order(self) -> Iterator[tuple[str, int]]:
        n = self._n_microbatches
        ahead = min(n, self._stage.num_stages - self._stage.stage_index)
        for i in range(ahead):
            yield "forward", i
        for i in range(n - ahead):
            yield "backward", i
            yield "forward", ahead + i
        for i in range(n - ahead, n):
            yield "backward", i
