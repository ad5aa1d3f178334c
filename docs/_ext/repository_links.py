"""Links from pages to files of the repository that are not pages: they lead to the repository on the web."""

import re
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform

ROOT = Path(__file__).parents[2]


def repository_url() -> str:
    """Return the address of the repository, as `[project.urls]` states it."""
    found = re.search(r'^Repository = "(.+)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    if found is None:
        raise ValueError("pyproject.toml must have Repository in [project.urls]")
    return found[1]


class RepositoryLinks(SphinxPostTransform):
    """Replace `[text](../../path)` of an existing file outside docs/ by a link to the repository."""

    default_priority = 5

    def run(self, **options: Any) -> None:
        """Look at all references that MyST has left open."""
        here = Path(self.env.doc2path(self.env.docname)).parent
        docs = ROOT / "docs"
        for node in list(self.document.findall(lambda n: getattr(n, "tagname", "") == "download_reference")):
            target = (here / node["reftarget"]).resolve() if not node["reftarget"].startswith("/") else None
            if target is None:
                target = docs / node["reftarget"].lstrip("/")
            if target.exists() and docs not in target.parents:
                uri = f"{repository_url()}/blob/main/{target.relative_to(ROOT)}"
                node.replace_self(nodes.reference("", "", *node.children, refuri=uri, internal=False))


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the extension."""
    app.add_post_transform(RepositoryLinks)
    return {"parallel_read_safe": True}
