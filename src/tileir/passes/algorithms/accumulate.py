"""Explicit aggregation scopes, so that later passes see only ordinary loads, stores and merges."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from tileir.core import Aggregation, DType, NameScope, Op, attrs, rewritten
from tileir.passes.analysis.accesses import always_reached, is_element, known_ranges, part_over, swept
from tileir.passes.base import selected_kernel, unordered, with_kernels
from tileir.passes.kernels.schedule import REGISTER
from tileir.passes.rewrites.dead_code import pruned
from tileir.poly.affine import Affine
from tileir.poly.coverage import injective
from tileir.stripe.ir import (
    Block,
    Constant,
    Direction,
    Index,
    Intrinsic,
    Load,
    LoadIndex,
    Program,
    Refinement,
    Statement,
    Store,
    TensorShape,
    scalar_output,
    views_written,
)


@attrs.frozen
class Accumulate:
    """Promote reductions to registers: give each aggregation scope (an OUT refinement that aggregates) an accumulator.

    A flat block whose output access distinguishes all points of its output indices becomes an outer block over
    those, and an inner one (tag ``reduction``) over the others, that merges into a scalar accumulator in a
    register. The outer block stores the accumulator plainly, so that its points are independent. If some point of
    the outer block may have no valid point in the inner one, a bool accumulator records whether there was any, and
    the old content stays if not.

    Any other scope becomes a block that stores the identity to the elements to be written, followed by the original
    that merges into them.

    Afterwards no OUT refinement aggregates, except by ASSIGN. Blocks that aggregate INOUT stay as they are.
    """

    name: ClassVar[str] = "accumulate"
    reqs: tuple[str, ...] = ()

    def __call__(self, program: Program) -> Program:
        """Return the program without aggregation scopes in the kernels that carry all tags of ``reqs``."""
        content = _Content()

        def expand(kernel: Statement) -> tuple[Statement, ...]:
            result: tuple[Statement, ...] = (kernel,)
            if isinstance(kernel, Block) and selected_kernel(kernel, self.reqs):
                result = _explicit(kernel, content.matters)
            content.record(kernel)
            return result

        return with_kernels(program, rewritten(program.main.statements, expand))


@attrs.define(eq=False, repr=False)
class _Content:
    """Facts about the content of tensors, in the order of kernels: undefined before the first write."""

    _known: dict[str, bool | int | float | None] = attrs.field(factory=dict, init=False)

    def matters(self, scoped: Refinement) -> bool:
        """Return whether an unreached element may have content other than the identity."""
        if scoped.source not in self._known:
            return False
        value = self._known[scoped.source]
        return value is None or value != _identity(scoped)

    def record(self, kernel: Statement) -> None:
        """Record the writes of ``kernel``: one value wherever it stores, or anything."""
        values = _stored_constants(kernel) if isinstance(kernel, Block) else {}
        for name in views_written(kernel):
            value = values.get(name)
            self._known[name] = value if self._known.get(name, value) == value else None


def _stored_constants(block: Block) -> dict[str, bool | int | float]:
    """Return the value of each tensor to which a flat block only stores one constant."""
    constants = {s.into: s.value for s in block.statements if isinstance(s, Constant)}
    sources = {r.name: r.source for r in block.refinements if r.aggregation is None}
    stores = {s.into: s.source for s in block.statements if isinstance(s, Store)}
    if len(constants) + len(stores) != len(block.statements):
        return {}
    return {sources[into]: constants[source] for into, source in stores.items() if into in sources}


def _explicit(block: Block, may_keep: Callable[[Refinement], bool]) -> tuple[Statement, ...]:
    """Return blocks equivalent to ``block`` without aggregation scopes.

    ``may_keep`` returns whether unreached elements of a result have content to keep.
    """
    scoped = tuple(r for r in block.refinements if r.opens_scope)
    if scoped:
        split = _Split.of(block, scoped)
        if split is None:
            return _identity_first(block, scoped)
        return (split.build(keeps=not split.always_reached() and any(map(may_keep, scoped))),)
    inner = rewritten(block.statements, _explicit_inside)
    if inner is block.statements:
        return (block,)
    return (attrs.evolve(block, statements=unordered(inner)),)


def _explicit_inside(statement: Statement) -> tuple[Statement, ...]:
    """Rewrite a statement of a kernel, where earlier content of results is unknown."""
    if not isinstance(statement, Block):
        return (statement,)
    scoped = tuple(r for r in statement.refinements if r.opens_scope)
    split = _Split.of(statement, scoped) if scoped else None
    if scoped and (split is None or not split.always_reached()):
        return _identity_first(statement, scoped)
    return _explicit(statement, lambda _: False)


@attrs.frozen(repr=False)
class _Split:
    """Division of a flat block's indices and constraints between an outer and an inner block."""

    block: Block
    scoped: tuple[Refinement, ...]
    outer: tuple[Index, ...]
    inner: tuple[Index, ...]

    @classmethod
    def of(cls, block: Block, scoped: tuple[Refinement, ...]) -> _Split | None:
        """Return the split of ``block``; None if a scalar accumulator cannot replace its scopes."""
        names = {r.name for r in scoped}
        stores = [s for s in block.statements if names.intersection(views_written(s))]
        simple = all(isinstance(s, Store) and s.index is None for s in stores)
        if block.blocks or not simple or len(stores) != len(names):
            return None
        written = [{name for access in r.access for name in access.indices} for r in scoped]
        fixed = {index.name for index in block.indices if index.range == 1}
        outer = tuple(i for i in block.indices if i.name in written[0] | fixed)
        inner = tuple(i for i in block.indices if i.name not in written[0] | fixed)
        if any(used - fixed != written[0] - fixed for used in written) or any(i.affine is not None for i in inner):
            return None
        ranges = {index.name: index.range for index in outer}
        apart = tuple(c for c in block.constraints if all(name in ranges for name in c.indices))
        if not all(is_element(r) and injective(r.access, ranges, apart) for r in scoped):
            return None
        return cls(block, scoped, outer, inner)

    def build(self, *, keeps: bool) -> Block:
        """Return the block over the output indices, with the reduction inside.

        With ``keeps``, elements without a valid reduction point keep their content.
        """
        if not self.inner:
            scoped = {r.name for r in self.scoped}
            plain = tuple(attrs.evolve(r, aggregation=None) if r.name in scoped else r for r in self.block.refinements)
            return attrs.evolve(self.block, refinements=plain)
        names = NameScope.of(r.name for r in self.block.refinements)
        accumulators = {r.name: names.fresh(f"{r.name}_acc") for r in self.scoped}
        hit = names.fresh("hit") if keeps else None
        return self._outer(accumulators, hit, self._inner(accumulators, hit))

    @property
    def _reduced(self) -> frozenset[str]:
        return frozenset(index.name for index in self.inner)

    def _mixed(self) -> tuple[Affine, ...]:
        return tuple(c for c in self.block.constraints if self._reduced.intersection(c.indices))

    def always_reached(self) -> bool:
        """Return whether each output point certainly has a valid reduction point."""
        known = known_ranges(self.block)
        mixed = self._mixed()
        if any(name not in known for constraint in mixed for name in constraint.indices):
            return False
        outer = {index.name: index.range for index in self.outer if index.name in known}
        return always_reached(mixed, outer, {index.name: index.range for index in self.inner})

    def _inner(self, accumulators: dict[str, str], hit: str | None) -> Block:
        statements = self.block.statements
        refinements = [self._inner_view(r, accumulators) for r in self.block.refinements]
        if hit is not None:
            refinements.append(_view_of_scalar(hit, DType.BOOL, Aggregation.MAX))
            scalar = NameScope.of(filter(None, map(scalar_output, statements))).fresh("hit")
            statements = (*statements, Constant(scalar, DType.BOOL, True), Store(scalar, hit))
        renamed = (
            attrs.evolve(s, into=accumulators[s.into]) if isinstance(s, Store) and s.into in accumulators else s
            for s in statements
        )
        constraints = self._mixed()
        loaded = [s.affine for s in self.block.statements if isinstance(s, LoadIndex)]
        needed = {name for affine in (*constraints, *loaded) for name in affine.indices}
        passed = tuple(Index(i.name, 1, Affine.index(i.name)) for i in self.outer if i.name in needed)
        return attrs.evolve(
            self.block,
            indices=(*passed, *self.inner),
            constraints=constraints,
            refinements=tuple(refinements),
            statements=unordered(tuple(renamed)),
            comments=(),
            tags=self.block.tags.add("reduction"),
            deps=(),
        )

    def _inner_view(self, refinement: Refinement, accumulators: dict[str, str]) -> Refinement:
        if refinement.name in accumulators:
            return _view_of_scalar(accumulators[refinement.name], refinement.shape.dtype, refinement.aggregation)
        if refinement.direction is Direction.NONE:
            return refinement
        access = tuple(part_over(access, self._inner_ranges()) for access in refinement.access)
        return attrs.evolve(refinement, source=refinement.name, access=access)

    def _inner_ranges(self) -> dict[str, int]:
        return {index.name: index.range for index in self.inner}

    def _outer(self, accumulators: dict[str, str], hit: str | None, inner: Block) -> Block:
        refinements = [
            self._result_view(r, hit) if r.name in accumulators else swept(r, self._inner_ranges())
            for r in self.block.refinements
            if r.direction is not Direction.NONE
        ]
        before: list[Statement] = []
        after: list[Statement] = []
        for scoped in self.scoped:
            dtype, register = scoped.shape.dtype, accumulators[scoped.name]
            refinements.append(Refinement(register, Direction.NONE, "", (), TensorShape(dtype), location=REGISTER))
            before.extend(_set(register, f"{register}_init", dtype, _identity(scoped)))
            after.append(Load(register, register))
        if hit is not None:
            refinements.append(Refinement(hit, Direction.NONE, "", (), TensorShape(DType.BOOL), location=REGISTER))
            before.extend(_set(hit, f"{hit}_init", DType.BOOL, False))
            after.append(Load(hit, hit))
        for scoped in self.scoped:
            after.extend(_write_back(scoped, accumulators[scoped.name], hit))
        return attrs.evolve(
            self.block,
            indices=self.outer,
            constraints=tuple(c for c in self.block.constraints if not self._reduced.intersection(c.indices)),
            refinements=tuple(refinements),
            statements=(*before, inner, *after),
        )

    def _result_view(self, refinement: Refinement, hit: str | None) -> Refinement:
        direction = Direction.OUT if hit is None else Direction.INOUT
        return attrs.evolve(refinement, direction=direction, aggregation=None)


