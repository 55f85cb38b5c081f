"""JSON of all nodes, spoilt: each is read and written again as it was, or refused; and so is what people write.

Nothing but a ``TileError`` refuses it.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from typing import Any, Final

from fuzz import formulas, texts
from fuzz.area import Area, Case, Refused
from tileir.core import TileError, from_json, to_json
from tileir.semtree import ir as semtree
from tileir.stripe import ir as stripe
from tileir.tile import ir as tile
from tileir_formula import ir as formula
from tileir_testing.generated.choices import Choices

KINDS: Final[Mapping[str, type[Any]]] = {
    "tile": tile.Function,
    "stripe": stripe.Program,
    "semtree": semtree.Program,
    "formula": formula.Formula,
}
VALUES: Final[tuple[Any, ...]] = (
    None,
    True,
    0,
    -1,
    1.5,
    1e308,
    2**63,
    2**64,
    "",
    "A",
    "f32",
    "\ud800",
    [],
    {},
    [None],
    {"node": 1},
)
"""Replacements of a part of a document."""


def make(choices: Choices) -> Case:
    """Take the JSON of a program, and change it in up to three places."""
    kind = choices.pick(tuple(KINDS))
    read, _ = texts.READERS[kind]
    return {"kind": kind, "document": spoilt(choices, to_json(read(texts.text(choices, kind))))}


def spoilt(choices: Choices, data: bytes) -> Any:
    """Return a document that is changed in up to three places."""
    document = json.loads(data)
    for _ in range(choices.integer(1, 3)):
        holder, key = _place(choices, document)
        match choices.integer(0, 3):
            case 0:
                del holder[key]
            case 1 if isinstance(holder, list):
                holder.insert(key, holder[key])
            case 2:
                other, at = _place(choices, document)
                holder[key] = json.loads(json.dumps(other[at]))
            case _:
                holder[key] = copy.deepcopy(choices.pick(VALUES))
        if not document:
            break
    return document


def _place(choices: Choices, document: Any) -> tuple[Any, Any]:
    """Choose a part of a document: what holds it, and under which key."""
    holder, key = document, choices.pick(sorted(document))
    while isinstance(holder[key], dict | list) and holder[key] and choices.integer(0, 7):
        holder = holder[key]
        key = choices.pick(sorted(holder)) if isinstance(holder, dict) else choices.integer(0, len(holder) - 1)
    return holder, key


def check(case: Case) -> int:
    """Read the document; what is read is written and read back as an equal value."""
    kind = KINDS[case["kind"]]
    try:
        value = from_json(json.dumps(case["document"]), kind)
    except TileError as error:
        raise Refused(error.diagnostics[0].code) from error
    assert from_json(to_json(value), kind) == value, "reads as something else after writing"
    if isinstance(value, formula.Formula):
        formulas.check_node(value)
    return 1


AREA: Final = Area("json", make, check)
