"""Sizes in steps: integers, or expressions over sizes of loops, parameters of a script and facts of a target.

``"min(14, i)"`` is 14, or the size of loop ``i`` where that is smaller; ``"VECTOR_BYTES // 4"`` are as many elements as
fill a vector. So one script serves all sizes. The expressions are those of target files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import attrs

from tileir.core.targets.template_expressions import (
    Budget,
    ExhaustedError,
    ExpressionError,
    MissingError,
    evaluate,
    parse,
)
from tileir.schedule.remarks import refused

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tileir.core.targets.template_expressions import Value
    from tileir.schedule.remarks import Refused
    from tileir.schedule.tree import Tree

Size: TypeAlias = int | str


@attrs.frozen
class Known:
    """Values that expressions may name beside the sizes of loops: parameters, and facts of the target."""

    values: Mapping[str, Value] = attrs.field(factory=dict)

    def size(self, size: Size, tree: Tree) -> int | Refused:
        """Return the value of a size, which must be 1 or more."""
        if isinstance(size, str):
            names = {**{loop.name: loop.size for loop in tree.loops()}, **self.values}
            try:
                value = evaluate(parse(size), names, Budget())
            except MissingError as missing:
                return refused("TR702", expression=size, name=str(missing.args[0]), known=", ".join(names))
            except (ExpressionError, ExhaustedError, ArithmeticError, LookupError, TypeError, ValueError) as error:
                return refused("TR703", expression=size, problem=str(error))
        else:
            value = size
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            return refused("TR704", expression=str(size), value=str(value))
        return value
