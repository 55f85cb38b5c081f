"""Programs that aggregate prefixes, windows and terms with a step, of one statement each, and numbers for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from hypothesis import assume, strategies as st

from tileir.core.dtype import DType
from tileir.core.errors import TileError
from tileir.tile.text.parser import parse
from tileir.typed.inference.inference import infer
from tileir.typed.ir import Function, TensorType

if TYPE_CHECKING:
    from fuzz.area import Array


def function_of(statement: str, types: dict[str, TensorType]) -> Function:
    inputs = ", ".join(
        f"{name}[{', '.join(f'{name}{axis}' for axis in range(len(t.shape)))}]" for name, t in types.items()
    )
    return infer(parse(f"function ({inputs}) -> (O) {{ {statement} }}"), types)


def numbers(function: Function, largest: int = 9) -> dict[str, Array]:
    generator = np.random.default_rng(0)
    return {v.name: generator.integers(-largest, largest + 1, v.shape).astype(v.dtype.numpy) for v in function.inputs}


@st.composite
def polytopes(draw: st.DrawFn) -> tuple[Function, dict[str, Array]]:
    """Draw aggregations of one to two reduced indices whose conditions have coefficients of any kind."""
    written = ("i", "j")[: draw(st.integers(1, 2))]
    reduced = ("k", "l")[: draw(st.sampled_from((1, 1, 2)))]
    factors = st.sampled_from((1, 1, 1, -1, 2, -2, 3))

    def form(names: tuple[str, ...]) -> str:
        terms = [f"{draw(factors)} * {name}" for name in names]
        return f"{' + '.join(terms)} + {draw(st.integers(-3, 6))}"

    def some(names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(draw(st.lists(st.sampled_from(names), unique=True, max_size=len(names))))

    # Mostly triangles: terms that stay, or move with one index, and one condition with what moves an end.
    moving = some(written) if draw(st.booleans()) else ()
    types: dict[str, TensorType] = {}
    accesses = []
    count = draw(st.sampled_from((1, 1, 2, 2)))
    dtypes = st.sampled_from((DType.I32, DType.F32, DType.I8, DType.F16, DType.BOOL, DType.U8))
    for name in ("A", "B")[:count]:
        axes = [form((each, *moving)) for each in reduced if name == "A" or draw(st.booleans())]
        axes += [each for each in written if draw(st.sampled_from((False, False, True)))]
        shape = tuple(draw(st.integers(1, 12)) for _ in axes)
        types[name] = TensorType(draw(dtypes), shape)
        accesses.append(f"{name}[{', '.join(axes)}]")
    constraints = [
        f", {form((each, *(some(written) or written)))} < {draw(st.sampled_from((5, 12, 40)))}"
        for each in reduced
        if draw(st.sampled_from((True, True, False)))
    ]
    sizes = [draw(st.integers(1, 8)) for _ in written]
    outputs = [
        draw(st.sampled_from((name, name, f"2*{name}", f"{size - 1} - {name}")))
        for name, size in zip(written, sizes, strict=True)
    ]
    combined = draw(st.sampled_from((" * ", " + ", " == "))).join(accesses)
    sign = draw(st.sampled_from("++><" + ("*" if count == 1 else "")))
    try:
        function = function_of(
            f"O[{', '.join(outputs)} : {', '.join(map(str, sizes))}] = {sign}({combined}){''.join(constraints)};", types
        )
    except TileError:  # an index has no bounds, say
        assume(False)
    return function, numbers(function, 1 if sign == "*" else 3)


@st.composite
def strided(draw: st.DrawFn) -> tuple[Function, dict[str, Array]]:
    """Draw aggregations of one to two indices that move what they read by fractions of a step."""
    signs = st.sampled_from((1, -1))

    def place(written: str, reduced: str) -> str:
        step, move = draw(signs) * draw(st.integers(2, 5)), draw(signs) * draw(st.sampled_from((1, 1, 1, 2, 3)))
        also = draw(st.sampled_from(("", "", "", " + i", " - j")))
        return f"{move}*{written}{also} + {step}*{reduced} + {draw(st.integers(-4, 30))}"

    pairs = draw(st.sampled_from(((("i", "k"),), (("i", "k"),), (("i", "k"), ("j", "l")))))
    axes = [place(*pair) for pair in pairs]
    if len(pairs) == 1:
        axes += draw(st.lists(st.sampled_from(("j", "3 - j")), max_size=1))
    axes = draw(st.permutations(axes))
    if len(axes) == 1:
        axes = [axes[0].replace(" - j", "").replace(" + i", "")]
    dtypes = st.sampled_from((DType.I32, DType.F32, DType.I8, DType.F16, DType.BF16, DType.BOOL, DType.U8))
    sizes = st.integers(1, 40) if len(axes) == 1 else st.integers(1, 9)
    types = {"A": TensorType(draw(dtypes), tuple(draw(sizes) for _ in axes))}
    combined = f"A[{', '.join(axes)}]"
    other = draw(st.sampled_from(("", "", "", "B[i]", f"B[{axes[0]}]", f"B[{axes[0]} + 1]")))
    if other:
        types["B"] = TensorType(draw(dtypes), (draw(sizes),))
        combined = draw(st.sampled_from((" * ", " * ", " + ", " == "))).join(draw(st.permutations([combined, other])))
    written = [name for name in "ij" if any(name in axis for axis in axes)]
    outputs = [draw(st.sampled_from((name, name, f"2*{name} + 1", f"20 - {name}"))) for name in written]
    extents = [str(draw(sizes)) for _ in written]
    constraints = [
        draw(st.sampled_from(("", f", {k} < {draw(sizes)}", f", {i} - {k} < 12", f", 2*{k} + {i} + 1 < 25")))
        for i, k in pairs
    ]
    sign = draw(st.sampled_from("++><" + ("" if other else "*")))
    text = f"O[{', '.join(outputs)} : {', '.join(extents)}] = {sign}({combined}){''.join(constraints)};"
    try:
        function = function_of(text, types)
    except TileError:  # an index has no bounds, say
        assume(False)
    return function, numbers(function, 1 if sign == "*" else 3)
