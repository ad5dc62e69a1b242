"""Classes derived from Tensor and Parameter, as libraries write them: made by __new__, by __init__, with several bases."""

import copy
import pickle

import pytest

import smolder
from smolder import nn


class Tagged(smolder.Tensor):
    @staticmethod
    def __new__(cls, x, tag, **options):
        return super().__new__(cls, x, **options)

    def __init__(self, x, tag):
        self.tag = tag


class AskingAgain(Tagged):
    def __init__(self, x, tag):
        super(Tagged, self).__init__()
        self.tag = tag


class Scaled(smolder.Tensor):
    @staticmethod
    def __new__(cls, data, *, scale=1.0):
        made = smolder.Tensor._make_subclass(cls, data)
        made.scale = scale
        return made


class TaggedParameter(nn.Parameter):
    def __new__(cls, data=None, requires_grad=True, tag=None):
        made = super().__new__(cls, data, requires_grad)
        made.tag = tag
        return made


class Both(Scaled, nn.Parameter):
    pass


class Plain(smolder.Tensor):
    pass


@pytest.mark.parametrize("kind", [Tagged, AskingAgain])
def test_its_own_new_makes_the_tensor(kind):
    x = kind(smolder.ones(2), "a tag")
    assert x.tag == "a tag" and x.tolist() == [1, 1] and type(x + 1) is kind
    assert kind([1.0, 2.0], "").tolist() == [1, 2]


def test_without_init_arguments_are_for_new():
    x = Scaled(smolder.ones(2), scale=3.0)
    assert x.scale == 3 and x.tolist() == [1, 1] and type(x.clone()) is Scaled
    p = TaggedParameter(smolder.ones(2), tag="t")
    module = nn.Module()
    module.p = p
    assert next(iter(module.parameters())) is p and p.tag == "t" and p.requires_grad
    assert not TaggedParameter(smolder.ones(2), False).requires_grad


def test_several_bases_are_tensors():
    p = Both(smolder.ones(2), scale=2.0)
    assert isinstance(p, nn.Parameter) and isinstance(p, Scaled) and p.scale == 2
    p.requires_grad_()
    (p * 3).sum().backward()
    assert p.grad.tolist() == [3, 3]

    class Parameters(nn.Parameter, Plain):
        pass

    assert Parameters(smolder.ones(3)).requires_grad

    with pytest.raises(TypeError):  # two classes from C++ that share no memory

        class Neither(smolder.Tensor, smolder.Generator):
            pass


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies_keep_the_class_and_what_it_holds(again):
    for x in (
        Scaled(smolder.ones(2), scale=3.0),
        Tagged(smolder.ones(2), "t"),
        TaggedParameter(smolder.ones(2), tag=1),
    ):
        other = again(x)
        assert type(other) is type(x) and vars(other) == vars(x) and other.tolist() == [1, 1]
        assert other.requires_grad == x.requires_grad


def test_a_class_without_either_takes_what_tensor_takes():
    assert Plain([1, 2]).tolist() == [1, 2] and Plain(2, 3).shape == (2, 3)
    x = Plain(smolder.ones(2))
    assert type(x) is Plain and x.tolist() == [1, 1] and type(Plain()) is Plain
