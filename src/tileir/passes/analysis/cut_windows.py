"""Windows that slide over tensors, and that the border of these may cut: which of them follow each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

from tileir.core import Aggregation
from tileir.poly.affine import Affine
from tileir.stripe.ir import Block, Direction, Program, Refinement, Special, views_read, views_written


def is_cut_by_border(kernel: Block, window: Collection[str], main: Block) -> bool:
    """Return whether what a kernel views is all that its constraints test, each along one axis of its result.

    Args:
        kernel: A flat one.
        window: The indices of its reduction.
        main: The tensors that it views.

    """
    edges = {
        edge
        for view in kernel.refinements
        if view.direction is Direction.IN
        for access, size in zip(view.access, main.refinement(view.source).shape.sizes, strict=False)
        for edge in (access, Affine.constant(size - 1) - access)
    }
    alone = all(sum(name not in window for name in test.indices) == 1 for test in kernel.constraints)
    return alone and edges.issuperset(kernel.constraints)


def in_chains(program: Program, windows: Mapping[str, Block]) -> frozenset[str]:
    """Return the windows that read what another one makes, or make what it reads, at most through elementwise kernels.

    No other kernel stores to what they write, so no element that they leave out has to keep what it had.

    Args:
        program: All kernels.
        windows: Kernels by the tensors that they write.

    """
    made, wanted, found = set[str](), set[str](), set[str]()
    blocks = program.main.blocks
    for kernel in blocks:
        read, written = views_read(kernel), views_written(kernel)
        is_window = any(windows.get(name) is kernel for name in written)
        follows = not made.isdisjoint(read)
        if is_window and follows:
            found.update(written)
        if is_window or (follows and _is_elementwise(kernel)):
            made.update(written)
    for kernel in reversed(blocks):
        read, written = views_read(kernel), views_written(kernel)
        is_window = any(windows.get(name) is kernel for name in written)
        leads = not wanted.isdisjoint(written)
        if is_window and leads:
            found.update(written)
        if is_window or (leads and _is_elementwise(kernel)):
            wanted.update(read)
    writers = Counter(name for kernel in blocks for name in views_written(kernel))
    return frozenset(name for name in found if writers[name] == 1)


def _is_elementwise(kernel: Block) -> bool:
    flat = not any(isinstance(s, Block | Special) for s in kernel.statements)
    return flat and not any(map(_merges, kernel.refinements))


def _merges(view: Refinement) -> bool:
    return view.merges and view.aggregation is not Aggregation.ASSIGN
