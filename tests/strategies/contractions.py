"""Contractions as people write them: products and convolutions with strides, dilations, padding and batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
from hypothesis import strategies as st

from tileir.core.dtype import DType
from tileir.stripe.lower.lowering import lower
from tileir.tile.text.parser import parse
from tileir.typed.inference.inference import infer
from tileir.typed.ir import TensorType

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tileir.stripe.ir import Program

DTYPES = (DType.I32, DType.F32, DType.F64, DType.I8, DType.U8, DType.F16)
"""Small integers as inputs give exact results in all of these, whatever the order of sums."""

FOLLOWING = ("R = O;", "R = O * 2;", "R = O > 0 ? O : 0 - O;")


@attrs.frozen
class Case:
    """A function in Tile, with the dtype and shapes of its inputs."""

    text: str
    dtype: DType
    shapes: Mapping[str, tuple[int, ...]] = attrs.field(hash=False)

    def program(self) -> Program:
        """Return it as a Stripe program."""
        return lower(infer(parse(self.text), {n: TensorType(self.dtype, shape) for n, shape in self.shapes.items()}))


@st.composite
def products(draw: st.DrawFn) -> Case:
    """Matrix products, of batches too, with either operand transposed."""
    sizes = {name: draw(st.integers(1, most)) for name, most in (("b", 3), ("m", 20), ("n", 40), ("k", 9))}
    batched = "b, " if draw(st.booleans()) else ""
    left = batched + draw(st.sampled_from(("m, k", "k, m")))
    right = draw(st.sampled_from((batched, ""))) + draw(st.sampled_from(("k, n", "n, k")))
    how, combine = draw(st.sampled_from("+><")), draw(st.sampled_from("*+"))
    text = (
        f"function (X[{left.upper()}], Y[{right.upper()}]) -> (R) {{ "
        f"O[{batched}m, n : {batched.upper()}M, N] = {how}(X[{left}] {combine} Y[{right}]); {draw(_FOLLOWING)} }}"
    )
    shapes = {name: tuple(sizes[i] for i in access.split(", ")) for name, access in (("X", left), ("Y", right))}
    return Case(text, draw(st.sampled_from(DTYPES)), shapes)


_FOLLOWING = st.sampled_from(FOLLOWING)


@attrs.frozen
class _Axis:
    """One axis of an image, and how a window slides along it."""

    image: int
    window: int
    stride: int
    dilation: int
    padding: int

    @property
    def results(self) -> int:
        """Number of positions of the window."""
        return max(1, (self.image + 2 * self.padding - self.dilation * (self.window - 1) - 1) // self.stride + 1)

    def place(self, result: str, step: str) -> str:
        """Return where in the image the window looks."""
        return f"{self.stride}*{result} + {self.dilation}*{step} - {self.padding}"


@st.composite
def _axes(draw: st.DrawFn) -> _Axis:
    window, dilation = draw(st.integers(1, 3)), draw(st.integers(1, 2))
    image = draw(st.integers(1, 14))
    return _Axis(image, window, draw(st.integers(1, 2)), dilation, draw(st.integers(0, dilation * (window - 1))))


@st.composite
def convolutions(draw: st.DrawFn) -> Case:
    """Convolutions and pools over one or two axes: strided, dilated, padded, depthwise, channels first or last."""
    axes = draw(st.lists(_axes(), min_size=1, max_size=2))
    kind = draw(st.sampled_from(("channels", "depthwise", "pool")))
    last = draw(st.booleans())
    outer, inner = draw(st.integers(1, 2)), draw(st.integers(1, 20))
    summed = draw(st.integers(1, 3))
    read = "ci" if kind == "channels" else "co"

    def laid(channel: str, places: list[str]) -> str:
        return ", ".join(("n", *places, channel) if last else ("n", channel, *places))

    names = [(f"x{number}", f"w{number}") for number in range(len(axes))]
    places = [axis.place(*pair) for axis, pair in zip(axes, names, strict=True)]
    taps, mixed = [w for _, w in names], ["ci", "co"] if kind == "channels" else ["co"]
    window = draw(st.sampled_from((taps + mixed, mixed[::-1] + taps)))
    how = draw(st.sampled_from("+><"))
    limits = "".join(f", w{number} < {axis.window}" for number, axis in enumerate(axes)) if kind == "pool" else ""
    value = f"X[{laid(read, places)}]" + ("" if kind == "pool" else f" * F[{', '.join(window)}]")
    sizes = laid(str(inner), [str(axis.results) for axis in axes]).replace("n", str(outer), 1)
    unknown = ", ".join(f"D{number}" for number in range(len(axes) + 2))
    filters = "" if kind == "pool" else f", F[{', '.join(name.upper() for name in window)}]"
    text = (
        f"function (X[{unknown}]{filters}) -> (R) {{ "
        f"O[{laid('co', [x for x, _ in names])} : {sizes}] = {how}({value}){limits}; {draw(_FOLLOWING)} }}"
    )
    channels = {"ci": summed, "co": inner}
    images = tuple(axis.image for axis in axes)
    shapes = {"X": (outer, *images, channels[read]) if last else (outer, channels[read], *images)}
    if kind != "pool":
        extents = {**channels, **{name: axis.window for name, axis in zip(taps, axes, strict=True)}}
        shapes["F"] = tuple(extents[name] for name in window)
    return Case(text, draw(st.sampled_from(DTYPES)), shapes)


def contractions() -> st.SearchStrategy[Case]:
    """All of these."""
    return products() | convolutions()
