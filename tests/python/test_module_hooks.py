"""Hooks on modules, in torch's order and with torch's errors (probed with 2.15), and what state_dict hooks may do."""

import pytest

import smolder
from smolder import nn
from smolder.nn import hooks


class Scale(nn.Module):
    def forward(self, x, k=1):
        return x * k


def leaf():
    return smolder.ones(2, requires_grad=True)


def test_the_order_and_what_hooks_replace():
    m, x, seen = Scale(), leaf(), []
    note = seen.append
    m.register_forward_pre_hook(lambda m, a: note(("pre", a[0].tolist())))
    m.register_forward_pre_hook(lambda m, a, k: (note(k), ((a[0] * 2,), {"k": 5}))[1], with_kwargs=True)
    m.register_forward_pre_hook(lambda m, a: note("prepended pre"), prepend=True)
    m.register_forward_hook(lambda m, a, o: note(("post", o.tolist())))
    m.register_forward_hook(lambda m, a, k, o: (note(k), o + 1)[1], with_kwargs=True)
    m.register_forward_hook(lambda m, a, o: note("prepended post"), prepend=True)
    m.register_full_backward_pre_hook(lambda m, go: note(("back pre", go[0].tolist())))
    m.register_full_backward_pre_hook(lambda m, go: (note("prepended"), (go[0] * 10,))[1], prepend=True)
    m.register_full_backward_hook(lambda m, gi, go: note(("back", gi[0].tolist(), go[0].tolist())))
    m.register_full_backward_hook(lambda m, gi, go: (note("prepended"), (gi[0] * 100,))[1], prepend=True)
    y = m(x, k=3)
    assert y.tolist() == [11, 11]
    assert seen == ["prepended pre", ("pre", [1, 1]), {"k": 3}, "prepended post", ("post", [10, 10]), {"k": 5}]
    del seen[:]
    y.sum().backward()
    assert seen == ["prepended", ("back pre", [10, 10]), "prepended", ("back", [5000, 5000], [10, 10])]
    assert x.grad.tolist() == [10000, 10000]


def test_hooks_that_are_always_called():
    class Broken(nn.Module):
        def forward(self, x):
            raise ValueError("boom")

    def raises(m, a, o):
        raise KeyError("hook")

    m, seen = Broken(), []
    m.register_forward_hook(lambda m, a, o: seen.append(("always", o)), always_call=True)
    m.register_forward_hook(lambda m, a, o: seen.append("not"))
    with pytest.raises(ValueError, match="boom"):
        m(leaf())
    assert seen == [("always", None)]
    m = Scale()
    m.register_forward_hook(lambda m, a, o: seen.append("a"), always_call=True)
    m.register_forward_hook(raises)
    m.register_forward_hook(lambda m, a, o: seen.append("c"), always_call=True)
    with pytest.raises(KeyError):
        m(leaf())
    assert seen[1:] == ["a", "c"]
    m = Broken()
    m.register_forward_hook(raises, always_call=True)
    with pytest.raises(ValueError), pytest.warns(UserWarning, match="was silenced as another error"):
        m(leaf())


def test_hooks_of_all_modules_run_before_its_own():
    seen = []
    handles = [
        hooks.register_module_forward_pre_hook(lambda m, a: seen.append("all pre")),
        hooks.register_module_forward_hook(lambda m, a, o: seen.append("all post")),
        hooks.register_module_full_backward_pre_hook(lambda m, go: seen.append("all back pre")),
        hooks.register_module_full_backward_hook(lambda m, gi, go: seen.append("all back")),
    ]
    m = Scale()
    m.register_forward_pre_hook(lambda m, a: seen.append("pre"))
    m.register_forward_hook(lambda m, a, o: seen.append("post"))
    m.register_full_backward_hook(lambda m, gi, go: seen.append("back"))
    m.register_full_backward_pre_hook(lambda m, go: seen.append("back pre"))
    m(leaf()).sum().backward()
    assert seen == ["all pre", "pre", "all post", "post", "all back pre", "back pre", "all back", "back"]
    for h in handles:
        h.remove()
    del seen[:]
    m(leaf())
    assert seen == ["pre", "post"]


def test_registration_hooks():
    seen = []
    register = (
        hooks.register_module_parameter_registration_hook,
        hooks.register_module_buffer_registration_hook,
        hooks.register_module_module_registration_hook,
    )
    handles = [r(lambda m, name, value: seen.append(name)) for r in register]
    m = nn.Linear(2, 2)
    m.register_buffer("kept", smolder.ones(1))
    m.child = nn.Identity()
    m.add_module("other", nn.Identity())
    for h in handles:
        h.remove()
    m.late = nn.Identity()
    assert seen == ["weight", "bias", "kept", "child", "other"]


