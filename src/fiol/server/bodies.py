"""Bodies of requests: rows in JSON, NDJSON and Arrow."""

from __future__ import annotations

import asyncio
import math
import struct
from typing import Any

import msgspec

from fiol.server.labels import RefusedError
from fiol.server.messages import LearnRequest, LearnRow, PredictRequest, PredictRow, decode, decoder_of, encode

JSON, NDJSON, ARROW = "application/json", "application/x-ndjson", "application/vnd.apache.arrow.stream"
CONTENT_KINDS = {JSON: JSON, NDJSON: NDJSON, "application/ndjson": NDJSON, "application/jsonl": NDJSON, ARROW: ARROW}

decode_predict, decode_learn_request = decoder_of(PredictRequest), decoder_of(LearnRequest)
decode_predict_row, decode_learn_row = decoder_of(PredictRow), decoder_of(LearnRow)


async def read_body(request: Any, limit: int) -> bytes:
    """Return the body of a request; RefusedError if it is compressed or larger than the limit."""
    headers = request.headers
    if headers.get("content-encoding", "identity") != "identity":
        raise RefusedError("compressed bodies are not accepted", status=415)
    length = headers.get("content-length", "0")
    if length.isdigit() and int(length) > limit:
        raise RefusedError(f"the body is larger than {limit} bytes", status=413)
    parts, size = [], 0
    try:
        async for part in request.stream():
            size += len(part)
            if size > limit:
                raise RefusedError(f"the body is larger than {limit} bytes", status=413)
            parts.append(part)
    except asyncio.CancelledError:
        raise RefusedError("the body was not complete when the server stopped", status=503) from None
    return parts[0] if len(parts) == 1 else b"".join(parts)


def content_kind(request: Any) -> str:
    """Return the kind of a body by its content type; RefusedError for others."""
    given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if given not in CONTENT_KINDS:
        raise RefusedError(f"the content type must be one of {', '.join(CONTENT_KINDS)}, got {given!r}", status=415)
    return CONTENT_KINDS[given]


def rows_to_predict(body: bytes, kind: str, query: Any, limit: int) -> tuple[list[PredictRow], bool]:
    """Return the rows to predict for, and whether uncertainties are wanted."""
    doubts = query.get("uncertainty") in ("1", "true")
    if kind == JSON:
        given = decoded(decode_predict, body)
        if given.rows is not None and (given.features is not None or given.id is not None):
            raise RefusedError("a request has one row, or rows, not both")
        if given.rows is None and given.features is None:
            raise RefusedError('expected {"features": {...}} or {"rows": [{"features": {...}}, ...]}')
        rows = [PredictRow(given.features, given.id)] if given.rows is None else given.rows
        doubts = doubts or given.uncertainty
    elif kind == NDJSON:
        rows = [decoded(decode_predict_row, line, row) for row, line in enumerate(lines_of_body(body, limit))]
    else:
        rows = [PredictRow(row, name) for row, name, _, _ in arrow_rows(body, query, limit)]
    check_row_count(len(rows), limit)
    return rows, doubts


def rows_to_learn(body: bytes, kind: str, query: Any, limit: int, target: str | None) -> list[LearnRow]:
    """Return the rows to learn from; the labels of Arrow are in the column `label`, or that of the training data."""
    if kind == JSON:
        given = decoded(decode_learn_request, body)
        alone = given.features, given.label, given.id, None if given.weight == 1.0 else given.weight
        if given.rows is not None and alone != (None,) * 4:
            raise RefusedError("a request has one row, or rows, not both")
        if given.rows is None and given.label is None:
            raise RefusedError("a row to learn from has a label", 0, "label")
        one = given.rows is None
        rows = [LearnRow(given.label, given.features, given.id, given.weight)] if one else given.rows
    elif kind == NDJSON:
        rows = [decoded(decode_learn_row, line, row) for row, line in enumerate(lines_of_body(body, limit))]
    else:
        name = query.get("label", target)
        if name is None:
            raise RefusedError("name the column of labels: ?label=COLUMN")
        rows = []
        for row, (features, row_id, weight, label) in enumerate(arrow_rows(body, query, limit, name)):
            if label is None:
                raise RefusedError("the label is missing", row, name)
            rows.append(LearnRow(label, features, row_id, weight))
    check_row_count(len(rows), limit)
    return rows


def lines_of_body(body: bytes, limit: int) -> list[bytes]:
    """Return the lines of NDJSON that are not empty; RefusedError for too many, before they are decoded."""
    found = [line for line in body.splitlines() if line.strip()]
    check_row_count(len(found), limit)
    return found


def check_row_count(rows: int, limit: int) -> None:
    """Raise RefusedError for no rows, and for too many."""
    if rows > limit:
        raise RefusedError(f"a request has at most {limit} rows, got {rows}", status=413)
    if not rows:
        raise RefusedError("there are no rows")


