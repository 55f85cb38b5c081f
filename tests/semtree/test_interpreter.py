"""Kernels and programs against NumPy, and every way in which a kernel can misbehave."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given

from strategies.effort import examples
from strategies.semtree import KernelCase, function_cases, kernel_cases
from strategies.semtree_values import same_content
from tileir.core.dtype import DType
from tileir.core.errors import ArgumentError, TileError, VerifyError
from tileir.core.numbers.arithmetic import apply
from tileir.semtree.interpret.interpreter import compile_kernel, run, run_program
from tileir.semtree.interpret.memory import ALL_CHECKS, Checks, poisoned
from tileir.semtree.ir import Apply, Assign, For, KernelFunction
from tileir.semtree.text.parser import parse_kernel, parse_program

if TYPE_CHECKING:
    from collections.abc import Sequence

    Array = np.ndarray[Any, Any]

F32 = np.dtype(np.float32)


@examples(100)
@given(case=kernel_cases(depth=2))
def test_generated_kernels_are_legal_and_watching_changes_nothing(case: KernelCase) -> None:
    plain, watched = case.arrays(), case.arrays()
    run(case.kernel, plain)
    run(case.kernel, watched, ALL_CHECKS)
    assert all(map(same_content, watched, plain))


@examples(50)
@given(case=kernel_cases(depth=1, threads=True))
def test_generated_kernels_with_threads_are_legal(case: KernelCase) -> None:
    run(case.kernel, case.arrays(), Checks(undefined=True))


@examples(50)
@given(case=function_cases())
def test_functions_are_those_of_the_definition(case: KernelCase) -> None:
    arrays = case.arrays()
    run(case.kernel, arrays)
    loop = case.kernel.body[0]
    assert isinstance(loop, For)
    store = loop.body[0]
    assert isinstance(store, Assign)
    assert isinstance(store.value, Apply)
    expected = apply(store.value.op, *case.initial[:-1])
    np.testing.assert_allclose(arrays[-1], expected, rtol=1e-6)


def kernel(body: str, facts: str = "grid(1)") -> KernelFunction:
    header = "kernel k(in f32 A[16], out f32 B[16], inout f32 C[16], in i64 N[16])"
    return parse_kernel(f"{header} {facts} {{ {body} }}")


def arrays(numbers: Sequence[int] = range(16)) -> list[Array]:
    a = np.arange(16, dtype=F32)
    return [a, np.zeros(16, F32), np.ones(16, F32), np.array(numbers, np.int64)]


def b_after(body: str, facts: str = "grid(1)", numbers: Sequence[int] = range(16)) -> list[float]:
    memory = arrays(numbers)
    run(kernel(body, facts), memory, ALL_CHECKS)
    result: list[float] = memory[1].tolist()
    return result


def test_grid_and_group_coordinates() -> None:
    body = "B[group_id(0) + 2 * group_id(1) + 6 * local_id(0)] = cast<f32>(10 * group_id(1) + group_id(0) + 1);"
    assert b_after(body, "grid(2, 3) group(2)")[:13] == [1, 2, 11, 12, 21, 22] * 2 + [0]


def test_loops_conditions_and_vectors() -> None:
    body = """
    f32 total = 0.0;
    for (i64 i = 1; i < 10; i += 4) { if (i == 5) { total = total + 100.0; } else { total = total + A[i]; } }
    B[0] = total;
    B[ramp<4>(1, 2)] = A[4 : 4] * f32x4(2.0);
    B[8] = reduce<add>(A[N[0 : 4]]);
    B[9 : 4] = broadcast<4>(A[3]);
    """
    assert b_after(body, numbers=[15, 14, 13, 12] * 4)[:13] == [110, 8, 0, 10, 0, 12, 0, 14, 54, 3, 3, 3, 3]


def test_bounds_of_loops_are_evaluated_once() -> None:
    body = "i64 n = 3; for (i64 i = 0; i < n; i += 1) { n = n + 1; B[i] = 1.0; }"
    assert sum(b_after(body)) == 3


def test_last_lane_of_a_scatter_wins() -> None:
    assert b_after("B[ramp<4>(2, 0)] = A[4 : 4];")[2] == 7


def test_vectors_are_copies() -> None:
    assert b_after("f32x4 x = C[0 : 4]; C[0 : 4] = A[4 : 4]; B[0 : 4] = x;")[:4] == [1, 1, 1, 1]


def test_threads_meet_at_barriers() -> None:
    body = """
    local f32 s[4] align(64);
    i64 t = local_id(0);
    s[t] = A[t];
    for (i64 i = 2; i < 3; i += 1) {
      barrier();
      if (group_id(0) == 0) { barrier(); }
      B[group_id(0) * 8 + t] = s[t ^ 3];
    }
    """
    assert b_after(body, "grid(2) group(4)") == [3, 2, 1, 0, 0, 0, 0, 0] * 2


def test_local_arrays_belong_to_one_group() -> None:
    body = """
    local f32 s[1] align(64);
    if (group_id(0) == 0) { s[0] = 5.0; }
    B[group_id(0)] = group_id(0) == 0 ? s[0] : 1.0;
    """
    with pytest.raises(TileError) as caught:
        b_after(body, "grid(2)")
    assert [fault.code for fault in caught.value.diagnostics] == ["TIL557"]


@pytest.mark.parametrize(
    ("body", "facts", "code"),
    [
        ("B[N[0]] = 1.0;", "grid(1)", "TIL553"),
        ("B[0] = A[N[0]];", "grid(1)", "TIL553"),
        ("B[0] = A[N[1]];", "grid(1)", "TIL553"),
        ("B[0 : 4] = A[N[2] : 4];", "grid(1)", "TIL553"),
        ("B[N[2] : 4] = A[0 : 4];", "grid(1)", "TIL553"),
        ("B[0 : 4] = A[N[0 : 4]];", "grid(1)", "TIL553"),
        ("B[N[0 : 4]] = A[0 : 4];", "grid(1)", "TIL553"),
        ("B[0] = B[1];", "grid(1)", "TIL557"),
        ("private f32 p[4] align(64); p[0] = 1.0; B[0 : 4] = p[0 : 4];", "grid(1)", "TIL557"),
        ("B[0] = cast<f32>(group_id(0));", "grid(2)", "TIL558"),
        ("B[group_id(0) : 4] = A[0 : 4];", "grid(2)", "TIL558"),
        ("C[group_id(0)] = C[0];", "grid(2)", "TIL558"),
        ("B[group_id(0)] = C[1]; C[group_id(0)] = 1.0;", "grid(2)", "TIL558"),
        ("if (group_id(0) == 1) { B[0] = C[0]; } else { C[0] = 1.0; }", "grid(2)", "TIL558"),
        ("for (i64 i = 0; i < N[0]; i += 1) { B[i] = 1.0; }", "grid(1)", "TIL553"),
        ("local f32 s[2] align(64); s[local_id(0)] = 1.0; B[local_id(0)] = s[0];", "grid(1) group(2)", "TIL558"),
        ("B[0] = cast<f32>(local_id(0));", "grid(1) group(2)", "TIL558"),
        ("B[local_id(0)] = C[0]; barrier(); C[local_id(0)] = C[0];", "grid(1) group(2)", "TIL558"),
    ],
)
def test_misbehaviour(body: str, facts: str, code: str) -> None:
    memory = arrays([17, -1, 13, 0] * 4)
    with pytest.raises(TileError) as caught:
        run(kernel(body, facts), memory, ALL_CHECKS)
    assert [fault.code for fault in caught.value.diagnostics] == [code]


def test_threads_that_miss_a_barrier() -> None:
    body = "for (i64 i = 0; i < cast<i64>(C[0]); i += 1) { C[0] = 0.0; barrier(); }"
    with pytest.raises(TileError) as caught:
        run(kernel(body, "grid(1) group(2)"), arrays())
    assert [fault.code for fault in caught.value.diagnostics] == ["TIL555"]


def test_reads_of_one_element_by_many_groups_are_no_race() -> None:
    assert b_after("B[group_id(0)] = C[0] + A[0];", "grid(3)")[:4] == [1, 1, 1, 0]


def test_threads_may_write_the_same_value() -> None:
    assert b_after("B[0] = 1.0; B[1] = A[0] / A[0];", "grid(1) group(4)")[0] == 1


def test_checks_are_chosen_one_by_one() -> None:
    run(kernel("B[0] = 1.0;", "grid(2)"), arrays(), Checks(undefined=True))
    run(kernel("private f32 p[1] align(64); B[0] = p[0];"), arrays(), Checks(races=True))


def test_undefined_elements_are_poison() -> None:
    memory = arrays()
    run(kernel("private f32 p[2] align(64); scratch f32 q[2] align(64); B[0] = p[0]; B[1] = q[1];"), memory)
    assert np.isnan(memory[1][:2]).all()
    assert all(poisoned(kind, 2).dtype == kind.numpy for kind in DType)


def test_faulty_arguments() -> None:
    plain = kernel("B[0] = 1.0;")
    good = arrays()
    read_only = good[1].copy()
    read_only.flags.writeable = False
    shared = np.zeros(32, F32)
    for bad, code in (
        (good[:3], "TIL705"),
        ([good[0][:8], *good[1:]], "TIL706"),
        ([good[0].astype(np.float64), *good[1:]], "TIL706"),
        ([good[0].reshape(4, 4), *good[1:]], "TIL706"),
        ([good[0], read_only, *good[2:]], "TIL703"),
    ):
        with pytest.raises(ArgumentError) as caught:
            run(plain, bad)
        assert [fault.code for fault in caught.value.diagnostics] == [code]
    aliased = parse_kernel("kernel k(in f32 A[16], out f32 B[16] noalias) grid(1) { B[0] = A[0]; }")
    with pytest.raises(ArgumentError, match="TIL704"):
        run(aliased, [shared[:16], shared[8:24]])
    run(aliased, [shared[:16], shared[16:]])


def test_illegal_kernels_are_refused() -> None:
    with pytest.raises(VerifyError):
        compile_kernel(kernel("B[99] = 1.0;"))


PROGRAM = parse_program(
    """
    program {
      input f32 a[2, 2];
      constant f32 k[4] = "0000803f000000400000404000008040";
      temporary f32 t[4];
      output f32 b[2, 2];
      kernel add(in f32 X[4], in f32 Y[4], out f32 Z[4]) grid(4) {
        i64 i = group_id(0);
        Z[i] = X[i] + Y[i];
      }
      launch 0(a, k, t);
      launch 0(t, t, b);
    }
    """
)


def test_program() -> None:
    outputs = run_program(PROGRAM, {"a": np.array([[1, 1], [1, 1]], F32)}, ALL_CHECKS)
    assert list(outputs) == ["b"]
    assert outputs["b"].tolist() == [[4, 6], [8, 10]]


def test_program_with_faulty_inputs() -> None:
    for inputs, code in (({}, "TIL705"), ({"a": np.zeros(3, F32)}, "TIL701"), ({"a": np.zeros(4)}, "TIL701")):
        with pytest.raises(ArgumentError) as caught:
            run_program(PROGRAM, inputs)
        assert [fault.code for fault in caught.value.diagnostics] == [code]
