"""Checks of faults planted into passes: fixed and generated programs through pipelines, on exact numbers."""

from __future__ import annotations

import sys
from functools import cache
from inspect import ismodule
from typing import TYPE_CHECKING, Final

from fuzz import contractions, siblings
from fuzz.area import arrays_of
from mutants.judging import Subject, Trail, trails
from strategies import means
from strategies.catalogue import parse_pipeline
from strategies.steps import STEPS
from tileir.core.dtype import DType
from tileir.core.errors import TileError
from tileir.core.numbers.arithmetic import dtype_of
from tileir.core.targets.target import Target
from tileir.driver.targets import TargetChoice, choice_of
from tileir.passes.pipelines.resolution import pipeline_for
from tileir.tile.text.parser import parse
from tileir.typed.inference.inference import infer
from tileir.typed.ir import TensorType
from tileir.typed.simplify.preparation import prepared
from tileir_testing.generated.case import DTYPES, Manner, make
from tileir_testing.generated.choices import Seeded
from tileir_testing.programs.convolutions import CONTRACTIONS, CONVOLUTIONS
from tileir_testing.programs.loops import LOOPS
from tileir_testing.programs.moves import MOVES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fuzz.area import Case
    from mutants.mutant import Mutant
    from tileir.passes.base import Pass
    from tileir.typed.ir import Function

