"""Remarks: what each step of a pipeline did to each kernel, or why it refused, as data.

A function that schedules returns :class:`Refused` in place of a result. Whoever calls it for a kernel hands the
outcome to :func:`remark`, which keeps it where somebody listens (:func:`listening`), and costs next to nothing where
nobody does.
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
    """Refusal of a scheduling step, which leaves a kernel alone: why, and the facts that decided it.

    Attributes:
        code: One of :data:`tileir.schedule.reasons.REASONS`; any other raises ValueError.
        facts: The facts behind the decision.
    """

    code: str = attrs.field(validator=_known)
    facts: tuple[Fact, ...] = ()

    @property
    def relevant(self) -> bool:
        """True if somebody could act on it."""
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
    """Return a refusal without facts, each of which is made once: most kernels are refused by most steps."""
    return Refused(code)


class _RefusedError(Exception):
    """Ends a function that :func:`refusing` wraps, with the refusal that it returns."""

    def __init__(self, refusal: Refused) -> None:
        self.refusal = refusal


def refusing(function: Callable[P, T]) -> Callable[P, T | Refused]:
    """Return a function that ends, and returns the refusal, where :func:`accepted` or :func:`rule_out` meets one."""

    @wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> T | Refused:
        try:
            return function(*args, **kwargs)
        except _RefusedError as ended:
            return ended.refusal

    return wrapped


def accepted(result: T | Refused) -> T:
    """Return a result that is no refusal; one that is ends the function around, which is :func:`refusing`."""
    if isinstance(result, Refused):
        raise _RefusedError(result)
    return result


def rule_out(reason: Refused | None) -> None:
    """End the function around, which is :func:`refusing`, where something is against what it does."""
    if reason is not None:
        raise _RefusedError(reason)


def strongest(said: Sequence[Refused]) -> Refused:
    """Return the first of some refusals, at least one, that somebody could act on, else the first that has a reason."""
    return max(said, key=lambda each: (each.relevant, each.code != SILENT))


@attrs.frozen
class Done:
    """Result that a scheduling step may return in place of a kernel alone: kernels, and facts on the changes.

    Attributes:
        blocks: The kernels that replace the kernel.
        facts: Numbers and words, such as the sizes of a tile.
    """

    blocks: tuple[Statement, ...]
    facts: tuple[Fact, ...] = ()


def done(blocks: tuple[Statement, ...] | Refused, **facts: Value) -> Done | Refused:
    """Return what a step did, with facts as keywords; or why it refused, as it is."""
    return blocks if isinstance(blocks, Refused) else Done(blocks, tuple(facts.items()))


@attrs.frozen
class Remark:
    """Remark of one step of a pipeline on a kernel: what was done, or why nothing was.

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
        """True if the step did something, or refused for a reason that somebody could act on."""
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
    """Remarks as they are made, one for each step and kernel.

    Where a step has several outcomes for a kernel, such as one for each of its blocks, that counts which did something,
    else one that somebody could act on, else the first.
    """

    position: int = 0
    step: str = ""
    _kept: dict[tuple[int, str, int], Remark] = attrs.field(factory=dict, init=False)

    def begin(self, position: int, step: str) -> None:
        """Note which step the outcomes that follow are of; what a run before said from there on is dropped."""
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
        """Note the outcome of the step for a kernel, None where it did something; :func:`remark` tells more."""
        code = FIRED if outcome is None else outcome.code
        reason, told = REASONS[code].text, facts if outcome is None else outcome.facts
        made = Remark(self.position, self.step, kernel, code, outcome is None, reason, told, launches or (kernel,))
        key = (self.position, kernel, number)
        before = self._kept.get(key)
        if before is None or _weight(made) > _weight(before):
            self._kept[key] = made

    def all(self) -> tuple[Remark, ...]:
        """Return the remarks so far, by step, and for each in the order in which its kernels came."""
        return tuple(self._kept.values())


def _weight(made: Remark) -> tuple[bool, bool, bool]:
    return made.fired, made.relevant, made.code != SILENT


_LISTENER: ContextVar[Remarks | None] = ContextVar("tileir_remarks", default=None)


def listener() -> Remarks | None:
    """Return what remarks of this thread go to; None where nobody asks for any."""
    return _LISTENER.get()


@contextmanager
def listening(remarks: Remarks | None) -> Iterator[None]:
    """Keep the remarks that the body makes; with None they are dropped, as for trials that are not taken."""
    token = _LISTENER.set(remarks)
    try:
        yield
    finally:
        _LISTENER.reset(token)


def remark(kernel: str, outcome: Refused | None, facts: tuple[Fact, ...] = (), number: int = 0) -> None:
    """Note what a step did to a kernel where somebody listens.

    Args:
        kernel: Its name.
        outcome: Why the step refused; None where it did something.
        facts: What it did, as numbers and words; a refusal has its own.
        number: What tells it from others of that name.

    """
    if (kept := _LISTENER.get()) is not None:
        kept.add(kernel, outcome, facts, number=number)
