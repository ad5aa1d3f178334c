"""Spark's view of a learner: `FIOLClassifier` and `FIOLRegressor`, estimators and models of Spark's own kind.

No mathematics of its own: `fiol.integrations.spark_rows` turns batches into rows, `fiol.integrations.spark_training`
lets tasks learn. Everything goes through `DataFrame`s alone. Needs PySpark 3.5 or newer, the extra
`fiol[spark]`, and Java 17 or newer where Spark runs.
"""

from __future__ import annotations

import json
import pickle
import tempfile
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np

try:
    from pyspark import __version__ as spark_version
    from pyspark import keyword_only
    from pyspark.ml import Estimator, Model
    from pyspark.ml.functions import array_to_vector
    from pyspark.ml.util import (
        DefaultParamsReadable,
        DefaultParamsReader,
        DefaultParamsWritable,
        DefaultParamsWriter,
        MLReadable,
        MLReader,
        MLWritable,
        MLWriter,
    )
    from pyspark.sql import SparkSession
    from pyspark.sql.types import (
        ArrayType,
        DataType,
        DoubleType,
        MapType,
        NumericType,
        StringType,
        StructField,
        StructType,
    )
except ImportError as error:
    raise ImportError("fiol.spark needs PySpark: pip install fiol[spark]") from error

from fiol.components.joint_losses import JointLoss
from fiol.features.frames import arrow
from fiol.features.table_encoding import TableEncoding
from fiol.integrations.parameters import make_update
from fiol.integrations.spark_parameters import DEFAULTS, ClassColumns, SharedParameters, setter_of
from fiol.integrations.spark_rounds import SUMMED, Rounds, train_in_rounds
from fiol.integrations.spark_rows import OF_ARRAYS, OF_MAPS, OF_VECTORS, PLAIN_COLUMNS, SparkRows
from fiol.integrations.spark_training import (
    ROWS_FOR_CODING,
    PartFigures,
    first_rows,
    quoted,
    train_in_one,
    train_members,
)
from fiol.learner import Learner
from fiol.learner.core import softmax
from fiol.names import CLASSIFICATION, JOINT, REGRESSION, component_named
from fiol.persistence.model import load

#: From version 4 on, Spark writes metadata by sessions, which Spark Connect has, too.
NEWER = int(spark_version.partition(".")[0]) >= 4
MODES = ("rows", "one", "members")
#: A regressor's or classifier's frame of figures, a row per part of a round.
FIGURES = "round int, partition int, rows long, loss double, seconds double"
#: What classes may be.
MOST_LABELS = 1000


