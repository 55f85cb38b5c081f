"""Elements that data choose and the ones behind them, as weights between two neighbours need them, read at once.

A processor gathers vectors lane by lane, and takes as long for a lane of eight bytes as for one of four. Reading both
elements of a pair as one halves that. Places outside of the array are moved to its first or last element, each of the
two by itself, so that not all lanes have two neighbours there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tileir.core import DType, Op, attrs
from tileir.semtree.ir import Apply, Cast, Const, Declare, Expr, Stmt, Subscript, Type, Var
from tileir_llvm.emit.conversions import cast, integer
from tileir_llvm.emit.integers import apply_integer, select
from tileir_llvm.emit.memory import Offset, Place, broadcast, load
from tileir_llvm.emit.spelling import memory_element, register
from tileir_llvm.emit.text import FunctionText, Value

_BYTES: Final = 4
"""Bytes of an element, of which two are what a processor gathers in one step."""

_WRAPS: Final = (1 << 31) - 1
"""The place whose next one is the least."""

_LEAST: Final = 3
"""Two elements, and the place of one of them, are what a pair takes; bodies of unrolled loops often have fewer."""


@attrs.frozen
class Pair:
    """Two variables with the elements of an array at the lanes of a place, and at those of the next place.

    Attributes:
        one: The variable of the former.
        other: That of the latter.
        array: The array.
        place: The place, a variable of i32 lanes.
        last: The last place inside.
    """

    one: Var
    other: Var
    array: str
    place: Var
    last: int


def pairs_of(stmts: Sequence[Stmt], arrays: Mapping[str, Place]) -> dict[str, Pair | None]:
    """Return the pairs that statements gather from arrays that nothing writes.

    A pair has the name of its variable that comes first; that of the other one has none.
    """
    if len(stmts) < _LEAST:
        return {}
    found: dict[tuple[str, str, int], Var] = {}
    before: dict[str, Var] = {}
    for stmt in stmts:
        if not isinstance(stmt, Declare) or stmt.variable.type.lanes == 1:
            continue
        match stmt.value:
            case Apply(op=Op.ADD, args=(Var() as place, Const(value=1, type=Type(dtype=DType.I32)))):
                before[stmt.variable.name] = place
            case Subscript(array=array, offset=offset, type=kind) if (chosen := _clamped(offset)) is not None:
                place, last = chosen
                if kind.dtype.itemsize == _BYTES and last > 0 and array in arrays and arrays[array].constant:
                    found.setdefault((array, place.name, last), stmt.variable)
    pairs: dict[str, Pair | None] = {}
    order = {variable.name: number for number, variable in enumerate(found.values())}
    for (array, name, last), other in found.items():
        previous = before.get(name)
        one = None if previous is None else found.get((array, previous.name, last))
        if previous is None or one is None or one.name in pairs or other.name in pairs:
            continue
        first, second = sorted((one.name, other.name), key=order.__getitem__)
        pairs[first], pairs[second] = Pair(one, other, array, previous, last), None
    return pairs


def _clamped(offset: Expr) -> tuple[Var, int] | None:
    """Return the variable of i32 lanes that a place is, moved inside, and the last one there; None for others."""
    match offset:
        case Apply(
            op=Op.MIN,
            args=(
                Apply(op=Op.MAX, args=(Cast(operand=Var(type=Type(dtype=DType.I32)) as place), Const(value=0))),
                Const(value=last),
            ),
        ):
            return place, int(last)
        case _:
            return None


def read_pair(out: FunctionText, place: Place, chosen: Value, last: int) -> tuple[Value, Value]:
    """Read the elements at the lanes of a place of i32, and at those of the next place, both moved inside."""
    lanes, bounds = chosen.type.lanes, Type(DType.I32, chosen.type.lanes)
    kind, wide = Type(place.dtype, lanes), f"<{lanes} x i64>"

    def test(op: Op, bound: int) -> Value:
        return apply_integer(out, op, (chosen, integer(bound, bounds)), index=False)

    first = apply_integer(out, Op.MIN, (test(Op.MAX, 0), integer(last - 1, bounds)), index=False)
    index = cast(out, first, DType.I64)
    element, bits = memory_element(place.dtype), f"<{lanes} x i1>"
    pointers = out.pure(f"getelementptr inbounds {element}, ptr {place.pointer}, {register(index.type)} {index.text}")
    name = f"llvm.masked.gather.v{lanes}i64.v{lanes}p0"
    out.module.declarations[f"declare {wide} @{name}(<{lanes} x ptr>, i32, {bits}, {wide})"] = None
    operands = f"<{lanes} x ptr> {pointers}, i32 {_BYTES}, {bits} splat (i1 true), {wide} poison"
    both = f"<{2 * lanes} x {element}>"
    text = out.pure(f"bitcast {wide} {out.result(f'call {wide} @{name}({operands})')} to {both}")
    low, high = (
        Value(out.pure(f"shufflevector {both} {text}, {both} poison, <{lanes} x i32> <{every}>"), kind)
        for every in (", ".join(f"i32 {2 * lane + number}" for lane in range(lanes)) for number in (0, 1))
    )
    start = broadcast(out, load(out, place, Offset(None, None), Type(place.dtype)), lanes)
    one = select(out, test(Op.CMP_GE, last), high, low)
    other = select(out, test(Op.CMP_LT, 0), low, high)
    return one, select(out, test(Op.CMP_EQ, _WRAPS), start, other)
