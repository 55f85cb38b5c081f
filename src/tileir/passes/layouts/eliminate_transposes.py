"""Elimination of transposed copies of tensors around sliding windows."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import ClassVar

from tileir.core import attrs, grouped
from tileir.passes.analysis.accesses import is_element
from tileir.passes.layouts.transpose import fastest, free_temporaries, relaid, with_fastest
from tileir.passes.rewrites.redundant_temporaries import EmbeddedTensors, Place, copied, is_plain, views_of
from tileir.poly.affine import Affine
from tileir.stripe.ir import Block, Program, Refinement, Special, Statement


@attrs.frozen
class EliminateTransposes:
    """Eliminate transposes around sliding windows: let these read and write tensors with channels last.

    A network whose norms and products go along channels, and whose convolutions slide over pixels, transposes each
    picture between them. Windows are as fast with channels last: neighbouring threads take neighbouring channels. So if
    a copy transposes a whole tensor, and a reduction slides over one of the two, all kernels use the one whose fastest
    axis the window does not slide along. In the program of a copy and a window::

        T[c, p] = X[p, c];  O[c, p] = +(T[c, p + i] * W[c, i])

    the window reads ``X[p + i, c]``, and ``T`` is removed. An output that is a transposed copy likewise replaces its
    source. Other temporaries along whose fastest axis windows slide get the layout of the tensor with these channels,
    if kernels compute them from each other element by element, or by windows of each channel alone.

    Nothing changes if the elements are written again between copy and use, or if a kernel sees the tensor with other
    axes, or at data-dependent places.
    """

    name: ClassVar[str] = "eliminate_transposes"

    def __call__(self, program: Program) -> Program:
        """Return the program without these copies, and without the tensors that they read or write."""
        copies = [(n, s) for n, s in enumerate(program.main.statements) if isinstance(s, Block) and copied(s)]
        if not copies:
            return program
        scan = _Scan.of(program)
        copies.sort(key=lambda each: not any(r.source in scan.outputs for r in each[1].refinements))
        for number, kernel in copies:  # a copy to an output takes the layout of that
            scan.visit(number, kernel)
        if not scan.moved:
            return program
        return _laid_alike(scan.after(), {place.whole for place in scan.moved.values()}, scan)


@attrs.frozen
class _Scan(EmbeddedTensors):
    """Copies found so far.

    Attributes:
        slid: The axes of each tensor along which windows slide.
    """

    slid: dict[str, set[int]] = attrs.field(init=False)

    @slid.default
    def _slid_first(self) -> dict[str, set[int]]:
        return _slid(self.program, self.touching)

    def visit(self, number: int, kernel: Block) -> None:
        """Record a copy of which one side can replace the other, if that benefits windows."""
        copy = copied(kernel)
        axes = None if copy is None else self._transposed(kernel, *copy)
        if copy is None or not axes:
            return
        source, target = (self.place(view.source) for view in copy)
        back = tuple(axes[axis] for axis in target.axes)  # the input axis for each axis of the other root
        across = tuple(source.axes.index(axis) for axis in back)
        if source.whole == target.whole or not self._is_the_same(number, source.whole, target.whole):
            return
        slid = self.slid.get(source.whole, set()) | {across[axis] for axis in self.slid.get(target.whole, ())}
        first, second = (fastest(self.shape(each.whole)) for each in (source, target))
        if not slid:
            return
        if first not in slid and self._may_go(target.whole):
            self._move(number, target.whole, attrs.evolve(source, axes=_inverse(across)))
        elif across[second] not in slid and self._may_go(source.whole):
            self._move(number, source.whole, attrs.evolve(target, axes=across))

    def _transposed(self, kernel: Block, read: Refinement, written: Refinement) -> tuple[int, ...] | None:
        """Return, for a copy of a whole tensor, the input axis for each output axis; None for other copies."""
        if any(r.source not in self.single or r.shape.strides != self.shape(r.source).strides for r in (read, written)):
            return None
        shape, other = (self.shape(view.source) for view in (read, written))
        if len(shape.dims) != len(other.dims) or shape.dtype is not other.dtype or kernel.constraints:
            return None
        names = [_plain(place) for place in written.access]
        sizes = [1 if name == "" else kernel.ranges.get(name or "", 0) for name in names]
        moving = [name for name in names if name]
        whole = sizes == list(other.sizes) and None not in names and len(set(moving)) == len(moving)
        if not whole or len(moving) != sum(n > 1 for n in kernel.ranges.values()):
            return None
        left = [_plain(place) for place in read.access]
        if sorted(left, key=str) != sorted(names, key=str):
            return None
        free = [axis for axis, name in enumerate(left) if not name]
        axes = tuple(left.index(name) if name else free.pop(0) for name in names)
        return axes if [shape.sizes[axis] for axis in axes] == list(other.sizes) else None

    def _is_the_same(self, number: int, source: str, target: str) -> bool:
        """Return whether a copy alone writes a tensor, and its source stays unchanged."""
        before = all(writer < number for writer in self.writing.get(source, ()))
        alone = self.writing.get(target, []) == [number] and min(self.touching[target]) == number
        return before and alone

    def _may_go(self, name: str) -> bool:
        """Return whether all kernels allow another order of the axes of a tensor."""
        if name not in self.temporaries:
            return False
        kernels = [self.program.main.statements[at] for at in self.touching[name]]
        names = {name, *(each for each, place in self.moved.items() if place.whole == name)}
        return all(_is_movable(kernel, self.program.main, names) for kernel in kernels)

    def _move(self, number: int, name: str, place: Place) -> None:
        """Record that a tensor replaces another one, and all that the latter replaced."""
        for other, old in self.moved.items():
            if old.whole == name:
                self.moved[other] = attrs.evolve(place, axes=tuple(old.axes[axis] for axis in place.axes))
        self.moved[name] = place
        self.gone.add(number)
        axes = self.slid.pop(name, set())
        self.slid.setdefault(place.whole, set()).update(n for n, axis in enumerate(place.axes) if axis in axes)
        for table in (self.touching, self.writing):
            joined = {*table.get(place.whole, ()), *table.pop(name, ())} - {number}
            table[place.whole] = sorted(joined)


def _laid_alike(program: Program, alike: Collection[str], scan: _Scan) -> Program:
    """Return the program with temporaries under sliding windows laid out with the fastest axis of tensors ``alike``."""
    shapes = {each.name: each.shape for each in program.memory}
    free = {
        name
        for name in scan.temporaries & free_temporaries(program)
        if fastest(shapes[name]) in scan.slid.get(name, ())
    }
    axes = {name: fastest(program.main.refinement(name).shape) for name in alike}
    touching = grouped((view.source, kernel) for kernel in program.main.blocks for view in views_of(kernel))
    pending = sorted(axes)
    while pending:
        name = pending.pop()
        strides = program.main.refinement(name).shape.strides
        for kernel in touching.get(name, ()):
            seen = [v for v in views_of(kernel) if v.source == name and v.shape.strides == strides]
            along = {_plain(view.access[axes[name]]) for view in seen}
            if len(along) != 1 or not all(along):
                continue
            for view in views_of(kernel):
                at = [axis for axis, place in enumerate(view.access) if _plain(place) in along]
                if view.source in free and view.source not in axes and len(at) == 1:
                    axes[view.source] = at[0]
                    pending.append(view.source)
    new = {n: with_fastest(shapes[n], axes[n]) for n in axes.keys() & free - _before_others(program, axes, scan.slid)}
    return relaid(program, new) if new else program


def _before_others(program: Program, axes: Mapping[str, int], slid: Mapping[str, Collection[int]]) -> set[str]:
    """Return the sums of windows whose reader's output keeps its layout: only in that layout can the two fuse."""
    found: set[str] = set()
    main = program.main
    merged = {view.source for kernel in program.main.blocks for view in kernel.refinements if view.merges}
    for kernel in program.main.blocks:
        written = [view.source for view in views_of(kernel) if view.direction.writes]
        stays = any(n in slid and n not in axes and fastest(main.refinement(n).shape) in slid[n] for n in written)
        if stays and merged.isdisjoint(written):
            found.update(view.source for view in views_of(kernel) if view.source in merged)
    return found