def decoded(decode_with: Any, body: bytes, row: int | None = None) -> Any:
    """Return a message; RefusedError with the place if it is none."""
    try:
        return decode_with(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        text = str(error)
        place = text.rpartition("$.rows[")[2].partition("]")[0] if "$.rows[" in text else ""
        if "unknown field" in text or "required field" in text:
            text = f'{text}; expected {{"features": {{...}}}}, and "label" to learn'
        raise RefusedError(text, int(place) if place.isdigit() else row) from None


def arrow_rows(body: bytes, query: Any, limit: int, label: str | None = None) -> list[Any]:
    """Return rows of an Arrow stream as (features, id, weight, label); values are those that JSON would have."""
    try:
        import pyarrow
        from pyarrow import ipc
    except ImportError:
        raise RefusedError("Arrow needs pyarrow on the server", status=415) from None
    try:
        refuse_compressed(ipc, body)
        table = ipc.open_stream(body).read_all()
        check_row_count(table.num_rows, limit)
        columns = table.to_pydict()
        for name, values in columns.items():
            refuse_infinite(name, values)
    except (pyarrow.ArrowException, ValueError, OSError, OverflowError, TypeError, KeyError) as error:
        if isinstance(error, RefusedError):
            raise
        raise RefusedError(f"the body is no Arrow stream: {error}") from None
    ids = take_column(columns, query.get("id"), table.num_rows)
    weights = take_column(columns, query.get("weight"), table.num_rows)
    labels = take_column(columns, label, table.num_rows)
    try:
        rows = decode(encode([dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]))
        labels = decode(encode(labels))
    except (TypeError, ValueError, OverflowError, msgspec.MsgspecError) as error:
        raise RefusedError(f"a column has values that JSON does not have: {error}") from None
    rows = rows or [{} for _ in labels]
    return [checked_row(k, *parts) for k, parts in enumerate(zip(rows, ids, weights, labels, strict=True))]


def refuse_infinite(column: str, values: list[Any]) -> None:
    """Raise RefusedError for an infinite number, which JSON does not have: it would become a missing value."""
    row = next((values.index(one) for one in (math.inf, -math.inf) if one in values), None)
    if row is not None:
        raise RefusedError(f"{column!r} must be finite, got {values[row]}", row, column)


def checked_row(row: int, features: Any, name: Any, weight: Any, label: Any) -> tuple[Any, ...]:
    """Return a row of Arrow with its id, weight and label, as JSON would have them; RefusedError for others."""
    if isinstance(name, float):  # nan, or 17.0 where other requests have 17
        raise RefusedError(f"ids are strings or whole numbers, got {name!r}", row)
    name, weight = None if name is None else str(name), 1.0 if weight is None else weight
    if name is not None and not 0 < len(name) <= 200:
        raise RefusedError(f"ids have 1 to 200 characters, got {name[:20]!r}", row)
    if not isinstance(weight, (int, float)) or not 0.0 <= weight <= 1e100:
        raise RefusedError(f"weights are numbers from 0 to 1e100, got {weight!r}", row)
    if not isinstance(label, (str, bool, int, float, type(None))):
        raise RefusedError(f"labels are strings, numbers, true or false, got {label!r}", row)
    return features, name, float(weight), label


def take_column(columns: dict[str, Any], name: str | None, rows: int) -> list[Any]:
    """Remove a column and return its values; None for every row if no column is named."""
    if name is None:
        return [None] * rows
    if name not in columns:
        raise RefusedError(f"there is no column {name!r}", None, name)
    return columns.pop(name)  # type: ignore[no-any-return]


def refuse_compressed(ipc: Any, body: bytes) -> None:
    """Raise RefusedError if a batch of an Arrow stream is compressed: its size is unknown before it is unpacked."""
    for message in ipc.MessageReader.open_stream(body):
        if message.type == "record batch" and has_compression(message.metadata.to_pybytes()):
            raise RefusedError("compressed Arrow is not accepted", status=415)


def has_compression(metadata: bytes) -> bool:
    """Return whether the flatbuffer `Message` of a record batch has the field `RecordBatch.compression`."""

    def field(table: int, slot: int) -> int:
        vtable = table - struct.unpack_from("<i", metadata, table)[0]
        size = struct.unpack_from("<H", metadata, vtable)[0]
        at = 4 + 2 * slot
        return int(struct.unpack_from("<H", metadata, vtable + at)[0]) if at < size else 0

    root = struct.unpack_from("<I", metadata, 0)[0]
    header = root + field(root, 2)
    header += struct.unpack_from("<I", metadata, header)[0]
    return field(header, 3) != 0
