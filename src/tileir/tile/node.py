"""Base of all nodes of Tile: it shows their text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from tileir.core.text.shown import NotebookNode, TextNode

if TYPE_CHECKING:
    from tileir.tile.building.tensors import Operand
    from tileir.tile.ir import Function


class Node(TextNode):
    """A node, which prints as its text."""

    __slots__ = ()

    def __str__(self) -> str:
        from tileir.tile.text.printer import node_text  # it imports the nodes

        return node_text(self)


class TopLevelNode(Node, NotebookNode):
    """A program, or a large part of one."""

    __slots__ = ()

    def __call__(self, *operands: Operand) -> Any:
        """Compute it from tensors of a builder: its statements become part of the function that is being built.

        Args:
            operands: One for each input, in order: tensors of a builder, or numbers and dimensions for inputs of rank
                0. Its dimensions become those of the operands.

        Returns:
            Its output, a tensor of the builder, or a tuple of several.

        Raises:
            TileError: TIL215, there are only arrays and no tensor of a builder among them; TIL705, the numbers of
                operands
                and inputs differ; TIL305, an operand of another rank; TIL317, one of another size than is declared.
        """
        from tileir.tile.building.inlining import called  # it imports the nodes

        return called(cast("Function", self), operands)
