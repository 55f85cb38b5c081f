"""The operations of one function during inference."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tileir.core import DType, NameScope, Op, Span, attrs, fail, fits, rounded
from tileir.typed.inference.numbers import Numbers, natural_dtype
from tileir.typed.inference.values import ConstantScalar, Number, Scalar, Tensor
from tileir.typed.ir import Cast, Constant, Elementwise, Function, Operation, Shape, Value

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tileir.typed.derivatives.reverse import Sweep, SweepKey
    from tileir.typed.inference.faults import Observer


_MOST_AXES: Final = 64


@attrs.define(eq=False, repr=False)
class Emission:
    """The only mutable object of an inference: operations in order, and the names in use.

    Attributes:
        names: Names in use; every name of the Tile function is among them.
        operations: The operations so far.
        stem: The current statement, after which values without a name of their own are called.
        even_ties: Whether the current statement splits gradients evenly among tied elements.
        definitions: The definition of each value so far: parameters and operations.
        sweeps: Reverse sweeps that later gradients of the same values can continue.
        upstreams: The placeholder for the cotangent of a value when differentiating, by the name of that value.
        numbers: Values computed from numbers among the arguments.
        observer: The observer of the inference, if any.
    """

    names: NameScope
    operations: list[Operation] = attrs.field(factory=list)
    stem: str = "value"
    even_ties: bool = False
    observer: Observer | None = None
    definitions: dict[str, Value | Operation] = attrs.field(factory=dict, init=False)
    sweeps: dict[SweepKey, Sweep] = attrs.field(factory=dict, init=False)
    upstreams: dict[str, Tensor] = attrs.field(factory=dict, init=False)
    numbers: Numbers = attrs.field(init=False)
    _casts: dict[tuple[str, DType], Tensor] = attrs.field(factory=dict, init=False)
    _constants: dict[tuple[DType, str], Tensor] = attrs.field(factory=dict, init=False)
    _literals: dict[tuple[DType, DType | None, str], Tensor] = attrs.field(factory=dict, init=False)
    _renamed: dict[str, str] = attrs.field(factory=dict, init=False)
    _derived: dict[Operation, Tensor] = attrs.field(factory=dict, init=False)
    _derivations: dict[str, Operation] = attrs.field(factory=dict, init=False)
    _shared: set[str] = attrs.field(factory=set, init=False)

    @numbers.default
    def _no_numbers(self) -> Numbers:
        return Numbers(self.names)

    @classmethod
    def resuming(cls, function: Function) -> Emission:
        """Return an emission that continues after the last operation of ``function``."""
        emission = cls(NameScope.of(value.name for value in (*function.inputs, *function.operations)))
        emission.parameters(function.inputs)
        for operation in function.operations:
            emission.add(operation)
        return emission

    def parameters(self, values: Iterable[Value]) -> None:
        """Declare parameters of the function."""
        self.definitions.update((value.name, value) for value in values)

    def defined(self, name: str) -> Tensor:
        """Return the value of that name as it was defined."""
        definition = self.definitions[name]
        return Tensor(name, definition.dtype, definition.shape)

    def fresh(self) -> str:
        """Return an unused name derived from the current statement."""
        return self.names.fresh(self.stem)

    def add(self, operation: Operation) -> Tensor:
        """Append ``operation`` and return its value.

        Raises:
            TileError: TIL316, it has more axes than arrays of NumPy.
        """
        if len(operation.shape) > _MOST_AXES:
            message = (
                f"this has {len(operation.shape)} axes, and arrays have at most {_MOST_AXES}; merge some by reshape"
            )
            raise fail("TIL316", message, operation.span)
        self.operations.append(operation)
        self.definitions[operation.name] = operation
        return Tensor(operation.name, operation.dtype, operation.shape)

    def derive(self, operation: Operation) -> Tensor:
        """Append an operation of a derivative, or return the value of an equal one that another derivative has emitted.

        Gradients of gradients repeat the factors of inner derivatives at every level; with sharing, a level costs only
        its new operations.
        """
        key = nameless(operation)
        found = self._derived.get(key)
        if found is None:
            found = self._derived[key] = self.add(attrs.evolve(operation, name=self.fresh()))
            self._derivations[found.name] = key
        else:
            self._shared.add(found.name)
        return found

    def own(self, value: Tensor) -> Tensor:
        """Return a derivative as a value that the program can refer to, which no other derivative shares.

        Otherwise a gradient with respect to it would count uses that the program does not contain.
        """
        key = self._derivations.pop(value.name, None)
        if key is not None:
            del self._derived[key]
        if value.name not in self._shared:
            return value
        return self.add(Elementwise(self.fresh(), Op.IDENT, (value.name,), value.dtype, value.shape))

    def elementwise(self, op: Op, *inputs: Tensor, span: Span | None = None) -> Tensor:
        """Emit ``op`` on operands that have the right dtypes already.

        Raises:
            ValueError: The shapes cannot be broadcast together; callers of inference check that first.
        """
        shape = broadcast_shape(tuple(value.shape for value in inputs))
        dtype = DType.BOOL if op.info.compares else inputs[-1].dtype
        return self.add(Elementwise(self.fresh(), op, tuple(v.name for v in inputs), dtype, shape, span=span))

    def cast(self, value: Scalar, dtype: DType, span: Span | None = None) -> Tensor:
        """Return ``value`` as a tensor of ``dtype``; a constant is converted at once, a number by each call."""
        if isinstance(value, ConstantScalar):
            return self.constant(rounded(value.value, dtype), dtype, span)
        if isinstance(value, Number):
            converted = value if value.dtype is dtype else self.numbers.cast(value, dtype, self.stem, span)
            return self._number(converted, dtype, span)
        if value.dtype is dtype:
            return value
        key = (value.name, dtype)
        found = self._casts.get(key)
        if found is None:
            found = self.add(Cast(self.fresh(), value.name, dtype, value.shape, span=span))
            self._casts[key] = found
        return found

    def constant(self, value: bool | int | float, dtype: DType, span: Span | None = None) -> Tensor:
        """Return the scalar ``value``; one operation serves all of its uses."""
        key = (dtype, repr(value))  # tells -0.0 from 0.0, and 1 from True
        found = self._constants.get(key)
        if found is None:
            found = self.add(Constant(self.fresh(), dtype, value, span=span))
            self._constants[key] = found
        return found

    def tensor(self, value: Scalar, span: Span | None = None) -> Tensor:
        """Return ``value`` as a tensor, a constant or number in its natural dtype.

        Raises:
            TileError: TIL303, a constant that does not fit that dtype.
        """
        if isinstance(value, Tensor):
            return value
        dtype = natural_dtype(value)
        if self.observer is not None:
            self.observer.natural(value, dtype)
        return self.literal(value, dtype, span)

    def literal(self, value: ConstantScalar | Number, dtype: DType, span: Span | None = None) -> Tensor:
        """Return a constant or number as a tensor of ``dtype``, to which it adapts or is converted.

        Raises:
            TileError: TIL303, a literal that does not fit.

        """
        if isinstance(value, Number):
            return self._number(value, dtype, span) if value.dtype is None else self.cast(value, dtype, span)
        key = (dtype, value.dtype, repr(value.value))
        found = self._literals.get(key)
        if found is None:
            found = self.cast(adapt(value, dtype, span), dtype, span)
            self._literals[key] = found
        if self.observer is not None:
            self.observer.literal(value, dtype, span)
        return found

    def _number(self, value: Number, dtype: DType, span: Span | None) -> Tensor:
        found, declared = self.numbers.input(value, dtype, span)
        if declared is not None:
            self.parameters((declared,))
        return found

    def rename_last(self, value: Tensor, name: str) -> Tensor:
        """Give the last operation, which defines ``value`` and is not a constant, its final name."""
        last = self.operations[-1]
        self.operations[-1] = renamed = attrs.evolve(last, name=name)
        del self.definitions[last.name]
        self.definitions[name] = renamed
        self._renamed[last.name] = name
        result = Tensor(name, value.dtype, value.shape)
        if isinstance(renamed, Cast):
            self._casts[(renamed.input, renamed.dtype)] = result
        return result

    def current(self, value: Tensor) -> Tensor:
        """Return ``value`` under its current name."""
        name = self._renamed.get(value.name)
        return value if name is None else Tensor(name, value.dtype, value.shape)


def nameless(operation: Operation) -> Operation:
    """Return the key of an operation: it is equal for two operations exactly if they compute the same value."""
    if isinstance(operation, Elementwise) and operation.op.info.commutes:
        return attrs.evolve(operation, name="", inputs=tuple(sorted(operation.inputs)))
    return attrs.evolve(operation, name="")


def adapt(value: ConstantScalar, dtype: DType, span: Span | None) -> ConstantScalar:
    """Give a literal the dtype of its operation; a typed constant remains as it is.

    Raises:
        TileError: TIL303, it does not fit.
    """
    if value.dtype is not None:
        return value
    if not fits(value.value, dtype):
        raise fail(
            "TIL303",
            f"{value.value} does not fit in {dtype.value}; cast it, or the operand beside it, to a type that holds it",
            span,
        )
    return ConstantScalar(rounded(value.value, dtype), dtype)


def broadcast_shape(shapes: tuple[Shape, ...]) -> Shape:
    """Return the shape of right-aligned broadcasting.

    Raises:
        ValueError: The shapes do not broadcast together.
    """
    longest: Shape = max(shapes, key=lambda shape: len(shape))
    result = list(longest)
    for shape in shapes:
        for axis in range(-len(shape), 0):
            if result[axis] == 1:
                result[axis] = shape[axis]
            elif shape[axis] not in (1, result[axis]):
                raise ValueError(f"{shape} does not fit {tuple(result)}")
    return tuple(result)


def broadcasts_to(shape: Shape, target: Shape) -> bool:
    """Return whether a shape broadcasts to ``target``."""
    try:
        return broadcast_shape((target, shape)) == target
    except ValueError:
        return False
