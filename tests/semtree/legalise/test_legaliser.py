"""Kernels after the stage compute the same, by operations that a back end has, where C defines them."""

from __future__ import annotations

from functools import partial, reduce
from itertools import product
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import numpy as np
import pytest

from fuzz.semtree.kernel_case import kernel
from fuzz.semtree.kernel_values import allowed_ops
from strategies import exhaustive
from strategies.strict import run_strictly
from tileir.core.dtype import DType
from tileir.core.errors import BackendError
from tileir.core.numbers import arithmetic
from tileir.core.ops import Op
from tileir.semtree.check.verifier import verify
from tileir.semtree.interpret.interpreter import run
from tileir.semtree.ir import (
    Apply,
    Assign,
    Const,
    Declare,
    KernelFunction,
    Param,
    ParamAccess,
    Subscript,
    Type,
)
from tileir.semtree.legalise.capabilities import C_LIKE, INTEGERS, WIDE_FLOATS, Capabilities, Support, table
from tileir.semtree.legalise.legaliser import legalise
from tileir.semtree.text.parser import parse_kernel
from tileir.semtree.text.printer import to_text
from tileir.semtree.transform.expansions import EXPANDED, expand_kernel
from tileir_testing.generated.choices import Seeded

if TYPE_CHECKING:
    from strategies.exhaustive import Known

WIDE: Final = (DType.I32, DType.U32, DType.I64, DType.U64)
LEAST: Final = Capabilities(
    MappingProxyType(
        {
            **table(Support.DEFINED, (Op.ADD, Op.SUB, Op.MUL, Op.DIV, Op.BIT_LEFT, Op.BIT_RIGHT), WIDE),
            **table(Support.TOTAL, (Op.ADD, Op.SUB, Op.MUL), (DType.U32, DType.U64)),
            **table(Support.TOTAL, (Op.BIT_AND, Op.BIT_OR, Op.CMP_LT), WIDE),
            **table(Support.TOTAL, (Op.ADD, Op.MUL, Op.DIV, Op.CMP_LT, Op.CMP_EQ), WIDE_FLOATS),
            **table(Support.TOTAL, (Op.SQRT, Op.MOD, Op.FMA), WIDE_FLOATS),
        }
    ),
    MappingProxyType(
        {
            **dict.fromkeys(product(INTEGERS, INTEGERS), Support.TOTAL),
            **dict.fromkeys(product(WIDE, WIDE_FLOATS), Support.TOTAL),
            **dict.fromkeys(product(WIDE_FLOATS, WIDE), Support.DEFINED),
            **dict.fromkeys(product(WIDE_FLOATS, WIDE_FLOATS), Support.TOTAL),
        }
    ),
)
"""Arithmetic, ``&``, ``|``, shifts, ``<``, ``==`` of floats, and conversions, of 32 and 64 bits."""

TABLES: Final = {"least": LEAST, "like C": C_LIKE}
BACK_ENDS: Final = pytest.mark.parametrize("capabilities", TABLES.values(), ids=TABLES.keys())
DTYPES: Final = tuple(DType)


def check(case: Known, capabilities: Capabilities, monkeypatch: pytest.MonkeyPatch) -> None:
    made = legalise(case.kernel, capabilities)
    verify(made)
    arrays = case.arrays()
    run_strictly(made, arrays, capabilities, monkeypatch)
    case.check(arrays)


@pytest.mark.sampled(2)
@BACK_ENDS
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_operation_on_special_values(
    capabilities: Capabilities, dtype: DType, monkeypatch: pytest.MonkeyPatch
) -> None:
    for case in exhaustive.pairs_of_special_values(dtype, (16,) if dtype.is_narrow else (1, 16)):
        check(case, capabilities, monkeypatch)


@pytest.mark.sampled(2)
@BACK_ENDS
@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_sums_that_wrap_are_compared(capabilities: Capabilities, dtype: DType, monkeypatch: pytest.MonkeyPatch) -> None:
    for case in exhaustive.wrapped_and_compared(dtype):
        check(case, capabilities, monkeypatch)
    check(exhaustive.constants_only(dtype), capabilities, monkeypatch)


