"""Stripe text back to blocks: the inverse of :mod:`tileir.stripe.text.printer`.

Also reads the elder form of shapes, ``i8(1024:32, 32:1)`` for size and stride of each axis, texts without the
number of points and byte sizes, constants of the kinds ``int`` and ``float``, which have 32 bits, and statements
that are ended by semicolons. Sizes in bytes, exteriors and the
number of points follow from the rest and are not checked. Without its first line, a program is called with what the
block ``main`` reads, and returns what it writes, but for temporaries.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeVar

from tileir.core import DType, attrs
from tileir.core.text.lexing import END, AbandonError, everything, source_of
from tileir.stripe.dtypes import scalar_dtype
from tileir.stripe.flattening import flattened
from tileir.stripe.instructions import COPY, Pipeline, Product, role_of
from tileir.stripe.ir import (
    Block,
    Buffer,
    Constant,
    Index,
    Location,
    Program,
    Special,
    Statement,
    Store,
    Tags,
    scalar_output,
)
from tileir.stripe.nesting import parameters_of
from tileir.stripe.text.header_parser import HeaderParser
from tileir.stripe.text.instruction_words import copy_of, instruction_of
from tileir.stripe.text.language import DEFINITIONS, Reader
from tileir.stripe.text.token_parser import MAX_CHARACTERS, MAX_SHOWN, NAME, NUMBER, SCALAR, HopelessError

T = TypeVar("T")

MAX_DEPTH: Final = 200
"""Blocks nested deeper than this are refused."""


def parse(text: str, name: str = "<stripe>") -> Program:
    """Return the program that ``text`` describes.

    Raises:
        ParseError: The text does not follow the grammar; one diagnostic for each faulty line.
        VerifyError: TIL501, the blocks around kernels are not as :mod:`tileir.stripe.nesting` says.

    """
    entry, inputs, outputs, buffers = _read(text, name, _Parser.program)
    return flattened(entry, inputs, outputs, buffers)


def parse_block(text: str, name: str = "<stripe>") -> Block:
    """Return the block that ``text`` describes; raises as :func:`parse`."""
    return _read(text, name, _Parser.block_text)


def parse_location(text: str, name: str = "<location>") -> Location:
    """Return the location that ``text`` describes, such as ``SRAM[0]/LOCAL``; raises as :func:`parse`."""
    return _read(f"<{text}>" if text else "", name, _Parser.location)


def _read(text: str, name: str, rule: Callable[[_Parser], T]) -> T:
    """Return what the whole of a text says."""
    source = source_of(text, name, MAX_CHARACTERS)
    return everything(_Parser, source, rule)


@attrs.define(eq=False, repr=False)
class _Parser(HeaderParser):
    """Statements, blocks and programs."""

    def program(self) -> tuple[Block, tuple[str, ...], tuple[str, ...], tuple[Buffer, ...]]:
        """Read ``program (inputs) -> (outputs)``, which may be left out, the entry block and the buffers."""
        named = not self.at(NUMBER)
        if named:
            self.word("program")
            inputs = self.names()
            self.expect("->")
            outputs = self.names()
        entry = self.block_text()
        if not named:
            inputs, outputs = parameters_of(entry)
        buffers: list[Buffer] = []
        while self.at_word("buffer"):
            buffers.append(Reader(self, {}).node(Buffer, {}))
        return entry, inputs, outputs, tuple(buffers)

    def block_text(self) -> Block:
        """Read ``0: … block …`` as a whole."""
        start = self.token
        statement = self._statement(0, {}, 0)
        if not isinstance(statement, Block):
            raise self.hopeless(start, "expected a block here")
        return statement

    def _block(self, tags: Tags, deps: tuple[int, ...], depth: int) -> Block:
        """Read a block from the word ``block`` on."""
        start = self.advance()
        if depth > MAX_DEPTH:
            raise self.hopeless(start, f"blocks are nested deeper than {MAX_DEPTH}: flatten some", "TIL103")
        try:
            header = self.header()
            self.expect("{")
        except AbandonError:
            raise HopelessError from None  # what follows belongs to a block that is not known
        views = {refinement.name: refinement.shape.dtype for refinement in header.refinements}
        scalars: dict[str, DType | None] = {}
        statements: list[Statement] = []
        while not self.at("}"):
            if self.at(END):
                raise self.unclosed(start, "this block is not closed: add }")
            statement = self.line(partial(self._statement, len(statements), scalars, depth))
            if statement is None:
                continue
            statements.append(statement)
            if (into := scalar_output(statement)) is not None:
                scalars[into] = scalar_dtype(statement, views)
        self.advance()
        instruction, tags = instruction_of(tags)
        indices = tuple(map(_with_role, header.indices)) if isinstance(instruction, Product) else header.indices
        if isinstance(instruction, Pipeline):
            statements = list(map(_with_copy, statements))
        return attrs.evolve(
            header, indices=indices, statements=tuple(statements), tags=tags, deps=deps, instruction=instruction
        )

    def _statement(self, number: int, scalars: dict[str, DType | None], depth: int) -> Statement:
        """Read ``number: [deps] #tags statement``; ``scalars``, those defined before, give intrinsics their dtype."""
        token = self.token
        if self.integer() != number and not self.faults.found:  # after a fault the count is off anyway
            self.report(f"this is statement {number}: statements are counted from 0", self.span_of(token))
        self.expect(":")
        deps = self.dependencies()
        tags = self.tags()
        token = self.token
        if token.kind == NAME and token.text == "block" and not self._stores():
            return self._block(tags, deps, depth + 1)
        reader, values = Reader(self, scalars), {"tags": tags, "deps": deps}
        statement: Statement
        if token.kind == SCALAR:
            statement = self._definition(reader, values)
        else:
            statement = reader.node(Special if token.text == "(" else Store, values)
        self.skip(";")
        return statement

    def _stores(self) -> bool:
        """Tell whether the name that comes next is stored into, rather than the word ``block``."""
        after = self.after()
        return after.text == "=" or (after.text == "[" and self.source.text[after.stop : after.stop + 1] == "$")

    def _definition(self, reader: Reader, values: dict[str, Any]) -> Any:
        """Read ``$into = …``."""
        values["into"] = self.scalar()
        self.expect("=")
        if self.at("("):
            return reader.node(Constant, values)
        start = self.token
        operation = self.name()
        if operation not in DEFINITIONS:
            self.suffixed(":", self.dtype)
            self.enclosed(self.scalar)
            raise self.fault(start, f"{operation[:MAX_SHOWN]!r} is no operation: see the names of tileir.core.ops.Op")
        kind, told = DEFINITIONS[operation]
        return reader.node(kind, {**values, **told}, 1, self.span_of(start))


def _with_copy(statement: Statement) -> Statement:
    """Return a statement of a pipeline, of blocks with the word for copies as such."""
    if not isinstance(statement, Block) or COPY not in statement.tags or statement.instruction:
        return statement
    copy = copy_of(statement.tags.get(COPY))
    return statement if copy is None else attrs.evolve(statement, tags=statement.tags.remove(COPY), instruction=copy)


def _with_role(index: Index) -> Index:
    """Return an index of a product with the role that a word says."""
    role, tags = role_of(index.tags)
    return index if role is None else attrs.evolve(index, role=role, tags=tags)
