"""The table of all operations, by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fuzz.wide.chance import ROWS_CHANCE
from fuzz.wide.counting import ROWS_COUNTING
from fuzz.wide.creation import ROWS_CREATION
from fuzz.wide.images import ROWS_IMAGES
from fuzz.wide.indexing import ROWS_INDEXING
from fuzz.wide.linear import ROWS_LINEAR
from fuzz.wide.losses import ROWS_LOSSES
from fuzz.wide.moves import ROWS_MOVES
from fuzz.wide.normalisation import ROWS_NORMALISATION
from fuzz.wide.pairs import ROWS_PAIRS
from fuzz.wide.pointwise import ROWS_POINTWISE
from fuzz.wide.quantised import ROWS_QUANTISED
from fuzz.wide.reductions import ROWS_ALONG
from fuzz.wide.regions import ROWS_REGIONS
from fuzz.wide.resizing import ROWS_RESIZING
from fuzz.wide.row import Row
from fuzz.wide.sequences import ROWS_SEQUENCES
from fuzz.wide.signals import ROWS_SIGNALS
from fuzz.wide.special import ROWS_SPECIAL
from fuzz.wide.training import ROWS_TRAINING
from fuzz.wide.windows import ROWS_WINDOWS

_FAMILIES: Final = (
    ROWS_POINTWISE, ROWS_SPECIAL, ROWS_PAIRS, ROWS_ALONG, ROWS_CREATION, ROWS_MOVES, ROWS_INDEXING, ROWS_LINEAR,
    ROWS_NORMALISATION, ROWS_LOSSES, ROWS_TRAINING, ROWS_WINDOWS, ROWS_IMAGES, ROWS_SEQUENCES, ROWS_CHANCE,
    ROWS_QUANTISED, ROWS_RESIZING, ROWS_SIGNALS, ROWS_REGIONS, ROWS_COUNTING,
)  # fmt: skip

ROWS: Final[Mapping[str, Row]] = {row.name: row for family in _FAMILIES for row in family}

NONE: Final = ("RecurrentWeights", "random_state")
"""Names of the library that are no operations on tensors."""
