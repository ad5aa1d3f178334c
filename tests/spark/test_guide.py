"""The code of the guide on Spark runs as it is printed there, with other paths."""

import json
import re
import textwrap
from pathlib import Path

import numpy as np

import fiol

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "spark.md").read_text(encoding="utf-8")


def code_from(start):
    """Return the indented block that begins with this line."""
    blocks = re.findall(r"(?:^    .*\n(?:\n+(?=    ))?)+", GUIDE, re.MULTILINE)
    (found,) = (block for block in map(textwrap.dedent, blocks) if block.startswith(start))
    return found


def rows(count):
    return [
        {"site": ("news", "sport")[k % 2], "hour": float(k % 24), "clicked": int((k % 2) * 12 + k % 24 > 17)}
        for k in range(count)
    ]


def test_code_of_the_guide_runs(spark, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame = spark.createDataFrame(rows(400), "site string, hour double, clicked int")
    names = {"frame": frame, "more": frame.drop("clicked")}
    exec(code_from("from fiol.spark import FIOLClassifier").replace("hdfs:///models", f"file://{tmp_path}"), names)
    scored = names["scored"].toPandas()
    assert {"prediction", "probability", "rawPrediction"} <= {*scored.columns}
    assert np.mean(scored["prediction"] == [row["clicked"] for row in rows(400)]) > 0.8
    assert fiol.load("clicks.fiol").rows == 400
    assert (tmp_path / "clicks").is_dir()

    for k in range(2):
        folder = tmp_path / "arriving"
        folder.mkdir(exist_ok=True)
        (folder / f"{k}.json").write_text("".join(json.dumps(row) + "\n" for row in rows(100)))
    reader = spark.readStream.schema("site string, hour double, clicked int").option("maxFilesPerTrigger", 1)
    names |= {"stream": reader.json(str(folder)), "other": reader.json(str(folder))}
    block = code_from("from fiol.spark import RefreshedModel")
    for path in ("scores", "checkpoints/clicks"):  # Spark has another working directory
        block = block.replace(f'"{path}"', f'"file://{tmp_path}/{path}"')
    exec(block.replace("query.trainer.losses", "query.processAllAvailable()"), names)
    try:
        assert len(names["query"].trainer.losses) == 2
        assert fiol.load("clicks.fiol").rows == 600
        for query in spark.streams.active:
            query.processAllAvailable()
        assert spark.read.parquet(f"file://{tmp_path}/scores").count() == 200
    finally:
        for query in spark.streams.active:
            query.stop()
