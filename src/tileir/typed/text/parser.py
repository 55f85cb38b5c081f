"""Parser of typed text. All faults are reported at once: recovery is at the lines of statements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tileir.core import ArrayValue, Span, attrs, collection_paused, nearest
from tileir.core.text.lexing import END, AbandonError, everything, source_of
from tileir.tile.text.constant_parser import ConstantParser
from tileir.typed.dataflow import MAX_NESTING
from tileir.typed.ir import Contraction, Function, NumberCast, NumberLiteral, NumberStep, Operation, Value
from tileir.typed.text.language import OPERATIONS, STEPS, Reader
from tileir.typed.text.lexer import BODY, NEXT_INPUT, NEXT_STATEMENT, WORD, Cursor

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tileir.core.array_value import Array


def parse(text: str, name: str = "<text>", *, arrays: Iterable[ArrayValue | Array] = ()) -> Function:
    """Read ``function (inputs) -> (outputs) { operations }``; its rules are not verified.

    Args:
        text: The function.
        name: The name of the text in errors.
        arrays: Arrays that the text may name by digests alone, as printed functions name their long constants.

    Raises:
        ParseError: The text does not follow the grammar; one diagnostic for each fault.
        TileError: TIL702, tileir does not support an array.
    """
    source = source_of(text, name)
    known = by_digest(arrays)
    with collection_paused():
        return everything(Cursor, source, lambda cursor: read_function(cursor, known))


def by_digest(arrays: Iterable[ArrayValue | Array]) -> dict[str, ArrayValue]:
    """Return arrays by their digests in a text."""
    values = (array if isinstance(array, ArrayValue) else ArrayValue.of(array) for array in arrays)
    return {value.digest: value for value in values}


def read_function(cursor: Cursor, arrays: Mapping[str, ArrayValue]) -> Function:
    """Read a function: the only one of a text, or one that follows its description."""
    cursor.word("function")
    return _Parser(cursor, ConstantParser(cursor, arrays)).function()


@attrs.define(eq=False, repr=False)
class _Body:
    """The statements of a function, as far as they have been read."""

    operations: list[Operation] = attrs.field(factory=list)
    labels: list[tuple[str, str]] = attrs.field(factory=list)
    numbers: list[NumberStep] = attrs.field(factory=list)
    steps: dict[str, Function | None] = attrs.field(factory=dict)


@attrs.frozen(repr=False)
class _Parser:
    """The grammar of functions and statements, at a cursor; ``depth`` is the number of surrounding loops."""

    cursor: Cursor
    constants: ConstantParser
    depth: int = 0

    def function(self) -> Function:
        """Read ``(inputs) -> (outputs) { statements }``."""
        cursor = self.cursor
        inputs: list[Value] = []
        outputs: tuple[str, ...] = ()
        try:
            outputs = self._header(inputs)
        except AbandonError:
            cursor.recover(BODY)
        cursor.expect("{")
        body = _Body()
        while not cursor.at("}") and not cursor.at(END):
            try:
                self._statement(body)
            except AbandonError:
                cursor.recover(NEXT_STATEMENT)
        cursor.expect("}")
        return Function(tuple(inputs), outputs, tuple(body.operations), tuple(body.labels), tuple(body.numbers))

    def _header(self, inputs: list[Value]) -> tuple[str, ...]:
        """Read the ``inputs``, and return the names of the outputs."""
        cursor, reader = self.cursor, Reader(self.cursor, self.constants, {})
        cursor.expect("(")
        while not cursor.at(")"):
            try:
                inputs.append(reader.node(Value, {}))
                if not cursor.at(")"):
                    cursor.expect(",", "',' or ')'")
            except AbandonError:
                cursor.recover(NEXT_INPUT)
                if cursor.at("{") or cursor.at(END):
                    raise
        cursor.expect(")")
        cursor.expect("->")
        return cursor.enclosed(cursor.name)

    def _statement(self, body: _Body) -> None:
        cursor = self.cursor
        labels = []
        while cursor.at("["):
            labels.append(self._attribute())
        start = cursor.here
        name = cursor.name("a statement, as in S: f32[4] = neg(A)")
        body.labels += [(name, label) for label in labels]
        if (labels and cursor.on_new_line) or cursor.at("}"):
            return
        if not labels and cursor.skip("="):
            self._step(name, body)
            return
        cursor.expect(":", "':' and the type of the value")
        if not labels and cursor.skip_word("number"):
            body.numbers.append(self._number(name, start))
            return
        dtype, shape = cursor.tensor_type()
        cursor.expect("=")
        head = {"name": name, "dtype": dtype, "shape": shape}
        body.operations.append(self._operation(Reader(cursor, self.constants, body.steps), head, start))

    def _operation(self, reader: Reader, head: dict[str, Any], start: Span) -> Any:
        """Read the operation after ``=``."""
        cursor = self.cursor
        if cursor.at("["):
            return reader.node(Contraction, head, start=start)
        if cursor.token.kind != WORD:
            raise cursor.unexpected("an operation, as in neg(A)")
        word = cursor.token.text
        if word not in OPERATIONS:
            message = f"there is no operation {word}{nearest(word, OPERATIONS)}"
            raise cursor.report_and_abandon(message, cursor.here, "TIL102")
        cursor.advance()
        kind, told = OPERATIONS[word]
        return reader.node(kind, {**head, **told}, 1, start)

    def _attribute(self) -> str:
        """Read ``[[pid(label)]]``."""
        cursor = self.cursor
        cursor.expect("[")
        cursor.expect("[")
        cursor.word("pid")
        label = cursor.inside(cursor.name)
        cursor.expect("]")
        cursor.expect("]")
        return label

    def _step(self, name: str, body: _Body) -> None:
        """Read the function of the steps of later loops."""
        cursor = self.cursor
        if self.depth >= MAX_NESTING:
            cursor.report(f"loops stand inside one another at most {MAX_NESTING} deep", cursor.here, "TIL103")
            raise AbandonError
        cursor.word("function")
        body.steps[name] = None
        body.steps[name] = attrs.evolve(self, depth=self.depth + 1).function()

    def _number(self, name: str, start: Span) -> Any:
        """Read the text after ``name: number``."""
        cursor = self.cursor
        head = {"name": name, "dtype": cursor.inside(cursor.dtype) if cursor.at("(") else None}
        cursor.expect("=")
        reader, where = Reader(cursor, self.constants, {}), cursor.here
        if cursor.token.kind != WORD or cursor.token.text not in STEPS:
            return reader.node(NumberLiteral, head, start=start)
        kind, told = STEPS[cursor.advance().text]
        step = reader.node(kind, {**head, **told}, 1, start)
        if kind is NumberCast and head["dtype"] is None:
            message = "a number is cast to a dtype: write number(f32) for its type, say"
            raise cursor.report_and_abandon(message, where, "TIL102")
        return step
