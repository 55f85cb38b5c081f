"""All named programs.

Integer arguments and small halves keep most results exact; the others say how far they may differ, relative to the
largest value.
"""

from __future__ import annotations

from typing import Final

from tileir_testing.programs.convolutions import CONTRACTIONS, CONVOLUTIONS
from tileir_testing.programs.elementwise import CONSTANTS, ELEMENTWISE
from tileir_testing.programs.layers import LAYERS
from tileir_testing.programs.loops import LOOPS, STATES
from tileir_testing.programs.moves import MOVES, ORDERS

CASES: Final = (*CONTRACTIONS, *CONVOLUTIONS, *MOVES, *ORDERS, *STATES, *LAYERS, *LOOPS, *ELEMENTWISE, *CONSTANTS)
