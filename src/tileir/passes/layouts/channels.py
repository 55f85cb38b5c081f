"""Temporaries of which every access knows its place along the innermost axis, as one temporary for each place."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import attrs

from tileir.core.rewrite import rewritten
from tileir.core.text.names import NameScope
from tileir.passes.analysis.accesses import is_element
from tileir.passes.base import with_kernels
from tileir.poly.affine import Affine
from tileir.stripe.ir import Block, Direction, Program, Refinement, Statement, TensorShape


def without_channels(program: Program, temporaries: Collection[str]) -> Program:
    """Return the program with each of ``temporaries`` split along its innermost axis, where that can be.

    It can where kernels without blocks inside access single elements of it at places that no index moves along that
    axis: the replacement of aggregates by their parts, for tensors. Parts keep the axis, with extent 1.
    """
    main = program.main
    split = {r.name: r for r in main.refinements if r.name in temporaries and _is_whole(r)}
    for kernel in main.blocks:
        for view in kernel.refinements:
            if view.source in split and (kernel.blocks or not _is_known(view, split[view.source])):
                del split[view.source]
    if not split:
        return program
    names = NameScope.of(r.name for r in program.memory)
    parts = {
        name: tuple(names.fresh(f"{name}_{place}") for place in range(view.shape.sizes[-1]))
        for name, view in split.items()
    }
    statements = rewritten(main.statements, lambda s: (_by_parts(s, parts),))
    memory = (part for each in program.memory for part in _parts(each, parts.get(each.name)))
    return with_kernels(program, statements, memory)


def _is_whole(view: Refinement) -> bool:
    """Return whether a view of ``main`` shows a dense tensor with an axis to split."""
    sizes = view.shape.sizes
    return len(sizes) > 0 and sizes[-1] > 1 and view.shape == TensorShape.dense(view.shape.dtype, sizes)


def _is_known(view: Refinement, whole: Refinement) -> bool:
    """Return whether a view of a kernel shows an element whose place along the innermost axis no index moves."""
    same = view.shape.strides == whole.shape.strides
    return same and is_element(view) and view.access[-1].is_constant and view.direction is not Direction.NONE


def _by_parts(statement: Statement, parts: Mapping[str, tuple[str, ...]]) -> Statement:
    if not isinstance(statement, Block) or not any(r.source in parts for r in statement.refinements):
        return statement
    views = tuple(_of_part(r, parts[r.source]) if r.source in parts else r for r in statement.refinements)
    return attrs.evolve(statement, refinements=views, deps=())


def _of_part(view: Refinement, parts: tuple[str, ...]) -> Refinement:
    """Return the view of the part that holds what a view of the whole shows."""
    place = int(view.access[-1].offset)
    count = len(parts)
    dims = tuple(attrs.evolve(dim, stride=max(1, dim.stride // count)) for dim in view.shape.dims)
    access = (*view.access[:-1], Affine())
    return attrs.evolve(view, source=parts[place], access=access, shape=attrs.evolve(view.shape, dims=dims))


def _parts(memory: Refinement, names: tuple[str, ...] | None) -> tuple[Refinement, ...]:
    """Return the parts of a tensor; the tensor itself where it has none."""
    if names is None:
        return (memory,)
    shape = TensorShape.dense(memory.shape.dtype, (*memory.shape.sizes[:-1], 1))
    return tuple(attrs.evolve(memory, name=name, shape=shape) for name in names)
