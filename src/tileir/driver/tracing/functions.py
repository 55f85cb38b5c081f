"""Traced Python functions: called with arrays they are compiled, with tensors they are recorded."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
import re
import sys
import threading
import types
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Generic, ParamSpec, TypeVar, overload

import numpy as np

from tileir.core import (
    ArgumentError,
    ArrayValue,
    DType,
    Target,
    TileError,
    attrs,
    call_site,
    called_at,
    is_inside,
    nearest,
    shortened,
)
from tileir.core.text.markup import preformatted
from tileir.driver.calls.arguments import is_number, split
from tileir.driver.jit import Jit
from tileir.driver.targets import TargetChoice
from tileir.driver.tracing.trace import Parameter, Size, Traced, bound, calling, named_call, signature_of, traced
from tileir.driver.tracing.trees import LEAF, Structure, flattened, is_flat, paths, rebuilt
from tileir.runtime import Context, DeviceInfo, Options
from tileir.tile import ir
from tileir.tile.building.inlining import Inlining
from tileir.tile.building.recording import Recorded
from tileir.tile.building.tensors import constant_of, recorder_of
from tileir.tile.ir import Function
from tileir.typed.ir import TensorType

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)

_MOST_SHOWN: Final = 4  # programs of one function in a notebook
_MOST_FUNCTIONS: Final = 256  # functions whose traces are kept for equal ones
_TRACES: Final[OrderedDict[Hashable, dict[Hashable, list[Traced]]]] = OrderedDict()
_LOCK: Final = threading.RLock()


@attrs.frozen
class _Call:
    """Decomposed arguments of a call."""

    structures: Mapping[str, Structure]
    leaves: list[Any]
    statics: Mapping[str, Any]


@attrs.define(eq=False, repr=False, slots=False)
class PythonFunction(Generic[P, R_co]):
    """Python function that is traced once for each dtype, rank and structure of its arguments.

    Called with arrays it is compiled for them, like :func:`tileir.jit`. Called with tensors, inside another traced
    function or with a :class:`tileir.FunctionBuilder`, it becomes part of that.

    Attributes:
        python: The function.
        static: Names of parameters that are Python values, which are compared by ``==`` and type.
        declared: Declarations of arguments, by name.
    """

    python: Callable[P, R_co]
    static: frozenset[str] = frozenset()
    declared: Mapping[str, Parameter] = attrs.field(factory=dict)
    device: str | DeviceInfo | None = None
    options: Options | None = None
    target: Target | TargetChoice | None = None
    _context: Context | None = None
    _jits: dict[int, tuple[Traced, Jit]] = attrs.field(factory=dict, init=False)
    _plain: Jit | None = attrs.field(default=None, init=False)
    _traces: dict[Hashable, list[Traced]] | None = attrs.field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        functools.update_wrapper(self, self.python)

    def __repr__(self) -> str:
        return f"<tileir function {self._signature()}>"

    def _signature(self) -> str:
        """Return the call signature of the Python function."""
        name = getattr(self.python, "__name__", str(self.python))
        with contextlib.suppress(TypeError, ValueError):
            return f"{name}{inspect.signature(self.python)}"
        return name

    def _repr_html_(self) -> str:
        """Return HTML for notebooks: its call signature, and its known programs."""
        traces = [each.function for entries in (self._traces or {}).values() for each in entries]
        if not traces and self.declared:
            with contextlib.suppress(ArgumentError):  # some arguments are not declared
                traces = [self.trace()]
        return preformatted(self._signature()) + "".join(program._repr_html_() for program in traces[-_MOST_SHOWN:])

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __reduce__(self) -> str | tuple[Any, ...]:
        """Pickle the Python function by its name, like Python; a decorated one by its own."""
        name = getattr(self, "__qualname__", "")
        found: Any = sys.modules.get(getattr(self, "__module__", None) or "")
        for part in name.split("."):
            found = getattr(found, part, None)
        if found is self:
            return name
        return _again, (self.python, self.static, dict(self.declared), self.device, self.options, self.target)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Compute results for arrays, in the structure in which the function returns tensors."""
        plain = self._plain
        if plain is not None and not kwargs and plain._latest:
            found: R_co | None = plain._latest[0].call(args, None, plain._context, self.options)
            if found is not None:
                return found
        try:
            result: R_co = self._called(args, kwargs)
            return result
        except TileError as error:
            raise shortened(error)  # noqa: B904  it is the same error

    def _called(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        call = self._taken_apart(args, kwargs)
        if any(isinstance(leaf, Recorded) for leaf in call.leaves):
            tensors = self._as_declared(call)
            with called_at(call_site()):
                return calling(call.structures, call.statics)(self.python, tensors)
        made, jit = self._jit(call)
        results = jit(*call.leaves)
        if not kwargs and len(args) == len(call.leaves) and not self.static and is_flat(made.results):
            if all(structure == LEAF for structure in call.structures.values()):
                self._plain = jit
            return results
        leaves = results if len(made.function.outputs) > 1 else (results,)
        return rebuilt(made.results, iter(leaves))

    def _as_declared(self, call: _Call) -> list[Any]:
        """Return tensors that are checked against declarations: sizes with one name are equal in all of them."""
        names = self._named(call)
        if not any(name in self.declared for name in names):
            return call.leaves
        recorder = recorder_of(tuple(call.leaves))
        inlining = Inlining(recorder)
        found = []
        for name, leaf in zip(names, call.leaves, strict=True):
            declared = self.declared.get(name)
            tensor = constant_of(recorder, leaf) if isinstance(leaf, np.ndarray) else leaf
            if declared is not None:
                dims = tuple(_dimension(size, axis) for axis, size in enumerate(declared.sizes))
                dtype = declared.dtype if isinstance(declared.dtype, DType) else None
                inlining.bind(ir.Input(name, dims, dtype), tensor)
                tensor = inlining.tensor(name)
            found.append(tensor)
        return found

    def _named(self, call: _Call) -> list[str]:
        return [name for name, structure in call.structures.items() for _ in range(_count(structure))]

    def _taken_apart(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> _Call:
        values = bound(self.python, args, kwargs)
        statics = {name: value for name, value in values.items() if name in self.static}
        leaves: list[Any] = []
        structures = {name: flattened(value, leaves) for name, value in values.items() if name not in self.static}
        return _Call(structures, leaves, statics)

    def _jit(self, call: _Call) -> tuple[Traced, Jit]:
        made = self._traced(call, self._parameters(call), _shapes(call.leaves))
        found = self._jits.get(id(made))
        if found is None:
            from tileir.driver.jit import jit

            program = jit(made.function, self.device, context=self._context, options=self.options, target=self.target)
            found = self._jits[id(made)] = made, program
        return found

    def _parameters(self, call: _Call) -> tuple[Parameter, ...]:
        return tuple(
            _parameter(name, leaf, self.declared.get(name))
            for name, leaf in zip(self._named(call), call.leaves, strict=True)
        )

    def _traced(self, call: _Call, parameters: tuple[Parameter, ...], shapes: list[tuple[int, ...]] | None) -> Traced:
        try:
            statics = tuple((name, call.statics[name], _kind(call.statics[name])) for name in sorted(call.statics))
            key = (tuple(call.structures.items()), parameters, statics)
            hash(key)
        except TypeError:
            wrong = next((name for name, value in call.statics.items() if not _is_hashable(value)), "")
            message = f"static argument {wrong!r} has no hash, so that calls cannot be told apart; pass a tuple, say"
            raise ArgumentError.of("TIL707", message) from None
        with _LOCK:
            if self._traces is None:
                self._traces = _kept_for(self.python)
            entries = self._traces.setdefault(key, [])
            for entry in entries:
                if entry.holds(call.leaves):
                    return entry
            made = traced(self.python, call.structures, parameters, calling(call.structures, call.statics), shapes)
            entries.append(made)
            return made

    def traced_for(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Traced, _Call]:
        """Return the trace for these arguments, and their decomposition."""
        call = self._taken_apart(args, kwargs)
        return self.trace_of(call), call

    def trace(self, *args: Any, **kwargs: Any) -> Function:
        """Return the Tile function for arguments: arrays, :class:`tileir.TensorType`, or texts as "f32[N, 3]".

        Without arguments, the declaration or the annotations of the function apply.
        """
        if not args and not kwargs:
            missing = [name for name in _required(self.python) if name not in self.declared and name not in self.static]
            if missing:
                message = (
                    f"nothing says what {missing[0]!r} of {self.python.__name__}() is: pass arguments, or declare it,"
                    f' as in {missing[0]}: "f32[N, 3]"'
                )
                raise ArgumentError.of("TIL707", message)
            kwargs = dict(self.declared)
        return self.trace_of(self.described(args, kwargs)).function

    def described(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> _Call:
        """Return decomposed arguments, with texts such as "f32[N, 3]" replaced by their declarations."""
        call = self._taken_apart(args, kwargs)
        return attrs.evolve(call, leaves=[described(leaf) if isinstance(leaf, str) else leaf for leaf in call.leaves])

    def trace_of(self, call: _Call) -> Traced:
        """Return the trace for decomposed arguments, at their shapes if all of them have one."""
        symbolic = any(isinstance(leaf, Parameter) for leaf in call.leaves)
        return self._traced(call, self._parameters(call), None if symbolic else _shapes(call.leaves))

    def submit(self, *args: Any, **kwargs: Any) -> Any:
        """Start a call, and return before it is done; see :meth:`tileir.Executable.submit`."""
        call = self._taken_apart(args, kwargs)
        return self._jit(call)[1].submit(*call.leaves)

    def specialise(self, *args: Any, **kwargs: Any) -> Any:
        """Return the executable for these arguments; see :meth:`tileir.Jit.specialise`."""
        call = self._taken_apart(args, kwargs)
        return self._jit(call)[1].specialise(*call.leaves)


def _again(
    python: Any, static: frozenset[str], declared: Mapping[str, Parameter], device: Any, options: Any, target: Any
) -> PythonFunction[Any, Any]:
    return PythonFunction(python, static, declared, device, options, target)


def _is_hashable(value: object) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _dimension(size: Size, axis: int) -> ir.Size:
    """Return a declared size as one of an input; an unnamed size is arbitrary."""
    return ir.IntLiteral(size) if isinstance(size, int) else ir.Name(size or f"\n{axis}")


def _count(structure: Structure) -> int:
    return sum(1 for _ in paths(structure))


def _shapes(leaves: Sequence[Any]) -> list[tuple[int, ...]] | None:
    return [tuple(getattr(leaf, "shape", ())) for leaf in leaves]


def _parameter(name: str, leaf: Any, declared: Parameter | None) -> Parameter:
    """Return the known properties of an argument."""
    if isinstance(leaf, Parameter):
        return leaf
    if isinstance(leaf, TensorType):
        return Parameter(leaf.dtype, leaf.shape)
    if is_number(leaf):
        kind = DType.BOOL if isinstance(leaf, bool) else "float" if isinstance(leaf, float) else "integer"
        found = Parameter(kind, ())
    elif hasattr(leaf, "shape") and hasattr(leaf, "dtype"):
        found = Parameter(_element_type(leaf), (None,) * len(leaf.shape))
    else:
        message = (
            f"argument {name!r} is a {type(leaf).__name__}, which no tensor can hold; declare it as a value of Python"
            f" with static=({name!r},)"
        )
        raise ArgumentError.of("TIL707", message)
    return found if declared is None else checked(name, found, leaf, declared)


def checked(name: str, found: Parameter, leaf: Any, declared: Parameter) -> Parameter:
    """Return a declaration after checking that an argument fits it.

    Raises:
        ArgumentError: TIL713, it has another rank, size or dtype.
    """
    fits = len(found.sizes) == len(declared.sizes) and all(
        not isinstance(size, int) or leaf.shape[axis] == size for axis, size in enumerate(declared.sizes)
    )
    if not fits or (declared.dtype is not None and isinstance(found.dtype, DType) and found.dtype != declared.dtype):
        kind = "a number" if not isinstance(found.dtype, DType) else f"{found.dtype.value}{list(leaf.shape)}"
        raise ArgumentError.of("TIL713", f"{name!r} is declared as {spelt(declared)}, and is given {kind}")
    return declared if declared.dtype is not None else attrs.evolve(declared, dtype=found.dtype)


def spelt(parameter: Parameter) -> str:
    """Return a declaration as text."""
    dtype = parameter.dtype.value if isinstance(parameter.dtype, DType) else "any dtype"
    return f"{dtype}[{', '.join(str(size) for size in parameter.sizes)}]"


def _element_type(leaf: Any) -> DType | None:
    if isinstance(leaf.dtype, DType):
        return leaf.dtype
    try:
        return (
            DType.of(leaf.dtype)
            if isinstance(leaf.dtype, np.dtype)
            else DType.of(np.dtype(str(leaf.dtype).split(".")[-1]))
        )
    except TypeError:
        return DType.BF16 if str(leaf.dtype).endswith("bfloat16") else None


_DESCRIPTION: Final = re.compile(r"\s*(\w+)\s*(?:\[([^\]]*)\])?\s*")


def described(text: str) -> Parameter:
    """Return the declaration of a text such as ``"f32[N, 3]"``.

    Raises:
        ArgumentError: TIL707, it is not a declaration.
    """
    match = _DESCRIPTION.fullmatch(text)
    dtypes = {each.value: each for each in DType}
    if match is None or match[1] not in dtypes:
        raise ArgumentError.of("TIL707", f"{text!r} describes no tensor; write a dtype and sizes, as in 'f32[N, 3]'")
    parts = [part.strip() for part in (match[2] or "").split(",") if part.strip()]
    sizes: list[Size] = [int(part) if part.isdecimal() else part for part in parts]
    return Parameter(dtypes[match[1]], tuple(sizes))


def annotated(python: Callable[..., Any]) -> dict[str, Parameter]:
    """Return the declarations by annotations such as ``x: "f32[N, 3]"``."""
    found = {}
    for name, annotation in getattr(python, "__annotations__", {}).items():
        if isinstance(annotation, str) and name != "return" and "[" in annotation.strip("'\""):
            text = annotation.strip("'\"")
            if _DESCRIPTION.fullmatch(text) and text.split("[")[0].strip() in {each.value for each in DType}:
                found[name] = described(text)
    return found


def _kept_for(python: Callable[..., Any]) -> dict[Hashable, list[Traced]]:
    """Return the traces of equal functions: those with one code that close over equal values."""
    key = _identity(python)
    found = _TRACES.pop(key, None)
    if found is None:
        found = {}
    _TRACES[key] = found
    while len(_TRACES) > _MOST_FUNCTIONS:
        _TRACES.popitem(last=False)
    return found


def _kind(value: Any) -> Hashable:
    """Return a key that distinguishes equal Python values such as 1 and True, or 0.0 and -0.0, also in containers."""
    if isinstance(value, float | complex | np.inexact):
        return type(value), repr(value)
    if isinstance(value, tuple):
        return type(value), tuple(map(_kind, value))
    if isinstance(value, frozenset):
        return type(value), frozenset((each, _kind(each)) for each in value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return type(value), tuple(_kind(getattr(value, field.name)) for field in dataclasses.fields(value))
    kind: type = type(value)
    return kind


_CONSTANT: Final = (type, types.ModuleType, types.BuiltinFunctionType, np.ufunc, type(np.sum))
"""Classes of objects that only equal themselves; attributes of classes and modules count if functions read them."""


def _is_of_a_library(value: Any) -> bool:
    """Return whether a function, class or module is from Python or an installed package, and so does not change."""
    if isinstance(value, types.FunctionType):
        file = value.__code__.co_filename
    else:
        name = value.__name__ if isinstance(value, types.ModuleType) else value.__module__
        if name in sys.builtin_module_names:
            return True
        file = getattr(sys.modules.get(name), "__file__", None) or ""
    return is_inside(file) or "-packages" in file


def _identity(value: Any, seen: dict[int, tuple[int, Any]] | None = None) -> Hashable:
    """Return an identity of a value that functions read; for arrays by their elements.

    A function is identified by its code, its closure, its defaults, and the globals that it names, with their current
    values. Other objects, whose attributes may change, never equal their former state.
    """
    if isinstance(value, np.ndarray) and value.dtype != object:
        return (
            ArrayValue.of(value)
            if DType.of(value.dtype) is not None
            else (value.dtype.str, value.shape, value.tobytes())
        )
    if isinstance(value, int | float | complex | str | bytes | None | DType | np.generic):
        return type(value), repr(value)
    if isinstance(value, _CONSTANT):
        return _ByIdentity(value)
    seen = {} if seen is None else seen
    if id(value) in seen:  # recursive, or occurs twice
        return "again", seen[id(value)][0]
    seen[id(value)] = len(seen), value
    parts: Iterable[Any]
    kind: Hashable
    if isinstance(value, PythonFunction):
        kind, parts = (PythonFunction, value.static), (value.python,)
    elif isinstance(value, types.FunctionType):
        kind, parts = (value.__code__, id(value.__globals__)), _read_by(value)
    elif isinstance(value, types.MethodType):
        kind, parts = types.MethodType, (value.__func__, value.__self__)
    elif isinstance(value, functools.partial):
        kind, parts = functools.partial, (value.func, value.args, value.keywords)
    elif isinstance(value, tuple | list):
        kind, parts = type(value), value
    elif isinstance(value, dict):
        kind, parts = dict, [part for item in value.items() for part in item]
    else:
        return _ByIdentity(object())
    return kind, tuple([_identity(part, seen) for part in parts])


def _read_by(function: types.FunctionType) -> list[Any]:
    """Return closure, defaults and globals of a function, and attributes of modules and classes that it may read.

    Globals of library functions, which do not change, are omitted.
    """
    cells = [cell.cell_contents for cell in function.__closure__ or () if _is_filled(cell)]
    defaults = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).items()]
    if _is_of_a_library(function):
        return [*cells, *defaults]
    names = dict.fromkeys(_names_of(function.__code__))
    read = [*cells, *defaults, *(function.__globals__[name] for name in names if name in function.__globals__)]
    places: set[int] = set()
    for value in read:  # which grows by attributes, and by those of these
        if isinstance(value, type | types.ModuleType) and id(value) not in places and not _is_of_a_library(value):
            places.add(id(value))
            read.extend(vars(value)[name] for name in names if name in vars(value))
    return read


def _names_of(code: types.CodeType) -> Iterator[str]:
    """Yield possible names of globals in code and in that of nested functions."""
    yield from code.co_names
    for each in code.co_consts:
        if isinstance(each, types.CodeType):
            yield from _names_of(each)


@attrs.frozen(eq=False)
class _ByIdentity:
    """Object that only equals itself, kept alive so that its id is not reused."""

    value: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ByIdentity) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


def _is_filled(cell: types.CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018  it may be empty
    except ValueError:
        return False
    return True


@overload
def function(python: Callable[P, R_co]) -> PythonFunction[P, R_co]: ...
@overload
def function(
    python: None = None, *, static: str | Sequence[str] = (), **declarations: str | TensorType
) -> Callable[[Callable[P, R_co]], PythonFunction[P, R_co]]: ...
def function(
    python: Callable[..., Any] | None = None, *, static: str | Sequence[str] = (), **declarations: str | TensorType
) -> Any:
    """Return a Python function as a program: ``@tileir.function`` or ``@tileir.function(x="f32[N, 3]")``.

    With arguments declared here or by annotations, as in ``def f(x: "f32[N, 3]")``, it is accepted wherever a program
    is; calls take arrays, like those of :func:`tileir.jit`, and tensors.

    Args:
        python: The function.
        static: Parameters that are Python values.
        declarations: Dtypes and sizes of arguments, by name; a size is a number, or a name that means one size.

    Raises:
        ArgumentError: TIL707, a declaration is invalid; TIL705, the function has no parameter with this name.
    """
    if python is None:
        return functools.partial(_declared, static=static, declarations=declarations)
    return _declared(python, static, declarations)


def _declared(
    python: Callable[..., Any], static: str | Sequence[str], declarations: Mapping[str, str | TensorType]
) -> PythonFunction[Any, Any]:
    _check_names(python, (*declarations, *_words(static)))
    said = {
        name: described(each) if isinstance(each, str) else _parameter(name, each, None)
        for name, each in declarations.items()
    }
    return PythonFunction(python, _words(static), {**annotated(python), **said})


def _check_names(python: Callable[..., Any], names: Iterable[str]) -> None:
    """Refuse unknown parameter names of a function; builtins without a signature may have any."""
    try:
        known = list(inspect.signature(python).parameters)
    except ValueError:
        return
    for name in names:
        if name not in known:
            message = f"{named_call(python)} has no parameter {name!r}{nearest(name, known)}"
            raise ArgumentError.of("TIL705", message)


def jitted(
    python: Callable[P, R_co],
    static: str | Sequence[str],
    device: str | DeviceInfo | None,
    context: Context,
    options: Options | None,
    target: Target | TargetChoice | None,
) -> PythonFunction[P, R_co]:
    """Return a Python function that compiles itself; see :func:`tileir.jit`."""
    _check_names(python.python if isinstance(python, PythonFunction) else python, _words(static))
    if isinstance(python, PythonFunction):
        own = python
        return PythonFunction(own.python, own.static | _words(static), own.declared, device, options, target, context)
    return PythonFunction(python, _words(static), annotated(python), device, options, target, context)


def _required(python: Callable[..., Any]) -> list[str]:
    """Return the parameters without default."""
    parameters = signature_of(python).parameters.values()
    kinds = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    return [each.name for each in parameters if each.default is each.empty and each.kind not in kinds]


def _words(names: str | Sequence[str]) -> frozenset[str]:
    return frozenset((names,) if isinstance(names, str) else names)


def python_function(source: Callable[..., Any]) -> PythonFunction[..., Any]:
    """Return a callable as a traced function."""
    return source if isinstance(source, PythonFunction) else PythonFunction(source, declared=annotated(source))


def program_for(source: Callable[..., Any], arguments: Any) -> tuple[Function, Any]:
    """Return the Tile function of a Python function for arguments, and these in the order of its inputs.

    Raises:
        ArgumentError: TIL707, arguments are neither given nor declared.
    """
    function = python_function(source)
    if arguments is None:
        return function.trace(), None
    positional, named = split(arguments)
    if not positional and not named:
        return function.trace(), arguments
    call = function.described(positional, named)
    return function.trace_of(call).function, call.leaves


def evaluated(source: Callable[..., Any], arrays: Any, named: Mapping[str, Any], evaluate: Callable[..., Any]) -> Any:
    """Return the results of a Python function by the interpreter; its arguments as for :func:`tileir.evaluate`."""
    positional, by_name = ((), arrays) if isinstance(arrays, Mapping) else (arrays, {})
    args = positional if isinstance(positional, list | tuple) else (positional,)
    function = python_function(source)
    made, call = function.traced_for(args, {**by_name, **named})
    results = evaluate(made.function, call.leaves)
    return rebuilt(made.results, iter(results if len(made.function.outputs) > 1 else (results,)))
