"""Dispatch of NumPy's functions, methods and operators on tensors: to one table, by name."""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, TypeAlias, TypeVar

import numpy as np

from tileir.core import DType, TileError, nearest, with_short_traceback
from tileir.ops.arithmetic.elementwise import full_like
from tileir.ops.shared.foundation import cast_to, dtype_of as dtype_named, tensor_of
from tileir.tile.building.contractions import Access
from tileir.tile.building.dtypes import dtype_of
from tileir.tile.building.indices import Dim
from tileir.tile.building.recording import INSIDE, Recorded, Recorder, mistake
from tileir.tile.building.tensors import Tensor, computed, constant_of, value_of
from tileir.tile.ir import BinaryOperator

Body: TypeAlias = Callable[..., Any]
B = TypeVar("B", bound=Body)

FUNCTIONS: Final[dict[str, Body]] = {}
"""Functions of NumPy and of the array API standard on tensors, by name; those of modules as ``linalg.norm``."""

REFUSED: Final[dict[str, str]] = {}
"""Advice for functions that are not available for tensors, by name."""

METHODS: Final[dict[str, str]] = {"T": "transpose", "conj": "conjugate"}
"""Methods and attributes of arrays that are functions of another name."""


def named(*names: str, tensors: int | None = None) -> Callable[[B], B]:
    """Register a function under these names: its arrays become constants, NumPy's numbers Python's.

    If ``tensors`` is given, only this many leading arguments are tensors: arrays among the others, which are settings
    such as shapes, become lists.
    """

    def enter(body: B) -> B:
        function = _adapted(names[0], body, tensors)
        for name in names:
            FUNCTIONS[name] = function
        return body

    return enter


def entered(rows: Mapping[str, Body], tensors: int | None = None) -> None:
    """Register functions by name, or by several names separated by blanks."""
    for names, body in rows.items():
        named(*names.split(), tensors=tensors)(body)


_PLACED: Final = frozenset(("at", "take", "take_along_axis"))
"""Functions of positions, whose dtype does not affect that of the elements."""


def _adapted(name: str, body: Body, tensors: int | None) -> Body:
    """Return a function of tensors in the form for users; without any tensor it is NumPy's own."""

    @functools.wraps(body)
    def call(*args: Any, **kwargs: Any) -> Any:
        recorder = next(_recorders((*args, *kwargs.values())), None)
        if recorder is None:
            return own(name)(*args, **kwargs)
        if kwargs.pop("out", None) is not None:
            raise mistake(
                "TIL215", f"{name}: a tensor never changes, so nothing can be written into out; use the result"
            )
        count = len(args) if tensors is None else tensors
        inside, INSIDE.operation = INSIDE.operation, True
        try:
            given = [_operand(recorder, each) for each in args[:count]] + [_setting(each) for each in args[count:]]
            options = {
                key: _operand(recorder, each) if tensors is None else _setting(each) for key, each in kwargs.items()
            }
            if recorder.trace is not None and name not in _PLACED:
                given = alike(given)
            return body(*given, **options)
        except TypeError as error:
            if error.__traceback__ is not None and error.__traceback__.tb_next is None:
                raise mistake("TIL217", f"{str(error).replace('()', '', 1)}") from None
            raise
        finally:
            INSIDE.operation = inside

    return with_short_traceback(call)


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
    """Return an argument in the form for operations."""
    if isinstance(value, np.ndarray):
        if value.dtype == object:
            raise mistake("TIL215", "an array of objects holds tensors; join these with numpy.stack or concatenate")
        return constant_of(recorder, value) if value.shape else value.item()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Access):
        return computed(recorder, value_of(recorder, value))
    return _each(value, lambda each: _operand(recorder, each))


def _each(value: Any, change: Callable[[Any], Any]) -> Any:
    """Return a list or tuple with its items changed, and any other value as it is."""
    return type(value)(map(change, value)) if type(value) is list or type(value) is tuple else value


