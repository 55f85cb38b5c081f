"""A text to the facts that the editor shows: faults, inputs, results, and the places of statements."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tileir.core import Span, TileError
from tileir.driver.calls.arguments import tensor_types
from tileir.tile.checks.integers import integers, sizing_inputs
from tileir.tile.ir import Contraction, Function, IntLiteral, Name, Size
from tileir.tile.text.parser import parse
from tileir.typed.inference.inference import infer
from tileir_studio.views.views import Checked, InputView, faults_of

MOST_CHARACTERS: Final = 1 << 20
"""The most characters of a text that is checked."""

_SIZE: Final = {1: 4096, 2: 256, 3: 64, 4: 16}
"""A size for each axis by the number of axes, so that arrays are neither trifles nor slow to make."""

_SHORT: Final = 3
"""The size of an axis of a kernel of a convolution."""

_FEW: Final = 8
"""The size of each axis of an input with more axes."""


def checked(text: str) -> Checked:
    """Return the faults of a text; where there are none, its inputs, results and statements."""
    try:
        function = parse(text, "program")
    except TileError as error:
        return Checked(faults_of(error.diagnostics))
    return Checked(
        (),
        inputs_of(function),
        tuple(output.name for output in function.outputs),
        statement_places(function),
    )


def statement_places(function: Function) -> tuple[tuple[int, int], ...]:
    """Return the characters of each statement, in order."""
    return tuple(_place(statement.span) for statement in function.statements)


def _place(span: Span | None) -> tuple[int, int]:
    return (0, 0) if span is None else (span.start, span.stop)


def inputs_of(function: Function) -> tuple[InputView, ...]:
    """Return the inputs, each with a suggested type: the first of several guesses whose types fit one another."""
    names = [tensor.name for tensor in function.inputs]
    attempts = [_guesses(function, small=small, rank=rank) for rank in (0, 2) for small in (False, True)]
    if not any(tensor.dims for tensor in function.inputs):
        attempts = [*attempts[2:], *attempts[:2]]  # elementwise functions: pictures show more than numbers
    chosen = next((attempt for attempt in attempts if _fits(function, attempt)), attempts[0])
    dims = (None if tensor.dims is None else tuple(map(_spelt, tensor.dims)) for tensor in function.inputs)
    return tuple(InputView(name, axes, chosen[name]) for name, axes in zip(names, dims, strict=True))


def _spelt(dim: Size) -> str:
    return dim.name if isinstance(dim, Name) else str(dim.value)


def _guesses(function: Function, *, small: bool, rank: int) -> dict[str, str]:
    """Return a type for each input.

    Axes with one name get one size, by the input with the most axes among those that have it.

    Args:
        function: The function of the inputs.
        small: Whether axes that the first input lacks are short, like those of the kernel of a convolution.
        rank: The number of axes of inputs whose rank is unknown.
    """
    ranks, whole, sizing = _ranks(function), integers(function), sizing_inputs(function)
    first = {dim for tensor in function.inputs[:1] for dim in tensor.dims or ()}
    sizes: dict[Size, int] = {}
    for tensor in sorted(function.inputs, key=lambda tensor: -len(tensor.dims or ())):
        for dim in tensor.dims or ():
            long = _SIZE.get(len(tensor.dims or ()), _FEW)
            guessed = _SHORT if small and dim not in first else long
            sizes.setdefault(dim, dim.value if isinstance(dim, IntLiteral) else guessed)
    found = {}
    for tensor in function.inputs:
        if tensor.dims is None:
            axes = ranks.get(tensor.name, rank)
            shape = [_SIZE.get(axes, _FEW)] * axes
        else:
            shape = [sizes[dim] for dim in tensor.dims]
        kind = tensor.dtype.value if tensor.dtype is not None else "i32" if tensor.name in whole else "f32"
        found[tensor.name] = "1" if tensor.name in sizing else f"{kind}[{', '.join(map(str, shape))}]"
    return found


def _fits(function: Function, guesses: Mapping[str, str]) -> bool:
    values = {name: int(guess) if guess.isdecimal() else guess for name, guess in guesses.items()}
    try:
        infer(function, tensor_types(function, values))
    except TileError:
        return False
    return True


def _ranks(function: Function) -> dict[str, int]:
    """Return the ranks of inputs by their accesses in contractions; for inputs without declared axes."""
    found: dict[str, int] = {}
    for statement in function.statements:
        if isinstance(statement, Contraction):
            for access in statement.inputs:
                found.setdefault(access.tensor, len(access.indices))
    return found