PROGRAMS: Final = (
    ("function (A[M, K], B[K, N]) -> (C) { C[i, j : M, N] = +(A[i, k] * B[k, j]); }", {"A": (37, 21), "B": (21, 19)}),
    ("function (A[N, M]) -> (O) { O[i : N] = +(A[i, j]); }", {"A": (5, 67)}),
    ("function (A[N, M]) -> (O) { O[j : M] = >(A[i, j]); }", {"A": (33, 13)}),
    ("function (A[N]) -> (O) { O[] = +(A[i]); }", {"A": (101,)}),
    ("function (A[N, M]) -> (O) { O[i : N] = *(A[i, j]); }", {"A": (5, 37)}),
    (
        "function (A[N], B[M]) -> (O) { T[i : N] = +(A[i]); O[i : N] = +(B[i - 5*k]), k < 2 default T; }",
        {"A": (8,), "B": (2,)},
    ),
    ("function (A[N, M]) -> (O) { O[j : M] = +(A[i, j]); }", {"A": (521, 3)}),
    (
        "function (I[N, H, W, C], K[Y, X, C, D]) -> (R) "
        "{ O[n, y, x, d : N, H, W, D] = +(I[n, y + i - 1, x + j - 1, c] * K[i, j, c, d]); R = O > 0 ? O : 0; }",
        {"I": (1, 6, 7, 3), "K": (3, 3, 3, 5)},
    ),
    ("function (I[N, H]) -> (O) { O[n, x : N, H / 2] = >(I[n, 2*x + i]), i < 3; }", {"I": (2, 17)}),
    ("function (A[N]) -> (O) { O[i : N] = +(A[i - k]), k < N; }", {"A": (29,)}),
    ("function (A[N, M]) -> (O) { O[i, j : N, M] = *(A[i, k]), j - k < M; }", {"A": (9, 37)}),
    ("function (A[N]) -> (O) { O[i : N - 8] = +(A[i + k]), k < 9; }", {"A": (51,)}),
    ("function (A[N]) -> (O) { O[i : N] = >(A[i + k - 4]), k < 9; }", {"A": (51,)}),
    (
        "function (X[N, M]) -> (O) { Q[i, 0 : N, 1] = >(X[i, j]); E = exp(X - Q); "
        "S[i, 0 : N, 1] = +(E[i, j]); O = E / S; }",
        {"X": (7, 33)},
    ),
    (
        "function (A[N, M], B[N, M]) -> (O, P) { T = tanh(A) * B; O = T + 1; P[i : N] = +(T[i, j]); }",
        {"A": (6, 18), "B": (6, 18)},
    ),
    (
        "function (I[N]) -> (O) { S = I * 2; A[x + 1 : N + 2] = =(S[x]); B[0 - k : N + 2] = =(S[0]), k < 1 default A; "
        "C[N + 1 + k : N + 2] = =(S[N - 1]), k < 1 default B; O[x : N] = +(C[x + i]), i < 3; }",
        {"I": (21,)},
    ),
    (
        "function (I[H, W], K[P, Q]) -> (O) { A[y + 1, x : H + 2, W] = =(I[y, x]); "
        "B[0 - k, x : H + 2, W] = =(I[k + 1, x]), k < 1 default A; "
        "C[H + 1 + k, x : H + 2, W] = =(I[H - 2 - k, x]), k < 1 default B; "
        "D[y, x + 1 : H + 2, W + 2] = =(C[y, x]); E[y, 0 - k : H + 2, W + 2] = =(C[y, 0]), k < 1 default D; "
        "F[y, W + 1 + k : H + 2, W + 2] = =(C[y, W - 1]), k < 1 default E; "
        "O[y, x : H, W] = +(F[y + i, x + j] * K[i, j]); }",
        {"I": (9, 21), "K": (3, 3)},
    ),
    ("function (A[N, M]) -> (O) { O[3*i + 2*j : 9] = +(A[i, j]) no_defract; }", {"A": (2, 3)}),
    ("function (A[N, M]) -> (O) { O[4*i + j : 9] = =(A[i, j]); }", {"A": (3, 3)}),
    ("function (A[N, M]) -> (O) { O[i + j : N + M - 1] = +(A[i, j]) no_defract; }", {"A": (5, 4)}),
    (
        "function (A[N], B[M]) -> (O) { T[i : N + M] = =(A[i]); O[i + N : N + M] = =(B[i]) default T; }",
        {"A": (5,), "B": (9,)},
    ),
    (
        "function (A[N], B[N]) -> (O, P) { T[i : N + 1] = +(A[i]); S = T * 2; "
        "O[i : N + 1] = +(B[i + k]), k < 3 default T; P = S + O; }",
        {"A": (12,), "B": (12,)},
    ),
    ("function (A[N, M]) -> (O) { O[j, i : M, N] = =(A[i, j]); }", {"A": (19, 23)}),
    (
        "function (A[N, M]) -> (S, R) { T = A * 2; S[i, 0 : N, 1] = +(A[i, j]); "
        "R[i, j : N, M] = +(T[i, k]), j - k < M; }",
        {"A": (4, 27)},
    ),
    ("function (A[N]) -> (O) { B = A * 2; C[i : N] = =(B[N - 1 - i]); D = C + B; O = sin(D); }", {"A": (23,)}),
    ("function (A[N]) -> (O) { T = A + 1; R[i : N] = =(T[i]); Q = T * T; O = Q + R; }", {"A": (23,)}),
    ("function (A[N, M], I[K]) -> (O) { O = gather(A, I); }", {"A": (6, 5), "I": (9,)}),
    ("function (A[N, M]) -> (O) { O[i, j : N, M] = >(A[i + 2 - k, j]), k < 5; }", {"A": (11, 5)}),
    ("function (A[N]) -> (O) { O[i : N - 8] = +(A[i + k]), k < 9; }", {"A": (46,)}),
    ("function (A[N, M], B[M]) -> (O) { O[i : N] = +(A[i, i + j - 3] * B[j]); }", {"A": (9, 30), "B": (30,)}),
    ("function (A[N, M]) -> (O) { O[i + j : N + M - 1] = +(A[i, j]), i - j < 3 no_defract; }", {"A": (7, 5)}),
    (
        "function (A[N], B[M]) -> (O) { T[i : N + M + 1] = =(A[i]); O[i + N + 1 : N + M + 1] = =(B[i]) default T; }",
        {"A": (5,), "B": (4,)},
    ),
    (
        "function (A[N], B[M]) -> (O) { O[3*i + j : 3*N + 1] = +(A[i] * B[j]) no_defract; }",
        {"A": (40,), "B": (4,)},
    ),
    (
        "function (A[N, M], Z[K, L]) -> (T, R) "
        "{ T[2*i, j + 1 : 2*N, M + 1] = =(A[i, j]) default Z; R[i : N] = +(T[i, j]); }",
        {"A": (6, 9), "Z": (12, 10)},
    ),
    (
        "function (A[N, M], Z[K, L]) -> (T, R) "
        "{ T[i, j + 1 : N + 1, M + 1] = =(A[i, j]) default Z; R[i : N] = +(T[i + 1, j]); }",
        {"A": (6, 9), "Z": (7, 10)},
    ),
    (
        "function (A[N, M], B[N, K]) -> (O, R) { O[i, j : N, M] = =(B[i, j]) default A; R[i : N] = +(O[i, j]); }",
        {"A": (6, 9), "B": (6, 8)},
    ),
    (
        "function (A[N, M], B[M]) -> (O, P) { O[i : N] = +(A[i, j] * B[j]); P[j : M] = >(A[i, j]); }",
        {"A": (9, 20), "B": (20,)},
    ),
)
"""Programs that the passes have much to do with, and the shapes of their inputs."""

