"""Random Tile functions where they are smooth: those of :mod:`tileir_testing.generated`, with other inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs
import numpy as np
from hypothesis import assume, strategies as st

from strategies.tile import Case, cases
from tileir.core.dtype import DType
from tileir.core.ops import Op
from tileir.typed.interpreter import interpret
from tileir.typed.ir import Elementwise, Function, operands

if TYPE_CHECKING:
    from typing import Any

_LARGEST: Final = 1e4  # of all values: beyond that, differences are mostly rounding
_STEPS: Final = frozenset(
    {Op.FLOOR, Op.CEIL, Op.ROUND, Op.TRUNC, Op.CMP_LT, Op.CMP_LE, Op.CMP_GT, Op.CMP_GE, Op.CMP_EQ, Op.CMP_NE}
)


@attrs.frozen
class Place:
    """A function, arguments in general position, and the names of float inputs and results that depend on them."""

    case: Case
    wrt: tuple[str, ...]
    of: tuple[str, ...]

    def __repr__(self) -> str:
        return f"{self.case!r}\nwith respect to {', '.join(self.wrt)}"


@st.composite
def places(draw: st.DrawFn, statements: int = 5) -> Place:
    """Draw a function of some f64 inputs, in which all values are finite and of moderate size."""
    case = draw(cases(dtypes=(DType.F64, DType.F64, DType.F64, DType.I32), functions=True, statements=statements))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    inputs = {name: _moved(array, rng) for name, array in case.inputs.items()}
    case = case._replace(inputs=inputs)
    graph = case.typed()
    wrt = tuple(value.name for value in graph.inputs if value.dtype.is_float)
    of = tuple(name for name in graph.outputs if name in _smooth(graph, wrt))
    values = _values(graph, inputs)
    assume(wrt and of and _moderate(values) and not _isolated(graph, {**inputs, **values}, _smooth(graph, wrt)))
    return Place(case, wrt, of)


def _moved(array: np.ndarray[Any, Any], rng: np.random.Generator) -> np.ndarray[Any, Any]:
    if array.dtype.kind != "f":
        return array
    return np.asarray(rng.uniform(0.3, 1.7, array.shape) * rng.choice([-1, 1, 1], array.shape))


def _smooth(graph: Function, wrt: tuple[str, ...]) -> set[str]:
    """Return the float values that depend on ``wrt`` through more than steps."""
    found = set(wrt)
    for operation in graph.operations:
        steps = isinstance(operation, Elementwise) and operation.op in _STEPS
        if operation.dtype.is_float and not steps and not found.isdisjoint(operands(operation)):
            found.add(operation.name)
    return found


def _values(graph: Function, inputs: dict[str, np.ndarray[Any, Any]]) -> dict[str, np.ndarray[Any, Any]]:
    """Return all that is computed."""
    everything = attrs.evolve(graph, outputs=tuple(operation.name for operation in graph.operations))
    return interpret(everything, inputs)


def _moderate(values: dict[str, np.ndarray[Any, Any]]) -> bool:
    return all(bool(np.all(np.abs(value) <= _LARGEST)) for value in values.values())


def _isolated(graph: Function, known: dict[str, np.ndarray[Any, Any]], moving: set[str]) -> bool:
    """Return whether an exponent moves whose base is negative: the power is a number at integers only."""
    powers = (o.inputs for o in graph.operations if isinstance(o, Elementwise) and o.op is Op.POW)
    return any(exponent in moving and bool(np.any(known[base] < 0)) for base, exponent in powers)
