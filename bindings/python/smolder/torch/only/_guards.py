"""torch._guards: questions about modes of torch's compilers, which are not here."""


def active_fake_mode():
    """None: no mode makes tensors without elements; the device "meta" has such."""


def detect_fake_mode(inputs=None):
    """None, whatever the inputs are."""