def _view_of_scalar(name: str, dtype: DType, aggregation: Aggregation | None) -> Refinement:
    return Refinement(name, Direction.INOUT, name, (), TensorShape(dtype), aggregation)


def _identity(refinement: Refinement) -> bool | int | float:
    return (refinement.aggregation or Aggregation.ASSIGN).identity(refinement.shape.dtype)


def _set(view: str, scalar: str, dtype: DType, value: bool | int | float) -> tuple[Statement, ...]:
    return Constant(scalar, dtype, value), Store(scalar, view)


def _write_back(refinement: Refinement, register: str, hit: str | None) -> tuple[Statement, ...]:
    """Store an accumulator to its element, which keeps its old content unless ``hit``."""
    if hit is None:
        return (Store(register, refinement.name),)
    old, new = f"{register}_old", f"{register}_new"
    choice = Intrinsic(Op.COND, (hit, register, old), new, refinement.shape.dtype)
    return Load(refinement.name, old), choice, Store(new, refinement.name)


def _identity_first(block: Block, scoped: tuple[Refinement, ...]) -> tuple[Statement, ...]:
    """Return a block that stores identities to the outputs of ``block``, and ``block`` made to merge with them."""
    identities = {r.name: _identity(r) for r in scoped}
    filling = _once(pruned(_filling(block, identities), set(identities)))
    merging = _merging(block, frozenset(identities))
    inner = rewritten(merging.statements, _explicit_inside)  # blocks may open scopes on allocations between them
    return attrs.evolve(filling, comments=(), deps=()), attrs.evolve(merging, statements=unordered(inner))


