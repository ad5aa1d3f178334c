"""fiol for Spark: `FIOLClassifier`, `FIOLRegressor` and their models (extra `spark`)."""

from fiol.doors.spark import FIOLClassificationModel, FIOLClassifier, FIOLRegressionModel, FIOLRegressor

__all__ = ["FIOLClassificationModel", "FIOLClassifier", "FIOLRegressionModel", "FIOLRegressor"]
