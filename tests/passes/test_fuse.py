from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs
import pytest
from hypothesis import given, strategies as st

from strategies.effort import examples
from strategies.passes import assert_same_meaning, program_of, programs
from tileir.core.dtype import DType
from tileir.core.ops import Aggregation, Combination, Op
from tileir.passes.algorithms.accumulate import Accumulate
from tileir.passes.base import map_kernels, run, with_kernels
from tileir.passes.fusion.fuse import Fuse, Fusion
from tileir.passes.pipelines.catalog import parse_pipeline
from tileir.passes.rewrites.localise import Localise
from tileir.passes.rewrites.scalarise import Scalarise
from tileir.poly.affine import Affine
from tileir.stripe.ir import Block, Direction, Program
from tileir.stripe.lower.lowering import lower
from tileir.stripe.text.printer import to_text
from tileir.typed.ir import (
    Access,
    Constraint,
    Contraction,
    Elementwise,
    Function,
    Operation,
    Reshape,
    Value,
)

F32 = DType.F32
ROW, COLUMN, INNER = Affine.index("i"), Affine.index("j"), Affine.index("k")


def fused(
    operations: Sequence[Operation], inputs: Mapping[str, tuple[int, ...]], *outputs: str, fuse: Fuse | None = None
) -> Program:
    """Lower and fuse the operations, and check that the meaning stays."""
    values = tuple(Value(name, F32, shape) for name, shape in inputs.items())
    program = lower(Function(values, outputs, tuple(operations)))
    after = run((Accumulate(), fuse or Fuse()), program)
    assert_same_meaning(program, after)
    return after


def names(program: Program) -> list[str]:
    return [block.name.replace("kernel_", "") for block in program.main.blocks]


def unary(name: str, source: str, shape: tuple[int, ...] = (4, 8), op: Op = Op.NEG) -> Operation:
    return Elementwise(name, op, (source,), F32, shape)


def binary(name: str, one: str, two: str, shape: tuple[int, ...] = (4, 8), op: Op = Op.ADD) -> Operation:
    return Elementwise(name, op, (one, two), F32, shape)


def product(name: str, one: str, two: str, shape: tuple[int, int] = (4, 8)) -> Operation:
    inputs = (Access(one, (ROW, INNER)), Access(two, (INNER, COLUMN)))
    return Contraction(name, (ROW, COLUMN), inputs, Aggregation.SUM, Combination.MUL, F32, F32, F32, shape)


def total(name: str, source: str, size: int = 4) -> Operation:
    return Contraction(
        name, (ROW,), (Access(source, (ROW, COLUMN)),), Aggregation.SUM, Combination.NONE, F32, F32, F32, (size,)
    )


MATRIX = {"X": (4, 8)}
PRODUCT = {"A": (4, 3), "B": (3, 8), "V": (8,), "X": (4, 8)}


def test_a_chain_becomes_one_kernel() -> None:
    after = fused([unary("a", "X"), unary("b", "a"), unary("c", "b")], MATRIX, "c")
    assert names(after) == ["0(X)+1(a)+2(b)"]


def test_far_blocks_are_joined_only_where_no_more_is_kept_in_between() -> None:
    """Of the square of a, which is read again at the end, nothing is kept from the beginning on."""
    sources = ("a", *(f"p{number}" for number in range(8)))
    steps = [
        Contraction(f"p{n}", (ROW, COLUMN), (Access(source, (ROW, INNER)), Access("B", (INNER, COLUMN))),
                    Aggregation.MAX, Combination.ADD, F32, F32, F32, (4, 8))
        for n, source in enumerate(sources)
    ]  # fmt: skip
    late: list[Operation] = [binary("q", "a", "a", op=Op.MUL), binary("o", "p8", "q"), binary("r", "o", "a")]
    operations = [unary("a", "X", op=Op.ABS), *steps, *late]
    inputs = {"X": (4, 8), "B": (8, 8)}
    assert names(fused(operations, inputs, "r"))[-1] == "9(p7,B)+10(a)+11(p8,q)+12(o,a)"
    near = fused(operations, inputs, "r", fuse=Fuse(far=100))
    assert names(near)[0] == "0(X)+10(a)"


