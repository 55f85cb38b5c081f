"""User-written rewrite rules (laws) for the scalars of blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from tileir.core import DType, NameScope, Op, ParseError, attrs, fits, needed, rewritten, rounded
from tileir.core.nodes.patterns import MOST_CHANGES, Changes, Law, Scalar
from tileir.passes.base import map_kernels
from tileir.stripe.dtypes import intrinsic_dtype, scalar_dtype
from tileir.stripe.ir import (
    Block,
    Constant,
    Convert,
    Intrinsic,
    Load,
    LoadIndex,
    Program,
    Statement,
    scalar_inputs,
    scalar_output,
)

_PURE = (Constant, Convert, Intrinsic, Load, LoadIndex)
"""Statements without side effects, which are dead if nothing reads their scalar."""


def _are_laws(_: object, __: attrs.Attribute[tuple[str, ...]], texts: tuple[str, ...]) -> None:
    """Refuse texts that are no laws by ValueError, which pipelines report."""
    for text in texts:
        try:
            Law(text)
        except ParseError as error:
            raise ValueError(f"{text!r} is no law: {error.diagnostics[0].message}") from None


@attrs.frozen
class Rewrite:
    """Rewrite operations on scalars by laws such as ``div(x, sqrt(y)) -> mul(x, rsqrt(y))``.

    Laws are tried in order until none applies; dead scalars are then removed. The author of a law is responsible for
    its validity (:mod:`tileir.core.nodes.patterns`).

    Attributes:
        laws: The laws.
        reqs: Tags that a kernel must carry.
    """

    name: ClassVar[str] = "rewrite"
    laws: tuple[str, ...] = attrs.field(default=(), validator=_are_laws)
    reqs: tuple[str, ...] = ()

    def __call__(self, program: Program) -> Program:
        """Return the program with the laws applied.

        Raises:
            DivergenceError: Laws still fit after many changes.
        """
        laws = tuple(map(Law, self.laws))
        return map_kernels(program, lambda block: with_laws(block, laws), self.reqs)


def with_laws(block: Block, laws: Sequence[Law]) -> Block:
    """Return a block with laws applied to its scalars and those of nested blocks; itself if none fits.

    Raises:
        DivergenceError: Laws still fit after many changes.
    """
    views = {refinement.name: refinement.shape.dtype for refinement in block.refinements}
    names = NameScope.of(name for name in map(scalar_output, block.statements) if name is not None)
    terms = _Terms(views, names)
    changes = Changes(MOST_CHANGES * (len(block.statements) + 1))

    def replaced(statement: Statement) -> tuple[Statement, ...]:
        if isinstance(statement, Block):
            return (with_laws(statement, laws),)
        found = terms.simplified(statement, laws, changes)
        for each in found:
            terms.define(each)
        return found

    statements = rewritten(block.statements, replaced)
    if statements is block.statements:
        return block
    return attrs.evolve(block, statements=_without_unread(statements))


def _without_unread(statements: tuple[Statement, ...]) -> tuple[Statement, ...]:
    return tuple(needed(statements, (), scalar_output, scalar_inputs, lambda each: not isinstance(each, _PURE)))


@attrs.define(eq=False, repr=False)
class _Terms:
    """The scalars of a block, by name, and those created for a statement."""

    views: Mapping[str, DType]
    names: NameScope
    known: dict[str, Statement] = attrs.field(factory=dict, init=False)
    dtypes: dict[str, DType] = attrs.field(factory=dict, init=False)
    made: list[Intrinsic | Constant] = attrs.field(factory=list, init=False)

    def define(self, statement: Statement) -> None:
        """Record a scalar."""
        name, dtype = scalar_output(statement), scalar_dtype(statement, self.views)
        if name is not None and dtype is not None:
            self.known[name], self.dtypes[name] = statement, dtype

    def simplified(self, statement: Statement, laws: Sequence[Law], changes: Changes) -> tuple[Statement, ...]:
        """Return the replacement of a statement: itself if no law fits."""
        done: list[Statement] = []
        pending = [statement]
        while pending:
            each = pending.pop()
            new = self._changed(each, laws, changes)
            if new is None:
                self.define(each)
                done.append(each)
            else:
                pending.extend(reversed(new))
        return tuple(done)

    def _changed(self, statement: Statement, laws: Sequence[Law], changes: Changes) -> list[Statement] | None:
        """Return the replacement of an intrinsic by the first law that fits."""
        if not isinstance(statement, Intrinsic):
            return None
        self.define(statement)
        for law in laws:
            self.made = []
            value = law.rewritten(self, statement.into)
            if value is None or self.dtypes.get(value) is not statement.dtype:
                continue
            changes.note(law.text)
            if self.made and self.made[-1].into == value:
                return [*self.made[:-1], attrs.evolve(self.made[-1], into=statement.into)]
            return [*self.made, Intrinsic(Op.IDENT, (value,), statement.into, statement.dtype)]
        return None

    def operation(self, value: str) -> tuple[Op, tuple[str, ...]] | None:
        found = self.known.get(value)
        return (found.op, found.inputs) if isinstance(found, Intrinsic) else None

    def number(self, value: str) -> Scalar | None:
        found = self.known.get(value)
        return found.value if isinstance(found, Constant) else None

    def dtype(self, value: str) -> DType:
        return self.dtypes[value]

    def apply(self, op: Op, operands: tuple[str, ...]) -> str | None:
        found = [self.dtypes.get(name) for name in operands]
        typed = found[1:] if op is Op.COND else found
        dtype, result = typed[0], intrinsic_dtype(op, found)
        if dtype is None or result is None or any(each is not dtype for each in typed) or not op.works_on(dtype):
            return None
        if op is Op.COND and found[0] is not DType.BOOL:
            return None
        return self._add(Intrinsic(op, operands, self._fresh(), result))

    def constant(self, number: int | float, like: str) -> str | None:
        dtype = self.dtypes.get(like)
        if dtype is None or dtype.is_bool or dtype.is_storage or not fits(number, dtype):
            return None
        return self._add(Constant(self._fresh(), dtype, rounded(number, dtype)))

    def _fresh(self) -> str:
        return self.names.fresh("law")

    def _add(self, statement: Intrinsic | Constant) -> str:
        self.made.append(statement)
        self.define(statement)
        return statement.into
