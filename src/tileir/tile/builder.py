"""Builder of Tile functions in Python.

>>> from tileir.tile.builder import FunctionBuilder
>>> f = FunctionBuilder()
>>> A = f.input("A", "M", "K")
>>> B = f.input("B", "K", "N")
>>> (M, K), (_, N) = A.dims, B.dims
>>> i, j, k = f.indices("i j k")
>>> C = f.tensor("C", M, N)
>>> C[i, j] += A[i, k] * B[k, j]
>>> function = f.build(C)

A contraction is written onto a declared tensor: ``C[i] += …`` sums, ``*=`` multiplies, ``C[i] >= …`` and ``C[i] <= …``
(as statements) keep the greatest and least value, and ``C[i] = …`` assigns. Operators on whole tensors, and the
functions of :mod:`tileir.tile.builder_functions`, are elementwise. A mistake raises
:class:`tileir.core.errors.TileError` at its line.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Unpack

import numpy as np

from tileir.core import (
    Aggregation,
    ArrayValue,
    DType,
    TileError,
    attrs,
    call_site,
    dtype_meant,
    fail,
    methods_at_the_call,
    placed,
)
from tileir.tile.building.assembly import assemble
from tileir.tile.building.contractions import Access, CombinedElements
from tileir.tile.building.indices import Dim, Index, Polynomial, size_of
from tileir.tile.building.recording import Recorder, check_index_name, check_tensor_name, foreign, mistake, same
from tileir.tile.building.results import ContractionOptions, Indices, Sizes, contraction, declared
from tileir.tile.building.tensors import Operand, Tensor, value_of
from tileir.tile.checks.verifier import verify
from tileir.tile.ir import Attribute, Constant, Constraint, Function, IndexName, Input, IntLiteral, Name, Output, Size

if TYPE_CHECKING:
    from tileir.core.array_value import Array

__all__ = [
    "Access",
    "CombinedElements",
    "Constraint",
    "Dim",
    "FunctionBuilder",
    "Index",
    "Operand",
    "Polynomial",
    "Tensor",
]


@methods_at_the_call
@attrs.frozen(eq=False)
class FunctionBuilder:
    """Records one function. Statements keep the order in which they were written."""

    _recorder: Recorder = attrs.field(factory=Recorder, init=False)
    _results: dict[str, Output] = attrs.field(factory=dict, init=False)  # declarations, by reference

    def input(self, name: str, *dims: str | Dim | int, dtype: DType | str | None = None) -> Tensor:
        """Declare an input: of any rank without ``dims``, else with a name or a number for each axis.

        A dimension that occurs again, here or in another input, means the same size. Without a ``dtype``, arguments may
        have any.

        Raises:
            TileError: TIL211, something is no name; TIL212, a size is negative; TIL206, there is no such dtype.
        """
        return self._input(name, tuple(self._dimension(dim) for dim in dims) if dims else None, dtype)

    def scalar(self, name: str, dtype: DType | str | None = None) -> Tensor:
        """Declare an input of rank 0."""
        return self._input(name, (), dtype)

    def result(self, tensor: Tensor, *sizes: Dim | int, dtype: DType | str | None = None) -> Tensor:
        """Declare the sizes, if any, and the dtype of a tensor, which are checked if it is a result.

        Raises:
            TileError: TIL205, it is no tensor; TIL215, something is no size; TIL206, there is no such dtype.
        """
        recorder = self._recorder
        if not isinstance(tensor, Tensor):
            raise _no_output(tensor)
        value_of(recorder, tensor)
        dims = tuple(size_of(recorder, size) for size in sizes) if sizes else None
        self._results[tensor.reference] = Output("", dims, declared_dtype(dtype), span=call_site())
        return tensor

    def integer(self, name: str) -> Dim:
        """Declare an input that is an integer of rank 0, for sizes: its value is known when the function is compiled.

        For another value the function is compiled again; :func:`tileir.jit` does so automatically.
        """
        self._input(name, ())
        return Dim(Name(name, span=call_site()), self._recorder)

    def constant(self, value: Array | np.generic | bool | int | float, name: str | None = None) -> Tensor:
        """Make an array, whose elements are copied, or a number a constant of the program.

        A number adapts to other operands, as literals do; an array keeps its dtype. The text keeps a ``name``.

        Raises:
            TileError: TIL215, this is neither an array nor a number; TIL702, no dtype of tileir has its elements.
        """
        recorder = self._recorder
        recorder.check_open()
        if isinstance(value, np.ndarray | np.generic):
            held: ArrayValue | bool | int | float = ArrayValue.of(np.asarray(value))
        elif isinstance(value, bool | int | float):
            held = value
        else:
            raise foreign(value)
        if name is not None:
            recorder.claim(name)
        span = call_site()
        constant = Constant(name or "", held, span=span, name_span=span)
        reference = recorder.record(constant, name)
        recorder.ranks[reference] = len(constant.shape)
        return Tensor(recorder, reference)

    def index(self, name: str) -> Index:
        """Make an index variable. It means something new in every contraction."""
        check_index_name(name)
        return Index(IndexName(name), self._recorder)

    def indices(self, names: str) -> tuple[Index, ...]:
        """Make index variables from names separated by blanks; equal names would be one variable.

        Raises:
            TileError: TIL211, something is no name; TIL202, a name occurs twice.
        """
        split = names.split()
        for position, name in enumerate(split):
            if name in split[:position]:
                raise mistake("TIL202", f"{name!r} stands here twice, and would be one index variable; rename one")
        return tuple(self.index(name) for name in split)

    def tensor(self, name: str, *sizes: Dim | int, default: Tensor | None = None, no_defract: bool = False) -> Tensor:
        """Declare a tensor that one contraction is to define; without ``sizes`` it has rank 0.

        Elements that the contraction leaves out are those of ``default``, else 0. ``no_defract`` keeps
        its index variables as they are written.
        """
        recorder = self._recorder
        target = declared(recorder, sizes, default, no_defract)
        recorder.claim(name)
        recorder.targets[name] = target
        recorder.ranks[name] = len(sizes)
        return Tensor(recorder, name)

    def sum(
        self, value: CombinedElements, indices: Indices, sizes: Sizes, **options: Unpack[ContractionOptions]
    ) -> Tensor:
        """Add ``value`` up into a new tensor of the given sizes, at the given output indices."""
        return contraction(self._recorder, Aggregation.SUM, value, indices, sizes, **options)

    def prod(
        self, value: CombinedElements, indices: Indices, sizes: Sizes, **options: Unpack[ContractionOptions]
    ) -> Tensor:
        """Multiply ``value`` up into a new tensor; arguments as in :meth:`sum`."""
        return contraction(self._recorder, Aggregation.PROD, value, indices, sizes, **options)

    def max(
        self, value: CombinedElements, indices: Indices, sizes: Sizes, **options: Unpack[ContractionOptions]
    ) -> Tensor:
        """Keep the greatest ``value`` in a new tensor; arguments as in :meth:`sum`."""
        return contraction(self._recorder, Aggregation.MAX, value, indices, sizes, **options)

    def min(
        self, value: CombinedElements, indices: Indices, sizes: Sizes, **options: Unpack[ContractionOptions]
    ) -> Tensor:
        """Keep the least ``value`` in a new tensor; arguments as in :meth:`sum`."""
        return contraction(self._recorder, Aggregation.MIN, value, indices, sizes, **options)

    def assign(
        self, value: CombinedElements, indices: Indices, sizes: Sizes, **options: Unpack[ContractionOptions]
    ) -> Tensor:
        """Write ``value``, at most one for each element, into a new tensor; arguments as in :meth:`sum`."""
        return contraction(self._recorder, Aggregation.ASSIGN, value, indices, sizes, **options)

    def let(self, name: str, value: Operand) -> Tensor:
        """Give an elementwise value a name that the text keeps."""
        recorder = self._recorder
        expr = value_of(recorder, value)
        recorder.check_open()
        recorder.claim(name)
        step = recorder.steps.get(value.reference) if isinstance(value, Tensor) else None
        if isinstance(value, Tensor) and step is not None and step.name is None:
            step.name = name
            return value
        return Tensor(recorder, recorder.record(expr, name))

    def attribute(self, name: str, *parameters: str) -> AbstractContextManager[None]:
        """Return a context in which every statement gets ``[[name(parameters…)]]``."""
        check_index_name(name)
        for parameter in parameters:
            check_tensor_name(parameter)
        return self._recorder.attributed(Attribute(name, parameters, span=call_site()))

    def at(self, place: str) -> AbstractContextManager[None]:
        """Return a context in which statements get a place of the caller's own, such as ``node '/layer1/conv'``.

        Errors and warnings name it instead of a line of Python, and kernels are named after it. Blanks around it are
        dropped.

        Raises:
            TileError: TIL211, it does not fit in a line.
        """
        check_tensor_name(place)
        place = place.strip()
        check_tensor_name(place)  # blanks alone are no place
        return placed(place)

    def label(self, name: str) -> AbstractContextManager[None]:
        """Return a context in which every statement is labelled ``[[pid(name)]]``."""
        return self.attribute("pid", name)

    def build(self, *outputs: Tensor, **named: Operand) -> Function:
        """Finish the function: its outputs, then those that get their names here.

        Raises:
            TileError: No output, or one that was never defined; or the builder is finished.
            VerifyError: The function breaks a rule that no single line breaks.
        """
        recorder = self._recorder
        recorder.check_open()
        results = (*outputs, *(self.let(name, value) for name, value in named.items()))
        references: list[str] = []
        for result in results:
            if not isinstance(result, Tensor):
                raise _no_output(result)
            expr = value_of(recorder, result)
            repeated = result.reference in references
            references.append(recorder.record(expr) if repeated else result.reference)
        for name, target in recorder.targets.items():
            message = f"{name!r} was declared, but no contraction defines it"
            raise fail("TIL201", message, target.span)
        function = assemble(recorder, references, call_site(), self._results)
        verify(function)
        recorder.finished = True
        return function

    def _input(self, name: str, dims: tuple[Size, ...] | None, dtype: DType | str | None = None) -> Tensor:
        recorder = self._recorder
        recorder.check_open()
        recorder.claim(name)
        declared = recorder.dtypes[name] = declared_dtype(dtype)
        recorder.inputs.append(Input(name, dims, declared, span=call_site()))
        recorder.sizes[name] = None if dims is None else tuple(Dim(dim, recorder) for dim in dims)
        if dims is not None:
            recorder.ranks[name] = len(dims)
        return Tensor(recorder, name)

    def _dimension(self, dim: str | Dim | int) -> Size:
        """Return a number, or the name of a dimension, which is new or that of another input."""
        recorder = self._recorder
        if isinstance(dim, Dim):
            same(recorder, dim.recorder)
            if isinstance(dim.expr, IntLiteral):
                return dim.expr
            if not isinstance(dim.expr, Name) or dim.expr.name not in recorder.dims:
                raise mistake("TIL215", "a dimension of an input is a name, not arithmetic")
            return dim.expr
        if isinstance(dim, int | np.integer) and not isinstance(dim, bool):
            if dim < 0:
                raise mistake("TIL212", f"{dim} is no size, which is 0 or more")
            return IntLiteral(int(dim), span=call_site())
        check_tensor_name(dim)
        name = str(dim)
        if name not in recorder.dims:
            recorder.claim(name)
            recorder.dims[name] = None
        return Name(name, span=call_site())


def declared_dtype(dtype: DType | str | None) -> DType | None:
    """Return a dtype by itself or its name.

    Raises:
        TileError: TIL206, there is none of that name.
    """
    try:
        return None if dtype is None else DType(dtype)
    except ValueError:
        raise mistake("TIL206", f"there is no element type {dtype!r}; {dtype_meant(dtype)}") from None


def _no_output(value: object) -> TileError:
    """Build the error for an output that is no tensor, to be raised by the caller."""
    element = isinstance(value, CombinedElements)
    advice = "write an element onto one, as in C[i] += X[i]" if element else _NAMED
    return mistake("TIL205", f"an output is a tensor; {advice}")


_NAMED = "give a dimension or number a name with let(name, value)"
