"""The designer in notebooks: a widget whose text is a formula, answered by the kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tileir.core import fail
from tileir_formula.running.crafting import CraftedFormula
from tileir_studio.design.sample import FORMULA

if TYPE_CHECKING:
    from tileir_studio.notebook.notebook_model import FormulaDesigner


def designer(formula: CraftedFormula | str | None = None, *pictures: Any) -> FormulaDesigner:
    """Return a widget that designs a formula on pictures: show it as the last line of a cell.

    Its ``value`` is the text, which may also be set; ``formula()`` is that text crafted. Jobs run in the kernel,
    without the limits of ``tileir studio``.

    Args:
        formula: The initial formula; by default edges of the first picture.
        pictures: An array for each input, [rows, columns] or [rows, columns, channels]; by default a sample.

    Raises:
        TileError: TIL903, anywidget is not installed; TIL912, an array is no picture.
    """
    try:
        import anywidget  # noqa: F401  # what the model below needs
    except ModuleNotFoundError as missing:
        raise fail(
            "TIL903", f"the designer in notebooks needs {missing.name}: pip install 'tileir[notebook]'"
        ) from None
    from tileir_studio.notebook.notebook_model import FormulaDesigner, contents_of

    text = formula.text if isinstance(formula, CraftedFormula) else FORMULA if formula is None else formula
    return FormulaDesigner(text, contents_of(pictures))
