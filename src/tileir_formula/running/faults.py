"""Search for the step of a formula that does not fit the given pictures, and for the sizes of its operands."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from tileir.core import Diagnostic, DType, TileError, attrs
from tileir.driver.calls.arguments import tensor_types
from tileir.typed.inference.inference import infer
from tileir.typed.ir import Scan
from tileir_formula.definitions.function_file import read_functions
from tileir_formula.ir import Formula, Mask, Number, Repeat, Source, Step
from tileir_formula.lower.lowering import craft
from tileir_formula.text.printer import source_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from tileir_formula.definitions.functions import Function
    from tileir_formula.running.picture_parts import Array

    Ending = Callable[[Step | Repeat], tuple[Step | Repeat, ...]]
    """From a last step to the steps up to it."""

_SIZES: Final = frozenset({"TIL301", "TIL312"})
"""Codes of sizes that do not go together."""
_IDENTITY: Final = "tileir_identity"
_IDENTITY_FILE: Final = f"""\
/// {_IDENTITY}: the picture as it is
function (Image[H, W, C]) -> (Result) {{
    Result = ident(Image);
}}
"""


@attrs.frozen
class Trial:
    """A formula for some pictures, parts of which are tried.

    Attributes:
        formula: The formula.
        functions: The functions that its steps call.
        pictures: ``[rows, columns, channels]``, one for each input.
        pixels: The dtypes of the pictures.
    """

    formula: Formula
    functions: Mapping[str, Function]
    pictures: Sequence[Array]
    pixels: Sequence[DType]

    def located(self, error: TileError) -> TileError:
        """Return an error at the first step that fails for these pictures; ``error`` itself if none fails."""
        if self._fault(self.formula.steps) is None:
            return error
        for step, ending_in in _beginnings(self.formula.steps):
            fault = self._fault(ending_in(step))
            if fault is not None:
                return type(error)((self._told(fault, step, ending_in),))
        return error

    def _told(self, error: TileError, step: Step | Repeat, ending_in: Ending) -> Diagnostic:
        first = error.diagnostics[0]
        if isinstance(step, Repeat):
            message = "a round of the group does not make a picture of the size that it reads"
            return Diagnostic(first.code, message, step.span, (first.message,))
        sizes = [f"it reads {name}: {size}" for name, size in self._read(step, ending_in)]
        made = self._size(ending_in(attrs.evolve(step, condition=None, merge=None)))
        if made is not None and (step.condition is not None or step.merge is not None):
            sizes.append(f"it makes {made}")
        if first.code in _SIZES:
            return Diagnostic(
                first.code,
                f"{step.function}: sizes of pictures do not go together; resize or crop one",
                step.span,
                tuple(sizes),
            )
        return Diagnostic(first.code, f"in {step.function}: {first.message}", step.span, (*first.notes, *sizes))

    def _read(self, step: Step, ending_in: Ending) -> Iterator[tuple[str, str]]:
        """Yield the sources of a step, as the formula spells them, with their sizes."""
        sources: list[Source | None] = list(step.sources) or [None]
        sources += [step.condition.source] if isinstance(step.condition, Mask) else []
        sources += [step.merge.source] if step.merge is not None else []
        for source in sources:
            size = self._size(ending_in(Step(_IDENTITY, sources=() if source is None else (source,))))
            if size is not None:
                yield "the picture before it" if source is None else source_text(source), size

    def _fault(self, steps: tuple[Step | Repeat, ...]) -> TileError | None:
        try:
            self._inferred(steps)
        except TileError as error:
            return error
        return None

    def _size(self, steps: tuple[Step | Repeat, ...]) -> str | None:
        try:
            rows, columns, channels = self._inferred(steps)
        except TileError:
            return None
        return f"{rows} rows, {columns} columns, {channels} channel{'' if channels == 1 else 's'}"

    def _inferred(self, steps: tuple[Step | Repeat, ...]) -> tuple[int, ...]:
        """Return the shape of the result of steps; raises the error that they have."""
        identity = {each.name: each for each in read_functions(_IDENTITY_FILE)}
        formula = attrs.evolve(self.formula, steps=(*steps, Step(_IDENTITY)), results=())
        crafted = craft(formula, {**self.functions, **identity}, pixels=self.pixels)
        values = [*self.pictures, *crafted.arguments.values()]
        names = [each.name for each in crafted.function.inputs]
        typed = infer(crafted.function, tensor_types(crafted.function, dict(zip(names, values, strict=True))))
        return next(
            made.shape for made in typed.operations if not isinstance(made, Scan) and made.name == typed.outputs[0]
        )


def _beginnings(steps: tuple[Step | Repeat, ...]) -> Iterator[tuple[Step | Repeat, Ending]]:
    """Yield each step, in order, with a function that ends the sequence there with this step or another one.

    The steps of a group, in its first round, come before the whole group.
    """
    for number, step in enumerate(steps):
        ending_in = partial(_ending, steps[:number])
        if isinstance(step, Repeat):
            for inner, within in _beginnings(step.steps):
                yield inner, partial(_within, ending_in, step, within)
        yield step, ending_in


def _ending(steps: tuple[Step | Repeat, ...], last: Step | Repeat) -> tuple[Step | Repeat, ...]:
    return (*steps, last)


def _within(outer: Ending, group: Repeat, inner: Ending, last: Step | Repeat) -> tuple[Step | Repeat, ...]:
    return outer(attrs.evolve(group, steps=inner(last), count=Number(1), limit=None))
