"""The parts of a round as values: losses, regularizers, geometries, solvers, step sizes, and the problem they make."""