GENERATED: Final = 24
"""Programs of each of three generators."""

_SMALL: Final = (1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17)

_OF_PASSES: Final = ("tileir.passes.", "tileir.schedule.", "tileir_accelerators.")

_MOST_POINTS: Final = 16000
"""Programs of more points take too long to interpret."""


def _shipped(name: str) -> Target:
    choice = choice_of(name)
    assert isinstance(choice, TargetChoice)
    return choice.applied(Target())


def functions() -> Iterator[Function]:
    """Yield typed functions: the fixed ones, some of the conformance table, then generated ones."""
    for text, shapes in PROGRAMS:
        types = {n: TensorType(DType.I32 if n == "I" and "gather" in text else DType.F32, s) for n, s in shapes.items()}
        yield prepared(infer(parse(text), types))
    for case in (*CONTRACTIONS[::3], *CONVOLUTIONS, *LOOPS, *MOVES[::2]):
        yield prepared(infer(parse(case.text), case.types))
    for number in range(GENERATED):
        manner = Manner(tuple(DTYPES), False, True, 1, (4, 9)[number % 2], 5)
        made = make(Seeded(f"nets {number}"), manner)
        yield prepared(infer(made.function, made.types))
        drawn = contractions.make(Seeded(f"nets {number}"))
        yield from _accepted(contractions.text_of(drawn), drawn)
        several = siblings.make(Seeded(f"nets {number}"), _SMALL)
        yield from _accepted(siblings.broadcasting(several), several)


def _accepted(text: str, case: Case) -> Iterator[Function]:
    types = {name: TensorType(dtype_of(array), array.shape) for name, array in arrays_of(case).items()}
    try:
        yield prepared(infer(parse(text), types))
    except TileError:
        return  # a contraction that may be refused


def pipelines(mutant: Mutant) -> Iterator[tuple[tuple[Pass, ...], Target]]:
    """Yield the pipeline that a mutant asks for, and alone each pass of its module, or else those that use it."""
    if mutant.passes:
        yield parse_pipeline(mutant.passes), means.TARGETS["middle"]
    own = [step for step in STEPS if type(step).__module__ == mutant.path]
    for step in own or [step for step in STEPS if mutant.path in used_by(type(step).__module__)]:
        yield (step,), means.TARGETS["middle"]


def usual_pipelines() -> Iterator[tuple[tuple[Pass, ...], Target]]:
    """Yield pipelines of targets and of tests."""
    yield means.PASSES["pieces"](means.TARGETS["groups"]), means.TARGETS["groups"]
    yield means.PASSES["bold"](means.TARGETS["wide"]), means.TARGETS["wide"]
    for name in ("cpu", "gpu", "nvidia-hopper"):
        facts = _shipped(name)
        yield pipeline_for(facts), facts
    yield means.PASSES["small"](means.TARGETS["middle"]), means.TARGETS["middle"]


@cache
def used_by(module: str) -> frozenset[str]:
    """Return the modules of passes that a module takes something from, and itself."""
    found: set[str] = set()
    pending = [module]
    while pending:
        name = pending.pop()
        if name not in found:
            found.add(name)
            values = vars(sys.modules[name]).values()
            others = {getattr(value, "__name__" if ismodule(value) else "__module__", None) for value in values}
            pending.extend(other for other in others if isinstance(other, str) and other.startswith(_OF_PASSES))
    return frozenset(found)


@cache
def subjects() -> tuple[Subject, ...]:
    """Return the programs in Stripe."""
    return tuple(subject for subject in map(Subject.of, functions()) if subject.points <= _MOST_POINTS)


@cache
def usual_trails() -> tuple[Trail, ...]:
    """Return what comes of all programs in the usual pipelines; call it before a fault is planted."""
    return tuple(trails(subjects(), usual_pipelines()))
