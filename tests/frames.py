"""Frames of other libraries for tests."""

import polars as pl
import pyarrow as pa


def polars_frame(frame):
    """Return a pandas frame in polars; before 1.1 `polars.from_pandas` takes no text column with missing values."""
    return pl.from_arrow(pa.Table.from_pandas(frame, preserve_index=False))
