"""Remarks: the effect of each step of a pipeline on each kernel, or the reason of its refusal, as data.

A scheduling function returns :class:`Refused` in place of a result. Its caller passes the outcome to :func:`remark`,
which records it for a listener (:func:`listening`), and costs next to nothing without one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, wraps
from typing import Final, ParamSpec, TypeAlias, TypeVar

from tileir.core.nodes import attrs
from tileir.schedule.reasons import REASONS
from tileir.stripe.ir import Statement

P = ParamSpec("P")
T = TypeVar("T")

Value: TypeAlias = bool | int | float | str
"""What a fact may be: a number or a word."""

Fact: TypeAlias = tuple[str, Value]
"""A name and a value that a decision rested on, such as a dtype, a size, a stride in elements, or an index."""

FIRED: Final = "TR001"
SILENT: Final = "TR002"


def _known(_: object, __: attrs.Attribute[str], code: str) -> None:
    if code not in REASONS:
        raise ValueError(f"remark code {code!r} is not in tileir.schedule.reasons")


@attrs.frozen
class Refused:
    """Refusal of a scheduling step, which leaves a kernel unchanged, with the facts that decided it.

    Attributes:
        code: One of :data:`tileir.schedule.reasons.REASONS`; any other raises ValueError.
        facts: The facts behind the decision.
    """

    code: str = attrs.field(validator=_known)
    facts: tuple[Fact, ...] = ()

    @property
    def relevant(self) -> bool:
        """True if a user could act on it."""
        return REASONS[self.code].relevant

    @property
    def reason(self) -> str:
        """The sentence of the code."""
        return REASONS[self.code].text


def refused(code: str, **facts: Value) -> Refused:
    """Return a refusal, with facts as keywords.

    Raises:
        ValueError: There is no such code.
    """
    return Refused(code, tuple(facts.items())) if facts else _plain(code)


@cache
def _plain(code: str) -> Refused:
    """Return a refusal without facts, cached by code, as most steps refuse most kernels."""
    return Refused(code)


class _RefusedError(Exception):
    """Exception that ends a function wrapped by :func:`refusing` with a refusal as its result."""

    def __init__(self, refusal: Refused) -> None:
        self.refusal = refusal


def refusing(function: Callable[P, T]) -> Callable[P, T | Refused]:
    """Return a function that returns the refusal raised inside it by :func:`accepted` or :func:`rule_out`."""

    @wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> T | Refused:
        try:
            return function(*args, **kwargs)
        except _RefusedError as ended:
            return ended.refusal

    return wrapped


def accepted(result: T | Refused) -> T:
    """Return a result that is not a refusal; end the surrounding :func:`refusing` function with one that is."""
    if isinstance(result, Refused):
        raise _RefusedError(result)
    return result


def rule_out(reason: Refused | None) -> None:
    """End the surrounding :func:`refusing` function if there is a reason against its result."""
    if reason is not None:
        raise _RefusedError(reason)


def strongest(said: Sequence[Refused]) -> Refused:
    """Return the first of one or more refusals that a user could act on, or else the first with a reason."""
    return max(said, key=lambda each: (each.relevant, each.code != SILENT))


@attrs.frozen
class Done:
    """Kernels that a scheduling step returns together with facts about the changes.

    Attributes:
        blocks: The kernels that replace the kernel.
        facts: Numbers and words, such as the sizes of a tile.
    """

    blocks: tuple[Statement, ...]
    facts: tuple[Fact, ...] = ()


def done(blocks: tuple[Statement, ...] | Refused, **facts: Value) -> Done | Refused:
    """Return a step's result with facts as keywords; a refusal as it is."""
    return blocks if isinstance(blocks, Refused) else Done(blocks, tuple(facts.items()))


