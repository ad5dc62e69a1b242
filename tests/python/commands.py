"""What the command `smolder` is made of: modules that nobody imports, which are not part of the API."""

COMMANDS = {"bench", "bench_models", "bench_peers", "bench_rows", "bench_traces", "cli", "doctor"}
COMMANDS |= {"explain_command", "kernel_cache", "replay_command", "trace_command"}


def is_command(name):
    """Whether a name, `smolder.cli.main`, is of one of them."""
    return name.split(".")[1] in COMMANDS if "." in name else False
