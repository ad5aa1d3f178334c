"""Rows of any container as canonical chunks, with targets, sample weights, names and labels."""
