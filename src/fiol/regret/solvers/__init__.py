"""Batch solvers of other libraries, each called with an `Objective`, and Newton steps for the last digits."""
