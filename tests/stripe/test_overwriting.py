"""Contractions that write over their default."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, strategies as st

from tileir.core.dtype import DType
from tileir.stripe.check.verifier import verify
from tileir.stripe.interpret.interpreter import interpret
from tileir.stripe.lower.lowering import lower
from tileir.stripe.lower.overwriting import overwriters
from tileir.tile.text.parser import parse
from tileir.typed import ir as typed
from tileir.typed.inference.inference import infer
from tileir.typed.interpreter import interpret as interpret_typed

if TYPE_CHECKING:
    from tileir.stripe.ir import Program

X = np.arange(1, 5, dtype=np.float32)
TYPES = {"X": typed.TensorType(DType.F32, (4,)), "D": typed.TensorType(DType.F32, (8,))}


def function_of(statements: str, outputs: str = "O") -> typed.Function:
    source = parse(f"function (X[N], D[M]) -> ({outputs}) {{ {statements} }}")
    return infer(source, {name: TYPES[name] for name in ("X", "D")})


def program_of(function: typed.Function) -> Program:
    program = lower(function)
    verify(program)
    return program


@pytest.mark.parametrize(
    ("statements", "kernels"),
    [
        ("T[i : 8] = =(X[i]); O[i + 4 : 8] = =(X[i]) default T;", 2),  # side by side: nothing is filled
        ("T[i : 8] = =(X[i]); O[7 - i : 8] = =(X[i]) default T;", 2),
        ("T[i + 2 : 8] = =(X[i]); S[i - 2 : 8] = =(X[i]) default T; O[i + 5 : 8] = =(X[i]) default S;", 3),
        ("T[i : 8] = =(X[i]); O[i + 5 : 8] = =(X[i]) default T;", 3),  # a gap is filled first
        ("T[2 * i : 8] = =(X[i]); O[2 * i + 1 : 8] = =(X[i]) default T;", 3),  # not decided
        ("T = D * 2; O[i : 8] = +(X[i]) default T;", 2),  # no copy of what was computed
        ("O[i : 8] = =(X[i]) default D;", 2),  # an input is copied
        ("T[i : 8] = =(X[i]); O[i + 9 : 8] = =(X[i]) default T;", 2),  # nothing is written over it
    ],
)
def test_defaults_are_not_copied(statements: str, kernels: int) -> None:
    assert len(program_of(function_of(statements)).main.statements) == kernels


@pytest.mark.parametrize(
    ("statements", "outputs"),
    [
        ("T[i : 8] = =(X[i]); O[i + 4 : 8] = =(X[i]) default T; P = T * 2;", "O, P"),  # read by another
        ("T[i : 8] = =(X[i]); O[i + 4 : 8] = =(X[i]) default T;", "O, T"),  # a result
        ("T[i : 8] = =(X[i]); O[7 - i : 8] = =(T[i]) default T;", "O"),  # read by itself
        ("T = reshape(D, 8); O[i : 8] = =(X[i]) default T;", "O"),  # an input by another name
        ("O[i : 8] = =(X[i]) default D;", "O"),
    ],
)
def test_what_somebody_else_reads_stays(statements: str, outputs: str) -> None:
    assert overwriters(function_of(statements, outputs)) == {}


writes = st.tuples(st.sampled_from("=+>"), st.sampled_from([1, -1, 2]), st.integers(-4, 9), st.integers(1, 4))


@given(chain=st.lists(writes, min_size=2, max_size=4), read=st.booleans())
def test_chains_mean_the_same(chain: list[tuple[str, int, int, int]], read: bool) -> None:
    lines = []
    for number, (sign, step, offset, count) in enumerate(chain):
        default = f" default T{number - 1}" if number else ""
        lines.append(f"T{number}[{step} * i + {offset} : 8] = {sign}(X[i]), i < {count}{default};")
    last = len(chain) - 1
    results = f"T{last}, P" if read else f"T{last}"
    function = function_of(" ".join([*lines, "P = T0 + 1;"]), results)
    arrays = {"X": X, "D": np.zeros(8, np.float32)}
    found = interpret(program_of(function), arrays)
    for name, wanted in interpret_typed(function, arrays).items():
        np.testing.assert_array_equal(found[name], wanted)
