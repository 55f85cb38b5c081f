"""Laws of :mod:`tileir.core.nodes.patterns` as rules of typed functions."""

from __future__ import annotations

from tileir.core import DType, NameScope, Op, attrs, fits, rounded
from tileir.core.nodes.patterns import Law, Scalar
from tileir.core.nodes.rewrite import Rule
from tileir.typed.inference.emission import broadcast_shape
from tileir.typed.ir import Constant, Elementwise, Operation, Value
from tileir.typed.simplify.simplifier_rules import Site


def rule_of(law: Law) -> Rule[Site]:
    """Return a law as a rule of :func:`tileir.typed.simplify.simplifier.simplify`, for elementwise operations."""

    def apply(site: Site) -> Site | None:
        if not isinstance(site.operation, Elementwise):
            return None
        terms = _Terms(site)
        new = law.rewritten(terms, site.operation.name)
        return None if new is None else terms.site_of(new)

    return Rule(law.text, apply)


@attrs.define(eq=False, repr=False)
class _Terms:
    """The values before an operation by name, and the new operations of a law."""

    site: Site
    made: dict[str, Operation] = attrs.field(factory=dict, init=False)

    def site_of(self, name: str) -> Site | None:
        """Return the site with the definition of ``name`` as its operation; None if it has another type."""
        old, new = self.site.operation, self._definition(name)
        if (old.dtype, old.shape) != (new.dtype, new.shape):
            return None
        if name not in self.made:
            return self.site.forward(name)
        before = tuple(each for each in self.made.values() if each.name != name)
        return attrs.evolve(self.site, operation=attrs.evolve(self.made[name], name=old.name), before=before)

    def _definition(self, name: str) -> Value | Operation:
        if name == self.site.operation.name:
            return self.site.operation
        return self.made[name] if name in self.made else self.site.definitions[name]

    def operation(self, value: str) -> tuple[Op, tuple[str, ...]] | None:
        found = self._definition(value)
        return (found.op, found.inputs) if isinstance(found, Elementwise) else None

    def number(self, value: str) -> Scalar | None:
        found = self._definition(value)
        return found.value if isinstance(found, Constant) else None

    def dtype(self, value: str) -> DType:
        return self._definition(value).dtype

    def apply(self, op: Op, operands: tuple[str, ...]) -> str | None:
        values = [self._definition(name) for name in operands]
        typed = values[1:] if op is Op.COND else values
        dtype = typed[0].dtype
        if any(each.dtype is not dtype for each in typed) or not op.works_on(dtype):
            return None
        if op is Op.COND and not values[0].dtype.is_bool:
            return None
        try:
            shape = broadcast_shape(tuple(each.shape for each in values))
        except ValueError:
            return None
        result = type(dtype).BOOL if op.info.compares else dtype
        return self._add(Elementwise(self._fresh(), op, operands, result, shape, span=self.site.operation.span))

    def constant(self, number: int | float, like: str) -> str | None:
        dtype = self.dtype(like)
        if dtype.is_bool or dtype.is_storage or not fits(number, dtype):
            return None
        return self._add(Constant(self._fresh(), dtype, rounded(number, dtype), span=self.site.operation.span))

    def _fresh(self) -> str:
        names = NameScope.of(self.site.definitions) if self.site.names is None else self.site.names
        return names.fresh(f"{self.site.operation.name}_0")

    def _add(self, operation: Operation) -> str:
        self.made[operation.name] = operation
        return operation.name
