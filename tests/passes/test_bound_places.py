from __future__ import annotations

import numpy as np
import pytest

import tileir
from strategies.passes import assert_same_meaning
from tileir.core.dtype import DType
from tileir.passes.base import run
from tileir.passes.pipelines.catalog import parse_pipeline
from tileir.passes.rewrites.bound_places import BoundPlaces
from tileir.stripe.ir import INSIDE, Block, Load, Program
from tileir.stripe.lower.lowering import lower
from tileir.typed.inference.inference import infer
from tileir.typed.ir import TensorType

TYPES = {"X": TensorType(DType.F32, (7, 3)), "I": TensorType(DType.I32, (5,))}


def choosing(block: Block) -> list[Load]:
    mine = [s for s in block.statements if isinstance(s, Load) and s.index is not None]
    return mine + [load for inner in block.blocks for load in choosing(inner)]


def program_of(places: str) -> Program:
    text = f"function (X[N, C], I[M]) -> (Y) {{ P = {places}; Y = gather(X, P); }}"
    return lower(infer(tileir.parse(text), TYPES))


@pytest.mark.parametrize("places", ["index(I, 0)", "index(I, 0) + 2"])
def test_places_that_coordinates_decide_choose_nothing(places: str) -> None:
    assert not choosing(program_of(places).main)


@pytest.mark.sampled(12)
@pytest.mark.parametrize(
    ("places", "inside"),
    [
        ("max(min(I, 6), 0)", True),
        ("min(max(I, 0), 6)", True),
        ("max(min(I, 7), 0)", False),
        ("max(min(I, 6), -1)", False),
        ("min(I, 6)", False),
        ("I", False),
        ("abs(mod(I, 7))", True),
        ("abs(mod(I, 8))", False),
        ("mod(max(I, 0), 7)", True),
        ("mod(I, 7)", False),
        ("max(min(I, 2), 0) * 2 + max(min(I, 2), 0)", True),
        ("max(min(I, 2), 0) * 3 + max(min(I, 2), 0)", False),
        ("max(min(I, 2), 0) - max(min(I, 1), 0)", False),
        ("3 - max(min(I, 2), -3)", True),
        ("-max(min(I, 0), -6)", True),
        ("I > 3 ? 6 : 0", True),
        ("I > 3 ? 6 : 7", False),
        ("I > 3 ? I : 0", False),
        ("max(min(as_i32(I * 0.5), 6), 0)", True),
        ("as_u8(max(min(I, 6), 0))", True),
        ("as_i8(max(min(I, 300), 294))", False),
        ("index(I, 0) + 3", False),
        # It wraps: the greatest number and one more is the least.
        ("max(I, 0) + 1", False),
        ("max(min(max(I, 2147483647) + 1, 6), 0)", True),
    ],
)
@pytest.mark.parametrize("steps", ["", "constant_propagate", "fuse, localise, scalarise"])
def test_places_that_are_surely_inside_are_tagged(places: str, inside: bool, steps: str) -> None:
    program = run(parse_pipeline(steps), program_of(places))
    after = BoundPlaces()(program)
    (load,) = choosing(after.main)
    assert (INSIDE in load.tags) == inside
    rows = np.arange(21, dtype=np.float32).reshape(7, 3)
    assert_same_meaning(program, after, {"X": rows, "I": np.array([-(2**31), -4, 3, 6, 2**31 - 1], np.int32)})


def test_a_tensor_of_which_a_part_can_be_anything_bounds_nothing() -> None:
    text = """function (X[N, C], I[M]) -> (Y) {
        P[i : M] = =(I[i]), i < 2 default Z;
        Y = gather(X, P);
    }""".replace("default Z", "default Q").replace("P[i", "Q = max(min(I, 6), 0);\n P[i")
    program = lower(infer(tileir.parse(text), TYPES))
    (load,) = choosing(BoundPlaces()(program).main)
    assert INSIDE not in load.tags


def test_what_a_caller_passes_is_not_known() -> None:
    text = "function (X[N, C], I[M]) -> (Y, P) { P = max(min(I, 6), 0); Y = gather(X, I); }"
    program = lower(infer(tileir.parse(text), TYPES))
    (load,) = choosing(BoundPlaces()(program).main)
    assert INSIDE not in load.tags


def test_programs_without_places_stay() -> None:
    program = lower(infer(tileir.parse("function (X[N, C], I[M]) -> (Y) { Y = X * 2; }"), TYPES))
    assert BoundPlaces()(program) is program