class _SparkEstimator(SharedParameters, Estimator, DefaultParamsReadable, DefaultParamsWritable):  # type: ignore[misc]
    """The parts that both estimators share."""

    #: A model of this module that learning goes on from.
    initial_model: Any = None

    setFeaturesCol = setter_of("featuresCol")
    setLabelCol = setter_of("labelCol")
    setWeightCol = setter_of("weightCol")
    setSeed = setter_of("seed")
    setLoss = setter_of("loss")
    setPenalty = setter_of("penalty")
    setAlpha = setter_of("alpha")
    setL1Ratio = setter_of("l1Ratio")
    setAlgorithm = setter_of("algorithm")
    setStepSize = setter_of("stepSize")
    setFitIntercept = setter_of("fitIntercept")
    setBits = setter_of("bits")
    setFeatures = setter_of("features")
    setMode = setter_of("mode")
    setNumWorkers = setter_of("numWorkers")
    setSummed = setter_of("summed")
    setPasses = setter_of("passes")

    def setParams(self, **given: Any) -> Any:
        """Set parameters by name."""
        return self._set(**{name: value for name, value in given.items() if value is not None})

    def setInitialModel(self, model: Any) -> Any:
        """Go on from a model of this module, which keeps its columns, table encoding and classes."""
        if not isinstance(model, _SparkModel):
            raise TypeError(f"initialModel must be a model of fiol.spark, got {type(model).__name__}")
        self.initial_model = model
        return self

    def getInitialModel(self) -> Any:
        """Return the model that learning continues, or None."""
        return self.initial_model

    def copy(self, extra: Any = None) -> Any:
        new = super().copy(extra)
        new.initial_model = self.initial_model
        return new

    def _fit(self, dataset: Any) -> Any:
        if self.getOrDefault("mode") not in MODES:
            raise ValueError(f"mode must be one of {', '.join(MODES)}, got {self.getOrDefault('mode')!r}")
        if self.initial_model is not None:
            rows, learner = self.initial_model.rows, self.initial_model.learner.copy()
        else:
            rows = self._rows(dataset)
            learner = self._learner(dataset, rows)
        figures = list[PartFigures]()
        workers, passes = self.getOrDefault("numWorkers") or slots(), self.getOrDefault("passes")
        if self.getOrDefault("mode") == "one":
            learner, figures = train_in_one(dataset, rows, learner, passes)
        elif self.getOrDefault("mode") == "members":
            learner, figures = train_members(dataset, rows, learner, passes, workers)
        else:
            if passes != 1:
                raise ValueError("mode='rows' makes one pass: use mode='one' for several")
            if self.getOrDefault("summed") not in SUMMED:
                raise ValueError(f"summed must be one of {', '.join(SUMMED)}, got {self.getOrDefault('summed')!r}")
            seed = int(self.getOrDefault("seed"))
            how = Rounds(workers, seed, self.getOrDefault("summed"), figures.append)
            learner = train_in_rounds(dataset, rows, learner, how)
        model = self._model(learner, rows, figures)
        return self._copyValues(model)

    def _rows(self, dataset: Any) -> SparkRows:
        """Which columns are what."""
        named, label = self.getOrDefault("featuresCol"), self.getOrDefault("labelCol")
        weight = (
            self.getOrDefault("weightCol") if self.isDefined("weightCol") and self.getOrDefault("weightCol") else None
        )
        names = dataset.columns
        for column, what in ((label, "labelCol"), (weight, "weightCol"), (named or None, "featuresCol")):
            if column is not None and column not in names:
                raise ValueError(f"{what} is {column!r}, but the frame has {', '.join(names)}")
        if named:
            features: tuple[str, ...] = (named,)
            kind = kind_of_column(dataset.schema[named].dataType, named)
        else:
            kind, features = PLAIN_COLUMNS, tuple(name for name in names if name not in (label, weight))
        return SparkRows(kind, features, label, weight, self._classes(dataset, label))

    def _classes(self, dataset: Any, label: str) -> tuple[Any, ...] | None:
        """Return the sorted classes; None for numbers."""
        raise NotImplementedError

    def _update(self, classes: tuple[Any, ...] | None) -> Any:
        """Return the update that the parameters describe."""
        given = {name: self.getOrDefault(name) for name in ("alpha", "algorithm")}
        penalty, step = self.getOrDefault("penalty"), self.getOrDefault("stepSize")
        step = step if step in ("auto", "single", "scale_free", "adagrad", "inverse_sqrt") else float(step)
        loss = self._loss(classes)
        return make_update(
            loss, None if penalty == "none" else penalty, l1_ratio=self.getOrDefault("l1Ratio"), step_size=step, **given
        )

    def _learner(self, dataset: Any, rows: SparkRows) -> Learner:
        """Return a learner without rounds that has the classes and the encoding of columns."""
        options: dict[str, Any] = {
            "intercept": self.getOrDefault("fitIntercept"),
            "bits": self.getOrDefault("bits") or None,
            "features": self.getOrDefault("features"),
        }
        if rows.kind == PLAIN_COLUMNS:
            tables = first_rows(dataset, list(rows.features), ROWS_FOR_CODING)
            if not tables:
                raise ValueError("there are no rows to learn from")
            options["table_encoding"] = TableEncoding.infer(arrow().concat_tables(tables))
        if rows.classes is not None and len(rows.classes) != 2:
            options["classes"] = list(rows.classes)
        return Learner(self._update(rows.classes), **options)


