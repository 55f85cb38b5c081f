"""Elements of tensors, their combination and their aggregation in a contraction."""

from __future__ import annotations

from typing import Final, NoReturn

from tileir.core import Aggregation, Combination, attrs, call_site
from tileir.core.operators import method_of
from tileir.tile import ir
from tileir.tile.building.indices import Dim, Polynomial
from tileir.tile.building.recording import Recorded, Recorder, Target, foreign, mistake, named, same

_ELEMENTS: Final = "a contraction reads elements of tensors, as in A[i, k], and combines them with + * or =="


@attrs.frozen(eq=False, repr=False)
class CombinedElements(Recorded):
    """Elements that a contraction reads at one index point, and their combination."""

    recorder: Recorder
    combination: Combination
    inputs: tuple[ir.Access, ...]
    constraints: tuple[ir.Constraint, ...] = ()

    def given(self, *constraints: ir.Constraint) -> CombinedElements:
        """Return the combination at the index points where all ``constraints`` hold, too."""
        for constraint in constraints:
            if not isinstance(constraint, ir.Constraint):
                raise mistake("TIL215", "a constraint is written p < bound, and means 0 <= p < bound")
        return attrs.evolve(self, constraints=(*self.constraints, *constraints))

    def _combine(self, combination: Combination, other: CombinedElements) -> CombinedElements:
        right = combined_of(self.recorder, other)
        if len(self.inputs) + len(right.inputs) > combination.arity:
            raise mistake(
                "TIL210", "a contraction combines two tensors at most; combine others in a tensor of their own"
            )
        constraints = (*self.constraints, *right.constraints)
        return CombinedElements(self.recorder, combination, (*self.inputs, *right.inputs), constraints)

    __add__ = method_of(_combine, Combination.ADD)
    __mul__ = method_of(_combine, Combination.MUL)

    def __eq__(self, other: object) -> CombinedElements:  # type: ignore[override]  # a combination, not a truth value
        return self._combine(Combination.EQ, other)  # type: ignore[arg-type]  # anything else is refused

    __hash__ = object.__hash__

    def _refuse(self, *_: object) -> NoReturn:
        raise mistake("TIL215", f"{_ELEMENTS}; anything else goes into a tensor of its own first")

    __sub__ = __truediv__ = __floordiv__ = __mod__ = __pow__ = __and__ = __or__ = __xor__ = _refuse
    __lshift__ = __rshift__ = __lt__ = __gt__ = __ne__ = __neg__ = __pos__ = __abs__ = __invert__ = _refuse
    __radd__ = __rsub__ = __rmul__ = __rtruediv__ = __rfloordiv__ = __rmod__ = __rpow__ = _refuse
    __isub__ = __itruediv__ = __ifloordiv__ = __imod__ = __ipow__ = __iand__ = __ior__ = __ixor__ = _refuse
    __getitem__ = __iter__ = _refuse

    def __ge__(self, value: object) -> AggregationStatement:
        return self._write(Aggregation.MAX, value)

    def __le__(self, value: object) -> AggregationStatement:
        return self._write(Aggregation.MIN, value)

    def _write(self, _: Aggregation, __: object) -> AggregationStatement:
        self._refuse()

    def __bool__(self) -> NoReturn:
        raise mistake(
            "TIL215", "elements of tensors have no truth value; Python chains comparisons, so use parentheses"
        )


@attrs.frozen(eq=False, repr=False)
class Access(CombinedElements):
    """One element of a tensor at some indices: read by a contraction, or written by it."""

    @property
    def access(self) -> ir.Access:
        """The access itself."""
        return self.inputs[0]

    def sum(self, value: CombinedElements) -> None:
        """Add up ``value`` at this element of a tensor that is not defined yet."""
        contract(self, Aggregation.SUM, value)

    def prod(self, value: CombinedElements) -> None:
        """Multiply ``value`` up at this element of a tensor that is not defined yet."""
        contract(self, Aggregation.PROD, value)

    def max(self, value: CombinedElements) -> None:
        """Keep the greatest ``value`` at this element of a tensor that is not defined yet."""
        contract(self, Aggregation.MAX, value)

    def min(self, value: CombinedElements) -> None:
        """Keep the least ``value`` at this element of a tensor that is not defined yet."""
        contract(self, Aggregation.MIN, value)

    def assign(self, value: CombinedElements) -> None:
        """Write the only ``value`` of this element of a tensor that is not defined yet."""
        contract(self, Aggregation.ASSIGN, value)

    def _aggregated(self, aggregation: Aggregation, value: CombinedElements) -> PendingAggregate:
        return PendingAggregate(self.recorder, self.combination, self.inputs, aggregation=aggregation, value=value)

    __iadd__ = method_of(_aggregated, Aggregation.SUM)
    __imul__ = method_of(_aggregated, Aggregation.PROD)

    def _write(self, aggregation: Aggregation, value: object) -> AggregationStatement:
        contract(self, aggregation, value)
        return AggregationStatement()


