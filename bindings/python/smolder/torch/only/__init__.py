"""Modules of torch's that only programs written for it ask for: each is imported under torch's name, by the alias."""