def _plain(place: Affine) -> str | None:
    """Return the index that alone moves along an axis, by single steps; an empty name for the constant 0."""
    if not place.indices:
        return None if place.offset else ""
    alone = len(place.indices) == 1 and place.coefficient(place.indices[0]) == 1 and not place.offset
    return place.indices[0] if alone else None


def _inverse(axes: Sequence[int]) -> tuple[int, ...]:
    return tuple(axes.index(axis) for axis in range(len(axes)))


def _slid(program: Program, touching: Mapping[str, Sequence[int]]) -> dict[str, set[int]]:
    """Return the axes along which windows slide, also through elementwise kernels."""
    found: dict[str, set[int]] = {}
    pending: list[str] = []
    for kernel in program.main.blocks:
        slides = _slides(kernel) if any(view.merges for view in kernel.refinements) else frozenset()
        for view in views_of(kernel) if slides else ():
            if _has_own_axes(view, program.main):
                pending += _grown(found, view, slides)
    while pending:
        name = pending.pop()
        for number in touching[name]:
            statement = program.main.statements[number]
            if not isinstance(statement, Block) or any(view.merges for view in statement.refinements):
                continue
            views = [view for view in views_of(statement) if _has_own_axes(view, program.main)]
            slides = frozenset(
                index
                for view in views
                if view.source == name
                for axis in found[name]
                if (index := _plain(view.access[axis]))
            )
            for view in views:
                pending += _grown(found, view, slides)
    return found


def _has_own_axes(view: Refinement, main: Block) -> bool:
    """Return whether a view has the axes of its tensor in ``main``."""
    return view.shape.strides == main.refinement(view.source).shape.strides


def _grown(found: dict[str, set[int]], view: Refinement, slides: Collection[str]) -> list[str]:
    """Add the axes along which window indices move a view; return the name of its tensor if any are new."""
    axes = found.setdefault(view.source, set())
    known = len(axes)
    axes.update(n for n, place in enumerate(view.access) if not {*place.indices}.isdisjoint(slides))
    return [view.source] if len(axes) > known else []


def _slides(kernel: Block) -> frozenset[str]:
    """Return the indices that move windows: those of overlapping places first, else those of adjacent windows."""
    found: dict[bool, set[str]] = {True: set(), False: set()}
    for view in kernel.refinements:
        for place in view.access:
            terms = sorted((abs(int(n)), name) for name, n in place.terms if kernel.ranges.get(name, 1) > 1)
            if len(terms) > 1:
                (step, inner), (apart, _) = terms[:2]
                found[step * kernel.ranges[inner] > apart].update(name for _, name in terms)
    return frozenset(found[True] or found[False])


def _is_movable(statement: Statement, main: Block, names: set[str]) -> bool:
    """Return whether a kernel accesses tensors by their own axes, element by element, without data-dependent places."""
    if not isinstance(statement, Block) or not is_plain(statement):
        return False
    if any(isinstance(s, Special) for s in statement.statements):
        return False
    views = [view for view in views_of(statement) if view.source in names]
    return all(is_element(view) and _has_own_axes(view, main) for view in views)