def _filling(block: Block, identities: dict[str, bool | int | float]) -> Block:
    """Return ``block`` with plain stores of ``identities`` through their views."""
    dtypes = {r.name: r.shape.dtype for r in block.refinements}
    scalars = NameScope.of(filter(None, map(scalar_output, block.statements)))
    statements: list[Statement] = []
    for statement in unordered(block.statements):
        match statement:
            case Store(into=into) if into in identities:
                scalar = scalars.fresh("identity")
                statements += (Constant(scalar, dtypes[into], identities[into]), attrs.evolve(statement, source=scalar))
            case Block(refinements=views):
                below = {r.name: identities[r.source] for r in views if r.source in identities and r.direction.writes}
                statements.append(_filling(statement, below))
            case _:
                statements.append(statement)
    refinements = tuple(
        attrs.evolve(r, direction=Direction.OUT, aggregation=None) if r.name in identities else r
        for r in block.refinements
    )
    return attrs.evolve(block, refinements=refinements, statements=tuple(statements))


def _once(block: Block) -> Block:
    """Return a filling block without the indices that only repeat its stores."""
    statements = tuple(_once(s) if isinstance(s, Block) else s for s in block.statements)
    affines = [*block.constraints, *(affine for r in block.refinements for affine in r.access)]
    affines += [i.affine for s in statements if isinstance(s, Block) for i in s.indices if i.affine is not None]
    places = (block.location, *(r.location for r in block.refinements))
    affines += [unit for place in places for device in place for unit in device.units]
    used = {name for affine in affines for name in affine.indices}
    indices = tuple(index for index in block.indices if index.name in used)
    return attrs.evolve(block, indices=indices, statements=statements)


def _merging(block: Block, names: frozenset[str]) -> Block:
    """Return ``block`` with the views ``names``, and nested views, turned from OUT to INOUT."""
    refinements = tuple(attrs.evolve(r, direction=Direction.INOUT) if r.name in names else r for r in block.refinements)
    statements = tuple(
        _merging(s, frozenset(r.name for r in s.refinements if r.source in names and r.direction.writes))
        if isinstance(s, Block)
        else s
        for s in block.statements
    )
    return attrs.evolve(block, refinements=refinements, statements=unordered(statements), deps=())
