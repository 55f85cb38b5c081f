from __future__ import annotations

import attrs
import numpy as np
import pytest

from strategies.passes import arrays_for, program_of
from tileir.core.dtype import DType
from tileir.core.errors import TileError
from tileir.core.ops import Domain, Op
from tileir.core.targets.target import Target
from tileir.driver.compiler import compile_stages
from tileir.semtree.check.verifier import verify_program
from tileir.semtree.interpret.interpreter import run_program
from tileir.semtree.lower.lowering import identifier, lower, operation_count
from tileir.semtree.text.printer import to_text
from tileir.stripe.flattening import with_entry
from tileir.stripe.interpret.interpreter import interpret
from tileir.stripe.ir import Block, Constant, Index, Intrinsic, Program, Special
from tileir.typed.interpreter import interpret as interpret_function
from tileir.typed.ir import TensorType

TILE = """
block [i:2]:2 (
  in X[4*i] fp32:I(4):(1):16 B
  out O[4*i] fp32:I(4):(1):16 B
) {
  0: block [k:4, i = i]:4 (
    6 - k - 4*i >= 0
    in X[k] fp32:I(1):(1):4 B
    out O[k] fp32:I(1):(1):4 B
  ) {
    0: $x = load(X)
    1: $n = load_index(k + 4*i)
    2: $f = cast_fp32($n)
    3: $y = add($x, $f)
    4: O = store($y)
  }
}
"""
TILE_SIZES: dict[str, tuple[int, ...]] = {"X": (7,), "O": (7,)}
TILE_KERNEL = """
  kernel `kernel`(
      out f32 O[7] align(4) noalias,
      in f32 X[7] align(4) noalias
  ) grid(1) operations(40) {
    for (i64 i = 0; i < 2; i += 1) {
      for (i64 k = 0; k < min(4, -(i * 4) + 7); k += 1) {
        f32 x = X[i * 4 + k];
        i32 n = cast<i32>(i * 4 + k);
        f32 f = cast<f32>(n);
        f32 y = x + f;
        O[i * 4 + k] = y;
      }
    }
  }
"""

LANES = """
block [(#grid g:3)]:3 (
  in X[8*g] fp32:I(8):(1):32 B
  in S[0] fp32:I(1):(1):4 B
  out O[8*g] fp32:I(8):(1):32 B
) {
  0: block [(#unroll u:2)]:2 (
    in X[4*u] fp32:I(4):(1):16 B
    in S[0] fp32:I(1):(1):4 B
    out O[4*u] fp32:I(4):(1):16 B
  ) {
    0: block [(#vector v:4)]:4 (
      in X[v] fp32:I(1):(1):4 B
      in S[0] fp32:I(1):(1):4 B
      out O[v] fp32:I(1):(1):4 B
    ) {
      0: $x = load(X)
      1: $s = load(S)
      2: $y = mul($x, $s)
      3: O = store($y)
    }
  }
}
"""
LANES_SIZES: dict[str, tuple[int, ...]] = {"X": (24,), "S": (1,), "O": (24,)}
LANES_KERNEL = """
  kernel `kernel`(
      out f32 O[24] align(4) noalias,
      in f32 X[24] align(4) noalias,
      in f32 S[1] align(4) noalias
  ) grid(3) operations(96) {
    i64 g = group_id(0);
    for (i64 u = 0; u < 2; u += 1) unroll {
      f32x4 x = X[g * 8 + u * 4 : 4];
      f32 s = S[0];
      f32x4 y = x * broadcast<4>(s);
      O[g * 8 + u * 4 : 4] = y;
    }
  }
"""

