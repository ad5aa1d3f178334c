"""Cells of shell commands without the line `%%bash`, which only Jupyter needs."""

from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

MAGIC = "%%bash\n"


class ShellCells(SphinxTransform):
    """Show cells that begin with `%%bash` as the commands that a reader types."""

    default_priority = 400

    def apply(self, **options: Any) -> None:
        """Look at all blocks of code."""
        for block in list(self.document.findall(nodes.literal_block)):
            if block.astext().startswith(MAGIC):
                commands = block.astext().removeprefix(MAGIC)
                block.replace_self(nodes.literal_block(commands, commands, language="bash"))


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the extension."""
    app.add_transform(ShellCells)
    return {"parallel_read_safe": True}
