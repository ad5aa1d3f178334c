"""The metadata of the package: addresses, Python versions, extras, and the files that hosts of repositories show."""

import re
from pathlib import Path

import pytest

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
