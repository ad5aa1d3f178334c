"""fiol for Spark (extra `spark`): estimators, models, streams.

| mode of an estimator | who learns |
|---|---|
| `rows` (default) | partitions side by side, in rounds: about the model of a single stream, see docs/guides/spark.md |
| `one` | one task, from rows that all tasks have read: the model of a single stream, to the bit |
| `members` | the ensemble's members in several tasks, then one task their stack: the same model, to the bit |
"""

from fiol.integrations.spark import FIOLClassificationModel, FIOLClassifier, FIOLRegressionModel, FIOLRegressor
from fiol.integrations.spark_stream import RefreshedModel, progressive_loss, train_stream

__all__ = [
    "FIOLClassificationModel",
    "FIOLClassifier",
    "FIOLRegressionModel",
    "FIOLRegressor",
    "RefreshedModel",
    "progressive_loss",
    "train_stream",
]
