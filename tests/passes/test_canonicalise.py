from __future__ import annotations

import numpy as np
from hypothesis import given

import tileir
from strategies.effort import examples
from strategies.passes import assert_same_meaning, program_of, programs
from tileir.core.dtype import DType
from tileir.passes.algorithms.accumulate import Accumulate
from tileir.passes.base import run
from tileir.passes.rewrites.canonicalise import Canonicalise
from tileir.passes.rewrites.dead_code import DeadCode
from tileir.passes.rewrites.forward import Forward
from tileir.stripe.ir import Block, Program
from tileir.stripe.lower.lowering import lower
from tileir.stripe.text.printer import to_text
from tileir.typed.inference.inference import infer
from tileir.typed.ir import TensorType


def canonical(kernel: str, sizes: dict[str, tuple[int, ...]], *, merge: bool = True) -> Block:
    program = program_of([kernel], sizes)
    after = run((Canonicalise(merge=merge),), program)
    assert_same_meaning(program, after)
    (block,) = after.main.blocks
    return block


COPY = """
block [j:8, i:4]:32 (
  in X[i, j] fp32:I(1, 1):(8, 1):4 B
  out O[i, j] fp32:I(1, 1):(8, 1):4 B
) {
  0: $x = load(X)
  1: O = store($x)
}
"""
SIZES: dict[str, tuple[int, ...]] = {"X": (4, 8), "O": (4, 8)}


def test_an_elementwise_kernel_becomes_one_dimensional() -> None:
    assert to_text(canonical(COPY, SIZES)).splitlines()[1:4] == [
        "block [i:32]:32 (",
        "    in X[i] fp32:I(1):(1):4 B, E(32):128 B",
        "    out O[i] fp32:I(1):(1):4 B, E(32):128 B",
    ]


def test_indices_are_ordered_by_what_is_written() -> None:
    block = canonical(COPY, SIZES, merge=False)
    assert [index.name for index in block.indices] == ["i", "j"]


def test_broadcasts_and_transposes_keep_two_indices() -> None:
    row = COPY.replace("X[i, j] fp32:I(1, 1):(8, 1)", "X[j] fp32:I(1):(1)")
    assert [i.range for i in canonical(row, {"X": (8,), "O": (4, 8)}).indices] == [4, 8]
    transposed = COPY.replace("in X[i, j] fp32:I(1, 1):(8, 1)", "in X[j, i] fp32:I(1, 1):(4, 1)")
    assert [i.range for i in canonical(transposed, {"X": (8, 4), "O": (4, 8)}).indices] == [4, 8]


def test_parts_of_a_tensor_keep_two_indices() -> None:
    part = COPY.replace("j:8", "j:7").replace(":32 (", ":28 (")
    assert [i.range for i in canonical(part, {"X": (4, 8), "O": (4, 8)}, merge=True).indices] == [4, 7]


def test_indices_in_constraints_or_values_do_not_merge() -> None:
    bounded = COPY.replace("  in X", "  3 + i - j >= 0\n  in X", 1)
    fill = COPY.replace("0: $x = load(X)", "0: $x = (fp32)0.0").replace("  in X[i, j] fp32:I(1, 1):(8, 1):4 B\n", "")
    program = program_of([fill, bounded], SIZES)
    after = run((Canonicalise(),), program)
    assert_same_meaning(program, after)
    assert [len(block.indices) for block in after.main.blocks] == [1, 2]
    counted = COPY.replace("0: $x = load(X)", "0: $n = load_index(i)\n  1: $x = cast_fp32($n)").replace("1: O", "2: O")
    assert len(canonical(counted, SIZES).indices) == 2


def test_indices_of_one_point_are_replaced_by_their_value() -> None:
    text = """
block [i:4, z:1]:4 (
  3 - z >= 0
  in X[i + z, 0] fp32:I(1, 8):(8, 1):32 B
  out O[i, z] fp32:I(1, 8):(8, 1):32 B
) {
  0: block [y = 2*z + 1, i = i, j:8]:8 (
    2*y - 1 >= 0
    in X[0, j] fp32:I(1, 1):(8, 1):4 B
    out O[0, j] fp32:I(1, 1):(8, 1):4 B
  ) {
    0: $x = load(X)
    1: O = store($x)
  }
}
"""
    assert (
        to_text(canonical(text, SIZES))
        == """\
0:
block [i:4]:4 (
    in X[i, 0] fp32:I(1, 8):(8, 1):32 B, E(4, 8):128 B
    out O[i, 0] fp32:I(1, 8):(8, 1):32 B, E(4, 8):128 B
) {
  0:
  block [j:8]:8 (
      in X[0, j] fp32:I(1, 1):(8, 1):4 B, E(1, 8):32 B
      out O[0, j] fp32:I(1, 1):(8, 1):4 B, E(1, 8):32 B
  ) {
    0: $x = load(X)
    1: O = store($x)
  }
}
"""
    )


def test_constraints_are_tightened_and_kept_once() -> None:
    bounds = "  5 - 2*i >= 0\n  4 - 2*i >= 0\n  9 - i >= 0\n"
    fill = COPY.replace("0: $x = load(X)", "0: $x = (fp32)0.0").replace("  in X[i, j] fp32:I(1, 1):(8, 1):4 B\n", "")
    program = program_of([fill, COPY.replace("  in X", f"{bounds}  in X", 1)], SIZES)
    after = run((Canonicalise(),), program)
    assert_same_meaning(program, after)
    assert [str(c) for c in after.main.blocks[1].constraints] == ["2 - i"]


