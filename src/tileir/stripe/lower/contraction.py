"""Contractions: solved bounds become a flat block over all valid points."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Final, assert_never

from tileir.core.ops import Aggregation, Combination, Op
from tileir.poly.coverage import covers
from tileir.poly.partition import partition
from tileir.stripe.ir import Index, Tags
from tileir.stripe.lower.kernel_builder import KernelBuilder, Scalar
from tileir.stripe.lower.overwriting import solved, written_together

if TYPE_CHECKING:
    from tileir.poly.affine import Affine
    from tileir.poly.bounds import Domain
    from tileir.stripe.lower.program_builder import ProgramBuilder
    from tileir.stripe.lower.storage import Tensor
    from tileir.typed.ir import Contraction


_INPUT: Final = Tags.of("contraction")

_LEAST_POINTS: Final = 1 << 15
"""A kernel that visits fewer points costs little more than it takes to start several."""


def lower_contraction(builder: ProgramBuilder, contraction: Contraction) -> None:
    """Add the kernels of a contraction.

    In order: where not every element is surely written, one that stores the default or 0, unless it is written over
    its default; the contraction itself, unless it has no valid point, as one kernel or several that write different
    elements; and where the sums are kept in another dtype, one that converts them.

    Raises:
        TileError: TIL401 to TIL405, the indices have no proper bounds.

    """
    result = builder.storage.result(contraction.name)
    # What reshapes a scalar that is known when compiling has no tensor: all its axes are of size 1.
    shapes = [builder.sizes(access.tensor) or (1,) * len(access.indices) for access in contraction.inputs]
    domain = solved(contraction, shapes)
    in_place = contraction.default is not None and contraction.default in builder.storage.overwriters
    if domain is None:
        if not in_place:
            builder.fill(contraction, result, contraction.default)
        return
    same = contraction.accumulator is contraction.dtype
    stem = f"{contraction.name}_acc"
    target = result if same else builder.storage.temporary(stem, contraction.accumulator, contraction.shape)
    if not in_place and not covers(domain, contraction.shape) and not _completed(builder, contraction, domain):
        builder.fill(contraction, target, contraction.default)
    for part in _parts(builder, contraction, domain):
        _contract(builder, contraction, part, target)
    if not same:
        builder.convert(contraction, target, result)


def _completed(builder: ProgramBuilder, contraction: Contraction, domain: Domain) -> bool:
    """Tell whether contractions that write over this one write all that it leaves out."""
    later = builder.storage.overwriters
    return contraction.name in later and written_together(contraction, domain, later, builder.sizes)


def _parts(builder: ProgramBuilder, contraction: Contraction, domain: Domain) -> tuple[Domain, ...]:
    """Return the domains of the kernels that write a result; one that has a label is one kernel."""
    points = prod(extent for _, extent in domain.ranges)
    return (domain,) if contraction.name in builder.labels or points < _LEAST_POINTS else partition(domain)


def _contract(builder: ProgramBuilder, contraction: Contraction, domain: Domain, target: Tensor) -> None:
    """Add a kernel that visits every point of a domain once."""
    kernel = KernelBuilder(tuple(Index(name, extent) for name, extent in domain.ranges), domain.constraints)
    loaded = [
        _load(builder, kernel, access.tensor, polynomials)
        for access, polynomials in zip(contraction.inputs, domain.accesses[1:], strict=True)
    ]
    value = kernel.convert(_combine(kernel, contraction, loaded), contraction.accumulator)
    kernel.store(contraction.name, value, target, domain.accesses[0], contraction.aggregation)
    if contraction.aggregation is Aggregation.SUM and contraction.combination is Combination.MUL:
        builder.macs += prod(extent for _, extent in domain.ranges)
    tags = (f"agg_op_{contraction.aggregation.value}", f"comb_op_{contraction.combination.value}")
    promised = ("finite",) if contraction.finite else ()
    builder.add(kernel, contraction, Tags.of("contraction", *tags, *promised))


def _load(builder: ProgramBuilder, kernel: KernelBuilder, name: str, access: tuple[Affine, ...]) -> Scalar:
    constant = builder.storage.constants.get(name)
    if constant is not None:
        return kernel.constant(name, constant.dtype, constant.value)
    return kernel.load(name, builder.storage.tensors[name], access, _INPUT)


def _combine(kernel: KernelBuilder, contraction: Contraction, loaded: list[Scalar]) -> Scalar:
    """Combine the elements of one point, each first cast as the contraction says."""
    name, combination = contraction.name, contraction.combination
    compared = loaded[:2] if combination is Combination.COND else loaded
    operands = [kernel.convert(scalar, contraction.operand_dtype) for scalar in compared]
    match combination:
        case Combination.NONE:
            return operands[0]
        case Combination.ADD:
            return kernel.compute(name, Op.ADD, *operands)
        case Combination.MUL:
            return kernel.compute(name, Op.MUL, *operands)
        case Combination.EQ:
            return kernel.compute(name, Op.CMP_EQ, *operands)
        case Combination.COND:
            equal = kernel.compute("equal", Op.CMP_EQ, *operands)
            return kernel.compute(name, Op.COND, equal, loaded[2], kernel.zero(loaded[2].dtype))
        case _:
            assert_never(combination)
