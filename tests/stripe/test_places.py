from __future__ import annotations

import numpy as np
import pytest

import tileir
from tileir.core.dtype import DType
from tileir.poly.affine import Affine
from tileir.stripe.interpret import interpreter as stripe_interpreter
from tileir.stripe.ir import Block, Load
from tileir.stripe.lower.lowering import lower
from tileir.typed import interpreter as typed_interpreter
from tileir.typed.inference.inference import infer
from tileir.typed.ir import TensorType

HEIGHT, WIDTH, COUNT = 3, 5, 7
TYPES = {"X": TensorType(DType.F32, (HEIGHT, WIDTH, 2)), "I": TensorType(DType.I32, (COUNT,))}


def gather_of(places: str) -> tuple[Block, Load]:
    """Return the kernel that gathers rows of two elements at ``places``, and its load; its meaning is checked."""
    text = f"""function (X[H, W, C], I[N]) -> (Y) {{
        Flat = reshape(X, H * W, C);
        Zero = 0;
        Shape[y, n : H, N] = =(Zero[]);
        Row = index(Shape, 0);
        Column = index(Shape, 1);
        Inside = max(min(I, W - 1), 0);
        Places = {places};
        Y = gather(Flat, Places);
    }}"""
    function = infer(tileir.parse(text), TYPES)
    program = lower(function)
    arrays = {
        "X": np.arange(HEIGHT * WIDTH * 2, dtype=np.float32).reshape(HEIGHT, WIDTH, 2),
        "I": np.array([4, 0, -1, 5, 2, 2**31 - 1, -(2**31)], np.int32),
    }
    wanted = typed_interpreter.interpret(function, arrays)["Y"]
    np.testing.assert_array_equal(stripe_interpreter.interpret(program, arrays)["Y"], wanted)
    (kernel,) = (block for block in program.main.blocks if "gather" in block.tags)
    load = next(s for s in kernel.statements if isinstance(s, Load) and s.source.startswith("Flat"))
    return kernel, load


@pytest.mark.parametrize(
    ("places", "affine"),
    [
        ("Row * W + reshape(Inside, 1, N)", Affine.of({"i1": WIDTH})),
        ("reshape(Inside, 1, N) + W * Row", Affine.of({"i1": WIDTH})),
        ("Inside + Row * 5", Affine.of({"i1": WIDTH})),
        ("(H - 1 - Row) * W + Inside", Affine.of({"i1": -WIDTH}, (HEIGHT - 1) * WIDTH)),
        ("Column + Inside", Affine.of({"i2": 1})),
        ("Inside + 3", Affine.constant(3)),
        ("(Column + Row) + max(min(I, 3), 0)", Affine.of({"i1": 1, "i2": 1})),
    ],
)
def test_coordinates_move_the_view_and_data_the_element(places: str, affine: Affine) -> None:
    kernel, load = gather_of(places)
    view = kernel.refinement(load.source)
    assert view.access[0] == affine
    assert view.shape.dims[0].size <= WIDTH
    assert load.index is not None


@pytest.mark.parametrize(
    "places",
    [
        "Row * W + I",  # data can lead anywhere
        "Row * W + min(I, W - 1)",
        "Row * W + max(min(I, W), 0)",  # beyond the last row
        "Row * W + max(min(I, 2), -1)",
        "Row * (W + 1) + Inside",
        "(Row - 1) * W + Inside",
        "Row * 2147483647 + Inside",  # it wraps
        "Row * W * Inside",
        "Row * W + Column",
        "Row * I + Inside",
        "Row * W - Inside",
    ],
)
def test_other_places_are_computed(places: str) -> None:
    kernel, load = gather_of(places)
    assert kernel.refinement(load.source).access[0] == Affine()


@pytest.mark.parametrize(
    ("places", "affine"),
    [
        ("Row * 2 + Column", Affine.of({"i1": 2, "i2": 1})),
        ("(Row * 10 + 7) / 5", Affine.of({"i1": 2}, 1)),
        ("min(Row * W, H * W - 1)", Affine.of({"i1": WIDTH})),
        ("max(Column - 100, 3)", Affine.constant(3)),
        ("as_i32(max(min(as_f64(Row * 2), 1000000000.0), -1000000000.0))", Affine.of({"i1": 2})),
        ("as_i64(Row) * 3", Affine.of({"i1": 3})),
        ("reshape(index(I, 0), 1, N) + 0 * Row", Affine.of({"i2": 1})),
        ("reshape(index(reshape(I, N, 1), 0), 1, N) + 0 * Row", Affine.of({"i2": 1})),
    ],
)
def test_places_that_coordinates_decide_alone_need_no_data(places: str, affine: Affine) -> None:
    kernel, load = gather_of(places)
    assert load.index is None
    assert kernel.refinement(load.source).access[0] == affine


@pytest.mark.parametrize(
    "places",
    [
        "(Row * 3 + 2) / 2",  # in no equal steps
        "(Row - 1) * 5 / 5",  # towards zero from both sides
        "min(Row * W, Column)",
        "mod(Column, 5)",
        "as_i32(as_f16(Row * 3000) / 1000)",  # f16 has not all of them
        "Row * Column",
        "Row * Row",
    ],
)
def test_places_in_no_equal_steps_are_computed(places: str) -> None:
    kernel, load = gather_of(places)
    assert load.index is not None
    assert kernel.refinement(load.source).access[0] == Affine()