def test_blocks_that_never_run_go() -> None:
    fill = COPY.replace("0: $x = load(X)", "0: $x = (fp32)0.0").replace("  in X[i, j] fp32:I(1, 1):(8, 1):4 B\n", "")
    program = program_of([fill, COPY.replace("  in X", "  i - 4 >= 0\n  in X", 1)], SIZES)
    after = run((Canonicalise(),), program)
    assert_same_meaning(program, after)
    assert len(after.main.blocks) == 1


def test_a_repeated_store_happens_once() -> None:
    text = COPY.replace("[j:8, i:4]:32", "[k:5, j:8, i:4]:160")
    assert [i.range for i in canonical(text, SIZES).indices] == [32]
    merging = text.replace("out O[i, j]", "out O[i, j]:add")
    assert 5 in [i.range for i in canonical(merging, SIZES).indices]


def test_an_axis_for_each_index() -> None:
    text = COPY.replace("out O[i, j] fp32:I(1, 1):(8, 1)", "out O[8*i + j] fp32:I(1):(1)").replace("X[i, j]", "X[0, j]")
    block = canonical(text, {"X": (4, 8), "O": (32,)})
    assert "out O[i, j] fp32:I(1, 1):(8, 1):4 B" in to_text(block)


def test_scheduled_kernels_keep_their_indices() -> None:
    text = COPY.replace("[j:8, i:4]", "[(#grid j:8), i:4]")
    assert [index.name for index in canonical(text, SIZES).indices] == ["j", "i"]


@given(programs(12))
@examples(100)
def test_meaning_stays(program: Program) -> None:
    for passes in ((Canonicalise(),), (Accumulate(), Canonicalise()), (Canonicalise(merge=False), Accumulate())):
        assert_same_meaning(program, run(passes, program))


def test_columns_and_channels_are_one_index_beside_computed_rows() -> None:
    text = """function (I[H, W, C]) -> (O) {
        A[y + 1, x, c : H + 1, W, C] = =(I[y, x, c]);
        P[0 - k, x, c : H + 1, W, C] = =(I[0, x, c]), k < 1 default A;
        O = P * 2;
    }"""
    program = lower(infer(tileir.parse(text), {"I": TensorType(DType.F32, (4, 5, 3))}))
    before = run((Forward(), DeadCode()), program)
    (kernel,) = run((Canonicalise(),), before).main.blocks
    assert sorted(kernel.ranges.values()) == [5, 15]
    assert_same_meaning(before, run((Canonicalise(),), before))


def test_axes_of_one_element_that_a_reshape_adds_are_not_looked_at() -> None:
    text = """function (X[H, W, C], M[H, W]) -> (Y) {
        Weight = M * 2;
        Column = reshape(Weight, H, W, 1);
        Y = X * Column;
    }"""
    types = {"X": TensorType(DType.F32, (4, 5, 3)), "M": TensorType(DType.F32, (4, 5))}
    program = lower(infer(tileir.parse(text), types))
    after = run((Canonicalise(merge=False),), program)
    shapes = {r.name: len(r.access) for r in program.main.refinements}
    ranks = [(len(r.access), shapes[r.source]) for kernel in after.main.blocks for r in kernel.refinements]
    assert all(seen == own for seen, own in ranks)
    assert_same_meaning(program, after)


def test_a_reshaped_tensor_is_seen_by_its_own_axes_where_places_have_some() -> None:
    text = """function (X[H, W, C]) -> (Y, Z) {
        Twice = X * 2;
        Flat = reshape(Twice, H * W, C);
        Y[y, x, c : H, 2, C] = =(Flat[5 * y + 2 * x + 1, c]);
        Z[k, c : 9, C] = =(Flat[2 * k, c]);
    }"""
    program = lower(infer(tileir.parse(text), {"X": TensorType(DType.F32, (4, 5, 3))}))
    after = run((Canonicalise(merge=False),), program)
    seen = {kernel.refinements[-1].source: kernel.refinements[0] for kernel in after.main.blocks}
    assert [str(access) for access in seen["Y"].access] == ["y", "1 + 2*x", "c"]
    assert len(seen["Z"].access) == 2  # every other pixel is in no column
    assert_same_meaning(program, after)


def test_axes_of_one_element_stay_where_data_choose_along_the_first() -> None:
    text = "function (X[N], I[M]) -> (Y) { Y = gather(reshape(X, 1, N), I); }"
    types = {"X": TensorType(DType.F32, (6,)), "I": TensorType(DType.I32, (5,))}
    program = lower(infer(tileir.parse(text), types))
    after = run((Canonicalise(),), program)
    assert_same_meaning(program, after, {"X": np.arange(6, dtype=np.float32), "I": np.arange(5, dtype=np.int32)})


def test_columns_and_channels_are_one_index_where_data_choose_rows() -> None:
    types = {"X": TensorType(DType.F32, (6, 5, 3)), "I": TensorType(DType.I32, (4,))}
    program = lower(infer(tileir.parse("function (X[H, W, C], I[N]) -> (Y) { Y = gather(X, I); }"), types))
    (kernel,) = run((Canonicalise(),), program).main.blocks
    assert sorted(kernel.ranges.values()) == [4, 15]
    arrays = {"X": np.arange(90, dtype=np.float32).reshape(6, 5, 3), "I": np.array([5, -1, 9, 2], np.int32)}
    assert_same_meaning(program, run((Canonicalise(),), program), arrays)
