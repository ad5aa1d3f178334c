"""A real cluster of two executor processes, started from the pip package: `make test-spark`."""

import os
import shutil
import sys

import pytest

if not (os.environ.get("JAVA_HOME") or shutil.which("java")):
    pytest.exit("Spark needs Java 17 or newer: install it, or let JAVA_HOME say where it is", returncode=1)
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


@pytest.fixture(scope="session")
def spark():
    from pyspark.sql import SparkSession

    built = (
        SparkSession.builder.master("local-cluster[2,1,1024]")
        .config("spark.ui.enabled", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.default.parallelism", "2")
        .config("spark.executorEnv.PYTHONPATH", os.pathsep.join(sys.path))
        .config("spark.executorEnv.FIOL_QUIET", "1")
    )
    session = built.getOrCreate()
    yield session
    session.stop()
