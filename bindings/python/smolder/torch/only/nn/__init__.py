"""Modules of torch.nn that such programs alone import."""
