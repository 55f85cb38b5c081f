"""Kernels that compute one thing of very many operands: all bytes with all bytes, all halves, all integers at ties.

What is right says :mod:`tileir.core.numbers.arithmetic`, which is vectorised, so that no interpreter walks the loops.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np

from strategies.semtree_values import ALL_DTYPES, allowed_ops, same_content, special_values
from tileir.core.dtype import FORMATS, DType
from tileir.core.numbers import arithmetic
from tileir.core.ops import Op
from tileir.semtree.ir import Apply, Assign, Cast, Const, For, KernelFunction, Param, ParamAccess, Subscript, Type, Var

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tileir.semtree.ir import Expr

Array = np.ndarray[Any, np.dtype[Any]]

LANES: Final = (1, 16)
INDEX: Final = Type(DType.I64)
COUNTER: Final = Var("i", INDEX)


@attrs.frozen(eq=False)
class Known:
    """A kernel, its inputs, and what it must write to the parameters behind them."""

    kernel: KernelFunction
    inputs: tuple[Array, ...]
    expected: tuple[Array, ...]

    def arrays(self) -> list[Array]:
        """Return the inputs, and room for the results."""
        return [*self.inputs, *(np.zeros_like(array) for array in self.expected)]

    def check(self, arrays: Sequence[Array]) -> None:
        """Raise AssertionError with operands, result and what it should be, up to the bits of NaN and signs of zero."""
        names = [param.name for param in self.kernel.params[len(self.inputs) :]]
        for name, actual, wanted in zip(names, arrays[len(self.inputs) :], self.expected, strict=True):
            with np.errstate(invalid="ignore"):
                if same_content(actual, wanted):
                    continue
                wrong = np.flatnonzero(~((actual == wanted) | ((actual != actual) & (wanted != wanted))))[:3]
            operands = ", ".join(str(each[wrong].tolist()) for each in self.inputs)
            found = f"{actual[wrong].tolist()}, not {wanted[wrong].tolist()}"
            raise AssertionError(f"{name} of {operands or wrong.tolist()}: {found}")


def mapped(inputs: Mapping[str, Array], values: Mapping[str, tuple[Expr, Array]]) -> Known:
    """Return a kernel that computes expressions of elements; the lanes are those of the first expression."""
    lanes = next(iter(values.values()))[0].type.lanes
    size = next(iter(inputs.values())).size
    stores = tuple(Assign(Subscript(name, COUNTER, value.type), value) for name, (value, _) in values.items())
    params = [Param(name, arithmetic.dtype_of(array), size, ParamAccess.READ) for name, array in inputs.items()]
    params += [Param(name, value.type.dtype, size, ParamAccess.WRITE) for name, (value, _) in values.items()]
    loop = For(COUNTER, Const(0, INDEX), Const(size, INDEX), lanes, stores)
    expected = tuple(np.ascontiguousarray(wanted) for _, wanted in values.values())
    return Known(KernelFunction("k", tuple(params), (loop,)), tuple(inputs.values()), expected)


def _operations(dtype: DType) -> tuple[Op, ...]:
    """Return exact operations and comparisons."""
    return (*allowed_ops(dtype), *(op for op in Op if op.info.compares and op.works_on(dtype)))


def pairs_of_bytes(dtype: DType, lanes: Sequence[int] = LANES) -> Iterator[Known]:
    """Yield every operation on every pair of 8-bit integers."""
    every = np.arange(256, dtype=np.uint8).view(dtype.numpy)
    left, right = (np.ascontiguousarray(side.reshape(-1)) for side in np.meshgrid(every, every))
    ops = [op for op in _operations(dtype) if op.info.arity <= 2]
    for width in lanes:
        kind = Type(dtype, width)
        args = Subscript("left", COUNTER, kind), Subscript("right", COUNTER, kind)
        yield mapped(
            {"left": left, "right": right},
            {
                f"r_{op.value}": (
                    Apply(op, args[: op.info.arity]),
                    arithmetic.apply(op, *(left, right)[: op.info.arity]),
                )
                for op in ops
            },
        )


def pairs_of_special_values(dtype: DType, lanes: Sequence[int] = LANES) -> Iterator[Known]:
    """Yield every exact operation and comparison of special values, each with each."""
    values = special_values(dtype)
    left, right = (_padded(side.reshape(-1)) for side in np.meshgrid(values, values))
    given = {"left": left, "right": right, "third": np.ascontiguousarray(np.roll(left, 3))}
    ops = _operations(dtype)
    for width in lanes:
        args = tuple(Subscript(name, COUNTER, Type(dtype, width)) for name in given)
        yield mapped(
            given,
            {
                f"r_{op.value}": (
                    Apply(op, args[: op.info.arity]),
                    arithmetic.apply(op, *tuple(given.values())[: op.info.arity]),
                )
                for op in ops
            },
        )


def wrapped_and_compared(dtype: DType) -> Iterator[Known]:
    """Yield comparisons of integers with sums, differences, products and multiples that wrap.

    Where overflow is undefined, compilers take it that ``a + b < a`` is ``b < 0``. Shifts of bytes in an ``int`` keep
    what a byte loses.
    """
    values = special_values(dtype)
    left, right = (_padded(side.reshape(-1)) for side in np.meshgrid(values, values))
    for lanes in LANES:
        kind = Type(dtype, lanes)
        first, second = (Subscript(name, COUNTER, kind) for name in ("left", "right"))
        cases: dict[Op, tuple[Expr, Array]] = dict.fromkeys((Op.ADD, Op.SUB, Op.MUL), (second, right))
        cases[Op.BIT_LEFT] = (Const(4, kind), np.full_like(left, 4))
        yield mapped(
            {"left": left, "right": right},
            {
                f"r_{op.value}": (
                    Apply(Op.CMP_LT, (Apply(op, (first, other)), first)),
                    arithmetic.apply(Op.CMP_LT, arithmetic.apply(op, left, operand), left),
                )
                for op, (other, operand) in cases.items()
            },
        )


def _padded(array: Array) -> Array:
    """Repeat elements up to a whole number of vectors."""
    return np.ascontiguousarray(np.resize(array, -(-array.size // max(LANES)) * max(LANES)))


def every_half(dtype: DType, lanes: Sequence[int] = LANES) -> Iterator[Known]:
    """Yield every exact operation of one operand, and every conversion, of all 65,536 values of a 16-bit type."""
    every = np.arange(1 << 16, dtype=np.uint16).view(dtype.numpy)
    targets = [target for target in ALL_DTYPES if target is not dtype]
    ops = [op for op in allowed_ops(dtype) if op.info.arity == 1]
    for width in lanes:
        operand = Subscript("given", COUNTER, Type(dtype, width))
        values: dict[str, tuple[Expr, Array]] = {
            f"to_{target.value}": (Cast(operand, Type(target, width)), arithmetic.cast(every, target))
            for target in targets
        }
        values |= {f"r_{op.value}": (Apply(op, (operand,)), arithmetic.apply(op, every)) for op in ops}
        yield mapped({"given": every}, values)


def integers_at_ties(source: DType) -> Iterator[Known]:
    """Yield conversions of integers halfway between two floats, and one to either side of that, to every float type."""
    low, high = int(source.minimum), int(source.maximum)
    found: set[int] = set()
    for precision in sorted({row.precision for row in FORMATS.values()}):
        for exponent in range(precision, source.bits):
            half = 1 << (exponent - precision)
            for mantissa in (1 << (precision - 1), (1 << (precision - 1)) + 1, (1 << precision) - 1):
                middle = 2 * half * mantissa + half
                found.update(sign * (middle + step) for sign in (-1, 1) for step in (-1, 0, 1))
    chosen = sorted(value for value in found if low <= value <= high) or [0]
    given = _padded(np.array(chosen, source.numpy))
    for lanes in LANES:
        operand = Subscript("given", COUNTER, Type(source, lanes))
        yield mapped(
            {"given": given},
            {
                f"to_{target.value}": (Cast(operand, Type(target, lanes)), arithmetic.cast(given, target))
                for target in FORMATS
            },
        )


def conversions(source: DType, targets: Sequence[DType]) -> Iterator[Known]:
    """Yield conversions of special values."""
    given = _padded(special_values(source))
    for lanes in LANES:
        operand = Subscript("given", COUNTER, Type(source, lanes))
        yield mapped(
            {"given": given},
            {
                f"to_{target.value}": (Cast(operand, Type(target, lanes)), arithmetic.cast(given, target))
                for target in targets
            },
        )


_FLOATS: Final = (DType.F16, DType.BF16, DType.F32, DType.F64)


def floats_at_the_ends(target: DType, sources: Sequence[DType] = _FLOATS) -> Iterator[Known]:
    """Yield conversions to an integer type of floats around its ends, around 0, and beyond all ends."""
    ends = [float(target.minimum), float(target.maximum) + 1, 0.0, 1.0, -1.0, 2.0**100, -(2.0**100), np.inf, -np.inf]
    for source in sources:
        with np.errstate(over="ignore"):
            near = np.array(ends).astype(source.numpy)
        steps = [near, np.nextafter(near, near.dtype.type(np.inf)), np.nextafter(near, near.dtype.type(-np.inf))]
        halves = near.dtype.type(0.5)
        with np.errstate(invalid="ignore", over="ignore"):
            given = _padded(np.concatenate([*steps, near + halves, near - halves, np.array([np.nan], near.dtype)]))
        for lanes in (1, 4, 16):
            value = Cast(Subscript("given", COUNTER, Type(source, lanes)), Type(target, lanes))
            yield mapped({"given": given}, {"to": (value, arithmetic.cast(given, target))})


def constants_only(dtype: DType) -> Known:
    """Return a kernel of operations on integer constants, which an emitter may compute itself."""
    low, high = int(dtype.minimum), int(dtype.maximum)
    values = np.array([value for value in (low, -1, 0, 1, 7, dtype.bits - 1, high) if value >= low], dtype.numpy)
    stores: list[Assign] = []
    wanted: dict[DType, list[Array]] = {dtype: [], DType.BOOL: []}
    ops = _operations(dtype)
    for op in (op for op in ops if op.info.arity == 2):
        for left in values:
            for right in values:
                result = arithmetic.apply(op, np.asarray(left), np.asarray(right))
                args = tuple(Const.of(each.item(), Type(dtype)) for each in (left, right))
                kind = arithmetic.dtype_of(result)
                place = Const(len(wanted[kind]), INDEX)
                stores.append(Assign(Subscript(f"out_{kind.value}", place, Type(kind)), Apply(op, args)))
                wanted[kind].append(result)
    expected = {kind: np.array([each[()] for each in results]) for kind, results in wanted.items() if results}
    params = tuple(Param(f"out_{kind.value}", kind, array.size, ParamAccess.WRITE) for kind, array in expected.items())
    return Known(KernelFunction("k", params, tuple(stores)), (), tuple(expected.values()))
