"""Names for annotations: what functions take for a number, a size or a device."""

import builtins
from typing import Any as Any
from typing import List as List  # noqa: UP035 - torch's annotations name it
from typing import Sequence as Sequence  # noqa: UP035
from typing import Tuple as Tuple  # noqa: UP035
from typing import Union

from smolder._names import listing as _listing
from smolder._tensor import Size, Tensor, device
from smolder._types import dtype

__all__ = ["Device", "FileLike", "Number", "Storage"]  # noqa: F822 - Storage is made when it is asked for
__dir__ = _listing(__name__)

Number = builtins.int | builtins.float | builtins.bool
_Number = (builtins.int, builtins.float, builtins.bool)
Device = Union[device, str, builtins.int, None]  # noqa: UP007
FileLike = Any
_TensorOrTensors = Union[Tensor, Sequence[Tensor]]  # noqa: UP007
_TensorOrTensorsOrGradEdge = _TensorOrTensors
_dtype, _device, _size = dtype, device, Union[Size, list[builtins.int], tuple[builtins.int, ...]]  # noqa: UP007
_int, _float, _bool = builtins.int, builtins.float, builtins.bool
_complex, _layout, _qscheme = builtins.complex, Any, Any


def __getattr__(name: str) -> Any:
    if name == "Storage":
        from smolder.storage import UntypedStorage

        return UntypedStorage
    from smolder._missing import missing

    raise missing(__name__, name)
