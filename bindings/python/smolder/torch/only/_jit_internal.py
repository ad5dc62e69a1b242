"""The names of torch._jit_internal that libraries import: marks of functions, which smolder.jit has, and types."""

from smolder.jit import _overload as _overload
from smolder.jit import _overload_method as _overload_method
from smolder.jit import export as export
from smolder.jit import ignore as ignore
from smolder.jit import is_scripting as is_scripting
from smolder.jit import unused as unused
from smolder.torch.only.jit.annotations import BroadcastingList1 as BroadcastingList1
from smolder.torch.only.jit.annotations import BroadcastingList2 as BroadcastingList2
from smolder.torch.only.jit.annotations import BroadcastingList3 as BroadcastingList3


def boolean_dispatch(arg_name, arg_index, default, if_true, if_false, module_name, func_name):
    """A function that is one of two, as an argument says."""

    def call(*args, **kwargs):
        chosen = kwargs.get(arg_name, args[arg_index] if len(args) > arg_index else default)
        return if_true(*args, **kwargs) if chosen else if_false(*args, **kwargs)

    call.__name__ = func_name or if_true.__name__
    return call
