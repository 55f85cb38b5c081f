"""Builder of flat kernel blocks, one view and one statement at a time."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from tileir.core import Aggregation, DType, NameScope, Op, attrs, merges, rounded
from tileir.poly.affine import Affine
from tileir.stripe.dtypes import intrinsic_dtype
from tileir.stripe.ir import (
    Block,
    Constant,
    Convert,
    Direction,
    Index,
    Intrinsic,
    Load,
    LoadIndex,
    Refinement,
    Special,
    Statement,
    Store,
    Tags,
    TensorShape,
)
from tileir.stripe.lower.storage import NO_TAGS, ZERO, Tensor
from tileir.typed.ir import Shape


@attrs.frozen
class Scalar:
    """A scalar of the body, by name, with its dtype."""

    name: str
    dtype: DType


@attrs.define(eq=False, repr=False)
class KernelBuilder:
    """A block under construction. Repeated reads of a tensor at one place share a view and a load."""

    indices: tuple[Index, ...] = ()
    constraints: tuple[Affine, ...] = ()
    _views: list[Refinement] = attrs.field(factory=list, init=False)
    _statements: list[Statement] = attrs.field(factory=list, init=False)
    _scalars: NameScope = attrs.field(factory=NameScope, init=False)
    _view_names: NameScope = attrs.field(factory=NameScope, init=False)
    _loaded: dict[tuple[str, tuple[Affine, ...], TensorShape], Scalar] = attrs.field(factory=dict, init=False)
    _read: dict[str, None] = attrs.field(factory=dict, init=False)

    @classmethod
    def over(cls, sizes: Shape, serial: int = 0) -> KernelBuilder:
        """Return a builder whose points are the elements of a tensor: index ``iN`` for the Nth axis, from 1.

        The first ``serial`` axes are serial.
        """
        indices = (Index(f"i{axis + 1}", size, serial=axis < serial) for axis, size in enumerate(sizes) if size > 1)
        return cls(tuple(indices))

    def load(self, value: str, tensor: Tensor, access: tuple[Affine, ...], tags: Tags = NO_TAGS) -> Scalar:
        """Load the element of ``tensor``, called ``value``, at ``access``."""
        key = (tensor.buffer, access, tensor.shape)
        if key not in self._loaded:
            name = self._add_view(value, tensor, Direction.IN, access, tensor.shape.element, tags=tags)
            self._loaded[key] = self._define(value, tensor.dtype, lambda into: Load(name, into))
        self._read[value] = None
        return self._loaded[key]

    def load_at(
        self, value: str, tensor: Tensor, index: Scalar, access: tuple[Affine, ...], size: int | None = None
    ) -> Scalar:
        """Load an element displaced by ``index`` along axis 0, where ``access`` is that of the first of ``size``."""
        name = self._add_view(value, tensor, Direction.IN, access, tensor.column_shape(size))
        self._read[value] = None
        return self._define(value, tensor.dtype, lambda into: Load(name, into, index.name))

    def store(
        self,
        value: str,
        scalar: Scalar,
        tensor: Tensor,
        access: tuple[Affine, ...],
        aggregation: Aggregation | None = None,
    ) -> None:
        """Store ``scalar`` to the element of ``tensor``, called ``value``, at ``access``."""
        name = self._add_view(value, tensor, Direction.OUT, access, tensor.shape.element, aggregation)
        self._statements.append(Store(scalar.name, name))

    def store_at(self, value: str, scalar: Scalar, tensor: Tensor, index: Scalar, access: tuple[Affine, ...]) -> None:
        """Store ``scalar`` to an element displaced by ``index`` along axis 0, where ``access`` must be 0."""
        name = self._add_view(value, tensor, Direction.OUT, access, tensor.column_shape())
        self._statements.append(Store(scalar.name, name, index.name))

    def put_at(
        self,
        value: str,
        scalar: Scalar,
        tensor: Tensor,
        index: Scalar,
        access: tuple[Affine, ...],
        how: Aggregation,
        size: int | None = None,
    ) -> None:
        """Merge ``scalar`` with an element displaced by ``index`` along axis 0, or store it there.

        ``access`` is that of the first of ``size`` elements.
        """
        direction, into = (Direction.INOUT, how) if merges(how) else (Direction.OUT, None)
        name = self._add_view(value, tensor, direction, access, tensor.column_shape(size), into)
        self._statements.append(Store(scalar.name, name, index.name))

    def order(self, value: str, keys: Tensor, name: str, target: Tensor, axis: int, *, descending: bool) -> None:
        """Sort a row of ``keys``, called ``value``, along ``axis``, and store the places of its elements in order."""
        rows = []
        for stem, tensor, direction in ((value, keys, Direction.IN), (name, target, Direction.OUT)):
            one = (*tensor.sizes[:axis], 1, *tensor.sizes[axis + 1 :])
            rows.append(self._add_view(stem, tensor, direction, element(one, one), tensor.row_shape(axis)))
        self._read[value] = None
        self._statements.append(Special("order", tuple(rows[:1]), tuple(rows[1:]), (("descending", int(descending)),)))

    def constant(self, stem: str, dtype: DType, value: bool | int | float) -> Scalar:
        """Define a constant."""
        return self._define(stem, dtype, lambda into: Constant(into, dtype, value))

    def number(self, value: bool | int | float, dtype: DType) -> Scalar:
        """Define the constant 0, or another number."""
        return self.constant("ZERO" if value == 0 else "NUMBER", dtype, rounded(value, dtype))

    def coordinate(self, stem: str, affine: Affine, dtype: DType) -> Scalar:
        """Define the value of ``affine``."""
        return self._define(stem, dtype, lambda into: LoadIndex(affine, into, dtype))

    def convert(self, scalar: Scalar, dtype: DType, stem: str | None = None) -> Scalar:
        """Return ``scalar`` as ``dtype``; itself if it already has that."""
        if scalar.dtype is dtype:
            return scalar
        return self._define(stem or scalar.name, dtype, lambda into: Convert(scalar.name, into, dtype))

    def compute(self, stem: str, op: Op, *operands: Scalar, read_as: DType | None = None) -> Scalar:
        """Define ``op`` of the operands; ``read_as`` is the dtype as which ``BITS`` reads its operand."""
        natural = intrinsic_dtype(op, [operand.dtype for operand in operands])
        dtype = natural or read_as or operands[0].dtype
        names = tuple(operand.name for operand in operands)
        return self._define(stem, dtype, lambda into: Intrinsic(op, names, into, dtype))

    def build(self, name: str, comment: str, tags: Tags) -> Block:
        """Return the finished kernel; ``{}`` in its name is replaced by the names of its inputs."""
        return Block(
            name.replace("{}", ",".join(self._read)),
            self.indices,
            self.constraints,
            tuple(self._views),
            tuple(self._statements),
            (comment,) if comment else (),
            (),
            tags,
        )

    def _add_view(
        self,
        value: str,
        tensor: Tensor,
        direction: Direction,
        access: tuple[Affine, ...],
        shape: TensorShape,
        aggregation: Aggregation | None = None,
        tags: Tags = NO_TAGS,
    ) -> str:
        name = self._view_names.fresh(value)
        view = Refinement(name, direction, tensor.buffer, access, shape, aggregation, tags=tags)
        self._views.append(view)
        return name

    def _define(self, stem: str, dtype: DType, statement: Callable[[str], Statement]) -> Scalar:
        into = self._scalars.fresh(stem)
        self._statements.append(statement(into))
        return Scalar(into, dtype)


@cache
def axis_index(axis: int) -> Affine:
    """Return the index of a kernel over the elements of a tensor that runs along ``axis``."""
    return Affine.index(f"i{axis + 1}")


def element(sizes: Shape, target: Shape) -> tuple[Affine, ...]:
    """Return the access of a tensor of ``sizes``, broadcast to the kernel over the elements of ``target``."""
    missing = len(target) - len(sizes)
    return tuple([ZERO if size == 1 else axis_index(missing + axis) for axis, size in enumerate(sizes)])
