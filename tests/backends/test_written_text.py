"""Text of LLVM functions: what is known of instructions is forgotten where these do not dominate."""

from __future__ import annotations

from tileir_llvm.emit.text import FunctionText, ModuleText


def test_what_is_remembered_in_a_scope_is_forgotten_at_its_end() -> None:
    out = FunctionText(ModuleText())
    out.remember(("whole",), "%before")
    with out.scope():
        out.remember(("part",), "%inside")
        assert (out.recalled(("whole",)), out.recalled(("part",))) == ("%before", "%inside")
    assert (out.recalled(("whole",)), out.recalled(("part",))) == ("%before", None)


def test_iterations_of_a_loop_remember_nothing_for_what_follows() -> None:
    out = FunctionText(ModuleText())
    with out.loop("body"):
        out.remember(("part",), "%inside")
    assert out.recalled(("part",)) is None
