"""Normalisation of passes given by callers: a pipeline's text, a sequence, a single pass, or plain functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, cast

from tileir.core import attrs, fail
from tileir.stripe.ir import Program

if TYPE_CHECKING:
    from tileir.passes.base import Pass


@attrs.frozen
class FunctionPass:
    """Pass made of a function from Stripe to Stripe."""

    function: Callable[[Program], Program]

    @property
    def name(self) -> str:
        """Name in remarks and errors: that of the function."""
        return getattr(self.function, "__name__", type(self.function).__name__)

    def __call__(self, program: Program) -> Program:
        """Call the function."""
        return self.function(program)


def given_passes(passes: object) -> tuple[Pass, ...] | str | None:
    """Return an argument ``passes`` as a text or passes; None for those of the target.

    Raises:
        TileError: TIL707, an item is not a pass.
    """
    if passes is None or isinstance(passes, str):
        return passes
    if isinstance(passes, tuple | list):
        return tuple(_as_pass(each) for each in passes)
    return (_as_pass(passes),)


def refuse_functions(passes: Iterable[Pass]) -> None:
    """Refuse functions among passes, since written pipelines cannot name them.

    Raises:
        TileError: TIL707, with the alternative.
    """
    for step in passes:
        if isinstance(step, FunctionPass):
            advice = "make it a frozen attrs class with a name, or install it by an entry point of tileir.passes"
            raise fail("TIL707", f"the pass {step.name!r} is a function, which no pipeline's text can name: {advice}")


def _as_pass(value: object) -> Pass:
    if isinstance(value, str):
        raise fail(
            "TIL707", f"{value!r:.80} stands among passes; write one text for all, as in passes='fuse,accumulate'"
        )
    if isinstance(value, type):
        raise fail("TIL707", f"{value.__name__} is a class; a pass is a value of it: write {value.__name__}()")
    if not callable(value):
        message = "a pass is a function from Stripe to Stripe, or the text of a pipeline"
        raise fail("TIL707", f"{message}, not a value of type {type(value).__name__}")
    return cast("Pass", value if isinstance(getattr(value, "name", None), str) else FunctionPass(value))
