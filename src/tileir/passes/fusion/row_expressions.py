"""Elements of temporaries as expressions of coordinates: value numbering through kernels that write whole tensors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from tileir.core import Aggregation, Op, attrs, grouped
from tileir.passes.analysis.accesses import address
from tileir.poly.affine import Affine
from tileir.stripe import ir as stripe

ALONG: Final = "%along"
"""Name of the index along which rows are aggregated; no index of a block can have it."""


@attrs.frozen
class Number:
    """A constant."""

    value: float = attrs.field(eq=repr)


@attrs.frozen
class Coordinate:
    """An affine of coordinates as a value."""

    affine: Affine


@attrs.frozen
class Call:
    """An operation; conversions between floats are left out."""

    op: Op
    args: tuple[Element, ...]


@attrs.frozen
class RowAggregate:
    """An aggregate of ``body`` over :data:`ALONG`."""

    aggregation: Aggregation
    body: Element


@attrs.frozen
class Sum:
    """A sum of products computed by kernel ``number``, with the values of its unreduced indices."""

    number: int
    values: tuple[tuple[str, Affine], ...]


@attrs.frozen
class Unknown:
    """Any other element of memory, whose axes are ``strides`` elements apart."""

    name: str
    coordinates: tuple[Affine, ...]
    strides: tuple[int, ...]


Element: TypeAlias = Number | Coordinate | Call | RowAggregate | Sum | Unknown

_MOST: Final = 64
"""Maximum number of elements expanded for one expression; larger expressions are no rows of scores."""


@attrs.define(eq=False, repr=False)
class Elements:
    """Finder of the expressions of elements.

    Attributes:
        kernels: The kernels of a program, in order.
        seen: The numbers of kernels that were expanded.
    """

    kernels: tuple[stripe.Block, ...]
    seen: set[int] = attrs.field(factory=set)
    _writers: dict[str, list[int]] = attrs.field(factory=dict, init=False)
    _found: dict[tuple[str, tuple[Affine, ...], tuple[int, ...]], Element] = attrs.field(factory=dict, init=False)
    _left: int = attrs.field(default=_MOST, init=False)

    def __attrs_post_init__(self) -> None:
        views = ((view, number) for number, kernel in enumerate(self.kernels) for view in kernel.refinements)
        self._writers = grouped((view.source, number) for view, number in views if view.direction.writes)

    def begin(self) -> None:
        """Reset the record of expanded kernels."""
        self.seen.clear()
        self._found.clear()
        self._left = _MOST

    def writers(self, name: str) -> tuple[int, ...]:
        """Return the numbers of the kernels that write a tensor."""
        return tuple(self._writers.get(name, ()))

    def at(self, view: stripe.Refinement, values: Mapping[str, Affine]) -> Element:
        """Return the expression of an element view for given values of the kernel's indices."""
        coordinates = tuple(each.substitute(values) for each in view.access)
        key = (view.source, coordinates, view.shape.strides)
        if key not in self._found:
            self._found[key] = self._looked_up(*key)
        return self._found[key]

    def origin(self, view: stripe.Refinement, column: str) -> stripe.Refinement:
        """Return the source of an element view through copies, if ``column`` stays along contiguous elements.

        The view itself, if there are no copies, or if elements along ``column`` would not be contiguous.
        """
        found, step = view, self._copied(view)
        while step is not None:
            if address(step).coefficient(column) == 1:
                found = attrs.evolve(step, name=view.name)
            step = self._copied(step)
        return found

    def _copied(self, view: stripe.Refinement) -> stripe.Refinement | None:
        """Return the source view of a copied element, if that is not written any more."""
        writers = self._writers.get(view.source, [])
        if len(writers) != 1 or not is_copy(self.kernels[writers[0]]):
            return None
        kernel = self.kernels[writers[0]]
        source, output = (
            next(v for v in kernel.refinements if v.direction.writes is writes) for writes in (False, True)
        )
        places = _reshaped(view.access, view.shape.strides, output)
        values = None if places is None else index_values(kernel, output, places)
        if (
            values is None
            or len(values) != len(kernel.indices)
            or max(self.writers(source.source), default=-1) > writers[0]
        ):
            return None
        return attrs.evolve(source, access=tuple(each.substitute(values) for each in source.access))

    def _looked_up(self, name: str, coordinates: tuple[Affine, ...], strides: tuple[int, ...]) -> Element:
        unknown = Unknown(name, coordinates, strides)
        writers = self._writers.get(name, [])
        self._left -= 1
        if len(writers) != 1 or self._left < 0:
            return unknown
        kernel = self.kernels[writers[0]]
        outputs = [view for view in kernel.refinements if view.direction.writes]
        if len(outputs) != 1:
            return unknown
        places = _reshaped(coordinates, strides, outputs[0])
        values = None if places is None else index_values(kernel, outputs[0], places)
        if values is None:
            return unknown
        before = {*self.seen}
        found = self._of_kernel(writers[0], outputs[0], values)
        if found is None:
            self.seen = before
            return unknown
        self.seen.add(writers[0])
        return found

    def _of_kernel(self, number: int, output: stripe.Refinement, values: dict[str, Affine]) -> Element | None:
        kernel = self.kernels[number]
        reduced = [index.name for index in kernel.indices if index.name not in values]
        if not output.merges:
            return None if reduced else self._stored(kernel, values)
        if is_product(kernel):
            return Sum(number, tuple(sorted(values.items())))
        kinds = {type(statement) for statement in kernel.statements}
        around = any(ALONG in affine.indices for affine in values.values())
        if len(reduced) != 1 or around or not kinds <= {stripe.Load, stripe.Convert, stripe.Store}:
            return None
        body = self._stored(kernel, {**values, reduced[0]: Affine.index(ALONG)})
        if body is None or output.aggregation is None or not (output.aggregation is Aggregation.MAX or _has_exp(body)):
            return None  # no part of a softmax, so it is read as it is
        return RowAggregate(output.aggregation, body)

    def stored(self, number: int) -> Element | None:
        """Return the expression that a kernel with one output stores, in its own indices; None if it merges."""
        kernel = self.kernels[number]
        outputs = [view for view in kernel.refinements if view.direction.writes]
        if kernel.blocks or len(outputs) != 1 or outputs[0].merges:
            return None
        return self._stored(kernel, {index.name: Affine.index(index.name) for index in kernel.indices})

    def view(self, element: Unknown, values: Mapping[str, Affine]) -> stripe.Refinement:
        """Return the view of an element of memory for given values of the indices in its coordinates."""
        views = (view for kernel in self.kernels for view in kernel.refinements)
        found = next(v for v in views if v.source == element.name and v.shape.strides == element.strides)
        access = tuple(each.substitute(values) for each in element.coordinates)
        shape = attrs.evolve(found.shape, dims=tuple(attrs.evolve(dim, size=1) for dim in found.shape.dims))
        return stripe.Refinement(element.name, stripe.Direction.IN, element.name, access, shape)

    def _stored(self, kernel: stripe.Block, values: Mapping[str, Affine]) -> Element | None:
        scalars: dict[str, Element] = {}
        dtypes: dict[str, bool] = {}
        views = {view.name: view for view in kernel.refinements}
        for statement in kernel.statements:
            match statement:
                case stripe.Load(source=source, into=into, index=None):
                    view = views[source]
                    scalars[into] = self.at(view, values)
                    dtypes[into] = view.shape.dtype.is_float
                case stripe.LoadIndex(affine=affine, into=into, dtype=dtype):
                    scalars[into], dtypes[into] = Coordinate(affine.substitute(values)), dtype.is_float
                case stripe.Constant(into=into, value=value, dtype=dtype):
                    scalars[into], dtypes[into] = Number(float(value)), dtype.is_float
                case stripe.Convert(input=name, into=into, dtype=dtype) if dtypes[name] and dtype.is_float:
                    scalars[into], dtypes[into] = scalars[name], True
                case stripe.Intrinsic(op=op, inputs=inputs, into=into, dtype=dtype) if op is not Op.BITS:
                    found = tuple(scalars[name] for name in inputs)
                    scalars[into] = (None if dtype.is_float else _moved(op, found)) or _signed(op, found)
                    dtypes[into] = dtype.is_float
                case stripe.Store(source=name, index=None):
                    return scalars[name]
                case _:
                    return None
        return None


