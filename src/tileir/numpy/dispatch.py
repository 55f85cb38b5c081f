"""Dispatch of NumPy's functions, methods and operators on tensors: to one table, by name."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias, TypeVar

import numpy as np

from tileir.core import DType, TileError, nearest
from tileir.core.process.tracebacks import at_the_call
from tileir.ops.shared.foundation import dtype_of
from tileir.tile.building.contractions import Access
from tileir.tile.building.indices import Dim
from tileir.tile.building.recording import INSIDE, Recorded, Recorder, mistake
from tileir.tile.building.tensors import Tensor, computed, constant_of, value_of

Body: TypeAlias = Callable[..., Any]
B = TypeVar("B", bound=Body)

FUNCTIONS: Final[dict[str, Body]] = {}
"""Functions of NumPy and of the array API standard on tensors, by name; those of modules as ``linalg.norm``."""

REFUSED: Final[dict[str, str]] = {}
"""Advice for functions that tensors cannot have, by name."""

METHODS: Final[dict[str, str]] = {"T": "transpose", "conj": "conjugate"}
"""Methods and attributes of arrays that are functions of another name."""


def named(*names: str) -> Callable[[B], B]:
    """Enter a function under these names: its arrays become constants, NumPy's numbers Python's."""

    def enter(body: B) -> B:
        function = _adapted(names[0], body)
        for name in names:
            FUNCTIONS[name] = function
        return body

    return enter


def entered(rows: Mapping[str, Body]) -> None:
    """Enter functions by name, or by several names with blanks between them."""
    for names, body in rows.items():
        named(*names.split())(body)


def _adapted(name: str, body: Body) -> Body:
    """Return a function of tensors as users call it; without any tensor it is NumPy's own."""

    @functools.wraps(body)
    def call(*args: Any, **kwargs: Any) -> Any:
        recorder = next(_recorders((*args, *kwargs.values())), None)
        if recorder is None:
            return own(name)(*args, **kwargs)
        if kwargs.pop("out", None) is not None:
            raise mistake(
                "TIL215", f"{name}: a tensor never changes, so nothing can be written into out; use the result"
            )
        inside, INSIDE.operation = INSIDE.operation, True
        try:
            return body(
                *(_operand(recorder, each) for each in args),
                **{key: _operand(recorder, each) for key, each in kwargs.items()},
            )
        except TypeError as error:
            if error.__traceback__ is not None and error.__traceback__.tb_next is None:
                raise mistake("TIL217", f"{str(error).replace('()', '', 1)}") from None
            raise
        finally:
            INSIDE.operation = inside

    return at_the_call(call)


def own(name: str) -> Body:
    """Return NumPy's function of this name."""
    found: Any = np
    for part in name.split("."):
        found = getattr(found, part)
    function: Body = found
    return function


def _recorders(values: Iterable[object]) -> Iterator[Recorder]:
    for value in values:
        if isinstance(value, Recorded):
            yield value.recorder  # type: ignore[attr-defined]  # all kinds have one
        elif isinstance(value, list | tuple):
            yield from _recorders(value)
        elif isinstance(value, np.ndarray) and value.dtype == object:
            yield from _recorders(value.ravel().tolist())


def _operand(recorder: Recorder, value: object) -> object:
    """Return an argument as operations take it."""
    if isinstance(value, np.ndarray):
        if value.dtype == object:
            raise mistake("TIL215", "an array of objects holds tensors; join these with numpy.stack or concatenate")
        return constant_of(recorder, value) if value.shape else value.item()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Access):
        return computed(recorder, value_of(recorder, value))
    if type(value) is list or type(value) is tuple:
        return type(value)(_operand(recorder, each) for each in value)
    return value


OPERATORS: Final[Mapping[str, Body]] = MappingProxyType(
    {
        "add": operator.add,
        "subtract": operator.sub,
        "multiply": operator.mul,
        "divide": operator.truediv,
        "floor_divide": operator.floordiv,
        "remainder": operator.mod,
        "power": operator.pow,
        "left_shift": operator.lshift,
        "right_shift": operator.rshift,
        "bitwise_and": operator.and_,
        "bitwise_or": operator.or_,
        "bitwise_xor": operator.xor,
        "less": operator.lt,
        "less_equal": operator.le,
        "greater": operator.gt,
        "greater_equal": operator.ge,
        "equal": operator.eq,
        "not_equal": operator.ne,
        "matmul": operator.matmul,
        "negative": operator.neg,
        "invert": operator.invert,
        "absolute": operator.abs,
    }
)
"""NumPy's functions behind operators, which arrays and NumPy's numbers on the left call."""


