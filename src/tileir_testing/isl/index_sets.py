"""Index sets of Stripe programs, by isl: the elements that meet at each point, and points that may run in parallel.

Everything is decided exactly, for the sizes of a program. It needs islpy: ``pip install 'tileir[verify]'``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import islpy as isl

from tileir.poly.affine import Affine
from tileir.stripe.ir import Program
from tileir_testing.isl.index_leaves import Element, Leaf, stores, text

Signature: TypeAlias = "tuple[str, str, tuple[str, ...]]"
"""The memory that is stored to, how values merge there, and the memories of the operands."""


def races(program: Program) -> tuple[str, ...]:
    """Return, as sentences, pairs of parallel points of which one reads an element that the other writes."""
    found = stores(program).leaves
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
    conditions = [f"{text(c)} >= 0" for c in writer.conditions]
    conditions += [f"{text(c.substitute(moved))} >= 0" for c in reader.conditions]
    conditions += [f"{name} = r{name}" for name in writer.indices[:outside]]
    differ = " or ".join(f"{name} != r{name}" for name in writer.indices[outside:inside])
    conditions.append(f"({differ})")
    for one, other in zip(writer.store.place, element.place, strict=True):
        conditions.append(f"{text(one)} = {text(other.substitute(moved))}")
    names = ", ".join((*writer.indices, *renamed.values()))
    return isl.Set(f"{{ [{names}] : {' and '.join(conditions)} }}")


def tuples(program: Program) -> dict[Signature, tuple[isl.Set, bool]]:
    """Return the tuples of program elements that meet, and whether each does at one point only.

    Elements of block allocations are replaced by the elements that they copy or that copy them. Stores of values that
    depend on no element, or on unknown elements, are left out.
    """
    found = stores(program).leaves
    known = {r.name for r in program.memory}
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
    inner = [leaf for leaf in found if leaf.loads and known.isdisjoint((leaf.store.memory, *_memories(leaf)))]
    twice = {leaf.store.memory for leaf in inner}
    lost |= {leaf.store.memory for leaf in found if not twice.isdisjoint(_memories(leaf))}  # copies of copies
    return {signature: what for signature, what in result.items() if signature[0] not in lost}


def _memories(leaf: Leaf) -> tuple[str, ...]:
    return tuple(load.memory for load in leaf.loads)


Copies: TypeAlias = "dict[str, tuple[str, isl.Map] | None]"


def _copies(found: tuple[Leaf, ...], known: set[str]) -> tuple[Copies, Copies]:
    """Return the source and the target of copies of block memory; None for anything but a single other memory."""
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
    """Return the difference between the index sets of two programs, as a sentence; None where equal or incomparable.

    Compared are stores that occur in both programs, with operands in equal memory and layout. Where a program takes
    elements of a memory through memory that the other lacks, or writes some of them at addresses that depend on values,
    the rest are not compared.
    """
    old, new = tuples(before), tuples(after)
    layouts, later = _layouts(before), _layouts(after)
    apart = layouts.keys() ^ later.keys()
    indirect = {memory for memory, _, operands in (*old, *new) if apart & set(operands)}
    indirect |= _unclear(before) | _unclear(after)
    moved = {memory for memory, layout in layouts.items() if later.get(memory) != layout}
    for signature in old.keys() & new.keys():
        if signature[0] in indirect or not moved.isdisjoint((signature[0], *signature[2])):
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


def _unclear(program: Program) -> set[str]:
    """Return memory that is written at addresses that depend on values, or from such memory."""
    found = stores(program)
    copies = {leaf.store.memory for leaf in found.leaves if any(load.memory in found.unclear for load in leaf.loads)}
    return copies | found.unclear


def _layouts(program: Program) -> dict[str, tuple[tuple[int, int], ...]]:
    """Return the sizes and strides of the memory of a program."""
    return {r.name: tuple((dim.size, dim.stride) for dim in r.shape.dims) for r in program.memory}
