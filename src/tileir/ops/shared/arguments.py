"""Checks of the arguments of operations, read from the annotations of their parameters.

:func:`checked` wraps the operations of the library for users, so that a wrong argument is one error at their line.
Inside the library operations call one another directly.
"""

from __future__ import annotations

import ast
import functools
import inspect
import numbers
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, ParamSpec, TypeAlias, TypeVar

import numpy as np

from tileir.core import DType, attrs, hold_call_site, nearest, release_call_site, with_short_traceback
from tileir.ops.networks.recurrent import RecurrentWeights
from tileir.ops.shared.foundation import Dim, Tensor, mistaken
from tileir.tile.building.recording import INSIDE

P = ParamSpec("P")
R = TypeVar("R")
Test: TypeAlias = "Callable[[object], bool]"

_SPELLINGS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "alpha": ("negative_slope", "coefficient"),
        "approx": ("approximate",),
        "attn_mask": ("mask",),
        "axes": ("axis",),
        "axis": ("axes",),
        "ddof": ("correction",),
        "dim": ("axis", "axes"),
        "dims": ("axes", "axis"),
        "eps": ("epsilon",),
        "epsilon": ("eps",),
        "input": ("x",),
        "is_causal": ("causal",),
        "keepdim": ("keepdims",),
        "lambd": ("threshold",),
        "learning_rate": ("lr",),
        "max": ("high",),
        "min": ("low",),
        "num_groups": ("groups",),
        "ord": ("order",),
        "p": ("rate", "order"),
        "pos_weight": ("positive_weight",),
        "scale_factor": ("scale",),
        "unbiased": ("correction",),
        "var": ("variance",),
    }
)
"""Names of options in NumPy and PyTorch, and their names here."""

_TAKEN: Final = frozenset(
    ("approx", "attn_mask", "axes", "axis", "dim", "dims", "eps", "epsilon", "is_causal", "keepdim", "ord")
)
"""Names with equal meanings, which are accepted; for the others, a message tells the right name."""

_ALIASES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "Axes": "int | Sequence[int] | None",
        "Padding": "str | int | Sequence[int | Sequence[int]]",
        "Pads": "Size | Sequence[Size | Sequence[Size]]",
        "PerAxis": "int | Sequence[int]",
        "Size": "Dim | int",
        "Sizes": "Size | Sequence[Size]",
    }
)
"""The types that names in annotations stand for."""


@attrs.frozen(repr=False)
class _Kind:
    """A kind of values: a test, and the words for one and for several values, with an entry for each alternative."""

    test: Test
    singular: tuple[str, ...]
    plural: tuple[str, ...]

    @property
    def one(self) -> str:
        """The word for a value."""
        return _listed(self.singular)

    @property
    def many(self) -> str:
        """The word for several values."""
        return _listed(self.plural)


def _is_integer(value: object) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    return _is_integer(value) or (isinstance(value, numbers.Real) and not isinstance(value, numbers.Rational))


def _is_operand(value: object) -> bool:
    return isinstance(value, Tensor | Dim | bool) or _is_number(value)


def _is(kind: type) -> Test:
    return lambda value: isinstance(value, kind)


def _single(test: Test, one: str, many: str) -> _Kind:
    return _Kind(test, (one,), (many,))


def _listed(names: Sequence[str]) -> str:
    """Return alternatives as a phrase."""
    *others, last = dict.fromkeys(names)
    return f"{', '.join(others)} or {last}" if others else last


_KINDS: Final[Mapping[str, _Kind]] = MappingProxyType(
    {
        "DType": _single(_is(DType), "a DType", "DTypes"),
        "Dim": _single(_is(Dim), "a dimension", "dimensions"),
        "None": _single(_is(type(None)), "None", "None"),
        "Operand": _single(_is_operand, "a tensor, dimension or number", "tensors, dimensions or numbers"),
        "RecurrentWeights": _single(_is(RecurrentWeights), "RecurrentWeights", "RecurrentWeights"),
        "Tensor": _single(_is(Tensor), "a tensor", "tensors"),
        "bool": _single(_is(bool), "True or False", "bools"),
        "float": _single(_is_number, "a number", "numbers"),
        "int": _single(_is_integer, "an integer", "integers"),
        "str": _single(_is(str), "a string", "strings"),
    }
)


def checked(name: str, operation: Callable[P, R]) -> Callable[P, R]:
    """Return ``operation`` under its public name, with its arguments checked.

    NumPy's numbers become Python's, so that operations see no others, and option names of NumPy and PyTorch are
    translated. The result raises TIL217 if an argument is missing, unknown, or not of the annotated kind.
    """

    @with_short_traceback
    @functools.wraps(operation)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        positional = tuple(map(_plain, args))
        keywords = {_here(name, operation, key, kwargs): _plain(value) for key, value in kwargs.items()}
        _check(name, operation, positional, keywords)
        inside, INSIDE.operation = INSIDE.operation, True
        held = hold_call_site()
        try:
            return operation(*positional, **keywords)  # type: ignore[arg-type]  # the same, as plain numbers
        finally:
            INSIDE.operation = inside
            release_call_site(held)

    return call