def test_backward_hooks_and_inputs_without_gradient():
    class Weighted(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(smolder.ones(2))

        def forward(self, x):
            return x * self.w

    m, seen = Weighted(), []
    m.register_full_backward_hook(lambda m, gi, go: seen.append((gi, go[0].tolist())))
    with pytest.warns(UserWarning, match="no inputs require gradients"):
        m(smolder.ones(2)).sum().backward()
    assert seen == [((None,), [1, 1])] and m.w.grad.tolist() == [1, 1]

    class Several(nn.Module):
        def forward(self, x, y):
            return x * y, x + y, 5

    m, x = Several(), leaf()
    m.register_full_backward_hook(lambda m, gi, go: seen.append([g is None for g in go]))
    out = m(x, smolder.ones(2))
    assert out[2] == 5
    out[0].sum().backward()
    assert seen[1] == [False, True, True] and x.grad.tolist() == [1, 1]


@pytest.mark.parametrize(
    "register, text",
    [
        (lambda m: m.register_full_backward_hook(lambda m, gi, go: (1, 2)), "Backward hook returned an invalid number"),
        (lambda m: m.register_full_backward_pre_hook(lambda m, go: (1, 2)), "Backward pre hook returned an invalid"),
        (lambda m: m.register_forward_pre_hook(lambda m, a, k: 5, with_kwargs=True), "forward pre-hook must return"),
    ],
)
def test_what_module_hooks_must_not_do(register, text):
    m = Scale()
    register(m)
    with pytest.raises(RuntimeError, match=text):
        m(leaf()).sum().backward()


def test_state_dict_hooks():
    inner, seen = nn.Linear(2, 2), []
    inner.register_state_dict_pre_hook(lambda m, prefix, keep: seen.append((prefix, keep)))
    inner.register_state_dict_post_hook(lambda m, sd, prefix, meta: sd.__setitem__(prefix + "extra", 1))
    inner._register_state_dict_hook(lambda m, sd, prefix, meta: seen.append((list(sd), meta)))
    state = nn.Sequential(inner).state_dict()
    assert seen == [("0.", False), (["0.weight", "0.bias", "0.extra"], {"version": 1})]
    assert state._metadata == {"": {"version": 1}, "0": {"version": 1}}

    other = nn.Linear(2, 2)
    other.register_load_state_dict_pre_hook(lambda m, sd, prefix, *rest: (m is other, sd.pop(prefix + "extra")))
    other.register_load_state_dict_post_hook(lambda m, keys: keys.missing_keys.clear())
    del state["0.bias"]
    outcome = nn.Sequential(other).load_state_dict(state)
    assert outcome.missing_keys == [] and smolder.equal(other.weight, inner.weight)
    assert "0.extra" in state  # hooks change a copy
    with pytest.raises(RuntimeError, match=r'in state_dict: "0\.extra"'):
        nn.Sequential(nn.Linear(2, 2)).load_state_dict(state)
    other.register_load_state_dict_post_hook(lambda m, keys: 5)
    with pytest.raises(AssertionError, match="are not expected to return new values"):
        other.load_state_dict(nn.Linear(2, 2).state_dict() | {"extra": 1})
    inner.register_state_dict_post_hook(lambda *a: 5)
    with pytest.raises(RuntimeError, match="state_dict post-hook must return None"):
        inner.state_dict()


def test_extra_state_and_versions():
    class Counts(nn.Module):
        _version = 3
        count = 3

        def get_extra_state(self):
            return {"count": self.count}

        def set_extra_state(self, state):
            self.count = state["count"] + 1

        def _load_from_state_dict(self, state_dict, prefix, local_metadata, *rest):
            self.loaded = local_metadata.get("version")
            super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)

    m = nn.Sequential(Counts())
    m.load_state_dict(m.state_dict())
    assert m[0].count == 4 and m[0].loaded == 3
    with pytest.raises(RuntimeError, match=r'in state_dict: "0\._extra_state"'):
        m.load_state_dict({})


def test_handles():
    m = Scale()
    with m.register_forward_hook(lambda *a: None, with_kwargs=True, always_call=True):
        assert len(m._forward_hooks_with_kwargs) == len(m._forward_hooks_always_called) == 1
    assert not (m._forward_hooks or m._forward_hooks_with_kwargs or m._forward_hooks_always_called)


def test_the_older_backward_hook_sees_gradients():
    layer, seen = nn.Linear(3, 2), []
    with layer.register_backward_hook(lambda module, before, after: seen.append((module, before[0], after[0]))):
        x = smolder.ones(1, 3, requires_grad=True)
        (layer(x).relu() * 2).sum().backward()
    layer(x).sum().backward()
    ((module, before, after),) = seen
    assert module is layer and after.tolist() == [[2.0 * (v > 0) for v in layer(x)[0].tolist()]]
    assert before.tolist() == (after @ layer.weight).tolist()
