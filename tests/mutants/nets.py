"""What a planted fault has to get past: fixed and generated programs through pipelines, on exact numbers."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

from strategies import means
from tileir.core.arithmetic import dtype_of
from tileir.core.dtype import DType
from tileir.core.target import Target
from tileir.driver.checking.checker import Check
from tileir.driver.targets import TargetChoice, choice_of
from tileir.passes.catalog import parse_pipeline
from tileir.passes.resolution import pipeline_for
from tileir.stripe.lowering import lower
from tileir.testing.generated.case import DTYPES, Manner, make
from tileir.testing.generated.choices import Seeded
from tileir.tile.parser import parse
from tileir.typed.inference import infer
from tileir.typed.ir import TensorType
from tileir.typed.preparation import prepared

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mutants.planted import Mutant
    from tileir.driver.checking.findings import Finding
    from tileir.passes.base import Pass
    from tileir.stripe.ir import Program
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
    (
        "function (A[N, M], B[M]) -> (O, P) { O[i : N] = +(A[i, j] * B[j]); P[j : M] = >(A[i, j]); }",
        {"A": (9, 20), "B": (20,)},
    ),
)
"""Programs that the passes have much to do with, and the shapes of their inputs."""

GENERATED: Final = 24


def _shipped(name: str) -> Target:
    choice = choice_of(name)
    assert isinstance(choice, TargetChoice)
    return choice.applied(Target())


def programs() -> Iterator[Function]:
    """Yield typed functions: the fixed ones, then generated ones."""
    for text, shapes in PROGRAMS:
        types = {n: TensorType(DType.I32 if n == "I" and "gather" in text else DType.F32, s) for n, s in shapes.items()}
        yield prepared(infer(parse(text), types))
    for number in range(GENERATED):
        manner = Manner(tuple(DTYPES), False, True, 1, (4, 9)[number % 2], 5)
        case = make(Seeded(f"nets {number}"), manner)
        yield prepared(
            infer(case.function, {name: TensorType(dtype_of(a), a.shape) for name, a in case.inputs.items()})
        )


def pipelines(mutant: Mutant) -> Iterator[tuple[tuple[Pass, ...], Target]]:
    """Yield pipelines: those that the mutant asks for, or those of targets and of tests."""
    if mutant.passes:
        yield parse_pipeline(mutant.passes), means.TARGETS["middle"]
        return
    yield means.PASSES["pieces"](means.TARGETS["groups"]), means.TARGETS["groups"]
    yield means.PASSES["bold"](means.TARGETS["wide"]), means.TARGETS["wide"]
    for name in ("cpu", "gpu", "nvidia-hopper"):
        facts = _shipped(name)
        yield pipeline_for(facts), facts
    yield means.PASSES["small"](means.TARGETS["middle"]), means.TARGETS["middle"]


@cache
def prepared_programs() -> tuple[tuple[Check, Function, Program], ...]:
    """Return the programs with what they compute, and as Stripe."""
    return tuple((Check.of(function), function, lower(function)) for function in programs())


def caught(mutant: Mutant) -> Finding | None:
    """Return the first finding in a process where the mutant has been planted."""
    is_pass = mutant.module.startswith("passes.")
    for steps, target in pipelines(mutant):
        for check, function, usual in prepared_programs():
            program, finding = (usual, None) if is_pass else check.lowered(function)
            if finding is None and program is not None:
                finding = check.through(program, steps, None if is_pass and not mutant.kernels else target)
            if finding is not None and not finding.problem.startswith(("TIL502", "TIL543")):
                return finding
    return None
