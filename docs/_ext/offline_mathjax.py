"""MathJax from an installed package, copied into the site: pages need no network."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx


def add_mathjax(app: Sphinx, config: Any) -> None:
    """Copy the files of the package sphinx-mathjax-offline, and let pages load them."""
    package = find_spec("sphinx-mathjax-offline")
    if package is None or package.origin is None:
        raise ImportError("sphinx-mathjax-offline is not installed: run `make docs`, which installs the group docs")
    config.html_static_path.append(str(Path(package.origin).parent / "static"))
    config.mathjax_path = "mathjax/tex-chtml.js"


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the extension."""
    app.connect("config-inited", add_mathjax)
    return {"parallel_read_safe": True}
