"""Merging what engines learned apart from each other."""
