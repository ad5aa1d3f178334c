"""Killed runs of `fiol train` resume: a short version of tests/campaigns/resume.py."""

import os

import pytest
from campaigns import resume
from tests.interpreted import interpret_all

from fiol.training import run


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs forks")
def test_killed_runs_resume_to_the_same_bytes(tmp_path, monkeypatch):
    interpret_all(monkeypatch)
    monkeypatch.setattr(run, "FIRST_LINE", 50)
    monkeypatch.setattr(run, "WORK_AT_ONCE", 100)
    kinds = {
        "one pass": [],
        "early stop": ["--passes", "3", "--shuffle", "40", "--holdout", "0.2", "--early-stop", "1"],
    }
    monkeypatch.setattr(resume, "KINDS", kinds)
    hits, ends = resume.campaign(6, 3, tmp_path, ["--algorithm", "FIOL"], rows=300, every=20)
    assert sum(hits.values()) >= 6
    assert sum(ends.values()) >= 1