@attrs.frozen
class Remark:
    """Remark of one step of a pipeline on a kernel.

    Attributes:
        position: The number of the step in its pipeline, from 0.
        step: The name of the step.
        kernel: The kernel's name at that step; for several launches of a kernel, the name of the first.
        code: The stable id of the reason.
        fired: Whether the step changed the kernel.
        reason: The sentence of the code.
        facts: Numbers and words behind the decision.
        launches: The names of all launches of the kernel.
    """

    position: int
    step: str
    kernel: str
    code: str
    fired: bool
    reason: str
    facts: tuple[tuple[str, bool | int | float | str], ...] = ()
    launches: tuple[str, ...] = ()

    @property
    def relevant(self) -> bool:
        """True if the step changed the kernel, or refused for a reason that a user could act on."""
        known = REASONS.get(self.code)
        return self.fired or known is None or known.relevant

    def __str__(self) -> str:
        """Return one line: ``3 group_rows, C: refused, TR101 the kernel … (index=i, range=7)``."""
        what = "did it" if self.fired else "refused"
        return f"{self.position} {self.step}, {self.kernel}: {what}, {self.code} {self.reason}{facts_text(self.facts)}"


def facts_text(facts: tuple[Fact, ...]) -> str:
    """Return facts as `` (name=value, …)``; empty for none."""
    return f" ({', '.join(f'{name}={_word(value)}' for name, value in facts)})" if facts else ""


def _word(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value:.4g}" if isinstance(value, float) else str(value)


@attrs.define(eq=False)
class Remarks:
    """Collector of remarks, one for each step and kernel.

    Of several outcomes of a step for a kernel, such as one for each of its blocks, a change counts first, then a
    refusal that a user could act on, then the first outcome.
    """

    position: int = 0
    step: str = ""
    _kept: dict[tuple[int, str, int], Remark] = attrs.field(factory=dict, init=False)

    def begin(self, position: int, step: str) -> None:
        """Begin the outcomes of a step; drop those of a former run from this step on."""
        if position <= self.position:
            self._kept = {key: made for key, made in self._kept.items() if key[0] < position}
        self.position, self.step = position, step

    def add(
        self,
        kernel: str,
        outcome: Refused | None,
        facts: tuple[Fact, ...] = (),
        launches: tuple[str, ...] = (),
        number: int = 0,
    ) -> None:
        """Record the outcome of the step for a kernel, None for a change; see :func:`remark`."""
        code = FIRED if outcome is None else outcome.code
        reason, told = REASONS[code].text, facts if outcome is None else outcome.facts
        made = Remark(self.position, self.step, kernel, code, outcome is None, reason, told, launches or (kernel,))
        key = (self.position, kernel, number)
        before = self._kept.get(key)
        if before is None or _weight(made) > _weight(before):
            self._kept[key] = made

    def all(self) -> tuple[Remark, ...]:
        """Return the remarks by step, each in the order of its kernels."""
        return tuple(self._kept.values())


def _weight(made: Remark) -> tuple[bool, bool, bool]:
    return made.fired, made.relevant, made.code != SILENT


_LISTENER: ContextVar[Remarks | None] = ContextVar("tileir_remarks", default=None)


def listener() -> Remarks | None:
    """Return the collector of this thread's remarks; None if there is none."""
    return _LISTENER.get()


@contextmanager
def listening(remarks: Remarks | None) -> Iterator[None]:
    """Collect the remarks that the body makes; with None they are dropped, as for trials that are not taken."""
    token = _LISTENER.set(remarks)
    try:
        yield
    finally:
        _LISTENER.reset(token)


def remark(kernel: str, outcome: Refused | None, facts: tuple[Fact, ...] = (), number: int = 0) -> None:
    """Record the outcome of a step for a kernel if there is a listener.

    Args:
        kernel: Its name.
        outcome: The refusal; None for a change.
        facts: Numbers and words about a change; a refusal has its own.
        number: Number among kernels of that name.
    """
    if (kept := _LISTENER.get()) is not None:
        kept.add(kernel, outcome, facts, number=number)
