"""Steps of scans on cards: a thread for each few elements, one or two kernels, and the values of NumPy."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import prod
from typing import Any, Final

import attrs
import numpy as np
import pytest

from strategies.pipelines import gpu
from tileir.core.dtype import DType
from tileir.core.targets.target import Target
from tileir.passes.base import run
from tileir.semtree.check.verifier import verify_program
from tileir.semtree.interpret.interpreter import run_program
from tileir.semtree.interpret.memory import ALL_CHECKS
from tileir.semtree.ir import Launch, Loop, Program, Work
from tileir.semtree.launches import launches
from tileir.semtree.lower.lowering import lower
from tileir.stripe.lower.lowering import lower as lower_to_stripe
from tileir.tile.text.parser import parse
from tileir.typed import ir as typed
from tileir.typed.inference.inference import infer

Array = np.ndarray[Any, Any]
SMALL: Final = Target(vector_bytes=16, group_threads=8, local_bytes=2048, threads=4, index_dtype=DType.I32)
CARD: Final = Target(
    vector_bytes=16, group_threads=1024, local_bytes=227 * 1024, threads=132, group_width=32, index_dtype=DType.I32
)


@attrs.frozen
class Case:
    """A step, its carries with their shapes, the slice that it reads, what else it reads, and the step in NumPy.

    Attributes:
        step: Statements of Tile over the carries ``H`` and ``K``, the slice ``X`` and the constant ``U``.
        carries: The carries' dimensions, by name.
        slices: Those of the slice; None for no sequence.
        constants: Those of the constant; None for none.
        oracle: New carries and what is put out, of carries, slice and constant.
        most: How many kernels a step may be.
        outputs: What the step puts out beside the carries.

    """

    step: str
    carries: dict[str, str]
    slices: str | None
    constants: str | None
    oracle: Callable[..., tuple[Array, ...]]
    most: int = 1
    outputs: tuple[str, ...] = ("Y",)

    def text(self, count: int, *, reverse: bool) -> str:
        """Return a function that runs the step so many times."""
        inside = [*(f"{name}[{dims}]" for name, dims in self.carries.items())]
        outside = [f"{name}0[{dims}]" for name, dims in self.carries.items()]
        if self.slices is not None:
            inside.append(f"X[{self.slices}]")
            outside.append(f"Xs[{', '.join(filter(None, ('T', self.slices)))}]")
        if self.constants is not None:
            inside.append(f"U[{self.constants}]")
            outside.append(f"U[{self.constants}]")
        results = [*(f"{name}2" for name in self.carries), *self.outputs]
        passed = f"{', '.join(f'{n}0' for n in self.carries)}; {'' if self.slices is None else 'Xs'}; "
        passed += "" if self.constants is None else "U"
        times = f" {count} times" if self.slices is None else ""
        loop = f"scan({passed}){times}{' reverse' if reverse else ''} function ({', '.join(inside)}) -> ("
        found = " ".join(f"O{n} = element(S, {n});" for n in range(len(results))) if len(results) > 1 else "O0 = S;"
        named = ", ".join(f"O{n}" for n in range(len(results)))
        body = f"S = {loop}{', '.join(results)}) {{ {self.step} }}; {found}"
        return f"function ({', '.join(outside)}) -> ({named}) {{ {body} }}"


def _norm(h: Array, x: Array) -> tuple[Array, ...]:
    v = h * 0.5 + x
    h2 = v / np.sqrt((v * v).sum(-1, keepdims=True) + 1)
    return h2, h2 * 2


def _softmax(h: Array, x: Array) -> tuple[Array, ...]:
    e = np.exp(h + x - (h + x).max(-1, keepdims=True))
    h2 = e / e.sum(-1, keepdims=True)
    return h2, h2 + x


def _stencil(h: Array, x: Array) -> tuple[Array, ...]:
    padded = np.pad(h, 1)
    h2 = (padded[:-2] + padded[1:-1] + padded[2:]) * 0.25 + x
    return h2, h2


ROW: Final = "S[] = +(V[i] * V[i]); H2 = V / sqrt(S + 1); Y = H2 * 2;"
ROWS: Final = "S[b, 0 : B, 1] = +(V[b, i] * V[b, i]); H2 = V / sqrt(S + 1); Y = H2 * 2;"
CASES: Final = {
    "scalar": Case("H2 = H * 0.5 + X; Y = H2 * 2;", {"H": ""}, "", None, lambda h, x: (h / 2 + x, h + 2 * x)),
    "vector": Case("H2 = H * 0.5 + X; Y = H2 * 2;", {"H": "N"}, "N", None, lambda h, x: (h / 2 + x, h + 2 * x)),
    "matrix": Case("H2 = H * 0.5 + X; Y = H2 * 2;", {"H": "B, N"}, "B, N", None, lambda h, x: (h / 2 + x, h + 2 * x)),
    "no output": Case("H2 = H * 0.5 + X;", {"H": "N"}, "N", None, lambda h, x: (h / 2 + x,), outputs=()),
    "no sequence": Case("H2 = H * 0.5 + 1;", {"H": "N"}, None, None, lambda h: (h / 2 + 1,), outputs=()),
    "scalar beside": Case(
        "H2 = H * 0.5 + X * K; K2 = K * 0.5; Y = H2 * 2;",
        {"H": "N", "K": ""}, "N", None, lambda h, k, x: (h / 2 + x * k, k / 2, h + 2 * x * k), most=2,
    ),
    "two vectors": Case(
        "H2 = H * 0.5 + X * K; K2 = K * 0.5 + H; Y = H2 * 2;",
        {"H": "N", "K": "N"}, "N", None, lambda h, k, x: (h / 2 + x * k, k / 2 + h, h + 2 * x * k),
    ),
    "norm": Case(f"V = H * 0.5 + X; {ROW}", {"H": "N"}, "N", None, _norm),
    "norms of rows": Case(f"V = H * 0.5 + X; {ROWS}", {"H": "B, N"}, "B, N", None, _norm),
    "softmax": Case(
        "V = H + X; M[b, 0 : B, 1] = >(V[b, i]); E = exp(V - M); S[b, 0 : B, 1] = +(E[b, i]); H2 = E / S; Y = H2 + X;",
        {"H": "B, N"}, "B, N", None, _softmax,
    ),
    "sum put out": Case(
        "H2 = H * 0.5 + X; Y[] = +(H2[i]);", {"H": "N"}, "N", None, lambda h, x: (h / 2 + x, (h / 2 + x).sum())
    ),
    "sum read": Case(
        "Z[] = +(X[i]); H2 = H * 0.5 + Z; Y = H2 + Z;", {"H": "N"}, "N", None,
        lambda h, x: (h / 2 + x.sum(), h / 2 + 2 * x.sum()),
    ),
    "state space": Case(
        "H2 = H * 0.5 + U; Y[b, n : B, N] = +(H2[b, n, d] * X[b, d]);", {"H": "B, N, D"}, "B, D", "B, N, D",
        lambda h, x, u: (h / 2 + u, np.einsum("bns,bs->bn", h / 2 + u, x)), most=2,
    ),
    "slices of rows": Case(
        "E[b, n, 0 : B, N, 1] = +(X[b, n]); H2 = H * E + U; Y[b, n : B, N] = +(H2[b, n, d]);", {"H": "B, N, D"}, "B, N",
        "B, N, D", lambda h, x, u: (h * x[..., None] + u, (h * x[..., None] + u).sum(-1)), most=2,
    ),
    "product": Case(
        "C[b, n : B, N] = +(H[b, m] * U[m, n]); H2 = tanh(X + C); Y = H2 * 2;", {"H": "B, N"}, "B, N", "N, N",
        lambda h, x, u: (np.tanh(x + h @ u), 2 * np.tanh(x + h @ u)), most=2,
    ),
    "stencil": Case(
        "V[i : N] = +(H[i + k - 1]), k < 3; H2 = V * 0.25 + X; Y = H2;", {"H": "N"}, "N", None, _stencil, most=2
    ),
}  # fmt: skip


def _shape(dims: str, sizes: dict[str, int]) -> tuple[int, ...]:
    return tuple(sizes[name] for name in dims.split(", ") if name)


def _arrays(case: Case, count: int, sizes: dict[str, int], dtype: DType) -> dict[str, Array]:
    random = np.random.default_rng(3)
    shapes = {f"{name}0": _shape(dims, sizes) for name, dims in case.carries.items()}
    if case.slices is not None:
        shapes["Xs"] = (count, *_shape(case.slices, sizes))
    if case.constants is not None:
        shapes["U"] = _shape(case.constants, sizes)
    return {name: random.uniform(-1, 1, shape).astype(dtype.numpy) for name, shape in shapes.items()}


def _program(
    case: Case, count: int, arrays: dict[str, Array], target: Target, dtype: DType, *, reverse: bool
) -> Program:
    types = {name: typed.TensorType(dtype, value.shape) for name, value in arrays.items()}
    function = infer(parse(case.text(count, reverse=reverse)), types)
    return lower(run(gpu(target), lower_to_stripe(function)), target)


def _expected(case: Case, count: int, arrays: dict[str, Array], *, reverse: bool) -> list[Array]:
    carries = [arrays[f"{name}0"].astype(np.float64) for name in case.carries]
    constant = [] if case.constants is None else [arrays["U"].astype(np.float64)]
    put_out: dict[int, Array] = {}
    for step in reversed(range(count)) if reverse else range(count):
        read = [] if case.slices is None else [arrays["Xs"][step].astype(np.float64)]
        carries = [*case.oracle(*carries, *read, *constant)]
        if case.outputs:
            put_out[step] = carries.pop()
    return [*carries, *([np.stack([put_out[step] for step in range(count)])] if case.outputs else [])]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize("name", CASES)
def test_values_are_those_of_numpy(name: str, count: int, reverse: bool) -> None:
    case = CASES[name]
    for sizes in ({"B": 3, "N": 7, "D": 4}, {"B": 4, "N": 32, "D": 8}):
        arrays = _arrays(case, count, sizes, DType.F32)
        program = _program(case, count, arrays, SMALL, DType.F32, reverse=reverse)
        verify_program(program)
        found = run_program(program, arrays, ALL_CHECKS)
        for number, expected in enumerate(_expected(case, count, arrays, reverse=reverse)):
            np.testing.assert_allclose(found[f"O{number}"], expected, rtol=2e-5, atol=1e-5)


def _steps(works: Iterable[Work]) -> Iterable[Loop]:
    return (work for work in works if isinstance(work, Loop))


@pytest.mark.sampled(8)
@pytest.mark.parametrize("dtype", [DType.F32, DType.F64, DType.F16])
@pytest.mark.parametrize("name", CASES)
def test_a_step_is_a_kernel_or_two_of_many_threads(name: str, dtype: DType) -> None:
    case = CASES[name]
    arrays = _arrays(case, 4, {"B": 64, "N": 4096 if case.slices == "N" else 1024, "D": 16}, dtype)
    if case.constants == "N, N":
        arrays = _arrays(case, 4, {"B": 64, "N": 512}, dtype)
    program = _program(case, 4, arrays, CARD, dtype, reverse=False)
    (loop,) = _steps(program.works)
    assert loop.times == 2
    assert len(loop.works) <= 2 * case.most
    for launch in launches(loop.works):
        kernel = program.kernels[launch.kernel]
        largest = max(param.size for param in kernel.params if not param.name.startswith(("Xs", "X_all", "U", "Y")))
        assert isinstance(launch, Launch)
        assert prod(kernel.grid) * prod(kernel.group) >= min(largest // 32, 256), kernel.name
