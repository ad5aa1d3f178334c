"""Configuration of the documentation: `make docs` builds it strictly, offline, with all examples executed."""

import hashlib
import os
import sys
from pathlib import Path

import fiol

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "src" / "fiol").rglob("*.py"))
PACKAGE_DIGEST = hashlib.sha256(b"".join(path.read_bytes() for path in SOURCES)).hexdigest()[:16]
# Executed pages: the command is that of this environment, and prints no message about compiling.
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
os.environ.update(FIOL_QUIET="1", NO_COLOR="1", COLUMNS="110")
sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "fiol"
author = "The fiol authors"
copyright = "2026, the fiol authors"
version = release = fiol.__version__

extensions = [
    "myst_nb",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "command_reference",
    "markdown_docstrings",
    "offline_mathjax",
    "repository_links",
    "search_words",
    "shell_cells",
    "whole_streams",
]
exclude_patterns = ["_ext", "_templates"]
nitpicky = False
default_role = "literal"

# --- pages ------------------------------------------------------------------------------------
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath", "fieldlist"]
myst_heading_anchors = 3
nb_execution_mode = "cache"  # a page runs again when its code or the package has changed
nb_execution_cache_path = str(ROOT / "build" / "executed-pages" / PACKAGE_DIGEST)
nb_execution_raise_on_error = True
nb_execution_timeout = 240
nb_merge_streams = True

# --- reference --------------------------------------------------------------------------------
autosummary_generate = True
autodoc_mock_imports = ["pyspark"]
autodoc_typehints = "none"
numpydoc_show_class_members = False
toc_object_entries_show_parents = "hide"
templates_path = ["_templates"]

# --- appearance -------------------------------------------------------------------------------
html_theme = "pydata_sphinx_theme"
html_title = f"fiol {release}"
html_static_path = ["_static"]
html_favicon = str(ROOT / "src" / "fiol" / "server" / "static" / "icon.svg")
html_css_files = ["fiol.css"]
html_search_scorer = str(Path(__file__).parent / "_static" / "search_order.js")
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "show_prev_next": True,
    "secondary_sidebar_items": ["page-toc"],
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "footer_start": ["copyright"],
    "footer_end": ["theme-version"],
    "pygments_light_style": "tango",
    "pygments_dark_style": "monokai",
}
