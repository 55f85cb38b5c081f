from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given

from strategies.effort import examples
from strategies.passes import assert_same_meaning, programs
from tileir.core.dtype import DType
from tileir.core.ops import Aggregation, Combination, Op
from tileir.passes.algorithms.accumulate import Accumulate
from tileir.passes.algorithms.split_reduction import SplitReduction
from tileir.passes.base import run
from tileir.passes.fusion.inline import Inline
from tileir.passes.rewrites.canonicalise import Canonicalise
from tileir.passes.rewrites.dead_code import DeadCode
from tileir.poly.affine import Affine
from tileir.stripe.ir import Program
from tileir.stripe.lower.lowering import lower
from tileir.stripe.text.printer import to_text
from tileir.tile.text.parser import parse
from tileir.typed.inference.inference import infer
from tileir.typed.ir import Access, Cast, Constraint, Contraction, Elementwise, Function, Operation, TensorType, Value

F32 = DType.F32
ROW, COLUMN = Affine.index("i"), Affine.index("j")


def inlined(
    operations: Sequence[Operation],
    inputs: Mapping[str, tuple[int, ...]],
    *outputs: str,
    inline: Inline | None = None,
) -> Program:
    values = tuple(Value(name, F32, shape) for name, shape in inputs.items())
    program = lower(Function(values, outputs, tuple(operations)))
    after = run((inline or Inline(), DeadCode()), program)
    assert_same_meaning(program, after)
    return after


def unary(name: str, source: str, op: Op = Op.NEG, shape: tuple[int, ...] = (4, 16)) -> Operation:
    return Elementwise(name, op, (source,), F32, shape)


def binary(name: str, one: str, two: str, op: Op = Op.MUL, shape: tuple[int, ...] = (4, 16)) -> Operation:
    return Elementwise(name, op, (one, two), F32, shape)


def total(name: str, source: str) -> Operation:
    inputs = (Access(source, (ROW, COLUMN)),)
    return Contraction(name, (ROW,), inputs, Aggregation.MAX, Combination.NONE, F32, F32, F32, (4,))


MATRIX = {"X": (4, 16)}


def test_what_only_a_reduction_reads_is_computed_there() -> None:
    (kernel,) = inlined([binary("q", "X", "X"), unary("e", "q", Op.ABS), total("s", "e")], MATRIX, "s").main.blocks
    assert (
        to_text(kernel)
        == """\
0: #agg_op_max #comb_op_none #contraction
block [i:4, j:16]:64 ( // kernel_2(e)
    // q = mul(X, X)
    // e = abs(q)
    // s[i : 4] = >(e[i, j])
    out s[i]:max fp32:I(1):(1):4 B, E(4):16 B
    in X[i, j] fp32:I(1, 1):(16, 1):4 B, E(4, 16):256 B
) {
  0: $X = load(X)
  1: $q = mul($X, $X)
  2: $e = abs($q)
  3: s = store($e)
}
"""
    )


def names(program: Program) -> list[str]:
    return [block.name.replace("kernel_", "") for block in program.main.blocks]


def test_cheap_results_are_computed_again() -> None:
    operations = [unary("d", "X"), total("s", "d"), binary("y", "d", "X")]
    after = inlined(operations, MATRIX, "s", "y")
    assert [r.source for r in after.main.blocks[1].refinements if r.direction.reads] == ["X"]
    assert len(names(after)) == 3
    kept = inlined(operations, MATRIX, "s", "y", inline=Inline(max_operations=0))
    assert "d" in {r.source for r in kept.main.blocks[1].refinements}


def test_costly_results_with_other_users_are_not() -> None:
    operations = [unary("d", "X", Op.EXP), total("s", "d"), binary("y", "d", "X")]
    assert "d" in {r.source for r in inlined(operations, MATRIX, "s", "y").main.blocks[1].refinements}


def test_results_of_the_program_are_stored_and_read() -> None:
    after = inlined([unary("d", "X"), total("s", "d")], MATRIX, "s", "d")
    assert names(after) == ["0(X)", "1(d)"]


def reads(program: Program, kernel: str) -> list[str]:
    (block,) = (block for block in program.main.blocks if block.name == f"kernel_{kernel}")
    return sorted(r.source for r in block.refinements if r.direction.reads)


def test_values_that_elementwise_kernels_only_hand_on_are_not_stored_for_a_reduction() -> None:
    """Of e and f only the product is stored, as elementwise kernels run as one; unless both can be made of X."""
    last = [binary("p", "e", "f"), total("s", "p"), binary("y", "p", "f")]
    costly = inlined([unary("e", "X", Op.EXP), unary("f", "X", Op.TANH), *last], MATRIX, "s", "y")
    assert reads(costly, "3(p)") == ["p"]
    cheap = inlined([unary("e", "X", Op.ABS), unary("f", "X"), *last], MATRIX, "s", "y")
    assert reads(cheap, "3(p)") == ["X"]


