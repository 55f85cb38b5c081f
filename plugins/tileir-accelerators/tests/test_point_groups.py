"""Several points of a block as one: the work stays the same, and what points do not share has names of its own."""

from __future__ import annotations

import attrs
import pytest

from strategies.passes import assert_same_meaning, program_of
from tileir.stripe.check.verifier import verify
from tileir.stripe.flattening import with_entry
from tileir.stripe.ir import Block, Program
from tileir.stripe.text.parser import parse_block
from tileir_accelerators.placement.point_groups import grouped

POINTS = """
block [i:4, j:6]:24 (
  {constraint}
  in X[i, j] fp32:I(1, 1):(6, 1):4 B
  in S[0] fp32:I(1):(1):4 B
  out O[{out}] fp32:I(1, 1):(6, 1):4 B
  none new@0x00000000 T[0] fp32:I(1):(1):4 B
) {{
  0: $a = load(X)
  1: T = store($a)
  2: $b = load(T)
  3: $s = load(S)
  4: $c = add($b, $s)
  5: O = store($c)
}}
"""


def program(constraint: str = "", out: str = "i, j") -> Program:
    return program_of([POINTS.format(constraint=constraint, out=out)], {"X": (4, 6), "S": (1,), "O": (4, 6)})


def with_kernel(program: Program, kernel: Block) -> Program:
    main = attrs.evolve(program.main, statements=(kernel,))
    return with_entry(program, attrs.evolve(program.entry, statements=(main,)))


def ranges(block: Block) -> dict[str, int]:
    return {index.name: index.range for index in block.indices}


@pytest.mark.parametrize(
    ("depth", "expected"),
    [(2, {"i": 4, "j": 3}), (3, {"i": 4, "j": 2}), (6, {"i": 4, "j": 1}), (4, {"i": 1, "j": 6})],
)
def test_the_last_index_that_can_be_divided_is(depth: int, expected: dict[str, int]) -> None:
    before = program()
    kernel = grouped(before.main.blocks[0], depth)
    assert ranges(kernel) == expected
    assert "pipeline_depth" in kernel.tags
    assert dict(kernel.tags.items)["pipeline_depth"] == depth
    assert len(kernel.statements) == 6 * depth
    after = with_kernel(before, kernel)
    verify(after)
    assert_same_meaning(before, after)


def test_points_share_the_views_that_do_not_move_and_nothing_else() -> None:
    kernel = grouped(program().main.blocks[0], 2)
    assert [view.name for view in kernel.refinements] == ["X", "S", "O", "T", "X_1", "O_1", "T_1"]
    assert [str(kernel.refinement(name).access[1]) for name in ("X", "X_1", "O", "O_1")] == ["2*j", "1 + 2*j"] * 2


@pytest.mark.parametrize("depth", [1, 5])
def test_what_cannot_be_divided_is_returned_itself(depth: int) -> None:
    block = program().main.blocks[0]
    assert grouped(block, depth) is block


def test_indices_that_constraints_test_or_that_are_handed_down_stay() -> None:
    text = POINTS.format(constraint="4 - j >= 0", out="i, j").strip()
    assert ranges(grouped(parse_block(f"0: {text}"), 2)) == {"i": 2, "j": 6}
    block = program().main.blocks[0]
    fixed = tuple(attrs.evolve(i, tags=i.tags.add("unit")) if i.name == "j" else i for i in block.indices)
    assert ranges(grouped(attrs.evolve(block, indices=fixed), 2)) == {"i": 2, "j": 6}


def test_indices_whose_values_share_elements_of_a_result_stay() -> None:
    text = POINTS.format(constraint="", out="i, j").replace("I(1, 1):(6, 1):4 B\n  none", "I(1, 2):(6, 1):8 B\n  none")
    assert ranges(grouped(parse_block(f"0: {text.strip()}"), 2)) == {"i": 2, "j": 6}
