"""Index sets of Stripe programs, by isl: which elements each point brings together, and what points may run at once.

Everything is decided exactly, for the sizes that a program has. It needs islpy: ``pip install 'tileir[verify]'``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import attrs
import islpy as isl

from tileir.core.ops import Aggregation
from tileir.poly.affine import Affine, total
from tileir.stripe.ir import Block, Direction, Load, Special, Store, scalar_inputs, scalar_output

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tileir.stripe.ir import Program, Refinement

Signature: TypeAlias = "tuple[str, str, tuple[str, ...]]"
"""The memory that is stored to, how values merge there, and the memories of the operands."""

_COPYING: Final = ("copy", "transpose")


@attrs.frozen
class Element:
    """An element of some memory: what ``main`` and its blocks allocate is another one at each point around it."""

    memory: str
    place: tuple[Affine, ...]


@attrs.frozen
class Leaf:
    """One store, with the loads that its value depends on.

    Attributes:
        block: The block that holds it.
        kernel: The number of the kernel that this is in.
        indices: The indices around it, from the outside.
        conditions: Affines that must be >= 0.
        parallel: For each block around it, how many indices stand outside it, how many with its own, and whether its
            points are unordered.
        store: The element that is written.
        aggregation: How values merge there; empty where they overwrite.
        loads: The elements that are read.

    """

    block: str
    kernel: int
    indices: tuple[str, ...]
    conditions: tuple[Affine, ...]
    parallel: tuple[tuple[int, int, bool], ...]
    store: Element
    aggregation: str
    loads: tuple[Element, ...]

    @property
    def points(self) -> str:
        """The points at which it runs, as isl writes conditions."""
        return " and ".join(["true", *(f"{_text(c)} >= 0" for c in self.conditions)])

    def relation(self, elements: tuple[Element, ...]) -> isl.Map:
        """Return the map from points to elements, one after the other."""
        places = ", ".join(_text(place) for element in elements for place in element.place)
        return isl.Map(f"{{ [{', '.join(self.indices)}] -> [{places}] : {self.points} }}")


def leaves(program: Program) -> tuple[Leaf, ...]:
    """Return all stores of a program whose elements do not depend on values."""
    walk = _Walk()
    views = {r.name: _View(r.name, (), Affine(), r, "") for r in program.entry.refinements}
    walk.block(program.main, (), {}, (), (), views)
    return tuple(walk.found)


@attrs.frozen
class _View:
    """Where a refinement lies: the memory, the indices around its allocation, and the first element that it shows."""

    memory: str
    owner: tuple[str, ...]
    first: Affine
    refinement: Refinement
    aggregation: str

    def element(self, extra: Affine) -> Element:
        return Element(self.memory, (*map(Affine.index, self.owner), self.first + extra))


@attrs.define
class _Walk:
    found: list[Leaf] = attrs.field(factory=list)
    kernel: int = -1
    _blocks: int = 0
    _indices: int = 0

    def block(
        self,
        block: Block,
        indices: tuple[str, ...],
        outer: Mapping[str, Affine],
        conditions: tuple[Affine, ...],
        parallel: tuple[tuple[int, int, bool], ...],
        sources: Mapping[str, _View],
    ) -> None:
        """Collect the stores of a block at all points around it."""
        self._blocks += 1
        number = self._blocks
        values: dict[str, Affine] = {}
        before = len(indices)
        for index in block.indices:
            self._indices += 1
            name = f"i{self._indices}"
            indices = (*indices, name)
            values[index.name] = Affine.index(name)
            start = Affine() if index.affine is None else index.affine.substitute(outer)
            offset = Affine.index(name) - start
            conditions = (*conditions, offset, index.range - 1 - offset)
        conditions = (*conditions, *(c.substitute(values) for c in block.constraints))
        parallel = (*parallel, (before, len(indices), not block.is_serial))
        views = {r.name: self._view(r, indices, values, sources, number) for r in block.refinements}
        needed: dict[str, tuple[Element, ...] | None] = {}
        for statement in block.statements:
            if not outer and "main" in block.tags:
                self.kernel += 1
            if isinstance(statement, Block):
                self.block(statement, indices, values, conditions, parallel, views)
            elif isinstance(statement, Special):
                if statement.name in _COPYING:
                    self._copy(statement, block.name, indices, conditions, parallel, views)
            elif isinstance(statement, Store):
                loads = needed.get(statement.source)
                if loads is not None and statement.index is None:
                    view = views[statement.into]
                    element = view.element(Affine())
                    self.found.append(
                        Leaf(block.name, self.kernel, indices, conditions, parallel, element, view.aggregation, loads)
                    )
            elif (into := scalar_output(statement)) is not None:
                needed[into] = _operands(statement, views, needed)

    def _view(
        self,
        refinement: Refinement,
        indices: tuple[str, ...],
        values: Mapping[str, Affine],
        sources: Mapping[str, _View],
        number: int,
    ) -> _View:
        if refinement.direction is Direction.NONE:
            return _View(f"{refinement.name} of block {number}", indices, Affine(), refinement, "")
        source = sources[refinement.source]
        moved = total(
            access.substitute(values) * dim.stride
            for access, dim in zip(refinement.access, refinement.shape.dims, strict=True)
        )
        how = refinement.aggregation
        merging = "" if how in (None, Aggregation.ASSIGN) else how.value
        return _View(source.memory, source.owner, source.first + moved, refinement, merging)

    def _copy(
        self,
        special: Special,
        name: str,
        indices: tuple[str, ...],
        conditions: tuple[Affine, ...],
        parallel: tuple[tuple[int, int, bool], ...],
        views: Mapping[str, _View],
    ) -> None:
        """Collect a copy of a whole view, whose axes are indices of their own."""
        source, target = views[special.inputs[0]], views[special.outputs[0]]
        own = []
        for dim in target.refinement.shape.dims:
            self._indices += 1
            own.append(f"i{self._indices}")
            conditions = (*conditions, Affine.index(own[-1]), dim.size - 1 - Affine.index(own[-1]))
        there = list(reversed(own)) if special.name == "transpose" else own
        load = source.element(_along(source, there))
        store = target.element(_along(target, own))
        self.found.append(Leaf(name, self.kernel, (*indices, *own), conditions, parallel, store, "", (load,)))


def _along(view: _View, names: list[str]) -> Affine:
    return total(Affine.of({n: d.stride}) for n, d in zip(names, view.refinement.shape.dims, strict=True))


def _operands(
    statement: object, views: Mapping[str, _View], needed: Mapping[str, tuple[Element, ...] | None]
) -> tuple[Element, ...] | None:
    """Return what a scalar depends on; None where that depends on values."""
    if isinstance(statement, Load):
        return None if statement.index is not None else (views[statement.source].element(Affine()),)
    parts = [needed.get(name) for name in scalar_inputs(statement)]  # type: ignore[arg-type]
    if any(part is None for part in parts):
        return None
    return tuple(dict.fromkeys(element for part in parts if part is not None for element in part))


def _text(affine: Affine) -> str:
    return " + ".join([f"{affine.offset}", *(f"{c}{i}" for i, c in affine.terms)])


def races(program: Program) -> tuple[str, ...]:
    """Return, as sentences, pairs of points that may run at once of which one reads what the other one writes."""
    found = leaves(program)
    return tuple(problem for writer in found for reader in found for problem in _races_of(writer, reader))


def _races_of(writer: Leaf, reader: Leaf) -> Iterator[str]:
    for element in reader.loads:
        if element.memory != writer.store.memory:
            continue
        for (outside, inside, unordered), other in zip(writer.parallel, reader.parallel, strict=False):
            if writer.indices[:inside] != reader.indices[: other[1]]:
                break  # from here on these are different blocks
            if not unordered or outside == inside:
                continue
            meeting = _meeting(writer, reader, element, outside, inside)
            if not meeting.is_empty():
                point = meeting.sample_point()
                yield (
                    f"{writer.block!r} writes an element of {element.memory!r} that another point of a block around it "
                    f"reads in {reader.block!r}, at {point}"
                )
                break


def _meeting(writer: Leaf, reader: Leaf, element: Element, outside: int, inside: int) -> isl.Set:
    """Return pairs of points that agree outside a block, differ in it, and touch one element."""
    renamed = {name: f"r{name}" for name in reader.indices}
    moved = {name: Affine.index(new) for name, new in renamed.items()}
    conditions = [f"{_text(c)} >= 0" for c in writer.conditions]
    conditions += [f"{_text(c.substitute(moved))} >= 0" for c in reader.conditions]
    conditions += [f"{name} = r{name}" for name in writer.indices[:outside]]
    differ = " or ".join(f"{name} != r{name}" for name in writer.indices[outside:inside])
    conditions.append(f"({differ})")
    for one, other in zip(writer.store.place, element.place, strict=True):
        conditions.append(f"{_text(one)} = {_text(other.substitute(moved))}")
    names = ", ".join((*writer.indices, *renamed.values()))
    return isl.Set(f"{{ [{names}] : {' and '.join(conditions)} }}")


def tuples(program: Program) -> dict[Signature, tuple[isl.Set, bool]]:
    """Return which elements of the program's memory meet, and whether each tuple does at one point only.

    Elements of memory that blocks allocate stand for those that they are copies of, or that are copied from them.
    Stores of values that depend on no element, and those for which this cannot be told, are left out.
    """
    found = leaves(program)
    known = {r.name for r in program.entry.refinements}
    sources, targets = _copies(found, known)
    result: dict[Signature, tuple[isl.Set, bool]] = {}
    unclear: set[int] = set()
    for leaf in found:
        copied = len(leaf.loads) == 1 and not leaf.aggregation
        if not leaf.loads or (copied and (leaf.store.memory not in known or leaf.loads[0].memory not in known)):
            continue
        parts = [_resolved(leaf, leaf.store, known, targets)]
        parts += [_resolved(leaf, load, known, sources) for load in leaf.loads if load.memory != leaf.store.memory]
        resolved = [part for part in parts if part is not None]
        if len(resolved) < len(parts):
            unclear.add(leaf.kernel)
            continue
        output, *operands = resolved
        operands.sort(key=lambda part: part[0])
        relation = output[1]
        for _, operand in operands:
            relation = relation.flat_range_product(operand)
        signature = (output[0], leaf.aggregation, tuple(name for name, _ in operands))
        points, once = relation.range(), relation.is_injective()
        if signature in result:
            before, was = result[signature]
            points, once = before.union(points), was and once and before.intersect(points).is_empty()
        result[signature] = (points, once)
    lost = {leaf.store.memory for leaf in found if leaf.kernel in unclear}
    return {signature: what for signature, what in result.items() if signature[0] not in lost}


Copies: TypeAlias = "dict[str, tuple[str, isl.Map] | None]"


def _copies(found: tuple[Leaf, ...], known: set[str]) -> tuple[Copies, Copies]:
    """Return what memory of blocks is copied from, and where it is copied to; None for what is not one other memory."""
    sources: Copies = {}
    targets: Copies = {}
    for leaf in found:
        for element in () if leaf.loads else (leaf.store,):
            sources.setdefault(element.memory, None)
        if len(leaf.loads) != 1 or leaf.aggregation:
            if leaf.loads:
                sources[leaf.store.memory] = None
            continue
        load, store = leaf.loads[0], leaf.store
        if store.memory not in known:
            _add(sources, leaf, store, load, known)
        if load.memory not in known:
            _add(targets, leaf, load, store, known)
    return sources, targets


def _add(copies: Copies, leaf: Leaf, inner: Element, outer: Element, known: set[str]) -> None:
    relation = leaf.relation((inner,)).reverse().apply_range(leaf.relation((outer,)))
    before = copies.get(inner.memory, (outer.memory, None))
    if before is None or before[0] != outer.memory or outer.memory not in known:
        copies[inner.memory] = None
    else:
        copies[inner.memory] = (outer.memory, relation if before[1] is None else before[1].union(relation))


def _resolved(leaf: Leaf, element: Element, known: set[str], copies: Copies) -> tuple[str, isl.Map] | None:
    """Return the memory of the program that an element stands for, and the map from points to elements of it."""
    relation = leaf.relation((element,))
    if element.memory in known:
        return element.memory, relation
    copy = copies.get(element.memory)
    if copy is None or not copy[1].is_single_valued():
        return None
    resolved = relation.apply_range(copy[1])
    return (copy[0], resolved) if resolved.domain().is_equal(relation.domain()) else None


def difference(before: Program, after: Program) -> str | None:
    """Return how the index sets of two programs differ, as a sentence; None where they do not, or cannot be compared.

    Compared is what both programs store in the same way, with operands in the same memory. Where a program takes some
    elements of a memory by way of one that the other program does not have, the rest of them says nothing.
    """
    old, new = tuples(before), tuples(after)
    apart = _memories(before) ^ _memories(after)
    indirect = {memory for memory, _, operands in (*old, *new) if apart & set(operands)}
    for signature in old.keys() & new.keys():
        if signature[0] in indirect:
            continue
        (points, once), (others, still) = old[signature], new[signature]
        missing, added = points.subtract(others), others.subtract(points)
        what = f"{signature[0]} from {', '.join(signature[2]) or 'nothing'}"
        if not missing.is_empty():
            return f"{what}: the tuple {missing.sample_point()} of elements is missing"
        if not added.is_empty():
            return f"{what}: the tuple {added.sample_point()} of elements is new"
        if once and not still and signature[1] in ("add", "mul"):
            return f"{what}: some tuple of elements meets at several points"
    return None


def _memories(program: Program) -> set[str]:
    return {refinement.name for refinement in program.entry.refinements}
