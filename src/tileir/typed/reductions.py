"""Tuple reductions of typed functions: dtypes of positions, and the operations that share one state."""

from __future__ import annotations

from math import prod

from tileir.core import DType, Op, attrs, grouped
from tileir.core.combines import Rule
from tileir.typed.dataflow import with_operands
from tileir.typed.ir import Elementwise, Function, Reduce, Shape


def positions_in(sizes: Shape) -> DType:
    """Return the dtype for positions of elements of a tensor: i32, or i64 if that is too narrow."""
    return DType.I32 if prod(sizes) <= DType.I32.maximum else DType.I64


def rule_of(reduce: Reduce, dtype: DType, shape: Shape) -> Rule:
    """Return the rule by which a reduction of a tensor updates its state."""
    return reduce.combine.rule(dtype, positions_in(tuple(shape[axis] for axis in reduce.axes)))


def reduction_of(reduce: Reduce) -> Reduce:
    """Return the key of a state: it is equal for two operations exactly if they are components of one state."""
    return attrs.evolve(reduce, name="", result=0, dtype=DType.BOOL)


def reductions_of(function: Function) -> dict[Reduce, list[Reduce]]:
    """Return the tuple reductions of a function, in program order, each with its components."""
    return grouped((reduction_of(each), each) for each in function.operations if isinstance(each, Reduce))


def with_components_named(function: Function) -> Function:
    """Return ``function`` with components in place of outputs that copy them; itself if there are none.

    A returned part of a tuple gets its name by an operation of its own, which would be a copy in memory.
    """
    outputs = frozenset(function.outputs)
    components = {each.name for each in function.operations if isinstance(each, Reduce)} - outputs
    named: dict[str, str] = {}
    for each in function.operations:
        if isinstance(each, Elementwise) and each.op is Op.IDENT and each.name in outputs:
            (source,) = each.inputs
            if source in components:
                named.setdefault(source, each.name)
    if not named:
        return function
    copies = set(named.values())
    operations = tuple(
        attrs.evolve(each, name=named[each.name]) if each.name in named else with_operands(each, named)
        for each in function.operations
        if each.name not in copies
    )
    labels = tuple((named.get(name, name), label) for name, label in function.labels)
    return attrs.evolve(function, operations=operations, labels=labels)
