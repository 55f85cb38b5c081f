"""What typed text has behind the type of a value: the operation that it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Final, TypeVar

from tileir.core import Aggregation, Combine, DType, Op, Span, attrs, nearest
from tileir.core.text.lexing import AbandonError
from tileir.tile.functions import SCATTERS
from tileir.tile.text.constant_parser import ConstantParser
from tileir.tile.text.contraction_parser import combined
from tileir.tile.text.grammar import AGGREGATIONS
from tileir.typed.ir import (
    Access,
    Argsort,
    ArrayConstant,
    Cast,
    Checkpoint,
    Constant,
    Constraint,
    Contraction,
    Coordinate,
    Elementwise,
    Function,
    Gather,
    Operation,
    Override,
    Recall,
    Reduce,
    Reshape,
    Scan,
    ScanPart,
    ScanResult,
    Scatter,
    ShapeOf,
    Upstream,
)
from tileir.typed.tensor_type import Shape
from tileir.typed.text.lexer import WORD, Cursor

T = TypeVar("T")

_OPS: Final[Mapping[str, Op]] = MappingProxyType({op.value: op for op in Op})
_COMBINES: Final[Mapping[str, Combine]] = MappingProxyType({f"reduce_{each.value}": each for each in Combine})
_PARTS: Final[Mapping[str, ScanPart]] = MappingProxyType({part.value: part for part in ScanPart})


@attrs.frozen
class Head:
    """What stands in front of an operation: the name and the type of its value."""

    name: str
    dtype: DType
    shape: Shape
    start: int


@attrs.frozen(repr=False)
class DefinitionParser:
    """The grammar of operations, at a cursor.

    ``steps`` are the functions of loops that stand above, by name, and None for one with a fault.
    """

    cursor: Cursor
    constants: ConstantParser
    steps: Mapping[str, Function | None]

    def operation(self, head: Head) -> Operation:
        """Read the operation behind the ``=``."""
        cursor = self.cursor
        if cursor.at("["):
            return self._contraction(head)
        if cursor.token.kind != WORD:
            raise cursor.unexpected("an operation, as in neg(A)")
        where, word = cursor.here, cursor.token.text
        if word in _OPS:
            cursor.advance()
            return Elementwise(
                head.name, _OPS[word], cursor.enclosed(cursor.name), head.dtype, head.shape, span=self._span(head)
            )
        if word in _COMBINES:
            cursor.advance()
            return self._reduce(head, _COMBINES[word])
        read = _READERS.get(word)
        if read is None:
            known = nearest(word, (*_OPS, *_COMBINES, *_READERS))
            raise cursor.report_and_abandon(f"there is no operation {word}{known}", where, "TIL102")
        cursor.advance()
        return read(self, head)

    def _span(self, head: Head) -> Span:
        """Return the place of an operation, of which everything is read."""
        return self.cursor.span_from(head.start)

    def _option(self, word: str) -> bool:
        """Take a word that may stand behind an operation: on a line of its own it would be the name of a value."""
        return not self.cursor.on_new_line and self.cursor.skip_word(word)

    def _name(self) -> str:
        """Read ``(name)``."""
        return self.cursor.inside(self.cursor.name)

    def _with_name(self, read: Callable[[], T]) -> tuple[str, T]:
        """Read ``(name, …)``, which ends with what ``read`` reads."""
        self.cursor.expect("(")
        name = self.cursor.name()
        self.cursor.expect(",")
        found = read()
        self.cursor.expect(")")
        return name, found

    # --- operations of one line ---

    def _constant(self, head: Head) -> Operation:
        value = self.cursor.inside(self.cursor.number)
        if not head.shape:
            return Constant(head.name, head.dtype, value, span=self._span(head))
        message = f"a constant is a scalar: write {head.dtype.value}[] for its type, or the elements of an array"
        raise self.cursor.report_and_abandon(message, self._span(head), "TIL102")

    def _array(self, head: Head) -> Operation:
        value = self.cursor.inside(lambda: self.constants.array(self.cursor.dtype_ahead()))
        if (value.dtype, value.shape) == (head.dtype, head.shape):
            return ArrayConstant(head.name, value, span=self._span(head))
        message = f"this array is {value}; write that as the type of {head.name!r}"
        raise self.cursor.report_and_abandon(message, self._span(head), "TIL102")

    def _of_one(self, head: Head, kind: type[Cast | Reshape | Checkpoint]) -> Operation:
        """Read what has nothing but an input."""
        return kind(head.name, self._name(), head.dtype, head.shape, span=self._span(head))

    def _coordinate(self, head: Head) -> Operation:
        axis = self.cursor.inside(self.cursor.size)
        return Coordinate(head.name, axis, head.dtype, head.shape, span=self._span(head))

    def _shape(self, head: Head) -> Operation:
        dims = self.cursor.enclosed(self.cursor.size)
        return ShapeOf(head.name, dims, head.dtype, head.shape, span=self._span(head))

    def _argsort(self, head: Head) -> Operation:
        source, axis = self._with_name(self.cursor.size)
        descending = self._option("descending")
        return Argsort(head.name, source, axis, descending, head.dtype, head.shape, span=self._span(head))

    def _gather(self, head: Head) -> Operation:
        return Gather(head.name, *self._with_name(self.cursor.name), head.dtype, head.shape, span=self._span(head))

    def _scatter(self, head: Head, how: Aggregation) -> Operation:
        self.cursor.expect("(")
        updates = self.cursor.name()
        self.cursor.expect(",")
        indices = self.cursor.name()
        into = self.cursor.name() if self.cursor.skip(",") else None
        self.cursor.expect(")")
        self.cursor.word("in")
        dtype, span = self.cursor.dtype(), self._span(head)
        return Scatter(head.name, updates, indices, dtype, head.dtype, head.shape, how, into, span=span)

    def _reduce(self, head: Head, combine: Combine) -> Operation:
        cursor = self.cursor
        cursor.expect("(")
        source = cursor.name()
        axes = cursor.list(cursor.size) if cursor.skip(",") else ()
        cursor.expect(")", "',' or ')'")
        cursor.expect(":", "':' and the number of the result")
        result = cursor.size()
        return Reduce(head.name, combine, source, axes, result, head.dtype, head.shape, span=self._span(head))

    # --- loops ---

    def _scan(self, head: Head) -> Operation:
        """Read ``step(carries; sequences; constants) count times reverse: part number``."""
        cursor = self.cursor
        where = cursor.here
        step = cursor.name("the name of a step, a function that stands above,")
        cursor.expect("(")
        carries = cursor.names(";")
        cursor.expect(";", "',' or ';'")
        sequences = cursor.names(";")
        cursor.expect(";", "',' or ';'")
        constants = cursor.names(")")
        cursor.expect(")", "',' or ')'")
        count = cursor.size()
        cursor.word("times")
        reverse = cursor.skip_word("reverse")
        cursor.expect(":", "reverse, or ':' and which result this is")
        part = cursor.one_of(_PARTS, "which result this is")
        result = ScanResult(part, cursor.size())
        body = self._body(step, where)
        lists = (carries, sequences, constants)
        return Scan(head.name, body, count, reverse, *lists, result, head.dtype, head.shape, span=self._span(head))

    def _body(self, step: str, where: Span) -> Function:
        """Return the function that a loop runs."""
        body = self.steps.get(step)
        if body is not None:
            return body
        if step not in self.steps:
            known = nearest(step, self.steps) if self.steps else ""
            self.cursor.report(f"no function {step!r} stands above{known}", where)
        raise AbandonError

    # --- marks of differentiation ---

    def _override(self, head: Head) -> Operation:
        cursor = self.cursor
        cursor.expect("(")
        source = cursor.name()
        pairs = cursor.list(self._gets) if cursor.skip(",") else ()
        cursor.expect(")", "',' or ')'")
        upstream = cursor.name() if self._option("from") else None
        return Override(head.name, source, pairs, upstream, head.dtype, head.shape, span=self._span(head))

    def _gets(self) -> tuple[str, str]:
        value = self.cursor.name()
        self.cursor.word("gets")
        return value, self.cursor.name()

    def _upstream(self, head: Head) -> Operation:
        self.cursor.inside(lambda: None)
        return Upstream(head.name, head.dtype, head.shape, span=self._span(head))

    def _recall(self, head: Head) -> Operation:
        source = self._name()
        self.cursor.word("in")
        self.cursor.word("sweep")
        return Recall(head.name, source, self.cursor.size(), head.dtype, head.shape, span=self._span(head))

    # --- contractions ---

    def _contraction(self, head: Head) -> Operation:
        """Read ``[affines] aggregation(inputs), constraints options``."""
        cursor = self.cursor
        output = cursor.enclosed(cursor.affine, "[]")
        aggregation = AGGREGATIONS.get(cursor.token.kind)
        if aggregation is None:
            raise cursor.unexpected("an aggregation: +(…), *(…), >(…), <(…) or =(…)")
        cursor.advance()
        combination, inputs = cursor.inside(lambda: combined(cursor, self._access))
        constraints: list[Constraint] = []
        while cursor.skip(","):
            constraints.append(self._constraint())
        operand, accumulator = head.dtype, head.dtype
        if self._option("combine"):
            operand = cursor.dtype()
            cursor.word("aggregate")
            accumulator = cursor.dtype()
        reduce = not self._option("no_defract")
        finite = self._option("finite")
        default = cursor.name() if self._option("default") else None
        return Contraction(
            head.name,
            output,
            inputs,
            aggregation,
            combination,
            operand,
            accumulator,
            head.dtype,
            head.shape,
            tuple(constraints),
            default,
            reduce,
            finite,
            span=self._span(head),
        )

    def _access(self) -> Access:
        cursor = self.cursor
        return Access(cursor.name("an access, as in A[i, j]"), cursor.enclosed(cursor.affine, "[]"))

    def _constraint(self) -> Constraint:
        polynomial = self.cursor.affine()
        self.cursor.expect("<", "'<': a constraint is 'affine < bound' and means 0 <= affine < bound")
        return Constraint(polynomial, self.cursor.integer())


_READERS: Final[Mapping[str, Callable[[DefinitionParser, Head], Operation]]] = MappingProxyType(
    {
        "constant": DefinitionParser._constant,
        "array": DefinitionParser._array,
        "cast": partial(DefinitionParser._of_one, kind=Cast),
        "coordinate": DefinitionParser._coordinate,
        "shape": DefinitionParser._shape,
        "reshape": partial(DefinitionParser._of_one, kind=Reshape),
        "argsort": DefinitionParser._argsort,
        "gather": DefinitionParser._gather,
        **{name: partial(DefinitionParser._scatter, how=how) for name, how in SCATTERS.items()},
        "scan": DefinitionParser._scan,
        "override_gradient": DefinitionParser._override,
        "upstream": DefinitionParser._upstream,
        "checkpoint": partial(DefinitionParser._of_one, kind=Checkpoint),
        "recall": DefinitionParser._recall,
    }
)
