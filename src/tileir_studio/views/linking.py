"""Links from lines of a stage to the statements of the program: by spans, names and comments, never by guessing.

A typed operation has the span of its statement. A Stripe block and a kernel carry a comment for each operation that
they compute, and variables the names of values, as far down as C and OpenCL C; other code has the names of kernels.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from tileir.core import Span, attrs
from tileir.semtree.ir import KernelFunction
from tileir.stripe.text.comments import tile_text
from tileir.tile.ir import Function
from tileir.tile.text.parser import parse
from tileir.typed import ir as typed
from tileir.typed.ir import Constant, Marker, Scan
from tileir_studio.design.checking import statement_places
from tileir_studio.views.views import Region

_TYPED: Final = re.compile(r"\s*(?:\[\[.*?\]\] )?(\w+): ")
_SCALAR: Final = re.compile(r"\s*\d+: (?:\[[^\]]*\] )?(?:#\S+ )*\$(\w+) = ")
_KERNEL: Final = re.compile(r"\s*kernel (\S+?)\($")
_DEFINITION: Final = re.compile(
    r"""define\ [^@]*@"?([^"(]+)"?\(            # LLVM
      | (?:static\ )?void\ (\w+)\(              # OpenCL C, C
      | (?:\.visible\ )?\.entry\ (\w+)          # PTX
      | ([A-Za-z_][\w.$]*):                     # assembly
    """,
    re.VERBOSE,
)
_WRITTEN: Final = re.compile(
    r"""\s*(?: (?:\w+\ )+\**(\w+)(?:\[\d+\])?(?:\ =|;|\ align|\ __attribute__)  # a declaration
         | (\w+)(?:\[.*?\])?\ \+?=\                                            # a variable, or elements of an array
         | \*\([^()]*\)\((\w+)\b )                                            # a vector in memory
    """,
    re.VERBOSE,
)
_SUFFIX: Final = re.compile(r"_(?:acc|lanes|\d+)\Z")
"""Suffixes that lowering appends to the name of a value: for sums, their lanes, and numbered copies."""

_END: Final = re.compile(r"\}|\t\.size\t")


@attrs.frozen
class Origins:
    """The statements, by number, of values and comments."""

    names: dict[str, int]
    comments: dict[str, tuple[int, ...]]

    def of_comments(self, comments: Iterable[str]) -> tuple[int, ...]:
        """Return the statements of some comments, each once and in order."""
        return tuple(sorted({number for comment in comments for number in self.comments.get(comment, ())}))


def origins(function: Function, graph: typed.Function) -> Origins:
    """Return the statements of each value of a typed function, and of the comments that its operations become."""
    places = statement_places(function)
    names: dict[str, int] = {}
    comments: dict[str, set[int]] = {}
    for operation, constants in _operations(graph):
        number = _statement(operation.span, places)
        if number is None:
            continue
        names.setdefault(operation.name, number)
        if not isinstance(operation, Marker):
            comments.setdefault(tile_text(operation, constants), set()).add(number)
    return Origins(names, {text: tuple(sorted(numbers)) for text, numbers in comments.items()})


def _operations(graph: typed.Function) -> Iterator[tuple[typed.Operation, dict[str, Constant]]]:
    """Yield all operations, also those in bodies of loops, with the constants beside them."""
    pending, seen = [graph], {id(graph)}
    while pending:
        function = pending.pop()
        constants = {each.name: each for each in function.operations if isinstance(each, Constant)}
        for operation in function.operations:
            yield operation, constants
            if isinstance(operation, Scan) and id(operation.body) not in seen:
                seen.add(id(operation.body))
                pending.append(operation.body)


def _statement(span: Span | None, places: Sequence[tuple[int, int]]) -> int | None:
    """Return the number of the statement in which a span lies."""
    if span is None:
        return None
    number = bisect_right(places, span.start, key=lambda place: place[0]) - 1
    return number if number >= 0 and span.stop <= places[number][1] else None


def tile_regions(text: str) -> tuple[Region, ...]:
    """Return the lines of each statement of a printed function."""
    function = parse(text)
    spans = [statement.span for statement in function.statements]
    return tuple(
        Region(span.line - 1, text.count("\n", 0, span.stop) + 1, (number,))
        for number, span in enumerate(spans)
        if span is not None
    )


def typed_regions(text: str, found: Origins) -> tuple[Region, ...]:
    """Return the line of each operation."""
    return tuple(_lines_by_name(text, _TYPED, found))


def _lines_by_name(text: str, pattern: re.Pattern[str], found: Origins) -> Iterator[Region]:
    for line, content in enumerate(text.split("\n")):
        match = pattern.match(content)
        if match is not None and match[1] in found.names:
            yield Region(line, line + 1, (found.names[match[1]],))


def stripe_regions(text: str, found: Origins) -> tuple[Region, ...]:
    """Return the lines of each block that has comments, and of scalars whose statements these comments name."""
    regions: list[Region] = []
    opened: list[tuple[int, list[str]]] = []
    for line, content in enumerate(text.split("\n")):
        bare = content.lstrip()
        if bare.startswith("block"):
            opened.append((max(0, line - 1), []))
        elif bare.startswith("// ") and opened:
            opened[-1][1].append(bare[3:])
        elif bare == "}" and opened:
            first, comments = opened.pop()
            statements = found.of_comments(comments)
            if statements:
                regions.append(Region(first, line + 1, statements))
        elif (match := _SCALAR.match(content)) is not None:
            number = found.names.get(match[1])
            if number is not None and any(number in found.of_comments(comments) for _, comments in opened):
                regions.append(Region(line, line + 1, (number,)))
    return _outer_first(regions)


def semtree_regions(text: str, kernels: Sequence[KernelFunction], found: Origins) -> tuple[Region, ...]:
    """Return the lines of each kernel with the comments above it."""
    regions = []
    number = -1
    first = start = 0
    for line, content in enumerate(text.split("\n")):
        if content.strip().startswith("//"):
            continue
        if _KERNEL.match(content) is not None:
            number, start = number + 1, first
        elif content == "  }" and 0 <= number < len(kernels):
            regions.append(Region(start, line + 1, found.of_comments(kernels[number].comments)))
        first = line + 1
    return _with_lines(text, regions, found)


def listing_regions(text: str, kernels: Sequence[KernelFunction], found: Origins) -> tuple[Region, ...]:
    """Return the lines of each function of generated code whose name is or contains that of a kernel.

    The lines right above it, such as comments, belong to it.
    """
    names = sorted(((kernel.name, kernel) for kernel in kernels), key=lambda pair: -len(pair[0]))
    regions = []
    head, start, kernel = 0, 0, None
    for line, content in enumerate(text.split("\n")):
        match = None if content[:1] in " \t.;#}" and ".entry" not in content else _DEFINITION.match(content)
        if match is not None:
            symbol = next(filter(None, match.groups()))
            known = next((each for name, each in names if name in symbol), None)
            if known is not None:
                start, kernel = head if kernel is None else line, known
        elif kernel is not None and _END.match(content) is not None:
            regions.append(Region(start, line + 1, found.of_comments(kernel.comments)))
            kernel = None
        if not content or _END.match(content) is not None:
            head = line + 1
    return _with_lines(text, regions, found)


def _with_lines(text: str, kernels: list[Region], found: Origins) -> tuple[Region, ...]:
    """Return kernels, and in those of several statements the lines that write the value of one of these."""
    lines = text.split("\n")
    regions = [region for region in kernels if region.statements]
    for kernel in [region for region in regions if len(region.statements) > 1]:
        for line in range(kernel.first, kernel.last):
            number = _written_by(lines[line], found)
            if number in kernel.statements:
                regions.append(Region(line, line + 1, (number,)))
    return _outer_first(regions)


def _written_by(line: str, found: Origins) -> int | None:
    """Return the statement whose value a line writes; None where that is not certain."""
    match = _WRITTEN.match(line)
    name = "" if match is None else next(filter(None, match.groups()))
    numbers: set[int] = set()
    while name:
        numbers.update({found.names[name]} if name in found.names else ())
        shorter = _SUFFIX.sub("", name)
        name = "" if shorter == name else shorter
    return numbers.pop() if len(numbers) == 1 else None


def _outer_first(regions: list[Region]) -> tuple[Region, ...]:
    return tuple(sorted(regions, key=lambda region: (region.first, -region.last)))
