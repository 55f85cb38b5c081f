"""Unrolling of channels in kernels that mix the few channels of interleaved tensors: one point computes a whole pixel.

Temporaries whose accesses all have a known place along the innermost axis are split into one for each place.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import product
from math import prod
from typing import ClassVar, Final

from tileir.core import Aggregation, NameScope, attrs, grouped, rewritten
from tileir.core.numbers.arithmetic import Array
from tileir.passes.algorithms.terms import Terms, elements_of
from tileir.passes.analysis import address, is_element, roots
from tileir.passes.base import at_least, selected_kernel, with_kernels
from tileir.poly.affine import Affine
from tileir.schedule.reindex import moved
from tileir.stripe.ir import (
    Block,
    Buffer,
    Constant,
    Convert,
    Direction,
    Index,
    Intrinsic,
    Load,
    LoadIndex,
    Program,
    Refinement,
    Special,
    Statement,
    Store,
    TensorShape,
    views_read,
    views_written,
)

_AGGREGATIONS: Final = (Aggregation.SUM, Aggregation.PROD, Aggregation.MAX, Aggregation.MIN)
_REDUCES: Final = ("agg_op_", "comb_op_", "contraction")
"""Prefix of the tags of reductions."""


@attrs.frozen
class Deinterleave:
    """Unroll the channels of kernels that mix them, so that vectors run over pixels.

    Channels are a short innermost axis, as in images of shape (rows, columns, 3). A flat kernel mixes them if one
    channel of a pixel depends on other channels, on values that all channels of a pixel share, or on a constant per
    channel: contiguous elements then have no uniform vector form. The kernel becomes elementwise over pixels, with one
    store per channel, no loop over input channels, and immediate constants. Elementwise kernels that share a temporary
    with one of these are unrolled as well, so that all of them can be fused. A temporary whose accesses have known
    channels is split by channel.

    Attributes:
        reqs: Tags that a kernel must carry.
        channels: Maximum number of channels.
        terms: Maximum number of pairs of output and input channels.
        pixels: Minimum number of pixels along their innermost axis.
    """

    name: ClassVar[str] = "deinterleave"
    reqs: tuple[str, ...] = ()
    channels: int = attrs.field(default=4, validator=at_least(2))
    terms: int = attrs.field(default=16, validator=at_least(1))
    pixels: int = attrs.field(default=8, validator=at_least(1))

    def __call__(self, program: Program) -> Program:
        """Return the program with kernels over pixels."""
        behind = roots(program)
        candidates = {
            number: pixels
            for number, kernel in enumerate(program.main.statements)
            if isinstance(kernel, Block) and selected_kernel(kernel, self.reqs) and "copies" not in kernel.tags
            if (pixels := _Pixels.of(kernel, self)) is not None
        }
        temporaries = set(behind.values()) - {*program.inputs, *program.outputs, *(b.name for b in program.buffers)}
        for number in _beside_gathers(program, candidates, behind, temporaries):
            del candidates[number]
        for number in _at_odds(program, candidates, behind, temporaries):
            del candidates[number]
        chosen = _chosen(candidates, behind, temporaries)
        if not chosen:
            return program
        known = {buffer.name: buffer for buffer in program.buffers}
        statements: list[Statement] = []
        for number, kernel in enumerate(program.main.statements):
            if number in chosen:
                pixels = candidates[number]
                read = {r.name: behind[r.source] for r in pixels.kernel.refinements}
                kernel = pixels.written_out({name: known[root] for name, root in read.items() if root in known})
            statements.append(kernel)
        return without_channels(with_kernels(program, tuple(statements)), temporaries)


def _beside_gathers(
    program: Program, candidates: Mapping[int, _Pixels], behind: Mapping[str, str], temporaries: set[str]
) -> list[int]:
    """Return the candidates that read pixels at data-dependent places, or are elementwise functions of these.

    All channels of such a pixel are contiguous in memory; one channel of several pixels is scattered.
    """
    gathered: set[str] = set()
    found = []
    for number, kernel in enumerate(program.main.statements):
        if not isinstance(kernel, Block):
            continue
        roots_of = {r.name: behind[r.source] for r in kernel.refinements if r.direction is not Direction.NONE}
        gathers = any(isinstance(s, Load) and s.index is not None for s in kernel.statements)
        pixels = candidates.get(number)
        alike = pixels is not None and pixels.channel is not None and not pixels.reduced
        if gathers or (alike and not gathered.isdisjoint(roots_of.values())):
            gathered.update(roots_of[r.name] for r in kernel.refinements if r.direction.writes)
            gathered &= temporaries
            if pixels is not None:
                found.append(number)
    return found


def _at_odds(
    program: Program, candidates: Mapping[int, _Pixels], behind: Mapping[str, str], temporaries: set[str]
) -> set[int]:
    """Return the candidates that share a temporary with a kernel whose pixels have another number of elements in it.

    A kernel that writes a term for each channel and each step of a reduction takes the steps as channels, or goes
    over all of them alike; its reader has both in a pixel. Unrolled, the two could not be fused.
    """
    users: dict[str, set[int]] = {}
    counts: dict[str, set[int]] = {}
    for number, pixels in candidates.items():
        for view in pixels.kernel.refinements:
            if behind[view.source] in temporaries and (elements := pixels.elements(view)) > 1:
                users.setdefault(behind[view.source], set()).add(number)
                counts.setdefault(behind[view.source], set()).add(elements)
    flat = {
        behind[name]
        for number, kernel in enumerate(program.main.statements)
        if number not in candidates
        for name in views_written(kernel)
    }
    terms = {
        behind[view.source]
        for pixels in candidates.values()
        for view in pixels.kernel.refinements
        if pixels.has_terms(view)
    }
    return {number for root, some in users.items() if len(counts[root]) > 1 or root in terms & flat for number in some}


def _chosen(candidates: Mapping[int, _Pixels], behind: Mapping[str, str], temporaries: set[str]) -> set[int]:
    """Return the kernels to unroll: those that mix channels, and all that share temporaries with these."""
    touched = {
        number: {behind[r.source] for r in pixels.kernel.refinements} & temporaries
        for number, pixels in candidates.items()
    }
    written = (number for number, pixels in candidates.items() if pixels.has_channels)
    users = grouped((root, number) for number in written for root in sorted(touched[number]))
    waiting = [number for number, pixels in candidates.items() if pixels.mixes]
    chosen = set(waiting)
    while waiting:
        for root in sorted(touched[waiting.pop()]):
            joining = [user for user in users.pop(root, ()) if user not in chosen]
            chosen.update(joining)
            waiting.extend(joining)
    return {number for number in chosen if candidates[number].has_channels}


@attrs.frozen(repr=False)
class _Pixels:
    """A flat kernel over pixels, and channels of these.

    Attributes:
        kernel: The kernel.
        store: Its only store.
        result: The target of the store.
        along: The index of the innermost axis of pixels.
        channel: The index of the result's channels; None without channels.
        reduced: The indices of channels over which it aggregates.
        most: Maximum number of channels.
    """

    kernel: Block
    store: Store
    result: Refinement
    along: str
    channel: Index | None
    reduced: tuple[Index, ...]
    most: int

    @classmethod
    def of(cls, kernel: Block, options: Deinterleave) -> _Pixels | None:
        """Analyse a kernel over pixels; return None for others."""
        store = kernel.statements[-1] if kernel.statements else None
        stores = [s for s in kernel.statements if isinstance(s, Store | Block | Special)]
        if not isinstance(store, Store) or len(stores) != 1 or store.index is not None or kernel.constraints:
            return None
        if not any(index.range >= options.pixels for index in kernel.indices):
            return None
        result = kernel.refinement(store.into)
        others = [r for r in kernel.refinements if r is not result]
        if (
            result.direction is not Direction.OUT
            or any(r.direction is not Direction.IN or r.source == result.source for r in others)
            or not all(index.is_plain for index in kernel.indices)
        ):
            return None
        ranges = {index.name: index.range for index in kernel.indices if index.range > 1}
        channel = _channel(result, ranges, options.channels)
        moving = {name: abs(int(c)) for name, c in address(result).terms if name in ranges and name != channel}
        along = min(moving, key=lambda name: moving[name], default=None)
        reduced = tuple(i for i in kernel.indices if i.name in ranges and i.name not in {*moving, channel})
        read = {_channel(r, ranges, options.channels) for r in others if along in address(r).indices}
        combined = prod(i.range for i in reduced) * (1 if channel is None else ranges[channel])
        if (
            along is None
            or ranges[along] < options.pixels
            or combined > options.terms
            or any(i.name not in read for i in reduced)
            or (result.aggregation in _AGGREGATIONS) != bool(reduced)
        ):
            return None
        axis = None if channel is None else kernel.index(channel)
        return cls(kernel, store, result, along, axis, reduced, options.channels)

    def elements(self, view: Refinement) -> int:
        """Return the number of elements of a view that a point of the unrolled kernel accesses."""
        indices = address(view).indices
        return prod(i.range for i in (self.channel, *self.reduced) if i is not None and i.name in indices)

    def has_terms(self, view: Refinement) -> bool:
        """Return whether a view has channels of the result and of the reduction."""
        indices = address(view).indices
        return (
            self.channel is not None and self.channel.name in indices and any(i.name in indices for i in self.reduced)
        )

    @property
    def has_channels(self) -> bool:
        """True if there are channels to unroll."""
        return self.channel is not None or bool(self.reduced)

    @property
    def mixes(self) -> bool:
        """True unless contiguous elements of the result read contiguous elements, or a single one, of all inputs."""
        views = [address(r) for r in self.kernel.refinements if r is not self.result]
        views += [s.affine for s in self.kernel.statements if isinstance(s, LoadIndex)]
        if self.reduced:
            return True
        if self.channel is None:  # does it take one channel of several?
            steps = [(view.coefficient(self.along), {abs(c) for _, c in view.terms}) for view in views]
            return any(1 < step <= self.most and 1 not in others for step, others in steps)
        name = self.channel.name
        return any((name in view.indices) != (self.along in view.indices) for view in views)

    def written_out(self, contents: Mapping[str, Buffer]) -> Block:
        """Return the kernel over pixels, with channels unrolled."""
        kernel, names = self.kernel, NameScope()
        terms = Terms(self.result.aggregation or Aggregation.ASSIGN, names, finite="finite" in kernel.tags)
        held = [view for view in kernel.refinements if view.name in contents]
        loaded = {view.name: elements_of(contents[view.name], view.shape.dtype) for view in held}
        stores: list[tuple[str, Refinement]] = []
        for place in _points(() if self.channel is None else (self.channel,)):
            for point in _points(self.reduced):
                terms.begin()
                self._add(terms, {**place, **point}, loaded)
                if self.reduced:
                    terms.end(self.store.source)
            total = terms.total(self.result.shape.dtype) if self.reduced else terms.value(self.store.source)
            view = attrs.evolve(moved(self.result, place), name=names.fresh(self.result.name), aggregation=None)
            stores.append((total, view))
        statements = terms.alive(total for total, _ in stores)
        read = {name for statement in statements for name in views_read(statement)}
        gone = {index.name for index in (self.channel, *self.reduced) if index is not None}
        reduces = [name for name, _ in kernel.tags.items if name.startswith(_REDUCES)]
        return attrs.evolve(
            kernel,
            indices=tuple(index for index in kernel.indices if index.name not in gone),
            refinements=(*(view for view in terms.views if view.name in read), *(view for _, view in stores)),
            statements=(*statements, *(Store(total, view.name, tags=self.store.tags) for total, view in stores)),
            tags=kernel.tags.remove(*reduces).add("eltwise"),
            deps=(),
        )

    def _add(self, terms: Terms, point: Mapping[str, Affine], loaded: Mapping[str, Array]) -> None:
        """Add the statements for some channels to a term; known elements of constants are loaded at compile time."""
        for statement in self.kernel.statements[:-1]:
            match statement:
                case Load(source=source, into=into):
                    view = moved(self.kernel.refinement(source), point)
                    element = address(view)
                    if source in loaded and element.is_constant and statement.index is None:
                        terms.load(into, loaded[source][int(element.offset)])
                    else:
                        terms.load_from(statement, view)
                case LoadIndex(affine=affine):
                    terms.compute(attrs.evolve(statement, affine=affine.substitute(point)))
                case Constant() | Convert() | Intrinsic():
                    terms.compute(statement)
                case _:
                    raise TypeError(type(statement).__name__)  # a defect of this pass


def _channel(view: Refinement, ranges: Mapping[str, int], most: int) -> str | None:
    """Return the channel index of a tensor, which moves by single elements, within the steps of all others."""
    steps = {name: abs(int(c)) for name, c in address(view).terms if name in ranges}
    inner = [name for name, step in steps.items() if step == 1]
    if len(inner) != 1 or not is_element(view) or not 2 <= ranges[inner[0]] <= most:
        return None
    return inner[0] if all(step >= ranges[inner[0]] for name, step in steps.items() if name != inner[0]) else None


def _points(indices: tuple[Index, ...]) -> Iterator[dict[str, Affine]]:
    """Yield the values of indices at each point, the last index fastest; one point without indices."""
    for values in product(*(range(index.range) for index in indices)):
        yield {i.name: Affine.constant(value) for i, value in zip(indices, values, strict=True)}


def without_channels(program: Program, temporaries: Collection[str]) -> Program:
    """Return the program with each of ``temporaries`` split along its innermost axis, if possible.

    It is possible if kernels without nested blocks access single elements at fixed places along that axis: scalar
    replacement of aggregates, for tensors. Parts keep the axis, with extent 1.
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
    """Return whether a view of a kernel shows an element at a fixed place along the innermost axis."""
    same = view.shape.strides == whole.shape.strides
    return same and is_element(view) and view.access[-1].is_constant and view.direction is not Direction.NONE


def _by_parts(statement: Statement, parts: Mapping[str, tuple[str, ...]]) -> Statement:
    if not isinstance(statement, Block) or not any(r.source in parts for r in statement.refinements):
        return statement
    views = tuple(_of_part(r, parts[r.source]) if r.source in parts else r for r in statement.refinements)
    return attrs.evolve(statement, refinements=views, deps=())


def _of_part(view: Refinement, parts: tuple[str, ...]) -> Refinement:
    """Return the view of the part that contains the elements of a view of the whole."""
    place = int(view.access[-1].offset)
    count = len(parts)
    dims = tuple(attrs.evolve(dim, stride=max(1, dim.stride // count)) for dim in view.shape.dims)
    access = (*view.access[:-1], Affine())
    return attrs.evolve(view, source=parts[place], access=access, shape=attrs.evolve(view.shape, dims=dims))


def _parts(memory: Refinement, names: tuple[str, ...] | None) -> tuple[Refinement, ...]:
    """Return the parts of a tensor; the tensor itself if it has none."""
    if names is None:
        return (memory,)
    shape = TensorShape.dense(memory.shape.dtype, (*memory.shape.sizes[:-1], 1))
    return tuple(attrs.evolve(memory, name=name, shape=shape) for name in names)
