"""torch._library.infer_schema: the signature of an op, from a function's annotations."""

from smolder.library import infer_schema as infer_schema
