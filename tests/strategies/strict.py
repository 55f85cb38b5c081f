"""Kernels run by the interpreter as a back end of known capabilities would: what it lacks or leaves undefined fails."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tileir.core.numbers.ranges import Range
from tileir.core.ops import Op
from tileir.semtree.analysis.ranges import is_defined
from tileir.semtree.interpret import evaluation, interpreter, scalar_arithmetic
from tileir.semtree.interpret.evaluation import OperatorTree
from tileir.semtree.legalise.capabilities import Support

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pytest

    from tileir.core.dtype import DType
    from tileir.core.numbers.number_system import NumberSystem
    from tileir.semtree.ir import KernelFunction, Type
    from tileir.semtree.legalise.capabilities import Capabilities

_OPERATION = scalar_arithmetic.operation
_CONVERSION = scalar_arithmetic.conversion
_REDUCTION = scalar_arithmetic.reduction


def run_strictly(
    kernel: KernelFunction, arrays: Sequence[Any], capabilities: Capabilities, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Run a kernel; an AssertionError tells of operations that are not there, or operands that C leaves undefined."""

    def operation(op: Op, kind: Type, numbers: NumberSystem) -> Callable[..., Any]:
        function = _OPERATION(op, kind, numbers)
        if op is Op.COND:
            return function
        support = capabilities.of_lanes(kind.lanes).operations.get((op, kind.dtype))
        assert support is not None, f"{op} of {kind}"
        return function if support is Support.TOTAL else _checked(op, kind, function)

    def conversion(source: Type, target: DType, numbers: NumberSystem) -> Callable[[Any], Any]:
        function = _CONVERSION(source, target, numbers)
        support = capabilities.of_lanes(source.lanes).casts.get((source.dtype, target))
        assert support is not None, f"cast of {source} to {target}"
        return function if support is Support.TOTAL else _fitting(target, function)

    def reduction(op: Op, kind: Type, numbers: NumberSystem) -> Callable[[Any], Any]:
        assert (op, kind.dtype) in capabilities.of_lanes(kind.lanes).reductions
        return _REDUCTION(op, kind, numbers)

    with monkeypatch.context() as patch:
        patch.setattr(OperatorTree, "inlined", lambda *_: None)
        patch.setattr(evaluation, "operation", operation)
        patch.setattr(evaluation, "conversion", conversion)
        patch.setattr(evaluation, "reduction", reduction)
        interpreter.run(kernel, arrays)


def _checked(op: Op, kind: Type, function: Callable[..., Any]) -> Callable[..., Any]:
    """Look at operands before they are given to a function; loops give it the same ones many times."""
    defined: set[tuple[int, ...]] = set()

    def check(values: tuple[int, ...]) -> None:
        assert is_defined(op, kind.dtype, tuple(map(Range.constant, values))), f"{op} of {kind.dtype} and {values}"
        defined.add(values)

    def of_one(*args: int) -> Any:
        if args not in defined:
            check(tuple(map(int, args)))
        return function(*args)

    def of_lanes(*args: Any) -> Any:
        for values in {tuple(map(int, each)) for each in zip(*map(np.atleast_1d, args), strict=True)} - defined:
            check(values)
        return function(*args)

    return of_one if kind.lanes == 1 else of_lanes


def _fitting(target: DType, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def fitting(value: Any) -> Any:
        whole = np.trunc(np.asarray(value, np.float64))
        assert np.all((whole >= float(target.minimum)) & (whole < float(int(target.maximum) + 1))), (
            f"{value} to {target}"
        )
        return function(value)

    return fitting
