"""The dilated and strided convolution of PlaidML's slides: its gradients in text, against the slide, and in numbers."""

from collections.abc import Mapping
from itertools import product

import numpy as np
import pytest

import tileir
from tileir.core.dtype import DType
from tileir.poly.bounds import Domain, solve
from tileir.typed.inference.inference import infer
from tileir.typed.ir import Contraction, Function, TensorType
from tileir.typed.raising.raising import raise_to_tile
from tileir.typed.simplify.simplifier import simplify
from tileir_testing.programs.case import Array

CONVOLUTION = """
function (I[N, H, W, CI], K[KH, KW, CI, CO]) -> (O) {
    O[n, y, x, co: N, H/3, W/3, CO] =
        +(I[n, 3*y + 2*j, 3*x + 2*i, ci] * K[j, i, ci, co]);
}
"""
SLIDE = """
function (DO[N, OH, OW, CO], K[KH, KW, CI, CO]) -> (DI) {
    DI[n, 3*y + 2*j, 3*x + 2*i, ci: N, 3*OH, 3*OW, CI] =
        +(DO[n, y, x, co] * K[j, i, ci, co]);
}
"""
GRADIENTS = """
function (I[N, H, W, CI], K[KH, KW, CI, CO], DO[N, OH, OW, CO]) -> (DI, DK) {
    O[n, y, x, co: N, H/3, W/3, CO] =
        +(I[n, 3*y + 2*j, 3*x + 2*i, ci] * K[j, i, ci, co]);
    Both = vjp(O, DO, I, K);
    DI = element(Both, 0);
    DK = element(Both, 1);
}
"""
DERIVED = """\
function (I: f64[2, 9, 12, 2], K: f64[3, 2, 2, 3], DO: f64[2, 3, 4, 3]) -> (DI, DK) {
  DI[n, 2 * j + 3 * y, 2 * i + 3 * x, ci : 2, 9, 12, 2] = +(DO[n, y, x, co] * K[j, i, ci, co]);
  DK[j, i, ci, co : 3, 2, 2, 3] = +(DO[n, y, x, co] * I[n, 2 * j + 3 * y, 2 * i + 3 * x, ci]);
}
"""
SHAPES = {"I": (2, 9, 12, 2), "K": (3, 2, 2, 3), "DO": (2, 3, 4, 3)}


def derived(shapes: Mapping[str, tuple[int, ...]]) -> Function:
    types = {name: TensorType(DType.F64, shape) for name, shape in shapes.items()}
    return simplify(infer(tileir.parse(GRADIENTS), types))


def arrays(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Array]:
    generator = np.random.default_rng(3)
    return {name: generator.standard_normal(shape) for name, shape in shapes.items()}


def test_gradients_swap_inputs_with_the_output() -> None:
    assert tileir.to_text(raise_to_tile(derived(SHAPES))) == DERIVED


def test_gradient_is_that_of_the_slide() -> None:
    values = arrays(SHAPES)
    ours = tileir.evaluate(GRADIENTS, values)[0]
    np.testing.assert_allclose(ours, tileir.evaluate(SLIDE, [values["DO"], values["K"]]), rtol=1e-12)


@pytest.mark.sampled(0)
@pytest.mark.parametrize(
    "shapes",
    [
        {"I": (1, 6, 9, 2), "K": (3, 2, 2, 1), "DO": (1, 2, 3, 1)},
        {"I": (2, 8, 5, 1), "K": (2, 3, 1, 2), "DO": (2, 2, 1, 2)},  # sizes that 3 does not divide
    ],
)
def test_gradients_are_what_finite_differences_are(shapes: Mapping[str, tuple[int, ...]]) -> None:
    values = arrays(shapes)
    found = dict(zip(("I", "K"), tileir.evaluate(GRADIENTS, values), strict=True))

    def loss(**changed: Array) -> float:
        inputs = {**values, **changed}
        return float(np.vdot(tileir.evaluate(CONVOLUTION, [inputs["I"], inputs["K"]]), inputs["DO"]))

    for name in ("I", "K"):
        for place in np.ndindex(shapes[name]):
            step = np.zeros(shapes[name])
            step[place] = 0.5  # the loss is linear in each tensor, so a wide step is exact
            slope = loss(**{name: values[name] + step}) - loss(**{name: values[name] - step})
            np.testing.assert_allclose(found[name][place], slope, rtol=1e-9, atol=1e-12)


def test_domain_of_the_gradient_has_the_points_of_the_convolution() -> None:
    """Along one axis: the points (x, i) at which both tensors are read, once each, under new indices."""
    (swapped,) = (op for op in derived(SHAPES).operations if isinstance(op, Contraction) and op.name == "DI")
    x, i = (swapped.inputs[0].indices[2], swapped.inputs[1].indices[1])
    domain = solve([[swapped.output[2]], [x], [i]], [[12], [4], [2]])
    assert domain is not None
    points = sorted((place, x, i) for place, x, i in _points(domain))
    assert points == [(p, x, i) for p, x, i in sorted((3 * x + 2 * i, x, i) for x in range(4) for i in range(2))]


def _points(domain: Domain) -> list[tuple[int, ...]]:
    names = [name for name, _ in domain.ranges]
    found = []
    for values in product(*(range(size) for _, size in domain.ranges)):
        point = dict(zip(names, values, strict=True))
        if all(limit.evaluate(point) >= 0 for limit in domain.constraints):
            found.append(tuple(int(polynomial.evaluate(point)) for (polynomial,) in domain.accesses))
    return found
