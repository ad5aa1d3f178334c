"""Short versions of the campaigns against files: see tests/campaigns."""

import os
import random
import stat
import subprocess
import sys
import threading

import numpy as np
import pytest
from campaigns import damage, kills
from tests.commands import CliRunner
from tests.interpreted import interpret_all

import fiol
from fiol.cli.inspect import inspect_model
from fiol.persistence import atomic_file, memory, model_file
from fiol.persistence.model_file import ModelFileError


def test_damaged_and_forged_files_are_rejected_or_work(tmp_path, monkeypatch):
    interpret_all(monkeypatch)
    monkeypatch.setattr(memory, "free_memory", lambda: 2.0**28)  # forged claims below that are allocated and written
    found = damage.campaign(120, seed=2, folder=tmp_path)
    assert found["damaged, refused"] == 40
    assert found["forged, refused"] > 40
    assert found["forged, loaded and works"] > 1
    kinds = len(damage.MODELS) + len(damage.TRAINED)
    assert found["claims of too many features, refused"] == kinds
    assert found["numbers that are not finite, refused"] == damage.POISONED * kinds


@pytest.fixture
def stored(tmp_path):
    """A learner of hashed features in a file, its header, and the bytes of its arrays."""
    learner = fiol.Learner(fiol.FIOL(fiol.Logistic()), bits=6, compiled=False)
    learner.learn([{"a": 1.0}], [1.0])
    learner.save(tmp_path / "model")
    return (tmp_path / "model", *damage.parts((tmp_path / "model").read_bytes()))


@pytest.mark.parametrize(
    ("option", "value", "reason"),
    [
        ("max_features", True, "its max_features must be an integer or null, got True"),
        ("bits", 7, "it has 64 features, but its options say 128"),
        ("bits", 31, "it has 64 features, but its options say 2147483647"),
        ("bits", None, "'bits' is missing from its options"),
        ("n_features", 2**31 - 2, "n_features and bits exclude each other"),
    ],
)
def test_file_with_inconsistent_options_is_rejected(stored, option, value, reason):
    path, header, body = stored
    options = header["header"]["model"]["options"]
    if value is None:
        del options[option]
    else:
        options[option] = value
    path.write_bytes(damage.signed(header, body))
    with pytest.raises(ModelFileError, match=reason):
        fiol.load(path, compiled=False)


def test_named_file_with_fixed_number_of_features_is_rejected(tmp_path):
    """A number of features that is fixed would break the file that is written after the next new name."""
    path = tmp_path / "model"
    learner = fiol.Learner(fiol.FIOL(fiol.Logistic()), compiled=False)
    learner.learn([{"a": 1.0, "b": 2.0}], [1.0])
    learner.save(path)
    header, body = damage.parts(path.read_bytes())
    header["header"]["model"]["options"]["n_features"] = 2
    path.write_bytes(damage.signed(header, body))
    with pytest.raises(ModelFileError, match="its names do not go with its options"):
        fiol.load(path, compiled=False)


def test_file_that_claims_too_many_features_is_rejected(tmp_path):
    """Are refused before there is room for them."""
    path = tmp_path / "model"
    fiol.Learner(fiol.FIOL(fiol.Logistic()), n_features=3, compiled=False).save(path)
    header, body = damage.parts(path.read_bytes())
    header["header"]["model"]["options"]["n_features"] = 2**31 - 2
    path.write_bytes(damage.signed(header, body))
    with pytest.raises(ModelFileError, match="it has 3 features, but its options say 2147483646"):
        fiol.load(path, compiled=False)


def test_load_of_unseen_features_beyond_free_memory_raises(tmp_path, monkeypatch):
    """By `load`, and by `fiol inspect`, which needs more than that."""
    path = tmp_path / "model"
    learner = fiol.Learner(fiol.FIOL(fiol.Logistic()), n_features=10**6, compiled=False)
    learner.learn(fiol.Chunk(np.array([0, 1]), np.array([7], np.int32), np.ones(1)), [1.0])
    learner.save(path)
    monkeypatch.setattr("fiol.persistence.memory.free_memory", lambda: 4e6)
    with pytest.raises(ModelFileError, match=r"a model of 1,000,000 features takes .* of which 0.0 GiB are free"):
        fiol.load(path, compiled=False)
    monkeypatch.setattr("fiol.persistence.memory.free_memory", lambda: 1e8)
    assert fiol.load(path, compiled=False).n_features == 10**6
    monkeypatch.setattr("fiol.persistence.memory.free_memory", lambda: 31e6)
    done = CliRunner().invoke(inspect_model, [str(path)])
    assert done.exit_code != 0
    assert "1,000,000 features takes" in done.output


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_killed_process_leaves_a_complete_file(tmp_path):
    """In a process without threads, of which children are forked."""
    code = f"from campaigns.kills import campaign; print(*campaign(25, 3, {str(tmp_path)!r}))"
    environment = {
        **os.environ,
        "PYTHONPATH": os.path.dirname(os.path.dirname(kills.__file__)),
        "OPENBLAS_NUM_THREADS": "1",
    }
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    strays, most = map(int, done.stdout.split())
    assert most == (strays > 0)


