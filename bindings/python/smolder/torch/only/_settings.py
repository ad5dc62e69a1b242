"""Settings of torch's compilers: programs read and set them. Nothing here reads them, and none changes a result."""

import contextlib
import types


def settings(module, defaults):
    """Fills a module's dict with settings, and with the functions that torch's modules of settings have."""
    space = module if isinstance(module, dict) else vars(module)
    space.update(defaults)

    @contextlib.contextmanager
    def patch(changes=None, value=None, **named):
        given = {changes: value} if isinstance(changes, str) else {**(changes or {}), **named}
        before = {name: space[name] for name in given if name in space}
        space.update(given)
        try:
            yield
        finally:
            for name in given:
                space.pop(name, None)
            space.update(before)

    space["patch"] = patch
    space["get_config_copy"] = lambda: {k: v for k, v in space.items() if not _is_hidden(k, v)}
    space["load_config"] = lambda saved: space.update(saved)


def _is_hidden(name, value):
    return name.startswith("_") or isinstance(value, types.FunctionType | types.ModuleType)
