"""Inlining of functions that are called in a builder: their statements, on tensors of the builder."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from types import MappingProxyType
from typing import Final, TypeVar

from tileir.core import DType, Span, attrs, call_site, held_at, with_short_traceback
from tileir.tile.building.assembly import substitute, with_operands
from tileir.tile.building.indices import Dim, simplified
from tileir.tile.building.recording import Recorder, mistake
from tileir.tile.building.sizes import Sizes, sizes_of
from tileir.tile.building.tensors import Operand, Tensor, computed, recorder_of, value_of
from tileir.tile.functions import SIZE
from tileir.tile.ir import (
    Assignment,
    Binary,
    BinaryOperator,
    Call,
    Constant,
    Contraction,
    Expr,
    Function,
    Input,
    IntLiteral,
    Name,
    Output,
    Scan,
    Statement,
    While,
)
from tileir.tile.node import Node
from tileir.tile.traversal import asserts, differentiated_by

T = TypeVar("T")


@attrs.frozen
class Expansion:
    """Expansion of a statement ``name = word(operands…);``.

    Attributes:
        tensors: The operands, counted from 0, that are tensors, each by its name; the others are sizes and numbers.
        make: Computes it.
    """

    tensors: frozenset[int]
    make: Callable[[Sequence[Tensor | Dim]], Tensor]


_NOTHING: Final[Mapping[str, Expansion]] = MappingProxyType({})


def inline(
    function: Function, *operands: Operand, expansions: Mapping[str, Expansion] = _NOTHING, name: str = "the function"
) -> tuple[Tensor, ...]:
    """Compute a function of some operands, as part of the function that is being built.

    Args:
        function: A function; its dimensions become those of the operands.
        operands: The arguments: tensors, or numbers and dimensions for inputs of rank 0.
        expansions: Replacements for calls of words that Tile does not know, each a statement of its own.
        name: The name of the function in errors.

    Returns:
        Its outputs.

    Raises:
        TileError: TIL705, the numbers of operands and inputs differ; TIL305, an operand of another rank; TIL317, one of
            another size than is declared.
    """
    if len(operands) != len(function.inputs):
        message = f"{name} has {len(function.inputs)} inputs, but is called with {len(operands)} operands"
        raise mistake("TIL705", message)
    call = Inlining(recorder_of(operands), expansions)
    sources = differentiated_by(function)
    for operand, parameter in zip(operands, function.inputs, strict=True):
        with at_its_place(parameter.span):
            call.bind(parameter, operand)
            call.keep(parameter.name, operand)
            if parameter.name in sources:
                call.separate(parameter.name)
    for statement in function.statements:
        with at_its_place(statement.span):
            call.take(statement)
    return tuple(call.result(output) for output in function.outputs)


def at_its_place(span: Span | None) -> AbstractContextManager[None]:
    """Return a context in which nodes of a called function keep their place, which names the call."""
    return nullcontext() if span is None or span.caller is None else held_at(span)


def called_from(node: T, call: Span | None) -> T:
    """Return a node whose places, also of its children, are those of a function called at another place."""
    moved: object = node
    if call is None:
        return node
    if isinstance(node, Span):
        moved = node.called_from(call)
    elif isinstance(node, tuple):
        moved = tuple([called_from(each, call) for each in node])
    elif isinstance(node, Node):
        values = ((field.name, getattr(node, field.name)) for field in attrs.fields(type(node)))  # type: ignore[arg-type]
        moved = attrs.evolve(node, **{name: called_from(value, call) for name, value in values})  # type: ignore[misc]
    return moved  # type: ignore[return-value]  # of the same type


@with_short_traceback
def called(function: Function, operands: tuple[Operand, ...]) -> Tensor | tuple[Tensor, ...]:
    """Return the results of a call of a function on tensors of a builder; see :meth:`tileir.Function.__call__`."""
    if not any(isinstance(operand, Tensor | Dim) for operand in operands):
        message = (
            "a program that is called becomes part of a function that is being built, and takes tensors of a builder; "
            "to run it on arrays, call tileir.jit(function)"
        )
        raise mistake("TIL215", message)
    moved = called_from(function, call_site())
    results = inline(attrs.evolve(moved, inputs=function.inputs), *operands)  # wrong operands: the caller's line
    return results[0] if len(results) == 1 else results


@attrs.define(eq=False, repr=False)
class Inlining:
    """One call: replacements of the names of the function."""

    recorder: Recorder
    expansions: Mapping[str, Expansion] = _NOTHING
    names: dict[str, Expr] = attrs.field(factory=dict, init=False)
    sizes: dict[str, Expr] = attrs.field(factory=dict, init=False)  # from the operands, by dimension

    def bind(self, parameter: Input, operand: Operand) -> None:
        """Bind an input to an operand, and its dimensions to sizes of the operand, equal ones for one name."""
        value = value_of(self.recorder, operand)
        if parameter.dtype is not None:
            value = self.expected(parameter.dtype, value)
        self.names[parameter.name] = value
        if parameter.dims is None:
            return
        rank = len(parameter.dims)
        known = sizes_of(self.recorder, operand.reference) if isinstance(operand, Tensor) else ()
        has = self.recorder.ranks.get(operand.reference, rank) if isinstance(operand, Tensor) else 0
        has = has if known is None else len(known)
        if has != rank:
            message = f"{parameter.name} has {rank} axes, but is given a tensor with {has}"
            raise mistake("TIL305", message)
        sizes = self.measured(value, rank) if known is None else known
        pairs = tuple(zip(parameter.dims, sizes, strict=True))
        for axis, (dim, size) in enumerate(pairs):
            if isinstance(dim, IntLiteral) and size.value not in (None, dim.value):
                message = f"axis {axis} of {parameter.name!r} is declared as {dim.value}, but is {size.value} here"
                raise mistake("TIL317", message)
        self.bind_dims((dim, size) for dim, size in pairs if isinstance(dim, Name))
        if known is None or any(isinstance(dim, IntLiteral) and size.value is None for dim, size in pairs):
            wanted = tuple(dim if isinstance(dim, IntLiteral) else size.expr for dim, size in pairs)
            self.names[parameter.name] = self.sized(value, wanted)

    def keep(self, name: str, operand: Operand) -> None:
        """Check the declaration of a tensor even if nothing reads it."""
        value = self.names[name]
        if isinstance(operand, Tensor) and isinstance(value, Name) and value.name != operand.reference:
            self.recorder.kept.add(value.name)

    def separate(self, name: str) -> None:
        """Make an input a value of its own, so that derivatives by it do not reach its operand by other paths."""
        span = call_site()
        product = Binary(BinaryOperator.MUL, self.names[name], IntLiteral(1, span=span), span=span)
        self.names[name] = self.checked(product)

    def measured(self, value: Expr, rank: int) -> Sizes:
        """Return undeclared sizes, as those of a tensor of this rank."""
        span = call_site()
        calls = (Call(SIZE, (value, IntLiteral(axis, span=span)), span=span) for axis in range(rank))
        return tuple(Dim(self.checked(each), self.recorder) for each in calls)

    def expected(self, dtype: DType, value: Expr) -> Expr:
        """Return a value with a check of its dtype, which takes place when types are known."""
        return self.checked(Call(f"expect_{dtype.value}", (value,), span=call_site()))

    def sized(self, value: Expr, sizes: tuple[Expr, ...]) -> Expr:
        """Return a value with a check of its sizes, which takes place when they are known."""
        return self.checked(Call("expect_sizes", (value, *sizes), span=call_site()))

    def checked(self, value: Expr) -> Expr:
        """Return a reference to the result of an expression, such as a call that checks."""
        return Name(self.recorder.record(value), span=call_site())

    def result(self, output: Output) -> Tensor:
        """Return a result with checks of its declaration."""
        tensor = self.tensor(output.name)
        value = value_of(self.recorder, tensor)
        if output.dtype is not None:
            value = self.expected(output.dtype, value)
        known = sizes_of(self.recorder, tensor.reference)
        dims = None if output.dims is None else self.simple(output.dims)
        if dims is not None and (known is None or dims != tuple(size.expr for size in known)):
            value = self.sized(value, dims)
        return Tensor(self.recorder, value.name) if isinstance(value, Name) else tensor

    def bind_dims(self, pairs: Iterable[tuple[Name, Dim]]) -> None:
        """Bind dimensions to sizes."""
        for dim, size in pairs:
            known = self.sizes.setdefault(dim.name, size.expr)
            if known != size.expr:
                size = Dim(known, self.recorder).call("match", size)
            elif dim.name in self.names:
                continue
            value = self.names[dim.name] = self.plain(size)
            if known != size.expr and isinstance(value, Name):
                self.recorder.kept.add(value.name)  # even if nothing reads the size

    def plain(self, size: Dim) -> Expr:
        """Return a size in a form for index polynomials: arithmetic becomes a statement."""
        if size.value is not None or isinstance(size.expr, Name):
            return size.expr
        return Name(self.recorder.record(size.expr), span=call_site())

    def take(self, statement: Statement) -> Expr:
        """Record a statement with its attributes, and keep and return a reference to its result."""
        with ExitStack() as marks:
            for attribute in statement.attributes:
                marks.enter_context(self.recorder.attributed(attribute))
            value = self.names[statement.name] = self.recorded(statement)
        step = self.recorder.steps.get(value.name) if isinstance(value, Name) else None
        if step is not None and not statement.name.startswith("("):  # as unpacked tuples do
            step.stem = statement.name
        if step is not None and asserts(statement):
            self.recorder.kept.add(step.reference)
        return value

    def recorded(self, statement: Statement) -> Expr:
        """Record a statement, and return a reference to its result."""
        if isinstance(statement, Constant):
            sizes = (Dim(IntLiteral(size, span=call_site()), self.recorder) for size in statement.shape)
            dims = zip(statement.dims or (), sizes, strict=statement.dims is not None)
            self.bind_dims((dim, size) for dim, size in dims if isinstance(dim, Name))
            constant = attrs.evolve(statement, name="", dims=None, attributes=())
            reference = self.recorder.record(constant)
            self.recorder.ranks[reference] = len(constant.shape)
            return Name(reference, span=call_site())
        if isinstance(statement, Assignment):
            value = statement.value
            if isinstance(value, Call) and value.function in self.expansions:
                return value_of(self.recorder, self.expanded(value))
            return Name(self.recorder.record(substitute(value, self.names)), span=call_site())
        body = self.contraction(statement) if isinstance(statement, Contraction) else self.loop(statement)
        reference = self.recorder.record(body)
        if isinstance(body, Contraction):
            self.recorder.ranks[reference] = len(body.sizes)
        return Name(reference, span=call_site())

    def expanded(self, call: Call) -> Tensor:
        """Return the result of an expansion for the operands of a call."""
        expansion = self.expansions[call.function]
        operands: list[Tensor | Dim] = []
        for place, operand in enumerate(call.arguments):
            if place not in expansion.tensors:
                operands.append(Dim(substitute(operand, self.names), self.recorder))
            elif isinstance(operand, Name):
                operands.append(self.tensor(operand.name))
            else:
                raise mistake("TIL205", f"operand {place + 1} of {call.function} is the name of a tensor")
        return expansion.make(operands)

    def contraction(self, statement: Contraction) -> Contraction:
        """Return a contraction of the replacements of its names."""
        return attrs.evolve(
            statement,
            name="",
            indices=self.all(statement.indices),
            sizes=self.simple(statement.sizes),
            inputs=tuple(
                attrs.evolve(access, tensor=self.tensor(access.tensor).reference, indices=self.all(access.indices))
                for access in statement.inputs
            ),
            constraints=tuple(
                attrs.evolve(
                    constraint,
                    polynomial=substitute(constraint.polynomial, self.names),
                    bound=substitute(constraint.bound, self.names),
                )
                for constraint in statement.constraints
            ),
            default=None if statement.default is None else self.name(statement.default),
            attributes=(),
        )

    def loop(self, statement: Scan | While) -> Scan | While:
        """Return a loop with its operands replaced."""
        return with_operands(attrs.evolve(statement, name="", attributes=()), self.name, self.names)

    def all(self, exprs: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """Return expressions in terms of the caller."""
        return tuple(substitute(expr, self.names) for expr in exprs)

    def simple(self, sizes: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """Return sizes in terms of the caller, with the arithmetic on their numbers done."""
        return tuple(simplified(self.recorder, size).expr for size in self.all(sizes))

    def name(self, operand: Name) -> Name:
        """Return the replacement of an operand that has to be a tensor."""
        return Name(self.tensor(operand.name).reference, span=operand.span)

    def tensor(self, name: str) -> Tensor:
        """Return the replacement of a name as a tensor: a number becomes a statement."""
        expr = self.names[name]
        if isinstance(expr, Name) and (expr.name in self.recorder.steps or expr.name in self.recorder.sizes):
            return Tensor(self.recorder, expr.name)
        tensor = computed(self.recorder, expr)
        self.names[name] = value_of(self.recorder, tensor)
        return tensor
