"""The bracket form of formulas, ``[gaussian:{1}(sigma=2)]``: passes without line ends, as strings in programs.

A pass reads the original where it names no input, while a line of the text of formulas reads the line before.
docs/formula.md has the grammar.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import ClassVar, Final

import attrs

from tileir.core import Diagnostic, Source as Text, Span, VerifyError
from tileir.core.text.lexing import END, AbandonError, everything
from tileir_formula.ir import (
    Argument,
    Boundary,
    Condition,
    Formula,
    Mask,
    Merge,
    Near,
    Number,
    Region,
    Repeat,
    Source,
    Step,
    Subject,
    Value,
    Weights,
)
from tileir_formula.references import sources_of
from tileir_formula.text.lexer import COMMENT, NAME, NUMBER, Lexer
from tileir_formula.text.printer import value_text
from tileir_formula.text.reading import PREVIOUS, WORDS, Reader

SIGNS: Final = "=(){}[],;%:<>~?!&"
"""Signs of the form, besides names, numbers and colours."""

PIXEL: Final = "pixel"


def parse(text: str, name: str = "<formula>") -> Formula:
    """Read a formula in the bracket form.

    Raises:
        ParseError: All faults of the text, with their places.
        ArgumentError: TIL105, the text is too long.

    """
    source = Text(text, name)
    return everything(_BracketReader, source, _BracketReader.formula)


@attrs.define(eq=False, repr=False)
class _BracketReader(Reader):
    lexer = staticmethod(partial(Lexer.of, signs=SIGNS, lines=False))
    opening: ClassVar[str] = "<"
    closing: ClassVar[str] = ">"

    inputs: tuple[str, ...] = ("image",)

    def formula(self) -> Formula:
        comments: list[str] = []
        while self.token.kind == COMMENT:
            comments.append(self.advance().text[2:].strip())
        steps: list[Step] = []
        try:
            if self.skip("{"):
                self.inputs = self.list(self.new_name)
                self.expect("}", "',' or '}'")
        except AbandonError:
            self.recover()
        while self.token.kind != END:
            try:
                steps.append(self.step(len(steps)))
            except AbandonError:
                self.recover()
        whole = Span(self.source, 0, len(self.source.text))
        return Formula(tuple(steps), self.inputs, (), tuple(comments), span=whole)

    def recover(self) -> None:
        """Skip to the end of the pass."""
        while self.token.kind not in ("]", END):
            self.advance()
        self.skip("]")

    def step(self, before: int) -> Step:
        """Read a pass, given the number of passes before it."""
        if self.token.kind == COMMENT:
            comment = self.advance()
            self.wrong(comment, "comments are of the whole formula, and stand above its first pass")
            raise AbandonError
        start = self.expect("[", "'[' of a pass").start
        name, function = None, self.new_name()
        if self.skip("="):
            name, function = function, self.new_name()
        self.expect(":", "':' behind the function")
        sources = self.sources(before)
        arguments = self.arguments()
        boundary = Boundary(self.expect_word(*(each.value for each in Boundary))) if self.skip("~") else None
        condition = self.condition() if self.skip("?") else None
        merge = self.merge() if self.token.kind == "&" else None
        self.expect("]", "the rest of the pass, or ']'")
        return Step(function, name, sources, arguments, boundary, condition, merge, span=self.span_from(start))

    def sources(self, before: int) -> tuple[Source, ...]:
        """Read the inputs of a pass: by default the original; none for the result of the pass before."""
        start = self.token.start
        if not self.skip("{"):
            return (Source(self.inputs[0], span=Span(self.source, start, start)),) if before else ()
        if self.at_word(PREVIOUS):
            word = self.advance()
            if not before:
                self.wrong(word, "no pass is before the first one", "TIL223")
            self.expect("}", "'}'; previous stands alone")
            return ()
        found = self.list(self.reference)
        self.expect("}", "',' or '}'")
        return found

    def reference(self) -> Source:
        """Read a pass by its number or name, or an original by its name."""
        token = self.token
        if token.kind == NUMBER:
            number = self.number().value
            if not isinstance(number, int) or number < 1:
                self.wrong(token, "passes are counted from 1", "TIL104")
                number = 1
            return Source(number, span=self.span_from(token.start))
        self.expect(NAME, "an original, or a pass by its number or name")
        if token.text in WORDS:
            self.wrong(token, f"{token.text!r} is a word of the language")
        return Source(token.text, span=self.span_from(token.start))

    def one_source(self) -> Source:
        if not self.at("{"):
            raise self.unexpected("'{' and what is read")
        return self.inside(self.reference, "{}")

    def condition(self) -> Condition:
        start = self.token.start
        negated = self.skip("!")
        word = self.expect_word(*(each.value for each in Subject), "mask", "region")
        if word == "mask":
            return Mask(self.one_source(), negated, span=self.span_from(start))
        if word == "region":
            self.expect("(")
            top, left, height = (self.side() for _ in range(3))
            width = self.number()
            self.expect(")", "')'; a region has a top, a left, a height and a width")
            return Region(top, left, height, width, negated, span=self.span_from(start))
        self.expect("<")
        limit = self.number()
        relative = self.skip("%")
        self.expect(":", "'%' or ':'")
        reference = None if self.skip_word(PIXEL) else self.colour()
        return Near(Subject(word), limit, relative, reference, negated, span=self.span_from(start))

    def side(self) -> Number:
        number = self.number()
        self.expect(",", "','; a region has a top, a left, a height and a width")
        return number

    def merge(self) -> Merge:
        start = self.advance().start
        function = self.new_name()
        arguments = self.arguments()
        return Merge(function, self.one_source(), arguments, span=self.span_from(start))


def to_text(formula: Formula) -> str:
    """Return the bracket form of a formula, a pass in each line; :func:`parse` reads it as an equal formula.

    Raises:
        VerifyError: TIL227, the form cannot hold groups, results, or comments of steps; one diagnostic for each.

    """
    faults = list(_faults(formula))
    if faults:
        raise VerifyError(tuple(faults))
    lines = [f"// {comment}".rstrip() for comment in formula.comments]
    if formula.inputs != ("image",):
        lines.append(f"{{{','.join(formula.inputs)}}}")
    for before, step in enumerate(formula.steps):
        assert isinstance(step, Step)  # groups are faults
        lines.append(_pass(step, before, formula.inputs[0]))
    return "".join(f"{line}\n" for line in lines)


def _faults(formula: Formula) -> Iterator[Diagnostic]:
    for step in formula.steps:
        if isinstance(step, Repeat):
            yield Diagnostic("TIL227", "the bracket form has no groups; write their steps out", step.span)
            continue
        if step.comments or step.remark is not None:
            message = (
                "the bracket form has comments of the whole formula only; take this one away, "
                "or write `inputs` and the names of the inputs below it"
            )
            yield Diagnostic("TIL227", message, step.span)
        for _, source in sources_of(step):
            if source.name == PREVIOUS:
                yield Diagnostic("TIL227", "the bracket form has no groups, and no last round of one", source.span)
    for source in formula.results:
        message = "the bracket form returns what its last pass makes; let that be the result"
        yield Diagnostic("TIL227", message, source.span)
    remarked = formula.input_remark is not None or formula.result_remark is not None
    if formula.last_comments or formula.result_comments or remarked:
        yield Diagnostic("TIL227", "the bracket form has comments above the first pass only", formula.span)


def _pass(step: Step, before: int, original: str) -> str:
    parts = [
        "[",
        "" if step.name is None else f"{step.name}=",
        f"{step.function}:",
        _sources(step.sources, before, original),
        _arguments(step.arguments),
        "" if step.boundary is None else f"~{step.boundary.value}",
        "" if step.condition is None else f"?{_condition(step.condition)}",
    ]
    if step.merge is not None:
        parts += ["&", step.merge.function, _arguments(step.merge.arguments), _braced(step.merge.source)]
    return "".join([*parts, "]"])


def _sources(sources: tuple[Source, ...], before: int, original: str) -> str:
    if not before and not sources:
        return ""
    if before and [source.name for source in sources] == [original]:
        return ""
    return _braced(*sources) if sources else f"{{{PREVIOUS}}}"


def _braced(*sources: Source) -> str:
    return f"{{{','.join(str(source.name) for source in sources)}}}"


def _arguments(arguments: tuple[Argument, ...]) -> str:
    listed = ",".join(f"{each.name}={_value(each.value)}" for each in arguments)
    return f"({listed})" if arguments else ""


def _value(value: Value) -> str:
    text = value_text(value)
    return f"<{text[1:-1]}>" if isinstance(value, Weights) else text


def _condition(condition: Condition) -> str:
    negation = "!" if condition.negated else ""
    match condition:
        case Mask():
            return f"{negation}mask{_braced(condition.source)}"
        case Region():
            sides = (condition.top, condition.left, condition.height, condition.width)
            return f"{negation}region({','.join(map(value_text, sides))})"
        case _:
            unit = "%" if condition.relative else ""
            reference = PIXEL if condition.reference is None else value_text(condition.reference)
            return f"{negation}{condition.subject.value}<{value_text(condition.limit)}{unit}:{reference}"
