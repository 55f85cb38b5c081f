"""What somebody may want to know of an inference while it goes on: what warnings are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tileir.core.dtype import DType
    from tileir.core.text.span import Span
    from tileir.tile import ir as tile
    from tileir.typed.inference.emission import Emission
    from tileir.typed.inference.values import Known, Number, Scalar
    from tileir.typed.ir import Contraction, Shape


class Observer(Protocol):
    """Is told what inference finds; a step of a scan is inferred several times."""

    def contraction(self, statement: tile.Contraction, node: Contraction, shapes: Sequence[Shape]) -> None:
        """Take a contraction as it was written and as it was typed, with the shapes of its inputs."""

    def promoted(self, emission: Emission, values: Sequence[Scalar], dtype: DType, span: Span | None) -> None:
        """Take operands that meet, and the dtype in which they are computed."""

    def natural(self, value: Known | Number, dtype: DType) -> None:
        """Take a constant or number that has the dtype which it gets where nothing else decides."""

    def literal(self, value: Known, dtype: DType, span: Span | None) -> None:
        """Take a constant, and the dtype in which it is computed."""
