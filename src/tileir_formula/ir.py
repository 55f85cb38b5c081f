"""Nodes of a formula: a sequence of steps, each a function of earlier results. Spans do not count for equality."""

from __future__ import annotations

import enum
from typing import TypeAlias

from tileir.core import Span, attrs, call_of, counted, span_field
from tileir_formula.node import Node, TopLevelNode


@attrs.frozen(cache_hash=True, repr=False)
class Number(Node):
    """A number; a whole one has no fraction in the text either."""

    value: int | float
    span: Span | None = span_field()


@attrs.frozen(cache_hash=True, repr=False)
class Word(Node):
    """A choice among words, or a flag: ``yes`` or ``no``."""

    word: str
    span: Span | None = span_field()


@attrs.frozen(cache_hash=True, repr=False)
class Colour(Node):
    """Red, green and blue, from 0 to 255 each."""

    red: int
    green: int
    blue: int
    span: Span | None = span_field()


@attrs.frozen(cache_hash=True, repr=False)
class Weights(Node):
    """The weights of a window, row by row; all rows have one length."""

    rows: tuple[tuple[float, ...], ...]
    span: Span | None = span_field()


Value: TypeAlias = Number | Word | Colour | Weights


@attrs.frozen(cache_hash=True, repr=False)
class Argument(Node):
    """``name = value``: a parameter that is not at its default."""

    name: str
    value: Value
    span: Span | None = span_field()


@attrs.frozen(cache_hash=True, repr=False)
class Source(Node):
    """Source of a step: an input of the formula, or an earlier step by its name or its number, counted from 1."""

    name: str | int
    span: Span | None = span_field()


class Subject(enum.Enum):
    """Subject of a condition: the value that it looks at."""

    INPUT = "input"
    OUTPUT = "output"
    ORIGINAL = "original"


@attrs.frozen(cache_hash=True, repr=False)
class Near(Node):
    """``subject within limit of reference``: the step applies where that holds.

    Attributes:
        subject: Whose value is compared.
        limit: The most that each channel may be away.
        relative: Whether the limit is in percent of the pixel that would be replaced.
        reference: A colour, or None for the pixel that would be replaced.

    """

    subject: Subject
    limit: Number
    relative: bool
    reference: Colour | None
    negated: bool = False
    span: Span | None = span_field()


@attrs.frozen(cache_hash=True, repr=False)
class Mask(Node):
    """``mask source``: the step applies where a picture of one channel is not 0."""

    source: Source
    negated: bool = False
    span: Span | None = span_field()


@attrs.frozen(cache_hash=True, repr=False)
class Region(Node):
    """``region(top, left, height, width)``: the step applies inside a rectangle, in pixels."""

    top: Number
    left: Number
    height: Number
    width: Number
    negated: bool = False
    span: Span | None = span_field()


Condition: TypeAlias = Near | Mask | Region


@attrs.frozen(cache_hash=True, repr=False)
class Merge(Node):
    """``with function(arguments) source``: the step's result, merged with a second picture."""

    function: str
    source: Source
    arguments: tuple[Argument, ...] = ()
    span: Span | None = span_field()


class Boundary(enum.Enum):
    """Values outside of a picture."""

    CLAMP = "clamp"
    MIRROR = "mirror"
    WRAP = "wrap"
    CONSTANT = "constant"


@attrs.frozen(cache_hash=True, repr=False)
class Step(Node):
    """``name = function(arguments) of sources outside boundary where condition with merge``.

    Attributes:
        function: A function of one picture, or of two.
        name: Its name for later steps; None where it has only a number.
        sources: Its sources; empty for the result of the previous step, or the first input.
        arguments: Parameters that are not at their defaults.
        boundary: The boundary of its windows; None for the function's own rule.
        condition: The region of its effect; elsewhere the input stays.
        merge: The merge of the result.
        comments: The lines above it, without slashes.
        remark: The comment after it, without slashes.
    """

    function: str
    name: str | None = None
    sources: tuple[Source, ...] = ()
    arguments: tuple[Argument, ...] = ()
    boundary: Boundary | None = None
    condition: Condition | None = None
    merge: Merge | None = None
    comments: tuple[str, ...] = ()
    remark: str | None = None
    span: Span | None = span_field()


@attrs.frozen(cache_hash=True, repr=False)
class Repeat(Node):
    """``repeat count until change below limit { steps }``: the steps read the result of their last round.

    Attributes:
        count: Largest number of rounds.
        steps: The repeated steps.
        limit: The largest change of any value with which it stops; None where it does not stop early.
        comments: The lines above it.
        remark: The comment after its first line.
        last_comments: The lines above its closing brace.
    """

    count: Number
    steps: tuple[Step | Repeat, ...]
    limit: Number | None = None
    comments: tuple[str, ...] = ()
    remark: str | None = None
    last_comments: tuple[str, ...] = ()
    span: Span | None = span_field()


@attrs.frozen(cache_hash=True, repr=False)
class Formula(TopLevelNode):
    """A computation.

    Attributes:
        steps: In the order in which they run.
        inputs: Names of the originals.
        results: Its results; empty for that of the last step.
        comments: The lines above its inputs.
        input_remark: The comment after its inputs.
        result_comments: The lines above its results.
        result_remark: The comment after its results.
        last_comments: The lines at its end.
    """

    steps: tuple[Step | Repeat, ...]
    inputs: tuple[str, ...] = ("image",)
    results: tuple[Source, ...] = ()
    comments: tuple[str, ...] = ()
    input_remark: str | None = None
    result_comments: tuple[str, ...] = ()
    result_remark: str | None = None
    last_comments: tuple[str, ...] = ()
    span: Span | None = span_field()

    def summary(self) -> str:
        """Return the inputs, and how many steps there are, with those of groups as one."""
        return f"{call_of('', self.inputs)}: {counted(len(self.steps), 'step')}"
