"""`fiol.train` and `fiol.read`: what the command does, in Python."""

from __future__ import annotations

import dataclasses
import difflib
import os
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from fiol.features.frames import as_frame, as_list
from fiol.readers.bad_lines import reader_messages, unmet_pair_messages, warn_of_reading
from fiol.readers.batch import Batch
from fiol.readers.reader_config import infer_config
from fiol.readers.sources import Sources
from fiol.workflow.frame_file import frame_file
from fiol.workflow.job import TrainingJob
from fiol.workflow.model import TrainedModel
from fiol.workflow.options import TrainOptions


def train(
    data: Any,
    target: str | None = None,
    *,
    output: Any = None,
    resume: bool = False,
    update: Any = None,
    **options: Any,
) -> TrainedModel:
    """Train a model on files or a frame, as `fiol train` does, and return it.

    Parameters
    ----------
    data : path of a file or folder, pattern, list of these, open file, or a frame of any library.
    target : the column to predict, where there are columns.
    output : a file for the model and its checkpoints; None writes none.
    resume : continue from the checkpoint in `output`, if there is one; `data` must be those that it was made with.
    update : path of a model that continues with these rows; all options but `on_error` are the model's.
    options : weight, tag, format, columns (kinds by column), missing (strings that stand for missing values), pairs,
        reader (options of the format), on_error ("missing", "skip", "stop"); loss, penalty, alpha, l1_ratio, algorithm,
        step_size, bits, max_features, intercept, average, dtype, class_weight ("balanced", or weights by label),
        features ("linear", "additive", "pairwise", "auto": curves and pairs of columns, docs/guides/tables.md; by
        default "auto" for tables); passes, shuffle, seed, holdout, early_stop. Defaults are those of the command
        (`fiol train --help`).

    Returns
    -------
    A `TrainedModel`: a `Learner` with `labels`, `columns`, `predict`, `predict_proba`, `evaluate` and `report`.

    Examples
    --------
    >>> import pandas as pd, fiol
    >>> frame = pd.DataFrame({"size": [30.0, 50.0, 80.0] * 99, "city": ["Rome", "Oslo", "Rome"] * 99})
    >>> frame["price"] = 2.0 * frame["size"] + 5.0 * (frame["city"] == "Oslo") + 0.5
    >>> model = fiol.train(frame, target="price", loss="squared_error")
    >>> model.columns, model.predict(frame[:1]).shape, model.evaluate(frame)["r2"] > 0.9
    (('size', 'city'), (1,), True)
    """
    path = None if output is None else os.fspath(output)
    refuse_unknown_options("train", options)
    job = TrainingJob(sources_of(data, target), TrainOptions(target=target, **options), path)
    job.start(resume, None if update is None else os.fspath(update))
    job.prepare()
    for _ in job.run():
        pass
    ids = getattr(getattr(job.reading, "table_encoding", None), "ids_message", "")
    for message in [
        *job.repetition_messages(),
        *job.new_class_messages(),
        *unmet_pair_messages(job.reader),
        *reader_messages(job.reader),
        *([f"columns are {ids}"] if ids else []),
    ]:
        warnings.warn(message, stacklevel=2)
    return job.training.learner  # type: ignore[return-value]


def read(data: Any, target: str | None = None, *, on_error: str = "missing", **options: Any) -> Iterator[Batch]:
    """Yield the rows of files in batches: `for batch in fiol.read("clicks.csv", target="clicked")`.

    Parameters
    ----------
    data : path of a file or folder, pattern, list of these, open file, or a frame of any library.
    target : the column of targets, where there are columns; without it `y` of a batch is None.
    on_error : what to do with lines and cells that cannot be read: "missing", "skip" or "stop", as in `fiol train`.
    options : those of `fiol.train` that concern data: weight, tag, format, columns, missing, pairs, reader.

    Yields
    ------
    Batches with rows `X`, targets `y` and `weights` for `Learner.learn(batch.X, batch.y, batch.weights)`, and `tags`,
    `place` (the file and the first line) and `rows` (how many).

    Examples
    --------
    >>> import io, fiol
    >>> file = io.BytesIO(b"size,sold\\n1,no\\n2,yes\\n")
    >>> [(batch.rows, batch.y.tolist()) for batch in fiol.read(file, target="sold")]
    [(2, ['no', 'yes'])]
    """
    refuse_unknown_options("read", options)
    given, sources = TrainOptions(target=target, **options), Sources(sources_of(data, target))
    with infer_config(sources, **given.reading()).batches(sources, on_error=on_error) as reader:
        for batch in reader:
            yield batch._replace(y=None if batch.y is None else np.array(as_list(batch.y)))
    warn_of_reading(reader, 2)


def refuse_unknown_options(function: str, options: Mapping[str, Any]) -> None:
    """Raise TypeError if an option has no such name, with the most similar one.

    >>> refuse_unknown_options("train", {"feature": "linear"})
    Traceback (most recent call last):
    TypeError: fiol.train has no option 'feature': did you mean 'features'?
    """
    known = [field.name for field in dataclasses.fields(TrainOptions)]
    for name in options:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"options are {', '.join(known)}"
            raise TypeError(f"fiol.{function} has no option {name!r}: {hint}")


def sources_of(data: Any, target: str | None) -> list[Any]:
    """Return what `Sources` takes: names of files, or a frame as an open file."""
    if not isinstance(data, (str, os.PathLike)) and as_frame(data) is not None:
        return [frame_file(data, target or "target")]
    return list(data) if isinstance(data, (list, tuple)) else [data]
