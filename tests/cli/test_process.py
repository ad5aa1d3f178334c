"""The command in a process of its own: what it leaves out at its start and at its end."""

import importlib
import os
import sys
import threading

import pytest

from fiol.cli import process
from fiol.compiler import lean_start


def test_first_kernel_after_load_without_blas_hides_scipy_and_no_later_one(monkeypatch):
    monkeypatch.delitem(sys.modules, lean_start.BLAS, raising=False)
    lean_start.load_without_blas()
    with pytest.raises(ImportError), lean_start.loading_kernel():
        importlib.import_module(lean_start.BLAS)
    with lean_start.loading_kernel():
        assert importlib.import_module(lean_start.BLAS) is not None


def test_scipy_that_is_loaded_is_not_hidden(monkeypatch):
    loaded = importlib.import_module(lean_start.BLAS)
    lean_start.load_without_blas()
    with lean_start.loading_kernel():
        assert sys.modules[lean_start.BLAS] is loaded
    assert sys.modules[lean_start.BLAS] is loaded


@pytest.mark.parametrize(("code", "ends"), [(0, [0]), (None, [0]), (1, [])])
def test_process_ends_at_once_after_success_alone(monkeypatch, code, ends):
    found = []
    monkeypatch.setattr(process, "main", lambda prog_name: sys.exit(code))
    monkeypatch.setattr(process, "exit_now", found.append)
    monkeypatch.setattr(process, "load_without_blas", lambda: None)
    monkeypatch.setattr(process.gc, "set_threshold", lambda count: None)
    monkeypatch.setattr(process, "is_done", lambda: True)
    with pytest.raises(SystemExit) as ended:
        process.run_command()
    assert (found, ended.value.code) == (ends, code)


def test_process_is_not_done_while_a_thread_works_or_output_is_closed(monkeypatch):
    monkeypatch.setattr(threading, "enumerate", lambda: [threading.main_thread()])
    assert process.is_done()
    other = threading.Thread(target=print)
    monkeypatch.setattr(threading, "enumerate", lambda: [threading.main_thread(), other])
    assert not process.is_done()
    other.daemon = True
    assert process.is_done()
    with open(os.devnull, "w") as closed:
        monkeypatch.setattr(sys, "stdout", closed)
    assert not process.is_done()
