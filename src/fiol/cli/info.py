"""`fiol info`: what is installed, and where compiled code is kept."""

from __future__ import annotations

import importlib.util
import json
import os
import platform
from typing import Any

import click

import fiol
from fiol.cli.errors import handle_errors
from fiol.cli.terminal import echo

#: What may be installed beside the library, by the extra that installs it (`pip install fiol[files]`).
EXTRAS = {
    "sklearn": ("scikit-learn",),
    "river": ("river",),
    "onnx": ("onnx",),
    "plots": ("matplotlib",),
    "regret": ("scipy", "scikit-learn", "clarabel", "threadpoolctl"),
    "files": ("pyarrow",),
    "serve": ("starlette", "uvicorn", "msgspec", "httptools"),
    "mlflow": ("mlflow-skinny",),
    "spark": ("pyspark",),
}


def found_here() -> dict[str, Any]:
    """Versions, cores, the cache and extras, as plain JSON values."""
    extras = {name: {part: version_of(part) for part in parts} for name, parts in EXTRAS.items()}
    return {
        "fiol": fiol.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cores": os.cpu_count(),
        "libraries": {name: version_of(name) for name in ("numpy", "numba", "llvmlite", "narwhals", "click", "rich")},
        "cache": cache_folder(),
        "extras": extras,
    }


def version_of(distribution: str) -> str | None:
    """Return the version of an installed distribution, or None."""
    from importlib import metadata  # here: all commands load this file, and it takes long

    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def cache_folder() -> str:
    """Return the folder of compiled code without loading the compiler."""
    named = os.environ.get("NUMBA_CACHE_DIR")
    if named:
        return named
    spec = importlib.util.find_spec("fiol.engine")
    places = list(spec.submodule_search_locations or []) if spec is not None else []
    return os.path.join(places[0], "__pycache__") if places and os.access(places[0], os.W_OK) else "the user's cache"


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
@handle_errors
def info(as_json: bool, signals: Any) -> None:
    """Print versions, the cache of compiled code, cores, and which extras are installed."""
    found = found_here()
    if as_json:
        echo(json.dumps(found, indent=2))
        return
    libraries = ", ".join(f"{name} {version or 'missing'}" for name, version in found["libraries"].items())
    echo(f"fiol {found['fiol']}, Python {found['python']}, {found['platform']}, {found['cores']} cores")
    echo(libraries)
    echo(f"Compiled code is kept in {found['cache']}")
    for name, parts in found["extras"].items():
        there = ", ".join(f"{part} {version or 'is missing'}" for part, version in parts.items())
        echo(f"{name}: {there}")
