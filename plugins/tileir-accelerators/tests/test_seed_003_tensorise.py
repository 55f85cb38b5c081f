"""The slide 'Stripe: Tensorization': a convolution of bytes, split for a unit that multiplies 4 x 4 x 16 at a time.

The slide's text is not of one piece, and the reference's notes on stencils settle what it means:

- It cuts `co` into 16 (`16*co` among the accesses), but prints the range 1 outside and 64 inside. We print 4 and 16.
- It prints `kx:1, ky:1` outside and 3 inside, but lets the outer indices move the accesses (`kx + 4*x`). Indices that
  no stencil names are loops around the micro-kernel: 3 outside, 1 inside.
- It shows the second stencil up to `i2` only, with `ins: [0, -1]`, which no index of the convolution but `co` fits
  beside `i1` for `x`; its result cuts `x` and `y` by 4 and `co` by 16. We complete it so that it gives that result.
- The sizes and strides of tiles are mixed up there (`4:65536` is the tile's size, `16:32` another tensor's stride), and
  the test for the padding, `-1 + kx + x`, stands inside only: as a constraint, in ours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileir.core.dtype import DType
from tileir.passes.base import run, unnamed
from tileir.passes.pipelines.catalog import load_pipeline, parse_pipeline
from tileir.passes.pipelines.pipeline import to_json, to_text as pipeline_text
from tileir.stripe.lower.lowering import lower
from tileir.stripe.text.printer import to_text
from tileir.tile.text.parser import parse
from tileir.typed import ir as typed
from tileir.typed.inference.inference import infer
from tileir_accelerators.tiling.tensorise import Stencil, StencilIndex, Tensorise

if TYPE_CHECKING:
    from collections.abc import Callable

CONVOLUTION = (
    "function (I[X, Y, C1], K1[KX, KY, C1, C2]) -> (O1) "
    "{ O1[x, y, co : X, Y, C2] = +(I[x + kx - 1, y + ky - 1, ci] * K1[kx, ky, ci, co]); }"
)
ROWS_OF_32 = Stencil((StencilIndex("i1", 32, (-1,), (-1, 0)), StencilIndex("c", -1, (0,), (-1, -1))))
SQUARES_OF_4 = Stencil(
    (
        StencilIndex("i1", 4, (-1,), (-1, 0)),
        StencilIndex("i2", 4, (-1,), (-1, 0)),
        StencilIndex("o", 16, (-1,), (0, -1)),
        StencilIndex("c", -1, (0,), (-1, -1)),
    )
)
SLIDE = Tensorise(
    reqs=("agg_op_add", "comb_op_mul"),
    outer_set=("CONV",),
    inner_set=("CONV_inner",),
    stencils=(ROWS_OF_32, SQUARES_OF_4),
)


SLIDE_JSON = """[{ "name": "to_conv", "tensorize": {
    "reqs": [ "agg_op_add", "comb_op_mul" ], "outer_set": [ "CONV" ], "inner_set": [ "CONV_inner" ],
    "stencils": [
        {"idxs": [{ "name": "i1", "size": 32, "outs": [-1], "ins": [-1, 0] },
                  { "name": "c", "size": -1, "outs": [ 0 ], "ins": [-1, -1] }]},
        {"idxs": [{ "name": "i1", "size": 4, "outs": [-1], "ins": [-1, 0] },
                  { "name": "i2", "size": 4, "outs": [-1], "ins": [ 0, -1] }]}] } }]"""


def test_the_json_of_the_slide_loads_as_it_stands() -> None:
    (step,) = load_pipeline(SLIDE_JSON)
    tensorise = unnamed(step)
    assert isinstance(tensorise, Tensorise)
    assert tensorise.stencils[0] == ROWS_OF_32
    assert tensorise.stencils[1].idxs[1] == StencilIndex("i2", 4, (-1,), (0, -1))
    assert tensorise.inner_set == ("CONV_inner",)
    assert load_pipeline(to_json((step,))) == (step,)
    assert parse_pipeline(pipeline_text((step,))) == (step,)


def test_the_convolution_of_the_slide(golden: Callable[[str], None]) -> None:
    shapes = {"I": (1024, 1024, 32), "K1": (3, 3, 32, 64)}
    types = {name: typed.TensorType(DType.I8, shape) for name, shape in shapes.items()}
    before = lower(infer(parse(CONVOLUTION), types))
    after = run((SLIDE,), before)
    golden(f"BEFORE\n{to_text(before.main.blocks[0])}\nAFTER\n{to_text(after.main.blocks[0])}")
