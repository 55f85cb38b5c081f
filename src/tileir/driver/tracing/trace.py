"""Traces of Python functions as Tile functions: called once with tensors, whose operations are recorded."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from tileir.core import ArgumentError, DType, attrs, called_by_none
from tileir.driver.tracing.trees import Path, Structure, flattened, paths, rebuilt
from tileir.numpy.dispatch import is_number
from tileir.tile.builder import FunctionBuilder
from tileir.tile.building.recording import INSIDE, Trace, mistake, tracing
from tileir.tile.building.tensors import Tensor, computed, value_of
from tileir.tile.ir import Function
from tileir.tile.text.grammar import is_tensor_name

_LETTERS: Final = ("N", "M", "K", "L", "P", "Q", "S", "U")
_RESULTS: Final = ("Y", "Z", "R")

Size: TypeAlias = int | str | None
"""Size: a number, a name, or None if unnamed."""


@attrs.frozen(cache_hash=True)
class Parameter:
    """Known properties of an argument of a traced function.

    Attributes:
        dtype: Its dtype, the kind of a Python number, which adapts, or None.
        sizes: Size of each axis.
    """

    dtype: DType | str | None
    sizes: tuple[Size, ...] = ()


@attrs.frozen
class Traced:
    """Tile function with the structure of its results.

    Attributes:
        function: The program.
        results: The structure of the Python function's result.
        assumed: Sizes that the trace depends on, each as the number of an input, its axis, and the size.
    """

    function: Function
    results: Structure
    assumed: tuple[tuple[int, int, int], ...] = ()

    def holds(self, leaves: Sequence[Any]) -> bool:
        """Return whether the trace is valid for these arrays."""
        return all(leaves[place].shape[axis] == size for place, axis, size in self.assumed)


def traced(
    python: Callable[..., Any],
    arguments: Mapping[str, Structure],
    parameters: Sequence[Parameter],
    call: Callable[[Callable[..., Any], list[Any]], Any],
    shapes: Sequence[tuple[int, ...]] | None = None,
) -> Traced:
    """Record the computation of a Python function.

    Args:
        python: The function.
        arguments: The structure of each argument that holds tensors, by name.
        parameters: Known properties of each leaf of them.
        call: Calls the function with the leaves.
        shapes: Shapes of the arrays that it is traced for, if any, for sizes that Python reads.

    Raises:
        TileError: Faults of its lines; TIL215, a result is not a tensor.
    """
    builder = FunctionBuilder()
    recorder = builder._recorder
    names = _names(arguments)
    scope = _dimension_names(names)
    sizes: dict[str, int] = {}
    places: dict[str, tuple[int, int]] = {}
    tensors: list[Tensor] = []
    for number, (name, parameter) in enumerate(zip(names, parameters, strict=True)):
        dims = [next(scope) if size is None else size for size in parameter.sizes]
        tensors.append(_declared(builder, name, dims, parameter.dtype))
        for axis, dim in enumerate(dims):
            if isinstance(dim, str):
                places.setdefault(dim, (number, axis))
                if shapes is not None:
                    sizes[dim] = shapes[number][axis]
    trace = recorder.trace = Trace(getattr(python, "__name__", type(python).__name__), sizes)
    inside, INSIDE.operation = INSIDE.operation, False
    try:
        with tracing(recorder), called_by_none():
            result = call(python, list(tensors))
    except RecursionError:
        message = (
            f"{trace.name}() was traced until Python's stack was full: a function that calls itself has to stop by a"
            " value of Python; for loops that tensors end there is tileir.while_loop, for others tileir.scan"
        )
        raise mistake("TIL229", message) from None
    finally:
        INSIDE.operation = inside
    leaves: list[Any] = []
    structure = flattened(result, leaves)
    function = builder.build(*_outputs(builder, structure, leaves, python))
    assumed = tuple((*places[name], size) for name, size in trace.assumed.items())
    return Traced(function, structure, assumed)


def _declared(builder: FunctionBuilder, name: str, dims: Sequence[str | int], dtype: DType | str | None) -> Tensor:
    declared = dtype if isinstance(dtype, DType) else None
    tensor = builder.input(name, *dims, dtype=declared) if dims else builder.scalar(name, declared)
    builder._recorder.dtypes[name] = dtype  # type: ignore[assignment]  # a kind of number, too
    return tensor


def _names(arguments: Mapping[str, Structure]) -> list[str]:
    """Return names of inputs: parameter names, extended by the keys that lead to a leaf."""
    names: list[str] = []
    for argument, structure in arguments.items():
        for path in paths(structure):
            spelt = "_".join(re.sub(r"\W", "_", str(part)) for part in (argument, *path))
            name = spelt.lstrip("_")[:1].upper() + spelt.lstrip("_")[1:]
            name = name if is_tensor_name(name) else f"X{len(names)}"
            names.append(name if name not in names else f"{name}_{len(names)}")
    return names


def _dimension_names(taken: Sequence[str]) -> Iterator[str]:
    """Yield names for dimensions that no input has."""
    used = {*taken, *_RESULTS}
    yield from (letter for letter in _LETTERS if letter not in used)
    number = 0
    while True:
        if f"D{number}" not in used:
            yield f"D{number}"
        number += 1


def _outputs(
    builder: FunctionBuilder, structure: Structure, leaves: Sequence[Any], python: Callable[..., Any]
) -> list[Tensor]:
    recorder = builder._recorder
    outputs: list[Tensor] = []
    inputs = {parameter.name for parameter in recorder.inputs}
    stem = next((name for name in _RESULTS if name not in inputs), _RESULTS[0])
    for leaf, path in zip(leaves, paths(structure), strict=True):
        value = leaf
        if not isinstance(value, Tensor):
            if not (isinstance(value, np.ndarray | np.generic) or is_number(value)):
                raise mistake("TIL215", f"{named_call(python)} returns {_described(value, path)}; it returns tensors")
            value = computed(recorder, value_of(recorder, value))
        step = recorder.steps.get(value.reference)
        if step is not None and step.name is None:
            step.name = _fresh(recorder.names, _result_name(path, len(leaves), stem))
        outputs.append(value)
    if not outputs:
        raise mistake("TIL205", f"{named_call(python)} returns no tensor")
    return outputs


def _result_name(path: Path, count: int, stem: str) -> str:
    words = [re.sub(r"\W", "_", str(part)) for part in path]
    if words and not words[-1].isdigit():
        name = words[-1].lstrip("_")
        name = name[:1].upper() + name[1:]
        if is_tensor_name(name):
            return name
    return stem if count == 1 else "_".join((stem, *words))


def _fresh(names: Any, name: str) -> str:
    if name in names:
        fresh: str = names.fresh(name)
        return fresh
    names.add(name)
    return name


def named_call(python: Callable[..., Any]) -> str:
    """Return the name of a function in messages."""
    return f"{getattr(python, '__name__', 'the function')}()"


def _described(value: object, path: Path) -> str:
    where = "".join(f"[{part!r}]" for part in path)
    return f"a {type(value).__name__}{f' at {where}' if where else ''}: {value!r:.60}"


def bound(python: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments by parameter names; those of ``*args`` and ``**kwargs`` under that parameter's name.

    Raises:
        ArgumentError: TIL705, the function has other parameters.
    """
    try:
        return dict(signature_of(python).bind(*args, **kwargs).arguments)
    except TypeError as error:
        raise ArgumentError.of("TIL705", f"{named_call(python)}: {error}") from None


