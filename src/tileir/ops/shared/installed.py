"""Operations of installed distributions: functions over tensors of the builder, as ``ops.NAME``."""

from __future__ import annotations

from collections.abc import Callable, Collection

from tileir.core import missing_attribute, with_short_traceback
from tileir.core.extensions import EXTENSIONS, Kind


def operation_called(name: str, known: Collection[str]) -> Callable[..., object]:
    """Return the operation of that name in an installed distribution.

    Args:
        name: The requested name.
        known: The names of tileir's own operations, for the message.

    Raises:
        AttributeError: There is none.
        BackendError: TIL811 or TIL812, it cannot be loaded.
    """
    if name.startswith("_") or name not in EXTENSIONS.entries(Kind.OPERATION):
        offered = () if name.startswith("_") else EXTENSIONS.names(Kind.OPERATION)
        raise missing_attribute("tileir.ops", name, [*known, *offered])
    return with_short_traceback(EXTENSIONS.get(Kind.OPERATION, name, wrong_operation))  # type: ignore[arg-type]  # it is checked


def wrong_operation(offer: object) -> str | None:
    """Return the reason why something cannot serve as an operation; None if it can."""
    return None if callable(offer) else f"is a {type(offer).__name__}, not a function over tensors"
