"""The list of formats, and what each is to a `ReaderConfig`: a class in a file that is loaded when needed."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from fiol.readers.bad_lines import BadLines
from fiol.readers.batch import Batch
from fiol.readers.sources import Sources

if TYPE_CHECKING:
    from fiol.readers.reader_config import ReaderConfig

#: Where the class of every format is, in the order in which `format_of` tries them.
FORMATS = {
    "parquet": "fiol.readers.parquet.Parquet",
    "arrow": "fiol.readers.arrow.ArrowFile",
    "json": "fiol.readers.json_lines.JsonLines",
    "svmlight": "fiol.readers.svmlight.Svmlight",
    "vw": "fiol.readers.vw.VowpalWabbit",
    "csv": "fiol.readers.csv.Csv",
}


class Format:
    """One format: how its files are recognised, what is to be known to read them, and the rows in them."""

    #: What the format is called.
    name = ""
    #: Endings of the names of such files, without what compression adds.
    extensions: tuple[str, ...] = ()
    #: Endings that files of other formats have as well.
    shared_extensions: tuple[str, ...] = ()
    #: The options there are, with what they are if they are not given.
    options: Mapping[str, Any] = {}
    #: What options must be, in words, and whether a value is that; any may be None.
    must_be: Mapping[str, tuple[str, Callable[[Any], bool]]] = {}
    #: Options that the text "none" switches off.
    may_be_none: tuple[str, ...] = ()
    #: Whether rows have columns, which `target`, `weight` and `tag` name.
    has_columns = False
    #: Whether features are in groups, columns or namespaces, of which there are pairs.
    has_groups = True

    def checked_options(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return options, with None for the text "none" where an option is a character; ValueError if one is wrong."""
        found = {**options}
        for name, value in options.items():
            if name not in self.options:
                raise ValueError(
                    f"{self.name} has no option {name!r}: its options are {', '.join(self.options) or 'none'}"
                )
            if name in self.may_be_none and value in ("none", ""):
                found[name] = value = None
            words, holds = self.must_be.get(name, ("", None))
            if value is not None and holds is not None and not holds_for(holds, value):
                raise ValueError(f"the option {name} of {self.name} must be {words}, got {value!r}")
        return found

    def recognizes(self, start: bytes) -> bool:
        """Return whether a file that begins with these bytes may be of this format.

        `start` is text, decompressed, cut after `START_SIZE` bytes, perhaps in the middle of a line.
        """
        raise NotImplementedError

    def infer(self, start: bytes, name: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """Fields of a `ReaderConfig` that are not among the given ones, from how the file `name` begins."""
        raise NotImplementedError

    def infer_from_sources(self, sources: Sources, start: bytes, name: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return what `infer` returns, for formats that need more of the sources than the beginning of a file."""
        return self.infer(start, name, given)

    def warn_of_start(self, config: ReaderConfig, start: bytes, name: str) -> None:
        """Warn if a file that begins so is probably not to be read as a model's training data were."""

    def batches(self, config: ReaderConfig, sources: Sources, bad: BadLines) -> Iterator[Batch]:
        """Yield the rows in batches that depend on the files alone; report unreadable lines by `bad.note`."""
        raise NotImplementedError


def holds_for(check: Callable[[Any], bool], value: Any) -> bool:
    """Return whether a condition holds for a value of any kind; False where the condition raises.

    >>> holds_for(len, "ab"), holds_for(len, 7)
    (True, False)
    """
    try:
        return bool(check(value))
    except (AttributeError, TypeError):
        return False


def is_true_or_false(value: Any) -> bool:
    """Return whether an option is a plain true or false."""
    return isinstance(value, bool)


@functools.cache
def get_format(name: str) -> Format:
    """Return the format of this name; raise ValueError if there is none."""
    if name not in FORMATS:
        raise ValueError(f"format must be one of {', '.join(FORMATS)}, got {name!r}")
    module, _, kind = FORMATS[name].rpartition(".")
    found: Format = getattr(import_module(module), kind)()
    found.name = name
    return found
