"""Languages of the examples of the manual: Tile inside of Python, and programs among what examples print."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from docutils import nodes
from sphinx.transforms import SphinxTransform

if TYPE_CHECKING:
    from sphinx.application import Sphinx

_PROGRAM: Final = re.compile(r"(//[^\n]*\n|\[\[[^\n]*\n|\d+: [^\n]*\n)*\s*(function|program|kernel|block) ?[\w({\[]")


class ExampleLanguages(SphinxTransform):
    """Names the language of each example and of each output."""

    default_priority = 450  # before Sphinx highlights, behind the directives that make the nodes

    def apply(self, **_: Any) -> None:
        """Set the language of literal blocks that the directives of ``sphinx.ext.doctest`` made."""
        for node in self.document.findall(nodes.literal_block):
            kind = node.get("testnodetype")
            if kind == "testcode":
                node["language"] = "python-tile"
            elif kind == "testoutput" and _PROGRAM.match(node.astext()):
                node["language"] = "tile"


def setup(app: Sphinx) -> dict[str, bool]:
    """Add the transform to a build."""
    app.add_transform(ExampleLanguages)
    return {"parallel_read_safe": True}