def _setting(value: object) -> object:
    """Return an argument that is no tensor, such as a shape, without arrays."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return _each(value, _setting)


def alike(operands: list[Any]) -> list[Any]:
    """Return operands with all integers signed if some are: in a dtype that holds the values of both."""
    kinds = {kind for each in _tensors(operands) if (kind := dtype_of(each.recorder, each.reference)) is not None}
    if len(kinds) < 2:
        return operands
    integers = [kind for kind in kinds if kind.is_integer]
    bits = {signed: max((kind.bits for kind in integers if kind.is_signed is signed), default=0) for signed in _SIGNS}
    if bits[False] < bits[True] or not bits[True] or any(kind.is_float for kind in kinds):
        return operands
    wider = {8: DType.I16, 16: DType.I32, 32: DType.I64, 64: DType.F64}[bits[False]]
    return [_widened(each, wider) for each in operands]


_SIGNS: Final = (False, True)


def _tensors(operands: Iterable[Any]) -> Iterator[Tensor]:
    for each in operands:
        if isinstance(each, Tensor):
            yield each
        elif type(each) is list or type(each) is tuple:
            yield from _tensors(each)


def _widened(value: Any, dtype: DType) -> Any:
    if isinstance(value, Tensor):
        kind = dtype_of(value.recorder, value.reference)
        return value if kind is None or kind.is_bool else cast_to(value, dtype)
    return _each(value, lambda each: _widened(each, dtype))


def operands(recorder: Recorder, kind: BinaryOperator, left: Any, right: Any) -> tuple[BinaryOperator, Any, Any]:
    """Return the operator and operands with which Tile computes NumPy's result.

    Booleans are added by ``|`` and multiplied by ``&``. Of a signed and an unsigned integer, both become signed, in a
    dtype that holds the values of both. Lists are arrays, and numbers outside of a dtype's range are compared by value.
    """
    left, right = (_array(recorder, each) for each in (left, right))
    first, second = (
        dtype_of(recorder, each.reference) if isinstance(each, Tensor) else DType.BOOL if type(each) is bool else None
        for each in (left, right)
    )
    if first is second is DType.BOOL:
        if kind is BinaryOperator.SUB:
            raise mistake("TIL215", "booleans have no difference; write x ^ y, or x & ~y")
        kind = _OF_BOOLEANS.get(kind, kind)
    elif kind in _COMPARES and (type(left) is int or type(right) is int):
        left, right = _comparable(left, right)
    elif first is not second and first is not None and second is not None:
        left, right = alike([left, right])
    return kind, left, right


_OF_BOOLEANS: Final = MappingProxyType(
    {BinaryOperator.ADD: BinaryOperator.BIT_OR, BinaryOperator.MUL: BinaryOperator.BIT_AND}
)
_COMPARES: Final = frozenset(each for each in BinaryOperator if each.name.startswith("CMP"))


def _array(recorder: Recorder, value: Any) -> Any:
    """Return an operand with lists and arrays as tensors."""
    if isinstance(value, list | tuple):
        if next(_recorders(value), None) is not None:
            raise mistake("TIL215", f"a {type(value).__name__} of tensors is no operand; join them with numpy.stack")
        return constant_of(recorder, np.asarray(value))
    return _operand(recorder, value) if isinstance(value, np.ndarray | np.generic) else value


def like_array(x: Any, value: Any) -> Tensor:
    """Return a list or number as a tensor beside ``x``."""
    return tensor_of(x, _array(x.recorder, value)) if isinstance(x, Tensor) else value


def _comparable(left: Any, right: Any) -> tuple[Any, Any]:
    """Return operands of a comparison with equal results and no integer outside of the dtype of the other."""
    tensor, number = (left, right) if type(right) is int else (right, left)
    dtype = dtype_of(tensor.recorder, tensor.reference) if isinstance(tensor, Tensor) else None
    if dtype is None or not dtype.is_integer or dtype.minimum <= number <= dtype.maximum:
        return left, right
    none = full_like(cast_to(tensor, DType.I32), 0)
    return (none, 1 if number > 0 else -1) if tensor is left else (1 if number > 0 else -1, none)


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
    """Compute an elementwise function of NumPy, or one of its methods."""
    name = function.__name__
    if method == "__call__":
        given = _as_asked(function, inputs, options) if options else inputs
        apply = OPERATORS.get(name)
        return _found(name)(*given, **options) if apply is None or options else _operated(apply, *given)
    if method in ("reduce", "accumulate", "outer"):
        return _ufunc_method(name, method, inputs, options)
    raise mistake("TIL215", f"tensors have no numpy.{name}.{method}; write x.at[indices].add(y), or a contraction")


def _as_asked(function: np.ufunc, inputs: Sequence[object], options: dict[str, Any]) -> Sequence[object]:
    """Return inputs in the requested dtype, and remove options that do not affect tensors."""
    for word in ("casting", "order", "subok"):
        options.pop(word, None)
    if all(each is None for each in options.get("out", ())):
        options.pop("out", None)
    if options.pop("where", True) is not True and "out" not in options:
        call = f"numpy.{function.__name__}({', '.join('xyz'[: function.nin])})"
        message = f"{call}: elements have no values where the mask does not hold"
        raise mistake("TIL215", f"{message}; write numpy.where(mask, {call}, other)")
    dtype = options.pop("dtype", None)
    if dtype is None or f"{'d' * function.nin}->?" in function.types:
        return inputs
    return [FUNCTIONS["astype"](each, dtype) if isinstance(each, Tensor) else each for each in inputs]


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
    given, options = list(args), dict(kwargs)
    for word in _placed_words(called, name)[len(given) :] if options else ():
        if word not in options:
            break
        given.append(options.pop(word))
    return _found(name)(*given, **options)


@functools.cache
def _placed_words(called: Any, name: str) -> tuple[str, ...]:
    """Return the parameters of NumPy's function in order, with "" for those that the function here also has by name."""
    theirs = list(inspect.signature(called).parameters)
    ours = inspect.signature(inspect.unwrap(_found(name))).parameters.values()
    named = {each.name for each in ours if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)}
    listed = {*theirs[:1], *(each.name for each in ours if each.kind is each.VAR_POSITIONAL)}
    if any(each.kind is each.VAR_KEYWORD for each in ours):
        named |= {*theirs} - listed
    return tuple("" if word in named else word for word in theirs)


