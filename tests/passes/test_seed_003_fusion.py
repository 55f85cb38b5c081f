"""The slide 'Stripe: Fusing Contractions': two convolutions, the first one's result kept near for the second.

The slide's text is not of one piece:

- Its second contraction is written with a window (`O1[i + x, j + y, ci] * K2[i, j, ci, co]`), but has no indices `i`
  and `j`, and reads `K2[0, 0, ci, co]`. Ours is the 1 x 1 convolution that the indices say.
- What it shows as the result of `fusion` alone is cut into 16 channels of `O1` before, as `tensorize` does for the unit
  that the tag `CONV` stands for: here, `tile` does so.
- It prints `co:8` outside, which counts the tiles of `O1`'s channels, and `[ci:64, co:16]` for the second block inside,
  whose reduction goes over the 16 channels of a tile, and whose 128 outputs are merged over all tiles. We print
  `[ci:16, co:128]`, and `O2` merges outside too.
- Its local `O1` has strides of 16 along all axes; ours has those of a tile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from strategies.passes import assert_same_meaning
from tileir.core.dtype import DType
from tileir.passes.base import map_kernels, run
from tileir.passes.fusion.fuse import Fusion
from tileir.passes.pipelines.catalog import load_pipeline
from tileir.passes.regions.tile import tiled
from tileir.passes.rewrites.canonicalise import Canonicalise
from tileir.passes.rewrites.localise import Localise
from tileir.stripe.ir import Tags
from tileir.stripe.lower.lowering import lower
from tileir.stripe.text.printer import to_text
from tileir.tile.text.parser import parse
from tileir.typed.inference.inference import infer
from tileir.typed.ir import TensorType

if TYPE_CHECKING:
    from collections.abc import Callable

    from tileir.stripe.ir import Block, Program

CONVOLUTIONS = """function (In[X, Y, CI], K1[I, J, CI, CO1], K2[P, Q, CO1, CO2]) -> (O2) {
    O1[x, y, co : X, Y, CO1] = +(In[x + i - 1, y + j - 1, ci] * K1[i, j, ci, co]);
    O2[x, y, co : X, Y, CO2] = +(O1[x, y, ci] * K2[0, 0, ci, co]);
}"""
JSON = """[
  {"name": "fuse_CONV", "fusion": {"a_reqs": ["CONV"], "b_reqs": ["CONV"], "fused_set": ["CONV", "fused"]}}
]"""


def convolutions(size: int, channels: tuple[int, int, int]) -> Program:
    first, middle, last = channels
    shapes = {"In": (size, size, first), "K1": (3, 3, first, middle), "K2": (1, 1, middle, last)}
    types = {name: TensorType(DType.F32, shape) for name, shape in shapes.items()}
    return lower(infer(parse(CONVOLUTIONS), types))


def cut(program: Program, width: int) -> Program:
    """Cut the channels of O1 into tiles, in the contraction that makes them and in the one that reads them."""

    def tiles(kernel: Block) -> Block:
        channel = "co" if any(r.source == "In" for r in kernel.refinements) else "ci"
        sizes = [1 if i.name in "xy" else width if i.name == channel else i.range for i in kernel.indices]
        return tiled(kernel, sizes, outer_set=("CONV",))

    return map_kernels(program, tiles)


def test_the_convolutions_of_the_slide(golden: Callable[[str], None]) -> None:
    before = convolutions(100, (64, 128, 128))
    units = run((Canonicalise(),), cut(before, 16))
    after = run((*load_pipeline(JSON), Localise()), units)
    (kernel,) = after.main.blocks
    golden("BEFORE\n" + "\n".join(map(to_text, before.main.blocks)) + f"\nAFTER\n{to_text(kernel)}")


def test_the_convolutions_mean_the_same() -> None:
    before = convolutions(4, (2, 6, 3))
    whole = {r.name: r.shape.sizes for r in before.entry.refinements}
    random = np.random.default_rng(3)
    arrays = {name: random.integers(-3, 4, whole[name]).astype(np.float32) for name in before.inputs}
    after = run((*load_pipeline(JSON), Localise()), cut(before, 2))
    assert len(after.main.blocks) == 1
    assert "O1" not in {r.name for r in after.entry.refinements}
    assert_same_meaning(before, after, arrays)


def test_uncut_convolutions_join_by_element() -> None:
    """All that the second one needs of one element of the first are the outputs that it adds to."""
    before = convolutions(4, (2, 6, 3))
    (kernel,) = run((Fusion(), Localise()), before).main.blocks
    assert [index.range for index in kernel.indices] == [6, 4, 4]
    assert [sorted(i.range for i in b.indices if i.affine is None) for b in kernel.blocks] == [[2, 3, 3], [3]]


STEPS = """[
  {"name": "fuse_CONV_add", "fusion": {"a_reqs": ["CONV"], "b_reqs": ["eltwise_add"], "fused_set": ["CONV"]}},
  {"name": "fuse_CONV_zelu", "fusion": {"a_reqs": ["CONV"], "b_reqs": ["eltwise_max"], "fused_set": ["CONV"]}},
  {"name": "fuse_CONV", "fusion": {"parent_reqs": ["CONV"], "fused_set": ["CONV_inner"]}}
]"""


def test_what_follows_a_convolution_runs_in_its_tiles() -> None:
    """The steps of the slide 'Stripe: Optimizer Config', on a convolution that is cut into tiles, with a bias."""
    text = """function (In[X, Y, CI], K[I, J, CI, CO], B[CO]) -> (R) {
        O[x, y, co : X, Y, CO] = +(In[x + i - 1, y + j - 1, ci] * K[i, j, ci, co]);
        S = O + B;
        R = max(S, 0.0);
    }"""
    types = {"In": (8, 8, 3), "K": (3, 3, 3, 4), "B": (4,)}
    before = lower(infer(parse(text), {name: TensorType(DType.F32, shape) for name, shape in types.items()}))
    sizes = {"x": 4, "y": 4}

    def tiles(kernel: Block) -> Block:
        outputs = [i for i in kernel.indices if "contraction" not in kernel.tags]
        split = [4 if i.name in sizes or i in outputs[:2] else i.range for i in kernel.indices]
        return tiled(kernel, split, ("CONV",) if "contraction" in kernel.tags else (), Tags.of("inner"))

    cut_up = run((Canonicalise(merge=False),), map_kernels(before, tiles))
    after = run(load_pipeline(STEPS), cut_up)
    (kernel,) = after.main.blocks
    assert "CONV" in kernel.tags
    assert len(kernel.blocks) == 2  # the convolution, which merges its sums, and what follows, joined
    assert "CONV_inner" in kernel.blocks[1].tags
    random = np.random.default_rng(1)
    arrays = {name: random.integers(-3, 4, shape).astype(np.float32) for name, shape in types.items()}
    assert_same_meaning(before, after, arrays)
