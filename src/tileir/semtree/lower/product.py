"""Lowering of phases that are matrix products, and of dot products, to instructions.

The block is an ordinary one, in which each thread adds up its own elements; its instruction names a fragment
(:mod:`tileir.core.fragments`). Roles identify its indices: ``LANE`` and ``ELEMENT``, with the first bit of the thread's
or the element's number for the index, one for each run of the fragment's layout; ``TILE_ROW`` and ``TILE_COLUMN``,
which count fragments (and ``TILE_HIGH`` rows of these); and ``DEPTH``. Sums excluded by constraints may be computed
anyway: they are not used.

Blocks with an index bound to ``dot`` become dot products: each lane adds the products of a few adjacent elements. The
block is an ordinary one, which adds products of loads to sums. Its two factors are contiguous along that index; along
the lanes, each is constant, or continues where the terms of the previous lane end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from tileir.core import Aggregation, Op, Target, attrs, fail
from tileir.core.fragments import Fragment, Run, usable
from tileir.poly.affine import Affine
from tileir.semtree import ir as sem
from tileir.semtree.lower.views import LANE, TERM, OffsetBuilder, View
from tileir.stripe import Role, RoleKind, ir as stripe

TILE_HIGH: Final = Role(RoleKind.TILE_HIGH)
TILE_ROW: Final = Role(RoleKind.TILE_ROW)
TILE_COLUMN: Final = Role(RoleKind.TILE_COLUMN)
DEPTH: Final = Role(RoleKind.DEPTH)


def product(
    block: stripe.Block, views: Mapping[str, View], names: Mapping[str, str], target: Target, offsets: OffsetBuilder
) -> sem.MatrixMultiply | None:
    """Return the instruction for a block, or None if the device has none.

    ``names`` holds the variable of each index in the offsets of ``views``.

    Raises:
        TileError: TIL502, the block does not match the fragment.
    """
    fragment = fragment_of(block, target)
    if fragment is None:
        return None
    what = f"block {block.name or '(unnamed)'} asks for the fragment {fragment.name}, but"
    reads = [views[r.name] for r in block.refinements if r.direction is stripe.Direction.IN]
    sums = [views[r.name] for r in block.refinements if r.direction is stripe.Direction.INOUT]
    if len(reads) != 2 or len(sums) != 1 or not only_multiplies(block):
        raise fail("TIL502", f"{what} does not just add products of two tensors to a third")
    roles = _Roles.of(block, names, fragment)
    column = roles.first("n")
    left, right = sorted(reads, key=lambda view: bool(roles.step(view, column)))
    dtypes = (left.shape.dtype, right.shape.dtype, sums[0].shape.dtype)
    if dtypes != fragment.dtypes:
        raise fail("TIL502", f"{what} multiplies {dtypes[0].value} by {dtypes[1].value} to {dtypes[2].value}")
    if not roles.are_whole(block):
        raise fail("TIL502", f"{what} its indices do not stand for all of its threads, elements and depth")
    if not roles.fit(left, right, sums[0]):
        raise fail("TIL502", f"{what} its indices move elsewhere in memory than those of the fragment")
    a, b = roles.step(left, roles.first("m")), roles.step(right, column)
    variables = tuple(names[index.name] for index in roles.found.values() if index.name in names)
    start = sem.Type(fragment.c.dtype)
    return sem.MatrixMultiply(
        fragment.name,
        roles.tile,
        sem.Subscript(sums[0].array, _start(sums[0], variables, offsets), start),
        sem.MatrixOperand(_first(left, variables, offsets), (a, roles.step(left, DEPTH)), *left.swizzle),
        sem.MatrixOperand(_first(right, variables, offsets), (roles.step(right, DEPTH), b), *right.swizzle),
    )


def fragment_of(block: stripe.Block, target: Target) -> Fragment | None:
    """Return the fragment of a block, if the device has it."""
    if not isinstance(block.instruction, stripe.Product):
        return None
    wanted = block.instruction.fragment
    return next((each for each in usable(target.fragments, rounded=target.approximate) if each.name == wanted), None)


def only_multiplies(block: stripe.Block) -> bool:
    """Return whether a block only adds products of loads."""
    kinds = (stripe.Load, stripe.Store, stripe.Convert, stripe.Intrinsic)
    if not all(isinstance(s, kinds) for s in block.statements):
        return False
    products = [s for s in block.statements if isinstance(s, stripe.Intrinsic)]
    stores = [s for s in block.statements if isinstance(s, stripe.Store)]
    return len(products) == len(stores) == 1 and products[0].op is Op.MUL and stores[0].source == products[0].into


@attrs.frozen(eq=False, repr=False)
class _Roles:
    """Roles of the indices of a block."""

    fragment: Fragment
    found: Mapping[Role, stripe.Index]
    variables: Mapping[Role, str]

    @classmethod
    def of(cls, block: stripe.Block, names: Mapping[str, str], fragment: Fragment) -> _Roles:
        """Collect the roles of a block's indices."""
        found = {index.role: index for index in block.indices if index.role is not None}
        return cls(fragment, found, {role: names[i.name] for role, i in found.items() if i.name in names})

    @property
    def runs(self) -> dict[Role, Run]:
        """Runs of the fragment's layout: several indices may share the bits of a run."""
        layout = self.fragment.sums
        both = ((RoleKind.LANE, layout.thread_runs()), (RoleKind.ELEMENT, layout.element_runs()))
        cuts = {kind: {role.bit for role in self.found if role.kind is kind} for kind, _ in both}
        parts = ((kind, part) for kind, runs in both for run in runs for part in run.cut_at(cuts[kind]))
        return {Role(kind, part.start): part for kind, part in parts}

    @property
    def tile(self) -> tuple[int, int, int]:
        """Rows, columns and depth."""
        rows, columns, _ = self.fragment.mnk
        high, tall, wide, depth = (self.range(r) for r in (TILE_HIGH, TILE_ROW, TILE_COLUMN, DEPTH))
        return high * tall * rows, wide * columns, depth

    def range(self, role: Role) -> int:
        """Return the range of an index, 1 if there is none."""
        return self.found[role].range if role in self.found else 1

    def first(self, axis: str) -> Role | None:
        """Return the step from a row or column to the next one."""
        return next((role for role, run in self.runs.items() if run.axis == axis and run.bit == 0), None)

    def step(self, view: View, role: Role | None) -> int:
        """Return the stride of an index in a view."""
        variable = None if role is None else self.variables.get(role)
        return 0 if variable is None else int(view.offset.coefficient(variable))

    def are_whole(self, block: stripe.Block) -> bool:
        """Return whether indices cover all bits, with those of threads in the lowest bits of their numbers."""
        own = {role: index.range for role, index in self.found.items() if role.kind.has_bits}
        stride, strides = 1, {}
        for index in reversed(block.indices):
            if index.binding is stripe.Binding.THREAD:
                strides[index.name] = stride
                stride *= index.range
        ordered = all(
            strides.get(index.name) == 1 << role.bit for role, index in self.found.items() if role.kind is RoleKind.LANE
        )
        whole = own == {role: run.extent for role, run in self.runs.items()}
        return whole and ordered and self.range(DEPTH) % self.fragment.mnk[2] == 0

    def fit(self, left: View, right: View, sums: View) -> bool:
        """Return whether all views match the instruction's indices."""
        (rows, columns, _), held = self.fragment.mnk, self.fragment.sums.held
        row, column = self.step(left, self.first("m")), self.step(right, self.first("n"))
        tall, wide = self.range(TILE_ROW), self.range(TILE_COLUMN)
        wanted = {
            left: {TILE_ROW: rows * row, TILE_HIGH: tall * rows * row},
            right: {TILE_COLUMN: columns * column},
            sums: {
                TILE_COLUMN: held,
                TILE_ROW: wide * held,
                TILE_HIGH: tall * wide * held,
            },
        }
        for role, run in self.runs.items():
            view, unit = (left, row) if run.axis == "m" else (right, column)
            wanted[view][role] = unit << run.bit
            if role.kind is RoleKind.ELEMENT:
                wanted[sums][role] = 1 << run.start
        return all(
            self.step(view, role) == steps.get(role, 0)
            for view, steps in wanted.items()
            for role in self.variables
            if role != DEPTH or view is sums
        )


