"""fiol on a cluster of two executors: the model of one machine, and clear errors for invalid data."""

import datetime
import os
import signal
import threading

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from campaigns import stream_kills
from pyspark.ml import Pipeline, PipelineModel
from pyspark.ml.evaluation import BinaryClassificationEvaluator
from pyspark.ml.feature import VectorAssembler
from pyspark.ml.linalg import Vectors
from pyspark.ml.tuning import CrossValidator, ParamGridBuilder
from pyspark.sql import functions as F  # noqa: N812 - what Spark's users call them

import fiol
from fiol.features.table_encoding import TableEncoding
from fiol.integrations import spark_rounds
from fiol.spark import (
    FIOLClassificationModel,
    FIOLClassifier,
    FIOLRegressionModel,
    FIOLRegressor,
    RefreshedModel,
    progressive_loss,
    train_stream,
)

ROWS = 3000


@pytest.fixture(scope="module")
def mixed():
    """Return numbers, text, dates and missing values, with clicks and prices that depend on them."""
    rng = np.random.default_rng(7)
    city = rng.choice(["Paris", "Rome", "Oslo"], ROWS)
    size = rng.normal(50.0, 10.0, ROWS)
    day = [datetime.date(2024, 1, 1) + datetime.timedelta(days=int(k)) for k in rng.integers(0, 300, ROWS)]
    score = (city == "Rome") * 2.0 + (size - 50.0) / 10.0
    frame = pd.DataFrame({"city": city, "size": size, "day": day})
    frame["price"] = score + rng.normal(0, 0.1, ROWS)
    frame["clicked"] = np.where(score + rng.logistic(size=ROWS) > 1.0, "yes", "no")
    gaps = rng.random(ROWS) < 0.1
    frame["size"] = frame["size"].astype(object).where(~gaps, None)
    frame["city"] = frame["city"].astype(object).where(rng.random(ROWS) > 0.05, None)
    return frame


@pytest.fixture(scope="module")
def frame(spark, mixed):
    schema = "city string, size double, day date, price double, clicked string"
    return spark.createDataFrame(list(mixed.itertuples(index=False, name=None)), schema).repartition(3).persist()


def table(frame):
    """The rows of a frame in the order in which Spark has them, as Arrow."""
    return pa.Table.from_batches(frame._collect_as_arrow()) if not hasattr(frame, "toArrow") else frame.toArrow()


FEATURES = ["city", "size", "day"]


def test_one_task_matches_one_machine_bitwise(frame):
    model = FIOLClassifier(labelCol="clicked", mode="one").fit(frame.select(*FEATURES, "clicked"))
    rows = table(frame)
    alone = fiol.Learner(table_encoding=TableEncoding.infer(rows.select(FEATURES).slice(0, 1000)))
    y = np.where(np.array(rows.column("clicked").to_pylist()) == "yes", 1.0, -1.0)
    alone.learn(rows.select(FEATURES), y)
    assert model.learner.names == alone.names
    assert model.learner.weights.tobytes() == alone.weights.tobytes()
    assert model.learner.rows == ROWS
    scored = model.transform(frame)
    found = np.array([row[0][1] for row in scored.select("rawPrediction").collect()])
    assert found.tobytes() == alone.scores(rows.select(FEATURES)).tobytes()
    first = scored.select("prediction", "probability", "clicked").first()
    assert first.prediction in ("yes", "no")
    assert first.probability.toArray().sum() == pytest.approx(1.0)


def test_member_parallel_matches_one_stream_bitwise(frame, tmp_path):
    """With a gate, a centered column, missing values and two passes: three tasks have members, and one their stack."""
    data, files = frame.select(*FEATURES, "clicked"), {}
    for mode in ("one", "members"):
        estimator = FIOLClassifier(labelCol="clicked", mode=mode, penalty="l1", numWorkers=3, passes=2)
        model = estimator.fit(data)
        model.save_learner(str(tmp_path / mode))
        files[mode] = (tmp_path / mode).read_bytes()
    assert files["members"] == files["one"]
    figures = model.partitions.toPandas()
    assert figures["partition"].tolist() == [0, 1, 2, -1, -1]  # shares, then the stack in both passes
    assert figures["rows"].tolist() == [2 * ROWS] * 3 + [ROWS] * 2
    with pytest.raises(TypeError, match="no members"):
        FIOLClassifier(labelCol="clicked", mode="members", stepSize="single").fit(data)


