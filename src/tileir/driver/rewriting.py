"""Laws applied to programs of every stage that computes values by single operations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar, TypeAlias, overload

from tileir.core import ArgumentError, attrs
from tileir.core.nodes.patterns import Law, Operand
from tileir.semtree.ir import KernelFunction, Program as SemProgram
from tileir.stripe.ir import Program as StripeProgram
from tileir.typed.ir import Function as TypedFunction

Condition: TypeAlias = Callable[[Mapping[str, Operand]], bool]


@overload
def rewrite(program: TypedFunction, *laws: Law | str, where: Condition | None = ...) -> TypedFunction: ...
@overload
def rewrite(program: StripeProgram, *laws: Law | str, where: Condition | None = ...) -> StripeProgram: ...
@overload
def rewrite(program: SemProgram, *laws: Law | str, where: Condition | None = ...) -> SemProgram: ...
@overload
def rewrite(program: KernelFunction, *laws: Law | str, where: Condition | None = ...) -> KernelFunction: ...


def rewrite(program: object, *laws: Law | str, where: Condition | None = None) -> object:
    """Return a program with laws applied, in order, until none matches; the program itself if none does.

    Typed functions and kernels of the semtree are also simplified by tileir's own rules, by the same driver. Authors of
    laws are responsible for their validity.

    Args:
        program: A typed function, a program of Stripe or of the semtree, or a kernel of the semtree.
        laws: Laws, or their texts, such as ``div(x, sqrt(y)) -> mul(x, rsqrt(y))``.
        where: Condition of the laws given as texts.

    Raises:
        ParseError: A text is not a law.
        DivergenceError: Laws still match after many changes.
        ArgumentError: TIL707, it is not such a program.
    """
    known = tuple(law if isinstance(law, Law) else Law(law, where) for law in laws)
    match program:
        case TypedFunction():
            from tileir.typed.simplify.laws import rule_of as typed_rule
            from tileir.typed.simplify.simplifier import simplify as simplify_typed

            return simplify_typed(program, rules=tuple(map(typed_rule, known)))
        case StripeProgram():
            from tileir.passes.base import run

            return run((_Laws(known),), program)
        case SemProgram():
            from tileir.core.nodes.rewrite import rewritten

            kernels = rewritten(program.kernels, lambda kernel: (rewrite(kernel, *known),))
            return program if kernels is program.kernels else attrs.evolve(program, kernels=kernels)
        case KernelFunction():
            from tileir.semtree.simplify.expression_rules import rule_of
            from tileir.semtree.simplify.simplifier import simplify

            return simplify(program, tuple(map(rule_of, known)))
        case _:
            message = f"laws are for typed functions, Stripe and the semtree, not for a {type(program).__name__}"
            raise ArgumentError.of("TIL707", message)


@attrs.frozen(repr=False)
class _Laws:
    """Pass that applies laws, which may have conditions."""

    name: ClassVar[str] = "laws"
    laws: tuple[Law, ...] = ()

    def __call__(self, program: StripeProgram) -> StripeProgram:
        """Return the program with the laws applied."""
        from tileir.passes.base import map_kernels
        from tileir.passes.rewrites.rewrite import with_laws

        return map_kernels(program, lambda block: with_laws(block, self.laws))
