"""Windows over axes that a program splits by residues, as windows with strides over the unsplit axes.

If vectors run along an axis that windows step over, a program groups its elements by their residues:

```text
T[c, r, o + t] = +(Y[c, o] * W[c, r + 2 * t]);   O[c, 2 * q + r] = T[c, r, q]
```

writes contiguous runs of T. Threads with one element each handle strides by their indices, and would only copy O once
more:

```text
O[c, 2 * o + i] = +(Y[c, o] * W[c, i])
```

The same holds for sums that read a split tensor T.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from tileir.core import Aggregation, Combination, NameScope, attrs
from tileir.poly.affine import Affine
from tileir.typed.dataflow import with_bodies, without_dead
from tileir.typed.ir import Access, Constraint, Contraction, Function, Operation, Reshape, Shape, Value, operands


def with_whole_axes(function: Function) -> Function:
    """Return ``function`` with windows over unsplit axes; itself if it splits none."""
    function = with_bodies(function, with_whole_axes)
    readers = Counter(name for operation in function.operations for name in operands(operation))
    readers.update(function.outputs)
    definitions: dict[str, Value | Operation] = {value.name: value for value in function.inputs}
    names = NameScope.of(value.name for value in (*function.inputs, *function.operations))
    operations: list[Operation] = []
    for operation in function.operations:
        made: Sequence[Operation] = (operation,)
        if isinstance(operation, Contraction):
            if _is_copy(operation):
                made = _written_whole(operation, definitions, readers, names) or made
            elif (
                operation.aggregation is Aggregation.SUM
                and operation.combination is Combination.MUL
                and operation.reduce
            ):
                made = (_read_whole(operation, definitions),)
        operations += made
        definitions.update((each.name, each) for each in made)
    if operations == [*function.operations]:
        return function
    return without_dead(attrs.evolve(function, operations=tuple(operations)))


@attrs.frozen
class _Division:
    """An axis of ``size`` elements, split in two of sizes ``parts``: ``step * q + r + offset`` is at q and r.

    ``places`` maps each index of a copy to its axis of the split tensor, and ``axes`` are those of q and r.
    """

    size: int
    step: int
    offset: int
    parts: tuple[int, int]
    axes: tuple[int, int]
    places: Mapping[str, int]

    def through(self, whole: Sequence[Affine], seen: Sequence[Affine]) -> tuple[Affine, ...]:
        """Return the access of a sum to the unsplit tensor for its access ``seen`` to the split one."""
        return tuple(each.substitute({name: seen[self.places[name]] for name in each.indices}) for each in whole)

    def are_windows(self, seen: Sequence[Affine]) -> bool:
        """Return whether positions along the quotient are those of windows: sums of an output's and a term's index."""
        return len(seen[self.axes[0]].indices) == 1 < len(seen[self.axes[1]].indices)

    def applied(self, total: Contraction, seen: Sequence[Affine]) -> Contraction:
        """Return a sum restricted to elements of the split tensor, with one index for a term and its residue."""
        residue, quotient = (seen[axis] for axis in self.axes)
        low = -((self.offset + self.step - 1) // self.step)
        if low < 0 or (self.size - 1 - self.offset) // self.step >= self.parts[1]:
            total = _with(total, Constraint(quotient, self.parts[1]))
        bound = Constraint(residue, self.parts[0])
        others = attrs.evolve(total, constraints=tuple(each for each in total.constraints if each != bound))
        (name,) = residue.indices
        alone = residue == Affine.index(name) and self.parts[0] == self.step
        for term in quotient.indices if alone else ():
            joined = {name: residue - Affine.index(term) * (self.step * quotient.coefficient(term))}
            if abs(quotient.coefficient(term)) != 1:
                continue
            found = _substituted(others, joined)
            if not any(term in each.indices for each in _places(found)):
                return found
        return _with(others, bound)


def _with(total: Contraction, constraint: Constraint) -> Contraction:
    return attrs.evolve(total, constraints=tuple(dict.fromkeys((*total.constraints, constraint))))


def _places(total: Contraction) -> list[Affine]:
    read = [place for access in total.inputs for place in access.indices]
    return [*total.output, *read, *(each.polynomial for each in total.constraints)]


def _substituted(total: Contraction, mapping: Mapping[str, Affine]) -> Contraction:
    return attrs.evolve(
        total,
        output=tuple(each.substitute(mapping) for each in total.output),
        inputs=tuple(
            attrs.evolve(access, indices=tuple(each.substitute(mapping) for each in access.indices))
            for access in total.inputs
        ),
        constraints=tuple(
            attrs.evolve(each, polynomial=each.polynomial.substitute(mapping)) for each in total.constraints
        ),
    )


def _is_copy(operation: Contraction) -> bool:
    """Return whether an operation only moves elements of one tensor, with zeros elsewhere."""
    moves = operation.aggregation is Aggregation.ASSIGN and operation.combination is Combination.NONE
    return moves and operation.default is None and operation.dtype is operation.operand_dtype


def _written_whole(
    copy: Contraction, definitions: Mapping[str, Value | Operation], readers: Mapping[str, int], names: NameScope
) -> tuple[Operation, ...] | None:
    """Return a sum that writes to the destination of a copy; None if that joins no split axis of windows."""
    total = behind = definitions[copy.inputs[0].tensor]
    if isinstance(behind, Reshape):
        total = definitions[behind.input]
    once = readers[behind.name] == readers[total.name] == 1
    if not isinstance(total, Contraction) or total.aggregation is not Aggregation.SUM or not (once and total.reduce):
        return None
    if copy.constraints or total.default is not None or copy.dtype is not total.dtype:
        return None
    divided = _divided(copy.inputs[0].indices, copy.output, behind.shape, copy.shape)
    if divided is None or any(
        size != behind.shape[divided.places[each.indices[0]]]
        for size, each in zip(copy.shape, copy.output, strict=True)
        if len(each.indices) == 1
    ):
        return None
    same = min(divided.axes) - len(behind.shape)  # a reshape may join axes before these
    axes, shape = total.output[same:], total.shape[same:]
    if shape != behind.shape[same:] or [*divided.places.values()] != [*range(len(behind.shape))]:
        return None
    before = len(behind.shape) + same
    beside = [*divided.places][:before]
    seen = (*map(Affine.index, beside), *axes)
    mixed = any(name in beside for each in copy.output[before:] for name in each.indices)
    if mixed or copy.output[:before] != seen[:before] or not divided.are_windows(seen):
        return None
    output = (*total.output[:same], *divided.through(copy.output, seen)[before:])
    name = copy.name if behind is total else names.fresh(copy.name)
    sizes = (*total.shape[:same], *copy.shape[before:])
    found = divided.applied(attrs.evolve(total, name=name, shape=sizes, output=output, span=copy.span), seen)
    if behind is total:
        return (found,)
    return found, Reshape(copy.name, name, copy.dtype, copy.shape, span=copy.span)


def _read_whole(total: Contraction, definitions: Mapping[str, Value | Operation]) -> Contraction:
    """Return a sum of products that reads the unsplit source of a copy; itself if none of its factors is split."""
    for number, access in enumerate(total.inputs):
        copy = definitions[access.tensor]
        if not isinstance(copy, Contraction) or not _is_copy(copy):
            continue
        source = copy.inputs[0]
        divided = _divided(copy.output, source.indices, copy.shape, definitions[source.tensor].shape)
        if divided is None or not divided.are_windows(access.indices):
            continue
        whole = Access(source.tensor, divided.through(source.indices, access.indices))
        inputs = (*total.inputs[:number], whole, *total.inputs[number + 1 :])
        where = {name: access.indices[axis] for name, axis in divided.places.items()}
        tests = (attrs.evolve(each, polynomial=each.polynomial.substitute(where)) for each in copy.constraints)
        moved = attrs.evolve(total, inputs=inputs, constraints=(*total.constraints, *tests))
        total = divided.applied(moved, access.indices)
    return total


def _divided(apart: Sequence[Affine], whole: Sequence[Affine], shape: Shape, sizes: Shape) -> _Division | None:
    """Return the split of an axis; None if there is not exactly one.

    ``apart`` are the accesses to the split tensor, one index each, and ``shape`` its sizes; ``whole`` and ``sizes``
    those of the unsplit one.
    """
    places = {each.indices[0]: axis for axis, each in enumerate(apart) if len(each.indices) == 1}
    if len(places) != len(apart) or [*apart] != [*map(Affine.index, places)]:
        return None
    joined = [
        axis for axis, each in enumerate(whole) if len(each.indices) != 1 or each != Affine.index(each.indices[0])
    ]
    if len(joined) != 1 or len(whole[joined[0]].indices) != 2:
        return None
    place = whole[joined[0]]
    rest, quotient = sorted(place.indices, key=lambda name: int(place.coefficient(name)))
    step = int(place.coefficient(quotient))
    axes = places[rest], places[quotient]
    parts = shape[axes[0]], shape[axes[1]]
    if place.coefficient(rest) != 1 or not place.is_integral or parts[0] > step:
        return None
    return _Division(sizes[joined[0]], step, int(place.offset), parts, axes, places)
