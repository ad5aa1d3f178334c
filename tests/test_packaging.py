"""The metadata of the package: addresses, Python versions, extras, and the files that hosts of repositories show."""

import os
import re
import subprocess
from pathlib import Path

import pytest

import fiol

ROOT = Path(__file__).parents[1]


@pytest.fixture
def project():
    tomllib = pytest.importorskip("tomllib")
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_metadata_names_addresses_and_python_versions(project):
    assert {"Documentation", "Repository", "Changelog", "Issues"} <= set(project["urls"])
    versions = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    assert f">={versions[0]}" == project["requires-python"]
    assert len(versions) >= 4


def test_extra_all_has_every_other_one_except_spark_and_mlflow(project):
    extras = project["optional-dependencies"]
    named = {
        name for one in (*extras["all"], *extras["reproduce"]) for name in re.findall(r"\w+", one.partition("[")[2])
    }
    assert set(extras) - named == {"all", "spark", "mlflow"}


@pytest.mark.parametrize("name", ["CITATION.cff", "CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md", "LICENSE"])
def test_file_of_the_project_is_there(name):
    assert (ROOT / name).stat().st_size > 100


def test_version_and_date_agree_in_all_files():
    version = fiol.__version__
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    released = re.findall(
        r"^## (\d[\w.]*) - (\d{4}-\d\d-\d\d)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.M
    )
    assert released[0][0] == version
    assert re.findall(r'^(?:version|date-released): "?([\w.-]+)"?$', citation, re.M) == [*released[0]]


@pytest.mark.skipif(os.name == "nt", reason="the workflow runs on Linux")
def test_release_workflow_compares_the_tag_with_the_version():
    workflow = (ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8")
    (command,) = re.findall(r"run: (test .+)$", workflow, re.M)
    for tag, code in ((f"v{fiol.__version__}", 0), ("v99.0.0", 1), (fiol.__version__, 1)):
        environment = {**os.environ, "GITHUB_REF_NAME": tag}
        assert subprocess.run(["sh", "-c", command], cwd=ROOT, env=environment).returncode == code


def test_workflow_of_github_runs_the_targets_of_the_submission_script():
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    (matrix,) = re.findall(r"^        target: \[(.+)\]$", workflow, re.M)
    targets = [*re.findall(r"- run: make ([a-z-]+)", workflow), *matrix.split(", ")]
    assert sorted(targets) == sorted(re.findall(r"^run ([a-z-]+)", script, re.M))
