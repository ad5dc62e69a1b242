"""The modules of the command `smolder`: nobody imports them, and they are not part of the API."""


def is_command(name):
    """Whether a name, `smolder.cli.main`, is of one of them."""
    return name.split(".")[1:2] == ["cli"]
