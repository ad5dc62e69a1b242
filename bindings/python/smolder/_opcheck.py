"""The checks of smolder.library.opcheck."""

from smolder import _core


def _leaves(args, kwargs):
    """The tensors among arguments, those in lists too, with their names by position."""
    out = []
    for a in [*args, *kwargs.values()]:
        out += [x for x in (a if isinstance(a, list | tuple) else [a]) if isinstance(x, _core.Tensor)]
    return out


def _copies(values):
    def copy(v):
        if isinstance(v, _core.Tensor):
            return v.detach().clone().requires_grad_(v.requires_grad)
        return type(v)(copy(x) for x in v) if isinstance(v, list | tuple) else v

    return {k: copy(v) for k, v in values.items()} if isinstance(values, dict) else [copy(v) for v in values]


def _results(value):
    return [] if value is None else list(value) if isinstance(value, tuple | list) else [value]


def _same(a, b, rtol, atol):
    rtol, atol = 1e-5 if rtol is None else rtol, 1e-8 if atol is None else atol
    return a.shape == b.shape and a.dtype == b.dtype and a.allclose(b, rtol, atol, equal_nan=True)


def _eagerly(f):
    before = _core.is_eager_enabled()
    _core.set_eager_enabled(True)
    try:
        return f()
    finally:
        _core.set_eager_enabled(before)


def _test_schema(op, args, kwargs, rtol, atol):
    given, given_kwargs = _copies(args), _copies(kwargs)
    bound = op._bind(tuple(given), dict(given_kwargs))
    before = _copies(bound)
    _eagerly(lambda: op(*given, **given_kwargs))
    for (name, *_, written), now, was in zip(op._arguments, bound, before):
        for x, y in zip(_leaves([now], {}), _leaves([was], {})):
            if not written and not _same(x, y, 0, 0):
                raise RuntimeError(f"{op.name()}: argument {name} is not defined as mutable but was mutated")


def _test_autograd_registration(op, args, kwargs, rtol, atol):
    if op._function is None and any(t.requires_grad for t in _leaves(args, kwargs)) and op._composite is None:
        raise RuntimeError(f"{op.name()}: an argument requires grad, but no autograd formula was registered")


def _test_faketensor(op, args, kwargs, rtol, atol):
    if op._core.num_returns and op._fake is None and op._composite is None:
        raise RuntimeError(
            f"There was no fake impl registered for {op.name()}. Please use register_fake to add one: without it each "
            "call ends the step"
        )
    for t in _results(op(*_copies(args), **_copies(kwargs))):
        t.tolist()  # the kernel's result is compared with what the rule says


def _test_compiled(op, args, kwargs, rtol, atol):
    def run():
        given, given_kwargs = _copies(args), _copies(kwargs)
        results = _results(op(*given, **given_kwargs))
        leaves = [t for t in _leaves(given, given_kwargs) if t.requires_grad]
        differentiable = [r for r in results if r.requires_grad]
        if differentiable:
            sum(r.sum() for r in differentiable).backward()
        return results + [t.grad for t in leaves if t.grad is not None] + _leaves(given, given_kwargs)

    for eager, compiled in zip(_eagerly(run), run(), strict=True):
        if not _same(eager, compiled, rtol, atol):
            raise RuntimeError(f"{op.name()}: a compiled step computes {compiled}, eager execution {eager}")


_TESTS = {
    "test_schema": _test_schema,
    "test_autograd_registration": _test_autograd_registration,
    "test_faketensor": _test_faketensor,
    "test_aot_dispatch_dynamic": _test_compiled,
}


def run(op, args, kwargs, test_utils, raise_exception, rtol, atol, error):
    """Runs the tests named (one or several; all by default)."""
    wanted = (
        tuple(_TESTS) if test_utils is None else (test_utils,) if isinstance(test_utils, str) else tuple(test_utils)
    )
    results = {}
    for name in wanted:
        if name not in _TESTS:
            raise ValueError(f"opcheck: no test is called {name}; there are {', '.join(_TESTS)}")
        try:
            _TESTS[name](op, args, kwargs, rtol, atol)
            results[name] = "SUCCESS"
        except Exception as e:
            if raise_exception:
                raise error(f"opcheck(op, ...): {name} failed with {e}") from e
            results[name] = e
    return results
