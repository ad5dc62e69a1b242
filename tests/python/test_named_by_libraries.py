"""Calls at which libraries stopped: names that they import, and what they do to types and functions of torch's."""

import ctypes
import inspect
import sys

import pytest

import smolder
from smolder import nn
from smolder.nn import functional as F
from smolder.nn import padding
from smolder.nn.modules import conv
from smolder.torch import only
from smolder.torch.only import serialization
from smolder.torch.only._dynamo import exc, utils
from smolder.torch.only.nn import functional as scaled


@pytest.mark.parametrize("kind", ["Reflection", "Replication", "Circular"])
def test_pads_have_the_bases_that_libraries_ask_about(kind):
    base = getattr(padding, f"_{kind}PadNd")
    for dims in (1, 2, 3):
        assert isinstance(getattr(nn, f"{kind}Pad{dims}d")(1), base)
    assert not isinstance(nn.ConstantPad1d(1, 0.0), base)


def test_transposed_convolutions_have_their_older_base():
    assert isinstance(nn.ConvTranspose2d(1, 1, 2), conv._ConvTransposeMixin)
    assert not isinstance(nn.Conv2d(1, 1, 2), conv._ConvTransposeMixin)


def test_storages_are_found_by_their_names(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", smolder)
    assert serialization.normalize_storage_type(smolder.UntypedStorage) is smolder.UntypedStorage
    with pytest.raises(AttributeError, match="Nothing"):
        serialization.normalize_storage_type(type("NothingStorage", (), {}))


def test_errors_and_enums_of_compilers_and_scaled_products():
    assert issubclass(exc.UserError, exc.Unsupported) and issubclass(exc.Unsupported, RuntimeError)
    assert issubclass(exc.BackendCompilerFailed, exc.TorchDynamoException)
    assert utils.has_triton() is False
    with utils.disable_cache_limit():
        pass
    assert [e.name for e in scaled.ScalingType][:2] == ["TensorWise", "RowWise"]
    assert [e.value for e in scaled.SwizzleType] == [0, 1]


def test_threads_between_ops():
    before = only.get_num_interop_threads()
    try:
        only.set_num_interop_threads(3)
        assert only.get_num_interop_threads() == 3
        with pytest.raises(RuntimeError, match="expects a positive integer"):
            only.set_num_interop_threads(0)
        with pytest.raises(RuntimeError, match="expects an int, but got float"):
            only.set_num_interop_threads(1.5)
    finally:
        only.set_num_interop_threads(before)


def test_functions_keep_attributes_that_programs_set():
    for function in (F.relu, F.sigmoid, smolder.tanh, F.cross_entropy):
        name = function.__name__
        with pytest.raises(AttributeError):
            function.__default_init__  # noqa: B018
        function.__default_init__ = nn.init.xavier_uniform_
        assert function.__default_init__ is nn.init.xavier_uniform_ and function.__name__ == name
        del function.__default_init__
        assert not hasattr(function, "__default_init__")
        with pytest.raises(AttributeError):
            del function.__default_init__
    assert not hasattr(F.gelu, "__default_init__")
    assert F.relu(smolder.tensor([-1.0, 2.0])).tolist() == [0, 2] and inspect.isroutine(F.relu)


def test_metaclasses_derive_from_that_of_tensors():
    class Shapes(type(smolder.Tensor)):
        def __getitem__(cls, shape):
            return type("Shaped", (cls,), {"shape_of": shape})

        def __instancecheck__(cls, x):
            return type(x) is smolder.Tensor

    class Annotated(smolder.Tensor, metaclass=Shapes):
        pass

    assert Annotated["batch", "time"].shape_of == ("batch", "time")
    assert isinstance(smolder.ones(2), Annotated) and not isinstance(1, Annotated)
    assert (smolder.ones(2) + 1).tolist() == [2, 2]


def test_a_default_of_a_dtype_that_is_not_held_stops_only_calls_that_leave_it_out():
    library = smolder.library.Library("strangers", "DEF")
    library.define("scaled(Tensor x, ScalarType to=float8_e4m3fn) -> Tensor")
    library.impl("scaled", lambda x, to: x.to(to), "CompositeExplicitAutograd")
    smolder.library.register_fake("strangers::scaled", lambda x, to: x.to(to), lib=library)
    scaled = smolder.ops.strangers.scaled
    assert scaled(smolder.ones(2), smolder.float64).dtype == smolder.float64
    with pytest.raises(RuntimeError, match="Expected a value of type 'ScalarType' for argument 'to'"):
        scaled(smolder.ones(2))
    with pytest.raises(RuntimeError, match="'blah' is no default of ScalarType to"):
        library.define("wrong(Tensor x, ScalarType to=blah) -> Tensor")
    library._destroy()


class Given:
    """A class with a loader's members that is none, as fastai's loaders."""

    def __init__(self, dataset, iterable):
        from smolder.utils.data.dataloader import _DatasetKind

        self.dataset, self._index_sampler = dataset, ([0, 2], [1]) if not iterable else range(10)
        self._dataset_kind = _DatasetKind.Iterable if iterable else _DatasetKind.Map
        self._auto_collation, self.drop_last, self.timeout, self.generator = not iterable, False, 0, None
        self.collate_fn, self.pin_memory = (lambda x: x), False


def test_an_iterator_of_loaders_takes_whatever_has_their_members():
    from smolder.utils.data import DataLoader
    from smolder.utils.data.dataloader import _BaseDataLoaderIter, _SingleProcessDataLoaderIter

    batches = _SingleProcessDataLoaderIter(Given([5, 6, 7], iterable=False))
    assert isinstance(batches, _BaseDataLoaderIter) and iter(batches) is batches
    assert list(batches) == [[5, 7], [6]]
    assert list(_SingleProcessDataLoaderIter(Given([5, 6, 7], iterable=True))) == [5, 6, 7]
    loader = DataLoader(range(5), batch_size=2)
    assert [b.tolist() for b in _SingleProcessDataLoaderIter(loader)] == [b.tolist() for b in loader]
    assert loader._auto_collation and loader._dataset_kind == 0 and list(loader._index_sampler)[-1] == [4]


def test_products_with_scales_are_refused_where_they_are_called():
    with pytest.raises(NotImplementedError, match="scaled_mm is not supported"):
        scaled.scaled_mm(smolder.ones(2, 2), smolder.ones(2, 2))


def test_tensors_of_one_layout_may_become_each_other():
    from smolder.torch.only import _has_compatible_shallow_copy_type as compatible

    x = smolder.eye(3)
    assert compatible(x, smolder.ones(2)) and not compatible(x, x.to_sparse())


def test_ops_keep_their_tags():
    tag = only.Tag.needs_fixed_stride_order
    library = smolder.library.Library("tagged", "DEF")
    library.define("one(Tensor x) -> Tensor", tags=[tag])
    library.define("two(Tensor x) -> Tensor", tags=tag)
    assert smolder.ops.tagged.one.tags == smolder.ops.tagged.two.tags == [tag]
    library._destroy()

    @smolder.library.custom_op("tagged_too::three", mutates_args=(), tags=(only.Tag.pointwise,))
    def three(x: smolder.Tensor) -> smolder.Tensor:
        return x * 3

    assert three._opoverload.tags == [only.Tag.pointwise] and three(smolder.ones(1)).tolist() == [3]
    with pytest.raises(TypeError, match="expected members of Tag, but got 'pointwise'"):
        smolder.library.custom_op("tagged_too::four", mutates_args=(), tags="pointwise")


def test_ops_of_collectives_are_names_whose_calls_say_what_there_is():
    for op in (
        smolder.ops.c10d.scatter_,
        smolder.ops._c10d_functional.all_reduce,
        smolder.ops.c10d_functional.wait_tensor,
    ):
        assert op.default is op
        with pytest.raises(NotImplementedError, match=r"smolder\.distributed has the collectives"):
            op(smolder.ones(1))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        smolder.ops.c10d.nothing  # noqa: B018


def test_types_of_bound_functions_are_not_those_of_other_extensions():
    """A note of a program's on functions of ours changes nanobind's type of functions, which modules of a domain share."""
    api = ctypes.pythonapi
    api.PyInterpreterState_Get.restype = ctypes.c_void_p
    api.PyInterpreterState_GetDict.restype = ctypes.py_object
    api.PyInterpreterState_GetDict.argtypes = [ctypes.c_void_p]
    shared = api.PyInterpreterState_GetDict(api.PyInterpreterState_Get())
    domains = [name for name in shared if str(name).startswith("__nb_internals_")]
    assert any("smolder" in name for name in domains), domains
