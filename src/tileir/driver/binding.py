"""Binding of inputs: :func:`bind` makes arrays and numbers constants of a program."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import takewhile

import numpy as np

from tileir.core import ArgumentError, ArrayValue, Diagnostic, TileError, attrs, nearest, with_short_traceback
from tileir.driver.calls.arguments import integer_of, is_number
from tileir.driver.programs import Source, function_of
from tileir.runtime.arrays import to_array
from tileir.tile import ir as tile
from tileir.tile.checks.integers import sizing_inputs
from tileir.tile.checks.verifier import verify
from tileir.typed.inference.declared import check_dtype
from tileir.typed.inference.emission import adapt
from tileir.typed.inference.numbers import number_type
from tileir.typed.inference.values import ConstantScalar
from tileir.typed.ir import TensorType


@with_short_traceback
def bind(source: Source, values: Mapping[str, object] | None = None, /, **named: object) -> tile.Function:
    """Return ``source`` with some of its inputs fixed: they become constants of the program.

    It computes the results of ``source`` for these values: an array keeps its dtype, a Python number adapts like one
    that is passed, and sizes computed from integers are known when compiling. Elements are copied, so later changes of
    an array have no effect.

    Args:
        source: A Tile function, its text, its JSON or its file; or a typed function.
        values: Arrays or numbers by the names of inputs.
        named: Further values, as keywords.

    Returns:
        A function like any other: it prints, reads back, compiles, is cached by content, and has derivatives with
            respect to the remaining inputs. The order of binding makes no difference. Printed text has the digests of
            arrays of more than 256 elements.

    Raises:
        TileError: The text is wrong. TIL304 or TIL305, an array does not have the rank or sizes that its input
            requires, or another value contradicts these.
        ArgumentError: TIL711, there is no such input, or it is given twice or bound already; TIL702, a value is not an
            array; TIL707, ``values`` is not a mapping.
    """
    function = function_of(source)
    given = _given(values, named)
    inputs = {parameter.name: parameter for parameter in function.inputs}
    faults = list(_unknown(function, given.keys() - inputs.keys()))
    sizing = sizing_inputs(function)
    constants: list[tile.Constant] = []
    for name, parameter in inputs.items():
        if name in given:
            try:
                constants.append(_constant(parameter, given[name], sizing=name in sizing))
            except TileError as error:
                faults.extend(error.diagnostics)
    if faults:
        raise ArgumentError(faults)
    if not constants:
        return function
    left = tuple(parameter for parameter in function.inputs if parameter.name not in given)
    first = tuple(takewhile(lambda statement: isinstance(statement, tile.Constant), function.statements))
    ordered = sorted((*first, *constants), key=lambda constant: constant.name)  # in any order of binding
    bound = attrs.evolve(function, inputs=left, statements=(*ordered, *function.statements[len(first) :]))
    verify(bound)
    return bound


def _given(values: object, named: Mapping[str, object]) -> dict[str, object]:
    """Return all values by name.

    Raises:
        ArgumentError: TIL707 and TIL711.

    """
    if values is not None and not isinstance(values, Mapping):
        message = (
            f"pass what is bound by name, as in bind(function, K=array), not a value of type {type(values).__name__}"
        )
        raise ArgumentError.of("TIL707", message)
    first = {} if values is None else dict(values)
    twice = [name for name in first if name in named]
    if twice:
        message = "input {!r} is given twice: in the mapping and as a keyword"
        raise ArgumentError(Diagnostic("TIL711", message.format(name)) for name in twice)
    return {**first, **named}


def _unknown(function: tile.Function, names: Iterable[str]) -> Iterator[Diagnostic]:
    """Yield a diagnostic for each name that cannot be bound."""
    inputs = [parameter.name for parameter in function.inputs]
    bound = {s.name: s for s in function.statements if isinstance(s, tile.Constant)}
    outputs = {output.name for output in function.outputs}
    for name in sorted(map(str, names)):
        if name in bound:
            yield Diagnostic("TIL711", f"{name!r} is a constant already; bind it in the function that has it as input")
        elif name in outputs:
            yield Diagnostic("TIL711", f"{name!r} is an output, and only inputs are bound{nearest(name, inputs)}")
        else:
            yield Diagnostic("TIL711", f"there is no input {name!r}{nearest(name, inputs)}")


def _constant(parameter: tile.Input, value: object, *, sizing: bool) -> tile.Constant:
    """Return the statement that replaces an input.

    Raises:
        ArgumentError: TIL702, the value is neither an array nor a number; TIL711, sizes are computed from it, and it is
            not an integer.
    """
    name = parameter.name
    known = integer_of(value) if sizing else value
    if sizing and known is None:
        message = f"sizes are computed from {name!r}, so it is an integer without axes"
        raise ArgumentError.of("TIL711", message, parameter.span)
    dtype = parameter.dtype
    held: ArrayValue | bool | int | float
    if not is_number(known):
        held = array = ArrayValue.of(to_array(name, known))
        check_dtype(parameter, TensorType(array.dtype, array.shape))
    elif (kind := number_type(known)) is None:
        raise ArgumentError.of("TIL702", f"{name!r} is {known}, which no integer type holds")
    else:
        check_dtype(parameter, kind)
        held = known
        if dtype is not None and not sizing:
            held = ArrayValue.of(np.array(adapt(ConstantScalar(known), dtype, parameter.span).value, dtype.numpy))
    return tile.Constant(name, held, parameter.dims, span=parameter.span, name_span=parameter.span)
