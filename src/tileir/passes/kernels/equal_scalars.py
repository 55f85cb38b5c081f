"""Equal scalars of a body made once: loads, constants and computations that an earlier statement has made already."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileir.schedule.reindex import renamed
from tileir.stripe.ir import Load, scalar_output

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tileir.stripe.ir import Statement


def made_once(statements: Iterable[Statement]) -> list[Statement]:
    """Return the statements of a flat body, where later scalars that equal an earlier one are that one.

    What a load finds is not taken to be there any more after a store, to whatever view.
    """
    same: dict[str, str] = {}
    known: dict[Statement, str] = {}
    result: list[Statement] = []
    for statement in statements:
        new = renamed(statement, same, {}) if same else statement
        into = scalar_output(new)
        if into is None:
            known = {key: name for key, name in known.items() if not isinstance(key, Load)}
            result.append(new)
            continue
        key = renamed(new, {into: ""}, {})
        if key in known:
            same[into] = known[key]
        else:
            known[key] = into
            result.append(new)
    return result
