"""torch._dynamo.eval_frame: the names in it that programs ask about."""

from smolder.compiler._module import OptimizedModule as OptimizedModule
