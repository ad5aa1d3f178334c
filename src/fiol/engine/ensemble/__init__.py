"""Ensembles: members in SIMD lanes, their stack, and the feature gate."""