TOTAL = """
block [i:3]:3 (
  in X[i, 0] fp32:I(1, 5):(5, 1):20 B
  out O[i] fp32:I(1):(1):4 B
  none new@0x00000000 T<REGISTER>[0] fp32:I(1):(1):4 B
) {
  0: $z = (fp32)0.0
  1: T = store($z)
  2: block [k:5]:5 (
    in X[0, k] fp32:I(1, 1):(5, 1):4 B
    inout T[0]:add fp32:I(1):(1):4 B
  ) {
    0: $x = load(X)
    1: T = store($x)
  }
  3: $t = load(T)
  4: O = store($t)
}
"""
TOTAL_SIZES: dict[str, tuple[int, ...]] = {"X": (3, 5), "O": (3,)}
TOTAL_KERNEL = """
  kernel `kernel`(
      out f32 O[3] align(4) noalias,
      in f32 X[15] align(4) noalias
  ) grid(1) operations(39) {
    for (i64 i = 0; i < 3; i += 1) {
      f32 T = 0.0;
      T = 0.0;
      for (i64 k = 0; k < 5; k += 1) {
        f32 x = X[i * 5 + k];
        T = T + x;
      }
      f32 t = T;
      O[i] = t;
    }
  }
"""


GOLDENS = {
    "a loop whose constraint is its end": (TILE, TILE_SIZES, TILE_KERNEL),
    "grid, unrolled loop and lanes": (LANES, LANES_SIZES, LANES_KERNEL),
    "an accumulator in a register": (TOTAL, TOTAL_SIZES, TOTAL_KERNEL),
}


@pytest.mark.parametrize("name", GOLDENS)
def test_kernels(name: str) -> None:
    text, sizes, expected = GOLDENS[name]
    program = program_of([text.strip()], sizes)
    kernels = lower(program, Target())
    verify_program(kernels)
    assert expected.strip() in to_text(kernels)
    arrays = arrays_for(program)
    for output, array in interpret(program, arrays).items():
        np.testing.assert_array_equal(run_program(kernels, arrays)[output], array)


def test_scratch_memory_becomes_an_array_of_the_kernel() -> None:
    text = TOTAL.replace("T<REGISTER>[0] fp32:I(1):(1):4 B", "T<SCRATCH>[0] fp32:I(1):(1):4 B")
    assert "scratch f32 T" in to_text(lower(program_of([text.strip()], TOTAL_SIZES), Target()))


def test_offsets_have_the_type_of_the_target() -> None:
    kernels = lower(program_of([TOTAL.strip()], TOTAL_SIZES), Target(index_dtype=DType.I32))
    verify_program(kernels)
    assert "for (i32 i = 0;" in to_text(kernels)


@pytest.mark.parametrize("dtype", [DType.I8, DType.U8, DType.I32, DType.U32, DType.I64])
def test_places_are_clamped_before_they_are_narrowed(dtype: DType) -> None:
    types = {"A": TensorType(DType.F32, (5,)), "I": TensorType(dtype, (4,))}
    text = "function (A[N], I[M]) -> (G, S) { G = gather(A, I); S = scatter(G, I, A); }"
    places = np.array([int(dtype.minimum), int(dtype.maximum), int(dtype.maximum) // 2 + 2, 3], dtype.numpy)
    arrays = {"A": np.arange(1, 6, dtype=np.float32), "I": places}
    stages = compile_stages(text, types, Target(index_dtype=DType.I32))
    results = run_program(stages.sem, arrays)
    expected = interpret_function(stages.typed, arrays)
    for name in ("G", "S"):
        np.testing.assert_array_equal(results[name], expected[name])


def test_kernels_get_names_of_their_own_that_are_identifiers() -> None:
    sizes = {name: (3, 5) if name == "X" else (3,) for name in "XOPQ"}
    texts = [TOTAL.strip().replace("O", name).replace("0.0", f"{number}.0") for number, name in enumerate("OPQ")]
    program = program_of(texts, sizes, ("O", "P", "Q"))
    names = ("k(A,B)", "k(A,B)", "9" * 99)
    blocks = tuple(attrs.evolve(b, name=name) for b, name in zip(program.main.blocks, names, strict=True))
    kernels = lower(_with_kernels(program, blocks), Target()).kernels
    assert [kernel.name for kernel in kernels] == ["k_A_B", "k_A_B_0", "v" + "9" * 47]
    assert identifier("!") == "v"


def test_operations_are_counted_over_all_points() -> None:
    (block,) = program_of([LANES.strip()], LANES_SIZES).main.blocks
    assert operation_count(block) == 3 * 2 * 4 * 4


@pytest.mark.parametrize("op", [op for op in Op if op.info.arity == 2])
def test_operations_cost_what_their_rows_say(op: Op) -> None:
    dtype = DType.F64 if op.info.domain is Domain.FLOAT else DType.I32
    statements = (Constant("a", dtype, 1), Intrinsic(op, ("a", "a"), "b", dtype))
    block = Block("kernel", (Index("i", 5),), statements=statements)
    assert operation_count(block) == 5 * op.info.weight_in(dtype)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("out O[8*g] fp32", "out O[8*g]:add fp32", "run the pass accumulate before lowering"),
        ("(#unroll u:2)", "(#vector u:2)", "index u is a vector index, but block"),
        ("out O[v] fp32", "out O[0] fp32", r"the lanes of \$y all write one element of O"),
    ],
)
def test_what_is_not_scheduled_is_refused(old: str, new: str, message: str) -> None:
    assert old in LANES
    program = program_of([LANES.replace(old, new).strip()], LANES_SIZES)
    with pytest.raises(TileError, match=message) as caught:
        lower(program, Target())
    assert caught.value.diagnostics[0].code == "TIL502"


