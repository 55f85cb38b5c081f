"""Sequential composition of kernels, as blocks of one kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tileir.core import NameScope, attrs
from tileir.poly.affine import Affine
from tileir.stripe.ir import Block, Direction, Index, Refinement


def in_turn(
    kernels: Sequence[Block],
    main: Block,
    shared: Index | None,
    own: Sequence[Index | None],
    local: Mapping[str, Refinement],
) -> Block:
    """Return one kernel over ``shared`` that runs others one after the other.

    ``own`` has, for each kernel, its index that corresponds to the shared one, or None. ``local`` holds allocations
    that replace the tensors of these names, whose first axis is that of the shared index.
    """
    views: dict[str, Refinement] = {}
    names = NameScope.of(r.name for r in local.values())
    for kernel in kernels:
        for view in kernel.refinements:
            if view.source not in local:
                views[view.source] = _whole(views.get(view.source), view, main, names)
    blocks = [
        _inside(kernel, index, shared, {**views, **local}, local) for kernel, index in zip(kernels, own, strict=True)
    ]
    return attrs.evolve(
        kernels[0],
        indices=() if shared is None else (shared,),
        constraints=(),
        refinements=(*local.values(), *views.values()),
        statements=tuple(blocks),
        comments=tuple(dict.fromkeys(comment for kernel in kernels for comment in kernel.comments)),
        deps=(),
    )


def _whole(known: Refinement | None, view: Refinement, main: Block, names: NameScope) -> Refinement:
    """Return a view of the whole tensor of a kernel's view, with the union of the directions so far."""
    held = main.refinement(view.source)
    zero = (Affine(),) * len(held.access)
    if known is None:
        return Refinement(names.fresh(held.name), view.direction, held.name, zero, held.shape)
    both = view.direction if view.direction is known.direction else Direction.INOUT
    return attrs.evolve(known, direction=both)


def _inside(
    kernel: Block,
    own: Index | None,
    shared: Index | None,
    views: Mapping[str, Refinement],
    local: Mapping[str, Refinement],
) -> Block:
    """Return a kernel as a block inside another, for one value of the shared index."""
    indices = []
    for index in kernel.indices:
        plain = attrs.evolve(index, binding=None)
        if index is own and shared is not None:
            plain = attrs.evolve(plain, range=1, affine=Affine.index(shared.name), binding=None)
        indices.append(plain)
    here = {} if own is None else {own.name: Affine()}
    refinements = []
    for view in kernel.refinements:
        access = tuple(affine.substitute(here) for affine in view.access) if view.source in local else view.access
        refinements.append(attrs.evolve(view, source=views[view.source].name, access=access))
    tags = kernel.tags
    return attrs.evolve(kernel, indices=tuple(indices), refinements=tuple(refinements), tags=tags, comments=(), deps=())