def _operated(apply: Body, *inputs: object) -> object:
    recorder = next(_recorders(inputs))
    operands = [each if isinstance(each, Recorded) else _operand(recorder, each) for each in inputs]
    return apply(*operands)


def ufunc(function: np.ufunc, method: str, *inputs: object, **options: object) -> object:
    """Compute a function of NumPy's elementwise kind, or what its methods make of it."""
    name = function.__name__
    operands = OPERATORS.get(name)
    if method == "__call__" and operands is not None and not options:
        return _operated(operands, *inputs)
    if method == "__call__":
        return _found(name)(*inputs, **options)
    if method in ("reduce", "accumulate", "outer"):
        return _ufunc_method(name, method, inputs, options)
    raise mistake("TIL215", f"tensors have no numpy.{name}.{method}; write x.at[indices].add(y), or a contraction")


_REDUCTIONS: Final[Mapping[str, str]] = {
    "add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min", "logical_and": "all", "logical_or": "any",
}  # fmt: skip
_RUNNING: Final[Mapping[str, str]] = {
    "add": "cumsum", "multiply": "cumprod", "maximum": "maximum.accumulate", "minimum": "minimum.accumulate",
}  # fmt: skip


def _ufunc_method(name: str, method: str, inputs: tuple[Any, ...], options: Mapping[str, Any]) -> Any:
    """Compute ``numpy.add.reduce`` and its like."""
    given = dict(options)
    if method == "outer":
        left, right = inputs
        shaped = FUNCTIONS["reshape"](left, *left.dims, *[1] * right.rank)
        return FUNCTIONS[name](shaped, right)
    table = _REDUCTIONS if method == "reduce" else _RUNNING
    if name not in table:
        raise mistake("TIL215", f"tensors have no numpy.{name}.{method}; write a contraction or tileir.scan")
    given.setdefault("axis", inputs[1] if len(inputs) > 1 else 0)
    return FUNCTIONS[table[name]](inputs[0], **given)


def function(called: Any, args: tuple[object, ...], kwargs: Mapping[str, object]) -> object:
    """Compute another function of NumPy."""
    module = called.__module__.removeprefix("numpy").removeprefix(".").split(".")[0]
    name = called.__name__
    if module in ("linalg", "fft"):
        name = f"{module}.{name}"
    return _found(name)(*args, **kwargs)


def _found(name: str) -> Body:
    found = FUNCTIONS.get(name)
    if found is None:
        raise refused(name)
    return found


def refused(name: str) -> TileError:
    """Build the error for a function that tensors do not have."""
    advice = REFUSED.get(name)
    if advice is None:
        advice = "tensors do not have it; compute it on arrays before, or write a contraction"
    return mistake("TIL215", f"numpy.{name} takes arrays, and this stands for a tensor of a program: {advice}")


def method(name: str, tensor: Tensor | None) -> Body:
    """Return a method of a tensor; of none, the function."""
    body = FUNCTIONS[METHODS.get(name, name)]
    return body if tensor is None else functools.partial(body, tensor)


def missing(name: str) -> str:
    """Return what to say of an attribute that tensors lack."""
    values = ("numpy", "item", "tolist", "data", "tobytes", "cpu", "detach")
    if name in values:
        return ": it has no values; run the function for those"
    return f": functions of tileir.ops and numpy take it, as in ops.relu(X){nearest(name, FUNCTIONS)}"


def element_type(dtype: Any) -> DType:
    """Return the dtype that NumPy, Python or tileir call so.

    Raises:
        TileError: TIL206, tileir has none of that name.

    """
    if isinstance(dtype, DType):
        return dtype
    if dtype is int or dtype is float:
        return DType.I64 if dtype is int else DType.F64
    try:
        found = DType.of(np.dtype(dtype))
    except TypeError:  # a name that NumPy does not know
        found = None
    return dtype_of(dtype) if found is None else found


def is_number(value: object) -> bool:
    """Return whether it is a number of Python, or a size."""
    return isinstance(value, int | float | Dim)