class FIOLClassifier(_SparkEstimator, ClassColumns):
    """A linear classifier that learns in exact steps, on Spark: `FIOLClassifier(labelCol="clicked").fit(frame)`.

    The label may be a number, a boolean or a text; of two, the larger one is positive. `prediction` is the label, where
    that is a number as a double. `probability` and `rawPrediction` are vectors of Spark's, in the order of
    `model.classes`. See `fiol.spark` for modes.
    """

    @keyword_only  # type: ignore[untyped-decorator]
    def __init__(
        self,
        *,
        featuresCol: Any = None,
        labelCol: Any = None,
        weightCol: Any = None,
        predictionCol: Any = None,
        probabilityCol: Any = None,
        rawPredictionCol: Any = None,
        uncertaintyCol: Any = None,
        loss: Any = None,
        penalty: Any = None,
        alpha: Any = None,
        l1Ratio: Any = None,
        algorithm: Any = None,
        stepSize: Any = None,
        fitIntercept: Any = None,
        bits: Any = None,
        features: Any = None,
        mode: Any = None,
        numWorkers: Any = None,
        summed: Any = None,
        passes: Any = None,
        seed: Any = None,
    ) -> None:
        super().__init__()
        self._setDefault(**DEFAULTS, loss="auto", probabilityCol="probability", rawPredictionCol="rawPrediction")
        self.setParams(**self._input_kwargs)

    def _classes(self, dataset: Any, label: str) -> tuple[Any, ...]:
        found = [row[0] for row in dataset.select(*quoted([label])).distinct().limit(MOST_LABELS + 1).collect()]
        if None in found:
            raise ValueError(f"column {label!r} has nulls: leave rows without a label out")
        if len(found) > MOST_LABELS:
            raise ValueError(
                f"column {label!r} has more than {MOST_LABELS} different values: is it a number to predict?"
            )
        if len(found) < 2:
            raise ValueError(
                f"column {label!r} has {len(found)} class{'es' * (len(found) != 1)}: two or more are needed"
            )
        return tuple(sorted(float(label) if isinstance(label, Decimal) else label for label in found))

    def _loss(self, classes: Any) -> Any:
        name = self.getOrDefault("loss")
        if name == "auto":
            name = "log_loss" if len(classes) == 2 else "softmax"
        loss = component_named(name, {**CLASSIFICATION, **JOINT})
        if isinstance(loss, JointLoss) and len(classes) == 2:
            raise ValueError(f"loss={name!r} is for more than two classes: for two, 'auto' is the logistic loss")
        return loss

    def _model(self, learner: Learner, rows: SparkRows, figures: list[PartFigures]) -> FIOLClassificationModel:
        return FIOLClassificationModel(learner, rows, figures)


class FIOLRegressor(_SparkEstimator):
    """A linear regression that learns in exact steps, on Spark: `FIOLRegressor(labelCol="price").fit(frame)`."""

    @keyword_only  # type: ignore[untyped-decorator]
    def __init__(
        self,
        *,
        featuresCol: Any = None,
        labelCol: Any = None,
        weightCol: Any = None,
        predictionCol: Any = None,
        uncertaintyCol: Any = None,
        loss: Any = None,
        penalty: Any = None,
        alpha: Any = None,
        l1Ratio: Any = None,
        algorithm: Any = None,
        stepSize: Any = None,
        fitIntercept: Any = None,
        bits: Any = None,
        features: Any = None,
        mode: Any = None,
        numWorkers: Any = None,
        summed: Any = None,
        passes: Any = None,
        seed: Any = None,
    ) -> None:
        super().__init__()
        self._setDefault(**DEFAULTS, loss="squared_error")
        self.setParams(**self._input_kwargs)

    def _classes(self, dataset: Any, label: str) -> None:
        if not isinstance(dataset.schema[label].dataType, NumericType):
            raise TypeError(f"column {label!r} holds {dataset.schema[label].dataType.simpleString()}, no numbers")

    def _loss(self, classes: Any) -> Any:
        return component_named(self.getOrDefault("loss"), REGRESSION)

    def _model(self, learner: Learner, rows: SparkRows, figures: list[PartFigures]) -> FIOLRegressionModel:
        return FIOLRegressionModel(learner, rows, figures)


# --- models -----------------------------------------------------------------------------------


