"""The slides 'Stripe: Auto-Tile': a table of candidates with their costs, and a convolution of bytes before and after.

The slides leave the weights of the cost open, and no weights of the published formula make their tile the cheapest of
all that fit the same memory: a row of 64 in the place of the square of 8 by 8 touches fewer cache lines of the result.
So the five tiles of the table are the candidates here. With weights that favour sizes with many factors (which is what
makes a tile easy to cut up further), the formula puts them in the order of the slide, and the cheapest of them is the
tile of its AFTER.

Other differences: the slide gives the strides of the weights as `32:1, 64:32`, input channels next to each other, which
we say by the order of axes, `K1[kx, ky, co, ci]`; it drops the test for the padding;
`<Elided memory xfers>` are the pass `cache`'s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileir.core.dtype import DType
from tileir.passes.base import run
from tileir.passes.pipelines.catalog import load_pipeline
from tileir.stripe.lower.lowering import lower
from tileir.stripe.text.printer import to_text
from tileir.tile.text.parser import parse
from tileir.typed import ir as typed
from tileir.typed.inference.inference import infer
from tileir_accelerators.placement.locate import Place
from tileir_accelerators.tiling.autotile import Autotile
from tileir_accelerators.tiling.search import best_tiles, table

if TYPE_CHECKING:
    from collections.abc import Callable

    from tileir.stripe.ir import Program

CONVOLUTION = (
    "function (I[X, Y, C1], K1[KX, KY, C2, C1]) -> (O1) "
    "{ O1[co, x, y : C2, X, Y] = +(I[x + kx - 1, y + ky - 1, ci] * K1[kx, ky, co, ci]); }"
)
INDICES = ("kx", "ky", "ci", "co", "x", "y")
TABLE = {
    (1, 1, 32, 4, 8, 8): 120,
    (1, 1, 16, 8, 8, 8): 140,
    (1, 1, 32, 5, 4, 4): 270,
    (3, 3, 32, 1, 6, 6): 310,
    (3, 3, 16, 1, 9, 9): 340,
}


def program() -> Program:
    shapes = {"I": (256, 256, 32), "K1": (3, 3, 64, 32)}
    return lower(infer(parse(CONVOLUTION), {n: typed.TensorType(DType.I8, shape) for n, shape in shapes.items()}))


def options(before: Program) -> Autotile:
    """Return the options of the slide for the block of ``before``, whose indices are sorted by name."""
    order = [INDICES.index(index.name) for index in before.main.blocks[0].indices]
    return Autotile(
        reqs=("contraction",),
        outer_set=("conv",),
        inner_set=("conv_inner",),
        only_po2=False,
        memory=(Place("SRAM", (0,)),),
        memory_bytes=4096,
        input_cost=0.0,
        output_cost=0.1,
        split_factor=0.1,
        factor_bound=2,
        candidates=tuple(tuple(sizes[position] for position in order) for sizes in TABLE),
        loc=(Place("CONV", (0,)),),
    )


SLIDE_JSON = """[{ "autotile": {
    "reqs" : ["conv"], "outer_set" : ["conv"], "inner_set" : ["conv_inner"],
    "only_po2" : false,
    "memory" : "SRAM" // "pipeline_depth" : 2
} }]"""


def test_the_json_of_the_slide_loads_as_it_stands() -> None:
    (step,) = load_pipeline(SLIDE_JSON)
    assert step == Autotile(("conv",), ("conv",), ("conv_inner",), memory=(Place("SRAM"),))


def test_the_order_of_the_table(golden: Callable[[str], None]) -> None:
    before = program()
    block = before.main.blocks[0]
    found = best_tiles(block, options(before), 5)
    names = [index.name for index in block.indices]
    rows = [tuple(choice.sizes[names.index(name)] for name in INDICES) for choice in found]
    assert rows == sorted(TABLE, key=lambda sizes: TABLE[sizes])
    golden(table(block, found, order=INDICES) + "\n")


def test_the_convolution_of_the_slide(golden: Callable[[str], None]) -> None:
    before = program()
    after = run((options(before),), before)
    golden(f"BEFORE\n{to_text(before.main.blocks[0])}\nAFTER\n{to_text(after.main.blocks[0])}")
