"""The corpus: see run.py."""