def test_distributed_rounds_are_close_to_one_stream(frame, monkeypatch):
    train, test = frame.randomSplit([0.8, 0.2], seed=1)
    losses = {}
    for mode in ("one", "rows"):
        model = FIOLClassifier(labelCol="clicked", featuresCol="", mode=mode, numWorkers=2, seed=3).fit(
            train.select(*FEATURES, "clicked")
        )
        rows = table(test)
        y = np.where(np.array(rows.column("clicked").to_pylist()) == "yes", 1.0, -1.0)
        losses[mode] = np.mean(np.logaddexp(0, -y * model.learner.scores(rows.select(FEATURES))))
        assert model.learner.rows == train.count()
    assert losses["rows"] < 1.03 * losses["one"]
    figures = model.partitions.toPandas()
    assert figures["rows"].sum() == model.learner.rows
    assert {0, 1} <= set(figures["partition"])
    data = train.select(*FEATURES, "clicked")  # put together by tasks, in blocks of features, the result is the same
    again = FIOLClassifier(labelCol="clicked", numWorkers=2, seed=3, summed="cluster").fit(data)
    assert again.learner.names == model.learner.names
    np.testing.assert_allclose(again.learner.weights, model.learner.weights, rtol=1e-8, atol=1e-10)
    cluster, called = spark_rounds.in_blocks, []
    monkeypatch.setattr(spark_rounds, "in_blocks", lambda *given: called.append(1) or cluster(*given))
    monkeypatch.setattr(spark_rounds, "MOST_BYTES", again.learner.nbytes)  # two learners are more: `auto` does the same
    auto = FIOLClassifier(labelCol="clicked", numWorkers=2, seed=3).fit(data)
    assert called
    assert auto.learner.weights.tobytes() == again.learner.weights.tobytes()
    with pytest.raises(ValueError, match="summed must be one of"):
        FIOLClassifier(labelCol="clicked", summed="nobody").fit(data)


def test_spark_learns_curves_and_pairs(frame, tmp_path):
    data, models = frame.select(*FEATURES, "price"), {}
    for mode in ("one", "rows"):
        estimator = FIOLRegressor(labelCol="price", mode=mode, features="auto", numWorkers=2, seed=3)
        models[mode] = estimator.fit(data)
        assert models[mode].learner.rows == ROWS
    rows = table(frame)
    alone = fiol.Learner(
        loss="squared_error", features="auto", table_encoding=TableEncoding.infer(rows.select(FEATURES).slice(0, 1000))
    )
    y = np.array(rows.column("price").to_pylist())
    alone.learn(rows.select(FEATURES), y)
    assert models["one"].learner.names == alone.names
    assert models["one"].learner.weights.tobytes() == alone.weights.tobytes()
    errors = [np.mean((model.learner.predict(rows.select(FEATURES)) - y) ** 2) for model in models.values()]
    assert errors[1] < 1.2 * errors[0]
    models["rows"].write().overwrite().save(str(tmp_path / "model"))
    loaded = FIOLRegressionModel.load(str(tmp_path / "model"))
    scores = [np.array(model.transform(data).toPandas()["prediction"]) for model in (models["rows"], loaded)]
    assert np.array_equal(*scores)
    with pytest.raises(ValueError, match="summed='driver'"):
        FIOLRegressor(labelCol="price", features="auto", summed="cluster").fit(data)
    with pytest.raises(TypeError, match="curves and pairs do not learn in parallel"):
        FIOLRegressor(labelCol="price", features="auto", mode="members").fit(data)


def test_spark_accepts_vectors_arrays_and_maps(spark):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3)) * (rng.random((400, 3)) < 0.7)
    y = X @ [1.0, -2.0, 0.5] + 3.0
    data = [
        (
            Vectors.dense(x) if k % 2 else Vectors.sparse(3, np.flatnonzero(x), x[x != 0]),
            [float(v) for v in x],
            {f"f{i}": float(v) for i, v in enumerate(x) if v},
            float(z),
            1.0 + k % 2,
        )
        for k, (x, z) in enumerate(zip(X, y, strict=True))
    ]
    frame = spark.createDataFrame(data, ["vector", "array", "map", "label", "weight"]).coalesce(1)
    alone = fiol.Learner(fiol.Stacked(fiol.Squared()))
    alone.learn(X, y, 1.0 + np.arange(400) % 2)
    for kind in ("vector", "array", "map"):
        model = FIOLRegressor(featuresCol=kind, weightCol="weight", mode="one").fit(frame)
        np.testing.assert_allclose(np.sort(model.learner.weights), np.sort(alone.weights), rtol=1e-9)
        found = [row.prediction for row in model.transform(frame).select("prediction").collect()]
        np.testing.assert_allclose(found, alone.predict(X), rtol=1e-9)


