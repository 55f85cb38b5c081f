"""Lowering of a typed function to a Stripe program: one flat kernel for each operation, without scheduling choices.

Constants become statements of the kernels that use them, and a reshape is only another view of the same memory. An
operation without elements needs no kernel. Kernels are numbered from 0 in the order in which they run.

Contractions with solved bounds become a flat block over all valid points. The places of gathers are split into an
affine of coordinates and a data-dependent rest.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import prod
from typing import Final, assert_never

from tileir.core import Aggregation, Combination, Diagnostic, DType, NameScope, Op, TileError, attrs, schema
from tileir.poly.affine import Affine
from tileir.poly.bounds import Domain
from tileir.poly.coverage import covers
from tileir.poly.partition import partition
from tileir.stripe.ir import Index, Program, Tags
from tileir.stripe.lower.kernel_builder import KernelBuilder, Scalar, axis_index, element
from tileir.stripe.lower.overwriting import solved, written_together
from tileir.stripe.lower.program_builder import ProgramBuilder
from tileir.stripe.lower.reduce import lower_reduce
from tileir.stripe.lower.scan import lower_scan
from tileir.stripe.lower.storage import ZERO, Storage, Tensor
from tileir.typed.dataflow import loop_of
from tileir.typed.ir import (
    Argsort,
    ArrayConstant,
    Cast,
    Computation,
    Constant,
    Contraction,
    Coordinate,
    Elementwise,
    Function,
    Gather,
    Marker,
    Operation,
    Reduce,
    Reshape,
    Scan,
    Scatter,
    Shape,
    ShapeOf,
    Value,
)
from tileir.typed.reductions import reduction_of
from tileir.typed.simplify.preparation import unmarked

_DEPTH: Final = 24
"""Maximum depth of operations that compute a place."""


@attrs.frozen
class IndirectIndex:
    """The sum of an affine in the indices of a kernel, and of the elements of a tensor, from 0 to ``high``, if any."""

    affine: Affine
    rest: str | None = None
    high: int = 0


@attrs.frozen
class Places:
    """Analysis of the places that the operations of a function compute.

    Affines of single values are over their axes, counted from the last one: ``a0``, ``a1``, and so on. Broadcasting
    preserves these.

    Attributes:
        definitions: Inputs and operations by name.
        target: The shape whose elements are the points of the kernel.
    """

    definitions: Mapping[str, Value | Operation]
    target: Shape
    _affines: dict[str, Affine | None] = attrs.field(factory=dict, init=False)
    _ranges: dict[str, tuple[int, int]] = attrs.field(factory=dict, init=False)

    def place(self, name: str, size: int) -> IndirectIndex | None:
        """Return a value as a place certainly below ``size``; None if it may not be, or depends on data alone."""
        whole = self._affine(name, _DEPTH)
        if whole is not None:
            return self._inside(whole, None, 0, size)
        operation = self.definitions[name]
        if not isinstance(operation, Elementwise) or operation.op is not Op.ADD or not operation.dtype.is_integer:
            return None
        for one, other in (operation.inputs, reversed(operation.inputs)):
            affine, rest = self._affine(one, _DEPTH), self.definitions[other]
            if affine is not None and rest.dtype is operation.dtype and rest.shape:
                low, high = self._range(other, _DEPTH)
                return self._inside(affine, other, high, size) if low >= 0 else None
        return None

    def _inside(self, affine: Affine, rest: str | None, high: int, size: int) -> IndirectIndex | None:
        low, most = _bounds(affine, self.target)
        if low < 0 or most + high >= size:
            return None
        axes = {f"a{number}": axis_index(len(self.target) - 1 - number) for number in range(len(self.target))}
        return IndirectIndex(affine.substitute(axes), rest, high)

    def _affine(self, name: str, depth: int) -> Affine | None:
        """Return a value that depends only on coordinates as an affine of its axes; None for others."""
        if name not in self._affines:
            self._affines[name] = self._found(self.definitions[name], depth)
        return self._affines[name]

    def _found(self, operation: Value | Operation, depth: int) -> Affine | None:
        found: Affine | None = None
        match operation:
            case Constant(value=int(number)):
                found = Affine.constant(int(number))
            case Constant(value=float(number)) if number.is_integer():
                found = Affine.constant(int(number))
            case Coordinate(axis=axis, shape=shape):
                found = Affine() if shape[axis] == 1 else Affine.index(f"a{len(shape) - 1 - axis}")
            case Cast(input=source) if depth:
                found = self._affine(source, depth - 1)
            case Reshape(input=source) if depth:
                found = self._reshaped(source, operation.shape, depth - 1)
            case Elementwise(op=op, inputs=(one, other)) if depth and op in _KNOWN:
                left = self._affine(one, depth - 1)
                right = None if left is None else self._affine(other, depth - 1)
                found = None if left is None or right is None else _computed(op, left, right, operation)
        return found if found is not None and _holds(operation.dtype, _bounds(found, operation.shape)) else None

    def _reshaped(self, source: str, shape: Shape, depth: int) -> Affine | None:
        """Return an affine of reshaped coordinates, if only axes of one element are added or removed."""
        old = self.definitions[source].shape
        affine = self._affine(source, depth)
        before, after = ([len(s) - 1 - axis for axis, size in enumerate(s) if size != 1] for s in (old, shape))
        if affine is None or [old[-1 - n] for n in before] != [shape[-1 - n] for n in after]:
            return None
        return affine.substitute({f"a{a}": Affine.index(f"a{b}") for a, b in zip(before, after, strict=True)})

    def _range(self, name: str, depth: int) -> tuple[int, int]:
        """Return the range of the elements of an integer tensor."""
        if name not in self._ranges:
            self._ranges[name] = self._found_range(self.definitions[name], depth)
        return self._ranges[name]

    def _found_range(self, operation: Value | Operation, depth: int) -> tuple[int, int]:
        found: tuple[int, int] | None = None
        match operation:
            case Constant(value=int(number)):
                return number, number
            case Coordinate(axis=axis, shape=shape):
                found = (0, shape[axis] - 1)
            case Reshape(input=source) if depth:
                found = self._range(source, depth - 1)
            case Cast(input=source) if depth and self.definitions[source].dtype.is_integer:
                found = self._range(source, depth - 1)
            case Elementwise(op=Op.MIN | Op.MAX as op, inputs=(one, other)) if depth:
                choose = min if op is Op.MIN else max
                (a, b), (c, d) = self._range(one, depth - 1), self._range(other, depth - 1)
                found = choose(a, c), choose(b, d)
        dtype = operation.dtype
        if found is not None and _holds(dtype, found):
            return found
        return int(dtype.minimum), int(dtype.maximum)


_KNOWN: Final = frozenset({Op.ADD, Op.SUB, Op.MUL, Op.MIN, Op.MAX, Op.DIV})


def _computed(op: Op, left: Affine, right: Affine, operation: Elementwise) -> Affine | None:
    """Return the result of an operation on affines as an affine; None if it is none."""
    match op:
        case Op.ADD:
            return left + right
        case Op.SUB:
            return left - right
        case Op.MUL if not left.terms or not right.terms:
            return right * left.offset if not left.terms else left * right.offset
        case Op.MIN | Op.MAX:
            low, high = _bounds(left - right, operation.shape)
            lower, upper = (left, right) if high <= 0 else (right, left)
            return None if low < 0 < high else lower if op is Op.MIN else upper
        case Op.DIV if operation.dtype.is_integer and not right.terms and right.offset > 0:
            by = int(right.offset)
            if _bounds(left, operation.shape)[0] < 0 or any(int(c) % by for _, c in left.terms):
                return None
            return Affine.of({name: int(c) // by for name, c in left.terms}, int(left.offset) // by)
    return None


def _bounds(affine: Affine, shape: Shape) -> tuple[int, int]:
    """Return the least and the greatest value of an affine over the axes of a shape."""
    low, high = affine.bounds({f"a{number}": size for number, size in enumerate(reversed(shape))})
    return int(low), int(high)


def _holds(dtype: DType, bounds: tuple[int, int]) -> bool:
    """Return whether a dtype has all integers within bounds."""
    if dtype.is_integer:
        return dtype.minimum <= bounds[0] and bounds[1] <= dtype.maximum
    return dtype.is_float and max(-bounds[0], bounds[1]) <= 1 << dtype.format.precision


SPELT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.']*")
"""Names that Stripe can spell."""
_OTHER: Final = re.compile(r"[^A-Za-z0-9_]+")


def spelled(function: Function) -> Function:
    """Return a function whose values have names that Stripe can spell; itself if all have."""
    values = (*function.inputs, *function.operations)
    plain = [value.name for value in values if SPELT.fullmatch(value.name)]
    scope = NameScope.of(plain)
    names = {value.name: scope.fresh(_word(value.name)) for value in values if not SPELT.fullmatch(value.name)}
    steps = {each.body: spelled(each.body) for each in function.operations if isinstance(each, Scan)}
    if not names and all(new is old for old, new in steps.items()):
        return function
    operations = (
        attrs.evolve(operation, body=steps[operation.body]) if isinstance(operation, Scan) else operation
        for operation in function.operations
    )
    return attrs.evolve(
        function,
        inputs=tuple(schema.with_names(value, names) for value in function.inputs),
        outputs=tuple(names.get(name, name) for name in function.outputs),
        operations=tuple(schema.with_names(operation, names) for operation in operations),
        labels=tuple((names.get(name, name), label) for name, label in function.labels),
    )


def _word(name: str) -> str:
    word = _OTHER.sub("_", name).strip("_")
    return word if SPELT.fullmatch(word) else f"v_{word}"


def lower(function: Function, name: str = "program") -> Program:
    """Return the Stripe program that computes ``function``, with this name.

    Its parameters and results have the dtypes and shapes of those of the function, are dense, and have their names, in
    Stripe's spelling.

    Raises:
        TileError: TIL401 to TIL405, the indices of a contraction have no proper bounds; all faults at once.
    """
    function = spelled(unmarked(function))
    builder = ProgramBuilder(function, Storage.of(function), dict(function.labels))
    faults: list[Diagnostic] = []
    for operation in function.operations:
        if isinstance(operation, Marker):
            continue  # already removed
        try:
            _lower_operation(builder, operation)
        except TileError as error:
            faults.extend(attrs.evolve(d, span=d.span or operation.span) for d in error.diagnostics)
    if faults:
        raise TileError(faults)
    return builder.program(name)


def _lower_operation(builder: ProgramBuilder, operation: Computation) -> None:
    """Add the kernels of one operation."""
    name = operation.name
    if isinstance(operation, Scan):
        results = builder.loops.pop(loop_of(operation), None)
        if results is not None:
            lower_scan(builder, results, _lower_operation)
        return
    if isinstance(operation, Reduce):
        components = builder.reductions.pop(reduction_of(operation), None)
        if components is not None:
            lower_reduce(builder, components)
        return
    in_memory = name in builder.storage.tensors or name in builder.storage.allocations
    if not in_memory or 0 in operation.shape:
        return
    match operation:
        case Constant() | Cast() | Elementwise() | Coordinate() | Reshape():
            _elementwise(builder, operation)
        case ArrayConstant():
            if name in builder.storage.copied:  # a result has its own memory
                builder.fill(operation, builder.storage.result(name), name)
        case ShapeOf():
            _shape_of(builder, operation)
        case Argsort():
            _argsort(builder, operation)
        case Gather():
            _gather(builder, operation)
        case Scatter():
            _scatter(builder, operation)
        case Contraction():
            lower_contraction(builder, operation)
        case _:
            assert_never(operation)


def _elementwise(builder: ProgramBuilder, operation: Constant | Cast | Elementwise | Coordinate | Reshape) -> None:
    name, shape = operation.name, operation.shape
    if isinstance(operation, Reshape) and not _needs_copy(builder, operation):
        return
    kernel = KernelBuilder.over(shape)
    match operation:
        case Constant():
            tag, value = "constant", builder.operand(kernel, name, shape)
        case Cast(input=source, dtype=dtype):
            tag, value = "cast", kernel.convert(builder.operand(kernel, source, shape), dtype, name)
        case Coordinate(axis=axis, dtype=dtype):
            affine = ZERO if shape[axis] == 1 else axis_index(axis)
            tag, value = "index", kernel.coordinate(name, affine, dtype)
        case Reshape(input=source):
            tag, value = "reshape", _reshaped(builder, kernel, operation)
        case Elementwise(op=op, inputs=inputs, dtype=dtype):
            operands = [builder.operand(kernel, source, shape) for source in inputs]
            tag = op.value
            value = operands[0] if op is Op.IDENT else kernel.compute(name, op, *operands, read_as=dtype)
        case _:
            assert_never(operation)
    kernel.store(name, value, builder.storage.result(name), element(shape, shape))
    builder.add(kernel, operation, Tags.of("eltwise", f"eltwise_{tag}"))


def _needs_copy(builder: ProgramBuilder, operation: Reshape) -> bool:
    return operation.name in builder.storage.copied or operation.name in builder.storage.constants


def _reshaped(builder: ProgramBuilder, kernel: KernelBuilder, operation: Reshape) -> Scalar:
    """Load an element of the reshaped value, viewed with the new shape."""
    constant = builder.storage.constants.get(operation.name)
    if constant is not None:
        return kernel.constant(operation.input, constant.dtype, constant.value)
    tensor = builder.storage.tensors[operation.name]
    return kernel.load(operation.input, tensor, element(tensor.sizes, tensor.sizes))


def _shape_of(builder: ProgramBuilder, operation: ShapeOf) -> None:
    """Store each extent: the vector is short and constant."""
    kernel = KernelBuilder()
    target = builder.storage.result(operation.name)
    for axis, size in enumerate(operation.dims):
        value = kernel.constant(operation.name, operation.dtype, size)
        kernel.store(operation.name, value, target, (Affine.constant(axis),))
    builder.add(kernel, operation, Tags.of("shape"))


def _argsort(builder: ProgramBuilder, operation: Argsort) -> None:
    """Sort row by row: the points of the kernel are the rows, and a special sorts one."""
    target = builder.storage.result(operation.name)
    axis, shape = operation.axis, operation.shape
    if operation.input in builder.storage.constants or builder.storage.tensors[operation.input].sizes[axis] == 1:
        builder.fill(operation, target, None)
        return
    kernel = KernelBuilder.over((*shape[:axis], 1, *shape[axis + 1 :]))
    keys = builder.storage.tensors[operation.input]
    kernel.order(operation.input, keys, operation.name, target, axis, descending=operation.descending)
    builder.add(kernel, operation, Tags.of("argsort"))


def _gather(builder: ProgramBuilder, operation: Gather) -> None:
    target, shape = builder.storage.result(operation.name), operation.shape
    if operation.data in builder.storage.constants:  # reshaped, but a number
        builder.fill(operation, target, operation.data)
        return
    data = builder.storage.tensors[operation.data]
    if 0 in data.sizes:
        builder.fill(operation, target, None)
        return
    kernel = KernelBuilder.over(shape)
    leading = len(shape) - len(data.sizes) + 1
    row = element(data.sizes[1:], shape)
    place = _place(builder, operation, shape[:leading], data.sizes[0])
    if place is None:
        index = _index(builder, kernel, operation.indices, shape[:leading])
        value = kernel.load_at(operation.data, data, index, (ZERO, *row))
    elif place.rest is None:
        value = kernel.load(operation.data, data, (place.affine, *row))
    else:
        index = builder.operand(kernel, place.rest, shape[:leading])
        value = kernel.load_at(operation.data, data, index, (place.affine, *row), place.high + 1)
    kernel.store(operation.name, value, target, element(shape, shape))
    builder.add(kernel, operation, Tags.of("gather"))


def _place(builder: ProgramBuilder, operation: Gather | Scatter, leading: Shape, size: int) -> IndirectIndex | None:
    """Return the places in parts, if they depend on coordinates and are certainly in bounds."""
    if operation.indices in builder.storage.constants:
        return None
    place = Places(builder.definitions, leading).place(operation.indices, size)
    return None if place is not None and place.rest in builder.storage.constants else place


def _scatter(builder: ProgramBuilder, operation: Scatter) -> None:
    result = builder.storage.result(operation.name)
    same = operation.accumulator is operation.dtype
    stem = f"{operation.name}_sum"
    target = result if same else builder.storage.temporary(stem, operation.accumulator, operation.shape)
    how = operation.aggregation
    builder.fill(operation, target, operation.into, how.identity(target.dtype))
    updates = builder.sizes(operation.updates)
    if 0 not in updates:
        leading = len(updates) - len(operation.shape) + 1
        kernel = KernelBuilder.over(updates, serial=leading if operation.ordered else 0)
        place = _place(builder, operation, updates[:leading], operation.shape[0])
        first, size = ZERO, None
        if place is None or place.rest is None:
            index = _index(builder, kernel, operation.indices, updates[:leading])
        else:
            index, first, size = builder.operand(kernel, place.rest, updates[:leading]), place.affine, place.high + 1
        value = kernel.convert(builder.operand(kernel, operation.updates, updates), operation.accumulator)
        access = (first, *element(operation.shape[1:], updates))
        kernel.put_at(operation.name, value, target, index, access, how, size)
        builder.add(kernel, operation, Tags.of("scatter", f"agg_op_{how.value}"))
    if not same:
        builder.convert(operation, target, result)


def _index(builder: ProgramBuilder, kernel: KernelBuilder, name: str, leading: Shape) -> Scalar:
    """Return the element of an index tensor whose axes are the leading axes of the kernel."""
    constant = builder.storage.constants.get(name)
    if constant is not None:
        return kernel.constant(name, constant.dtype, constant.value)
    return kernel.load(name, builder.storage.tensors[name], element(leading, leading))


_INPUT: Final = Tags.of("contraction")

_LEAST_POINTS: Final = 1 << 15
"""Minimum points of a kernel that is split into several; smaller kernels cost little more than launches."""


def lower_contraction(builder: ProgramBuilder, contraction: Contraction) -> None:
    """Add the kernels of a contraction.

    In order: unless every element is certainly written, one that stores the default or 0, except in place of its
    default; the contraction itself, unless it has no valid point, as one or several kernels with disjoint outputs; and
    if the sums have another dtype, one that converts them.

    Raises:
        TileError: TIL401 to TIL405, the indices have no proper bounds.
    """
    result = builder.storage.result(contraction.name)
    shapes = [builder.sizes(access.tensor) for access in contraction.inputs]
    domain = solved(contraction, shapes)
    in_place = contraction.default is not None and contraction.default in builder.storage.overwriters
    if domain is None:
        if not in_place:
            builder.fill(contraction, result, contraction.default)
        return
    same = contraction.accumulator is contraction.dtype
    stem = f"{contraction.name}_acc"
    target = result if same else builder.storage.temporary(stem, contraction.accumulator, contraction.shape)
    if not in_place and not covers(domain, contraction.shape) and not _completed(builder, contraction, domain):
        builder.fill(contraction, target, contraction.default)
    for part in _parts(builder, contraction, domain):
        _contract(builder, contraction, part, target)
    if not same:
        builder.convert(contraction, target, result)


def _completed(builder: ProgramBuilder, contraction: Contraction, domain: Domain) -> bool:
    """Return whether contractions that overwrite this one write all elements that it leaves out."""
    later = builder.storage.overwriters
    return contraction.name in later and written_together(contraction, domain, later, builder.sizes)


def _parts(builder: ProgramBuilder, contraction: Contraction, domain: Domain) -> tuple[Domain, ...]:
    """Return the domains of the kernels that write a result; a labelled contraction is one kernel."""
    points = prod(extent for _, extent in domain.ranges)
    return (domain,) if contraction.name in builder.labels or points < _LEAST_POINTS else partition(domain)


def _contract(builder: ProgramBuilder, contraction: Contraction, domain: Domain, target: Tensor) -> None:
    """Add a kernel that visits every point of a domain once."""
    kernel = KernelBuilder(tuple(Index(name, extent) for name, extent in domain.ranges), domain.constraints)
    loaded = [
        _load(builder, kernel, access.tensor, polynomials)
        for access, polynomials in zip(contraction.inputs, domain.accesses[1:], strict=True)
    ]
    value = kernel.convert(_combine(kernel, contraction, loaded), contraction.accumulator)
    kernel.store(contraction.name, value, target, domain.accesses[0], contraction.aggregation)
    if contraction.aggregation is Aggregation.SUM and contraction.combination is Combination.MUL:
        builder.macs += prod(extent for _, extent in domain.ranges)
    tags = (f"agg_op_{contraction.aggregation.value}", f"comb_op_{contraction.combination.value}")
    promised = ("finite",) if contraction.finite else ()
    builder.add(kernel, contraction, Tags.of("contraction", *tags, *promised))


def _load(builder: ProgramBuilder, kernel: KernelBuilder, name: str, access: tuple[Affine, ...]) -> Scalar:
    constant = builder.storage.constants.get(name)
    if constant is not None:
        return kernel.constant(name, constant.dtype, constant.value)
    return kernel.load(name, builder.storage.tensors[name], access, _INPUT)


def _combine(kernel: KernelBuilder, contraction: Contraction, loaded: list[Scalar]) -> Scalar:
    """Combine the elements of one point, after the casts of the contraction."""
    name, combination = contraction.name, contraction.combination
    compared = loaded[:2] if combination is Combination.COND else loaded
    operands = [kernel.convert(scalar, contraction.operand_dtype) for scalar in compared]
    match combination:
        case Combination.NONE:
            return operands[0]
        case Combination.ADD:
            return kernel.compute(name, Op.ADD, *operands)
        case Combination.MUL:
            return kernel.compute(name, Op.MUL, *operands)
        case Combination.EQ:
            return kernel.compute(name, Op.CMP_EQ, *operands)
        case Combination.COND:
            equal = kernel.compute("equal", Op.CMP_EQ, *operands)
            return kernel.compute(name, Op.COND, equal, loaded[2], kernel.number(0, loaded[2].dtype))
        case _:
            assert_never(combination)
