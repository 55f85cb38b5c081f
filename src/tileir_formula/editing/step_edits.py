"""Edits of the order of steps: insert, remove, duplicate and move. Steps keep their sources."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

import attrs

from tileir.core.errors import ArgumentError, Diagnostic
from tileir_formula.editing.changes import BLANKS, Change, EditedText, changed, edited
from tileir_formula.editing.edits import check_steps, element_at, elements, no_element
from tileir_formula.ir import Formula, Repeat, Source, Step
from tileir_formula.references import Reference, Scope, places_of, references_of
from tileir_formula.text.layout import layout_of
from tileir_formula.text.parser import parse
from tileir_formula.text.printer import INDENT, source_text

_NUMBERS: Final = re.compile(r"steps\[(\d+)\]")


def inserted(text: str, path: str, steps: str) -> EditedText:
    """Write one or more steps before the one at ``path``, which may be one past the end of a group.

    Numbers in the new steps count the lines before the edit.

    Raises:
        ParseError: The text, before or after the edit, is not a formula.
        ArgumentError: TIL221, there is no such place, or no step is inserted.
    """
    formula = parse(text)
    place, indent = _place(text, formula, path)
    count = check_steps(steps)
    lines = "".join(f"{indent}{line}\n" for line in steps.rstrip("\n").split("\n"))
    before = "\n" if place and text[place - 1] != "\n" else ""
    tree = _Node.of(formula)
    tree.insert(path, [_Node(None) for _ in range(count)])
    return _rewired(text, formula, [Change(place, place, before + lines)], _paths(formula, tree))


def removed(text: str, path: str, *, redirect: bool = False) -> EditedText:
    """Remove a step with the comments above it; the next step then reads the one before it.

    Args:
        text: The formula.
        path: Of the step.
        redirect: Whether references to the step by name or number are redirected to the step's own source.

    Raises:
        ParseError: The text is not a formula.
        ArgumentError: TIL221, there is no such step; TIL228, other steps refer to it, and are not redirected.
    """
    formula = parse(text)
    start, stop = _lines(text, formula, path)
    tree = _Node.of(formula)
    tree.remove(path)
    readers = [each for each in references_of(formula) if each.target == path and not each.path.startswith(f"{path}.")]
    redirected: dict[str, str | None] = {}
    changes = [Change(start, stop, "")]
    if redirect:
        spelling, target = _read_by(formula, path)
        redirected = dict.fromkeys((each.path for each in readers), target)
        changes += [Change(*_extent(each), spelling) for each in readers]
        changes += _redirected_follower(formula, path, spelling)
    elif readers:
        raise ArgumentError(tuple(_reader_fault(each, path) for each in readers))
    return _rewired(text, formula, changes, _paths(formula, tree), redirected)


def _reader_fault(reader: Reference, path: str) -> Diagnostic:
    message = f"{reader.path} reads {path}; let it read something else first, or redirect what reads the step"
    return Diagnostic("TIL228", message, reader.source.span)


def _read_by(formula: Formula, path: str) -> tuple[str, str | None]:
    """Return a source that equals the input of the step at a path, and its target."""
    step, scope = _at(formula, path)
    if isinstance(step, Step) and step.sources:
        return source_text(step.sources[0]), scope.target(step.sources[0])
    implied = scope.implied()
    if implied is None:
        message = f"{path} reads {scope.before}, which has no name; give it one first"
        raise ArgumentError.of("TIL228", message, step.span)
    name = int(implied[1:]) if implied.startswith("$") else implied
    return implied, scope.target(Source(name))


def _at(formula: Formula, path: str) -> tuple[Step | Repeat, Scope]:
    """Return the step at a path, and the sources available there; the walk ends, so the scope stays as it is."""
    for found, step, scope in places_of(formula):
        if found == path and step is not None:
            return step, scope
    raise no_element(path, dict(elements(formula)))


def _redirected_follower(formula: Formula, path: str, spelling: str) -> list[Change]:
    """Return the changes that keep the source of the step after a removed one."""
    prefix, number = _split(path)
    known = dict(elements(formula))
    step, follower = known[path], known.get(f"{prefix}steps[{number + 1}]")
    if not isinstance(step, Step) or not step.sources or not isinstance(follower, Step) or follower.sources:
        return []
    place = layout_of(follower).call.stop
    return [Change(place, place, f" of {spelling}")]


def duplicated(text: str, path: str) -> EditedText:
    """Write a step a second time, below itself, without its name; errors as for :func:`inserted`."""
    formula = parse(text)
    node = element_at(formula, path)
    start, stop = _lines(text, formula, path)
    lines = text[start:stop] if text[stop - 1 : stop] == "\n" else text[start:stop] + "\n"
    if isinstance(node, Step) and node.name is not None:
        layout = layout_of(node)
        assert layout.name is not None
        lines = lines[: layout.name[0] - start] + lines[layout.call.function[0] - start :]
    before = "" if text[stop - 1 : stop] == "\n" else "\n"
    prefix, number = _split(path)
    tree = _Node.of(formula)
    tree.insert(f"{prefix}steps[{number + 1}]", [_Node(None)])
    return _rewired(text, formula, [Change(stop, stop, before + lines)], _paths(formula, tree))


def moved(text: str, path: str, target: str) -> EditedText:
    """Move a step with its lines to before the one at ``target``, or to the end of the group.

    Raises:
        ParseError: The text is not a formula.
        ArgumentError: TIL221, there is no such step or place, or it lies inside of the step itself; TIL228, a step
            would read a later result.
    """
    formula = parse(text)
    start, stop = _lines(text, formula, path)
    place, _ = _place(text, formula, target)
    if start < place < stop:
        raise ArgumentError.of("TIL221", f"{target!r} lies inside of {path!r}")
    tree = _Node.of(formula)
    tree.move(path, target)
    if place in (start, stop):
        return edited(text, [])
    paths = _paths(formula, tree)
    numbers = _renumbered(formula, paths)
    within = [change for change in numbers if start <= change.start < stop]
    lines = changed(text[start:stop], within, start)
    lines += "" if lines.endswith("\n") else "\n"
    before = "\n" if place and text[place - 1] != "\n" else ""
    changes = [Change(start, stop, ""), Change(place, place, before + lines)]
    return _rewired(text, formula, changes, paths)


def _rewired(
    text: str,
    formula: Formula,
    changes: list[Change],
    paths: Mapping[str, str | None],
    redirected: Mapping[str, str | None] | None = None,
) -> EditedText:
    """Return a text after an edit, with references to renumbered steps updated.

    Args:
        text: Before the edit.
        formula: Its formula.
        changes: The edit.
        paths: The paths of all steps after it, by those before it; None for removed steps.
        redirected: New targets of sources, as paths before the edit, by the sources' paths before it.

    Raises:
        ArgumentError: TIL228, a source would refer to another step than before.
    """
    held = [(change.start, change.stop) for change in changes if change.start < change.stop]
    numbers = [
        change
        for change in _renumbered(formula, paths)
        if not any(start <= change.start < stop for start, stop in held)
    ]
    after = edited(text, [*changes, *numbers], {old: new for old, new in paths.items() if old != new})
    targets = {each.path: each.target for each in references_of(after.formula)}
    faults: list[Diagnostic] = []
    for each in references_of(formula):
        wanted = (redirected or {}).get(each.path, each.target)
        own = moved_path(each.path, paths)
        if wanted is None or own is None or targets.get(own) == moved_path(wanted, paths):
            continue
        message = f"{each.path} reads {wanted}, which would not be made before it; let it read something else first"
        faults.append(Diagnostic("TIL228", message, each.source.span))
    if faults:
        raise ArgumentError(tuple(faults))
    return after


def _renumbered(formula: Formula, paths: Mapping[str, str | None]) -> Iterator[Change]:
    """Yield the changes of sources that name steps by number."""
    for each in references_of(formula):
        if isinstance(each.source.name, int) and each.target is not None:
            match = _NUMBERS.fullmatch(paths[each.target] or "")
            if match is not None and int(match[1]) + 1 != each.source.name:
                yield Change(*_extent(each), f"${int(match[1]) + 1}")


def _extent(reference: Reference) -> tuple[int, int]:
    assert reference.source.span is not None  # it was parsed
    return reference.source.span.start, reference.source.span.stop


def moved_path(path: str, paths: Mapping[str, str | None]) -> str | None:
    """Return the path of an element of a step after an edit."""
    step = path
    while step and step not in paths:
        step = step.rpartition(".")[0]
    if not step:
        return path  # of an input or a result
    new = paths[step]
    return None if new is None else new + path[len(step) :]


def _split(path: str) -> tuple[str, int]:
    """Return the path around a step, with a dot, and its number there."""
    prefix, _, number = path.rpartition("steps[")
    return prefix, int(number[:-1])


def _paths(formula: Formula, tree: _Node) -> dict[str, str | None]:
    """Return the paths of all steps after an edit, by those before it; None for those that are gone."""
    before = dict.fromkeys(path for path, step, _ in places_of(formula) if step is not None)
    return {**before, **dict(tree.moved(""))}


@attrs.define(eq=False, repr=False)
class _Node:
    """A step by its path before the edit, or the formula; mutated like the text, it gives the paths afterwards."""

    path: str | None
    inner: list[_Node] = attrs.field(factory=list)

    @classmethod
    def of(cls, formula: Formula) -> _Node:
        root = cls(None)
        for path, step, _ in places_of(formula):
            if step is not None:
                siblings, _ = root.find(path)
                siblings.append(cls(path))
        return root

    def find(self, path: str) -> tuple[list[_Node], int]:
        """Return the list that a step stands in, and its place there."""
        *around, last = map(int, _NUMBERS.findall(path))
        node = self
        for number in around:
            node = node.inner[number]
        return node.inner, last

    def insert(self, path: str, nodes: list[_Node]) -> None:
        siblings, place = self.find(path)
        siblings[place:place] = nodes

    def remove(self, path: str) -> None:
        siblings, place = self.find(path)
        del siblings[place]

    def move(self, path: str, target: str) -> None:
        siblings, place = self.find(path)
        node = siblings[place]
        there, before = self.find(target)
        del siblings[place]
        there.insert(before - (there is siblings and before > place), node)

    def moved(self, prefix: str) -> Iterator[tuple[str, str]]:
        """Yield the paths of steps before the edit with those after it."""
        for number, node in enumerate(self.inner):
            path = f"{prefix}steps[{number}]"
            if node.path is not None:
                yield node.path, path
            yield from node.moved(f"{path}.")


def _lines(text: str, formula: Formula, path: str) -> tuple[int, int]:
    """Return the start of a step's lines, comments included, and their end."""
    node = element_at(formula, path)
    if not isinstance(node, Step | Repeat) or node.span is None:
        raise ArgumentError.of("TIL221", f"{path!r} is no step")
    start = text.rfind("\n", 0, node.span.start) + 1
    left = len(node.comments)
    while left:
        start = text.rfind("\n", 0, start - 1) + 1
        left -= text[start : text.find("\n", start)].lstrip(BLANKS).startswith("//")
    end = text.find("\n", node.span.stop)
    return start, len(text) if end < 0 else end + 1


