"""torch._dynamo.exc: the errors that programs catch around a compiled call. Nothing here raises them."""

from smolder._names import listing as _listing

__all__ = [
    "BackendCompilerFailed", "InternalTorchDynamoError", "InvalidBackend", "RecompileError", "ResetRequired", "SkipFrame",
    "TorchDynamoException", "TorchRuntimeError", "Unsupported", "UserError",
]  # fmt: skip
__dir__ = _listing(__name__)


class TorchDynamoException(RuntimeError):
    """Base of all the others."""


class InternalTorchDynamoError(TorchDynamoException):
    """As torch's, of a fault of its own."""


class BackendCompilerFailed(TorchDynamoException):
    """As torch's, of a backend that raised."""


class InvalidBackend(TorchDynamoException):
    """As torch's, of a backend that is not there."""


class RecompileError(TorchDynamoException):
    """As torch's, where compiling again is an error."""


class ResetRequired(TorchDynamoException):
    """As torch's, where settings changed after a function was compiled."""


class SkipFrame(TorchDynamoException):
    """As torch's, of a function that is not to be compiled."""


class TorchRuntimeError(TorchDynamoException):
    """As torch's, of an op that raised while it was recorded."""


class Unsupported(TorchDynamoException):
    """As torch's, of code that cannot be recorded."""


class UserError(Unsupported):
    """As torch's, of a wrong use."""
