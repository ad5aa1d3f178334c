"""Errors of options."""

from __future__ import annotations


class OptionError(ValueError):
    """Options that contradict each other, the data or the model: the command is wrong, not the data."""