@pytest.mark.skipif(atomic_file.fcntl is None, reason="no locks of files")
def test_only_abandoned_temporary_files_are_deleted(tmp_path):
    mine, old, other = tmp_path / f".fiol-{'a' * 16}.tmp", tmp_path / f".fiol-{'b' * 16}.tmp", tmp_path / ".fiol-x.tmp"
    for path in (mine, old, other):
        path.write_bytes(b"half")
    with open(mine, "rb") as file:
        atomic_file.fcntl.flock(file, atomic_file.fcntl.LOCK_EX)
        model_file.write(tmp_path / "model", {}, {"w": np.zeros(3)})
        assert {path.name for path in tmp_path.iterdir()} == {"model", mine.name, other.name}
    model_file.write(tmp_path / "model", {}, {"w": np.ones(3)})
    assert {path.name for path in tmp_path.iterdir()} == {"model", other.name}


@pytest.mark.skipif(atomic_file.fcntl is None, reason="no locks of files")
def test_temporary_file_deleted_by_another_process_is_recreated(tmp_path, monkeypatch):
    """It takes a file that was made a moment ago, and another is made."""
    lock, swept = atomic_file.lock, []

    def late(file):
        if len(swept) < 2:
            swept.append(file.name)
            atomic_file.delete_leftovers(str(tmp_path))
        return lock(file)

    monkeypatch.setattr(atomic_file, "lock", late)
    model_file.write(tmp_path / "model", {"a": 1}, {})
    assert len(set(swept)) == 2
    assert model_file.read(tmp_path / "model") == ({"a": 1}, {})
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_files_are_written_without_file_locks(tmp_path, monkeypatch):
    monkeypatch.setattr(atomic_file, "fcntl", None)
    model_file.write(tmp_path / "model", {"seed": random.Random(1).random()}, {})
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


@pytest.mark.skipif(atomic_file.fcntl is None, reason="no locks of files")
def test_files_are_written_on_a_file_system_without_locks(tmp_path, monkeypatch):
    def refuse(file, operation):
        raise OSError("no locks available")

    monkeypatch.setattr(atomic_file.fcntl, "flock", refuse)
    running = tmp_path / f".fiol-{'a' * 16}.tmp"  # possibly of a process that still writes it
    with open(running, "wb") as file:
        assert atomic_file.lock(file) is False
    model_file.write(tmp_path / "model", {"a": 1}, {})
    assert model_file.read(tmp_path / "model") == ({"a": 1}, {})
    assert {path.name for path in tmp_path.iterdir()} == {"model", running.name}


def test_new_directories_are_synced_from_the_top(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(atomic_file, "sync_directory", synced.append)
    for _ in range(2):  # the second call finds them
        atomic_file.make_directory(str(tmp_path / "a" / "b"))
    assert (tmp_path / "a" / "b").is_dir()
    assert synced == [str(tmp_path), str(tmp_path / "a")]


@pytest.mark.skipif(atomic_file.fcntl is None, reason="no locks of files")
def test_model_saved_beside_an_output_leaves_its_temporary_file(tmp_path):
    with atomic_file.output_file(tmp_path / "predictions.csv") as file:
        file.write(b"label\n")
        model_file.write(tmp_path / "model", {}, {})
    assert (tmp_path / "predictions.csv").read_bytes() == b"label\n"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names")
def test_output_to_a_pipe_does_not_replace_it(tmp_path):
    pipe, found = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: found.append(pipe.read_bytes()))
    reader.start()
    with atomic_file.output_file(pipe) as file:
        file.write(b"label\n")
    reader.join()
    assert found == [b"label\n"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)
