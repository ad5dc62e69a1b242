"""The name that transformers takes from torch's compiler to index tensors by tensors."""

from smolder.overrides import BaseTorchFunctionMode


class TransformGetItemToIndex(BaseTorchFunctionMode):
    """Within it, torch indexes by a tensor without dimensions as by any other tensor, which Smolder does anyway."""
