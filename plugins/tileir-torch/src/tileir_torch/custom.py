"""PyTorch operations written in Tile, with fake tensors, gradients and ``torch.compile``: :func:`op`."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Final, TypeAlias

import torch
from attrs import field, frozen
from torch.library import CustomOpDef, custom_op

import tileir
from tileir import ArgumentError, Diagnostic, Function, FunctionBuilder, TileError
from tileir.tile.builder import Dim
from tileir.tile.builder_functions import vjp
from tileir.tile.checks.integers import sizing_inputs
from tileir.tile.ir import Binary, BinaryOperator, Call, Expr, Input, IntLiteral, Name
from tileir_torch.dtypes import DTYPES, TORCH

_NAME: Final = re.compile(r"[A-Za-z_]\w*::[A-Za-z_]\w*", re.ASCII)
_TAKEN: Final = frozenset({"aten", "prim", "prims", "tileir"})
_ANY_FLOAT: Final = 0.5
"""Placeholder of an unknown number: dtypes and sizes do not depend on its value."""

Type: TypeAlias = tuple[torch.dtype, tuple[Any, ...]]
"""Dtype and sizes, which may be symbols."""

PROGRAMS: Final[dict[torch._ops.OpOverload, Function]] = {}
"""Programs of operations that :func:`op` has registered."""


def op(name: str, source: str | Path | Function, *, numbers: str | Sequence[str] = ()) -> CustomOpDef:
    """Register a program as an operation of PyTorch, which runs on the device of its tensors: the host, or a card.

    Each input is a tensor argument of the operation, and an integer from which sizes are computed an ``int``; results
    are new tensors. Their dtypes and sizes are inferred without running, also for symbolic sizes, so ``torch.compile``
    and ``torch.export`` support calls. Gradients are those of Tile, of any order.

    Args:
        name: A namespace and a name, such as ``"mylib::gelu_bias"``; ``torch.ops.mylib.gelu_bias`` is the operation,
            too. It replaces an operation of this name that was registered before.
        source: A Tile function, its text, or its file.
        numbers: Inputs that are Python numbers, ``float`` arguments without gradients, which adapt to the dtypes of
            other operands.

    Returns:
        The operation, which is called with the inputs in declared order.

    Raises:
        TileError: The program is wrong. Calls raise it if dtypes or sizes do not fit.
        ArgumentError: TIL707, the name is invalid, or belongs to others; TIL710, ``numbers`` names no input; TIL711, it
            names one with axes, or one from which sizes are computed; TIL712, the source is of another stage.
    """
    if _NAME.fullmatch(str(name)) is None:
        told = f"an operation is called by a namespace and a name, as in 'mylib::gelu_bias', not {str(name)!r:.80}"
        raise ArgumentError.of("TIL707", told)
    if (namespace := name.partition("::")[0]) in _TAKEN:
        raise ArgumentError.of("TIL707", f"the namespace {namespace!r} is taken; choose one of your own")
    program = _Program(_function(source), (numbers,) if isinstance(numbers, str) else tuple(numbers))
    results = ", ".join("Tensor" for _ in program.function.outputs)
    schema = f"({', '.join(program.arguments())}) -> {f'({results})' if ', ' in results else results}"
    made = custom_op(name, lambda *values: _unpacked(program.run(values)), mutates_args=(), schema=schema)
    made.register_fake(lambda *values: _unpacked(program.fake(values)))

    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:  # noqa: ARG001  PyTorch passes it
        ctx.save_for_backward(*(value for value in inputs if isinstance(value, torch.Tensor)))
        ctx.others = [None if isinstance(value, torch.Tensor) else value for value in inputs]

    def backward(ctx: Any, *arriving: torch.Tensor | None) -> Any:
        saved = iter(ctx.saved_tensors)
        values = [next(saved) if other is None else other for other in ctx.others]
        return tuple(program.derivatives(values, ctx.needs_input_grad, arriving))

    made.register_autograd(backward, setup_context=setup_context)
    PROGRAMS[getattr(torch.ops, namespace).__getattr__(name.partition("::")[2]).default] = program.function
    return made


def _function(source: str | Path | Function) -> Function:
    found = tileir.jit(source).function
    if not isinstance(found, Function):
        raise ArgumentError.of("TIL712", f"an operation is made of a Tile function, not of a {type(found).__name__}")
    return found


def _unpacked(results: list[torch.Tensor]) -> Any:
    return results[0] if len(results) == 1 else tuple(results)


@frozen(eq=False, slots=False)
class _Program:
    """Tile function on PyTorch tensors.

    Attributes:
        function: The function.
        numbers: Inputs that are Python floats.
    """

    function: Function
    numbers: tuple[str, ...]
    _symbolic: dict[Any, list[tuple[torch.dtype, tuple[Dim, ...]]] | None] = field(factory=dict, init=False)
    _pulled: dict[Any, str] = field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        inputs, sizing = {each.name: each for each in self.function.inputs}, sizing_inputs(self.function)
        faults = [Diagnostic("TIL710", f"there is no input {name!r}") for name in self.numbers if name not in inputs]
        for name in (each for each in self.numbers if each in inputs):
            if name in sizing:
                faults.append(Diagnostic("TIL711", f"sizes are computed from {name!r}: it is an int already"))
            elif inputs[name].dims:
                faults.append(Diagnostic("TIL711", f"{name!r} has axes, so it is no number", inputs[name].span))
        if faults:
            raise ArgumentError(faults)

    @cached_property
    def words(self) -> tuple[str, ...]:
        """Return PyTorch's names of the argument types."""
        known = {**dict.fromkeys(self.numbers, "float"), **dict.fromkeys(sizing_inputs(self.function), "SymInt")}
        return tuple(known.get(each.name, "Tensor") for each in self.function.inputs)

    def arguments(self) -> Iterator[str]:
        """Yield the argument declarations for PyTorch, renamed if it does not support a name."""
        taken = {each.name for each in self.function.inputs}
        for word, each in zip(self.words, self.function.inputs, strict=True):
            name = each.name
            if keyword.iskeyword(name) or not (name.isascii() and name.isidentifier()):
                name = re.sub(r"\W", "_", f"arg_{name}", flags=re.ASCII)
                while name in taken:
                    name += "_"
                taken.add(name)
            yield f"{word} {name}"

    @cached_property
    def _there(self) -> tileir.Jit[Any]:
        return tileir.jit(self.function)

    @cached_property
    def _here(self) -> tileir.Jit[Any]:
        """Function for tensors in host memory, which a card would have to copy."""
        return tileir.jit(self.function, self._host)

    @cached_property
    def _host(self) -> tileir.DeviceInfo | None:
        return next((each for each in tileir.devices() if each.backend == "llvm"), None)

    def run(self, values: Sequence[Any]) -> list[torch.Tensor]:
        """Return the results for tensors and numbers."""
        given = [value.contiguous() if isinstance(value, torch.Tensor) else value for value in values]
        device = _device(values)
        results = [torch.empty(sizes, dtype=dtype, device=device) for dtype, sizes in self._types(values)]
        callee = self._here if device.type == "cpu" else self._there
        callee(*given, out=results if len(results) > 1 else results[0])
        return results

    def fake(self, values: Sequence[Any]) -> list[torch.Tensor]:
        """Return tensors like the results, without computing elements."""
        return [torch.empty(sizes, dtype=dtype, device=_device(values)) for dtype, sizes in self._types(values)]

    def _types(self, values: Sequence[Any]) -> Sequence[Type]:
        """Return the dtypes and sizes of results.

        Raises:
            TileError: The program does not take these dtypes and sizes.

        """
        kinds = tuple((v.dtype, tuple(v.shape)) if isinstance(v, torch.Tensor) else v for v in values)
        sizes = (size for kind in kinds for size in (kind[1] if isinstance(kind, tuple) else (kind,)))
        is_static = not any(isinstance(size, torch.SymInt | torch.SymFloat) for size in sizes)
        return self._known(kinds) if is_static else self._found(kinds)

    @cached_property
    def _known(self) -> Any:
        return lru_cache(maxsize=256)(self._found)

    def _found(self, kinds: Sequence[Any]) -> Sequence[Type]:
        ranks = tuple((kind[0], len(kind[1])) if isinstance(kind, tuple) else None for kind in kinds)
        if ranks not in self._symbolic:
            _, results = self._recorded(FunctionBuilder(), ranks, _ANY_FLOAT)
            try:
                self._symbolic[ranks] = [(TORCH[each.dtype], each.dims) for each in results]
            except TileError:  # only compiling reports a wrong dtype or rank
                self._symbolic[ranks] = None
        sizes = self._sizes(kinds)
        known = self._symbolic[ranks]
        if known is None:
            arguments = [(DTYPES[k[0]], tuple(map(int, k[1]))) if isinstance(k, tuple) else k for k in kinds]
            types = tileir.compile(self.function, arguments, device=self._host).result_types.values()
            return [(TORCH[each.dtype], each.shape) for each in types]
        return [(dtype, tuple(_size(dim, sizes) for dim in dims)) for dtype, dims in known]

    def _sizes(self, kinds: Sequence[Any]) -> dict[str, Any]:
        """Return the sizes of all dimensions and the values of integers, by name."""
        sizes: dict[str, Any] = {}
        for parameter, kind in zip(self.function.inputs, kinds, strict=True):
            if not isinstance(kind, tuple):
                sizes[parameter.name] = kind
                continue
            for axis, size in enumerate(kind[1]):
                dim = Name(_axis(parameter.name, axis)) if parameter.dims is None else parameter.dims[axis]
                known = dim.value if isinstance(dim, IntLiteral) else sizes.setdefault(dim.name, size)
                if known != size:
                    told = f"axis {axis} of its argument is {size} long, and not {known}"
                    raise ArgumentError.of("TIL304", f"input {parameter.name!r}: {told}", parameter.span)
        return sizes

    def _recorded(
        self, builder: FunctionBuilder, ranks: Sequence[tuple[torch.dtype, int] | None], number: float | None = None
    ) -> tuple[list[Any], tuple[Any, ...]]:
        """Return a builder's inputs for tensors with these dtypes and ranks, and the results.

        Args:
            builder: The builder.
            ranks: Dtypes and ranks; None for numbers.
            number: A number for all of them; by default they are inputs too, without dtype.
        """
        inputs: list[Any] = []
        for parameter, rank, word in zip(self.function.inputs, ranks, self.words, strict=True):
            if word == "SymInt":
                inputs.append(builder.integer(parameter.name))
            elif rank is None:
                inputs.append(builder.scalar(parameter.name) if number is None else number)
            else:
                inputs.append(_input(builder, parameter, *rank))
        results = self.function(*inputs)
        return inputs, results if isinstance(results, tuple) else (results,)

    def derivatives(
        self, values: Sequence[Any], needed: Sequence[bool], arriving: Sequence[torch.Tensor | None]
    ) -> Iterator[torch.Tensor | None]:
        """Yield the gradient by each argument, None if it is not needed or there is none.

        Args:
            values: The arguments.
            needed: Which gradients are needed.
            arriving: Gradients by the results; None for zeros.
        """
        wrt = [at for at, value in enumerate(values) if needed[at] and _is_float(value)]
        cotangents = {at: each for at, each in enumerate(arriving) if each is not None and _is_float(each)}
        if not wrt or not cotangents:
            yield from (None for _ in values)
            return
        text = self._pullback(values, tuple(wrt), cotangents)
        tensors = [value for value in values if isinstance(value, torch.Tensor)]
        integers = [v for v, word in zip(values, self.words, strict=True) if word == "SymInt"]
        floats = [v for v, word in zip(values, self.words, strict=True) if word == "float"]
        found = iter(_call(text, ",".join(self.numbers), [*tensors, *cotangents.values()], integers, floats))
        yield from (next(found) if at in wrt else None for at in range(len(values)))

    def _pullback(self, values: Sequence[Any], wrt: tuple[int, ...], cotangents: Mapping[int, torch.Tensor]) -> str:
        """Return the text of the function from arguments and cotangents to gradients."""
        ranks = tuple((v.dtype, v.ndim) if isinstance(v, torch.Tensor) else None for v in values)
        key = ranks, wrt, tuple((at, each.ndim) for at, each in cotangents.items())
        if key not in self._pulled:
            builder = FunctionBuilder()
            inputs, results = self._recorded(builder, ranks)
            seeds = [self._seed(builder, at, each.ndim) for at, each in cotangents.items()]
            found = vjp([results[at] for at in cotangents], seeds, *[inputs[at] for at in wrt])
            self._pulled[key] = _spelt(builder.build(*(found if len(wrt) > 1 else (found,))))
        return self._pulled[key]

    def _seed(self, builder: FunctionBuilder, at: int, rank: int) -> Any:
        """Return an input for the cotangent of a result."""
        name, taken = f"D{at}", {each.name for each in self.function.inputs}
        while name in taken:
            name += "'"
        return builder.input(name, *(_axis(name, axis) for axis in range(rank))) if rank else builder.scalar(name)