def _has_exp(element: Element) -> bool:
    """Return whether an element contains exponentials."""
    pending = [element]
    while pending:
        match pending.pop():
            case Call(op=op, args=args):
                if op is Op.EXP:
                    return True
                pending += args
            case RowAggregate(body=body):
                pending.append(body)
            case _:
                continue
    return False


def _reshaped(
    coordinates: tuple[Affine, ...], strides: tuple[int, ...], written: stripe.Refinement
) -> tuple[Affine, ...] | None:
    """Return the coordinates of a view for another view of its memory, which may have other axes of one element."""
    if strides == written.shape.strides:
        return coordinates
    left = [pair for pair in zip(coordinates, strides, strict=True) if pair[0] != Affine()]
    found: list[Affine] = []
    for access, stride in zip(written.access, written.shape.strides, strict=True):
        if access.is_constant:
            found.append(Affine())
        elif left and left[0][1] == stride:
            found.append(left.pop(0)[0])
        else:
            return None
    return None if left else tuple(found)


def _moved(op: Op, args: tuple[Element, ...]) -> Coordinate | None:
    """Return a sum or difference of coordinates and integers as one coordinate; None for anything else."""
    affines = []
    for arg in args:
        match arg:
            case Coordinate(affine):
                affines.append(affine)
            case Number(value) if value == int(value):
                affines.append(Affine.constant(int(value)))
            case _:
                return None
    match op, affines:
        case Op.ADD, [left, right]:
            return Coordinate(left + right)
        case Op.SUB, [left, right]:
            return Coordinate(left - right)
        case _:
            return None


