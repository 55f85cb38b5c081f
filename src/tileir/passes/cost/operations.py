"""Operation counts of the statements of a block.

Each operation counts as many as the weight in its row of :mod:`tileir.core.ops` says: 1 for what processors do in one
instruction, and for functions the size of their expansions, in elementary operations. A product whose only use is to be
added to a sum is a multiply-add, and counts 2.
"""

from __future__ import annotations

import enum
from collections import Counter
from typing import TYPE_CHECKING, Final

from tileir.core import Aggregation, DType, Op
from tileir.stripe import ir as stripe

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from tileir.passes.cost.scopes import Access, Scope


class Kind(enum.Enum):
    """Kind of an operation."""

    MULTIPLY_ADD = "multiply-add"
    ARITHMETIC = "arithmetic"
    DIVISION = "division"
    FUNCTION = "function"
    CONVERSION = "conversion"

    __hash__ = object.__hash__


_DIVISIONS: Final = frozenset({Op.DIV, Op.MOD, Op.SQRT})


_MEMORY: Final = 48
"""Operations, by their weight, that cards do in the time in which they store an element and load it again."""


def takes_less_than_memory(operations: Iterable[Op], dtype: DType) -> bool:
    """Return whether a card does the operations sooner than it stores an element and loads it again."""
    return sum(op.info.weight_in(dtype) for op in operations) <= _MEMORY


def weights_of(block: stripe.Block) -> int:
    """Return how many operations a block does at each point, by their weights; blocks inside are left out."""
    return sum(s.op.info.weight_in(s.dtype) for s in block.statements if isinstance(s, stripe.Intrinsic))


def kind_of(op: Op) -> Kind:
    """Return what sort of operation ``op`` is, by itself."""
    if op.info.approximates:
        return Kind.FUNCTION
    return Kind.MULTIPLY_ADD if op is Op.FMA else Kind.DIVISION if op in _DIVISIONS else Kind.ARITHMETIC


def fused_products(block: stripe.Block, accesses: Mapping[str, Access]) -> frozenset[str]:
    """Return the scalars that are products and go nowhere but into a sum, where they cost nothing more than the sum."""
    products = {
        s.into for s in block.statements if isinstance(s, stripe.Intrinsic) and s.op is Op.MUL and s.dtype.is_float
    }
    if not products:
        return frozenset()
    uses = Counter(name for statement in block.statements for name in stripe.scalar_inputs(statement))
    stores = (s for s in block.statements if isinstance(s, stripe.Store))
    summed = {store.source for store in stores if accesses[store.into].merging is Aggregation.SUM}
    return frozenset(name for name in products & summed if uses[name] == 1)


def scalar_dtypes(block: stripe.Block, accesses: Mapping[str, Access]) -> dict[str, DType]:
    """Return the dtype of each scalar of a block."""
    found: dict[str, DType] = {}
    for statement in block.statements:
        match statement:
            case stripe.Load(source=source, into=into):
                found[into] = accesses[source].dtype
            case stripe.LoadIndex() | stripe.Constant() | stripe.Intrinsic() | stripe.Convert():
                found[statement.into] = statement.dtype
    return found


def operations_of(scope: Scope) -> Iterator[tuple[DType, Kind, int]]:
    """Yield dtype, kind and number of the operations of one point of a block, nested blocks left out.

    The dtype of an operation is that of its operands: comparisons of f32 are operations on f32.
    """
    fused = fused_products(scope.block, scope.accesses)
    dtypes = scalar_dtypes(scope.block, scope.accesses)
    for statement in scope.block.statements:
        match statement:
            case stripe.Intrinsic(op=op, into=into, inputs=inputs):
                dtype = dtypes[inputs[-1]]
                if into not in fused and (weight := op.info.weight_in(dtype)):
                    yield dtype, kind_of(op), 2 * weight if op is Op.FMA else weight
            case stripe.Convert(dtype=dtype):
                yield dtype, Kind.CONVERSION, 1
            case stripe.Store(source=source, into=into) if scope.accesses[into].merging is not None:
                dtype = scope.accesses[into].dtype
                if source in fused:
                    yield dtype, Kind.MULTIPLY_ADD, 2
                else:
                    yield dtype, Kind.ARITHMETIC, 1
