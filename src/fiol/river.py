"""fiol for River: `FIOLClassifier` and `FIOLRegressor` (extra `river`)."""

from fiol.doors.river import FIOLClassifier, FIOLRegressor

__all__ = ["FIOLClassifier", "FIOLRegressor"]