def _signed(op: Op, args: tuple[Element, ...]) -> Element:
    match op, args:
        case Op.NEG, (Number(value),):
            return Number(-value)
        case _:
            return Call(op, args)


def is_copy(kernel: stripe.Block) -> bool:
    """Return whether a kernel copies each element to one place."""
    return (
        [type(statement) for statement in kernel.statements] == [stripe.Load, stripe.Store]
        and [view.direction for view in kernel.refinements] == [stripe.Direction.IN, stripe.Direction.OUT]
        and not any(view.merges for view in kernel.refinements)
        and not kernel.constraints
        and all(s.index is None for s in kernel.statements if isinstance(s, stripe.Load | stripe.Store))
    )


def is_product(kernel: stripe.Block) -> bool:
    """Return whether a kernel adds up products of two tensors, perhaps converted."""
    kinds = [type(statement) for statement in kernel.statements if not isinstance(statement, stripe.Convert)]
    products = [s for s in kernel.statements if isinstance(s, stripe.Intrinsic)]
    outputs = [view for view in kernel.refinements if view.direction.writes]
    return (
        kinds == [stripe.Load, stripe.Load, stripe.Intrinsic, stripe.Store]
        and products[0].op is Op.MUL
        and len(outputs) == 1
        and outputs[0].aggregation is Aggregation.SUM
        and len(kernel.refinements) == 3
        and not kernel.constraints
        and all(s.index is None for s in kernel.statements if isinstance(s, stripe.Load | stripe.Store))
    )


def index_values(
    kernel: stripe.Block, output: stripe.Refinement, coordinates: Iterable[Affine]
) -> dict[str, Affine] | None:
    """Return the values of a flat kernel's indices where it writes an element; None if the analysis cannot tell."""
    if kernel.constraints or kernel.blocks or any(not index.is_plain for index in kernel.indices):
        return None
    coordinates = tuple(coordinates)
    if len(coordinates) != len(output.access):
        return None
    ranges, values = kernel.ranges, {}
    for access, dim, coordinate in zip(output.access, output.shape.dims, coordinates, strict=True):
        if dim.size != 1:
            return None
        if access.is_constant:
            if access != coordinate:
                return None
            continue
        name = access.indices[0]
        if access != Affine.index(name) or name in values or name not in ranges:
            return None
        values[name] = coordinate
    return values
