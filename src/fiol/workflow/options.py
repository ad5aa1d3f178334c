"""Options of `fiol.train` and `fiol train`: names, defaults, checks."""

from __future__ import annotations

import ast
import dataclasses
import json
import math
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from fiol.features.column_kinds import split_kind
from fiol.option_names import STORED_NAMES, Wording, joined_names, option_text, split_names
from fiol.workflow.errors import OptionError

#: Values in checkpoints of options that are not given.
STORED_DEFAULTS: dict[str, Any] = {
    "penalty": "none",
    "alpha": 1e-4,
    "l1_ratio": 0.15,
    "step_size": "auto",
    "no_intercept": False,
    "seed": 1,
}
#: What `features` is for a table, unless it is given.
TABLE_FEATURES = "auto"
#: Options that a model with curves and pairs does not have: with any of them, `features` is "linear" unless given.
LINEAR_OPTIONS = ("penalty", "algorithm", "bits", "max_features", "average")


@dataclasses.dataclass
class TrainOptions:
    """How data are read, what is learned, and how often; see `fiol.train`."""

    target: str | None = None
    weight: str | None = None
    tag: str | None = None
    format: str | None = None
    columns: Mapping[str, Any] | None = None
    pairs: Sequence[Sequence[str]] = ()
    reader: Mapping[str, Any] | None = None
    missing: Sequence[str] = ()
    on_error: str = "missing"
    loss: Any = None
    penalty: Any = None
    alpha: float | None = None
    l1_ratio: float | None = None
    algorithm: str | None = None
    step_size: Any = "auto"
    bits: int | None = None
    max_features: int | None = None
    intercept: bool = True
    average: bool = False
    dtype: str = "float64"
    class_weight: Any = None
    features: str | None = None
    passes: int = 1
    shuffle: int = 0
    seed: int | None = None
    holdout: float = 0.0
    early_stop: int | None = None

    def __post_init__(self) -> None:
        self.pairs = tuple(tuple(pair) for pair in self.pairs)
        if isinstance(self.penalty, str) and self.penalty.lower() == "none":
            self.penalty = None
        for name in ("alpha", "l1_ratio", "holdout"):
            value = getattr(self, name)
            if value is not None and not math.isfinite(value):
                raise OptionError(f"{option_text(name)} must be a finite number")
        if self.alpha is not None and self.penalty is None:
            raise OptionError(f"{option_text('alpha')} has no effect without {option_text('penalty')}")
        if self.alpha is not None and isinstance(self.penalty, str) and ":" in self.penalty:
            raise OptionError(f"{option_text('alpha')} has no effect: {self.penalty!r} has a strength")
        if self.l1_ratio is not None and not self._is_elastic_net():
            raise OptionError(f"{option_text('l1_ratio')} has no effect without {option_text('penalty', 'elasticnet')}")
        if self.early_stop is not None and not self.holdout:
            raise OptionError(
                f"{option_text('early_stop')} needs {option_text('holdout')}: rows that show which pass was the best"
            )
        if self.early_stop is not None and self.passes == 1:
            raise OptionError(f"{option_text('early_stop')} has no effect on one pass: give {option_text('passes')}")
        if self.seed is not None and not self.shuffle and not self.holdout:
            raise OptionError(
                f"{option_text('seed')} has no effect without {option_text('shuffle')} or {option_text('holdout')}"
            )
        if self.bits is not None and self.max_features is not None:
            raise OptionError(f"{option_text('bits')} and {option_text('max_features')} exclude each other")
        for role in ("target", "weight", "tag"):
            name = getattr(self, role)
            for pair in self.pairs:
                if name is not None and name in pair:
                    given = f"{option_text('pairs')} {joined_names(pair)}"
                    raise OptionError(f"{given} has no effect: {name!r} is no feature but the {role}")
            if name is not None and name in (self.columns or {}):
                kind = option_text("columns", {name: (self.columns or {})[name]})
                raise OptionError(
                    f"{kind} has no effect: the column is no feature but the {role} ({option_text(role)})"
                )

    def _is_elastic_net(self) -> bool:
        from fiol.names import PENALTIES, canonical_name

        name = self.penalty.partition(":")[0] if isinstance(self.penalty, str) else ""
        return canonical_name(name, PENALTIES) == "elasticnet"

    def inferred_features(self, encoding: Any) -> tuple[str, str]:
        """Return which features are made of the columns of a table, and why if that is "linear"; see `features`.

        >>> from fiol import TableEncoding
        >>> table = TableEncoding.from_spec({"age": "number", "review": "words"})
        >>> TrainOptions().inferred_features(table), TrainOptions(penalty="l1").inferred_features(table)
        (('auto', ''), ('linear', 'with penalty there are no curves and pairs'))
        """
        from fiol.components.table_basis import TableBasis
        from fiol.features.column_roles import has_bins

        if self.features is not None:
            return self.features, ""
        columns = 0 if encoding is None else sum(has_bins(column.kind) for column in encoding.columns)
        if not columns:
            return "linear", "" if encoding is None else "no column has numbers or categories"
        alone = [name for name in LINEAR_OPTIONS if getattr(self, name)] + ["step_size"] * (self.step_size != "auto")
        if alone:
            return "linear", f"with {option_text(alone[0])} there are no curves and pairs"
        if columns > TableBasis.max_columns:
            return "linear", f"curves and pairs are made of at most {TableBasis.max_columns:,} columns"
        return TABLE_FEATURES, ""

    def reading(self) -> dict[str, Any]:
        """Return what is given of a `ReaderConfig`, as `readers.reader_config.infer_config` takes it."""
        given = {name: getattr(self, name) for name in ("format", "target", "weight", "tag")}
        given = {name: value for name, value in given.items() if value is not None}
        if self.pairs:
            given["pairs"] = self.pairs
        if self.columns or self.missing:
            from fiol.features.table_encoding import TableEncoding

            given["table_encoding"] = TableEncoding.from_spec(self.columns or {}, missing=self.missing or None)
        if self.reader:
            given["options"] = dict(self.reader)
        return given

    def stored(self) -> dict[str, Any]:
        """Return the options that are not the default as plain JSON values, as checkpoints keep them.

        >>> TrainOptions(target="y", columns={"zip": "category"}, passes=2).stored()
        {'target': 'y', 'columns': ['zip=category'], 'passes': 2}
        """
        found: dict[str, Any] = {}
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.name == "intercept":
                found["no_intercept"] = not value
            elif field.name == "columns":
                found["columns"] = [
                    f"{joined_names([name])}={kind_text(name, kind)}" for name, kind in (value or {}).items()
                ]
            elif field.name == "pairs":
                found["pairs"] = [joined_names(pair) for pair in value]
            elif field.name == "missing":
                found["missing"] = list(value)
            elif field.name == "reader":
                found["reader_options"] = [f"{name}={json_or_text(option)}" for name, option in (value or {}).items()]
            elif field.name in ("loss", "penalty", "step_size", "class_weight") and not isinstance(value, (str, float)):
                found[field.name] = None if value is None else repr(value)
            else:
                found[STORED_NAMES.get(field.name, field.name)] = value
        return without_defaults(found)