class _SparkModel(SharedParameters, Model, MLReadable, MLWritable):  # type: ignore[misc]
    """A trained model: `learner` is the `fiol.Learner`, `rows` says which columns it reads."""

    def __init__(self, learner: Any = None, rows: Any = None, figures: Any = ()) -> None:
        super().__init__()
        self._setDefault(**DEFAULTS)
        self.learner, self.rows, self._figures = learner, rows, list(figures)

    @property
    def partitions(self) -> Any:
        """What every part of every round did, as a frame: rows, mean loss before learning, seconds."""
        return SparkSession.getActiveSession().createDataFrame([tuple(one) for one in self._figures], FIGURES)

    def getInitialModel(self) -> Any:
        """Return the model that learning continues, or None."""
        return self.initial_model

    def copy(self, extra: Any = None) -> Any:
        new = super().copy(extra)
        new.learner, new.rows, new._figures = self.learner, self.rows, self._figures
        return new

    def _transform(self, dataset: Any) -> Any:
        missing = [name for name in self.rows.features if name not in dataset.columns]
        if missing:
            raise ValueError(f"the frame has no column {missing[0]!r}, which the model was trained with")
        if self.rows.kind != PLAIN_COLUMNS:
            name = self.rows.features[0]
            kind = kind_of_column(dataset.schema[name].dataType, name)
            if kind != self.rows.kind:
                raise TypeError(
                    f"column {name!r} holds features as {kind}, the model was trained with {self.rows.kind}"
                )
        if self.getOrDefault("uncertaintyCol") and not self.learner.update.has_variance():
            brief = self.learner.update.brief()
            raise TypeError(f"uncertaintyCol needs Curvature steps, which this model has not: {brief}")
        fields, columns = self._outputs()
        taken = [field.name for field in fields if field.name in dataset.columns]
        if taken:
            raise ValueError(f"the frame has a column {taken[0]!r} already: name another one for the output")
        model, rows = pickle.dumps(self.learner), SparkRows(self.rows.kind, self.rows.features)
        compute = self._computed()

        def score(batches: Iterator[Any]) -> Iterator[Any]:
            pa, learner = arrow(), pickle.loads(model)
            for batch in batches:
                found = compute(learner, rows.features_of(batch)) if batch.num_rows else None
                if found is not None:
                    names = [*batch.schema.names, *(field.name for field in fields)]
                    yield pa.RecordBatch.from_arrays([*batch.columns, *found], names=names)

        scored = dataset.mapInArrow(score, StructType([*dataset.schema.fields, *fields]))
        for name in columns:
            scored = scored.withColumn(name, array_to_vector(quoted([name])[0]))
        return scored

    def _outputs(self) -> tuple[list[Any], list[str]]:
        """New columns as tasks give them, and which of them become vectors."""
        raise NotImplementedError

    def write(self) -> Any:
        return _ModelWriter(self)

    @classmethod
    def read(cls) -> Any:
        return _ModelReader(cls)

    def save_learner(self, path: str) -> None:
        """Write the learner alone to a file of this machine, which `fiol.load` and the command read."""
        self.learner.save(path)


class FIOLClassificationModel(_SparkModel, ClassColumns):
    """What `FIOLClassifier.fit` gives."""

    def __init__(self, learner: Any = None, rows: Any = None, figures: Any = ()) -> None:
        super().__init__(learner, rows, figures)
        self._setDefault(probabilityCol="probability", rawPredictionCol="rawPrediction")

    @property
    def classes(self) -> list[Any]:
        """The labels, in the order of probabilities."""
        return list(self.rows.classes)

    @property
    def numClasses(self) -> int:
        """How many classes there are."""
        return len(self.rows.classes)

    def _outputs(self) -> tuple[list[Any], list[str]]:
        vectors = [self.getOrDefault("rawPredictionCol")]
        if self.learner.update.loss.link == "logit":
            vectors.append(self.getOrDefault("probabilityCol"))
        vectors = [name for name in vectors if name]
        label: DataType = StringType() if isinstance(self.rows.classes[0], str) else DoubleType()
        fields = [StructField(name, ArrayType(DoubleType())) for name in vectors]
        fields.append(StructField(self.getOrDefault("predictionCol"), label))
        if self.getOrDefault("uncertaintyCol"):
            fields.append(StructField(self.getOrDefault("uncertaintyCol"), DoubleType()))
        return fields, vectors

    def _computed(self) -> Any:
        raw, proba = bool(self.getOrDefault("rawPredictionCol")), bool(self.getOrDefault("probabilityCol"))
        logit, uncertain = self.learner.update.loss.link == "logit", bool(self.getOrDefault("uncertaintyCol"))
        classes = list(self.rows.classes)

        def compute(learner: Any, X: Any) -> list[Any]:
            pa, scores = arrow(), learner.scores(X)
            if len(classes) == 2:
                both, chosen = np.column_stack([-scores, scores]), (scores > 0.0).astype(int)
            else:
                order = [learner.classes.index(label) for label in classes]
                both = scores[:, order]
                chosen = both.argmax(axis=1)
            found = [listed(both)] if raw else []
            if logit and proba:
                predicted = learner.core.predictions(scores.copy())
                found.append(
                    listed(np.column_stack([1.0 - predicted, predicted]) if len(classes) == 2 else softmax(both))
                )
            are_text = isinstance(classes[0], str)
            labels = [classes[k] if are_text else float(classes[k]) for k in chosen.tolist()]
            found.append(pa.array(labels, pa.string() if are_text else pa.float64()))
            return [*found, pa.array(learner.uncertainty(X))] if uncertain else found

        return compute