def _place(text: str, formula: Formula, path: str) -> tuple[int, str]:
    """Return the start of a step at ``path``, and its indentation."""
    known = dict(elements(formula))
    if path in known:
        start, _ = _lines(text, formula, path)
        node = known[path]
        assert node.span is not None
        line = text.rfind("\n", 0, node.span.start) + 1
        return start, text[line : node.span.start]
    group, _, last = path.rpartition("steps[")
    count = sum(1 for each in known if re.fullmatch(re.escape(f"{group}steps[") + r"[0-9]+\]", each))
    if last != f"{count}]":
        raise no_element(path, known)
    if count:
        before = f"{group}steps[{count - 1}]"
        _, indent = _place(text, formula, before)
        return _lines(text, formula, before)[1], indent
    if not group:
        return _end(text, formula), ""
    around = element_at(formula, group[:-1])
    if not isinstance(around, Repeat) or around.span is None:
        raise no_element(path, known)
    _, indent = _place(text, formula, group[:-1])
    return text.rfind("\n", 0, around.span.stop) + 1, indent + INDENT


def _end(text: str, formula: Formula) -> int:
    """Return the place of the first step of a formula without steps: before its results."""
    if not formula.results:
        return len(text)
    assert formula.results[0].span is not None
    return text.rfind("\n", 0, formula.results[0].span.start) + 1