def test_spark_pipeline_search_and_save(spark, frame, tmp_path):
    numbers = frame.na.drop().selectExpr("size", "price", "if(clicked = 'yes', 1.0, 0.0) as label")
    classifier = FIOLClassifier(featuresCol="features", labelCol="label", mode="one")
    pipeline = Pipeline(stages=[VectorAssembler(inputCols=["size", "price"], outputCol="features"), classifier])
    grid = ParamGridBuilder().addGrid(classifier.penalty, ["none", "l2"]).build()
    search = CrossValidator(
        estimator=pipeline, estimatorParamMaps=grid, evaluator=BinaryClassificationEvaluator(), numFolds=2, seed=1
    )
    best = search.fit(numbers)
    assert min(best.avgMetrics) > 0.6
    path = str(tmp_path / "pipeline")
    best.bestModel.write().overwrite().save(path)
    again = PipelineModel.load(path)
    ours = again.stages[-1]
    assert isinstance(ours, FIOLClassificationModel)
    assert ours.classes == [0.0, 1.0]
    assert ours.learner.weights.tobytes() == best.bestModel.stages[-1].learner.weights.tobytes()
    both = [m.transform(numbers).select("probability").collect() for m in (again, best.bestModel)]
    assert both[0] == both[1]
    more = FIOLClassifier(featuresCol="features", labelCol="label", mode="one").setInitialModel(ours)
    assembled = again.stages[0].transform(numbers)
    assert more.fit(assembled).learner.rows == 2 * ours.learner.rows
    classifier.write().overwrite().save(str(tmp_path / "estimator"))
    assert FIOLClassifier.load(str(tmp_path / "estimator")).getOrDefault("mode") == "one"


def test_spark_three_classes_and_numbers(frame):
    three = frame.na.drop().select("size", "price", "city")
    for mode in ("one", "rows"):
        model = FIOLClassifier(labelCol="city", mode=mode, numWorkers=2).fit(three)
        assert model.classes == ["Oslo", "Paris", "Rome"]
        scored = model.transform(three).toPandas()
        assert (scored["prediction"] == scored["city"]).mean() > 0.5
        assert np.allclose([p.toArray().sum() for p in scored["probability"]], 1.0)
    model = FIOLRegressor(labelCol="price", mode="rows", numWorkers=2).fit(frame.select(*FEATURES, "price"))
    scored = model.transform(frame).toPandas()
    assert np.corrcoef(scored["prediction"], scored["price"])[0, 1] > 0.9


def test_spark_unusual_data(spark, frame):
    small = frame.select(*FEATURES, "clicked").limit(50)
    model = FIOLClassifier(labelCol="clicked", mode="rows", numWorkers=8).fit(small)  # most partitions have no rows
    assert model.learner.rows == 50
    # Unseen categories count with what is known of the other columns; nulls are values like others.
    kinds = "city string, size double, day date"
    day = datetime.date(2030, 1, 1)
    unseen = spark.createDataFrame([("Nowhere", 1.0, day), (None, None, None)], kinds).coalesce(1)
    found = [row.rawPrediction[1] for row in model.transform(unseen).select("rawPrediction").collect()]
    assert found == model.learner.scores(table(unseen)).tolist()
    assert model.transform(unseen.where("size > 5").repartition(3)).count() == 0  # nothing but empty partitions
    # Columns that are not as they were.
    with pytest.raises(ValueError, match="no column 'day'"):
        model.transform(frame.drop("day"))
    with pytest.raises(ValueError, match="'prediction' already"):
        model.transform(frame.withColumnRenamed("price", "prediction"))
    with pytest.raises(Exception, match=r"X\[0, 'size'\] must be a number, got 'large'"):
        model.transform(unseen.withColumn("size", F.lit("large"))).collect()
    with pytest.raises(ValueError, match="labelCol is 'label'"):
        FIOLClassifier().fit(frame)
    # Labels that say nothing.
    with pytest.raises(ValueError, match="nulls"):
        FIOLClassifier(labelCol="city").fit(frame.select("size", "city"))
    with pytest.raises(ValueError, match="1 class"):
        FIOLClassifier(labelCol="clicked").fit(small.where("clicked = 'yes'"))
    with pytest.raises(TypeError, match="no numbers"):
        FIOLRegressor(labelCol="clicked").fit(frame)
    with pytest.raises(Exception, match="column 'size' has nulls: leave such rows out"):
        FIOLRegressor(labelCol="size", mode="one").fit(frame.select("size", "price"))
    with pytest.raises(ValueError, match="there are no rows to learn from"):
        FIOLRegressor(labelCol="price").fit(frame.select("size", "price").where("size > 1e9"))
    # What is asked for does not go together.
    with pytest.raises(TypeError, match="featuresCol 'city' holds string"):
        FIOLClassifier(labelCol="clicked", featuresCol="city").fit(frame)
    with pytest.raises(ValueError, match="mode must be one of"):
        FIOLClassifier(labelCol="clicked", mode="all").fit(frame)
    with pytest.raises(ValueError, match="'softmax' is for more than two classes"):
        FIOLClassifier(labelCol="clicked", loss="softmax").fit(frame)
    with pytest.raises(ValueError, match="makes one pass"):
        FIOLClassifier(labelCol="clicked", passes=2).fit(frame.select(*FEATURES, "clicked"))


