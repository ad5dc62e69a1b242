"""Names of torch's that raise, where Smolder does by itself what programs would ask for."""


def refused(name, why):
    """A function that raises NotImplementedError, which names it and says why."""

    def call(*_, **__):
        raise NotImplementedError(f"{name} is not supported: {why}")

    call.__name__ = call.__qualname__ = name.rpartition(".")[2]
    call.__doc__ = f"Raises: {why}."
    return call