@attrs.frozen(eq=False, repr=False)
class PendingAggregate(Access):
    """``C[i]`` of the statement ``C[i] += value``, on its way back into the tensor."""

    aggregation: Aggregation = attrs.field(kw_only=True)
    value: CombinedElements = attrs.field(kw_only=True)


@attrs.frozen(eq=False)
class AggregationStatement:
    """Result of the statements ``C[i] >= …`` and ``C[i] <= …``, which has no use."""

    def __bool__(self) -> NoReturn:
        raise mistake("TIL215", "this defined a tensor and is no comparison; Python chains those, so use parentheses")


def contract(target: Access, aggregation: Aggregation, value: object) -> None:
    """Record the contraction that defines the tensor of ``target``.

    Raises:
        TileError: It is defined already, or a contraction cannot read ``value``.
    """
    recorder = target.recorder
    recorder.check_open()
    combined = combined_of(recorder, value)
    reference = target.access.tensor
    declared = recorder.targets.get(reference)
    if declared is None:
        note = "elements are compared with == only, inside a contraction"
        raise mistake("TIL202", "this tensor is defined before; declare a new one with tensor(…)", note)
    write(recorder, reference, declared, target.access.indices, aggregation, combined)
    del recorder.targets[reference]


def write(
    recorder: Recorder,
    name: str | None,
    declared: Target,
    indices: tuple[ir.Expr, ...],
    aggregation: Aggregation,
    value: CombinedElements,
) -> str:
    """Record a contraction and return the reference of its result."""
    span = call_site()
    default = None if declared.default is None else named(declared.default)
    body = ir.Contraction(
        name or "",
        indices,
        declared.sizes,
        aggregation,
        value.combination,
        value.inputs,
        value.constraints,
        declared.no_defract,
        default,
        span=span,
        name_span=span,
    )
    reference = recorder.record(body, name)
    recorder.ranks[reference] = len(declared.sizes)
    return reference


def conditional(condition: CombinedElements, then: object) -> CombinedElements:
    """Return the combination ``condition ? then : 0``, where the condition is an equality of two elements."""
    if condition.combination is not Combination.EQ:
        raise mistake("TIL210", "the condition inside a contraction is an equality: where(A[i] == B[j], C[k])")
    third = combined_of(condition.recorder, then)
    if third.combination is not Combination.NONE:
        raise mistake("TIL210", "a conditional combination yields one element: where(A[i] == B[j], C[k])")
    constraints = (*condition.constraints, *third.constraints)
    return CombinedElements(condition.recorder, Combination.COND, (*condition.inputs, *third.inputs), constraints)


def combined_of(recorder: Recorder, value: object) -> CombinedElements:
    """Return the right side of a contraction, all of whose tensors are defined.

    Raises:
        TileError: It is something else, or belongs to another builder.
    """
    if isinstance(value, CombinedElements):
        same(recorder, value.recorder)
        for access in value.inputs:
            if access.tensor in recorder.targets:
                raise mistake("TIL201", f"{access.tensor!r} is read before a contraction defined it")
        return value
    if isinstance(value, Dim):
        raise mistake("TIL205", f"a dimension is no tensor; {_ELEMENTS}")
    if isinstance(value, Polynomial):
        raise mistake("TIL203", f"an index variable is no tensor; {_ELEMENTS}")
    if isinstance(value, Recorded | int | float):
        raise mistake("TIL215", f"{_ELEMENTS}; anything else goes into a tensor of its own first")
    raise foreign(value)