def test_spark_partitions_of_one_class_and_more_parts_than_slots(frame):
    """Rows are shuffled into rounds, whatever partitions they come in; five parts take turns in two slots."""
    sorted_by_label = frame.select(*FEATURES, "clicked").repartitionByRange(2, "clicked")
    model = FIOLClassifier(labelCol="clicked", mode="rows", numWorkers=5, seed=1).fit(sorted_by_label)
    figures = model.partitions.toPandas()
    assert figures["rows"].sum() == model.learner.rows == ROWS
    assert set(figures["partition"]) == {-1, 0, 1, 2, 3, 4}
    scored = model.transform(frame).toPandas()
    assert (scored["prediction"] == scored["clicked"]).mean() > 0.7


def test_every_parameter_has_a_setter_and_a_getter(frame):
    values = {
        "alpha": 0.5, "l1Ratio": 0.25, "penalty": "l2", "loss": "hinge", "algorithm": "FIOL", "stepSize": "single",
        "fitIntercept": False, "bits": 10, "features": "additive", "mode": "one", "numWorkers": 3,
        "summed": "driver", "passes": 2, "seed": 7,
        "featuresCol": "f", "labelCol": "l", "weightCol": "w", "predictionCol": "p", "probabilityCol": "q",
        "rawPredictionCol": "r", "uncertaintyCol": "u",
    }  # fmt: skip
    estimator = FIOLClassifier()
    assert {param.name for param in estimator.params} == set(values)
    for name, value in values.items():
        called = name[0].upper() + name[1:]
        assert getattr(estimator, f"set{called}")(value) is estimator
        assert getattr(estimator, f"get{called}")() == value
        assert getattr(FIOLClassifier, f"set{called}").__doc__
        assert getattr(FIOLClassifier, f"get{called}").__doc__ or name in ("featuresCol", "labelCol")
        assert estimator.explainParam(name)
    assert not hasattr(FIOLRegressor(), "setProbabilityCol")
    # What `transform` adds, under other names, and not at all.
    data = frame.select(*FEATURES, "clicked")
    model = FIOLClassifier(labelCol="clicked", mode="one").setUncertaintyCol("unsure").fit(data)
    model.setPredictionCol("said").setProbabilityCol("chance").setRawPredictionCol("")
    some = model.transform(data).limit(20)
    assert some.columns == [*FEATURES, "clicked", "chance", "said", "unsure"]
    rows = table(some.drop("chance"))
    assert rows.column("unsure").to_pylist() == model.learner.uncertainty(rows.select(FEATURES)).tolist()
    hinge = FIOLClassifier(labelCol="clicked", mode="one", stepSize="1.0", uncertaintyCol="unsure").fit(data)
    with pytest.raises(TypeError, match="uncertaintyCol"):
        hinge.transform(data)
    assert FIOLClassifier().setInitialModel(model).getInitialModel() is model


def fitted(rows):
    """Rows and weights of a model in rounds, to the bit."""
    model = FIOLRegressor(labelCol="price", mode="rows", numWorkers=2, seed=5).fit(rows)
    return model.learner.rows, model.learner.weights.tobytes()