def test_a_product_takes_what_follows_it_and_keeps_nothing_in_memory() -> None:
    operations: list[Operation] = [product("T", "A", "B"), binary("U", "T", "V"), binary("Y", "U", "X", op=Op.MAX)]
    after = run((Localise(), Scalarise()), fused(operations, PRODUCT, "Y"))
    (kernel,) = after.main.blocks
    assert kernel.name == "kernel_0(A,B)+kernel_1(T,V)+kernel_2(U,X)"
    assert (
        to_text(kernel).split(") {\n", 1)[1]
        == """\
  0: $T_acc_init = (fp32)0.0
  1: T_acc = store($T_acc_init)
  2: #agg_op_add #comb_op_mul #contraction #reduction
  block [k:3]:3 ( // kernel_0(A,B)
      #contraction in A[0, k] fp32:I(1, 1):(3, 1):4 B, E(1, 3):12 B
      #contraction in B[k, 0] fp32:I(1, 1):(8, 1):4 B, E(3, 1):12 B
      inout T_acc[]:add fp32:I():():4 B, E():4 B
  ) {
    0: $A = load(A)
    1: $B = load(B)
    2: $T = mul($A, $B)
    3: T_acc = store($T)
  }
  3: $T_acc = load(T_acc)
  4: $V = load(V)
  5: $U = add($T_acc, $V)
  6: $X = load(X)
  7: $Y = max($U, $X)
  8: Y = store($Y)
}
"""
    )


def test_producers_of_one_kernel_join_it_from_both_sides() -> None:
    after = fused([unary("a", "X"), product("T", "A", "B"), binary("Y", "a", "T")], PRODUCT, "Y")
    assert names(after) == ["0(X)+1(A,B)+2(a,T)"]
    assert isinstance(after.main.blocks[0].statements[2], Block)


def test_a_result_that_is_needed_elsewhere_is_stored_too() -> None:
    after = fused([unary("a", "X"), unary("b", "a"), total("s", "a")], MATRIX, "a", "b", "s")
    assert names(after) == ["0(X)+1(a)", "2(a)"]
    assert {r.source for r in after.main.blocks[0].refinements if r.direction is Direction.OUT} == {"a", "b"}


def test_reshapes_do_not_stand_in_the_way() -> None:
    operations: list[Operation] = [unary("a", "X"), Reshape("r", "a", F32, (32,)), unary("b", "r", (32,))]
    after = fused(operations, MATRIX, "b")
    (kernel,) = after.main.blocks
    assert [index.range for index in kernel.indices] == [4, 8]


def test_a_linear_kernel_is_split_to_meet_a_later_one() -> None:
    operations: list[Operation] = [unary("a", "X", (32,)), Reshape("r", "a", F32, (4, 8)), binary("b", "r", "V")]
    after = fused(operations, {"X": (32,), "V": (8,)}, "b")
    (kernel,) = after.main.blocks
    assert sorted(index.range for index in kernel.indices) == [4, 8]


def test_transposed_reads_join() -> None:
    transposed: Operation = Contraction(
        "t", (COLUMN, ROW), (Access("a", (ROW, COLUMN)),), Aggregation.ASSIGN, Combination.NONE, F32, F32, F32, (8, 4)
    )
    after = fused([unary("a", "X"), transposed], MATRIX, "t")
    assert names(after) == ["0(X)+1(a)"]


def test_smaller_producers_are_not_computed_again() -> None:
    after = fused([unary("a", "V", (8,)), binary("b", "a", "X")], PRODUCT, "b")
    assert names(after) == ["0(V)", "1(a,X)"]


def test_a_kernel_that_reads_other_elements_stays_apart() -> None:
    after = fused([unary("a", "X"), total("s", "a"), unary("b", "s", (4,))], MATRIX, "b")
    assert names(after) == ["0(X)", "1(a)+2(s)"]


def test_two_reductions_stay_apart() -> None:
    operations: list[Operation] = [total("s", "X"), total("t", "X"), binary("b", "s", "t", (4,))]
    assert names(fused(operations, MATRIX, "b")) == ["0(X)", "1(X)+2(s,t)"]
    assert names(fused(operations, MATRIX, "b", fuse=Fuse(max_reductions=2))) == ["0(X)+1(X)+2(s,t)"]


@pytest.mark.parametrize(("outputs", "kernels"), [(("T", "L"), 2), (("L",), 1)])
def test_copies_in_another_layout_stay_apart_from_what_is_needed_as_it_is(
    outputs: tuple[str, ...], kernels: int
) -> None:
    operations = (unary("T", "A"), unary("L", "T"))
    program = lower(Function((Value("A", F32, (4, 8)),), outputs, operations))
    first, last = program.main.blocks
    copy = attrs.evolve(last, tags=last.tags.add("transpose"))
    after = run((Fuse(),), with_kernels(program, (first, copy)))
    assert len(after.main.blocks) == kernels
    assert_same_meaning(program, after)


