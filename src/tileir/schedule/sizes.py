"""Sizes in steps: integers, or expressions over sizes of loops, parameters of a script and facts of a target.

``"min(14, i)"`` is 14, or the size of loop ``i`` where that is smaller; ``"VECTOR_BYTES // 4"`` are as many elements as
fill a vector. So one script serves all sizes. The expressions are those of target files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from tileir.core.nodes import attrs
from tileir.core.targets.template_expressions import (
    Budget,
    ExhaustedError,
    ExpressionError,
    MissingError,
    Value,
    evaluate,
    parse,
)
from tileir.schedule.remarks import Refused, refused
from tileir.schedule.tree import Tree
from tileir.stripe import ir as stripe

Size: TypeAlias = int | str
Producers: TypeAlias = "Callable[[str, bool], stripe.Block | None]"


def no_producer(_: str, unread: bool) -> None:  # all are called alike
    """Return None: nothing is known of the kernels before."""


@attrs.frozen
class Known:
    """Names that steps may speak of beside the loops and the memory of a kernel.

    Attributes:
        values: Parameters, and facts of the target, which expressions may name.
        producer: Returns the kernel before this one that alone makes a tensor, by its name in the program; None where
            there is none. What it reads is still there when this one runs, and this one writes none of it. With True as
            second argument, nobody between reads the tensor either, so that this one may store it instead.
    """

    values: Mapping[str, Value] = attrs.field(factory=dict)
    producer: Producers = attrs.field(default=no_producer)

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