def test_what_was_last_read_long_ago_is_not_read_again() -> None:
    between = [unary(f"t{number}", "X", Op.EXP) for number in range(10)]
    operations = [unary("e", "X", Op.EXP), total("m", "e"), unary("d", "e"), *between, total("s", "d")]
    outputs = ("m", "s", "y", *(operation.name for operation in between))
    far = inlined([*operations, binary("y", "d", "X")], MATRIX, *outputs)
    assert reads(far, "13(d)") == ["d"]
    near = inlined([*operations, binary("y", "d", "X")], MATRIX, *outputs, inline=Inline(far=20))
    assert reads(near, "13(d)") == ["e"]


def test_an_epilogue_stays_with_its_contraction() -> None:
    i, j, k = ROW, COLUMN, Affine.index("k")
    inputs = (Access("A", (i, k)), Access("B", (k, j)))
    dtypes = (F32, F32, F32)
    product = Contraction("T", (i, j), inputs, Aggregation.SUM, Combination.MUL, *dtypes, (4, 16))
    after = inlined([product, unary("d", "T"), total("s", "d")], {"A": (4, 3), "B": (3, 16)}, "s")
    assert len(names(after)) == 3


def test_elements_that_are_read_again_and_again_are_stored() -> None:
    x, k = Affine.index("x"), Affine.index("k")
    window = (Constraint(k, 3),)
    inputs = (Access("d", (x + k,)),)
    smooth = Contraction("s", (x,), inputs, Aggregation.SUM, Combination.NONE, F32, F32, F32, (16,), constraints=window)
    after = inlined([unary("d", "X", shape=(18,)), smooth], {"X": (18,)}, "s")
    assert names(after) == ["0(X)", "1(d)"]


def test_integers_that_are_only_widened_are_not_stored() -> None:
    for narrow, wide, kernels in ((DType.I8, DType.I32, 1), (DType.I32, DType.I64, 1), (DType.F32, DType.F64, 2)):
        inputs = (Value("X", narrow, (4, 16)), Value("Y", wide, (16, 3)))
        factors = (Access("w", (ROW, COLUMN)), Access("Y", (COLUMN, Affine.index("n"))))
        output = (ROW, Affine.index("n"))
        product = Contraction("s", output, factors, Aggregation.SUM, Combination.MUL, wide, wide, wide, (4, 3))
        program = lower(Function(inputs, ("s",), (Cast("w", "X", wide, (4, 16)), product)))
        after = run((Inline(), DeadCode()), program)
        assert_same_meaning(program, after)
        assert len(after.main.blocks) == kernels


def test_small_tensors_beside_large_ones_do_not_matter() -> None:
    operations = [total("m", "X"), total("n", "X"), binary("d", "X", "c"), total("s", "d")]
    inputs = {"X": (4, 16), "c": (4, 1)}
    assert names(inlined(operations, inputs, "s")) == ["3(d)"]


@pytest.mark.parametrize(
    ("dtype", "nbytes", "read"),
    [(DType.F16, 63, "X"), (DType.F16, 64, "e"), (DType.F16, 0, "e"), (DType.F32, 1, "e")],
)
def test_exponentials_of_narrow_elements_are_computed_again_where_rows_are_long(
    dtype: DType, nbytes: int, read: str
) -> None:
    """A row has 64 bytes of exponentials."""
    first = Cast("w", "X", F32, (4, 16)) if dtype.is_narrow else unary("w", "X")
    operations = (first, unary("e", "w", Op.EXP), total("s", "e"), binary("o", "e", "e"))
    program = lower(Function((Value("X", dtype, (4, 16)),), ("s", "o"), operations))
    after = run((Inline(narrow_bytes=nbytes), DeadCode()), program)
    assert_same_meaning(program, after)
    (summing,) = (each for each in after.main.blocks if any(view.merges for view in each.refinements))
    assert [view.source for view in summing.refinements if not view.merges] == [read]


def test_long_bodies_are_refused() -> None:
    operations = [*(unary(f"a{n + 1}", f"a{n}") for n in range(8)), total("s", "a8")]
    after = inlined(operations, {"a0": (4, 16)}, "s", inline=Inline(max_statements=6))
    assert len(names(after)) > 1
    assert all(len(block.statements) <= 6 for block in after.main.blocks)


def test_nothing_to_do_is_no_change() -> None:
    program = lower(Function((Value("X", F32, (4, 16)),), ("s",), (total("s", "X"),)))
    assert Inline()(program) is program


@given(programs(12))
@examples(120)
def test_meaning_stays(program: Program) -> None:
    assert_same_meaning(program, run((Inline(), DeadCode(), Accumulate()), program))


PLACES = """function (X[M, N]) -> (R) {{
    T[n : N] = =(X[0, n]);
    D = {place};
    R[m : M] = >(X[m, n] * D[n]);
}}"""


