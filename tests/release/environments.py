"""Install the built wheel and sdist into empty environments, with the newest and the oldest dependencies, and try it.

python tests/release/environments.py DIST [--quick]: one environment per Python that is found (3.10 to 3.14) with the
newest dependencies, one with the oldest that pyproject.toml allows, on the oldest Python, and one from the sdist.
"""

from __future__ import annotations

import argparse
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
VERSIONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
#: Extras of the environments; `all` would add hundreds of megabytes to each.
EXTRAS = "files,sklearn"


def interpreters() -> dict[str, str]:
    """Return the Pythons of this machine by version: from the path, and those of pyenv."""
    found: dict[str, str] = {}
    pyenv = os.environ.get("PYENV_ROOT", str(Path.home() / ".pyenv"))
    for version in VERSIONS:
        named = shutil.which(f"python{version}")
        for path in [*([named] if named else []), *sorted(glob.glob(f"{pyenv}/versions/{version}.*/bin/python"))]:
            if subprocess.run([path, "-c", "import venv"], capture_output=True).returncode == 0:
                found[version] = path
                break
    return found


def oldest_constraints(path: Path) -> None:
    """Write the lower bounds of pyproject.toml as constraints: numpy>=1.24 becomes numpy==1.24.*."""
    bounds = re.findall(r'"([a-z-]+)>=([0-9.]+)', (ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    path.write_text("".join(f"{name}=={bound}.*\n" for name, bound in dict(bounds).items()), encoding="utf-8")


def try_environment(title: str, python: str, package: str, constraints: Path | None = None) -> None:
    """Make an environment, install the package, and run the smoke test in an empty folder; SystemExit if that fails."""
    print(f"{title} ...", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([python, "-m", "venv", f"{folder}/venv"], check=True)
        own = f"{folder}/venv/bin/python"
        limits = ["-c", str(constraints)] if constraints else []
        subprocess.run(
            [own, "-m", "pip", "install", "-q", *limits, f"{package}[{EXTRAS}]"], check=True, stderr=subprocess.DEVNULL
        )
        empty = Path(folder, "empty")
        empty.mkdir()
        environment = {**os.environ, "NUMBA_CACHE_DIR": f"{folder}/cache", "FIOL_QUIET": "1"}
        smoke = [own, "-W", "error::DeprecationWarning:fiol", str(ROOT / "tests" / "release" / "smoke.py"), EXTRAS]
        if subprocess.run(smoke, cwd=empty, env=environment).returncode:
            raise SystemExit(f"{title}: the smoke test failed")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("dist", type=Path, help="the folder with one wheel and one sdist")
    parser.add_argument("--quick", action="store_true", help="the newest Python with the newest dependencies alone")
    options = parser.parse_args(arguments)
    (wheel,), (sdist,) = (list(options.dist.resolve().glob(pattern)) for pattern in ("*.whl", "*.tar.gz"))
    pythons = interpreters() or {f"{sys.version_info[0]}.{sys.version_info[1]}": sys.executable}
    missing = [version for version in VERSIONS if version not in pythons]
    newest = list(pythons)[-1]
    for version, python in pythons.items():
        if version == newest or not options.quick:
            try_environment(f"Python {version}, newest dependencies", python, str(wheel))
    if not options.quick:
        oldest = next(iter(pythons))
        with tempfile.TemporaryDirectory() as folder:
            oldest_constraints(Path(folder, "constraints.txt"))
            title = f"Python {oldest}, oldest dependencies"
            try_environment(title, pythons[oldest], str(wheel), Path(folder, "constraints.txt"))
        try_environment(f"Python {newest}, from the sdist", pythons[newest], str(sdist))
    if missing:
        print(f"Not on this machine: Python {', '.join(missing)}")


if __name__ == "__main__":
    main()
