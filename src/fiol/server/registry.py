"""`Registry`: the models of a server by name, and how they are added, replaced, promoted and removed.

Methods that change something run in the writer's thread; `prepare...` makes and compiles models in any other thread, so
that the writer does not wait. A model that replaces another is written as a snapshot before its record is: after a
crash either both are there, or the snapshot is beyond the journal's end and is removed.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import time
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from fiol.persistence.model_file import ModelFileError
from fiol.server.journal import Journal, JournalError, JournalGoneError
from fiol.server.labels import RefusedError
from fiol.server.messages import AddModel, LabelRules, RemoveRecord, ReplaceRecord, decode_label_rules, encode, is_name
from fiol.server.replay import replay
from fiol.server.served_model import ServedModel
from fiol.server.snapshots import SnapshotStore
from fiol.server.specification import empty_model, model_from_file
from fiol.server.warmup import warm_up_served
from fiol.server.writer import Writer, WriterOptions
from fiol.workflow.model import open_model


def digest_of(path: str) -> str:
    """Return the checksum of a file, which shows whether it changed."""
    with open(path, "rb") as file:
        return hashlib.blake2b(file.read(), digest_size=8).hexdigest()


class Registry:
    """All models in the folder of a journal, after everything in the journal was learned from.

    Parameters
    ----------
    folder : of the journal and of the snapshots.
    options : of the writer.
    keep : snapshots of a model that are kept.
    say : reports an event that somebody should know of.
    """

    def __init__(
        self, folder: str, options: WriterOptions | None = None, keep: int = 5, say: Callable[[str], None] = print
    ) -> None:
        self.say = say
        self.journal = Journal(folder)
        self.snapshots = SnapshotStore(folder, keep, self.journal.check_in_place)
        self.models: dict[str, ServedModel] = {}
        try:
            self._check_journal()
            for name, shadow_of, rules, source in self.journal.connection.execute(
                "SELECT name, shadow_of, rules, source FROM models ORDER BY time"
            ).fetchall():
                model = self.snapshots.newest_whole(name, self.journal.last, say)
                self.models[name] = served = ServedModel(name, model, decode_label_rules(rules), shadow_of)
                served.source = source
            self.replayed = replay(self.journal, self.snapshots, self.models, say)
        except BaseException:
            self.journal.close()
            raise
        self.writer = Writer(self.journal, self.snapshots, self.models, options or WriterOptions(), say)

    def _check_journal(self) -> None:
        """Raise JournalError if snapshots have learned from records that the journal does not have.

        The next position is that of a request that was not finished.
        """
        position, path = self.snapshots.last()
        if position > self.journal.last + 1:
            raise JournalError(
                f"{self.journal.path} ends at position {self.journal.last}, but {path} has learned from records up to "
                f"{position}: restore the journal from a backup, or start with another folder"
            )

    def close(self) -> None:
        """Close the journal; the writer does so itself when it ends."""
        self.journal.close()

    # --- changes ------------------------------------------------------------------------------

    def add_file(self, name: str, path: str, given: Mapping[str, Any] | None = None) -> str:
        """Add the model of a file, or of a specification, unless the journal has one of this name; say which.

        `given` are rules for labels; all others are those that the model has, or the default.
        """
        if name in self.models:
            self.change_rules(name, given or {})
            return "continues from the journal" + self._changed_file(name, path)
        rules = msgspec.structs.replace(LabelRules(), **(given or {}))
        self.add(name, model_from_file(path), rules, source=f"{os.path.basename(path)} {digest_of(path)}")
        return f"added from {path}"

    def _changed_file(self, name: str, path: str) -> str:
        """Return a note if the file is not the one that the model of the journal was added from."""
        began, known = self.models[name].source.rpartition(" ")[::2]
        if not began or not os.path.isfile(path) or digest_of(path) == known:
            return ""
        return f"; {path} is not the file that it began with, and is not read: PUT /models/{name}/file uploads it"

    def prepare(self, name: str, given: AddModel) -> Any:
        """Return the warmed-up model that a request describes, None for a copy; in any thread, since nothing changes.

        A copy is made by `add_request`, with all rows until then, and its code is that of the other model.
        """
        self.check_new(name)
        if (given.specification is None) == (given.copy_of is None):
            raise RefusedError("a model is added by a specification or as copy_of another model, one of both")
        if given.specification is None:
            return None
        try:
            model = empty_model(given.specification)
        except (TypeError, ValueError) as error:
            raise RefusedError(str(error)) from None
        self.warm_up(name, model)
        return model

    def add_request(self, name: str, given: AddModel, model: Any) -> None:
        """Add the model that `prepare` returned, or a copy of another model."""
        if given.copy_of is not None:
            model = self.get(given.copy_of).model.copy()
        self.add(name, model, given.rules, given.shadow_of)

    def warm_up(self, name: str, model: Any) -> None:
        """Compile what a model needs, in any thread, and report a model that refuses sample rows."""
        refused = warm_up_served(model)
        if refused is not None:
            self.say(f"{name}: its first requests may wait for the compiler: {refused}")

    def warm_up_all(self) -> None:
        """Compile what all models need, before the writer runs."""
        for name, served in self.models.items():
            self.warm_up(name, served.model)

    def check_new(self, name: str) -> None:
        """Raise RefusedError if a model cannot be added with this name."""
        if not is_name(name):
            raise RefusedError(f"the name of a model is letters, digits, '.', '_' and '-', at most 64; got {name!r}")
        if name in self.models:
            raise RefusedError(f"there is a model {name!r} already", status=409)

    def add(
        self, name: str, model: Any, rules: LabelRules, shadow_of: str | None = None, source: str = "request"
    ) -> None:
        """Add a model; RefusedError if there is one of this name."""
        self.check_new(name)
        if shadow_of is not None and self.get(shadow_of).shadow_of is not None:
            raise RefusedError(f"{shadow_of!r} is a shadow itself", status=409)
        if shadow_of is not None:
            check_same_labels(self.models[shadow_of].model, model)
        model.meta.pop("serving", None)
        served = ServedModel(name, model, rules, shadow_of)
        served.check_rules(rules)
        served.source = source
        self._replace(served, model, "add", source, new=True)
        self.models[name] = served

    def remove(self, name: str) -> None:
        """Remove a model, its shadows and its snapshots; its records stay in the journal."""
        self.get(name)
        names = [name, *(one.name for one in self.writer.shadows_of(name))]
        journal, writer = self.journal, self.writer
        journal.begin()
        position = writer.position
        for one in names:
            position += 1
            journal.append(one, "remove", 0, encode(RemoveRecord()), position)
            journal.connection.execute("DELETE FROM models WHERE name = ?", (one,))
            writer.join_labels.forget(one)
        journal.commit()
        writer.position = position
        writer.saver.submit(lambda: None).result()  # snapshots that are being saved are removed, too
        for one in names:
            del self.models[one]
            self.snapshots.remove(one)

    def prepare_upload(self, name: str, path: str) -> Any:
        """Return the warmed-up model of a file, in any thread; RefusedError if the file cannot be used."""
        try:
            model = open_model(path)
        except (TypeError, ValueError) as error:
            raise RefusedError(str(error).replace(path, "the file")) from None
        model.meta.pop("serving", None)
        self.warm_up(name, model)
        return model

    def upload(self, name: str, model: Any) -> None:
        """Continue a model with another one; or add it, if there is none of this name."""
        if name not in self.models:
            self.add(name, model, LabelRules(), source="upload")
            return
        check_same_labels(self.models[name].model, model)
        self._replace(self.models[name], model, "upload")

    def prepare_rollback(self, name: str, position: int) -> tuple[Any, str]:
        """Return the warmed-up model of the snapshot at a position, and the name of its file; in any thread."""
        self.get(name)
        snapshot = self.snapshots.at(name, position)
        if snapshot is None:
            raise RefusedError(f"{name!r} has no snapshot at position {position}", status=404)
        try:
            model = self.snapshots.load(name, snapshot)
        except (ModelFileError, FileNotFoundError) as error:
            raise RefusedError(str(error), status=409) from None
        self.warm_up(name, model)
        return model, snapshot.file

    def roll_back(self, name: str, model: Any, file: str) -> None:
        """Continue a model from one of its snapshots; RefusedError if the snapshot was removed meanwhile."""
        served = self.get(name)
        if all(one.file != file for one in self.snapshots.list(name)):
            raise RefusedError(f"{name!r} has no snapshot {file} any more", status=404)
        self._replace(served, model, "rollback", file)

    def promote(self, name: str, shadow: str | None = None) -> str:
        """Let a live model continue as its shadow, which is removed; return the shadow's name."""
        served = self.get(name)
        shadows = [one for one in self.writer.shadows_of(name) if shadow in (None, one.name)]
        if len(shadows) != 1:
            there = ", ".join(one.name for one in self.writer.shadows_of(name)) or "none"
            raise RefusedError(f"name the shadow of {name!r} to promote; there are {there}", status=409)
        self._replace(served, shadows[0].model.copy(), "promote", shadows[0].name)
        try:
            self.remove(shadows[0].name)
        except (OSError, sqlite3.Error) as error:  # the live model is the shadow's already
            self.writer.undo()
            self.say(f"the shadow {shadows[0].name} was promoted, but not removed: {error}")
        return shadows[0].name

    def change_rules(self, name: str, given: Mapping[str, Any]) -> LabelRules:
        """Change the given rules for labels of a model, and return all."""
        served = self.get(name)
        rules = msgspec.structs.replace(served.rules, **given)
        if rules != served.rules:
            self.set_rules(name, rules)
        return rules

    def set_rules(self, name: str, rules: LabelRules) -> None:
        """Replace the rules for labels of a model."""
        served = self.get(name)
        served.check_rules(rules)
        self.journal.begin()
        self.journal.connection.execute("UPDATE models SET rules = ? WHERE name = ?", (encode(rules), name))
        self.journal.commit()
        served.rules = rules

    def take_snapshot(self, name: str) -> Any:
        """Save a model now, and return its snapshot."""
        served = self.get(name)
        info = self.snapshots.save(name, served.file_copy())
        self.writer.saved[name] = served.position, time.monotonic()
        self.snapshots.prune(name)
        return info

    def get(self, name: str) -> ServedModel:
        """Return a model; RefusedError if there is none of this name."""
        if name not in self.models:
            raise RefusedError(f"there is no model {name!r}", status=404)
        return self.models[name]

    def _replace(self, served: ServedModel, model: Any, reason: Any, source: str = "", new: bool = False) -> None:
        """Write a snapshot of the new model at the next position, then its record, and continue with it."""
        name, journal, writer = served.name, self.journal, self.writer
        encoding = model.table_encoding
        if encoding is not None and not encoding.complete:
            raise RefusedError("the first rows would decide about columns: give the kinds of all, or learn some rows")
        space = model.core.space
        if space.columns is not None or (space.features and space.encoder is None):
            raise RefusedError(
                f"the model for {name!r} learned from columns by position, but values in requests have names: train a "
                "model with named columns (fiol train, or an estimator with table_encoding={})"
            )
        if not new:
            self.take_snapshot(name)  # what is replaced can be rolled back to
        position = writer.position + 1
        after = ServedModel(name, model, served.rules, served.shadow_of)
        after.position, after.metrics = position, served.metrics
        info = self.snapshots.save(name, after.file_copy())
        try:
            journal.begin()
            journal.append(name, "replace", 0, encode(ReplaceRecord(reason, source)), position)
            if new:
                journal.connection.execute(
                    "INSERT INTO models VALUES (?, ?, ?, ?, ?)",
                    (name, served.shadow_of, encode(served.rules), served.source, journal.clock.now()),
                )
            journal.commit()
        except JournalGoneError:
            raise  # the path may be that of another journal's snapshot
        except BaseException:
            journal.rollback()
            os.unlink(self.snapshots.path(name, info))
            raise
        writer.position = position
        writer.saved[name] = position, time.monotonic()
        served.replace(model, position)
        self.snapshots.prune(name)


def check_same_labels(live: Any, other: Any) -> None:
    """Raise RefusedError if two models do not predict the same thing."""
    if (live.labels is None) != (other.labels is None):
        raise RefusedError("one of the models predicts labels, the other one numbers", status=409)
    if live.classes is None and live.labels is not None and {*live.labels} != {*other.labels}:
        raise RefusedError(f"the labels are {live.labels} and {other.labels}: they must be the same", status=409)
