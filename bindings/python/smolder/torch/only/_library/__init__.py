"""torch._library, which makes ops of functions: the names in it that libraries touch."""