def _found(name: str) -> Body:
    found = FUNCTIONS.get(name)
    if found is None:
        raise refused(name)
    return found


def refused(name: str) -> TileError:
    """Build the error for a function that is not available for tensors."""
    advice = REFUSED.get(name)
    if advice is None:
        advice = "tensors do not have it; compute it on arrays before, or write a contraction"
    return mistake("TIL215", f"numpy.{name} takes arrays, and this stands for a tensor of a program: {advice}")


def method(name: str, tensor: Tensor | None) -> Body:
    """Return a method of a tensor; without a tensor, the function."""
    body = FUNCTIONS[METHODS.get(name, name)]
    return body if tensor is None else functools.partial(body, tensor)


def missing(name: str) -> str:
    """Return advice for a missing attribute of tensors."""
    values = ("numpy", "item", "tolist", "data", "tobytes", "cpu", "detach")
    if name in values:
        return ": it has no values; run the function for those"
    if name in REFUSED:
        return f": {REFUSED[name]}"
    if name in FUNCTIONS:
        return f": write numpy.{name}(x)"
    return f": functions of tileir.ops and numpy take it, as in ops.relu(X){nearest(name, FUNCTIONS)}"


def element_type(dtype: Any) -> DType:
    """Return the dtype for a name or type of NumPy, Python or tileir.

    Raises:
        TileError: TIL206, tileir has none of that name.
    """
    if isinstance(dtype, DType):
        return dtype
    if dtype is int or dtype is float:
        return DType.I64 if dtype is int else DType.F64
    try:
        theirs = np.dtype(dtype)
    except TypeError:  # a name that NumPy does not know
        return dtype_named(dtype)
    if not theirs.isnative:
        native = theirs.newbyteorder("=").name
        raise mistake("TIL206", f"tensors have the byte order of the processor; write {native!r} for {theirs.str!r}")
    found = DType.of(theirs)
    return dtype_named(dtype) if found is None else found


def is_number(value: object) -> bool:
    """Return whether it is a number of Python, or a size."""
    return isinstance(value, int | float | Dim)
