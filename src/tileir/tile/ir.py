"""Nodes of a Tile function, as the user wrote it. Operands are names; equality ignores spans."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

from tileir.core import (
    ADDED,
    OPERAND,
    OPERANDS,
    Aggregation,
    ArrayValue,
    Combination,
    Diagnostic,
    DType,
    NotebookProgram,
    Span,
    attrs,
    call_of,
    counted,
    span_field,
)
from tileir.tile.node import Node, TopLevelNode

if TYPE_CHECKING:
    import networkx as nx


class UnaryOperator(enum.Enum):
    """A prefix operator, by its spelling."""

    NEG = "-"
    BIT_NOT = "~"


class BinaryOperator(enum.Enum):
    """An infix operator, by its spelling."""

    ADD = "+"
    SUB = "-"
    MUL = "*"
    DIV = "/"
    BIT_LEFT = "<<"
    BIT_RIGHT = ">>"
    CMP_LT = "<"
    CMP_LE = "<="
    CMP_GT = ">"
    CMP_GE = ">="
    CMP_EQ = "=="
    CMP_NE = "!="
    BIT_AND = "&"
    BIT_OR = "|"
    BIT_XOR = "^"


@attrs.frozen(cache_hash=True, repr=False)
class IntLiteral(Node):
    """A non-negative integer; a negative one is a negation."""

    value: int
    span: Span | None = span_field()


@attrs.frozen(cache_hash=True, repr=False)
class FloatLiteral(Node):
    """A non-negative float, kept at double precision; infinity is allowed, NaN is not."""

    value: float
    span: Span | None = span_field()


@attrs.frozen(cache_hash=True, repr=False)
class Name(Node):
    """A tensor or a dimension, by name."""

    name: str
    span: Span | None = span_field()


@attrs.frozen(cache_hash=True, repr=False)
class IndexName(Node):
    """An index variable; only inside index polynomials."""

    name: str
    span: Span | None = span_field()


@attrs.frozen(cache_hash=True, repr=False)
class Unary(Node):
    """``-x`` or ``~x``."""

    operator: UnaryOperator
    operand: Expr = attrs.field(metadata=OPERAND)
    span: Span | None = span_field()


@attrs.frozen(cache_hash=True, repr=False)
class Binary(Node):
    """``lhs operator rhs``."""

    operator: BinaryOperator
    lhs: Expr = attrs.field(metadata=OPERAND)
    rhs: Expr = attrs.field(metadata=OPERAND)
    span: Span | None = span_field()


@attrs.frozen(cache_hash=True, repr=False)
class Conditional(Node):
    """``condition ? then : otherwise``; associates to the right."""

    condition: Expr = attrs.field(metadata=OPERAND)
    then: Expr = attrs.field(metadata=OPERAND)
    otherwise: Expr = attrs.field(metadata=OPERAND)
    span: Span | None = span_field()


@attrs.frozen(cache_hash=True, repr=False)
class Call(Node):
    """``function(arguments…)`` with one argument or more."""

    function: str
    arguments: tuple[Expr, ...] = attrs.field(metadata=OPERANDS)
    span: Span | None = span_field()


Expr: TypeAlias = IntLiteral | FloatLiteral | Name | IndexName | Unary | Binary | Conditional | Call
"""Expressions and index polynomials share their nodes; the verifier restricts their contents."""

Size: TypeAlias = Name | IntLiteral
"""The declared size of an axis: a named dimension, or a number."""


@attrs.frozen(cache_hash=True, repr=False)
class Attribute(Node):
    """``[[name(parameters…)]]`` in front of a statement."""

    name: str
    parameters: tuple[str, ...] = ()
    span: Span | None = span_field()


@attrs.frozen(cache_hash=True, repr=False)
class Input(Node):
    """A parameter: of any rank if ``dims`` is None, else with a name or a number for each axis; any dtype if None."""

    name: str
    dims: tuple[Size, ...] | None = None
    dtype: DType | None = attrs.field(default=None, metadata=ADDED)
    span: Span | None = span_field()


@attrs.frozen(cache_hash=True, repr=False)
class Output(Node):
    """A result, by the name of its tensor, with a check of the sizes ``dims`` and the dtype, if any."""

    name: str
    dims: tuple[Expr, ...] | None = attrs.field(default=None, metadata=ADDED)
    dtype: DType | None = attrs.field(default=None, metadata=ADDED)
    span: Span | None = span_field()


@attrs.frozen(cache_hash=True, repr=False)
class Access(Node):
    """``tensor[indices…]`` inside a contraction."""

    tensor: str
    indices: tuple[Expr, ...]
    span: Span | None = span_field()


@attrs.frozen(cache_hash=True, repr=False)
class Constraint(Node):
    """``polynomial < bound``, which means ``0 <= polynomial < bound``."""

    polynomial: Expr
    bound: Expr
    span: Span | None = span_field()


@attrs.frozen(cache_hash=True, repr=False)
class Assignment(Node):
    """``name = value;`` with elementwise meaning."""

    name: str
    value: Expr
    attributes: tuple[Attribute, ...] = ()
    span: Span | None = span_field()
    name_span: Span | None = span_field()


@attrs.frozen(cache_hash=True, repr=False)
class Contraction(Node):
    """``name[indices : sizes] = aggregation(inputs), constraints default …;``.

    ``inputs`` has as many accesses as ``combination.arity``.
    """

    name: str
    indices: tuple[Expr, ...]
    sizes: tuple[Expr, ...]
    aggregation: Aggregation
    combination: Combination
    inputs: tuple[Access, ...]
    constraints: tuple[Constraint, ...] = ()
    no_defract: bool = False
    default: Name | None = None
    attributes: tuple[Attribute, ...] = ()
    span: Span | None = span_field()
    name_span: Span | None = span_field()


@attrs.frozen(cache_hash=True, repr=False)
class Scan(Node):
    """``name = scan (carries; sequences; constants) count times reverse function … ;``.

    ``step`` is a function of its own, which reads nothing but its inputs: the carries, a slice of each sequence and the
    constants, in this order. Its outputs are the new carries, and then the outputs of the step. ``count`` may be
    missing if there are sequences.
    """

    name: str
    carries: tuple[Name, ...]
    sequences: tuple[Name, ...]
    constants: tuple[Name, ...]
    step: Function
    count: Expr | None = None
    reverse: bool = False
    attributes: tuple[Attribute, ...] = ()
    span: Span | None = span_field()
    name_span: Span | None = span_field()

    @property
    def operands(self) -> tuple[Name, ...]:
        """Operands of the step, in the order of its inputs."""
        return (*self.carries, *self.sequences, *self.constants)

    @property
    def functions(self) -> tuple[Function, ...]:
        """The functions in it."""
        return (self.step,)


@attrs.frozen(cache_hash=True, repr=False)
class While(Node):
    """``name = while (carries; constants) function … do function … ;``.

    ``condition`` and ``step`` are functions of their own, which read nothing but their inputs: the carries and the
    constants, in this order. The output of the condition is one bool; those of the step are the new carries.
    """

    name: str
    carries: tuple[Name, ...]
    constants: tuple[Name, ...]
    condition: Function
    step: Function
    attributes: tuple[Attribute, ...] = ()
    span: Span | None = span_field()
    name_span: Span | None = span_field()

    @property
    def operands(self) -> tuple[Name, ...]:
        """The tensors that are passed to condition and step, in the order of their inputs."""
        return (*self.carries, *self.constants)

    @property
    def functions(self) -> tuple[Function, ...]:
        """The functions in it."""
        return (self.condition, self.step)


def _bits(value: ArrayValue | bool | int | float) -> object:
    """Return a key that distinguishes numbers by their bits: -0.0 is not 0.0, 1 is not 1.0 or true, and nan is nan."""
    return value if isinstance(value, ArrayValue) else (type(value).__name__, repr(value))


@attrs.frozen(cache_hash=True, repr=False)
class Constant(Node):
    """``constant name[dims…] = value;``: a tensor whose elements are part of the program.

    An array has a dtype; a number has none and adapts, as a number argument does. Dimensions are sizes of the array, as
    those of an input are sizes of its argument.
    """

    name: str
    value: ArrayValue | bool | int | float = attrs.field(eq=_bits)
    dims: tuple[Size, ...] | None = None
    attributes: tuple[Attribute, ...] = ()
    span: Span | None = span_field()
    name_span: Span | None = span_field()

    @property
    def shape(self) -> tuple[int, ...]:
        """One size for each axis; a number has none."""
        return self.value.shape if isinstance(self.value, ArrayValue) else ()


Statement: TypeAlias = Assignment | Contraction | Scan | While | Constant


@attrs.frozen(cache_hash=True, repr=False)
class Function(NotebookProgram, TopLevelNode):
    """``function (inputs) -> (outputs) { statements }``."""

    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]
    statements: tuple[Statement, ...]
    span: Span | None = span_field()

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """Warnings about legal but unlikely code, for all shapes; :func:`tileir.warnings_of` takes types, too."""
        from tileir.tile.checks.unused import warnings_for_all_shapes  # it imports this module

        return warnings_for_all_shapes(self)

    def returning(self, *names: str) -> Function:
        """Return the function with only these outputs, in this order, and the statements that they need.

        It has all inputs. Assertions for other outputs are removed.

        Raises:
            ArgumentError: TIL710, a name is that of no output, or given twice, or there is none.
        """
        from tileir.tile.results import returning  # it imports this module

        return returning(self, names)

    def graph(self) -> nx.DiGraph[str]:
        """Return a frozen networkx graph of inputs and statements, linked to the statements that read them.

        :mod:`tileir.core.graphs.frozen` describes the attributes.
        """
        from tileir.tile.dataflow import dataflow  # it imports this module

        return dataflow(self)

    def summary(self) -> str:
        """Return a line with inputs, outputs and the number of statements."""
        names = call_of("", [each.name for each in self.inputs], [each.name for each in self.outputs])
        return f"{names}: {counted(len(self.statements), 'statement')}"


def tuple_name(first: str) -> str:
    """Return the name of a tuple that is unpacked, by that of its first part."""
    return f"({first})"


def part_of(group: str, place: int, span: Span | None = None) -> Call:
    """Return the expression of a part of a tuple."""
    return Call("element", (Name(group, span=span), IntLiteral(place, span=span)), span=span)


def parts(statements: Sequence[Statement], position: int) -> tuple[Assignment, ...]:
    """Return the statements that unpack a tuple; none if it is not written ``(Y, Z) = value;``."""
    group = statements[position].name
    if not group.startswith("(") or not isinstance(statements[position], Assignment | Scan | While):
        return ()  # most statements differ in their names
    found: list[Assignment] = []
    for statement in statements[position + 1 :]:
        if not isinstance(statement, Assignment) or statement.attributes:
            break
        if statement.value != part_of(group, len(found)) or (not found and group != tuple_name(statement.name)):
            break
        found.append(statement)
    return tuple(found) if len(found) > 1 else ()


def member(value: Expr) -> Expr:
    """Return the part of a tuple at that position, if ``value`` is ``element(tuple(…), k)``; else itself."""
    match value:
        case Call("element", (Call("tuple", members), IntLiteral(place))) if place < len(members):
            return members[place]
        case _:
            return value
