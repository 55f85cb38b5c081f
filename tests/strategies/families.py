"""Tile programs of the forms that scheduling passes join, split and reorder, over axes of odd and even sizes.

All values are i32, so that results are the same for every order of sums.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import attrs
import numpy as np
from hypothesis import reject, strategies as st

from strategies.interleaved import interleaved
from strategies.pictures import picture
from tileir.core.dtype import DType
from tileir.core.errors import TileError
from tileir.stripe.lower.lowering import lower
from tileir.tile.text.parser import parse
from tileir.typed.inference.inference import infer
from tileir.typed.ir import TensorType
from tileir.typed.simplify.preparation import prepared

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from tileir.stripe.ir import Program
    from tileir.typed.ir import Function, Shape

Family: TypeAlias = "Callable[[st.DrawFn], Written]"


@attrs.frozen
class Written:
    """A function of Tile, and the shapes of its arguments."""

    text: str
    shapes: Mapping[str, Shape]

    def typed(self) -> Function:
        """Return the typed function, as the compiler prepares it."""
        return prepared(infer(parse(self.text), {name: TensorType(DType.I32, s) for name, s in self.shapes.items()}))

    def program(self) -> Program:
        """Return the Stripe program before any pass."""
        return lower(self.typed())

    def arrays(self, seed: int = 0) -> dict[str, NDArray[np.int32]]:
        """Return small random integers for the arguments."""
        random = np.random.default_rng(seed)
        return {name: random.integers(-4, 5, shape, np.int32) for name, shape in self.shapes.items()}


SIZES = st.sampled_from((1, 2, 3, 4, 5, 7, 8, 9, 12, 13, 16, 17))

ROWS = (
    "B[i : M] = >(A[i, j]); E = A - reshape(B, M, 1); S[i : M] = +(E[i, j]); O = E * reshape(S, M, 1);",
    "S[i : M] = +(A[i, j]); C = A - reshape(S, M, 1); Q = C * C; V[i : M] = +(Q[i, j]); O = C * reshape(V, M, 1) + A;",
    "B[j : N] = >(A[i, j]); E = A - B; S[j : N] = +(E[i, j]); O = E * S;",
    "E = A * 2; S[i : M] = +(E[i, j]); T[i : M] = <(E[i, j]); O = E * reshape(S - T, M, 1);",
    "S[i : M] = +(A[i, j]); T[j : N] = +(A[i, j]); O = A * reshape(S, M, 1) + T;",
    "O[j, i : N, M] = =(A[i, j]); S[] = +(O[j, i]);",
    "T[j, i : N, M] = =(A[i, j]); O = T * 2; S[j : N] = +(T[j, i]);",
)
"""Rows or columns that are reduced, and met again."""

RUNNING = (
    "O[i, j : M, N] = +(A[i, j - k]), k < N;",
    "O[i, j : M, N] = +(A[i - k, j]), k < M;",
    "O[i, j : M, N] = >(A[i, k]), k - j < N;",
    "C[i, j : M, N] = >(A[i, j - k]), k < N; O = C + A;",
    "C[i, j : M, N] = +(A[i, j - k]), k < N; S[i : M] = +(C[i, j]); O = C * reshape(S, M, 1);",
    "C = A + 1; O[i, j : M, N] = +(C[i, k] * A[i, k]), j - k < N;",
    "O[i, j : M, N] = +(A[i, j + k - 2]), k < 5;",
    "O[i, j : M, N] = >(A[i, j + k]), k < 3;",
)
"""Scans, and windows that slide."""

CHOSEN = (
    "O = gather(A, X);",
    "G = gather(A, X); O = G * 2;",
    "G = gather(A, X); S[j : N] = +(G[i, j]); O = A - S;",
    "G = gather(A, X); S[i : K] = +(G[i, j]); O = G * reshape(S, K, 1);",
    "O = scatter(E, X, A);",
    "U = scatter(E, X, A); O = U + A;",
    "E2 = E * 3; U = scatter(E2, X, A); S[j : N] = +(U[i, j]); O = U * S;",
)
"""Gathers and scatters, whose elements data choose."""

SHARING = (
    "O{}[i, j : M, N] = +(A[i, k] * B[k, j]);",
    "O{}[i, j : M, N] = >(A[i, k] + B[k, j]);",
    "O{}[i, j : M, N] = +(A[i, k] * B[k, j]), k < 2;",
    "O{}[i : M] = +(A[i, k]);",
    "O{}[i : M] = +(A[i, k]), k < 3;",
    "O{}[i : M] = +(A[i, 2 * k]);",
    "O{}[i : M] = +(A[i, k + 1]);",
    "O{}[i : M] = >(A[i, K - 1 - k]), k < 4;",
    "O{}[j : N] = +(B[k, j]);",
    "O{}[k : K] = +(A[i, k] * B[k, j]);",
    "O{}[i, k : M, K] = +(A[i, k + l - 1]), l < 3;",
    "O{}[j, k : N, K] = =(B[k, j]);",
    "O{} = A * 2;",
    "O{} = max(B, 0);",
)
"""Statements over the same two matrices."""

DIAGONAL = ("{}", "{} + {}", "{} - {}", "{2} - {0} - {1}", "2*{} + {}", "3*{} - 2*{} + {}", "{} / 2", "({} + 1) / 2")
"""Places along an axis by two indices and a number."""

STRAIGHT = ("{}", "{2} - {0}", "{} / 2")
"""Such places by one index."""

LOOPS = (
    "S = scan(H; X) function (A[N], B[N]) -> (C, D) { C = A + B; D = C * 2; };",
    "S = scan(H; X) function (A[N], B[N]) -> (C, D) { T[] = +(B[i]); C = A + B - T; D[i : N] = +(C[i - k]), k < N; };",
    "W = X * 2; S = scan(H; W) function (A[N], B[N]) -> (C, D) { C = A + B; D = C * B; };",
)
"""Loops over time, with a state and stacked results."""


def siblings(draw: st.DrawFn) -> Written:
    """Reductions of unequal lengths over one tensor, forwards or backwards."""
    lengths = draw(st.lists(st.integers(1, 9), min_size=2, max_size=3))
    starts = [draw(st.integers(0, 2)) for _ in lengths]
    reduced = max(map(sum, zip(lengths, starts, strict=True))) + draw(st.integers(0, 3))
    kept = draw(SIZES)
    columns, weighted, whole = (draw(st.integers(0, others)) == 0 for others in (1, 2, 3))
    body = []
    for number, (length, start) in enumerate(zip(lengths, starts, strict=True)):
        place = draw(st.sampled_from((f"k + {start}", f"{start + length - 1} - k")))
        read = (f"A[{place}, j]" if columns else f"A[j, {place}]") + (f" * B[{place}]" if weighted else "")
        how = draw(st.sampled_from("+><"))
        element = "[]" if whole else f"[j : {kept}]"
        body.append(f"O{number}{element} = {how}({read}), k < {length}{f', j < {kept}' if whole else ''};")
    outputs = [f"O{number}" for number in range(len(lengths))]
    if draw(st.booleans()):
        body.append("T = O0 + O1;")
        outputs[:2] = ["T"]
    shapes: dict[str, Shape] = {"A": (reduced, kept) if columns else (kept, reduced)}
    if weighted:
        shapes["B"] = (reduced,)
    inputs = "A[P, Q], B[R]" if weighted else "A[P, Q]"
    return Written(f"function ({inputs}) -> ({', '.join(outputs)}) {{ {' '.join(body)} }}", shapes)


def _over_matrix(bodies: tuple[str, ...]) -> Family:
    def draw_one(draw: st.DrawFn) -> Written:
        body = draw(st.sampled_from(bodies))
        outputs = "O, S" if "S[" in body and draw(st.booleans()) else "O"
        return Written(f"function (A[M, N]) -> ({outputs}) {{ {body} }}", {"A": (draw(SIZES), draw(SIZES))})

    return draw_one


def chosen(draw: st.DrawFn) -> Written:
    """Elements that data choose."""
    body = draw(st.sampled_from(CHOSEN))
    rows, columns, count = draw(SIZES), draw(SIZES), draw(SIZES)
    scatters = "scatter" in body
    text = f"function (A[M, N], X[K]{', E[K, N]' if scatters else ''}) -> (O) {{ {body} }}"
    return Written(text, {"A": (rows, columns), "X": (count,)} | ({"E": (count, columns)} if scatters else {}))


def sharing(draw: st.DrawFn) -> Written:
    """Several statements that share inputs."""
    count = draw(st.integers(2, 4))
    body = " ".join(draw(st.sampled_from(SHARING)).format(number) for number in range(count))
    outputs = ", ".join(f"O{number}" for number in range(count))
    rows, between, columns = draw(SIZES), draw(SIZES), draw(SIZES)
    text = f"function (A[M, K], B[K, N]) -> ({outputs}) {{ {body} }}"
    return Written(text, {"A": (rows, between), "B": (between, columns)})


def diagonals(draw: st.DrawFn) -> Written:
    """Reductions along diagonals, backwards and by halves, and one that writes over some or all of their results."""
    element = draw(st.sampled_from(("[]", "[i : M]", "[j : N]")))
    guard = draw(st.sampled_from(("", "", ", i < 3", ", i + k < 5")))
    first = f"R{element} = {_reduced(draw, DIAGONAL, 2)}{guard};"
    second = f"O{element} = {_reduced(draw, draw(st.sampled_from((STRAIGHT, DIAGONAL))), 1)} default R;"
    case = Written(f"function (A[M, N]) -> (O) {{ {first} {second} }}", {"A": (draw(SIZES), draw(SIZES))})
    try:
        case.program()
    except TileError:  # some index has no bounds
        reject()
    return case


def _reduced(draw: st.DrawFn, forms: tuple[str, ...], least: int) -> str:
    """Draw a reduction of one or two elements of a matrix at places of these forms, of ``least`` at least."""
    count = draw(st.integers(least, 2))
    elements = [f"A[{draw(places(forms))}, {draw(places(forms))}]" for _ in range(count)]
    return f"{draw(st.sampled_from('+><'))}({draw(st.sampled_from((' * ', ' + '))).join(elements)})"


@st.composite
def places(draw: st.DrawFn, forms: tuple[str, ...] = DIAGONAL) -> str:
    """Places along an axis of these forms, by indices out of i, j and k."""
    first, second = draw(st.permutations("ijk"))[:2]
    return draw(st.sampled_from(forms)).format(first, second, draw(st.integers(0, 9)))


def loops(draw: st.DrawFn) -> Written:
    """Loops with kernels around them."""
    body = draw(st.sampled_from(LOOPS)) + draw(
        st.sampled_from((" Z = element(S, 1);", " R = element(S, 1); Z = R - X;"))
    )
    steps, size = draw(st.integers(1, 4)), draw(SIZES)
    text = f"function (X[M, N], H[N]) -> (Y, Z) {{ {body} Y = element(S, 0); }}"
    return Written(text, {"X": (steps, size), "H": (size,)})


def pictures(draw: st.DrawFn) -> Written:
    """Windows over padded pictures."""
    return Written(*picture(draw))


def channels(draw: st.DrawFn) -> Written:
    """Steps that mix the channels of a picture."""
    return Written(*interleaved(draw))


FAMILIES: Mapping[str, Family] = {
    "siblings": siblings,
    "rows": _over_matrix(ROWS),
    "running": _over_matrix(RUNNING),
    "chosen": chosen,
    "sharing": sharing,
    "diagonals": diagonals,
    "loops": loops,
    "pictures": pictures,
    "channels": channels,
}


@st.composite
def written(draw: st.DrawFn, *families: str) -> Written:
    """Programs of the families, or of all of them."""
    return FAMILIES[draw(st.sampled_from(families or tuple(FAMILIES)))](draw)