class FIOLRegressionModel(_SparkModel):
    """What `FIOLRegressor.fit` gives."""

    def _outputs(self) -> tuple[list[Any], list[str]]:
        names = [self.getOrDefault("predictionCol"), self.getOrDefault("uncertaintyCol")]
        return [StructField(name, DoubleType()) for name in names if name], []

    def _computed(self) -> Any:
        uncertain = bool(self.getOrDefault("uncertaintyCol"))

        def compute(learner: Any, X: Any) -> list[Any]:
            pa, found = arrow(), learner.predict(X)
            return [pa.array(found), pa.array(learner.uncertainty(X))] if uncertain else [pa.array(found)]

        return compute


def listed(values: Any) -> Any:
    """Return a matrix as an Arrow array of lists."""
    pa = arrow()
    rows, wide = values.shape
    offsets = pa.array(np.arange(0, rows * wide + 1, wide, dtype=np.int32))
    return pa.ListArray.from_arrays(offsets, pa.array(np.ascontiguousarray(values).reshape(-1)))


def kind_of_column(kind: Any, name: str) -> str:
    """Return how a column stores features; raise TypeError if it holds no features."""
    if type(kind).__name__ == "VectorUDT":
        return OF_VECTORS
    if isinstance(kind, ArrayType) and isinstance(kind.elementType, NumericType):
        return OF_ARRAYS
    if isinstance(kind, MapType) and isinstance(kind.keyType, StringType):
        return OF_MAPS
    raise TypeError(
        f"featuresCol {name!r} holds {kind.simpleString()}: it must be a vector, an array of numbers or a map from "
        "names to numbers; leave featuresCol out to learn from the columns as they are"
    )


def slots() -> int:
    """Return how many tasks Spark runs at once; 2 if Spark does not say."""
    session = SparkSession.getActiveSession()
    try:
        return max(int(session.sparkContext.defaultParallelism), 1)
    except Exception:  # Spark Connect has no context
        return 2


# --- persistence ------------------------------------------------------------------------------


class _ModelWriter(MLWriter):  # type: ignore[misc]
    """Parameters as Spark writes them, and our own model file beside them, as bytes in a Parquet file."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def saveImpl(self, path: str) -> None:
        """Write all of it."""
        session = self.sparkSession
        DefaultParamsWriter.saveMetadata(self.model, path, session if NEWER else self.sc)
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "model"
            self.model.learner.save(file)
            data = file.read_bytes()
        rows = json.dumps({**self.model.rows.__dict__, "figures": [list(one) for one in self.model._figures]})
        frame = session.createDataFrame([(bytearray(data), rows)], "model binary, rows string")
        frame.coalesce(1).write.mode("overwrite").parquet(f"{path}/fiol")


class _ModelReader(MLReader):  # type: ignore[misc]
    """Reads what `_ModelWriter` has written."""

    def __init__(self, kind: Any) -> None:
        super().__init__()
        self.kind = kind

    def load(self, path: str) -> Any:
        """Return the model in a folder."""
        session = self.sparkSession
        metadata = DefaultParamsReader.loadMetadata(path, session if NEWER else self.sc)
        row = session.read.parquet(f"{path}/fiol").first()
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "model"
            file.write_bytes(bytes(row.model))
            learner = load(file)
        given = json.loads(row.rows)
        figures = [PartFigures(*one) for one in given.pop("figures")]
        classes = given.pop("classes")
        rows = SparkRows(
            **{**given, "features": tuple(given["features"])}, classes=None if classes is None else tuple(classes)
        )
        model = self.kind(learner, rows, figures)
        model._resetUid(metadata["uid"])
        DefaultParamsReader.getAndSetParams(model, metadata)
        return model