def _start(view: View, variables: Iterable[str], offsets: OffsetBuilder) -> sem.Expr:
    return offsets.scalar(view.offset.substitute({name: Affine() for name in variables}))


def _first(view: View, variables: Iterable[str], offsets: OffsetBuilder) -> sem.Subscript:
    return sem.Subscript(view.array, _start(view, variables, offsets), sem.Type(view.shape.dtype))


def dot_index(block: stripe.Block) -> stripe.Index | None:
    """Return the index of a block that counts the terms of dot products; None if it has none.

    Raises:
        TileError: TIL502, there are two of them, a constraint or an outer index involves one, or the block does not
            only
            add products to sums.
    """
    indices = [index for index in block.indices if index.binding is stripe.Binding.DOT]
    if not indices:
        return None
    (index, *others), name = indices, block.name or "(unnamed)"
    tested = {name for constraint in block.constraints for name in constraint.indices}
    if others or index.name in tested or index.affine is not None:
        raise fail("TIL502", f"one index of block {name} is for dot products, and it starts at 0 without constraints")
    directions = [r.direction for r in block.refinements]
    whole = directions.count(stripe.Direction.IN) == 2 and directions.count(stripe.Direction.INOUT) == 1
    if not whole or len(directions) != 3 or not only_multiplies(block):
        message = f"index {index.name} of block {name} is for dot products, but the block does not just add products"
        raise fail("TIL502", f"{message} of two elements to a third")
    return index


