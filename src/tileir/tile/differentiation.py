"""Functions that compute derivatives of a Tile function: its statements, and calls that differentiate."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from tileir.core import NameScope, attrs
from tileir.tile.ir import Assignment, Attribute, Call, Expr, Function, Input, IntLiteral, Name, Output, Statement
from tileir.tile.traversal import dimensions


@attrs.frozen
class DerivativeFunction:
    """A function that computes derivatives of another one.

    Attributes:
        function: All inputs of the other one, then ``seeds``; its outputs are the derivatives.
        seeds: The inputs for cotangents or tangents, in the order of their values.
    """

    function: Function
    seeds: tuple[str, ...] = ()


def gradient(function: Function, wrt: Sequence[str], of: Sequence[str], *, even_ties: bool) -> DerivativeFunction:
    """Return the function of ``DX`` for each X of ``wrt``: the gradient of the sum of all outputs in ``of``."""
    names = _names(function)
    results = tuple(names.fresh(f"D{name}") for name in wrt)
    call = Call("gradient", (_results(function, of), *_sources(function, wrt)))
    return DerivativeFunction(
        _extended(function, names, call, _like_inputs(function, wrt, results), (), even_ties=even_ties)
    )


def vjp(function: Function, wrt: Sequence[str], of: Sequence[str], *, even_ties: bool) -> DerivativeFunction:
    """Return the function of ``DX`` for each X of ``wrt``; its seeds are cotangents of the outputs in ``of``."""
    names = _names(function)
    results = tuple(names.fresh(f"D{name}") for name in wrt)
    seeds = tuple(names.fresh(f"D{name}") for name in of)
    call = Call("vjp", (_results(function, of), _tuple(map(Name, seeds)), *_sources(function, wrt)))
    dtypes = {output.name: output.dtype for output in function.outputs}
    inputs = [Input(seed, dtype=dtypes[name]) for seed, name in zip(seeds, of, strict=True)]
    made = _extended(function, names, call, _like_inputs(function, wrt, results), inputs, even_ties=even_ties)
    return DerivativeFunction(made, seeds)


def jvp(function: Function, wrt: Sequence[str], of: Sequence[str], *, even_ties: bool) -> DerivativeFunction:
    """Return the function of ``DY`` for each output Y in ``of``; its seeds are tangents of the inputs in ``wrt``."""
    names = _names(function)
    results = tuple(names.fresh(f"D{name}") for name in of)
    seeds = tuple(names.fresh(f"D{name}") for name in wrt)
    call = Call("jvp", (_results(function, of), _tuple(_sources(function, wrt)), _tuple(map(Name, seeds))))
    declared = {output.name: output for output in function.outputs}
    outputs = [Output(new, declared[name].dims, declared[name].dtype) for new, name in zip(results, of, strict=True)]
    dtypes = {each.name: each.dtype for each in function.inputs}
    inputs = [Input(seed, dtype=dtypes[name]) for seed, name in zip(seeds, wrt, strict=True)]
    made = _extended(function, names, call, outputs, inputs, even_ties=even_ties)
    return DerivativeFunction(made, seeds)


def _like_inputs(function: Function, wrt: Sequence[str], results: Sequence[str]) -> list[Output]:
    """Return gradients with the declarations of the inputs that they belong to."""
    declared = {each.name: each for each in function.inputs if each.dtype is not None}
    found = [declared.get(name) for name in wrt]
    return [
        Output(result) if each is None else Output(result, each.dims, each.dtype)
        for result, each in zip(results, found, strict=True)
    ]


def _names(function: Function) -> NameScope:
    return NameScope.of(
        name
        for part in (
            (parameter.name for parameter in function.inputs),
            (dim.name for dim in dimensions(function)),
            (statement.name for statement in function.statements),
        )
        for name in part
    )


def _sources(function: Function, wrt: Sequence[str]) -> tuple[Name, ...]:
    """Return inputs by name; their faults are shown at their declarations."""
    spans = {tensor.name: tensor.span for tensor in function.inputs}
    return tuple(Name(name, span=spans[name]) for name in wrt)


def _results(function: Function, of: Sequence[str]) -> Expr:
    """Return outputs by name, where faults are shown, too."""
    spans = {output.name: output.span for output in function.outputs}
    return _tuple(Name(name, span=spans[name]) for name in of)


def _tuple(names: Iterable[Name]) -> Expr:
    """Return the expression of one tensor, or of a tuple of several."""
    first, *others = names
    return Call("tuple", (first, *others)) if others else first


def _extended(
    function: Function,
    names: NameScope,
    call: Call,
    outputs: Sequence[Output],
    seeds: Sequence[Input],
    *,
    even_ties: bool,
) -> Function:
    """Append ``call``, which returns the ``outputs``, and declare the ``seeds`` as inputs."""
    attributes = (Attribute("ties", ("even",)),) if even_ties else ()
    return Function(
        (*function.inputs, *seeds),
        tuple(outputs),
        (*function.statements, *_statements(names, call, [output.name for output in outputs], attributes)),
        span=function.span,
    )


def _statements(
    names: NameScope, call: Call, results: Sequence[str], attributes: tuple[Attribute, ...]
) -> Iterator[Statement]:
    if len(results) == 1:
        yield Assignment(results[0], call, attributes)
        return
    group = names.fresh("Derivatives")
    yield Assignment(group, call, attributes)
    for position, name in enumerate(results):
        yield Assignment(name, Call("element", (Name(group), IntLiteral(position))))