def without_defaults(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a checkpoint of any version without those that are the default, or not given."""
    defaults = {field.name: field.default for field in dataclasses.fields(TrainOptions)} | STORED_DEFAULTS
    found = {
        name: value for name, value in stored.items() if value not in (None, [], ()) and value != defaults.get(name)
    }
    if not found.keys() & {"shuffle", "holdout"}:
        found.pop("seed", None)  # without effect, but accepted by earlier versions
    return found


def option_difference(then: Mapping[str, Any], now: Mapping[str, Any]) -> str | None:
    """Return the first option in which two commands differ, in words; None if they do not.

    Options of other versions that have their default do not count.

    >>> option_difference({"shuffle": 9, "data": ["a.csv"]}, {"data": ["a.csv"], "shuffle": 9, "seed": 2})
    'with seed=1, not with seed=2'
    >>> option_difference({"columns": ["zip=category"]}, {})
    "with columns={'zip': 'category'}, not without columns"
    """
    before, after = without_defaults(then), without_defaults(now)
    if before.get("on_error") == "stop":  # nothing was wrong so far, and any treatment of errors continues the run
        before.pop("on_error"), after.pop("on_error", None)
    defaults = {field.name: field.default for field in dataclasses.fields(TrainOptions)} | STORED_DEFAULTS
    for name in sorted({*before, *after}):
        if before.get(name) not in (after.get(name), without_quotes(name, after.get(name))):
            was, is_now = (stored_text(name, found.get(name, defaults.get(name))) for found in (before, after))
            return f"{was}, not {is_now}"
    return None


def without_quotes(name: str, value: Any) -> Any:
    """Return an option as checkpoints of earlier versions have it: names of columns without quotes.

    >>> without_quotes("columns", ['"city, zip"=category']), without_quotes("pairs", ['user,"city, zip"'])
    (['city, zip=category'], ['user,city, zip'])
    """
    return [",".join(split_names(text)) for text in value] if name in ("columns", "pairs") and value else value


def stored_text(name: str, value: Any) -> str:
    """Return an option of a checkpoint as users give it, after "with" or "without".

    >>> from fiol.option_names import command_options
    >>> stored_text("reader_options", ["delimiter=;", "header=false"]), stored_text("no_intercept", False)
    ("with reader={'delimiter': ';', 'header': False}", 'with intercept=True')
    >>> with command_options():
    ...     stored_text("columns", ["a b=category", "c=skip"]), stored_text("no_intercept", False)
    ("with --column 'a b=category' --column c=skip", 'without --no-intercept')
    """
    in_python = not Wording.for_command
    if name == "no_intercept" and in_python:
        return f"with {option_text('intercept')}={not value}"
    if value is None or value is False or value in ([], ()):
        return f"without {option_text(name)}"
    if name == "class_weight" and value.startswith("{"):
        value = ast.literal_eval(value)
        value = value if in_python else ",".join(f"{joined_names([str(label)])}={w}" for label, w in value.items())
    if isinstance(value, (list, tuple)) and not in_python:
        option = "DATA" if name == "data" else option_text(name)
        texts = list(map(shlex.quote, value))
        return "with " + (" ".join([option, *texts]) if name == "data" else " ".join(f"{option} {t}" for t in texts))
    if name == "columns":
        value = {",".join(split_names(name)): kind for name, kind in map(split_kind, value)}
    elif name == "pairs":
        value = [tuple(split_names(pair)) for pair in value]
    elif name == "reader_options":
        value = {option: option_value(text) for option, _, text in (one.partition("=") for one in value)}
    return f"with {option_text(name, value)}"


def option_value(text: str) -> Any:
    """Return the value that `json_or_text` wrote."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def kind_text(name: str, kind: Any) -> str:
    """Return the kind of a column as `--column` takes it.

    >>> kind_text("day", {"kind": "date", "format": "%d.%m.%Y"}), kind_text("review", "words:2")
    ('date:%d.%m.%Y', 'words:2')
    """
    from fiol.features.table_encoding import column_from_spec

    return column_from_spec(name, kind).spec


def json_or_text(value: Any) -> str:
    """Return a value of a reader's option as `--reader` takes it."""
    return value if isinstance(value, str) else json.dumps(value)
