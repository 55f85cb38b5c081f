"""Functions of a text as one program: what each may call, which of them the program is, and none that calls itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Final

from tileir.core import ArgumentError, Diagnostic, Span, VerifyError, attrs, meant
from tileir.tile.building.calling import without_calls
from tileir.tile.checks.verifier import faults_beside, refuse, verify
from tileir.tile.functions import builtin
from tileir.tile.ir import Call, Function
from tileir.tile.text.file import Definition, File
from tileir.tile.traversal import called


@attrs.frozen(eq=False)
class Unit:
    """A function with those that it may call, each by the name that it has for them."""

    name: str
    function: Function
    scope: Mapping[str, Unit]

    def calls(self) -> Iterator[tuple[Call, Unit]]:
        """Yield the calls of functions that are no builtins."""
        return ((call, self.scope[call.function]) for call in called(self.function) if call.function in self.scope)


def units_of(file: File, scope: dict[str, Unit]) -> tuple[Unit, ...]:
    """Return the functions of a file, which may call what is in ``scope``; they themselves come to be in it."""
    units = tuple(Unit(each.name or "", each.function, scope) for each in file.definitions)
    scope.update((unit.name, unit) for unit in reversed(units) if unit.name)
    return units


def program_of(file: File, scope: dict[str, Unit], entry: str | None) -> Function:
    """Return the function that a text means, without calls: that called ``entry``, that without a name, or the last.

    ``scope`` has what it imports.

    Raises:
        VerifyError: A function breaks a rule, or calls itself.
        ArgumentError: TIL206, there is no such entry.
        TileError: A call does not fit its function.

    """
    units = units_of(file, scope)
    found = _chosen(file.definitions, units, entry)
    check(file, units)
    if not found.scope:
        return found.function
    order = _callees_first(units)
    flat: dict[Unit, Function] = {}
    for unit in order:
        callees = {call.function: flat[callee] for call, callee in unit.calls()}
        flat[unit] = without_calls(unit.function, callees)
    if flat[found] is not found.function:
        verify(flat[found])
    return flat[found]


def check(file: File, units: Sequence[Unit]) -> None:
    """Check the functions of a file, but for their calling themselves.

    Raises:
        VerifyError: One breaks a rule, or has a name that it cannot have.

    """
    refuse(chain(name_faults(file), *(faults_beside(each.function, callees=signatures(each)) for each in units)))


def signatures(unit: Unit) -> Mapping[str, Function]:
    """Return what is known of the functions that one may call."""
    return {name: each.function for name, each in unit.scope.items()}


def name_faults(file: File) -> Iterator[Diagnostic]:
    """Yield what is wrong with the names of functions: one that stands for two of them, or for a builtin."""
    known: dict[str, Span | None] = {}
    named: list[tuple[str | None, Span | None]] = [(each.name, each.span) for each in file.imports]
    named += [(each.name, each.span) for each in file.definitions]
    for name, span in named:
        if name is None:
            other = known.get("")
            message = "a second function without a name; only the program itself goes without one"
        else:
            other = known.get(name)
            message = f"two functions are called {name!r}"
            if name in WORDS or builtin(name) is not None:
                yield Diagnostic("TIL202", f"{name!r} is a function of Tile itself; choose another name", span)
        if (name or "") in known:
            note = () if other is None else (f"the other one is in {other.where}",)
            yield Diagnostic("TIL202", message, span, note)
        known.setdefault(name or "", span)


WORDS: Final = frozenset({"scan", "while", "constant"})
"""Words that statements begin with, or that follow their ``=``."""


def _chosen(definitions: Sequence[Definition], units: Sequence[Unit], entry: str | None) -> Unit:
    """Return the function that a text means."""
    if entry is None:
        unnamed = (unit for unit in units if not unit.name)
        return next(unnamed, units[-1])
    found = next((unit for unit in units if unit.name == entry), None)
    if found is not None:
        return found
    names = [each.name for each in definitions if each.name is not None]
    near = meant(entry, names)
    has = f"it has {', '.join(names[:20])}" if names else "its only function has no name"
    hint = has if near is None else f"did you mean {near!r}?"
    raise ArgumentError.of("TIL206", f"the text has no function {entry!r}; {hint}")


def _callees_first(units: Sequence[Unit]) -> list[Unit]:
    """Return functions and all that they call, each behind those that it calls itself.

    Raises:
        VerifyError: TIL229, a function calls itself.

    """
    order: list[Unit] = []
    done: set[Unit] = set()
    for root in units:
        path: dict[Unit, Iterator[tuple[Call, Unit]]] = {} if root in done else {root: root.calls()}
        while path:
            unit, calls = next(reversed(path.items()))
            call, callee = next(calls, (None, unit))
            if call is None:
                order.append(unit)
                done.add(unit)
                del path[unit]
            elif callee in path:
                raise VerifyError((_cycle(call, callee, list(path)),))
            elif callee not in done:
                path[callee] = callee.calls()
    return order


def _cycle(call: Call, callee: Unit, path: Sequence[Unit]) -> Diagnostic:
    """Build the error for a call that closes a circle."""
    circle = [*path[path.index(callee) :], callee]
    names = " -> ".join(unit.name for unit in circle[:_MOST_NAMED])
    long = "" if len(circle) <= _MOST_NAMED else " -> …"
    message = f"{callee.name!r} calls itself: {names}{long}; write the loop as a scan or while, which do not recurse"
    return Diagnostic("TIL229", message, call.span)


_MOST_NAMED: Final = 12