def test_a_transposed_copy_stays_apart_where_its_neighbours_are_tested() -> None:
    """The row of a window with a border has constraints, along which no vector could run."""
    window = Contraction(
        "w",
        (ROW, COLUMN),
        (Access("X", (ROW + INNER - 1, COLUMN)),),
        Aggregation.SUM,
        Combination.NONE,
        F32,
        F32,
        F32,
        (4, 8),
        (Constraint(INNER, 3),),
    )
    turned = Contraction(
        "t", (COLUMN, ROW), (Access("w", (ROW, COLUMN)),), Aggregation.ASSIGN, Combination.NONE, F32, F32, F32, (8, 4)
    )
    straight = unary("n", "w")
    assert len(names(fused([window, turned], MATRIX, "t"))) == 2
    assert len(names(fused([window, straight], MATRIX, "n"))) == 1


def column(name: str, source: str) -> Operation:
    access = Access(source, (ROW, COLUMN))
    return Contraction(name, (COLUMN,), (access,), Aggregation.SUM, Combination.NONE, F32, F32, F32, (8,))


def test_sums_of_the_same_elements_join_where_asked_and_then_their_loops() -> None:
    operations: list[Operation] = [column("s", "X"), column("t", "X")]
    beside = Fuse(max_reductions=2, sibling_reductions=True)
    before = fused(operations, MATRIX, "s", "t", fuse=beside)
    (kernel,) = before.main.blocks
    assert len(kernel.blocks) == 2
    after = run((Fuse(parent_reqs=("fused",), sibling_reductions=True),), before)
    (kernel,) = after.main.blocks
    assert len(kernel.blocks) == 1
    assert_same_meaning(before, after)


def test_sums_over_other_boxes_stay_apart() -> None:
    operations: list[Operation] = [column("s", "X"), total("t", "X")]
    beside = Fuse(max_reductions=2, sibling_reductions=True)
    assert len(names(fused(operations, MATRIX, "s", "t", fuse=beside))) == 2


def test_siblings_with_results_of_one_layout_join() -> None:
    operations: list[Operation] = [unary("a", "X"), unary("b", "X", op=Op.ABS)]
    assert names(fused(operations, MATRIX, "a", "b")) == ["0(X)+1(X)"]
    assert names(fused(operations, MATRIX, "a", "b", fuse=Fuse(siblings=False))) == ["0(X)", "1(X)"]


def test_siblings_with_results_of_another_layout_stay_apart() -> None:
    transposed: Operation = Contraction(
        "t", (COLUMN, ROW), (Access("X", (ROW, COLUMN)),), Aggregation.ASSIGN, Combination.NONE, F32, F32, F32, (8, 4)
    )
    assert len(names(fused([unary("a", "X"), transposed], MATRIX, "a", "t"))) == 2


def test_a_kernel_between_that_needs_the_first_keeps_them_apart() -> None:
    spread: Operation = Contraction(
        "s", (ROW, COLUMN), (Access("a", (ROW, INNER)),), Aggregation.SUM, Combination.NONE, F32, F32, F32, (4, 8)
    )
    operations: list[Operation] = [unary("a", "X"), spread, binary("b", "a", "s")]
    assert names(fused(operations, MATRIX, "b")) == ["0(X)", "1(a)+2(a,s)"]


def test_limits_are_kept() -> None:
    chain = [unary(f"a{n + 1}", f"a{n}") for n in range(9)]
    inputs = {"a0": (4, 8)}
    assert len(names(fused(chain, inputs, "a9", fuse=Fuse(max_statements=3)))) == 3
    pairs = [binary(f"b{n + 1}", f"b{n}", f"x{n}") for n in range(9)]
    inputs = {"b0": (4, 8)} | {f"x{n}": (4, 8) for n in range(9)}
    after = fused(pairs, inputs, "b9", fuse=Fuse(max_refs=4))
    assert all(len({r.source for r in kernel.refinements}) <= 7 for kernel in after.main.blocks)
    assert len(names(after)) == 5


