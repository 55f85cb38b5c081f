"""HTML of formulas and their explanations, for notebooks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileir.core.text.markup import folded, highlighted, paragraph, preformatted, table
from tileir.core.text.quantities import seconds_text, size_text
from tileir.driver.notebook import MOST_KERNELS, cut

if TYPE_CHECKING:
    from tileir.driver.dispatch import BufferLife
    from tileir_formula.running.crafting import CraftedFormula
    from tileir_formula.running.explanation import FormulaExplanation


def formula_html(formula: CraftedFormula) -> str:
    """Return the text of a formula, and where it runs."""
    live = f", passes {', '.join(sorted(formula.live))}" if formula.live else ""
    where = formula.device if isinstance(formula.device, str | None) else formula.device.id
    said = f"reads {', '.join(formula.formula.inputs)}; runs on {where or 'the default device'}{live}"
    return highlighted(formula.text, formula=True) + paragraph(said)


def formula_explanation_html(found: FormulaExplanation) -> str:
    """Return the kernels of the steps, the costs of the kernels, and a picture of the lives of the buffers."""
    steps = [(each.path, each.text, ", ".join(map(str, each.kernels)) or "none") for each in found.steps]
    kernels = [
        (
            str(number),
            each.label,
            ", ".join(each.steps),
            size_text(each.moved_bytes),
            *map(_time, (each.seconds, each.measured)),
        )
        for number, each in enumerate(found.kernels[:MOST_KERNELS])
    ]
    buffers = found.dispatch.buffers[:MOST_KERNELS]
    width = max((len(each.name) for each in buffers), default=0)
    lives = "\n".join(
        f"{each.name.ljust(width)} {_bar(each, len(found.kernels))} {size_text(each.nbytes)}" for each in buffers
    )
    many = f"{found.device}: {len(found.kernels)} launches; temporaries take {size_text(found.dispatch.peak_bytes)}"
    return (
        paragraph(cut(many, len(found.kernels)))
        + table(("step", "", "kernels"), steps)
        + table(("kernel", "", "steps", "moves", "predicted", "measured"), kernels)
        + folded("buffers, from their first launch to their last", preformatted(lives))
    )


def _time(seconds: float | None) -> str:
    return "" if seconds is None else seconds_text(seconds)


def _bar(buffer: BufferLife, launches: int) -> str:
    """Return a character for each launch, full where the buffer lives; neighbours share one where there are many."""
    scale = max(1, -(-launches // MOST_KERNELS))
    places = range(0, launches, scale)
    return "".join("█" if buffer.first < place + scale and place <= buffer.last else "·" for place in places)
