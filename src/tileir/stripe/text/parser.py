"""Parser of Stripe text: the inverse of :mod:`tileir.stripe.text.printer`.

It also reads the older form of shapes, ``i8(1024:32, 32:1)`` for size and stride of each axis, texts without the
number of points and byte sizes, constants of the kinds ``int`` and ``float``, which have 32 bits, and statements
that end with semicolons. Sizes in bytes, exteriors and the number of points follow from the rest and are not checked.
Without a first line, the inputs of a program are the memory that the block ``main`` reads, and its outputs the memory
that it writes, except temporaries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final, TypeVar

from tileir.core import Aggregation, DType, attrs
from tileir.core.text.lexing import END, AbandonError, everything, source_of
from tileir.poly.affine import Affine
from tileir.stripe.dtypes import scalar_dtype
from tileir.stripe.flattening import flattened
from tileir.stripe.instructions import COPY, Pipeline, Product, role_of
from tileir.stripe.ir import (
    Block,
    Buffer,
    Constant,
    Dim,
    Direction,
    Index,
    Location,
    Program,
    Reduction,
    Refinement,
    Special,
    Statement,
    Store,
    Tags,
    TensorShape,
    bindings_of,
    scalar_output,
)
from tileir.stripe.nesting import parameters_of
from tileir.stripe.text.instruction_words import copy_of, instruction_of
from tileir.stripe.text.language import DEFINITIONS, Reader
from tileir.stripe.text.token_parser import (
    MAX_CHARACTERS,
    MAX_SHOWN,
    NAME,
    NUMBER,
    SCALAR,
    TAG,
    HopelessError,
    TokenParser,
    comments,
)

_DIRECTIONS: Final = {direction.value: direction for direction in Direction}
_AGGREGATIONS: Final = {aggregation.value: aggregation for aggregation in Aggregation}


@attrs.define(eq=False, repr=False)
class HeaderParser(TokenParser):
    """Parser of block headers, on top of the token parser."""

    def header(self) -> Block:
        """Read ``<location> [indices]:points ( // name``, the lines below it and ``)``: a block without statements."""
        location = self.location()
        indices = self.enclosed(self._index, "[]")
        self.suffixed(":", self.integer)
        opening = self.expect("(")
        name, said = "", []
        for text, beside in self._comments():
            if beside:
                name = text
            else:
                said.append(text)
        constraints: list[Affine] = []
        refinements: list[Refinement] = []
        reduction: Reduction | None = None
        while not self.at(")") and not self.at("{"):
            if self.at(END):
                raise self.unclosed(opening, "this block header is not closed: add )")
            if self.at_word("reduction") and self.after().kind == NAME:
                reduction = self.line(lambda: Reader(self, {}).node(Reduction, {}))
            elif self._at_refinement():
                view = self.line(self._refinement)
                refinements.extend(() if view is None else (view,))
            else:
                constraint = self.line(self._constraint)
                constraints.extend(() if constraint is None else (constraint,))
            said.extend(text for text, _ in self._comments())
        if not self.skip(")"):
            self.report("this block header is not closed: add )", self.span_of(opening))
        views = tuple(refinements)
        return Block(name, indices, tuple(constraints), views, (), tuple(said), location, reduction=reduction)

    def _index(self) -> Index:
        if not self.at("("):
            return self._plain_index()
        self.advance()
        opening = self.token
        bindings, serial, tags = bindings_of(self.tags())
        if len(bindings) > 1:
            words = ", ".join(f"#{binding.value}" for binding in bindings)
            self.report(f"an index is one of {words}, and not all of them", self.span_of(opening))
        index = self._plain_index()
        self.expect(")")
        return attrs.evolve(index, binding=bindings[0] if bindings else None, serial=serial, tags=tags)

    def _plain_index(self) -> Index:
        name = self.name()
        if self.skip(":"):
            return Index(name, self.integer())
        self.expect("=")
        affine = self.affine()
        size = self.suffixed(":", self.integer)
        return Index(name, 1 if size is None else size, affine)

    def _constraint(self) -> Affine:
        affine = self.affine()
        self.expect(">=")
        token = self.token
        if self.integer() != 0:
            raise self.fault(token, "a constraint compares with 0: move the constant to the left side")
        return affine

    def _at_refinement(self) -> bool:
        token = self.token
        if token.kind == TAG:
            return True
        after = self.after()
        return token.text in _DIRECTIONS and (after.kind == NAME or after.text == "<")

    def _refinement(self) -> Refinement:
        """Read ``#tags direction [const] [new@|at@offset] name [= source]<location>[access]:aggregation shape``."""
        tags = self.tags()
        direction = self.one_of(_DIRECTIONS)
        constant = self.at_word("const") and self.after().kind == NAME
        if constant:
            self.advance()
        offset = self._offset()
        location = self.location()
        name = self.name()
        source = self.suffixed("=", self.name)
        if source is None:
            source = "" if direction is Direction.NONE else name
        location = location if location else self.location()
        access, bank = self._access()
        aggregation = self.suffixed(":", lambda: self.one_of(_AGGREGATIONS))
        shape = self._shape()
        cache = self._exterior_and_cache()
        return Refinement(
            name, direction, source, access, shape, aggregation, location, offset, bank, cache, constant, tags
        )

    def _comments(self) -> Iterator[tuple[str, bool]]:
        """Yield the comments before the next token, each with whether it is on the line of the last token."""
        return comments(self.source, self.last.stop, self.token.start)

    def _offset(self) -> int | None:
        """Read ``new@offset`` or ``at@offset``; a new allocation at 0 has not been placed."""
        word = self.token.text
        if word not in ("new", "at") or self.after().text != "@":
            return None
        self.advance()
        self.expect("@")
        offset = self.integer()
        return None if word == "new" and offset == 0 else offset

    def _access(self) -> tuple[tuple[Affine, ...], int | None]:
        """Read ``[affine, …]``; the axis over memory banks is in braces."""
        banked: list[bool] = []

        def axis() -> Affine:
            banked.append(self.at("{"))
            return self.inside(self.affine, "{}") if banked[-1] else self.affine()

        access = self.enclosed(axis, "[]")
        return access, max((number for number, held in enumerate(banked) if held), default=None)

    def _shape(self) -> TensorShape:
        """Read ``dtype:I(sizes):(strides):bytes`` or the older ``dtype(size:stride, …)``."""
        dtype = self.dtype()
        if self.at("("):
            return TensorShape(dtype, self.enclosed(lambda: Reader(self, {}).node(Dim, {})))
        self.expect(":")
        self.word("I")
        sizes = self.enclosed(self.integer)
        self.expect(":")
        token = self.token
        strides = self.enclosed(self.integer)
        if len(sizes) != len(strides):
            raise self.fault(token, f"{len(sizes)} sizes need as many strides, not {len(strides)}")
        self._bytes()
        return TensorShape(dtype, tuple(map(Dim, sizes, strides)))

    def _bytes(self) -> None:
        """Step past ``:1.5 KiB`` if present; negative sizes, which the verifier refuses, have a sign."""
        if self.skip(":"):
            self._sign()
            self.take(NUMBER)
            self.name()

    def _exterior_and_cache(self) -> Affine | None:
        """Step past ``, E(sizes):bytes`` and read ``, cache[affine]``, if present."""
        cache: Affine | None = None
        while self.skip(","):
            if self.skip_word("E"):
                self.enclosed(self.integer)
                self._bytes()
            else:
                self.word("cache")
                cache = self.inside(self.affine, "[]")
        return cache


T = TypeVar("T")

MAX_DEPTH: Final = 200
"""Maximum nesting of blocks."""


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
    """Parse a whole text by a rule."""
    source = source_of(text, name, MAX_CHARACTERS)
    return everything(_Parser, source, rule)


@attrs.define(eq=False, repr=False)
class _Parser(HeaderParser):
    """Parser of statements, blocks and programs."""

    def program(self) -> tuple[Block, tuple[str, ...], tuple[str, ...], tuple[Buffer, ...]]:
        """Read the optional ``program (inputs) -> (outputs)``, the entry block and the buffers."""
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
            raise HopelessError from None  # the rest belongs to an unknown block
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
        """Read ``number: [deps] #tags statement``; ``scalars``, defined before, determine the dtypes of intrinsics."""
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
        """Return whether the next name is a store target, not the word ``block``."""
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
    """Return a statement of a pipeline, with the word for copies of a block turned into its instruction."""
    if not isinstance(statement, Block) or COPY not in statement.tags or statement.instruction:
        return statement
    copy = copy_of(statement.tags.get(COPY))
    return statement if copy is None else attrs.evolve(statement, tags=statement.tags.remove(COPY), instruction=copy)


def _with_role(index: Index) -> Index:
    """Return an index of a product with the role given by a word."""
    role, tags = role_of(index.tags)
    return index if role is None else attrs.evolve(index, role=role, tags=tags)
