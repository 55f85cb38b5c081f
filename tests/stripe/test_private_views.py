"""Through views that a point only writes it reads what it has stored itself, and nothing else."""

from __future__ import annotations

import numpy as np

from strategies.passes import program_of
from tileir.stripe.interpret.interpreter import interpret


def test_what_a_point_has_not_stored_is_undefined_through_a_view_it_only_writes() -> None:
    """The elements keep their content, and the point that stores them may read them."""
    fill = """
    block [i:4]:4 (
        in X[i] fp32:I(1):(1):4 B
        out O[i] fp32:I(1):(1):4 B
    ) {
      0: $x = load(X)
      1: O = store($x)
    }
    """
    joined = """
    block []:1 (
        in X[0] fp32:I(4):(1):16 B
        {direction} O[0] fp32:I(4):(1):16 B
        out P[0] fp32:I(4):(1):16 B
    ) {{
      0: block [i:3]:3 (
          in X[3 - i] fp32:I(1):(1):4 B
          out O[i] fp32:I(1):(1):4 B
      ) {{
        0: $x = load(X)
        1: O = store($x)
      }}
      1: block [i:4]:4 (
          in O[i] fp32:I(1):(1):4 B
          out P[i] fp32:I(1):(1):4 B
      ) {{
        0: $x = load(O)
        1: P = store($x)
      }}
    }}
    """
    x = np.arange(4, dtype=np.float32)
    for direction, last in (("out", np.nan), ("inout", 3.0)):
        kernels = [fill, joined.format(direction=direction)]
        results = interpret(program_of(kernels, {"X": (4,), "O": (4,), "P": (4,)}, ("O", "P")), {"X": x})
        np.testing.assert_array_equal(results["O"], [3, 2, 1, 3])
        np.testing.assert_array_equal(results["P"], [3, 2, 1, last])
