"""Contractions that overwrite their default, which has no other reader, so that it need not be copied."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from tileir.poly.bounds import Domain, solve
from tileir.poly.coverage import boxes_cover, filled_box
from tileir.typed.ir import Contraction, Elementwise, Function, Shape, operands


def overwriters(function: Function) -> dict[str, Contraction]:
    """Return the contraction that overwrites a value, by the name of the value.

    It is the only reader of the value, as its default; the value is computed in this function and is no result of it;
    and the aggregate has the dtype of the value.
    """
    reads = Counter(name for operation in function.operations for name in operands(operation))
    reads.update(function.outputs)
    computed = {op.name for op in function.operations if isinstance(op, Contraction | Elementwise)}
    return {
        op.default: op
        for op in function.operations
        if isinstance(op, Contraction)
        and op.default in computed
        and reads[op.default] == 1
        and op.accumulator is op.dtype
    }


def solved(contraction: Contraction, shapes: Sequence[Shape]) -> Domain | None:
    """Return the domain of a contraction whose inputs have these shapes; None if it has no valid point.

    Raises:
        TileError: TIL401 to TIL405, the indices have no proper bounds.
    """
    return solve(
        [contraction.output, *(access.indices for access in contraction.inputs)],
        [contraction.shape, *shapes],
        [(constraint.polynomial, constraint.bound) for constraint in contraction.constraints],
        contraction.reduce,
    )


def written_together(
    contraction: Contraction, domain: Domain, later: Mapping[str, Contraction], shape_of: Callable[[str], Shape]
) -> bool:
    """Return whether a contraction and its successive overwriters together write every element.

    False may mean that it was not decided: only boxes that differ along one axis are combined.

    Args:
        contraction: The first one.
        domain: Its domain.
        later: The overwriter of each value.
        shape_of: Returns the shape of a value.
    """
    boxes = [filled_box(domain)]
    name = contraction.name
    while name in later:
        over = later[name]
        found = solved(over, [shape_of(access.tensor) for access in over.inputs])
        boxes.append(None if found is None else filled_box(found))
        name = over.name
    return len(boxes) > 1 and boxes_cover([box for box in boxes if box is not None], contraction.shape)
