from __future__ import annotations

import numpy as np
import pytest

from strategies.passes import assert_same_meaning
from tileir.core.dtype import DType
from tileir.passes.algorithms.split_scatter import SplitScatter
from tileir.passes.base import run
from tileir.stripe.ir import Program
from tileir.stripe.lower.lowering import lower
from tileir.tile.text.parser import parse
from tileir.typed.inference.inference import infer
from tileir.typed.ir import TensorType

SPLIT = SplitScatter(parts=64)


def scattering(updates: tuple[int, ...], rest: tuple[int, ...], size: int, dtype: DType = DType.F32) -> Program:
    """Return a program that adds ``[*updates, *rest]`` into ``[size, *rest]``."""
    shapes = {"D": (*updates, *rest), "I": updates, "T": (size, *rest)}
    dtypes = {"D": dtype, "I": DType.I32, "T": dtype}
    inputs = ", ".join(f"{name}[{', '.join(f'{name}{n}' for n in range(len(s)))}]" for name, s in shapes.items())
    function = parse(f"function ({inputs}) -> (R) {{ R = scatter(D, I, T); }}")
    return lower(infer(function, {name: TensorType(dtypes[name], shape) for name, shape in shapes.items()}))


def values(program: Program) -> dict[str, np.ndarray]:
    """Return small integers, whose sums are exact, and places of which some are outside."""
    found: dict[str, np.ndarray] = {}
    random = np.random.default_rng(0)
    for view in program.entry.refinements:
        if view.name in ("D", "I", "T"):
            sizes = view.shape.sizes
            size = next(r.shape.sizes[0] for r in program.entry.refinements if r.name == "T")
            drawn = random.integers(-2, size + 2, sizes) if view.name == "I" else random.integers(0, 4, sizes)
            found[view.name] = drawn.astype(view.shape.dtype.numpy)
    return found


@pytest.mark.parametrize("dtype", [DType.F32, DType.F16, DType.I32])
@pytest.mark.parametrize(
    ("updates", "rest", "size"),
    [((96,), (), 3), ((97,), (), 5), ((1,), (), 1), ((12, 9), (), 4), ((50,), (3,), 2), ((31,), (2, 3), 1)],
)
def test_parts_and_their_sum_keep_the_meaning(
    updates: tuple[int, ...], rest: tuple[int, ...], size: int, dtype: DType
) -> None:
    program = scattering(updates, rest, size, dtype)
    assert_same_meaning(program, run((SPLIT,), program), values(program))


def test_each_part_has_a_table_of_its_own() -> None:
    program = run((SPLIT,), scattering((100,), (), 3))
    clear, partial, merge = program.main.blocks
    (tables,) = [r for r in program.entry.refinements if "tmp" in r.tags]
    assert (tables.name, tables.shape.sizes, tables.shape.strides) == ("R_parts", (3, 8), (1, 3))
    assert [(i.name, i.range) for i in partial.indices] == [("i1_part", 8), ("i1", 13)]
    assert len(partial.constraints) == 1  # 8 times 13 are more than 100
    assert "fill" in clear.tags
    assert merge.name.endswith("_merge")


@pytest.mark.parametrize(
    ("program", "split"),
    [
        (scattering((100,), (), 3), SplitScatter(parts=1)),  # one thread
        (scattering((100,), (), 13), SPLIT),  # a second table would take as long as it saves
        (scattering((100,), (40,), 3), SPLIT),  # columns enough for all threads
        (scattering((1,), (), 1), SPLIT),
    ],
)
def test_others_stay_whole(program: Program, split: SplitScatter) -> None:
    assert run((split,), program) is program
