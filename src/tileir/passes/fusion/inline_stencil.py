"""Inlining of cheap elementwise kernels into stencils, by recomputation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import ClassVar

from tileir.core import NameScope, attrs
from tileir.passes.analysis import address, is_element, roots
from tileir.passes.base import at_least, with_kernels
from tileir.passes.fusion.inline import CHEAP
from tileir.passes.kernels.merge import made_once
from tileir.passes.layouts.own_axes import with_own_axes
from tileir.poly.affine import Affine
from tileir.schedule.reindex import renamed
from tileir.stripe.ir import (
    Block,
    Constant,
    Convert,
    Direction,
    Intrinsic,
    Load,
    Program,
    Refinement,
    Statement,
    Store,
    TensorShape,
    scalar_output,
    views_read,
    views_written,
)


@attrs.frozen
class InlineStencil:
    """Inline cheap elementwise kernels into the stencils that read their results, by recomputation.

    An image that is converted or scaled before a stencil is read in its original form: each element is recomputed for
    every place of a window, which costs less than a store and a load. All readers must be a few elementwise kernels
    with little reuse. The inlined kernel is then removed.

    Elements without reuse are not recomputed, so they may be expensive, such as similarities of neighbouring pixels as
    weights: the weights of a whole window would take many times the memory of the image.

    Attributes:
        operations: Maximum number of additional operations of a reader per point, for recomputed elements.
        readers: Maximum number of kernels that read a result.
        statements: Maximum number of statements of a reader that computes expensive elements.
    """

    name: ClassVar[str] = "inline_stencil"
    operations: int = attrs.field(default=40, validator=at_least(0))
    readers: int = attrs.field(default=2, validator=at_least(1))
    statements: int = attrs.field(default=2048, validator=at_least(0))

    def __call__(self, program: Program) -> Program:
        """Return the program with elementwise kernels inlined into stencils."""
        scan = _Scan(self, program)
        for view in program.main.refinements:
            scan.visit(view)
        left = tuple(statement for statement in scan.statements if statement is not None)
        return program if len(left) == len(scan.statements) else with_kernels(program, left)


@attrs.define(eq=False, repr=False)
class _Scan:
    """The statements so far, None for removed ones, and the numbers of the users of each tensor."""

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
        """Inline the producer of a temporary into its readers, if that is legal and pays."""
        name = view.name
        touching = self._touching.get(name, ())
        if self._roots[name] != name or name in self._kept or not 2 <= len(touching) <= 1 + self.options.readers:
            return
        first, *readers = sorted(touching)
        producer = self.statements[first]
        if not isinstance(producer, Block):
            return
        moved, dear = not _makes(producer, name, self._held), not _is_cheap(producer)
        seen: dict[int, Block] = {}
        if moved or dear:
            if not _makes_anywhere(producer, name, self._held):
                return
            own = {name: self._held[name].shape}
            seen = {n: with_own_axes(s, own) for n in readers if isinstance(s := self.statements[n], Block)}
            if not self._once(producer, [*seen.values()], name):
                return
        computing: dict[int, Block] = {}
        sources = {self._roots[r.source] for r in producer.refinements if r.direction is Direction.IN}
        for number in readers:
            reader = seen.get(number, self.statements[number])
            pays = self._fits if dear else self._pays
            if not isinstance(reader, Block) or not pays(producer, reader, name):
                return
            computing[number] = reader
        if any(self._is_written(source, first, readers[-1]) for source in sources):
            return
        self.statements[first] = None
        for number, reader in computing.items():
            self.statements[number] = _computing(reader, name, producer, same=not (moved or dear))
        for source in sources:
            self._touching[source] = (self._touching[source] - {first}) | computing.keys()

    def _pays(self, producer: Block, reader: Block, name: str) -> bool:
        """Return whether recomputing elements of a tensor in a reader stays within the allowed operations per point."""
        if not _only_reads(reader, name):
            return False
        names = {r.name for r in reader.refinements if r.source == name}
        loads = sum(isinstance(s, Load) and s.source in names for s in reader.statements)
        return loads * sum(isinstance(s, Intrinsic | Convert) for s in producer.statements) <= self.options.operations

    def _fits(self, producer: Block, reader: Block, name: str) -> bool:
        """Return whether a kernel can recompute expensive elements of a tensor: few, along its vectors."""
        if not _only_reads(reader, name):
            return False
        views = _element_views(reader, name)
        written = [address(r) for r in reader.refinements if r.direction.writes]
        steps = {abs(int(step)): index for where in written for index, step in where.terms if reader.ranges[index] > 1}
        along = steps[min(steps)] if steps else None
        near = along is not None and all(address(r).coefficient(along) == 1 for r in views)
        return near and len(reader.statements) + len(views) * len(producer.statements) <= self.options.statements

    def _once(self, producer: Block, readers: Sequence[Block], name: str) -> bool:
        """Return whether kernels load elements of a tensor, by its axes, no more often than it has elements."""
        loaded = 0
        for reader in readers:
            views = {r.name: r for r in reader.refinements if r.source == name}
            strides = self._held[name].shape.strides
            if not all(is_element(r) and r.shape.strides == strides for r in views.values()):
                return False
            if any(isinstance(s, Load) and s.source in views and s.index is not None for s in reader.statements):
                return False
            loaded += len(_element_views(reader, name)) * prod(reader.ranges.values())
        return loaded <= prod(producer.ranges.values())

    def _is_written(self, root: str, first: int, last: int) -> bool:
        """Return whether a statement from ``first`` to ``last`` writes a tensor."""
        numbers = (number for number in self._touching[root] if first <= number <= last)
        statements = (s for number in numbers if (s := self.statements[number]) is not None)
        return any(self._roots[name] == root for s in statements for name in views_written(s))


def _only_reads(kernel: Block, name: str) -> bool:
    """Return whether a kernel is elementwise and only loads from a tensor."""
    views = (r for r in kernel.refinements if r.source == name)
    return _is_elementwise(kernel) and all(r.direction is Direction.IN for r in views)


def _element_views(kernel: Block, name: str) -> set[Refinement]:
    """Return the views, without their names, through which a kernel loads different elements of a tensor."""
    loaded = {s.source for s in kernel.statements if isinstance(s, Load)}
    return {attrs.evolve(r, name="") for r in kernel.refinements if r.source == name and r.name in loaded}


def _is_elementwise(kernel: Block) -> bool:
    """Return whether a kernel has no schedule, no nested blocks, and no merging stores."""
    scalars = all(isinstance(s, Store) or scalar_output(s) is not None for s in kernel.statements)
    plain = not kernel.constraints and all(i.is_plain for i in kernel.indices)
    return scalars and plain and all(not r.merges for r in kernel.refinements)


def _makes(kernel: Block, name: str, held: Mapping[str, Refinement]) -> bool:
    """Return whether a kernel computes each element of a tensor from elements at the same place of others."""
    written = _result(kernel, name)
    if written is None:
        return False
    place, shape = address(written), held[name].shape
    if not place.terms:
        return False
    for view in kernel.refinements:
        where, other = address(view), held[view.source].shape
        alike = where == place and other.sizes == shape.sizes and other.strides == shape.strides
        if not is_element(view) or not (alike or where.is_constant):
            return False
    return True


def _makes_anywhere(kernel: Block, name: str, held: Mapping[str, Refinement]) -> bool:
    """Return whether a kernel stores to the place of its indices, by a tensor's own axes, values of others."""
    written = _result(kernel, name)
    if written is None or not all(is_element(r) for r in kernel.refinements):
        return False
    if written.shape.strides != held[name].shape.strides:
        return False
    axes = [access for access in written.access if access != Affine()]
    return sorted(map(str, axes)) == sorted(str(Affine.index(name)) for name in kernel.ranges)


