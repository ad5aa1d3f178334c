"""Further words by which the search finds a section.

A comment below the title of a section has them: `<!-- Search words: imbalanced classes, unbalanced -->`.
"""

import re
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

WORDS = re.compile(r"<!-- Search words: (.+?) -->", re.DOTALL)


def words_in(comment: str) -> list[str]:
    """Return the words of a comment.

    >>> words_in("<!-- Search words: imbalanced classes, unbalanced -->"), words_in("<!-- Note -->")
    (['imbalanced classes', 'unbalanced'], [])
    """
    found = WORDS.fullmatch(comment.strip())
    return [" ".join(word.split()) for word in found[1].split(",")] if found else []


class SearchWords(SphinxTransform):
    """Replace comments of words by entries of the index, which the search looks at."""

    default_priority = 400  # before the domain of the index collects its entries

    def apply(self, **options: Any) -> None:
        """Look at all comments."""
        for comment in list(self.document.findall(nodes.raw)):
            words = words_in(comment.astext())
            if words and isinstance(comment.parent, nodes.section):
                section = comment.parent["ids"][0]
                entries = [("single", word, section, "main", None) for word in words]
                comment.replace_self(addnodes.index(entries=entries))


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the extension."""
    app.add_transform(SearchWords)
    return {"parallel_read_safe": True}
