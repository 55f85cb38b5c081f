"""The stable codes of remarks: what a scheduling step did to a kernel, or why it refused, a sentence for each.

A code is never used for something else. ``TR0`` are general ones, ``TR1`` the form of kernels, ``TR2`` what can be
done to their loops, ``TR3`` vectors, ``TR4`` groups of threads, ``TR5`` register tiles, ``TR6`` other algorithms and
regions, ``TR7`` steps of scripts.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    from collections.abc import Mapping


@attrs.frozen
class Reason:
    """What a code means.

    Attributes:
        text: A sentence without a full stop, which holds for each kernel that gets the code.
        relevant: Whether somebody could act on it: a change of the program, of sizes, of dtypes or of options would
            bring another outcome. A kernel that a step is not for at all is refused for a reason that is not.

    """

    text: str
    relevant: bool = True


def _beside(text: str) -> Reason:
    return Reason(text, relevant=False)


_GENERAL: Final = {
    "TR001": Reason("the step changed the kernel"),
    "TR002": _beside("the step left the kernel as it was, and says no more"),
    "TR003": _beside("the step is for kernels with other tags"),
    "TR004": Reason("the step failed and was left out, which is a defect of tileir"),
}
_FORMS: Final = {
    "TR101": _beside("the kernel has lanes, threads or groups already"),
}

REASONS: Final[Mapping[str, Reason]] = MappingProxyType({**_GENERAL, **_FORMS})
"""All codes, with what they mean."""
