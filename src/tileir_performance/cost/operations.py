"""Operation counts of the statements of a block.

A product whose only use is to be added to a sum is a multiply-add, and counts 2; all others count what
:mod:`tileir.passes.cost.operations` says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from tileir.core import Aggregation, DType, Op
from tileir.passes.cost.operations import Kind, kind_of
from tileir.stripe import ir as stripe
from tileir_performance.cost.scopes import Access, Scope


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
