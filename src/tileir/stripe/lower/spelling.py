"""Names of values that Stripe can spell, in place of others, which Tile writes in quotes."""

from __future__ import annotations

import re
from typing import Final

from tileir.core import NameScope, attrs, schema
from tileir.typed.ir import Function, Scan

SPELT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.']*")
"""The names that Stripe can spell."""
_OTHER: Final = re.compile(r"[^A-Za-z0-9_]+")


def spelled(function: Function) -> Function:
    """Return a function whose values have names that Stripe can spell; itself where all have."""
    values = (*function.inputs, *function.operations)
    plain = [value.name for value in values if SPELT.fullmatch(value.name)]
    scope = NameScope.of(plain)
    names = {value.name: scope.fresh(_word(value.name)) for value in values if not SPELT.fullmatch(value.name)}
    steps = {each.body: spelled(each.body) for each in function.operations if isinstance(each, Scan)}
    if not names and all(new is old for old, new in steps.items()):
        return function
    operations = (
        attrs.evolve(operation, body=steps[operation.body]) if isinstance(operation, Scan) else operation
        for operation in function.operations
    )
    return attrs.evolve(
        function,
        inputs=tuple(schema.with_names(value, names) for value in function.inputs),
        outputs=tuple(names.get(name, name) for name in function.outputs),
        operations=tuple(schema.with_names(operation, names) for operation in operations),
        labels=tuple((names.get(name, name), label) for name, label in function.labels),
    )


def _word(name: str) -> str:
    word = _OTHER.sub("_", name).strip("_")
    return word if SPELT.fullmatch(word) else f"v_{word}"