def test_only_kernels_with_the_tags_join() -> None:
    operations: list[Operation] = [product("T", "A", "B"), unary("a", "T"), unary("b", "a")]
    after = fused(operations, PRODUCT, "b", fuse=Fuse(a_reqs=("contraction",), fused_set=("epilogue",)))
    assert names(after) == ["0(A,B)+1(T)+2(a)"]
    assert "epilogue" in after.main.blocks[0].tags
    after = fused(operations, PRODUCT, "b", fuse=Fuse(b_reqs=("eltwise_add",)))
    assert len(names(after)) == 3


def test_the_configuration_of_the_stripe_slides() -> None:
    """`fuse_CONV_add` and `fuse_CONV_zelu`: an addition joins the contraction, then the activation that follows."""
    step = "fuse{{a_reqs=CONV,b_reqs=eltwise_{0},fused_set=CONV}}"
    pipeline = parse_pipeline(f"{step.format('add')},{step.format('max')}")
    operations: list[Operation] = [
        product("T", "A", "B"),
        binary("U", "T", "V"),
        binary("Y", "U", "X", op=Op.MAX),
        unary("Z", "X"),
    ]
    values = tuple(Value(name, F32, shape) for name, shape in PRODUCT.items())
    program = lower(Function(values, ("Y", "Z"), tuple(operations)), "network")
    located = map_kernels(Accumulate()(program), lambda k: attrs.evolve(k, tags=k.tags.add("CONV")), ("contraction",))
    after = run(pipeline, located)
    assert_same_meaning(program, after)
    assert names(after) == ["0(A,B)+1(T,V)+2(U,X)", "3(X)"]
    assert [("CONV" in kernel.tags) for kernel in after.main.blocks] == [True, False]


def test_nothing_to_join_is_no_change() -> None:
    program = lower(Function((Value("X", F32, (4, 8)),), ("s",), (total("s", "X"),)))
    explicit = Accumulate()(program)
    assert Fuse()(explicit) is explicit


def copying(source: str, target: str, constraint: str = "") -> str:
    return f"""
block [i:4]:4 (
  {constraint}
  in {source}[i] fp32:I(1):(1):4 B
  out {target}[i] fp32:I(1):(1):4 B
) {{
  0: $x = load({source})
  1: {target} = store($x)
}}
"""


def test_overwriting_stays_in_order() -> None:
    kernels = [copying("X", "T"), copying("T", "O"), copying("Y", "T"), copying("T", "P")]
    program = program_of(kernels, dict.fromkeys("XYTOP", (4,)), ("O", "P"))
    after = run((Fuse(), Localise(), Scalarise()), program)
    assert len(after.main.blocks) == 1
    assert_same_meaning(program, after)


def test_kernels_whose_constraints_differ_stay_apart() -> None:
    kernels = [copying("Y", "T"), copying("X", "T", "1 - i >= 0"), copying("T", "O")]
    program = program_of(kernels, dict.fromkeys("XYTO", (4,)))
    after = run((Fuse(),), program)
    assert after is program


@pytest.mark.sampled(0)
@pytest.mark.parametrize("count", [1000, 2000])
def test_long_chains_take_time_in_proportion(count: int) -> None:
    operations = tuple(unary(f"a{n + 1}", f"a{n}") for n in range(count))
    program = lower(Function((Value("a0", F32, (4, 8)),), (f"a{count}",), operations))
    after = Fuse()(program)
    assert len(after.main.blocks) == -(-count // 128)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("options", [Fuse(), Fuse(max_reductions=3), Fuse(siblings=False)], ids=str)
@given(program=programs(12))
@examples(60)
def test_meaning_stays(options: Fuse, program: Program) -> None:
    assert_same_meaning(program, run((Accumulate(), options), program))


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "options",
    [
        Fusion(),
        Fusion(rows=True, least_row=2),
        Fusion(siblings=False, no_constraints=True, inner_remove_set=("eltwise",), a_inner_set=("a",)),
        Fusion(output_match=True, no_inner=True),
        Fusion(least_points=1000),
        Fuse(sibling_reductions=True, max_reductions=8),
    ],
    ids=str,
)
@given(program=programs(12), flat=st.booleans())
@examples(60)
def test_meaning_stays_where_indices_are_shared(options: Fuse, program: Program, flat: bool) -> None:
    before = () if flat else (Accumulate(),)
    inside = Fuse(parent_reqs=("fused",), sibling_reductions=options.sibling_reductions)
    after = run((*before, options, inside, Localise(), Scalarise()), program)
    assert_same_meaning(program, after)


def test_limits_must_be_positive() -> None:
    with pytest.raises(ValueError, match="max_statements must be at least 1"):
        Fuse(max_statements=0)
