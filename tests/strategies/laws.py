"""Laws that hold to the bit on all dtypes, and one that never ends."""

from __future__ import annotations

from typing import Final

SOUND: Final = ("sub(x, y) -> add(x, neg(y))", "add(x, x) -> mul(x, 2)", "cmp_lt(x, y) -> cmp_gt(y, x)")
ENDLESS: Final = "add(x, y) -> add(y, x)"
