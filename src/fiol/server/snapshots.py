"""Snapshots: model files that carry the journal's position of the last record they have learned from."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Callable
from typing import Any

from fiol.persistence.atomic_file import make_directory
from fiol.persistence.model_file import ModelFileError
from fiol.server.messages import SnapshotInfo
from fiol.workflow.model import open_model

FOLDER = "snapshots"
#: Position and rounds are in the name of a file, so that a listing opens none.
FILE_PATTERN = re.compile(r"^(\d{12,})-(\d+)\.fiol$")


class SnapshotStore:
    """The snapshots of all models in the folder of a journal.

    Parameters
    ----------
    folder : of the journal.
    keep : snapshots of a model that `prune` leaves.
    check : raises an error if the folder is no longer that of the journal; called before anything is written.
    """

    def __init__(self, folder: str, keep: int = 5, check: Callable[[], None] = lambda: None) -> None:
        self.folder, self.keep, self.check = os.path.join(folder, FOLDER), keep, check

    def list(self, name: str) -> list[SnapshotInfo]:
        """Return the snapshots of a model, the newest first."""
        folder, found = os.path.join(self.folder, name), []
        for file in os.listdir(folder) if os.path.isdir(folder) else ():
            parts = FILE_PATTERN.match(file)
            if parts is None:
                continue
            with contextlib.suppress(FileNotFoundError):  # another thread removed it
                about = os.stat(os.path.join(folder, file))
                found.append(SnapshotInfo(int(parts[1]), int(parts[2]), about.st_mtime, about.st_size, file))
        return sorted(found, key=lambda one: one.position, reverse=True)

    def last(self) -> tuple[int, str]:
        """Return the last position of the snapshots of all models, and the path; 0 and "" without any."""
        names = os.listdir(self.folder) if os.path.isdir(self.folder) else ()
        found = [(one.position, self.path(name, one)) for name in names for one in self.list(name)]
        return max(found, default=(0, ""))

    def path(self, name: str, snapshot: SnapshotInfo) -> str:
        """Return the path of a snapshot."""
        return os.path.join(self.folder, name, snapshot.file)

    def save(self, name: str, model: Any) -> SnapshotInfo:
        """Write a model of `ServedModel.file_copy`; the file is complete and durable, or not there."""
        self.check()
        folder, position = os.path.join(self.folder, name), model.meta["serving"]["position"]
        make_directory(folder)
        file = f"{position:012d}-{model.rounds}.fiol"
        path = os.path.join(folder, file)
        model.save(path)
        for other in self.list(name):  # of the same position: a model was replaced twice at once
            if other.position == position and other.file != file:
                os.unlink(self.path(name, other))
        about = os.stat(path)
        return SnapshotInfo(position, model.rounds, about.st_mtime, about.st_size, file)

    def load(self, name: str, snapshot: SnapshotInfo) -> Any:
        """Return the model of a snapshot; ModelFileError if the file is damaged."""
        model = open_model(self.path(name, snapshot))
        if model.meta.get("serving", {}).get("position") != snapshot.position:
            raise ModelFileError(f"{self.path(name, snapshot)}: the file is that of another position")
        return model

    def newest_whole(self, name: str, last: int, say: Callable[[str], None]) -> Any:
        """Return the model of the newest snapshot that can be read; damaged ones are reported by `say`.

        Snapshots beyond the last record of the journal belong to requests that were never acknowledged.

        Raises
        ------
        ValueError : there is none.
        """
        for snapshot in self.list(name):
            path = self.path(name, snapshot)
            if snapshot.position > last:
                say(f"{path} is of a request that was not finished: removed")
                os.unlink(path)
                continue
            try:
                return self.load(name, snapshot)
            except (ValueError, OSError) as error:
                say(f"{error}: the snapshot before it is used")
        raise ValueError(f"{os.path.join(self.folder, name)}: there is no whole snapshot of the model {name!r}")

    def at(self, name: str, position: int) -> SnapshotInfo | None:
        """Return the snapshot at a position, if there is one."""
        return next((one for one in self.list(name) if one.position == position), None)

    def prune(self, name: str) -> None:
        """Remove all but the newest snapshots."""
        for snapshot in self.list(name)[self.keep :]:
            with contextlib.suppress(OSError):  # tried again after the next snapshot
                os.unlink(self.path(name, snapshot))

    def oldest(self, name: str) -> int:
        """Return the position of the oldest snapshot that is kept; 0 without one."""
        found = self.list(name)
        return found[-1].position if found else 0

    def remove(self, name: str) -> None:
        """Remove all snapshots of a model."""
        shutil.rmtree(os.path.join(self.folder, name), ignore_errors=True)
