"""The two kernels of the project's first documents: a guarded logarithm, and a staged product with a tree merge."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from strategies.seed import SHAPE, seed_stages
from tileir.semtree.interpret.interpreter import run_program
from tileir.semtree.interpret.memory import ALL_CHECKS
from tileir.semtree.text.printer import to_text

if TYPE_CHECKING:
    from collections.abc import Callable


def test_seed_kernels(golden: Callable[[str], None]) -> None:
    golden(to_text(seed_stages().sem))


def test_they_have_the_structure_of_old() -> None:
    logarithm, product = seed_stages().sem.kernels
    assert (logarithm.grid, logarithm.group) == ((9,), (32,))
    assert (product.grid, product.group) == ((10,), (32,))
    text = to_text(product)
    assert text.count("min(max(place") == 2  # both inputs are staged, clamped
    assert [f"if (tid < {width})" in text for width in (16, 8, 4, 2, 1)] == [True] * 5
    assert text.index("barrier()") < text.index("if (tid < 16)")
    assert text.index("if (tid < 1)") < text.index(" = -T0_acc_0;") < text.index("T3[x] = ")


def test_they_compute_what_they_should() -> None:
    random = np.random.default_rng(3)
    inputs = {name: random.uniform(0.1, 2.0, SHAPE).astype(np.float32) for name in ("I0", "I1")}
    found = run_program(seed_stages().sem, inputs, ALL_CHECKS)
    np.testing.assert_allclose(found["T2"], np.log(inputs["I0"]), rtol=1e-6)
    np.testing.assert_allclose(found["T3"], -(np.log(inputs["I0"]) * inputs["I1"]).sum(1), rtol=1e-5)
