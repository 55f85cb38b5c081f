from __future__ import annotations

import pytest

from strategies.passes import program_of
from tileir.passes.regions.tile import tiled
from tileir.stripe.aliases import Aliases
from tileir.stripe.check.scope import enter
from tileir.stripe.ir import Block
from tileir_accelerators.placement.stored import overhangs, stores_all

BLOCK = """
block [i:{i}, j:{j}, k:3]:1 ( // test
    {constraint}
    in X[0] fp32:I(1):(1):4 B
    out O[{access}]:add fp32:I(1, 1):(6, 1):4 B
) {{
  0: $x = load(X)
  1: O = store($x)
}}
"""


def aliases_of(text: str) -> tuple[Aliases, Block]:
    program = program_of([text], {"X": (1,), "O": (4, 6)})
    main = enter(program.main, enter(program.entry, None, 0), 0)
    return Aliases(main), program.main.blocks[0]


@pytest.mark.parametrize(
    ("ranges", "access", "constraint", "expected"),
    [
        ((4, 6), "i, j", "", True),
        ((4, 6), "i, 5 - j", "", True),
        ((4, 3), "i, 2*j", "", False),
        ((4, 2), "i, 3*j + k", "", True),
        ((4, 6), "i, j", "k - 1 >= 0", True),
        ((4, 6), "i, j", "3 - i - k >= 0", True),
        ((4, 6), "i, j", "2 - i >= 0", False),
        ((3, 6), "i, j", "", False),
        ((4, 6), "i, i", "", False),
        ((4, 4), "i, i + j", "", False),
    ],
)
def test_what_a_block_surely_writes(ranges: tuple[int, int], access: str, constraint: str, expected: bool) -> None:
    text = BLOCK.format(i=ranges[0], j=ranges[1], access=access, constraint=constraint)
    aliases, block = aliases_of("\n".join(line for line in text.splitlines() if line.strip()))
    assert stores_all(aliases, block, "O") is expected


def test_elements_beyond_the_edge_do_not_count() -> None:
    text = BLOCK.format(i=4, j=6, access="i, j", constraint="")
    program = program_of(["\n".join(line for line in text.splitlines() if line.strip())], {"X": (1,), "O": (4, 6)})
    outer = tiled(program.main.blocks[0], (3, 6, 3))
    main = enter(program.main, enter(program.entry, None, 0), 0)
    aliases = Aliases(enter(outer, main, 0))
    assert overhangs(aliases, "O") == (0,)
    assert stores_all(aliases, outer.blocks[0], "O")


def test_some_indices_only_need_some_values() -> None:
    text = BLOCK.format(i=4, j=6, access="i, j", constraint="i + k - 1 >= 0")
    program = program_of([text], {"X": (1,), "O": (4, 6)})
    outer = tiled(program.main.blocks[0], (4, 6, 1))
    main = enter(program.main, enter(program.entry, None, 0), 0)
    aliases = Aliases(enter(outer, main, 0))
    assert not stores_all(aliases, outer.blocks[0], "O")
    assert stores_all(aliases, outer.blocks[0], "O", ("3:k",))
