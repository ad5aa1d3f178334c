"""Compiled loops over the bytes of text: the rows of every format."""