_UNKNOWN: Final = inspect.signature(lambda X, *more, **options: (X, more, options))  # noqa: N803  # names of inputs


def signature_of(python: Callable[..., Any]) -> inspect.Signature:
    """Return the parameters of a callable; those of any function of a tensor for builtins that state none."""
    try:
        return inspect.signature(python)
    except ValueError:  # such as int
        return _UNKNOWN


def calling(
    structures: Mapping[str, Structure], statics: Mapping[str, Any]
) -> Callable[[Callable[..., Any], list[Any]], Any]:
    """Return a caller of a function with arguments in these structures, rebuilt from leaves, and static values."""

    def call(python: Callable[..., Any], leaves: list[Any]) -> Any:
        rest = iter(leaves)
        values = {name: rebuilt(structure, rest) for name, structure in structures.items()} | dict(statics)
        args, kwargs = [], {}
        keywords = False
        for name, parameter in signature_of(python).parameters.items():
            if name not in values:
                keywords = True
            elif parameter.kind is parameter.VAR_POSITIONAL:
                args.extend(values[name])
            elif parameter.kind is parameter.VAR_KEYWORD:
                kwargs.update(values[name])
            elif parameter.kind is parameter.KEYWORD_ONLY or (
                keywords and parameter.kind is not parameter.POSITIONAL_ONLY
            ):
                kwargs[name] = values[name]
            else:
                args.append(values[name])
        return python(*args, **kwargs)

    return call
