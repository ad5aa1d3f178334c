"""fiol for River: `FIOLClassifier` and `FIOLRegressor` (extra `river`)."""

from fiol.integrations.river import FIOLClassifier, FIOLRegressor

__all__ = ["FIOLClassifier", "FIOLRegressor"]
