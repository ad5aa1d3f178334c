"""Batch solvers of others, each called with an `Objective`, and the last digits that they leave open."""
