"""Text of the fields of nodes in typed text; the forms of their classes define everything else."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, get_args

from tileir.core import ArrayValue, Combination, Combine, Span, attrs, nearest
from tileir.core.text.forms import FormReader, Language, Part, Spelling
from tileir.core.text.lexing import AbandonError
from tileir.poly.affine import Affine
from tileir.tile.functions import SCATTERS
from tileir.tile.text.constant_parser import ConstantParser
from tileir.tile.text.contraction_parser import combined
from tileir.tile.text.grammar import AGGREGATIONS, COMBINATIONS
from tileir.tile.text.printer import value_text
from tileir.typed.ir import (
    Access,
    ArrayConstant,
    Constant,
    Constraint,
    Contraction,
    Function,
    NumberStep,
    Operation,
    Reduce,
    Scan,
    ScanResult,
    Value,
)
from tileir.typed.sharding.mesh import Split
from tileir.typed.text.lexer import INTEGER, Cursor, spell

_AGGREGATION_SIGNS: Final = {aggregation: sign for sign, aggregation in AGGREGATIONS.items()}
_COMBINATION_SIGNS: Final = {combination: f" {sign} " for sign, combination in COMBINATIONS.items()}
_PARTS: Final[tuple[Any, ...]] = (Access, Constraint, ScanResult)
"""Nodes within others, which have no spans."""


@attrs.frozen
class Writer:
    """Context of a printer: the names of the functions of loops."""

    steps: Mapping[Function, str]


@attrs.define(eq=False, repr=False)
class Reader(FormReader):
    """Reader of operations, at a cursor.

    ``steps`` are the functions of earlier steps of loops, by name, and None for a faulty one.
    """

    cursor: Cursor
    constants: ConstantParser
    steps: Mapping[str, Function | None]

    def made(self, kind: type, values: dict[str, Any], start: Span) -> Any:
        """Return a node with its span."""
        if kind in _PARTS:
            return kind(**values)
        span = self.cursor.span_from(start.start)
        if kind is Constant and values.pop("shape"):
            dtype = values["dtype"]
            message = f"a constant is a scalar: write {dtype.value}[] for its type, or the elements of an array"
            raise self.cursor.report_and_abandon(message, span, "TIL102")
        if kind is Scan:
            values["body"] = self.body(*values["body"])
        if kind is ArrayConstant:
            value = values["value"]
            if (values.pop("dtype"), values.pop("shape")) != (value.dtype, value.shape):
                message = f"this array is {value}; write that as the type of {values['name']!r}"
                raise self.cursor.report_and_abandon(message, span, "TIL102")
        node: Any = kind
        return node(**values, span=span)

    def array(self) -> ArrayValue:
        """Read an array."""
        return self.constants.array(self.cursor.dtype_ahead())

    def pair(self) -> tuple[str, str]:
        """Read ``value gets gradient``."""
        value = self.cursor.name()
        self.cursor.word("gets")
        return value, self.cursor.name()

    def split(self) -> Split:
        """Read the mesh axes that split an axis, if any, and the positions of each rank."""
        axes, intervals = [], []
        while not self.cursor.at(INTEGER):
            axes.append(self.cursor.name("an axis of a mesh, or places as in 0:4"))
            self.cursor.skip("*")
        while self.cursor.at(INTEGER):
            low = self.cursor.size()
            self.cursor.expect(":")
            intervals.append((low, self.cursor.size()))
        return Split(tuple(axes), tuple(intervals))

    def step(self, values: dict[str, Any]) -> None:
        """Read the name of the function of a loop, which is looked up when the loop has been read."""
        where = self.cursor.here
        values["body"] = self.cursor.name("the name of a step, a function that stands above,"), where

    def times(self, values: dict[str, Any]) -> None:
        """Read the number of steps of a loop, or that it runs while the first carry is true."""
        values["count"] = None
        if not self.cursor.skip_word("while"):
            values["count"] = self.cursor.size()
            self.cursor.word("times")

    def aggregation(self, values: dict[str, Any]) -> None:
        """Read the sign of an aggregation."""
        found = AGGREGATIONS.get(self.cursor.token.kind)
        if found is None:
            raise self.cursor.unexpected("an aggregation: +(…), *(…), >(…), <(…) or =(…)")
        self.cursor.advance()
        values["aggregation"] = found

    def combination(self, values: dict[str, Any]) -> None:
        """Read the inputs and the combination of a contraction."""
        values["combination"], values["inputs"] = combined(self.cursor, lambda: self.node(Access, {}))

    def body(self, step: str, where: Span) -> Function:
        """Return the function that a loop runs."""
        body = self.steps.get(step)
        if body is not None:
            return body
        if step not in self.steps:
            known = nearest(step, self.steps) if self.steps else ""
            self.cursor.report(f"no function {step!r} stands above{known}", where)
        raise AbandonError


def _combined(writer: Writer, node: Contraction) -> str:
    """Return the inputs of a contraction with signs between them."""
    inputs = [LANGUAGE.text(writer, access) for access in node.inputs]
    if node.combination is Combination.COND:
        return f"{inputs[0]} == {inputs[1]} ? {inputs[2]}"
    return _COMBINATION_SIGNS.get(node.combination, "").join(inputs)


def _affine(affine: Affine) -> str:
    return str(affine.rename({name: spelt for name in affine.indices if (spelt := spell(name)) != name}))


LANGUAGE: Final = Language(
    types=MappingProxyType(
        {
            "str": Spelling(lambda _, name: spell(name), lambda reader: reader.cursor.name()),
            "int": Spelling(lambda _, value: str(value), lambda reader: reader.cursor.size()),
            "integer": Spelling(lambda _, value: str(value), lambda reader: reader.cursor.integer()),
            "bool | int | float": Spelling(lambda _, value: str(value).lower(), lambda reader: reader.cursor.number()),
            "ArrayValue": Spelling(lambda _, value: value_text(value), Reader.array),
            "Affine": Spelling(lambda _, affine: _affine(affine), lambda reader: reader.cursor.affine()),
            "Split": Spelling(lambda _, split: str(split), Reader.split),
            "tuple[str, str]": Spelling(lambda _, pair: f"{spell(pair[0])} gets {spell(pair[1])}", Reader.pair),
        }
    ),
    nodes=MappingProxyType({kind.__name__: kind for kind in _PARTS}),
    words=MappingProxyType(
        {"scatter": SCATTERS, "Combine": MappingProxyType({f"reduce_{each.value}": each for each in Combine})}
    ),
    parts=MappingProxyType(
        {
            "sign": Part(lambda _, node: _AGGREGATION_SIGNS[node.aggregation], Reader.aggregation),
            "combined": Part(_combined, Reader.combination),
            "times": Part(lambda _, node: "while" if node.count is None else f"{node.count} times", Reader.times),
            "step": Part(lambda writer, node: writer.steps[node.body], Reader.step),
        }
    ),
    expected=MappingProxyType(
        {
            "DType": "a dtype",
            (Value, "number"): "the name of a number",
            (Access, "tensor"): "an access, as in A[i, j]",
            (Constraint, "<"): "'<': a constraint is 'affine < bound' and means 0 <= affine < bound",
            (Reduce, ":"): "':' and the number of the result",
            (Scan, ":"): "reverse, or ':' and which result this is",
            (ScanResult, "part"): "which result this is",
        }
    ),
)
Reader.language = LANGUAGE
OPERATIONS: Final = LANGUAGE.openings(get_args(Operation))
"""Operations by the words that they start with, and the fields that these determine."""
STEPS: Final = LANGUAGE.openings(get_args(NumberStep))
"""Steps of numbers likewise; literals start with no word."""
