"""Compute cheap elements where stencils read them, instead of storing them first."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import attrs

from tileir.core.names import NameScope
from tileir.core.ops import Aggregation
from tileir.passes.analysis.accesses import address, is_element
from tileir.passes.analysis.dependences import roots
from tileir.passes.base import at_least, with_kernels
from tileir.passes.inline import CHEAP
from tileir.passes.kernels.reindex import renamed
from tileir.stripe.ir import (
    Block,
    Constant,
    Convert,
    Direction,
    Intrinsic,
    Load,
    Refinement,
    Store,
    TensorShape,
    scalar_output,
    views_read,
    views_written,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tileir.stripe.ir import Program, Statement


@attrs.frozen
class InlineStencil:
    """Put the statements of a cheap elementwise kernel into the elementwise kernels that read its result.

    A picture that is converted or scaled before a stencil is read as it was: each element is computed again for every
    place of a window, which costs less than to store it and load it again. That is done where all readers of the result
    are elementwise kernels, few, and load it so seldom that it pays. The kernel then has no readers left, and goes.

    Attributes:
        operations: Most operations that a reader does more for each of its points.
        readers: Most kernels that read a result.
    """

    name: ClassVar[str] = "inline_stencil"
    operations: int = attrs.field(default=40, validator=at_least(0))
    readers: int = attrs.field(default=2, validator=at_least(1))

    def __call__(self, program: Program) -> Program:
        """Return the program with elementwise kernels computed where stencils read them."""
        scan = _Scan(self, program)
        for view in program.main.refinements:
            scan.visit(view)
        left = tuple(statement for statement in scan.statements if statement is not None)
        return program if len(left) == len(scan.statements) else with_kernels(program, left)


@attrs.define
class _Scan:
    """The statements so far, None for those that are gone, and the numbers of those that touch a tensor."""

    options: InlineStencil
    program: Program
    statements: list[Statement | None] = attrs.field(init=False)
    _held: Mapping[str, Refinement] = attrs.field(init=False)
    _roots: Mapping[str, str] = attrs.field(init=False)
    _kept: frozenset[str] = attrs.field(init=False)
    _touching: dict[str, set[int]] = attrs.field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        program = self.program
        self.statements = list(program.main.statements)
        self._held = {r.name: r for r in program.main.refinements}
        self._roots = roots(program)
        buffers = (buffer.name for buffer in program.buffers)
        self._kept = frozenset((*program.inputs, *program.outputs, *buffers))
        for number, statement in enumerate(program.main.statements):
            for name in (*views_read(statement), *views_written(statement)):
                self._touching.setdefault(self._roots[name], set()).add(number)

    def visit(self, view: Refinement) -> None:
        """Compute the elements of a temporary where they are read, if that is legal and pays."""
        name = view.name
        touching = self._touching.get(name, ())
        if self._roots[name] != name or name in self._kept or not 2 <= len(touching) <= 1 + self.options.readers:
            return
        first, *readers = sorted(touching)
        producer = self.statements[first]
        if not isinstance(producer, Block) or not _makes(producer, name, self._held):
            return
        computing: dict[int, Block] = {}
        sources = {self._roots[r.source] for r in producer.refinements if r.direction is Direction.IN}
        for number in readers:
            reader = self.statements[number]
            if not isinstance(reader, Block) or not self._pays(producer, reader, name):
                return
            computing[number] = reader
        if any(self._is_written(source, first, readers[-1]) for source in sources):
            return
        self.statements[first] = None
        for number, reader in computing.items():
            self.statements[number] = _computing(reader, name, producer)
        for source in sources:
            self._touching[source] = (self._touching[source] - {first}) | computing.keys()

    def _pays(self, producer: Block, reader: Block, name: str) -> bool:
        """Return whether a kernel can compute what it reads of a tensor, for what each of its points does more."""
        views = [r for r in reader.refinements if r.source == name]
        if not _is_elementwise(reader) or any(r.direction is not Direction.IN for r in views):
            return False
        names = {r.name for r in views}
        loads = sum(isinstance(s, Load) and s.source in names for s in reader.statements)
        return loads * sum(isinstance(s, Intrinsic | Convert) for s in producer.statements) <= self.options.operations

    def _is_written(self, root: str, first: int, last: int) -> bool:
        """Return whether a statement from one number to another writes a tensor."""
        numbers = (number for number in self._touching[root] if first <= number <= last)
        statements = (s for number in numbers if (s := self.statements[number]) is not None)
        return any(self._roots[name] == root for s in statements for name in views_written(s))


def _is_elementwise(kernel: Block) -> bool:
    """Return whether a kernel has neither a schedule nor blocks inside, and merges nothing."""
    scalars = all(isinstance(s, Store) or scalar_output(s) is not None for s in kernel.statements)
    plain = not kernel.constraints and not any(i.affine is not None or i.tags.items for i in kernel.indices)
    return scalars and plain and all(r.aggregation in (None, Aggregation.ASSIGN) for r in kernel.refinements)


def _makes(kernel: Block, name: str, held: Mapping[str, Refinement]) -> bool:
    """Return whether a kernel stores to each place of a tensor something cheap of what is at that place of others."""
    if not _is_elementwise(kernel) or "copies" in kernel.tags:
        return False
    written = [r for r in kernel.refinements if r.direction is not Direction.IN]
    if len(written) != 1 or written[0].source != name or written[0].direction is not Direction.OUT:
        return False
    *computed, last = kernel.statements
    if not isinstance(last, Store) or last.index is not None or not is_element(written[0]):
        return False
    if not all(isinstance(s, Load | Constant | Convert) or _is_cheap(s) for s in computed):
        return False
    if any(isinstance(s, Load) and s.index is not None for s in computed):
        return False
    place, shape = address(written[0]), held[name].shape
    if not place.terms:
        return False
    for view in kernel.refinements:
        where, other = address(view), held[view.source].shape
        alike = where == place and other.sizes == shape.sizes and other.strides == shape.strides
        if not is_element(view) or not (alike or where.is_constant):
            return False
    return True


def _is_cheap(statement: Statement) -> bool:
    return isinstance(statement, Intrinsic) and statement.op in CHEAP


def _computing(kernel: Block, name: str, producer: Block) -> Block:
    """Return a kernel that computes what it loaded of a tensor, by the statements of its producer."""
    written = next(r for r in producer.refinements if r.direction is Direction.OUT)
    place = address(written)
    names = NameScope.of(r.name for r in kernel.refinements)
    scalars = NameScope.of(filter(None, map(scalar_output, kernel.statements)))
    kept = tuple(r for r in kernel.refinements if r.source != name)
    views = {attrs.evolve(r, name=""): r.name for r in kept if r.direction is Direction.IN}
    added: list[Refinement] = []
    statements: list[Statement] = []
    *computed, last = producer.statements
    assert isinstance(last, Store)
    for statement in kernel.statements:
        view = kernel.refinement(statement.source) if isinstance(statement, Load) else None
        if view is None or view.source != name or not isinstance(statement, Load):
            statements.append(statement)
            continue
        fresh = {s: scalars.fresh(s) for s in filter(None, map(scalar_output, computed))}
        fresh[last.source] = statement.into
        for step in computed:
            if not isinstance(step, Load):
                statements.append(renamed(step, fresh, {}))
                continue
            source = producer.refinement(step.source)
            moves = address(source) == place
            seen = attrs.evolve(source, name="")
            if moves:
                shape = TensorShape(source.shape.dtype, view.shape.dims)
                seen = attrs.evolve(view, name="", source=source.source, shape=shape)
            if seen not in views:
                views[seen] = names.fresh(source.name)
                added.append(attrs.evolve(seen, name=views[seen]))
            index = statement.index if moves else None
            statements.append(Load(views[seen], fresh[step.into], index, step.tags))
    comments = tuple(dict.fromkeys((*producer.comments, *kernel.comments)))
    return attrs.evolve(kernel, refinements=(*kept, *added), statements=tuple(statements), comments=comments, deps=())
