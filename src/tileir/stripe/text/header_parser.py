"""The headers of blocks in Stripe text: indices, comments, constraints and refinements."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tileir.core import Aggregation, attrs
from tileir.core.text.lexing import END
from tileir.poly.affine import Affine
from tileir.stripe.ir import Block, Dim, Direction, Index, Reduction, Refinement, TensorShape, bindings_of
from tileir.stripe.text.language import Reader
from tileir.stripe.text.token_parser import NAME, NUMBER, TAG, TokenParser, comments

_DIRECTIONS: Final = {direction.value: direction for direction in Direction}
_AGGREGATIONS: Final = {aggregation.value: aggregation for aggregation in Aggregation}


@attrs.define(eq=False, repr=False)
class HeaderParser(TokenParser):
    """Block headers, on top of the small parts."""

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
        """Yield the comments before the next token, and of each whether it is on the line of the last one."""
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
        """Read ``[affine, …]``; the axis over memory banks stands in braces."""
        banked: list[bool] = []

        def axis() -> Affine:
            banked.append(self.at("{"))
            return self.inside(self.affine, "{}") if banked[-1] else self.affine()

        access = self.enclosed(axis, "[]")
        return access, max((number for number, held in enumerate(banked) if held), default=None)

    def _shape(self) -> TensorShape:
        """Read ``dtype:I(sizes):(strides):bytes`` or the elder ``dtype(size:stride, …)``."""
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
        """Step behind ``:1.5 KiB`` if it is there; sizes below 0, which the verifier refuses, print a sign."""
        if self.skip(":"):
            self._sign()
            self.take(NUMBER)
            self.name()

    def _exterior_and_cache(self) -> Affine | None:
        """Step behind ``, E(sizes):bytes`` and read ``, cache[affine]``, if they are there."""
        cache: Affine | None = None
        while self.skip(","):
            if self.skip_word("E"):
                self.enclosed(self.integer)
                self._bytes()
            else:
                self.word("cache")
                cache = self.inside(self.affine, "[]")
        return cache
