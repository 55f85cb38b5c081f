"""Nodes on symbolic sizes: moves of elements, arithmetic, and comparisons that hold for all sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial, reduce
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from onnx import TensorProto

from tileir.tile.builder import Dim
from tileir.tile.ir import Binary, BinaryOperator, Call, Expr, IntLiteral, Name, Unary, UnaryOperator
from tileir_onnx.graph import Array, Node

Terms = dict[tuple[Expr, ...], int]
"""Polynomial over sizes: the factor of each product of them."""


MISTAKES: Final = (ArithmeticError, LookupError, TypeError, ValueError)
"""Exceptions for attributes and inputs of a node that do not match."""


class UnknownError(Exception):
    """A result depends on the values of sizes."""


def computed(
    node: Node, arguments: Sequence[Any], fold: Callable[[Node, Sequence[Any]], tuple[Any, ...] | None]
) -> tuple[Any, ...] | None:
    """Return the outputs of a node if they follow from sizes, or None.

    Args:
        node: The node.
        arguments: Arrays, of dtype object if they have symbols; None for an omitted input.
        fold: Returns the outputs of a node on numbers.
    """
    if node.domain:
        return None
    try:
        if node.op in _MOVED:
            moved = _moved(node, arguments, fold)
            return None if moved is None else tuple(_typed(node, arguments, each) for each in moved)
        function = _FUNCTIONS.get(node.op)
        found = None if function is None else function(node, *arguments)
    except (UnknownError, *MISTAKES):  # the row reports the fault
        return None
    if found is None:
        return None
    made = integers(found.flat, found.shape) if isinstance(found, np.ndarray) else integers([found], ())
    return (_typed(node, arguments, made),)


class NarrowSizes(np.ndarray[Any, Any]):
    """Sizes in i32, some of which are symbols."""


def dtype_of(array: Array) -> np.dtype[Any]:
    """Return the ONNX dtype of an array: that of integers if elements are symbols."""
    integer = np.dtype(np.int32 if isinstance(array, NarrowSizes) else np.int64)
    return integer if array.dtype == object else np.dtype(array.dtype)


def _typed(node: Node, arguments: Sequence[Any], found: Array | None) -> Array | None:
    """Return sizes in i32 if the inputs of a node, or the target of a cast, are."""
    if found is None or found.dtype.kind == "b" or node.op in ("Shape", "Size"):
        return found
    positions = _MOVED.get(node.op) or (0,)
    is_narrow = dtype_of(arguments[positions[0]]) == np.int32
    if node.op == "Cast":
        is_narrow = node.attributes["to"] == TensorProto.INT32
    if not is_narrow:
        return found
    return found.view(NarrowSizes) if found.dtype == object else found.astype(np.int32)


def integers(sizes: Iterable[Any], shape: tuple[int, ...] | None = None) -> Array:
    """Return sizes as an array of i64, or of objects if one is a symbol; truth values as a bool array."""
    known = [each.value if isinstance(each, Dim) and each.value is not None else each for each in sizes]
    shape = (len(known),) if shape is None else shape
    if not any(isinstance(each, Dim) for each in known):
        is_truth = bool(known) and all(isinstance(each, bool | np.bool_) for each in known)
        return np.array(known, np.bool_ if is_truth else np.int64).reshape(shape)
    array = np.empty(len(known), object)
    for place, each in enumerate(known):  # NumPy would look for elements of a symbol
        array[place] = each
    return array.reshape(shape)


_MOVED: Final[Mapping[str, tuple[int, ...] | None]] = MappingProxyType(
    {
        "CenterCropPad": (0,),
        "Compress": (0,),
        "Concat": None,
        "Expand": (0,),
        "Flatten": (0,),
        "Gather": (0,),
        "GatherElements": (0,),
        "GatherND": (0,),
        "Identity": (0,),
        "Pad": (0, 2),
        "Reshape": (0,),
        "ReverseSequence": (0,),
        "ScatterElements": (0, 2),
        "ScatterND": (0, 2),
        "Slice": (0,),
        "Split": (0,),
        "Squeeze": (0,),
        "Tile": (0,),
        "Transpose": (0,),
        "Trilu": (0,),
        "Unsqueeze": (0,),
        "Where": (1, 2),
    }
)
"""Nodes that move elements, and the inputs with elements; None for all."""


def _moved(node: Node, arguments: Sequence[Any], fold: Callable[..., Any]) -> tuple[Any, ...] | None:
    """Move numbers of elements in the place of elements; 0 is the padding."""
    if node.attributes.get("reduction", "none") != "none" or not isinstance(
        node.attributes.get("value", 0), int | float
    ):
        return None
    positions = _MOVED[node.op]
    elements: list[Any] = [0]
    labels = list(arguments)
    for at, each in enumerate(arguments):
        if each is not None and (positions is None or at in positions):
            labels[at] = np.arange(len(elements), len(elements) + each.size).reshape(each.shape)
            elements += each.flat
        elif each is not None and each.dtype == object:
            return None
    found = fold(node, labels)
    return None if found is None else tuple(_picked(elements, each) for each in found)


def _picked(elements: Sequence[Any], labels: Array | None) -> Array | None:
    return None if labels is None else integers([elements[each] for each in labels.flat], labels.shape)


def _elementwise(function: Callable[[Any, Any], Any], _: Node, *arguments: Any) -> Any:
    return reduce(np.frompyfunc(function, 2, 1), arguments)


def _each(function: Callable[[Any], Any], _: Node, x: Array) -> Any:
    return np.frompyfunc(function, 1, 1)(x)


def _quotient(x: Any, y: Any) -> Any:
    """Return a quotient of sizes, rounded towards zero like that of symbols."""
    if isinstance(x, Dim) or isinstance(y, Dim) or (x < 0) == (y < 0):
        return x // y
    return -(-x // y)


def _remainders(node: Node, x: Array, y: Array) -> Any:
    return np.frompyfunc(_rest if node.attributes.get("fmod", 0) else _remainder, 2, 1)(x, y)


def _remainder(x: Any, y: Any) -> Any:
    """Return a remainder with the sign of the divisor, non-negative for symbols."""
    if not (isinstance(x, Dim) or isinstance(y, Dim)):
        return x % y
    if not _is_natural(y):
        raise UnknownError
    return x % y if _is_natural(x) else (x % y + y) % y


def _rest(x: Any, y: Any) -> Any:
    """Return a remainder with the sign of the dividend, like that of symbols."""
    return x % y if isinstance(x, Dim) or isinstance(y, Dim) else int(np.fmod(x, y))


def _greater(x: Any, y: Any) -> Any:
    return _chosen(x, y, lambda difference: difference >= 0, "max", max)


def _smaller(x: Any, y: Any) -> Any:
    return _chosen(x, y, lambda difference: difference <= 0, "min", min)


def _chosen(x: Any, y: Any, is_first: Callable[[int], bool], word: str, of_numbers: Callable[..., Any]) -> Any:
    if not (isinstance(x, Dim) or isinstance(y, Dim)):
        return of_numbers(x, y)
    try:
        return x if _decided(is_first, x, y) else y
    except UnknownError:
        return x.call(word, y) if isinstance(x, Dim) else y.call(word, x)


def _absolute(x: Any) -> Any:
    return x if isinstance(x, Dim) and _is_natural(x) else abs(x)


def _decided(holds: Callable[[int], bool], x: Any, y: Any) -> bool:
    """Return whether a comparison with 0 holds for the difference of two sizes.

    Raises:
        UnknownError: It holds for some sizes and not for others.

    """
    difference = _sum(_terms(x), _terms(y), -1)
    constant = difference.pop((), 0)
    if not difference:
        return holds(constant)
    if not all(all(map(_is_never_negative, factors)) for factors in difference):
        raise UnknownError
    sign = (constant > 0) - (constant < 0)
    if all(factor > 0 for factor in difference.values()):  # it is the constant or more
        signs = range(sign, 2)
    elif all(factor < 0 for factor in difference.values()):
        signs = range(-1, sign + 1)
    else:
        raise UnknownError
    answers = {holds(each) for each in signs}
    if len(answers) > 1:
        raise UnknownError
    return answers.pop()


def _is_natural(size: Any) -> bool:
    terms = _terms(size)
    return all(factor >= 0 and all(map(_is_never_negative, factors)) for factors, factor in terms.items())


def _is_never_negative(expr: Expr) -> bool:
    match expr:
        case Name():
            return True
        case Call(function="max", arguments=arguments):
            return any(map(_is_never_negative, arguments))
        case Call(function="min" | "mod" | "match" | "broadcast", arguments=arguments):
            return all(map(_is_never_negative, arguments))
        case Binary(lhs=lhs, rhs=rhs, operator=operator):
            return operator is not BinaryOperator.SUB and _is_never_negative(lhs) and _is_never_negative(rhs)
        case IntLiteral(value=value):
            return value >= 0
        case _:
            return False


def _terms(size: Any) -> Terms:
    """Return a size as a polynomial; terms other than sums and products count as names.

    Raises:
        UnknownError: It is not a size.
    """
    if not isinstance(size, Dim):
        return {(): int(size)}
    steps = size.recorder.steps

    def terms(expr: Expr) -> Terms:
        match expr:
            case IntLiteral(value=value):
                return {(): value}
            case Unary(UnaryOperator.NEG, operand):
                return _sum({}, terms(operand), -1)
            case Binary(operator=BinaryOperator.ADD | BinaryOperator.SUB as operator, lhs=lhs, rhs=rhs):
                return _sum(terms(lhs), terms(rhs), 1 if operator is BinaryOperator.ADD else -1)
            case Binary(operator=BinaryOperator.MUL, lhs=lhs, rhs=rhs):
                found: Terms = {}
                right = terms(rhs)
                for factors, factor in terms(lhs).items():
                    each = {tuple(sorted((*factors, *more), key=hash)): by for more, by in right.items()}
                    found = _sum(found, each, factor)
                return found
            case Name(name=name) if name in steps:
                body = steps[name].body
                if isinstance(body, Expr):
                    return terms(body)
                raise UnknownError
            case _:
                return {(expr,): 1}

    return terms(size.expr)


def _sum(x: Terms, y: Terms, factor: int) -> Terms:
    found = {each: x.get(each, 0) + factor * y.get(each, 0) for each in (*x, *y)}
    return {each: by for each, by in found.items() if by}


def _reduced(function: Callable[[Any, Any], Any], node: Node, x: Array, axes: Array | None = None) -> Any:
    given = node.attributes.get("axes") if axes is None else tuple(map(int, axes))
    if not given and node.attributes.get("noop_with_empty_axes", 0):
        return x
    chosen = {axis % x.ndim for axis in given or range(x.ndim)}
    for axis in chosen:
        x = np.frompyfunc(function, 2, 1).reduce(x, axis, keepdims=True)
    return x if node.attributes.get("keepdims", 1) else np.squeeze(x, tuple(chosen))


def _integer_cast(node: Node, data: Array) -> Array | None:
    """Return sizes as integers; casts to floats are left to the row."""
    return data if node.attributes["to"] in (TensorProto.INT32, TensorProto.INT64) else None


def _shape(node: Node, x: Array) -> Array:
    return np.array(x.shape, np.int64)[node.attributes.get("start", 0) : node.attributes.get("end")]


def _ways() -> Iterator[tuple[str, Callable[..., Any]]]:
    arithmetic: dict[str, Callable[[Any, Any], Any]] = {
        "Add": lambda x, y: x + y,
        "Div": _quotient,
        "Max": _greater,
        "Min": _smaller,
        "Mul": lambda x, y: x * y,
        "Sub": lambda x, y: x - y,
        "Sum": lambda x, y: x + y,
    }
    compared: dict[str, Callable[[int], bool]] = {
        "Equal": lambda difference: difference == 0,
        "Greater": lambda difference: difference > 0,
        "GreaterOrEqual": lambda difference: difference >= 0,
        "Less": lambda difference: difference < 0,
        "LessOrEqual": lambda difference: difference <= 0,
    }
    reduced = {"Max": _greater, "Min": _smaller, "Prod": arithmetic["Mul"], "Sum": arithmetic["Add"]}
    yield from ((op, partial(_elementwise, function)) for op, function in arithmetic.items())
    yield from ((op, partial(_elementwise, partial(_decided, holds))) for op, holds in compared.items())
    yield from ((f"Reduce{op}", partial(_reduced, function)) for op, function in reduced.items())
    yield from (("Abs", partial(_each, _absolute)), ("Neg", partial(_each, lambda x: -x)))
    yield from (("Cast", _integer_cast), ("Mod", _remainders), ("Shape", _shape), ("Size", lambda _, x: x.size))


_FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = MappingProxyType(dict(_ways()))
"""Arithmetic and comparisons of sizes."""
