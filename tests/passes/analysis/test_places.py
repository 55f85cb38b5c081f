from __future__ import annotations

import attrs

from strategies.kernels import stripe_program
from strategies.passes import program_of
from tileir.passes.analysis.places import Level, keeps_axes
from tileir.passes.base import run
from tileir.passes.regions.tile import Tile
from tileir.poly.affine import Affine
from tileir.stripe.ir import Dim, Index


def levels() -> tuple[Level, Level, Level]:
    """Return main, a kernel of tiles, and the tile."""
    program = run((Tile((8, 16, 4)),), stripe_program("matmul"))
    main = Level(program.main)
    kernel = Level(program.main.blocks[0], main)
    return main, kernel, Level(kernel.block.blocks[0], kernel)


def test_values_count_from_outside_inwards() -> None:
    _, kernel, tile = levels()
    assert kernel.counters == {"1:i": 3, "1:j": 3, "1:k": 3}
    assert {name: size for name, size in tile.counters.items() if name not in kernel.counters} == {
        "2:i": 8, "2:j": 16, "2:k": 4,
    }  # fmt: skip
    assert tile.values["i_tile"] == Affine.index("1:i")
    assert tile.constraints()[0] == Affine.of({"1:i": -8, "2:i": -1}, 18)


def test_places_are_in_whole_tensors() -> None:
    main, kernel, tile = levels()
    place = tile.place(tile.block.refinement("A"))
    assert place is not None
    assert place.access == (Affine.of({"1:i": 8, "2:i": 1}), Affine.of({"1:k": 4, "2:k": 1}))
    assert place.sizes == (19, 11)
    assert tile.root(tile.view("A")) == kernel.root(kernel.view("A")) == main.root(main.view("A")) == (-1, "A")


def test_other_axes_on_the_way_have_no_place() -> None:
    _, kernel, tile = levels()
    view = tile.view("A")
    other = attrs.evolve(view, shape=attrs.evolve(view.shape, dims=(Dim(1, 1), Dim(1, 11))))
    assert tile.place(other) is None
    assert kernel.place(kernel.view("A")) is not None


def test_local_values_use_what_is_there_and_ask_for_the_rest() -> None:
    main, kernel, _ = levels()
    bare = attrs.evolve(kernel.block.blocks[0], indices=(Index("i", 8), Index("handed", 1, Affine.index("j"))))
    tile = Level(bare, kernel)
    wanted = Affine.of({"1:i": 8, "1:j": 2, "2:i": 1}, 5)
    assert tile.local(wanted) == Affine.of({"i": 1, "handed": 2, "i_0": 8}, 5)
    assert tile.passed == [Index("i_0", 1, Affine.index("i"))]
    assert tile.local(Affine.index("1:i")) == Affine.index("i_0")
    assert kernel.passed == main.passed == []


def test_values_from_far_above_are_handed_on_by_all_between() -> None:
    _, kernel, tile = levels()
    between = Level(attrs.evolve(tile.block, indices=(Index("a", 2),)), kernel)
    inner = Level(attrs.evolve(tile.block, indices=(Index("b", 2),)), between)
    assert inner.local(Affine.index("1:k")) == Affine.index("k")
    assert between.passed == [Index("k", 1, Affine.index("k"))]
    assert inner.passed == [Index("k", 1, Affine.index("k"))]


def test_a_view_that_leaves_an_axis_shows_another_shape() -> None:
    program = program_of(
        [
            "block [i:9]:9 (\n in A[0, i] fp32:I(1, 1):(9, 1)\n out O[0, i] fp32:I(1, 1):(9, 1)\n) "
            "{\n 0: $a = load(A)\n 1: O = store($a)\n}"
        ],
        {"A": (3, 3), "O": (1, 9)},
    )
    main = Level(program.main)
    kernel = Level(program.main.blocks[0], main)
    assert kernel.place(kernel.view("A")) is None
    assert kernel.place(kernel.view("O")) is not None
    assert not keeps_axes(kernel.block, kernel.view("A"), main.view("A"))