@pytest.mark.sampled(3)
@BACK_ENDS
@pytest.mark.parametrize("source", DTYPES, ids=str)
def test_every_conversion_of_special_values(
    capabilities: Capabilities, source: DType, monkeypatch: pytest.MonkeyPatch
) -> None:
    for case in exhaustive.conversions(source, DTYPES):
        check(case, capabilities, monkeypatch)


@pytest.mark.sampled(6)
@BACK_ENDS
@pytest.mark.parametrize("target", INTEGERS, ids=str)
def test_floats_around_the_ends_of_integers(
    capabilities: Capabilities, target: DType, monkeypatch: pytest.MonkeyPatch
) -> None:
    for case in exhaustive.floats_at_the_ends(target):
        check(case, capabilities, monkeypatch)


@pytest.mark.sampled(3)
@BACK_ENDS
@pytest.mark.parametrize("dtype", [dtype for dtype in DType if 8 <= dtype.bits <= 16], ids=str)
def test_every_value(capabilities: Capabilities, dtype: DType) -> None:
    """The interpreter alone: what is left where C defines it is defined, as the other tests show."""
    cases = exhaustive.pairs_of_bytes(dtype, (1024,)) if dtype.bits == 8 else exhaustive.every_half(dtype, (1024,))
    for case in cases:
        made = legalise(case.kernel, capabilities)
        arrays = case.arrays()
        run(made, arrays)
        case.check(arrays)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("source", INTEGERS, ids=str)
def test_integers_are_rounded_once(source: DType, monkeypatch: pytest.MonkeyPatch) -> None:
    for case in exhaustive.integers_at_ties(source):
        check(case, C_LIKE, monkeypatch)