def _result(kernel: Block, name: str) -> Refinement | None:
    """Return the view by which a kernel stores to each place of a tensor; None for other kernels."""
    if not _is_elementwise(kernel) or "copies" in kernel.tags:
        return None
    written = [r for r in kernel.refinements if r.direction is not Direction.IN]
    if len(written) != 1 or written[0].source != name or written[0].direction is not Direction.OUT:
        return None
    *computed, last = kernel.statements
    if not isinstance(last, Store) or last.index is not None or not is_element(written[0]):
        return None
    if not all(isinstance(s, Load | Constant | Convert | Intrinsic) for s in computed):
        return None
    return None if any(isinstance(s, Load) and s.index is not None for s in computed) else written[0]


def _is_cheap(kernel: Block) -> bool:
    """Return whether recomputation in a kernel costs less than a load from memory."""
    return all(s.op in CHEAP for s in kernel.statements if isinstance(s, Intrinsic))


def _values(written: Refinement, view: Refinement) -> dict[str, Affine]:
    """Return the values of a producer's indices at which it stores the elements of a view."""
    axes = zip(written.access, view.access, strict=True)
    return {access.indices[0]: value for access, value in axes if access.terms}


def _computing(kernel: Block, name: str, producer: Block, *, same: bool) -> Block:
    """Return a kernel that computes the loaded elements of a tensor by the statements of their producer.

    If a producer reads the ``same`` places of others, their views replace the tensor's, at whatever places.
    """
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
        values = {} if same else _values(written, view)
        fresh = {s: scalars.fresh(s) for s in filter(None, map(scalar_output, computed))}
        fresh[last.source] = statement.into
        for step in computed:
            if not isinstance(step, Load):
                statements.append(renamed(step, fresh, {}))
                continue
            source = producer.refinement(step.source)
            moves = same and address(source) == place
            seen = attrs.evolve(source, name="", access=tuple(a.substitute(values) for a in source.access))
            if moves:
                shape = TensorShape(source.shape.dtype, view.shape.dims)
                seen = attrs.evolve(view, name="", source=source.source, shape=shape)
            if seen not in views:
                views[seen] = names.fresh(source.name)
                added.append(attrs.evolve(seen, name=views[seen]))
            index = statement.index if moves else None
            statements.append(Load(views[seen], fresh[step.into], index, step.tags))
    comments = tuple(dict.fromkeys((*producer.comments, *kernel.comments)))
    once = tuple(made_once(statements))
    return attrs.evolve(kernel, refinements=(*kept, *added), statements=once, comments=comments, deps=())