def _input(builder: FunctionBuilder, parameter: Input, given: torch.dtype, rank: int) -> Any:
    """Return a builder's input for a tensor argument of a parameter.

    Raises:
        ArgumentError: TIL317, the dtype does not fit; TIL305, the rank.
    """
    dtype, dims = DTYPES.get(given), parameter.dims
    told = f"input {parameter.name!r}: its argument"
    if dtype is None:
        raise ArgumentError.of("TIL317", f"{told} is {given}, no dtype of Tile", parameter.span)
    if parameter.dtype is not None and parameter.dtype is not dtype:
        message = f"{told} is {given}, and not {parameter.dtype.value}; convert it"
        raise ArgumentError.of("TIL317", message, parameter.span)
    if dims is not None and len(dims) != rank:
        raise ArgumentError.of("TIL305", f"{told} has {rank} axes, and not {len(dims)}", parameter.span)
    if rank == 0:
        return builder.scalar(parameter.name, dtype)
    if dims is None:
        return builder.input(parameter.name, *(_axis(parameter.name, axis) for axis in range(rank)), dtype=dtype)
    sizes = (each.value if isinstance(each, IntLiteral) else each.name for each in dims)
    return builder.input(parameter.name, *sizes, dtype=dtype)


def _axis(name: str, axis: int) -> str:
    return f"{name}.{axis}"


