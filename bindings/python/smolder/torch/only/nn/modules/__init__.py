"""Modules of torch.nn.modules that such programs alone import."""
