"""The text of a function at any stage of its way down."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tileir.core.errors import fail
from tileir.driver.compiler import compile_stages
from tileir.driver.executable import compile_for
from tileir.passes.catalog import parse_pipeline
from tileir.runtime.context import default_context
from tileir.semtree.printer import to_text as semtree_text
from tileir.stripe.printer import to_text as stripe_text
from tileir.tile.printer import to_text as tile_text
from tileir.typed.printer import to_text as typed_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tileir.tile.ir import Function
    from tileir.typed.ir import TensorType

STAGES: Final = ("tile", "typed", "stripe", "scheduled", "sem")


def stage_text(
    function: Function, types: Mapping[str, TensorType], stage: str, *, passes: str | None, device: str | None
) -> str:
    """Return the text of ``function`` at one of :data:`STAGES`.

    Raises:
        TileError: TIL902 where a stage after ``tile`` lacks the types of inputs.
    """
    if stage == "tile":
        return tile_text(function)
    _need_types(function, types)
    chosen = None if passes is None else parse_pipeline(passes)
    target = default_context().device(device).target
    stages = compile_stages(function, types, target, passes=chosen)
    texts = {
        "typed": lambda: typed_text(stages.typed),
        "stripe": lambda: stripe_text(stages.stripe),
        "scheduled": lambda: stripe_text(stages.scheduled),
        "sem": lambda: semtree_text(stages.sem),
    }
    return texts[stage]()


def listing(function: Function, types: Mapping[str, TensorType], form: str, *, device: str | None) -> str:
    """Return the code that a device's back end generates, as text."""
    _need_types(function, types)
    return compile_for(function, types, default_context(), device).listing(form)


def _need_types(function: Function, types: Mapping[str, TensorType]) -> None:
    missing = [tensor.name for tensor in function.inputs if tensor.name not in types]
    if missing:
        raise fail(
            "TIL902", f"say what {', '.join(missing)} are, as in {missing[0]}=f32[64,64] or {missing[0]}=array.npy"
        )