def kernels_of(place: str) -> int:
    graph = infer(parse(PLACES.format(place=place)), {"X": TensorType(DType.I32, (3, 40))})
    program = lower(graph)
    after = run((Inline(), DeadCode()), program)
    assert_same_meaning(program, after)
    return len(after.main.blocks)


def test_values_of_indices_are_computed_wherever_they_are_asked_for() -> None:
    assert kernels_of("index(T, 0)") == 1
    assert kernels_of("N - index(T, 0) * 2") == 1


def test_what_costs_more_than_a_load_is_not_computed_at_every_point() -> None:
    assert kernels_of("index(T, 0) / 3") > 1
    assert kernels_of("((((index(T, 0) + 1) * 5 - 2) * 3 + 7) * 9 - 4) * 11") > 1
    assert kernels_of("T + 1") > 1


PARTS = (SplitReduction(parts=4, operations=0), Canonicalise(merge=False), Inline(), DeadCode())


@pytest.mark.sampled(8)
@pytest.mark.parametrize("shape", [(8, 6), (7, 5), (12, 1), (1, 12), (4, 30), (30, 4)])
@pytest.mark.parametrize("element", ["X * X", "X * G", "X * H", "as_int(X * G + index(X, 0), 16)"])
def test_elements_of_long_sums_are_computed_in_each_part(element: str, shape: tuple[int, int]) -> None:
    """Look at elements along other axes than those that they are made along: rows and columns have to be the same."""
    text = f"function (X[M, N], G[N], H[M, O]) -> (R) {{ E = {element}; R[] = +(E[m, n]); }}"
    types = {"X": shape, "G": (shape[1],), "H": (shape[0], 1)}
    program = lower(infer(parse(text), {name: TensorType(DType.I32, sizes) for name, sizes in types.items()}))
    after = run(PARTS, program)
    assert_same_meaning(program, after)
    assert [buffer.name for buffer in after.buffers if buffer.name.startswith("E")] == []
    assert len(after.main.blocks) == 2


@given(programs(12))
@examples(60)
def test_meaning_stays_in_parts(program: Program) -> None:
    assert_same_meaning(program, run(PARTS, program))


RESIDUAL = """
function (A[M, K], B[K, N], R[M, N], C[N, N]) -> (O) {
    P[i, j : M, N] = +(A[i, k] * B[k, j]);
    X = R + P;
    W = as_float(X, 32);
    S[i, 0 : M, 1] = +(W[i, j]);
    Y = W - S / N;
    Q[i, j : M, N] = +(Y[i, k] * C[k, j]);
    O = X + as_float(Q, 16);
}
"""


@pytest.mark.parametrize(("dtype", "wide"), [(DType.F16, False), (DType.F32, True)])
def test_what_is_in_memory_for_a_later_product_is_widened_where_it_is_read(dtype: DType, wide: bool) -> None:
    """The sum of a row and its deviation read X, which the last sum needs; in f32 nothing is widened, and X is W."""
    types = {name: TensorType(dtype, (8, 8)) for name in "ABR"} | {"C": TensorType(DType.F32, (8, 8))}
    text = RESIDUAL if not wide else RESIDUAL.replace("as_float(X, 32)", "X * 1").replace("as_float(Q, 16)", "Q")
    program = lower(infer(parse(text), types))
    after = run((Inline(), DeadCode()), program)
    assert_same_meaning(program, after)
    assert ("W" in to_text(after).split("main")[0]) is wide


@pytest.mark.parametrize(("outputs", "wide"), [("O", False), ("O, W", True)])
def test_what_sums_read_is_stored_before_it_is_widened(outputs: str, wide: bool) -> None:
    """The sum of a row and its deviation read W: X takes half of its place, unless W is asked for."""
    types = {name: TensorType(DType.F16, (8, 8)) for name in "ABR"} | {"C": TensorType(DType.F32, (8, 8))}
    text = RESIDUAL.replace("O = X +", "O =").replace("-> (O)", f"-> ({outputs})")
    program = lower(infer(parse(text), types))
    after = run((Inline(far=0), DeadCode()), program)
    assert_same_meaning(program, after)
    assert any(r.source == "W" and r.direction.reads for block in after.main.blocks for r in block.refinements) is wide


WEIGHTED = "function (X[M, N], W[N]) -> (O) { O = as_float(X, 32) * as_float(W, 32); }"


def test_a_vector_that_all_rows_share_is_widened_where_it_is_read() -> None:
    types = {"X": TensorType(DType.F16, (8, 8)), "W": TensorType(DType.F16, (8,))}
    program = lower(infer(parse(WEIGHTED), types))
    after = run((Inline(), DeadCode()), program)
    assert_same_meaning(program, after)
    assert len(after.main.blocks) == 1