def _check(name: str, operation: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]) -> None:
    """Raise TIL217 for the first argument that the operation does not accept."""
    form = _form(operation)
    given = dict(zip(form.positional, args, strict=False)) | kwargs
    known = form.needed <= given.keys() <= form.kinds.keys()
    if form.several is not None or len(given) != len(args) + len(kwargs) or not known:
        given = _bound(name, operation, args, kwargs)
    for parameter, value in given.items():
        kind = form.kinds[parameter]
        for one in args[len(form.positional) :] if parameter == form.several else (value,):
            if not kind.test(one):
                raise mistaken(f"{name}: {parameter} has to be {kind.one}, not {_shown(one)}", *_notes(one))


def _bound(
    name: str, operation: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]
) -> dict[str, Any]:
    """Return the arguments by parameter, several values for one that takes several; TIL217 if they do not fit."""
    signature = _signature(operation)
    for keyword in kwargs:
        if keyword not in signature.parameters:
            raise mistaken(f"{name} has no argument {keyword!r}{_meant(keyword, list(signature.parameters))}")
    try:
        return signature.bind(*args, **kwargs).arguments
    except TypeError as error:
        raise mistaken(f"{name}: {error}; it is {name}{_written(signature)}") from None


@attrs.frozen
class _Form:
    """The parameters of an operation.

    Attributes:
        kinds: The kind of each.
        positional: Those that take one positional argument, in order.
        needed: Those without a default.
        several: The one that takes all other positional arguments.
    """

    kinds: Mapping[str, _Kind]
    positional: tuple[str, ...]
    needed: frozenset[str]
    several: str | None


@functools.cache
def _form(operation: Callable[..., object]) -> _Form:
    parameters = _signature(operation).parameters
    several = next((name for name, each in parameters.items() if each.kind is each.VAR_POSITIONAL), None)
    return _Form(
        {name: _kind(each.annotation) for name, each in parameters.items()},
        tuple(name for name, each in parameters.items() if each.kind is each.POSITIONAL_OR_KEYWORD),
        frozenset(name for name, each in parameters.items() if each.default is each.empty),
        several,
    )


_signature = functools.cache(inspect.signature)


def _here(name: str, operation: Callable[..., object], keyword: str, given: Mapping[str, object]) -> str:
    """Return the name here of an option that is given by another library's name."""
    known = _signature(operation).parameters
    if keyword in known or keyword not in _TAKEN:
        return keyword
    here = next((each for each in _SPELLINGS[keyword] if each in known), keyword)
    same = [each for each in given if each == here or here in _SPELLINGS.get(each, ())]
    if here != keyword and len([each for each in same if each in _TAKEN or each == here]) > 1:
        raise mistaken(f"{name} is given {here} twice, as {' and '.join(same)}; drop one")
    return here


def _written(signature: inspect.Signature) -> str:
    """Return the parameters without their annotations."""
    bare = [p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values()]
    return str(inspect.Signature(bare))


def _meant(keyword: str, known: Sequence[str]) -> str:
    """Return the advice of a message for an unknown argument."""
    here = next((name for name in _SPELLINGS.get(keyword, ()) if name in known), None)
    return nearest(keyword, known) if here is None else f"; here it is called {here}"


def _shown(value: object) -> str:
    return "an array" if isinstance(value, np.ndarray) else f"{value!r:.60}"


def _notes(value: object) -> tuple[str, ...]:
    """Return advice for an array in place of a tensor."""
    array = isinstance(value, np.ndarray)
    return ("arrays are passed to the finished function; declare an input for them",) if array else ()


def _plain(value: object) -> object:
    """Return NumPy's numbers as Python's, in sequences too."""
    if isinstance(value, np.bool_ | np.integer | np.floating):
        return value.item()
    if type(value) is list or type(value) is tuple:  # and no tuple with names
        return type(value)(map(_plain, value))
    return tuple(value) if isinstance(value, range) else value


@functools.cache
def _kind(annotation: str) -> _Kind:
    return _kind_of(ast.parse(annotation, mode="eval").body)


def _kind_of(node: ast.expr) -> _Kind:
    """Return the kind of values that part of an annotation allows; unknown parts allow everything."""
    match node:
        case ast.Constant(value=None):
            return _KINDS["None"]
        case ast.Name(id=name):
            return _kind(_ALIASES[name]) if name in _ALIASES else _KINDS.get(name, _ANYTHING)
        case ast.BinOp(left=left, right=right):
            return _either(_kind_of(left), _kind_of(right))
        case ast.Subscript(value=ast.Name(id="Sequence"), slice=element):
            inner = _kind_of(element)
            return _single(
                lambda value: isinstance(value, list | tuple) and all(map(inner.test, value)),
                f"a sequence of {inner.many}",
                f"sequences of {inner.many}",
            )
        case ast.Subscript(value=ast.Name(id="tuple"), slice=ast.Tuple(elts=[*elements])):
            parts = [_kind_of(element) for element in elements]
            if _ANYTHING in parts:
                return _ANYTHING
            return _single(lambda value: _matches(value, parts), f"{len(parts)} {parts[0].many}", "tuples")
        case _:
            return _ANYTHING


def _either(left: _Kind, right: _Kind) -> _Kind:
    if _ANYTHING in (left, right):
        return _ANYTHING
    return _Kind(
        lambda value: left.test(value) or right.test(value),
        (*left.singular, *right.singular),
        (*left.plural, *right.plural),
    )


def _matches(value: object, parts: Sequence[_Kind]) -> bool:
    """Tell whether a sequence has one element of each kind."""
    if not isinstance(value, list | tuple) or len(value) != len(parts):
        return False
    return all(part.test(element) for part, element in zip(parts, value, strict=True))


_ANYTHING: Final = _single(lambda _: True, "anything", "anything")
