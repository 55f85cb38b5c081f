"""OpenCL C under construction: values as texts, and the lines of one kernel."""

from __future__ import annotations

from collections.abc import Callable

from tileir.core import DType, NameScope, attrs
from tileir.core.text.writer import Writer
from tileir.semtree.ir import Type
from tileir_opencl.device.features import Features
from tileir_opencl.emit.spelling import ATOM, MASKS, lane, lane_constant, register, scalar_constant, vector


@attrs.frozen
class Value:
    """A C expression.

    Attributes:
        text: How it is written.
        type: What it computes; see :mod:`tileir_opencl.emit.spelling` for the C type that stands for it.
        rank: How tightly the outermost operator binds.
        known: The value of an integer or bool that is a constant, the same in all lanes.
        mask: Bits of each lane of a vector of bools.
        splat: The scalar that is in every lane of a vector of numbers, if that is how it was made.

    """

    text: str
    type: Type
    rank: int = ATOM
    known: int | None = None
    mask: int = 8
    splat: Value | None = None

    def at(self, rank: int) -> str:
        """Return the text as an operand that must bind at least as tightly as ``rank``."""
        return self.text if self.rank >= rank else f"({self.text})"

    def retyped(self, kind: Type) -> Value:
        """Return the same text as a value of another type."""
        return attrs.evolve(self, type=kind, known=None, splat=None)


@attrs.define(eq=False, repr=False)
class Helpers:
    """The helper functions of one program, in the order of their first use."""

    _functions: dict[str, str] = attrs.field(factory=dict, init=False)

    def use(self, name: str, make: Callable[[], str]) -> str:
        """Return ``name``, and keep the function that ``make`` writes when it is new.

        ``make`` may use other helpers, which then stand before this one.
        """
        if name not in self._functions:
            self._functions[name] = make()
        return name

    @property
    def texts(self) -> tuple[str, ...]:
        """The functions that were used."""
        return tuple(self._functions.values())


@attrs.define(eq=False, repr=False)
class KernelText:
    """The body of one kernel function.

    Attributes:
        helpers: The functions that the whole program has.
        features: What the device offers.
        names: The identifiers that are taken.
        fast_math: Whether accuracy may be given up for speed.
        writer: The lines so far.

    """

    helpers: Helpers
    features: Features
    names: NameScope
    fast_math: bool = False
    writer: Writer = attrs.field(factory=Writer)

    def temporary(self, stem: str, value: Value) -> Value:
        """Return ``value`` as a name: itself where it is one, else a new variable."""
        if value.text.isidentifier():
            return value
        name = self.names.fresh(stem)
        value = canonical(value)
        self.writer.line(f"{register(value.type)} {name} = {value.text};")
        return Value(name, value.type)


def integer(value: int, kind: Type) -> Value:
    """Return an integer or bool constant in every lane; ``value`` is in range."""
    text, rank = scalar_constant(value, kind.dtype)
    scalar = Value(text, type(kind)(kind.dtype), rank, value)
    if kind.lanes == 1:
        return scalar
    if kind.dtype.is_bool:
        return Value(f"({register(kind)})({-value})", kind, known=value)
    return Value(f"({register(kind)})({lane_constant(value, kind.dtype)})", kind, known=value, splat=scalar)


def real(value: float, kind: Type) -> Value:
    """Return a float constant in every lane; ``value`` is representable."""
    text, rank = scalar_constant(value, kind.dtype)
    scalar = Value(text, type(kind)(kind.dtype), rank)
    return scalar if kind.lanes == 1 else Value(f"({register(kind)})({text})", kind, splat=scalar)


def call(function: str, kind: Type, *args: Value | str) -> Value:
    """Return what a function returns."""
    texts = [arg if isinstance(arg, str) else arg.text for arg in args]
    return Value(f"{function}({', '.join(texts)})", kind)


def infix(sign: str, rank: int, left: Value, right: Value, kind: Type) -> Value:
    """Return an operation that associates to the left."""
    left, right = operands(left, right)
    return Value(f"{left.at(rank)} {sign} {right.at(rank + 1)}", kind, rank)


def operands(left: Value, right: Value) -> tuple[Value, Value]:
    """Return operands of an operator: the language widens a scalar beside a vector."""
    if right.splat is not None and left.splat is None:
        return left, right.splat
    if left.splat is not None and right.splat is None:
        return left.splat, right
    return left, right


def canonical(value: Value) -> Value:
    """Return a vector of bools as it is declared; any other value as it is."""
    return masked(value, 8) if value.type.dtype.is_bool and value.type.lanes > 1 else value


def masked(value: Value, bits: int) -> Value:
    """Return a vector of bools with lanes of ``bits`` bits."""
    if value.mask == bits:
        return value
    name = f"convert_{vector(MASKS[bits], value.type.lanes)}"
    return attrs.evolve(call(name, value.type, value), known=value.known, mask=bits)


def lane_of(value: Value, number: int) -> Value:
    """Return one lane of a vector that is a name."""
    kind = type(value.type)(value.type.dtype)
    text = value.text + lane(number)
    return Value(f"({text} != 0)", kind) if kind.dtype is DType.BOOL else Value(text, kind)
