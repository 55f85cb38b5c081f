"""Messages of ranks whose parts are in the memory of devices, carried out by the interpreter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from hypothesis import given, strategies as st

from strategies.derivatives import types_of
from strategies.effort import examples
from strategies.sharded import partitioned
from strategies.tile import cases
from tileir.core import Aggregation, attrs
from tileir.core.numbers.arithmetic import merge
from tileir.typed.inference.inference import infer
from tileir.typed.interpreter import interpret
from tileir.typed.ir import Collective, Function
from tileir.typed.sharding.interpreter import interpret_parts, scattered
from tileir.typed.sharding.messages import Exchange, exchange_of, shares_of
from tileir.typed.sharding.verifier import verify
from tileir.typed.verifier import verify as verify_function

if TYPE_CHECKING:
    from tileir.typed.sharding.mesh import Mesh

Values = dict[str, Any]


def run(function: Function | None, values: Values) -> Values:
    if function is None:
        return values
    verify_function(function)
    return {**values, **interpret(function, {value.name: values[value.name] for value in function.inputs})}


def unpacked(each: Exchange, values: Values) -> Any:
    if each.unpacking is not None:
        return run(each.unpacking, values)[each.result.name]
    if each.received and values[each.received[0][1].name].size:
        ((_, only),) = each.received
        return values[only.name]
    assert 0 in each.result.shape
    return np.empty(each.result.shape, each.result.dtype.numpy)


def exchanged(collective: Collective, mesh: Mesh, operands: tuple[Any, ...]) -> list[Any]:
    """Return what all ranks have behind a collective, by messages."""
    all_of_them = [exchange_of(collective, mesh, rank) for rank in range(mesh.size)]
    packed = [run(each.packing, {collective.input: part}) for each, part in zip(all_of_them, operands, strict=True)]
    found = []
    for rank, each in enumerate(all_of_them):
        values = {collective.input: operands[rank]}
        for other in range(mesh.size):
            mine = [packed[other][name] for to, name in all_of_them[other].sent if to == rank]
            named = [value for owner, value in each.received if owner == other]
            for value, array in zip(named, [array for array in mine if array.size], strict=True):
                assert array.shape == value.shape
                values[value.name] = array
        found.append(unpacked(each, values))
    return found


def merged(collective: Collective, mesh: Mesh, operands: tuple[Any, ...]) -> list[Any]:
    """Return what all ranks have behind a collective whose engine merges by itself."""
    shares = [shares_of(collective, mesh, rank) for rank in range(mesh.size)]
    packed = [run(each.packing, {collective.input: part}) for each, part in zip(shares, operands, strict=True)]
    assert collective.aggregation is not None
    found = []
    for rank, each in enumerate(shares):
        group = mesh.group(rank, collective.axes)
        parts = [packed[other][dict(shares[other].sent)[rank]] for other in group]
        result = parts[0]
        for part in parts[1:]:
            result = merge(collective.aggregation, result, part)
        ((_, value),) = each.received
        assert (result.shape, result.dtype) == (value.shape, value.dtype.numpy)
        found.append(unpacked(each, {value.name: result}))
    return found


@examples(25)
@given(cases(largest_size=5, empty=True), st.data())
def test_messages_put_together_what_the_interpreter_says(case: Any, data: st.DataObject) -> None:
    program = data.draw(partitioned(infer(case.function, types_of(case.inputs))))
    verify(program)
    mesh = program.mesh
    parts = {n: scattered(a, program.layout(n), mesh) for n, a in case.inputs.items()}
    collectives = [each for each in program.collectives if each.combine is None]
    names = [each.name for each in collectives] + [each.input for each in collectives if each.input not in parts]
    shown = attrs.evolve(program.function, outputs=tuple(dict.fromkeys(names)))
    if not names:
        return
    values = {**parts, **interpret_parts(attrs.evolve(program, function=shown), parts)}
    for each in collectives:
        ways = [exchanged(each, mesh, values[each.input])]
        if each.aggregation not in {None, Aggregation.ASSIGN}:
            ways.append(merged(each, mesh, values[each.input]))
        for found in ways:
            for rank, array in enumerate(found):
                right = values[each.name][rank]
                assert array.dtype == right.dtype
                np.testing.assert_array_equal(array, right)