def test_killed_worker_changes_nothing(spark, frame, tmp_path):
    """A task kills its own process once in the middle of training; Spark tries again, and counts no row twice."""
    flag = str(tmp_path / "killed")

    @F.udf("double")
    def deadly(value):
        if value is not None and value > 60.0 and not os.path.exists(flag):
            with open(flag, "w"):
                pass
            os.kill(os.getpid(), signal.SIGKILL)
        return value

    data = frame.na.drop().select("size", "price").coalesce(2)
    assert fitted(data) == fitted(data.withColumn("size", deadly("size")))
    assert os.path.exists(flag)


def executors(spark):
    """The processes of this session's executors: children of its own Java process."""
    found, own = [], {spark.sparkContext._gateway.proc.pid}
    parents = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat") as stat, open(f"/proc/{entry}/cmdline") as line:
                    parents[int(entry)] = int(stat.read().rpartition(")")[2].split()[1]), line.read()
            except OSError:
                continue
    for _ in range(3):
        own |= {pid for pid, (parent, _) in parents.items() if parent in own}
    found = [pid for pid in own if pid in parents and "CoarseGrainedExecutorBackend" in parents[pid][1]]
    return sorted(found)


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="processes are found in /proc")
def test_killed_executor_changes_nothing(spark, frame, monkeypatch):
    """One of two executors is killed while a round is under way, with the rows it held: the model is the same."""
    data = frame.na.drop().select("size", "price").repartition(3, "size")  # rows come by a shuffle, in any order
    calm, killed, whole = fitted(data), [], spark_rounds.one_round

    def deadly_round(some, rows, base, this, how):
        if this.number == 3:
            killed.append(executors(spark)[0])
            threading.Timer(0.05, os.kill, (killed[0], signal.SIGKILL)).start()
        return whole(some, rows, base, this, how)

    monkeypatch.setattr(spark_rounds, "one_round", deadly_round)
    assert fitted(data) == calm
    assert killed[0] not in executors(spark)


def test_killed_stream_counts_every_batch_once(tmp_path):
    """A short version of tests/campaigns/stream_kills.py."""
    hits, again, lives = stream_kills.campaign(2, 4, 6, tmp_path)
    assert hits >= 1
    assert lives == hits + 1
    assert again >= 1  # a batch that was saved, and handed over again


def test_stream_counts_every_batch_once(spark, frame, tmp_path):
    source, checkpoint, path = tmp_path / "in", tmp_path / "checkpoint", tmp_path / "stream.fiol"
    first = FIOLRegressor(labelCol="price", mode="one").fit(frame.na.drop().select("size", "price").limit(40))
    data = frame.na.drop().select("size", "price").toPandas()
    source.mkdir()
    for k in range(4):
        data[k * 100 : (k + 1) * 100].to_json(source / f"{k}.json", orient="records", lines=True)

    def stream():
        return spark.readStream.schema("size double, price double").option("maxFilesPerTrigger", 1).json(str(source))

    query = train_stream(stream(), path, first, checkpoint, trigger={"availableNow": True})
    query.awaitTermination()
    learner = fiol.load(path)
    assert learner.rows == 440
    assert progressive_loss(learner) > 0.0
    assert len(query.trainer.losses) == 4
    trainer = query.trainer
    before = trainer.learner.weights.tobytes()
    trainer(frame.limit(10), trainer.last)  # handed over again: skipped
    assert trainer.learner.weights.tobytes() == before
    refreshed = RefreshedModel(path, first)
    some = frame.na.drop().orderBy("size").limit(5)
    again = first.copy()
    again.learner = learner
    both = [one.transform(some).select("prediction").collect() for one in (refreshed, again)]
    assert both[0] == both[1]
    # A stream is scored by whatever is in the file when a batch comes.
    found = []

    def score(batch, number):
        rows = refreshed.transform(batch).select("size", "prediction").collect()
        found.append(([row["size"] for row in rows], [row.prediction for row in rows]))
        if number == 0:
            first.learner.save(path)  # another model takes its place

    writer = stream().writeStream.foreachBatch(score).option("checkpointLocation", str(tmp_path / "scored"))
    writer.trigger(availableNow=True).start().awaitTermination()
    assert len(found) == 4
    for (sizes, predicted), model in zip(found, (learner, first.learner, first.learner, first.learner), strict=True):
        assert predicted == model.predict(pa.table({"size": sizes})).tolist()
    assert found[0][1] != first.learner.predict(pa.table({"size": found[0][0]})).tolist()
