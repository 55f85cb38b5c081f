"""Typed functions with loops, made at random, and what runs them at each stage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
from hypothesis import strategies as st

from tileir.core.dtype import DType
from tileir.core.ops import Aggregation, Combination, Op
from tileir.core.text.names import NameScope
from tileir.poly.affine import Affine
from tileir.typed.dataflow import loop_of, result_type, results_of, with_operands
from tileir.typed.ir import (
    Access,
    Cast,
    Constant,
    Contraction,
    Coordinate,
    Elementwise,
    Function,
    Scan,
    ScanPart,
    ScanResult,
    TensorType,
    Value,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tileir.typed.ir import Operation, Shape

    Arrays = dict[str, NDArray[Any]]

N = 3
SHAPES = ((), (N,), (2, N))
DTYPES = (DType.I32, DType.F32)
PLAIN = (Op.ADD, Op.SUB, Op.MAX, Op.MIN)


@attrs.define
class _Body:
    """Operations that are being drawn; values by dtype and shape."""

    draw: Any
    names: NameScope
    values: list[Value | Operation]
    operations: list[Operation] = attrs.field(factory=list)

    def of(self, dtype: DType, shape: Shape) -> str:
        """Return a value of this type: one that is there, or a new one."""
        known = [v.name for v in self.values if (v.dtype, v.shape) == (dtype, shape)]
        return self.draw(st.sampled_from(known)) if known else self.made(dtype, shape)

    def add(self, operation: Operation) -> str:
        """Append an operation."""
        self.operations.append(operation)
        self.values.append(operation)
        return operation.name

    def made(self, dtype: DType, shape: Shape) -> str:
        """Return a new value of this type, made of others."""
        name, choice = self.names.fresh("V"), self.draw(st.integers(0, 4))
        other = DType.I32 if dtype is DType.F32 else DType.F32
        others = [v for v in self.values if (v.dtype, v.shape) == (other, shape)]
        wider = [v for v in self.values if v.dtype is dtype and len(v.shape) == len(shape) + 1]
        if choice == 0 and wider:
            source = self.draw(st.sampled_from(wider))
            axes = tuple(Affine.index(f"x{axis}") for axis in range(len(source.shape)))
            inputs = (Access(source.name, axes),)
            how, combined = Aggregation.MAX, Combination.NONE
            kind = (dtype, dtype, dtype)
            if source.shape[1:] == shape:
                return self.add(Contraction(name, axes[1:], inputs, how, combined, *kind, shape))
        if choice == 1 and others:
            return self.add(Cast(name, self.draw(st.sampled_from(others)).name, dtype, shape))
        if choice == 2 and shape and dtype is DType.I32:
            return self.add(Coordinate(name, len(shape) - 1, dtype, shape))
        same = [v for v in self.values if v.dtype is dtype and v.shape == shape]
        if not same:
            zero = Constant(name, dtype, 2.0 if dtype is DType.F32 else 2)
            self.add(zero)
            if not shape:
                return name
            fill = self.names.fresh("V")
            output = tuple(Affine.index(f"x{axis}") for axis in range(len(shape)))
            kind = (dtype, dtype, dtype)
            access = (Access(name, ()),)
            how = Aggregation.ASSIGN
            return self.add(Contraction(fill, output, access, how, Combination.NONE, *kind, shape))
        left = self.draw(st.sampled_from(same))
        fitting = [v for v in self.values if v.dtype is dtype and v.shape in (shape, ())]
        right = self.draw(st.sampled_from(fitting))
        return self.add(Elementwise(name, self.draw(st.sampled_from(PLAIN)), (left.name, right.name), dtype, shape))


@st.composite
def functions(draw: st.DrawFn, depth: int = 2, steps: int = 5) -> Function:
    """Draw a function with one loop or two; with more ``depth``, loops may stand in steps of loops."""
    inputs = tuple(Value(f"I{n}", *draw(_types())) for n in range(draw(st.integers(1, 3))))
    body = _Body(draw, NameScope.of(value.name for value in inputs), list(inputs))
    outputs: list[str] = []
    for _ in range(draw(st.integers(1, 2))):
        outputs += _loop(body, depth, draw(st.integers(0, steps)))
    unique = list(dict.fromkeys(outputs))
    return Function(inputs, tuple(unique), tuple(body.operations))


def _types() -> st.SearchStrategy[tuple[DType, Shape]]:
    return st.tuples(st.sampled_from(DTYPES), st.sampled_from(SHAPES))


def _loop(around: _Body, depth: int, count: int) -> list[str]:
    """Add a loop and some of its results, whose names are returned."""
    draw = around.draw
    kinds = [draw(_types()) for _ in range(draw(st.integers(0, 2)))]
    sequences = [draw(_types()) for _ in range(draw(st.integers(0 if kinds else 1, 2)))]
    constants = [draw(_types()) for _ in range(draw(st.integers(0, 2)))]
    operands = [around.of(*kind) for kind in kinds]
    stacked = [around.of(dtype, (count, *shape)) for dtype, shape in sequences]
    fixed = [around.of(*kind) for kind in constants]
    inputs = tuple(Value(f"P{n}", *kind) for n, kind in enumerate((*kinds, *sequences, *constants)))
    body = _Body(draw, NameScope.of(value.name for value in inputs), list(inputs))
    if depth > 1 and draw(st.integers(0, 3)) == 0:
        _loop(body, depth - 1, draw(st.integers(0, 3)))
    for _ in range(draw(st.integers(0, 4))):
        body.made(*draw(_types()))
    outputs = [_own(body, body.of(*kind)) for kind in kinds]
    outputs += [_own(body, body.of(*draw(_types()))) for _ in range(draw(st.integers(0 if kinds else 1, 2)))]
    step = Function(inputs, tuple(outputs), tuple(body.operations))
    reverse = draw(st.booleans())
    names: list[str] = []
    for result in results_of(step, len(kinds)):
        if result.part is ScanPart.FINAL or draw(st.booleans()) or not names:
            kind = result_type(step, len(kinds), count, result)
            name = around.names.fresh("S")
            groups = tuple(operands), tuple(stacked), tuple(fixed)
            names.append(around.add(Scan(name, step, count, reverse, *groups, result, kind.dtype, kind.shape)))
    return names


def _own(body: _Body, name: str) -> str:
    """Return an operation that nothing else is an output as."""
    (value,) = (v for v in body.values if v.name == name)
    copy = body.names.fresh("R")
    return body.add(Elementwise(copy, Op.IDENT, (name,), value.dtype, value.shape))


def arguments(function: Function, seed: int = 0) -> Arrays:
    """Return small whole numbers for all inputs."""
    rng = np.random.default_rng(seed)
    return {v.name: np.asarray(rng.integers(-3, 4, v.shape)).astype(v.dtype.numpy) for v in function.inputs}


def assert_same(left: Arrays, right: Arrays) -> None:
    """Compare results to the bit: sums and extrema of small whole numbers are exact."""
    assert list(left) == list(right)
    for name, array in left.items():
        assert array.dtype == right[name].dtype
        np.testing.assert_array_equal(array, right[name], err_msg=name)


def unrolled(function: Function) -> Function:
    """Return a function without loops: their steps one after the other, slices and stacks as contractions."""
    names = NameScope.of(value.name for value in (*function.inputs, *function.operations))
    operations: list[Operation] = []
    _unroll(function, {value.name: value.name for value in function.inputs}, names, operations, set(function.outputs))
    return attrs.evolve(function, operations=tuple(operations))


def _unroll(function: Function, known: dict[str, str], names: NameScope, made: list[Operation], kept: set[str]) -> None:
    """Append the operations of ``function``, whose values get new names but for those that are ``kept``."""
    loops: dict[Scan, dict[ScanResult, str]] = {}
    for operation in function.operations:
        if not isinstance(operation, Scan):
            name = operation.name if operation.name in kept else names.fresh(operation.name)
            made.append(attrs.evolve(with_operands(operation, known), name=name))
            known[operation.name] = name
            continue
        loop = loop_of(operation)
        if loop not in loops:
            renamed = with_operands(operation, known)
            assert isinstance(renamed, Scan)
            loops[loop] = _steps(renamed, names, made)
        found = loops[loop][operation.result]
        name = operation.name if operation.name in kept else names.fresh(operation.name)
        made.append(Elementwise(name, Op.IDENT, (found,), operation.dtype, operation.shape))
        known[operation.name] = name


def _steps(scan: Scan, names: NameScope, made: list[Operation]) -> dict[ScanResult, str]:
    """Append all steps of a loop, and return its results."""
    body, carries = scan.body, list(scan.carries)
    stacks: dict[ScanResult, str | None] = {}
    assert scan.count is not None  # none of these loops runs while a condition holds
    kinds = {result: result_type(body, len(carries), scan.count, result) for result in results_of(body, len(carries))}
    for t in reversed(range(scan.count)) if scan.reverse else range(scan.count):
        slices = []
        for name, value in zip(scan.sequences, body.inputs[len(carries) :], strict=False):
            axes = tuple(Affine.index(f"x{axis}") for axis in range(len(value.shape)))
            access = Access(name, (Affine.constant(t), *axes))
            slices.append(_assigned(names, made, value, axes, access, None))
        inputs = (*carries, *slices, *scan.constants)
        known = {value.name: name for value, name in zip(body.inputs, inputs, strict=True)}
        _unroll(body, known, names, made, set())
        new = [known[name] for name in body.outputs]
        for result, kind in kinds.items():
            if result.part is not ScanPart.FINAL:
                history = result.part is ScanPart.HISTORY
                source = carries[result.number] if history else new[len(carries) + result.number]
                axes = tuple(Affine.index(f"x{axis}") for axis in range(len(kind.shape) - 1))
                place, access = (Affine.constant(t), *axes), Access(source, axes)
                stacks[result] = _assigned(names, made, kind, place, access, stacks.get(result))
        carries = new[: len(carries)]
    for result, kind in kinds.items():
        if result.part is ScanPart.FINAL:
            stacks[result] = carries[result.number]
        elif result not in stacks:
            zero, empty = names.fresh("Zero"), names.fresh("Empty")
            made += [Constant(zero, kind.dtype, 0.0 if kind.dtype.is_float else 0), _filled(empty, zero, kind)]
            stacks[result] = empty
    return {result: name or "" for result, name in stacks.items()}


def _filled(name: str, zero: str, kind: TensorType) -> Operation:
    axes = tuple(Affine.index(f"x{axis}") for axis in range(len(kind.shape)))
    types = (kind.dtype, kind.dtype, kind.dtype)
    return Contraction(name, axes, (Access(zero, ()),), Aggregation.ASSIGN, Combination.NONE, *types, kind.shape)


def _assigned(
    names: NameScope,
    made: list[Operation],
    kind: Value | TensorType,
    place: tuple[Affine, ...],
    access: Access,
    default: str | None,
) -> str:
    name, types = names.fresh("U"), (kind.dtype, kind.dtype, kind.dtype)
    how = Aggregation.ASSIGN, Combination.NONE
    made.append(Contraction(name, place, (access,), *how, *types, kind.shape, default=default))
    return name
