"""Parameters of Spark's estimators and models: their descriptions, defaults, and methods that get and set them."""

from __future__ import annotations

from typing import Any

try:
    from pyspark.ml.param import Param, Params, TypeConverters
    from pyspark.ml.param.shared import (
        HasFeaturesCol,
        HasLabelCol,
        HasPredictionCol,
        HasProbabilityCol,
        HasRawPredictionCol,
        HasSeed,
        HasWeightCol,
    )
except ImportError as error:
    raise ImportError("fiol.spark needs PySpark: pip install fiol[spark]") from error


def setter_of(name: str) -> Any:
    """Return the method that sets a parameter, and returns the estimator or model, as Spark's own do."""

    def set_parameter(self: Any, value: Any) -> Any:
        return self._set(**{name: value})

    set_parameter.__name__ = "set" + name[0].upper() + name[1:]
    set_parameter.__doc__ = f"Set `{name}`; returns the same object, so that calls can be chained."
    return set_parameter


def getter_of(name: str) -> Any:
    """Return the method that returns a parameter, or its default."""

    def get_parameter(self: Any) -> Any:
        return self.getOrDefault(name)

    get_parameter.__name__ = "get" + name[0].upper() + name[1:]
    get_parameter.__doc__ = f"`{name}`, or its default."
    return get_parameter


class SharedParameters(HasFeaturesCol, HasLabelCol, HasPredictionCol, HasWeightCol, HasSeed):  # type: ignore[misc]
    """Parameters that estimators and models share."""

    featuresCol = Param(
        Params._dummy(),
        "featuresCol",
        "a column of vectors, arrays, or maps from names to numbers; '' for the columns of the frame as they are",
        typeConverter=TypeConverters.toString,
    )
    loss = Param(Params._dummy(), "loss", "the loss, by its name", typeConverter=TypeConverters.toString)
    penalty = Param(Params._dummy(), "penalty", "none, l1, l2 or elasticnet", typeConverter=TypeConverters.toString)
    alpha = Param(Params._dummy(), "alpha", "strength of the penalty", typeConverter=TypeConverters.toFloat)
    l1Ratio = Param(Params._dummy(), "l1Ratio", "share of l1 in elasticnet", typeConverter=TypeConverters.toFloat)
    algorithm = Param(Params._dummy(), "algorithm", "FIOL, SGD, ...", typeConverter=TypeConverters.toString)
    stepSize = Param(
        Params._dummy(),
        "stepSize",
        "auto, single, or a number for constant steps",
        typeConverter=TypeConverters.toString,
    )
    fitIntercept = Param(
        Params._dummy(), "fitIntercept", "whether there is an intercept", typeConverter=TypeConverters.toBoolean
    )
    bits = Param(
        Params._dummy(), "bits", "fold features into 2^bits by hashing; 0: no", typeConverter=TypeConverters.toInt
    )
    features = Param(
        Params._dummy(),
        "features",
        "linear: columns as they are; additive: and curves; pairwise, auto: and pairs of columns",
        typeConverter=TypeConverters.toString,
    )
    mode = Param(
        Params._dummy(),
        "mode",
        "rows: partitions learn side by side in rounds; one: one task learns, the learner of a single stream; members: "
        "the same learner, the ensemble's members spread over tasks",
        typeConverter=TypeConverters.toString,
    )
    numWorkers = Param(
        Params._dummy(),
        "numWorkers",
        "parts of a round; 0: as many as Spark runs at once",
        typeConverter=TypeConverters.toInt,
    )
    summed = Param(
        Params._dummy(),
        "summed",
        "which process merges what partitions learned in mode rows: driver, cluster (tasks, by blocks of features), or "
        "auto: the cluster if the learners of a round are more than 256 MiB",
        typeConverter=TypeConverters.toString,
    )
    passes = Param(
        Params._dummy(), "passes", "passes over the rows (modes one and members)", typeConverter=TypeConverters.toInt
    )
    uncertaintyCol = Param(
        Params._dummy(),
        "uncertaintyCol",
        "standard deviation of the score; '': none",
        typeConverter=TypeConverters.toString,
    )

    # Spark's own classes have the others: getFeaturesCol, getLabelCol and so on.
    getLoss = getter_of("loss")
    getPenalty = getter_of("penalty")
    getAlpha = getter_of("alpha")
    getL1Ratio = getter_of("l1Ratio")
    getAlgorithm = getter_of("algorithm")
    getStepSize = getter_of("stepSize")
    getFitIntercept = getter_of("fitIntercept")
    getBits = getter_of("bits")
    getFeatures = getter_of("features")
    getMode = getter_of("mode")
    getNumWorkers = getter_of("numWorkers")
    getSummed = getter_of("summed")
    getPasses = getter_of("passes")
    getUncertaintyCol = getter_of("uncertaintyCol")
    # What `transform` adds can be named at any time; everything else is for estimators.
    setPredictionCol = setter_of("predictionCol")
    setUncertaintyCol = setter_of("uncertaintyCol")


#: The defaults of both estimators.
DEFAULTS = {
    "featuresCol": "",
    "labelCol": "label",
    "predictionCol": "prediction",
    "penalty": "none",
    "alpha": 1e-4,
    "l1Ratio": 0.15,
    "algorithm": "FIOL",
    "stepSize": "auto",
    "fitIntercept": True,
    "bits": 0,
    "features": "linear",
    "mode": "rows",
    "numWorkers": 0,
    "summed": "auto",
    "passes": 1,
    "uncertaintyCol": "",
    "seed": 0,
}


class ClassColumns(HasProbabilityCol, HasRawPredictionCol):  # type: ignore[misc]
    """The columns that classifiers have beside others."""

    setProbabilityCol = setter_of("probabilityCol")
    setRawPredictionCol = setter_of("rawPredictionCol")
