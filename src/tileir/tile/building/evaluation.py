"""Sizes as integers, where the dimensions that they are made of are given."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from operator import index
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from tileir.core.numbers.integers import quotient, remainder
from tileir.tile.building.recording import Recorder, mistake
from tileir.tile.ir import Binary, Call, Conditional, Expr, FloatLiteral, IntLiteral, Name, Unary
from tileir.tile.traversal import children, walk

if TYPE_CHECKING:
    from tileir.tile.building.recording import Declared


def evaluated(recorder: Recorder, expr: Expr, sizes: Mapping[str, int]) -> int:
    """Return the integer that a size is.

    Args:
        recorder: Where it was made.
        expr: The size.
        sizes: The sizes of dimensions, and the values of inputs that are integers, by name.

    Raises:
        TileError: TIL306, a size that is needed is not given; TIL308, something is divided by 0; TIL312 or TIL301, the
            sizes break what the program demands of them; TIL215, one that is given is no integer.

    """
    known = {name: _given(name, value) for name, value in sizes.items()}
    needed = _statements(recorder, expr)
    for name, step in recorder.steps.items():
        if name in needed:
            known[name] = _value(_expression(step.body), known)
    return _value(expr, known)


def _statements(recorder: Recorder, expr: Expr) -> set[str]:
    """Return the statements that an expression is made of, directly or not."""
    found: set[str] = set()
    pending = [expr]
    while pending:
        for node in walk(pending.pop()):
            if isinstance(node, Name) and node.name in recorder.steps and node.name not in found:
                found.add(node.name)
                pending.append(_expression(recorder.steps[node.name].body))
    return found


def _expression(body: Expr | Declared) -> Expr:
    if not isinstance(body, Name | IntLiteral | FloatLiteral | Unary | Binary | Conditional | Call):
        raise mistake("TIL306", "this size is computed when running, so it has no value before")
    return body


def _given(name: str, value: object) -> int:
    try:
        return index(value)  # type: ignore[arg-type]  # any integer, those of NumPy too
    except TypeError:
        raise mistake("TIL215", f"the size of {name!r} is an integer, not {value!r:.80}") from None


def _value(expr: Expr, known: Mapping[str, int]) -> int:
    """Return the value of an expression, whose depth is bounded."""
    match expr:
        case IntLiteral(value=value):
            return value
        case Name(name=name):
            if name not in known:
                raise mistake("TIL306", f"the size of {name!r} is not given; pass it, as in at({{{name!r}: 4}})")
            return known[name]
        case _:
            values = [_value(child, known) for child in children(expr)]
            return _computed(expr, values)


def _computed(expr: Expr, values: list[int]) -> int:
    word = "cond"
    if isinstance(expr, Call):
        word = expr.function
    elif isinstance(expr, Unary | Binary):
        word = expr.operator.name.lower()
    function = _FUNCTIONS.get(word)
    if function is None:
        raise mistake("TIL306", f"{word!r} of sizes has no value before the program is compiled")
    if word in ("div", "mod") and values[1] == 0:
        raise mistake("TIL308", f"this size divides {values[0]} by 0")
    return int(function(*values))


def _match(left: int, right: int) -> int:
    if left != right:
        raise mistake("TIL312", f"one size is {left} and the other {right}, but both must match")
    return left


def _broadcast(left: int, right: int) -> int:
    if left != right and 1 not in (left, right):
        raise mistake("TIL301", f"one size is {left} and the other {right}; they must be equal, or one of them 1")
    return right if left == 1 else left


_FUNCTIONS: Final[Mapping[str, Callable[..., int]]] = MappingProxyType(
    {
        **{name: getattr(operator, name) for name in ("add", "sub", "mul", "neg", "abs")},
        **{f"cmp_{name}": getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge")},
        "div": quotient,
        "mod": remainder,
        "max": max,
        "min": min,
        **dict.fromkeys(("ident", "floor", "ceil"), math.floor),
        **dict.fromkeys(("cond", "where"), lambda condition, then, otherwise: then if condition else otherwise),
        "match": _match,
        "broadcast": _broadcast,
    }
)