@pytest.mark.sampled(2)
@BACK_ENDS
@pytest.mark.parametrize("number", range(40))
def test_generated_kernels(capabilities: Capabilities, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(number * 3, number * 3 + 3):
        case = kernel(Seeded(f"legalise {seed}"), DTYPES, threads=seed % 3 == 2)
        made = legalise(expand_kernel(case.kernel, frozenset()), capabilities)
        verify(made)
        arrays = case.arrays()
        run_strictly(made, arrays, capabilities, monkeypatch)
        case.check(arrays)


def text_of(text: str, capabilities: Capabilities = C_LIKE) -> str:
    """Return the statements of a kernel after the stage."""
    made = legalise(parse_kernel(f"kernel k({PARAMS}) grid(4) index(i64) {{\n{text}\n}}"), capabilities)
    verify(made)
    return "\n".join(line.strip() for line in to_text(made).partition("{")[2].splitlines()[1:-1])


PARAMS: Final = (
    "out i32 O[64] align(4) noalias, in i32 A[64] align(4) noalias, in u8 B[64] align(1) noalias, "
    "in f32 F[64] align(4) noalias"
)


@pytest.mark.parametrize(
    "text",
    [
        "O[group_id(0) * 16 + 3] = A[group_id(0)];",  # a part of an offset does not overflow
        "O[0] = cast<i32>(B[1]) + cast<i32>(B[2]);",
        "O[0] = cast<i32>(B[1]) * i32(1000) - i32(7);",
        "O[0] = A[0] / i32(3) + (A[1] % i32(-5) & i32(0));",
        "O[0] = A[0] >> (A[1] & i32(31));",
        "O[0] = cast<i32>(group_id(0)) << i32(4);",
        "for (i64 i = 0; i < 60; i += 4) {\nO[i + 1] = cast<i32>(i * 2 - 7);\n}",
        "O[group_id(0)] = cast<i32>(F[0] * 2.0 < 1.0) & i32(1);",
    ],
)
def test_what_ranges_prove_stays(text: str) -> None:
    before = parse_kernel(f"kernel k({PARAMS}) grid(4) index(i64) {{\n{text}\n}}")
    assert legalise(before, C_LIKE) is before


def test_what_wraps_is_unsigned_throughout() -> None:
    assert text_of("O[0] = A[0] + A[1] * A[2] - i32(3);") == (
        "O[0] = bitcast<i32>(bitcast<u32>(A[0]) + bitcast<u32>(A[1]) * bitcast<u32>(A[2]) - u32(3));"
    )


def test_only_what_can_happen_is_guarded() -> None:
    by_any = text_of("O[0] = A[0] / A[1];")
    assert by_any.count("?") == 3
    by_positive = text_of("O[0] = A[0] / (A[1] & i32(7));")
    assert by_positive.count("?") == 2
    assert "-" not in by_positive


def test_counters_of_loops_that_are_left_early_are_not_trusted_for_others() -> None:
    """A name that is declared again, with other values, is another variable."""
    text = text_of(
        """
        if (A[0] < i32(3)) {
        i32 n = i32(2);
        O[0] = A[0] / n;
        }
        if (A[0] < i32(4)) {
        i32 n = A[1];
        O[1] = A[0] / n;
        }
        i32 m = i32(1);
        m = A[2];
        O[2] = A[0] / m;"""
    )
    assert text.count("/ (") == 2
    assert "A[0] / n;" in text


def test_what_is_used_twice_is_computed_once() -> None:
    text = text_of("O[0] = max(max(max(A[0] + i32(1), A[1]), A[2]), A[3]);")
    assert text.count("A[0]") == 1
    assert len(text) < 400


@pytest.mark.sampled(15)
@pytest.mark.parametrize("op", [op for op in Op if op not in EXPANDED], ids=str)
@pytest.mark.parametrize("lanes", [1, 4])
@BACK_ENDS
def test_every_operation_is_native_or_has_a_row(
    capabilities: Capabilities, op: Op, lanes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for dtype in (dtype for dtype in DTYPES if op in (*allowed_ops(dtype), Op.COND) or op.info.compares):
        kind = Type(dtype, lanes)
        args = [Subscript("given", exhaustive.COUNTER, kind)] * op.info.arity
        first = args[0] if op is not Op.COND else Const(value=True, type=kind.with_dtype(DType.BOOL))
        expr = Apply(op, (first, *args[1:]))
        params = (
            Param("given", dtype, 8, ParamAccess.READ),
            Param("result", expr.type.dtype, 8, ParamAccess.WRITE),
        )
        store = Assign(Subscript("result", Const(0, exhaustive.INDEX), expr.type), expr)
        declared = Declare(exhaustive.COUNTER, Const(0, exhaustive.INDEX))
        made = legalise(KernelFunction("k", params, (declared, store)), capabilities)
        run_strictly(made, [np.ones(8, dtype.numpy), np.ones(8, expr.type.dtype.numpy)], capabilities, monkeypatch)


@BACK_ENDS
@pytest.mark.parametrize("lanes", [1, 2, 3, 7, 16])
def test_lanes_are_merged(capabilities: Capabilities, lanes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.arange(1, 17, dtype=np.int32)
    for op in (Op.ADD, Op.MUL, Op.MAX, Op.MIN):
        place = f"0 : {lanes}" if lanes > 1 else "0"
        before = parse_kernel(
            "kernel k(out i32 O[1] align(4) noalias, in i32 A[16] align(4) noalias) grid(1) index(i64) {\n"
            f"O[0] = reduce<{op.value}>(A[{place}]);\n}}"
        )
        result = np.zeros(1, np.int32)
        run_strictly(legalise(before, capabilities), [result, values], capabilities, monkeypatch)
        assert result[0] == reduce(partial(arithmetic.apply, op), values[:lanes])


def test_what_no_row_expresses_is_refused() -> None:
    before = parse_kernel(f"kernel k({PARAMS}) grid(1) index(i64) {{\nO[0] = cast<i32>(sqrt(F[0]) > 1.0);\n}}")
    with pytest.raises(BackendError, match=r"sqrt of f32") as caught:
        legalise(before, C_LIKE.without([(Op.SQRT, DType.F32)]))
    assert caught.value.diagnostics[0].code == "TIL804"
