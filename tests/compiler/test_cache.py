"""The disk cache of compiled code: broken files, full disks, locks, and the message about long compilations."""

import errno
import threading
import time

import numba
import pytest

from fiol.cli.progress import TrainingProgress
from fiol.compiler import cache

compiling = pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing compiles without the compiler")


def double(x):
    return 2.0 * x


def fresh():
    """A kernel of a new process, as far as the cache can tell."""
    return cache.kernel(double, {})


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(cache, "_warned", False)
    return tmp_path


def was_read(kernel):
    return sum(kernel.stats.cache_hits.values()) == 1


@compiling
def test_cached_kernel_is_reused_and_leaves_no_lock(folder):
    first, second = fresh(), fresh()
    assert (first(2.0), was_read(first), second(2.0), was_read(second)) == (4.0, False, 4.0, True)
    assert not list(folder.rglob("*.lock"))


@compiling
def test_kernels_from_the_cache_take_time_and_do_not_count_as_compiled(folder, monkeypatch, capsys):
    progress = TrainingProgress(None, 1, False)
    monkeypatch.setattr("fiol.cli.progress.SLOW_COMPILE", 0.0)
    before = cache.counts.kernels
    fresh()(2.0)
    assert cache.counts.kernels == before + 1
    progress.print_compiling()
    progress.print_compiling()
    assert capsys.readouterr().out.count("Compiled in") == 1
    progress, seconds = TrainingProgress(None, 1, False), cache.counts.seconds
    fresh()(2.0)
    assert (cache.counts.kernels, cache.counts.depth) == (before + 1, 0)
    assert progress.compiling == cache.counts.seconds - seconds > 0.0
    progress.print_compiling()
    assert capsys.readouterr().out == ""


@compiling
@pytest.mark.parametrize("ending", ["nbi", "nbc"])
def test_broken_cache_files_warn_once_and_are_replaced(folder, ending):
    fresh()(2.0)
    for _ in range(2):
        (file,) = folder.rglob(f"*.{ending}")
        file.write_bytes(file.read_bytes()[:25])
        again = fresh()
        if _ == 0:
            with pytest.warns(RuntimeWarning, match=f"{folder}.* cannot be read .*compiled anew.* NUMBA_CACHE_DIR"):
                assert again(2.0) == 4.0
        else:
            assert again(2.0) == 4.0  # a second warning would be an error
        assert not was_read(again)
    last = fresh()
    assert last(2.0) == 4.0
    assert was_read(last)


@compiling
def test_full_disk_warns_once(folder, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(cache.FunctionCache, "save_overload", full)
    with pytest.warns(RuntimeWarning, match=f"cannot be kept in {folder}.*No space left"):
        assert fresh()(2.0) == 4.0
    assert fresh()(2.0) == 4.0


@compiling
@pytest.mark.skipif(cache.fcntl is None, reason="no locks here")
@pytest.mark.parametrize(("held", "longest"), [(0.4, 60.0), (1.5, 0.2), (0.0, 60.0)], ids=["released", "kept", "stale"])
def test_cache_waits_for_a_lock_up_to_the_limit(folder, monkeypatch, held, longest):
    monkeypatch.setattr(cache, "digest", lambda parts: "one")
    monkeypatch.setattr(cache, "LONGEST_WAIT", longest)
    kernel = fresh()
    path = cache.Path(kernel.stats.cache_path)
    path.mkdir(parents=True, exist_ok=True)
    other = (path / "one.lock").open("ab")
    if held:
        cache.fcntl.flock(other, cache.fcntl.LOCK_EX)
    closing = threading.Timer(held, other.close)
    start = time.monotonic()  # before the timer's, or the wait could seem too short
    closing.start()
    assert kernel(2.0) == 4.0
    assert time.monotonic() - start >= min(held, longest)
    assert not list(folder.rglob("*.lock"))
    closing.join()


@compiling
@pytest.mark.skipif(cache.fcntl is None, reason="no locks here")
def test_threads_compiling_the_same_kernel_take_turns(folder, monkeypatch):
    unlink = cache.Path.unlink

    def slow(self, missing_ok=False):
        time.sleep(0.2)  # time enough for the other thread to find the same lock
        unlink(self, missing_ok=missing_ok)

    monkeypatch.setattr(cache.Path, "unlink", slow)
    kernel, answers = fresh(), []
    threads = [threading.Thread(target=lambda: answers.append(kernel(2.0))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [4.0, 4.0, 4.0]


@compiling
def test_failed_compilation_releases_the_lock(folder):
    kernel = cache.kernel(lambda x: x.nothing, {})
    with pytest.raises(numba.TypingError):
        kernel(2.0)
    assert not list(folder.rglob("*.lock"))


@compiling
def test_compile_message_is_printed_only_for_long_compilations(folder, monkeypatch, capsys):
    monkeypatch.setattr(cache, "someone_reads", lambda: True)
    monkeypatch.setattr(cache, "_told", -cache.PAUSE)
    monkeypatch.setattr(cache, "WAITS", 60.0)
    fresh()(2.0)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(cache, "WAITS", 0.0)
    fresh()(2)
    fresh()(2j)
    (line,) = capsys.readouterr().err.splitlines()  # the second one comes too soon after the first
    assert line.startswith("fiol: compiling")
    assert str(folder) in line
    assert "FIOL_QUIET=1" in line


@pytest.mark.parametrize(
    ("quiet", "terminal", "process", "expected"),
    [(None, True, "MainProcess", True), ("0", True, "MainProcess", True), ("1", True, "MainProcess", False),
     (None, False, "MainProcess", False), (None, True, "LokyProcess-1", False)],
)  # fmt: skip
def test_compile_message_is_silent_in_workers_files_and_when_disabled(monkeypatch, quiet, terminal, process, expected):
    monkeypatch.delenv("FIOL_QUIET", raising=False)
    monkeypatch.delitem(cache.sys.modules, "ipykernel", raising=False)
    if quiet is not None:
        monkeypatch.setenv("FIOL_QUIET", quiet)
    monkeypatch.setattr(cache.sys.stderr, "isatty", lambda: terminal, raising=False)
    monkeypatch.setattr(cache.multiprocessing.current_process(), "_name", process)
    assert cache.someone_reads() is expected
