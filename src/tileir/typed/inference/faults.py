"""Several faults of one program, collected before they are raised together.

Observers follow an inference, for example to issue warnings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeVar

import attrs

from tileir.core import Diagnostic, DType, Span, TileError
from tileir.tile import ir as tile
from tileir.typed.inference.emission import Emission
from tileir.typed.inference.values import ConstantScalar, Number, PoisonedError, Scalar
from tileir.typed.ir import Contraction, Shape

S = TypeVar("S")
T = TypeVar("T")


@attrs.define(eq=False, repr=False)
class Faults:
    """Faults so far; ``poisoned`` says that something failed for a reason reported elsewhere."""

    found: list[Diagnostic] = attrs.field(factory=list)
    poisoned: bool = False

    def each(self, function: Callable[[S], T], items: Iterable[S]) -> tuple[T, ...]:
        """Apply ``function`` to all items and collect faults; the results are complete if :meth:`done` passes."""
        results = []
        for item in items:
            try:
                results.append(function(item))
            except TileError as error:
                self.found.extend(error.diagnostics)
            except PoisonedError:
                self.poisoned = True
        return tuple(results)

    def done(self) -> None:
        """Raise the collected faults, if any.

        Raises:
            TileError: All diagnostics.
            PoisonedError: There are none, but something failed.
        """
        if self.found:
            raise TileError(self.found)
        if self.poisoned:
            raise PoisonedError


class Observer(Protocol):
    """Receiver of the findings of an inference; a step of a scan is inferred several times."""

    def contraction(self, statement: tile.Contraction, node: Contraction, shapes: Sequence[Shape]) -> None:
        """Receive a contraction as it was written and as it was typed, with the shapes of its inputs."""

    def promoted(self, emission: Emission, values: Sequence[Scalar], dtype: DType, span: Span | None) -> None:
        """Receive the operands of an operation, and the dtype in which they are computed."""

    def natural(self, value: ConstantScalar | Number, dtype: DType) -> None:
        """Receive a constant or number whose dtype no other operand determines."""

    def literal(self, value: ConstantScalar, dtype: DType, span: Span | None) -> None:
        """Receive a constant and the dtype in which it is computed."""
