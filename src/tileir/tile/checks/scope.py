"""Scope of a function: each name as a dimension, a constant or a tensor, with its definition and its rank."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final, assert_never

from tileir.core import Span, attrs
from tileir.tile.functions import builtin
from tileir.tile.ir import (
    Assignment,
    Binary,
    Call,
    Conditional,
    Constant,
    Contraction,
    Expr,
    FloatLiteral,
    Function,
    IndexName,
    IntLiteral,
    Name,
    Scan,
    Statement,
    Unary,
    While,
)
from tileir.tile.traversal import named, walk_known


class Kind(enum.Enum):
    """Kind of thing that a name stands for."""

    DIMENSION = "dimension"  # a size of an input or of a constant array
    CONSTANT = "constant"  # a constant without axes, or assigned from dimensions and numbers: also a tensor of rank 0
    SCALAR = "scalar"  # an input that may be an integer of rank 0, or what is assigned from such: a constant on demand
    TENSOR = "tensor"

    __hash__ = object.__hash__


@attrs.frozen
class Definition:
    """Place at which a name is defined.

    ``position`` counts statements, and is -1 for the inputs. ``rank`` is None where only shapes can tell.
    """

    kind: Kind
    position: int
    rank: int | None
    span: Span | None


NO_CALLEES: Final[Mapping[str, Function | None]] = MappingProxyType({})
"""No function to call but the builtins."""


@attrs.frozen
class Scope:
    """The first definition of each name, in program order, and the functions beside it that it may call."""

    definitions: dict[str, Definition]
    callees: Mapping[str, Function | None] = NO_CALLEES

    @classmethod
    def of(cls, function: Function, callees: Mapping[str, Function | None] = NO_CALLEES) -> Scope:
        """Collect the definitions of a function, which may break any rule but that of depth."""
        scope = cls({}, callees)
        for parameter in function.inputs:
            rank = None if parameter.dims is None else len(parameter.dims)
            kind = Kind.TENSOR if rank else Kind.SCALAR
            scope._define(parameter.name, Definition(kind, -1, rank, parameter.span))
            for dim in named(parameter):
                scope._define(dim.name, Definition(Kind.DIMENSION, -1, 0, dim.span))
        for position, statement in enumerate(function.statements):
            scope._define(statement.name, scope._definition(position, statement))
            for dim in named(statement) if isinstance(statement, Constant) else ():
                scope._define(dim.name, Definition(Kind.DIMENSION, position, 0, dim.span))
        return scope

    def is_tensor(self, name: str) -> bool:
        """Return whether ``name`` is defined, and no constant whatever the caller passes."""
        definition = self.definitions.get(name)
        return definition is not None and definition.kind is Kind.TENSOR

    def kind(self, expr: Expr) -> Kind:
        """Return what ``expr`` makes of a name: a constant where all is known when compiling that it reads."""
        found = Kind.CONSTANT
        for node in walk_known(expr):
            if isinstance(node, Name):
                definition = self.definitions.get(node.name)
                if definition is None or definition.kind is Kind.TENSOR:
                    return Kind.TENSOR
                if definition.kind is Kind.SCALAR:
                    found = Kind.SCALAR
            elif isinstance(node, Call):
                function = builtin(node.function)
                if node.function in self.callees:
                    found = Kind.SCALAR  # which is for the function to say
                elif function is None or not function.folds:
                    return Kind.TENSOR
        return found

    def unknown(self, expr: Expr) -> Iterator[Name | Call]:
        """Yield the names and calls below ``expr`` that only running tells; undefined ones are not among them."""
        for node in walk_known(expr):
            if isinstance(node, Name) and self.is_tensor(node.name):
                yield node
            elif isinstance(node, Call):
                function = builtin(node.function)
                if node.function in self.callees or (function is not None and not function.folds):
                    yield node

    def rank(self, expr: Expr) -> int | None:
        """Return the rank of an elementwise expression, or None where only shapes can tell."""
        match expr:
            case Name(name=name):
                definition = self.definitions.get(name)
                return None if definition is None else definition.rank
            case Binary(lhs=lhs, rhs=rhs):
                return self._broadcast((lhs, rhs))
            case IntLiteral() | FloatLiteral() | IndexName():
                return 0
            case Unary(operand=operand):
                return self.rank(operand)
            case Conditional(condition=condition, then=then, otherwise=otherwise):
                return self._broadcast((condition, then, otherwise))
            case Call():
                return self._call_rank(expr)
            case _:
                assert_never(expr)

    def _define(self, name: str, definition: Definition) -> None:
        self.definitions.setdefault(name, definition)

    def _definition(self, position: int, statement: Statement) -> Definition:
        match statement:
            case Contraction():
                return Definition(Kind.TENSOR, position, len(statement.sizes), statement.name_span)
            case Assignment(value=value):
                return Definition(self.kind(value), position, self.rank(value), statement.name_span)
            case Scan() | While():
                return Definition(Kind.TENSOR, position, None, statement.name_span)
            case Constant(shape=shape):
                kind = Kind.TENSOR if shape else Kind.CONSTANT
                return Definition(kind, position, len(shape), statement.name_span)
            case _:
                assert_never(statement)

    def _broadcast(self, operands: tuple[Expr, ...]) -> int | None:
        greatest = 0
        for operand in operands:
            rank = self.rank(operand)
            if rank is None:
                return None
            greatest = max(greatest, rank)
        return greatest

    def _call_rank(self, call: Call) -> int | None:
        arguments = call.arguments
        function = builtin(call.function)
        if function is None or not function.takes(len(arguments)):
            return None
        if function.elementwise:
            return self._broadcast(arguments)
        match call.function:
            case "index":
                return self.rank(arguments[0])
            case "shape":
                return 1
            case "size":
                return 0
            case "reshape" | "simple_reduce" | "expect_sizes":
                return len(arguments) - 1
            case _:
                return None
