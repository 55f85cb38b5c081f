"""A text to what the editor wants to know of it: faults, inputs, results, and where the statements are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tileir.core.errors import TileError
from tileir.studio.views import Checked, InputView, faults_of
from tileir.tile.integers import integers
from tileir.tile.ir import Contraction
from tileir.tile.parser import parse
from tileir.tile.sizing import sizing_inputs

if TYPE_CHECKING:
    from tileir.core.span import Span
    from tileir.tile.ir import Function, Input

MOST_CHARACTERS: Final = 1 << 20
"""Of a text that is looked at."""

_SIZE: Final = {1: 4096, 2: 256, 3: 64, 4: 16}
"""A size for each axis by the number of axes, so that arrays are neither trifles nor slow to make."""

_FEW: Final = 8
"""The size of each axis where there are more of them."""


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
    """Return the inputs, each with the type that somebody may begin with.

    Axes of one name get one size, that of the input with the most axes which has it.
    """
    ranks = _ranks(function)
    sizes: dict[str, int] = {}
    for tensor in sorted(function.inputs, key=lambda tensor: -len(tensor.dims or ())):
        for dim in tensor.dims or ():
            sizes.setdefault(dim.name, _SIZE.get(len(tensor.dims or ()), _FEW))
    whole, sizing = integers(function), sizing_inputs(function)
    return tuple(
        InputView(
            tensor.name,
            None if tensor.dims is None else tuple(dim.name for dim in tensor.dims),
            "1" if tensor.name in sizing else _guess(tensor, ranks.get(tensor.name, 0), sizes, tensor.name in whole),
        )
        for tensor in function.inputs
    )


def _guess(tensor: Input, rank: int, sizes: dict[str, int], whole: bool) -> str:
    shape = [_SIZE.get(rank, _FEW)] * rank if tensor.dims is None else [sizes[dim.name] for dim in tensor.dims]
    return f"{'i32' if whole else 'f32'}[{', '.join(map(str, shape))}]"


def _ranks(function: Function) -> dict[str, int]:
    """Return the number of axes of inputs without declared ones that contractions index."""
    found: dict[str, int] = {}
    for statement in function.statements:
        if isinstance(statement, Contraction):
            for access in statement.inputs:
                found.setdefault(access.tensor, len(access.indices))
    return found
