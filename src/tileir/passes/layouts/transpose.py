"""Layouts that follow the accesses of kernels, so that neighbours along the fastest index are contiguous.

A temporary gets other strides, which costs nothing. Another tensor that a kernel reads often with large strides is
first copied to a temporary with the preferred order of axes. So is a factor of a product whose rows are misaligned to
cache lines, or of which each step of the sum is in another page.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import ClassVar, Final

from tileir.core import DType, NameScope, attrs
from tileir.core.fragments import usable
from tileir.passes.algorithms.split_reduction import CHANNELS_LAST
from tileir.passes.analysis.places import Level
from tileir.passes.analysis.walks import Walk, asked_axis, walks
from tileir.passes.base import at_least, selected_kernel, with_kernels, with_temporaries
from tileir.passes.kernels.walk import refitted
from tileir.passes.layouts.factors import (
    channel_axis,
    depth_axis,
    factor_axis,
    far_axis,
    has_odd_rows,
    have_parted_rows,
    have_rows,
    takes_boxes_alone,
    window_axis,
)
from tileir.poly.affine import Affine
from tileir.stripe.check.views import is_dense
from tileir.stripe.ir import (
    BESIDE,
    Block,
    Dim,
    Direction,
    Index,
    Load,
    Program,
    Refinement,
    Statement,
    Store,
    Tags,
    TensorShape,
)

_PLACES: Final = 2
"""Minimum reads of each element of the larger picture for channels-last copies in single-channel weight gradients."""

_ALIKE: Final = 8
"""Maximum ratio between the sizes of two factors that are both pictures."""

_FEWER: Final = 4
"""Divisor of ``least_points`` for factors of two bytes: the gradient by weights of a 3x3 convolution from 128 to 32
channels over 64x7x7 took 46 us without copies on an H200, and 9 with them."""

_BOX: Final = 16
"""Required alignment, in bytes, of strides of tensors whose boxes are copied."""


@attrs.frozen
class Transpose:
    """Choose the innermost axis of temporaries by their accesses, and transpose operands with large strides.

    Attributes:
        reqs: Tags of kernels whose accesses decide on layouts, and whose operands may be copied.
        temporaries: Whether the layout of temporaries may change.
        operands: Whether operands may be copied.
        factors: Whether to copy only factors of matrix products, to the axis along which tiles are loaded.
        fragments: Names of matrix instructions: with ``factors``, factors in layouts that these do not support are
            copied.
        dots: Names of dot-product instructions: with any, only the factors of windows are copied, to the layout of
            these.
        far_bytes: Minimum size, in bytes, of a factor that is copied to make the reduction contiguous, if most of its
            steps touch another page; 0 for copies of other kinds.
        least_reuse: Minimum number of reads of each element by a kernel that pays for a copy.
        least_points: Minimum number of points of a kernel that pays for the launch of a copy; a quarter for elements of
            two bytes.
        line_bytes: Cache line in bytes: with ``factors``, 16-bit factors that instructions read from local memory are
            copied if the rows of both are misaligned to it; 0 for no such copies.
        pairs: Whether to skip copies for ``line_bytes`` if pairs of groups can load the factors as they are.
        line_reuse: Minimum number of reads of each element of the larger factor for a copy by ``line_bytes``.
        line_points: Minimum number of points of a kernel for a copy by ``line_bytes``.
        box_reuse: Minimum number of reads of each element of the larger factor for copying 32-bit factors, with
            ``line_bytes``, to rows that boxes support, as instructions of four warps require.
        box_points: Minimum number of points of a kernel for these copies.
    """

    name: ClassVar[str] = "transpose"
    reqs: tuple[str, ...] = ()
    temporaries: bool = True
    operands: bool = True
    factors: bool = False
    fragments: tuple[str, ...] = ()
    dots: tuple[str, ...] = ()
    far_bytes: int = attrs.field(default=0, validator=at_least(0))
    least_reuse: int = attrs.field(default=16, validator=at_least(1))
    least_points: int = attrs.field(default=0, validator=at_least(0))
    pairs: bool = False
    line_bytes: int = attrs.field(default=0, validator=at_least(0))
    line_reuse: int = attrs.field(default=2048, validator=at_least(1))
    line_points: int = attrs.field(default=12_000_000_000, validator=at_least(0))
    box_reuse: int = attrs.field(default=128, validator=at_least(1))
    box_points: int = attrs.field(default=1 << 26, validator=at_least(0))

    def __call__(self, program: Program) -> Program:
        """Return the program with other layouts."""
        if self.temporaries:
            program = self._with_layouts(program)
        return self._with_copies(program) if self.operands else program

    def _with_layouts(self, program: Program) -> Program:
        """Give each temporary the fastest axis that most points prefer."""
        free = free_temporaries(program)
        main = Level(program.main)
        votes: dict[str, Counter[int]] = {name: Counter() for name in free}
        for kernel in program.main.blocks:
            if not free or not selected_kernel(kernel, self.reqs):
                continue
            together = walks(kernel, main)
            for walk in together:
                if walk.tensor in votes and (axis := asked_axis(walk, together)) is not None:
                    votes[walk.tensor][axis] += walk.points
        chosen = {}
        for name, counter in votes.items():
            axis = max(counter, key=lambda a: (counter[a], a), default=None)
            shape = main.view(name).shape
            if axis is not None and counter[axis] > counter[fastest(shape)]:
                chosen[name] = with_fastest(shape, axis)
        return relaid(program, chosen) if chosen else program

    def _with_copies(self, program: Program) -> Program:
        """Insert a copy before each kernel that reads a tensor often, with large strides."""
        wanted = self._wanted(program)
        copier = _Copier(program, self)
        statements: list[Statement] = []
        for kernel in program.main.statements:
            if isinstance(kernel, Block):
                statements.extend(copier.kernels(kernel, wanted))
            else:
                statements.append(kernel)
            copier.forget(kernel)
        return copier.finished(tuple(statements))

    def _wanted(self, program: Program) -> frozenset[tuple[str, TensorShape]]:
        """Return the copies for kernels with the tags; other kernels that prefer an equal layout read them, too."""
        copier = _Copier(program, self)
        for kernel in program.main.statements if self.reqs else ():
            if isinstance(kernel, Block):
                tuple(copier.kernels(kernel, frozenset()))
        return copier.made


def fastest(shape: TensorShape) -> int:
    """Return the axis with the smallest stride, the last of equals."""
    return min(range(len(shape.dims)), key=lambda axis: (abs(shape.dims[axis].stride), -axis))


def with_fastest(shape: TensorShape, fastest: int, row: int = 1) -> TensorShape:
    """Return the dense shape with ``fastest`` as the fastest axis, and the others in order.

    Rows are padded to multiples of ``row``.
    """
    others = sorted((a for a in range(len(shape.dims)) if a != fastest), key=lambda a: abs(shape.dims[a].stride))
    dims = list(shape.dims)
    stride = 1
    for axis in (fastest, *others):
        size = shape.dims[axis].size
        dims[axis] = Dim(-(-size // row) * row if axis == fastest else size, stride)
        stride *= dims[axis].size
    return attrs.evolve(shape, dims=tuple(dims))


def _is_off_boxes(shape: TensorShape, axis: int) -> bool:
    """Return whether packed rows along an axis would not all be aligned for boxes."""
    return shape.sizes[axis] * shape.dtype.itemsize % _BOX > 0


def free_temporaries(program: Program) -> frozenset[str]:
    """Return the views of ``main`` of temporaries whose strides may change: all nested views have their axes."""
    fixed = {*program.inputs, *program.outputs, *(buffer.name for buffer in program.buffers)}
    moved = _moved_axes(program.main)
    return frozenset(
        own.name
        for own in program.memory
        if own.name not in moved
        and own.name not in fixed
        and not own.constant
        and len(own.shape.dims) >= 2
        and is_dense(own.shape)
    )


def _moved_axes(main: Block) -> frozenset[str]:
    """Return the views of ``main`` that some view in a kernel shows with other strides."""
    views = {r.name: r for r in main.refinements}
    result = set()
    for kernel in main.blocks:
        for view in kernel.refinements:
            if view.direction is not Direction.NONE and view.source in views:
                same = view.shape.strides == views[view.source].shape.strides
                if not same or not _same_axes_below(kernel, view):
                    result.add(view.source)
    return frozenset(result)


def _same_axes_below(block: Block, view: Refinement) -> bool:
    """Return whether nested views of ``view`` keep rank and strides, so that these can change."""
    return all(
        r.shape.strides == view.shape.strides and r.bank_dim is None and _same_axes_below(inner, r)
        for inner in block.blocks
        for r in inner.refinements
        if r.direction is not Direction.NONE and r.source == view.name
    )


def relaid(program: Program, shapes: dict[str, TensorShape]) -> Program:
    """Return the program with other shapes for the views of ``main`` named in ``shapes``, and nested views."""
    main = program.main
    views = {r.name: attrs.evolve(r, shape=shapes[r.name]) for r in main.refinements if r.name in shapes}
    kernels = tuple(refitted(statement, views) for statement in main.statements)
    memory = (attrs.evolve(r, shape=views[r.name].shape) if r.name in views else r for r in program.memory)
    return with_kernels(program, kernels, memory)


@attrs.define(eq=False, repr=False)
class _Copier:
    """Maker of copies in other layouts, which tracks the copies that are still up to date."""

    program: Program
    options: Transpose
    _main: Level = attrs.field(init=False)
    _roots: dict[str, tuple[int, str]] = attrs.field(init=False)
    _names: NameScope = attrs.field(init=False)
    _copies: dict[tuple[str, TensorShape], Refinement] = attrs.field(factory=dict, init=False)
    _added: list[Refinement] = attrs.field(factory=list, init=False)

    def __attrs_post_init__(self) -> None:
        self._main = Level(self.program.main)
        self._roots = {r.name: self._main.root(r) for r in self.program.main.refinements}
        self._names = NameScope.of(r.name for r in self.program.memory)

    @property
    def made(self) -> frozenset[tuple[str, TensorShape]]:
        """The copied tensors, with the shapes of the copies."""
        return frozenset(self._copies)

    def _selects(self, kernel: Block) -> bool:
        """Return whether a kernel has the required tags, or multiplies odd rows."""
        if selected_kernel(kernel, self.options.reqs):
            return True
        if not self.options.factors or "comb_op_mul" not in kernel.tags:
            return False
        together = walks(kernel, self._main)
        views = [(walk, self._main.view(walk.tensor).shape.sizes) for walk in together if not walk.writes]
        return any(has_odd_rows(walk, together, sizes, self._dtypes(together)) for walk, sizes in views)

    def kernels(self, kernel: Block, wanted: frozenset[tuple[str, TensorShape]]) -> Iterable[Block]:
        """Yield copies of operands of a kernel, and the kernel that uses the copies.

        A kernel without the required tags gets only copies that are ``wanted`` anyway.
        """
        selected = self._selects(kernel)
        together = walks(kernel, self._main) if selected or wanted else ()
        for walk in together:
            if not selected and all(tensor != walk.tensor for tensor, _ in wanted):
                continue
            source = self._main.view(walk.tensor)
            shape = self._shape(kernel, walk, together, source)
            if shape is None or not (selected or (walk.tensor, shape) in wanted):
                continue  # no preference, already satisfied, or already a copy
            copy = self._copies.get((walk.tensor, shape))
            if copy is None:
                name = self._names.fresh(f"{walk.tensor}_laid")
                corner = tuple(Affine() for _ in source.access)
                copy = Refinement(name, Direction.OUT, name, corner, shape)
                self._copies[walk.tensor, shape] = copy
                self._added.append(copy)
                yield _copying(source, copy)
            kernel = _reading(kernel, walk.view, copy)
        yield kernel

    def _shape(self, kernel: Block, walk: Walk, together: Sequence[Walk], source: Refinement) -> TensorShape | None:
        """Return the shape of the copy of a tensor for a kernel; None if it reads the tensor itself."""
        options, elements = self.options, source.shape.elements
        made = next((shape for tensor, shape in self._copies if tensor == walk.tensor), None)
        if made is not None and kernel.tags.get(BESIDE) and self._pays(kernel, walk, source, 0):
            return made  # earlier kernels in its launch read it
        axis = self._asked(walk, together, source)
        row, last = options.line_bytes // source.shape.dtype.itemsize, len(source.shape.dims) - 1
        boxed, largest = self._needs_boxes(walk, together), self._largest(together)
        if axis is not None and axis != fastest(source.shape):
            padded = boxed and _is_off_boxes(source.shape, axis)
            points = options.least_points // (_FEWER if source.shape.dtype.itemsize == 2 else 1)
            least = max(options.box_points if padded else points, options.least_reuse * elements)
            if self._pays(kernel, walk, source, least):
                return with_fastest(source.shape, axis, row if padded else 1)
        if options.factors and axis is None and self._are_alike(together):
            axis, least = channel_axis(walk, together, source.shape.sizes), _PLACES * self._largest(together)
            if axis is not None and self._pays(kernel, walk, source, max(CHANNELS_LAST, least)):
                return with_fastest(source.shape, axis)
        if boxed and have_rows(walk) and _is_off_boxes(source.shape, last):
            pays = self._pays(kernel, walk, source, max(options.box_points, options.box_reuse * largest))
            return with_fastest(source.shape, last, row) if pays else None
        least = max(options.line_points, options.line_reuse * largest)
        if not (options.factors and options.line_bytes) or not self._pays(kernel, walk, source, least):
            return None
        fragments = usable(options.fragments, rounded=True)
        parted = have_parted_rows(walk, together, self._dtypes(together), fragments, options.line_bytes)
        parted = parted and not (options.pairs and self._are_pairs(together))
        return with_fastest(source.shape, last, row) if parted else None

    def _needs_boxes(self, walk: Walk, together: Sequence[Walk]) -> bool:
        """Return whether a factor should be copied to rows that boxes support."""
        options = self.options
        if not (options.factors and options.line_bytes):
            return False
        shapes = {each.tensor: self._main.view(each.tensor).shape for each in together}
        return takes_boxes_alone(walk, together, shapes, usable(options.fragments, rounded=True))

    def _largest(self, together: Sequence[Walk]) -> int:
        return max((self._main.view(each.tensor).shape.elements for each in together if not each.writes), default=0)

    def _are_alike(self, together: Sequence[Walk]) -> bool:
        """Return whether no factor is much smaller than another, as weights are."""
        read = [self._main.view(each.tensor).shape.elements for each in together if not each.writes]
        return max(read, default=0) <= _ALIKE * min(read, default=0)

    def _are_pairs(self, together: Sequence[Walk]) -> bool:
        """Return whether pairs of groups can copy boxes of a product's factors as they are."""
        read = [self._main.view(each.tensor).shape for each in together if not each.writes]
        return all(stride * each.dtype.itemsize % _BOX == 0 for each in read for stride in each.strides[:-1])

    def _dtypes(self, together: Sequence[Walk]) -> dict[str, DType]:
        return {each.tensor: self._main.view(each.tensor).shape.dtype for each in together}

    def _asked(self, walk: Walk, together: Sequence[Walk], source: Refinement) -> int | None:
        """Return the axis along which an operand should be copied."""
        if self.options.dots:
            if walk.points < self.options.least_reuse * self._largest(together):
                return None
            rows = usable(self.options.dots)
            return window_axis(walk, together, source.shape.sizes, self._dtypes(together), rows)
        if self.options.far_bytes:
            return far_axis(walk, together, source.shape, self.options.far_bytes)
        if not self.options.factors:
            return asked_axis(walk, together)
        facts = source.shape.sizes, self._dtypes(together), usable(self.options.fragments, rounded=True)
        axis = factor_axis(walk, together, *facts)
        return depth_axis(walk, together, *facts) if axis is None else axis

    def _pays(self, kernel: Block, walk: Walk, source: Refinement, least: int) -> bool:
        """Return whether a kernel reads at least ``least`` elements of a tensor, and can read a copy instead."""
        view = kernel.refinement(walk.view)
        root = self._main.root(source)
        shown = [r for r in kernel.refinements if r.direction is not Direction.NONE]
        views = [r for r in shown if self._root(r.source) == root]
        alone = len(views) == 1 or (self.options.factors and not any(r.direction.writes for r in views))
        whole = is_dense(source.shape) and view.shape.strides == source.shape.strides
        return (
            alone
            and whole
            and view.direction is Direction.IN
            and walk.points >= least
            and _same_axes_below(kernel, view)
        )

    def _root(self, name: str) -> tuple[int, str] | None:
        return self._roots.get(name)

    def forget(self, kernel: Statement) -> None:
        """Drop copies of tensors that a kernel writes."""
        if isinstance(kernel, Block):
            written = {self._root(r.source) for r in kernel.refinements if r.direction.writes}
            self._copies = {key: copy for key, copy in self._copies.items() if self._root(key[0]) not in written}

    def finished(self, statements: tuple[Statement, ...]) -> Program:
        """Return the program with these kernels, and memory for the copies."""
        if not self._added:
            return self.program
        own = (attrs.evolve(r, direction=Direction.NONE, source="") for r in self._added)
        return with_temporaries(self.program, statements, tuple(own))


def _copying(source: Refinement, copy: Refinement) -> Block:
    """Return a kernel that copies a whole tensor."""
    indices = [Index(f"d{axis}", size) for axis, size in enumerate(source.shape.sizes)]
    access = tuple(Affine.index(index.name) for index in indices)
    return Block(
        f"lay_{source.name}",
        tuple(indices),
        (),
        (source.element(Direction.IN, access), copy.element(Direction.OUT, access)),
        (Load(source.name, "x"), Store("x", copy.name)),
        tags=Tags.of("transpose"),
    )


def _reading(kernel: Block, name: str, copy: Refinement) -> Block:
    """Return a kernel whose view ``name`` is of the copy."""
    view = kernel.refinement(name)
    dims = tuple(Dim(own.size, of.stride) for own, of in zip(view.shape.dims, copy.shape.dims, strict=True))
    new = attrs.evolve(view, source=copy.name, shape=attrs.evolve(view.shape, dims=dims))
    statements = tuple(refitted(s, {name: new}) for s in kernel.statements)
    refinements = tuple(new if r.name == name else r for r in kernel.refinements)
    return attrs.evolve(kernel, refinements=refinements, statements=statements, deps=())
