"""Places of barriers, for steps made by hand."""

from __future__ import annotations

import pytest

from tileir.core.dtype import DType
from tileir.core.errors import TileError
from tileir.poly.affine import Affine
from tileir.semtree.ir import Barrier, Const, Declare, For, If, Stmt, Type, Var
from tileir.semtree.lower.barriers import THREAD, Phase, SharedAccess, Step, StepSequence, with_barriers

INDEX = Type(DType.I64)
OWN = Affine.index(THREAD)


def touch(
    array: str,
    own: Affine | None = OWN,
    *,
    writes: bool = False,
    local: bool = True,
    merges: bool = False,
    threads: int = 4,
) -> SharedAccess:
    fixed = own is not None and set(own.indices) <= {THREAD}
    return SharedAccess(array, writes, merges, threads, own, fixed, local)


def phase(name: str, *touches: SharedAccess) -> Phase:
    """Return a phase of one statement, which declares ``name``."""
    return Phase((Declare(Var(name, INDEX), Const(0, INDEX)),), touches)


def loop(*steps: Step, skips: bool = False) -> StepSequence:
    def wrap(body: list[Stmt]) -> list[Stmt]:
        return [For(Var("i", INDEX), Const(0, INDEX), Const(3, INDEX), 1, tuple(body))]

    return StepSequence(steps, wrap, repeats=True, skips=skips)


def branch(*steps: Step) -> StepSequence:
    condition = Const(True, Type(DType.BOOL))
    return StepSequence(steps, lambda body: [If(condition, tuple(body))], repeats=False, skips=True)


def whole(*steps: Step) -> StepSequence:
    return StepSequence(steps, lambda body: body, repeats=False, skips=False)


def text(stmts: list[Stmt] | tuple[Stmt, ...]) -> str:
    """Return the names of phases, ``|`` for barriers, and parentheses around loops and branches."""
    parts = []
    for stmt in stmts:
        match stmt:
            case Barrier():
                parts.append("|")
            case Declare(variable=variable):
                parts.append(variable.name)
            case For(body=body):
                parts.append(f"({text(body)})")
            case If(then=then):
                parts.append(f"[{text(then)}]")
            case _:
                raise AssertionError(stmt)
    return " ".join(parts)


WRITE, READ = touch("S", writes=True), touch("S", None)
MINE = touch("S")
AT_I = OWN + Affine.index("i")


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (whole(phase("w", WRITE), phase("r", READ)), "w | r"),
        (whole(phase("w", WRITE), phase("r", MINE)), "w r"),
        (whole(phase("r", READ), phase("s", READ)), "r s"),
        (whole(phase("w", WRITE), phase("r", touch("T", None))), "w r"),
        (whole(phase("w", WRITE), phase("x", touch("T", None)), phase("r", READ)), "w x | r"),
        (whole(phase("w", touch("S", None, writes=True, threads=1)), phase("r", touch("S", None, threads=1))), "w r"),
        (loop(phase("w", WRITE), phase("r", READ)), "(w | r |)"),
        (loop(phase("w", WRITE), phase("r", MINE)), "(w r)"),
        (loop(phase("w", touch("S", AT_I, writes=True)), phase("r", touch("S", AT_I))), "(w r |)"),
        (whole(phase("r", READ), loop(phase("w", WRITE), phase("x", MINE))), "r (| w x)"),
        # A barrier before the loop's second phase, for what was before the loop, does not stand in for one between
        # iterations.
        (
            whole(
                phase("a", touch("T", None)),
                loop(phase("b", WRITE), phase("c", touch("T", writes=True)), phase("d", READ)),
            ),
            "a (b | c d |)",
        ),
        (whole(phase("w", WRITE), branch(phase("x", touch("T"))), phase("r", READ)), "w [x] | r"),
        (whole(phase("w", WRITE), branch(phase("r", READ)), phase("s", READ)), "w [| r] | s"),
        (whole(loop(phase("w", WRITE), skips=True), phase("r", READ)), "(w) | r"),
        (loop(branch(phase("w", WRITE)), phase("r", READ)), "([w] | r |)"),
        (loop(loop(phase("w", WRITE), phase("r", READ))), "((w | r |))"),
    ],
)
def test_barriers(step: Step, expected: str) -> None:
    assert text(with_barriers(step)) == expected


def test_iterations_are_independent_in_memory_of_the_caller() -> None:
    plain = touch("O", AT_I, writes=True, local=False)
    assert text(with_barriers(loop(phase("w", plain)))) == "(w)"
    merging = touch("O", AT_I, writes=True, local=False, merges=True)
    with pytest.raises(TileError, match="'O', which is not in local memory"):
        with_barriers(loop(phase("w", merging)))


def test_deep_nests_take_no_longer() -> None:
    step: Step = phase("w", WRITE, READ)
    for _ in range(60):
        step = loop(step)
    assert text(with_barriers(step)).count("|") == 1