def dot_product(
    block: stripe.Block,
    views: Mapping[str, View],
    shape: tuple[int, int],
    target: Target,
    offsets: OffsetBuilder,
) -> sem.Assign:
    """Return the statement for a block with a :func:`dot_index`.

    Args:
        block: The block.
        views: Its views, by name.
        shape: Lanes, and terms of each lane.
        target: The device: factors are in the order of one of its fragments.
        offsets: Turns offsets into expressions.

    Raises:
        TileError: TIL502, the elements of a view are not in the layout of the instruction.
    """
    lanes, terms = shape
    factors = [r for r in block.refinements if r.direction is stripe.Direction.IN]
    (sums,) = (r for r in block.refinements if r.direction is stripe.Direction.INOUT)
    view = views[sums.name]
    steps = _steps(view)
    if sums.aggregation is not Aggregation.SUM or steps != ((1 if lanes > 1 else steps[0]), 0):
        raise fail("TIL502", f"dot products are added to neighbours in {sums.name}, each by one lane")
    total: sem.Var | sem.Subscript
    if view.variable is not None:
        total = view.variable
        offsets.mark_mutable(total)
    else:
        total = _run(view, lanes, offsets)
    left, right = (_factor(r.name, views[r.name], lanes, terms, offsets) for r in factors)
    rows = {row.dtypes for row in usable(target.fragments, rounded=target.approximate) if row.is_dot}
    a, b, c = (part.type.dtype for part in (left, right, total))
    # Of interchangeable factors, the left one is that of the tile's rows.
    turned = isinstance(right, sem.Shuffle) if a is b else (a, b, c) not in rows and (b, a, c) in rows
    return sem.Assign(total, sem.Dot(right, left, total) if turned else sem.Dot(left, right, total))


def _steps(view: View) -> tuple[int, int]:
    return int(view.offset.coefficient(LANE)), int(view.offset.coefficient(TERM))


def _run(view: View, count: int, offsets: OffsetBuilder) -> sem.Subscript:
    """Return contiguous elements from the start of a view on."""
    start = offsets.scalar(view.offset.substitute({LANE: 0, TERM: 0}))
    return sem.Subscript(view.array, start, sem.Type(view.shape.dtype, count))


def _factor(name: str, view: View, lanes: int, terms: int, offsets: OffsetBuilder) -> sem.Expr:
    """Return the terms of all lanes, lane after lane."""
    lane, term = _steps(view)
    if term == 1 and lane in (terms, 0) and view.variable is None:
        if lane or lanes == 1:
            return _run(view, lanes * terms, offsets)
        return sem.Shuffle((_run(view, terms, offsets),), tuple(range(terms)) * lanes)
    raise fail(
        "TIL502", f"the terms of dot products are neighbours in {name}, and those of one lane follow the other's"
    )
