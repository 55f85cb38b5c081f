"""Derivatives of functions: as functions, and of arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, overload

import numpy as np

from tileir.core import ArgumentError, Diagnostic, DType, attrs, nearest, with_short_traceback
from tileir.driver.calls.arguments import bind, is_number, split, tensor_type, tensor_types
from tileir.driver.jit import jit
from tileir.driver.programs import function_of, is_python
from tileir.runtime import DeviceInfo, to_array
from tileir.tile import differentiation as derived, ir as tile
from tileir.tile.checks.integers import integers
from tileir.typed import ir as typed
from tileir.typed.inference.inference import infer
from tileir.typed.inference.numbers import as_tensors
from tileir.typed.sharding.partitioned import Partitioned

if TYPE_CHECKING:
    from pathlib import Path

    from tileir.driver.tracing.functions import PythonFunction

Names: TypeAlias = "str | Sequence[str]"
"""One name, or several."""

Ties: TypeAlias = Literal["all", "even"]
"""Treatment of tied elements by maxima and minima: each gets the whole gradient, or an equal share."""


@overload
def gradient(
    function: typed.Function, wrt: Names | None = None, of: Names | None = None, *, ties: Ties = "all"
) -> typed.Function: ...
@overload
def gradient(
    function: Partitioned, wrt: Names | None = None, of: Names | None = None, *, ties: Ties = "all"
) -> Partitioned: ...
@overload
def gradient(
    function: Callable[..., Any], wrt: int | Sequence[int] | None = None, *, argnums: int | Sequence[int] = 0
) -> PythonFunction[..., Any]: ...
@overload
def gradient(
    function: tile.Function | str | Path,
    wrt: Names | None = None,
    of: Names | None = None,
    *,
    arguments: Any = None,
    ties: Ties = "all",
) -> tile.Function: ...
@with_short_traceback
def gradient(
    function: tile.Function | typed.Function | Partitioned | str | Path | Callable[..., Any],
    wrt: Any = None,
    of: Names | None = None,
    *,
    arguments: Any = None,
    ties: Ties = "all",
    argnums: int | Sequence[int] = 0,
) -> Any:
    """Return the function that computes gradients of the sum of all elements of some outputs.

    Its inputs are those of ``function``, its outputs ``DX`` for each X of ``wrt``, with the dtype and shape of X.

    Args:
        function: A function, its text or file, or one with dtypes and shapes; gradients of a partitioned one are
            partitioned, too.
        wrt: Inputs to differentiate by; by default all floats. If dtypes are unknown, these are all inputs except those
            that can only be integers, such as indices; another input that turns out not to be a float is an error when
            the result is compiled.
        of: Outputs to differentiate; by default all floats, chosen like ``wrt``.
        arguments: Dtypes and shapes of the inputs, as for :func:`tileir.compile`. Without them the result holds for all
            shapes, and calls Tile's ``gradient``; with them it is expanded for these shapes.
        ties: Whether each of several tied elements of a maximum or minimum gets ``"all"`` of the gradient, or an
            ``"even"`` share of it.
        argnums: For a Python function that returns a tensor of rank 0: the arguments to differentiate by, which may
            also be passed as ``wrt``.

    Returns:
        A function of the kind that was given; for a text, the function.

    Raises:
        TileError: The function is wrong, or does not fit the arguments; TIL321, an input or output to differentiate is
            not a float.
        ArgumentError: TIL710, the function has no such name; TIL707.
    """
    from tileir.typed.derivatives.reverse import gradient as typed_gradient  # few programs need it
    from tileir.typed.raising.raising import raise_to_tile

    even = is_even(ties)
    if is_python(function):
        from tileir.driver.tracing.transforms import gradient_of

        if of is not None or arguments is not None:
            raise ArgumentError.of("TIL705", "a gradient of a Python function takes argnums alone; it is by arguments")
        return gradient_of(function, argnums if wrt is None else wrt)
    if isinstance(function, typed.Function | Partitioned):
        return _of_typed(function, wrt, of, even_ties=even)
    source = function_of(function)
    inputs = tuple(parameter.name for parameter in source.inputs)
    outputs = tuple(output.name for output in source.outputs)
    if arguments is None:
        surely = integers(source)
        sources = _chosen("input", wrt, inputs, lambda: tuple(name for name in inputs if name not in surely))
        return derived.gradient(source, sources, _chosen("output", of, outputs), even_ties=even).function
    types = tensor_types(source, arguments)
    graph = _with_numbers(infer(source, as_tensors(source, types, _differentiated(source, types, wrt))), types)
    sources, results = chosen_for(graph, outputs, wrt, of)
    expanded = typed_gradient(graph, sources, [result.name for result in results.values()], even_ties=even)
    sizes = {name: kind.value for name, kind in types.items() if kind.value is not None}
    return raise_to_tile(expanded, inputs, sizes)


def _of_typed(
    function: typed.Function | Partitioned, wrt: Names | None, of: Names | None, *, even_ties: bool
) -> typed.Function | Partitioned:
    """Return the gradients of a typed function; those of a partitioned one have the layouts of its inputs."""
    from tileir.typed.derivatives.reverse import gradient as typed_gradient
    from tileir.typed.sharding.partition import partition

    whole = function if isinstance(function, typed.Function) else function.function
    sources, results = chosen_for(whole, whole.outputs, wrt, of)
    made = typed_gradient(whole, sources, [result.name for result in results.values()], even_ties=even_ties)
    if isinstance(function, typed.Function):
        return made
    layouts = {value.name: function.layout(value.name) for value in whole.inputs}
    return partition(
        made,
        function.mesh,
        layouts,
        {result: layouts[name] for result, name in zip(made.outputs, sources, strict=True)},
    )


@overload
def vjp(
    function: tile.Function | str | Path,
    inputs: Any,
    cotangents: Any,
    wrt: Names | None = None,
    device: str | DeviceInfo | None = None,
    *,
    ties: Ties = "all",
) -> dict[str, np.ndarray[Any, Any]]: ...
@overload
def vjp(function: Callable[..., Any], inputs: Any, cotangents: Any) -> Any: ...
@with_short_traceback
def vjp(
    function: tile.Function | str | Path | Callable[..., Any],
    inputs: Any,
    cotangents: Any,
    wrt: Names | None = None,
    device: str | DeviceInfo | None = None,
    *,
    ties: Ties = "all",
) -> Any:
    """Return the vector-Jacobian product: cotangents of outputs pulled back to inputs, without forming the Jacobian.

    Args:
        function: A function, its text, or its file.
        inputs: A mapping by name, a sequence in declared order, or one array for the first input.
        cotangents: For each output an array of its dtype with a shape that broadcasts to its shape, given like
            ``inputs``; outputs missing in a mapping are not differentiated.
        wrt: Inputs to differentiate by; by default all floats.
        device: A device or its id; by default that of the default context.
        ties: As for :func:`gradient`.

    Returns:
        An array with the dtype and shape of each input in ``wrt``, by name. For a Python function, which takes
            ``inputs`` in order and returns tensors in any containers, cotangents in the structure of the inputs.

    Raises:
        TileError: As for :func:`gradient`; TIL322, a cotangent does not fit its output.
        ArgumentError: The arrays do not fit; TIL710, the function has no such name; TIL707.
    """
    if is_python(function):
        from tileir.driver.tracing.transforms import vjp_of

        return vjp_of(function, inputs, cotangents)
    source = function_of(function)
    names = tuple(parameter.name for parameter in source.inputs)
    values = bind(names, *split(inputs))
    seeds = _seeds("output", tuple(output.name for output in source.outputs), cotangents)
    sources = _chosen("input", wrt, names, lambda: _floats(source, values))
    made = derived.vjp(source, sources, tuple(seeds), even_ties=is_even(ties))
    return _run(made, sources, (*values, *seeds.values()), device)


@overload
def jvp(
    function: tile.Function | str | Path,
    inputs: Any,
    tangents: Any,
    of: Names | None = None,
    device: str | DeviceInfo | None = None,
    *,
    ties: Ties = "all",
) -> dict[str, np.ndarray[Any, Any]]: ...
@overload
def jvp(function: Callable[..., Any], inputs: Any, tangents: Any) -> Any: ...
@with_short_traceback
def jvp(
    function: tile.Function | str | Path | Callable[..., Any],
    inputs: Any,
    tangents: Any,
    of: Names | None = None,
    device: str | DeviceInfo | None = None,
    *,
    ties: Ties = "all",
) -> Any:
    """Return the Jacobian-vector product: tangents of inputs pushed forward to outputs, without forming the Jacobian.

    Args:
        function: A function, its text, or its file.
        inputs: A mapping by name, a sequence in declared order, or one array for the first input.
        tangents: For each input an array of its dtype with a shape that broadcasts to its shape, given like ``inputs``;
            inputs missing in a mapping are constant.
        of: Outputs to differentiate; by default all, which have to be floats.
        device: A device or its id; by default that of the default context.
        ties: As for :func:`gradient`.

    Returns:
        An array with the dtype and shape of each output in ``of``, by name. For a Python function the result and its
            tangent.

    Raises:
        TileError: As for :func:`gradient`; TIL322, a tangent does not fit its input.
        ArgumentError: The arrays do not fit; TIL710, the function has no such name; TIL707.
    """
    if is_python(function):
        from tileir.driver.tracing.transforms import jvp_of

        return jvp_of(function, inputs, tangents)
    source = function_of(function)
    names = tuple(parameter.name for parameter in source.inputs)
    values = bind(names, *split(inputs))
    seeds = _seeds("input", names, tangents)
    results = _chosen("output", of, tuple(output.name for output in source.outputs))
    made = derived.jvp(source, tuple(seeds), results, even_ties=is_even(ties))
    return _run(made, results, (*values, *seeds.values()), device)


def _run(
    made: derived.DerivativeFunction, names: Sequence[str], values: Iterable[object], device: str | DeviceInfo | None
) -> dict[str, np.ndarray[Any, Any]]:
    results = jit(made.function, device)(*values)
    return dict(zip(names, results if len(names) > 1 else (results,), strict=True))


def _seeds(kind: str, names: tuple[str, ...], given: object) -> dict[str, object]:
    """Return cotangents or tangents by the names of their outputs or inputs, in declared order."""
    positional, named = split(given, "cotangents" if kind == "output" else "tangents")
    if len(positional) > len(names):
        message = f"{len(positional)} values were passed by position; the {kind}s are {', '.join(names) or 'none'}"
        raise ArgumentError.of("TIL705", message)
    seeds = {**dict(zip(names, positional, strict=False)), **named}
    chosen = _chosen(kind, tuple(seeds), names)
    return {name: seeds[name] for name in names if name in chosen}


def _with_numbers(function: typed.Function, types: Mapping[str, typed.TensorType]) -> typed.Function:
    """Return ``function`` with inputs that calls convert if numbers are passed for tensors."""
    inputs = (attrs.evolve(v, number=v.name) if v.name in types and types[v.name].weak else v for v in function.inputs)
    return attrs.evolve(function, inputs=tuple(inputs))


def _differentiated(
    function: tile.Function, types: Mapping[str, typed.TensorType], wrt: Names | None
) -> tuple[str, ...]:
    """Return the inputs of a typed function to differentiate by: those named, or all floats."""
    named = types.keys() if wrt is None else _named("input", wrt)
    dtypes = {each.name: each.dtype or types[each.name].dtype for each in function.inputs}
    return tuple(name for name in named if name in types and types[name].weak and dtypes[name].is_float)


def chosen_for(
    function: typed.Function, outputs: Sequence[str], wrt: Names | None, of: Names | None
) -> tuple[tuple[str, ...], dict[str, typed.Value | typed.Operation]]:
    """Return the inputs to differentiate by, and the outputs to differentiate with their definitions: all are floats.

    ``outputs`` are the names of the outputs; ``function`` may have another name for an output that is an input too.
    """
    inputs = {value.name: value for value in function.inputs}
    definitions: dict[str, typed.Value | typed.Operation] = {
        value.name: value for value in (*function.inputs, *function.operations)
    }
    results = {name: definitions[own] for name, own in zip(outputs, function.outputs, strict=True)}
    return _chosen_floats("input", wrt, inputs), {name: results[name] for name in _chosen_floats("output", of, results)}


def _chosen_floats(
    kind: str, names: Names | None, known: Mapping[str, typed.Value | typed.Operation]
) -> tuple[str, ...]:
    """Return the given names, or those of all floats.

    Raises:
        ArgumentError: As :func:`_chosen`; TIL321, a named value is not a float.
    """
    found = _chosen(kind, names, tuple(known), lambda: tuple(n for n, value in known.items() if value.dtype.is_float))
    wrong = [
        f"{kind} {name!r} is {known[name].dtype.value}, and only floats have derivatives; cast it first"
        for name in found
        if not known[name].dtype.is_float
    ]
    if wrong:
        raise ArgumentError(Diagnostic("TIL321", message) for message in wrong)
    return found


def _chosen(
    kind: str, given: Names | None, known: tuple[str, ...], default: Callable[[], tuple[str, ...]] | None = None
) -> tuple[str, ...]:
    """Return the given names, or all of ``default``.

    Raises:
        ArgumentError: TIL710, a name is not ``known`` or is given twice, or there is no name; TIL707, it is not a name.
    """
    names = (known if default is None else default()) if given is None else _named(kind, given)
    faults = [f"there is no {kind} {name!r}{nearest(name, known)}" for name in names if name not in known]
    faults += [f"{kind} {name!r} is named twice" for name in dict.fromkeys(names) if names.count(name) > 1]
    if not names and given is None and known:
        faults.append(f"no {kind} is a float, and only floats have derivatives; pass or return floats")
    elif not names:
        faults.append(f"there is no {kind} to differentiate")
    if faults:
        raise ArgumentError(Diagnostic("TIL710", fault) for fault in faults)
    return names


def _named(kind: str, given: object) -> tuple[str, ...]:
    """Return one name or several as a tuple.

    Raises:
        ArgumentError: TIL707, it is neither.
    """
    names = (given,) if isinstance(given, str) else tuple(given) if isinstance(given, Iterable) else (given,)
    wrong = [name for name in names if not isinstance(name, str)]
    if wrong:
        message = f"{kind}s are chosen by a name or a sequence of names, and {wrong[0]!r} is none"
        raise ArgumentError.of("TIL707", message)
    return names


def _floats(function: tile.Function, values: Sequence[object]) -> tuple[str, ...]:
    def dtype(name: str, value: object) -> DType:
        return tensor_type(name, value if is_number(value) else to_array(name, value)).dtype

    pairs = zip(function.inputs, values, strict=True)
    return tuple(each.name for each, value in pairs if (each.dtype or dtype(each.name, value)).is_float)


def is_even(ties: object) -> bool:
    """Return whether ``ties`` requests even shares.

    Raises:
        ArgumentError: TIL707, it is not one of :data:`Ties`.
    """
    if not isinstance(ties, str) or ties not in ("all", "even"):
        raise ArgumentError.of("TIL707", f"ties is 'all' or 'even', not {ties!r:.80}")
    return ties == "even"
