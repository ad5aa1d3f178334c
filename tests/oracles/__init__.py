"""Slow, obvious references that share no code with the library."""
