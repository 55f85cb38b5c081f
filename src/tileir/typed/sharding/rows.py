"""Gathers and scatters of tables whose rows are split over ranks: each rank reads or writes its own rows.

Data determine the rows. So each rank processes all indices, relative to its own first row. For a row of another rank,
it reads a zero, which does not change the sum of the parts, or writes to an additional row, which is dropped.
"""

from __future__ import annotations

from collections.abc import Callable

from tileir.core import Aggregation, Combination, DType, NameScope, Op, attrs
from tileir.poly.affine import Affine
from tileir.typed.boxes import Interval
from tileir.typed.ir import (
    Access,
    Constant,
    Contraction,
    Elementwise,
    Gather,
    Operation,
    Reshape,
    Scatter,
    Shape,
    Value,
)


@attrs.frozen(eq=False)
class Rows:
    """Rows of a table on one rank, and the destination of operations on them.

    Attributes:
        interval: The first row, and the one after the last.
        size: Number of rows of all ranks together.
        names: Names in use.
        add: Receives operations in order.
    """

    interval: Interval
    size: int
    names: NameScope
    add: Callable[[Operation], None]

    @property
    def count(self) -> int:
        """Number of rows that the rank has."""
        return self.interval[1] - self.interval[0]

    def gather(self, operation: Gather, indices: Value, others: str | None = None) -> None:
        """Add a gather with other values in place of rows of other ranks.

        Args:
            operation: The gather from the rows of this rank.
            indices: The indices, relative to the first row of all.
            others: The value with the elements of other ranks, in the shape of the gather; by default zeros.
        """
        name, dtype, shape = operation.name, operation.dtype, operation.shape
        nothing = others or self._constant(name, dtype, -0.0 if dtype.is_float else 0)  # adding -0.0 keeps every value
        if not self.count:
            self.add(_copied(name, nothing, () if others is None else shape, dtype, shape))
            return
        own, read = self._own(indices), self.names.fresh(f"{name}_rows")
        counted = self._elementwise(
            Op.SUB, (indices.name, self._constant(name, indices.dtype, self.interval[0])), indices
        )
        self.add(attrs.evolve(operation, name=read, indices=counted))
        if own is None:
            self.add(Elementwise(name, Op.IDENT, (read,), dtype, shape))
            return
        aligned = self.names.fresh(f"{name}_own")
        places = len(indices.shape)
        self.add(Reshape(aligned, own, DType.BOOL, (*indices.shape, *[1] * (len(shape) - places))))
        self.add(Elementwise(name, Op.COND, (aligned, read, nothing), dtype, shape))

    def scatter(self, operation: Scatter, indices: Value) -> None:
        """Add a scatter that drops updates of rows of other ranks.

        Args:
            operation: The scatter into the rows of this rank.
            indices: The indices, relative to the first row of all.
        """
        name, dtype, rest = operation.name, operation.dtype, operation.shape[1:]
        longer, into = (self.count + 1, *rest), operation.into
        if into is not None:
            into = self.names.fresh(f"{name}_into")
            self.add(_copied(into, str(operation.into), longer, dtype, longer))
        first = self._constant(name, indices.dtype, self.interval[0])
        last = self._constant(name, indices.dtype, max(self.count - 1, 0))
        counted = self._elementwise(Op.SUB, (indices.name, first), indices)
        counted = self._elementwise(Op.MIN, (counted, last), indices)
        own = self._own(indices)
        if own is not None:
            dropped = self._constant(name, indices.dtype, self.count)
            counted = self._elementwise(Op.COND, (own, counted, dropped), indices)
        written = self.names.fresh(f"{name}_rows")
        self.add(attrs.evolve(operation, name=written, indices=counted, into=into, shape=longer))
        self.add(_copied(name, written, longer, dtype, operation.shape))

    def _own(self, indices: Value) -> str | None:
        """Return a mask of indices of this rank's rows; indices beyond the ends count as the end rows. None for all."""
        low, high = self.interval
        tests = []
        if low > 0 or not self.count:
            tests.append((Op.CMP_GE, low))
        if high < self.size or not self.count:
            tests.append((Op.CMP_LT, high))
        made = [
            self._elementwise(
                test, (indices.name, self._constant(indices.name, indices.dtype, bound)), indices, DType.BOOL
            )
            for test, bound in tests
        ]
        while len(made) > 1:
            made = [self._elementwise(Op.BIT_AND, (made[0], made[1]), indices, DType.BOOL), *made[2:]]
        return made[0] if made else None

    def _constant(self, stem: str, dtype: DType, value: float) -> str:
        name = self.names.fresh(f"{stem}_at")
        self.add(Constant(name, dtype, value))
        return name

    def _elementwise(self, op: Op, inputs: tuple[str, ...], like: Value, dtype: DType | None = None) -> str:
        name = self.names.fresh(f"{like.name}_here")
        self.add(Elementwise(name, op, inputs, dtype or like.dtype, like.shape))
        return name


def _copied(name: str, source: str, sizes: Shape, dtype: DType, shape: Shape) -> Contraction:
    """Return a copy of the elements that both shapes have, or of a scalar to each element."""
    indices = tuple(Affine.index(f"d{axis}") for axis in range(len(shape)))
    read = Access(source, indices if sizes else ())
    return Contraction(name, indices, (read,), Aggregation.ASSIGN, Combination.NONE, dtype, dtype, dtype, shape)
