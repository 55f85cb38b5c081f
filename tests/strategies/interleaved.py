"""Programs over pictures whose channels are interleaved: chains of steps that mix channels, and of others between."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hypothesis import strategies as st

if TYPE_CHECKING:
    from tileir.typed.ir import Shape

SIZES: Final = st.sampled_from((1, 2, 3, 7, 8, 16, 17, 35))
"""Heights and widths: odd, of whole vectors, and less than one."""

STEPS: Final = {
    "mix": "N[y, x, m : H, W, {new}] = +(T[y, x, c] * K[m, c]);",
    "grey": "G[y, x, 0 : H, W, 1] = >(T[y, x, c]); N = T - G;",
    "flat": "G[y, x : H, W] = +(T[y, x, c]); N = T * reshape(G, H, W, 1);",
    "one": "G[y, x, 0 : H, W, 1] = =(T[y, x, {one}]); N = T + 2 * G;",
    "scaled": "N = T * V;",
    "chosen": "N = index(T, 2) == {one} ? T + 1 : T * 2;",
    "along": "N = T + index(T, 1);",
    "elements": "N = T * T - 3;",
    "first": "N = T + A;",
    "back": "N[y, x, c : H, W, {channels}] = =(T[y, x, {last} - c]);",
    "window": "N[y, x, c : H, W, {channels}] = +(T[y + i, x, c]), i < 2;",
    "part": "N[y, x, c : H, W, {channels}] = =(T[y, x, c]), c < {last};",
}


def interleaved(draw: st.DrawFn) -> tuple[str, dict[str, Shape]]:
    """Draw a function of a picture, as text, and the shapes of its arguments."""
    rows, columns, first = draw(SIZES), draw(SIZES), draw(st.integers(2, 5))
    shapes: dict[str, Shape] = {"A": (rows, columns, first)}
    channels, body, name = first, [], "A"
    for number in range(draw(st.integers(1, 5))):
        step = draw(st.sampled_from(sorted(STEPS)))
        if step == "first" and channels != first:
            step = "elements"
        new = draw(st.integers(1, 4)) if step == "mix" else channels
        if step == "mix":
            shapes[f"K{number}"] = (new, channels)
        if step == "scaled":
            shapes[f"V{number}"] = (channels,)
        one, last = draw(st.integers(0, channels - 1)), channels - 1
        text = STEPS[step].format(new=new, channels=channels, one=one, last=last)
        words = {"N": f"T{number}", "T": name, "G": f"G{number}", "K": f"K{number}", "V": f"V{number}"}
        body.append("".join(words.get(part, part) for part in _parts(text)))
        name, channels = f"T{number}", new
    count = draw(st.integers(1, min(2, len(body))))
    outputs = ", ".join(f"T{number}" for number in range(len(body) - count, len(body)))
    inputs = ", ".join(_declared(name, len(shape)) for name, shape in shapes.items())
    return f"function ({inputs}) -> ({outputs}) {{ {' '.join(body)} }}", shapes


def _declared(name: str, rank: int) -> str:
    axes = ("H", "W", "C") if name == "A" else tuple(f"{name}{axis}" for axis in "PQ"[:rank])
    return f"{name}[{', '.join(axes)}]"


def _parts(text: str) -> list[str]:
    """Return words and what stands between them."""
    parts = [""]
    for character in text:
        if parts[-1].isalnum() != character.isalnum():
            parts.append("")
        parts[-1] += character
    return parts