@pytest.mark.parametrize("test", ["2 - v", "v - 1", "5 - 2*v", "2*v - 3"])
def test_lanes_that_a_constraint_cuts_are_masked(test: str) -> None:
    old, new = "4 (\n      in X[v]", f"4 (\n      {test} >= 0\n      in X[v]"
    assert old in LANES
    program = program_of([LANES.replace(old, new).strip()], LANES_SIZES)
    kernels = lower(program, Target())
    verify_program(kernels)
    assert "masked(" in to_text(kernels)
    arrays = arrays_for(program)
    for output, array in interpret(program, arrays).items():
        assert not array.all()
        np.testing.assert_array_equal(run_program(kernels, arrays)[output], array)


SPECIALS = """
block [i:2]:2 (
  none new@0x00000000 T[0] fp32:I(3):(1):12 B
  none new@0x00000000 S[] fp32:I():():4 B
  in X[i, 0] fp32:I(1, 3):(3, 1):12 B
  out O[0, i] fp32:I(3, 1):(2, 1):12 B
  out P[i, 0] fp32:I(1, 3):(3, 1):12 B
  out Q[i] fp32:I(1):(1):4 B
) {
  0: (P) = copy(X)
  1: (T) = zero()
  2: (S) = zero()
  3: $s = load(S)
  4: Q = store($s)
}
"""


def test_copies_and_fills_become_loops() -> None:
    sizes = {"X": (2, 3), "O": (3, 2), "P": (2, 3), "Q": (2,)}
    program = program_of([SPECIALS.strip()], sizes, outputs=("O", "P", "Q"))
    (block,) = program.main.blocks
    fill = Special("fill", (), ("O",), (("value", 2.5),))
    program = _with_kernels(program, (attrs.evolve(block, statements=(fill, *block.statements)),))
    kernels = lower(program, Target())
    verify_program(kernels)
    arrays = arrays_for(program)
    expected = interpret(program, arrays)
    np.testing.assert_array_equal(expected["O"], np.full((3, 2), 2.5, np.float32))
    for output, array in run_program(kernels, arrays).items():
        np.testing.assert_array_equal(array, expected[output])


def test_specials_without_a_meaning_are_refused() -> None:
    program = program_of([TOTAL.strip()], TOTAL_SIZES)
    (block,) = program.main.blocks
    odd = attrs.evolve(block, statements=(Special("fourier", (), ("O",)),))
    with pytest.raises(TileError, match="special 'fourier' has no lowering"):
        lower(_with_kernels(program, (odd,)), Target())
    bare = Special("zero", (), ("O",))
    with pytest.raises(TileError, match="statement 0 of the main block must be a block: a kernel"):
        lower(_with_kernels(program, (bare,)), Target())


def _with_kernels(program: Program, statements: tuple[Block | Special, ...]) -> Program:
    main = attrs.evolve(program.main, statements=statements)
    return with_entry(program, attrs.evolve(program.entry, statements=(main,)))
