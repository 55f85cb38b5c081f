"""Partitioned programs as text: the mesh, the part of each value that ranks have, and the function.

.. code-block:: text

    partition over x=2 {
      A at [x 0:4 4:7, 0:6]
      S at [0:7] sharing [k: x 0:3 3:6]
    }
    function (…) -> (…) { … }

Values without a line are whole on each rank.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tileir.core import ArgumentError, ArrayValue
from tileir.core.text.lexing import everything, source_of
from tileir.tile.text.constant_parser import ConstantParser
from tileir.typed.sharding.mesh import Mesh, Split, whole
from tileir.typed.sharding.partitioned import Partitioned, Placement, Share
from tileir.typed.text.language import Reader
from tileir.typed.text.lexer import Cursor, spell
from tileir.typed.text.parser import by_digest, read_function
from tileir.typed.text.printer import to_text as function_text

if TYPE_CHECKING:
    from tileir.core.array_value import Array


def to_text(program: Partitioned) -> str:
    """Return the text of a partitioned program, which :func:`parse` reads back; it does not include remarks."""
    shapes = {each.name: each.shape for each in (*program.function.inputs, *program.function.operations)}
    lines = [
        _placed(name, placement)
        for name, placement in program.placements
        if placement.shares or placement.layout != whole(shapes[name])
    ]
    return "\n".join([f"partition over {program.mesh} {{", *lines, "}", function_text(program.function)])


def _placed(name: str, placement: Placement) -> str:
    shares = ", ".join(f"{share.polynomial}: {share.split}" for share in placement.shares)
    behind = f" sharing [{shares}]" if shares else ""
    return f"  {spell(name)} at [{', '.join(map(str, placement.layout))}]{behind}"


def parse(text: str, name: str = "<text>", *, arrays: Iterable[ArrayValue | Array] = ()) -> Partitioned:
    """Read a text of :func:`to_text`; its rules are not verified.

    Args:
        text: The program.
        name: The name of the text in errors.
        arrays: Arrays that the text may name by digests alone, as for functions.

    Raises:
        ParseError: The text does not follow the grammar; one diagnostic for each fault.
    """
    known = by_digest(arrays)

    def program(cursor: Cursor) -> Partitioned:
        cursor.word("partition")
        cursor.word("over")
        mesh = _mesh(cursor)
        cursor.expect("{")
        placed = {}
        reader = Reader(cursor, ConstantParser(cursor, known), {})
        while not cursor.skip("}"):
            value = cursor.name("a value, as in A at [x 0:4 4:7]")
            cursor.word("at")
            layout = cursor.enclosed(reader.split, "[]")
            shares = cursor.enclosed(lambda: _share(reader), "[]") if cursor.skip_word("sharing") else ()
            placed[value] = Placement(layout, shares)
        function = read_function(cursor, known)
        values = (*function.inputs, *function.operations)
        return Partitioned(
            function, mesh, tuple((each.name, placed.get(each.name) or Placement(whole(each.shape))) for each in values)
        )

    return everything(Cursor, source_of(text, name), program)


def _mesh(cursor: Cursor) -> Mesh:
    start = cursor.token.start

    def axis() -> tuple[str, int]:
        name = cursor.name("an axis of the mesh, as in x=2")
        cursor.expect("=")
        return name, cursor.size()

    axes = cursor.list(axis)
    try:
        return Mesh(axes)
    except ArgumentError as error:
        raise cursor.report_and_abandon(error.diagnostics[0].message, cursor.span_from(start), "TIL351") from None


def _share(reader: Reader) -> Share:
    polynomial = reader.cursor.affine()
    reader.cursor.expect(":")
    split: Split = reader.split()
    return Share(polynomial, split)