def _device(values: Sequence[Any]) -> torch.device:
    return next((each.device for each in values if isinstance(each, torch.Tensor)), torch.device("cpu"))


def _is_float(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype.is_floating_point


def _spelt(function: Function) -> str:
    """Return the text of a function, or its JSON if the text cannot include its constants."""
    text = tileir.to_text(function)
    try:
        tileir.parse(text)
    except TileError:
        return tileir.to_json(function).decode()
    return text


def _size(dim: Dim, sizes: Mapping[str, Any]) -> Any:
    """Return a size, symbolic if its parts are symbols of PyTorch.

    Expressions unsupported by PyTorch's symbols are computed for their current sizes.
    """
    try:
        return _value(dim.expr, sizes)
    except KeyError:
        return dim.at({name: int(size) for name, size in sizes.items() if not isinstance(size, float)})


def _value(expr: Expr, sizes: Mapping[str, Any]) -> Any:
    """Return the value of an expression; raise KeyError if PyTorch's symbols do not support it."""
    match expr:
        case IntLiteral(value=value):
            return value
        case Name(name=name):
            return sizes[name]
        case Binary(operator=BinaryOperator.ADD, lhs=left, rhs=right):
            return _value(left, sizes) + _value(right, sizes)
        case Binary(operator=BinaryOperator.SUB, lhs=left, rhs=right):
            return _value(left, sizes) - _value(right, sizes)
        case Binary(operator=BinaryOperator.MUL, lhs=left, rhs=right):
            return _value(left, sizes) * _value(right, sizes)
        case Call(function="broadcast", arguments=(left, right)):
            first, second = _value(left, sizes), _value(right, sizes)
            if first != second and 1 not in (first, second):
                raise ArgumentError.of("TIL301", f"one size is {first} and the other {second}, neither of them 1")
            return second if first == 1 else first
        case _:
            raise KeyError(expr)


@lru_cache(maxsize=1024)
def _read(text: str, numbers: str) -> _Program:
    return _Program(_function(text), tuple(filter(None, numbers.split(","))))


def _in_order(
    text: str, numbers: str, tensors: Sequence[torch.Tensor], integers: Sequence[int], floats: Sequence[float]
) -> tuple[_Program, list[Any]]:
    """Return a program and its arguments in declared order."""
    program = _read(text, numbers)
    kinds = {"Tensor": iter(tensors), "SymInt": iter(integers), "float": iter(floats)}
    return program, [next(kinds[word]) for word in program.words]


def _called(text: str, numbers: str, tensors: Any, integers: Any, floats: Any) -> list[torch.Tensor]:
    program, values = _in_order(text, numbers, tensors, integers, floats)
    return program.run(values)


def _faked(text: str, numbers: str, tensors: Any, integers: Any, floats: Any) -> list[torch.Tensor]:
    program, values = _in_order(text, numbers, tensors, integers, floats)
    return program.fake(values)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:  # noqa: ARG001  PyTorch passes it
    text, numbers, tensors, integers, floats = inputs
    ctx.save_for_backward(*tensors)
    ctx.others = text, numbers, integers, floats


def _backward(ctx: Any, arriving: Sequence[torch.Tensor | None]) -> Any:
    text, numbers, integers, floats = ctx.others
    tensors = ctx.saved_tensors
    program, values = _in_order(text, numbers, tensors, integers, floats)
    needed = [each.requires_grad for each in tensors]
    wanted = iter(needed)
    in_order = [next(wanted) if word == "Tensor" else False for word in program.words]
    found = list(program.derivatives(values, in_order, arriving))
    gradients = [each for each, word in zip(found, program.words, strict=True) if word == "Tensor"]
    return None, None, gradients, None if integers else [], None if floats else []  # an empty list is one of tensors


_call: Final = custom_op(
    "tileir::call",
    _called,
    mutates_args=(),
    schema="(str program, str numbers, Tensor[] tensors, SymInt[] integers, float[] floats) -> Tensor[]",
)
"""Operation that runs a program given as text, used by gradients, so that any process knows it."""

_call.register_fake(_faked)
_call.register_autograd(_backward, setup_context=_keep)
