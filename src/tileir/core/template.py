"""Texts with parts to be filled in: ``{{ NUM_SRAM }}``, ``{{ SRAM_SIZE_KiB / NUM_SRAM }}``, and loops over units.

The language is that of jinja2, in its sandbox. Its blocks may be marked ``{% … %}`` or, as on Stripe's slides,
``[% … %]``. Values are spelt as JSON spells them, but for texts, which stand as they are. jinja2 is loaded only where
:mod:`tileir.core.template_expressions` does not do.
"""

from __future__ import annotations

import json
import re
from functools import cache
from typing import TYPE_CHECKING, Final

from tileir.core.errors import Diagnostic, TileError, fail
from tileir.core.names import nearest
from tileir.core.span import Source, Span
from tileir.core.template_expressions import FUNCTIONS, MissingError, UnsupportedError, evaluate

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jinja2.runtime import Context
    from jinja2.sandbox import SandboxedEnvironment

    from tileir.core.template_expressions import Value

_MARK: Final = re.compile(r"\{\{(?P<expression>.*?)\}\}|(?P<block>\{%|\[%|\{#)", re.DOTALL)
_SQUARE: Final = re.compile(r"\[(%.*?%)\]", re.DOTALL)
_GREATEST_POWER: Final = 64
_FILE: Final = "<template>"
"""What jinja2 calls a template that comes from no file."""


def fill(text: str, names: Mapping[str, Value], name: str = "<template>") -> str:
    """Return a text with all parts filled in; itself where there are none.

    Args:
        text: The template.
        names: What names in it stand for.
        name: What messages call the text.

    Raises:
        TileError: TIL546 for a name without a value and for what is no template or has no value, with the line.
    """
    marks = list(_MARK.finditer(text))
    if not marks:
        return text
    if any(mark["block"] for mark in marks):
        return _rendered(text, names, name)
    try:
        return _substituted(text, marks, names, name)
    except UnsupportedError:
        return _rendered(text, names, name)


def _substituted(text: str, marks: list[re.Match[str]], names: Mapping[str, Value], name: str) -> str:
    source = Source(text, name)
    parts, faults, position = [], [], 0
    for mark in marks:
        span = Span(source, *mark.span())
        parts.append(text[position : mark.start()])
        position = mark.end()
        try:
            parts.append(str(_spelt(evaluate(mark["expression"], names))))
        except MissingError as error:
            faults.append(_missing(str(error.args[0]), names, span))
        except (ArithmeticError, TypeError, ValueError) as error:
            faults.append(Diagnostic("TIL546", f"this has no value: {error}", span))
    if faults:
        raise TileError(faults)
    return "".join([*parts, text[position:]])


def _rendered(text: str, names: Mapping[str, Value], name: str) -> str:
    from jinja2 import TemplateError, TemplateSyntaxError, UndefinedError, meta

    text = _SQUARE.sub(r"{\1}", text)
    environment = _environment()
    try:
        template = environment.from_string(text)
        return template.render(dict(names))
    except TemplateSyntaxError as error:
        raise fail("TIL546", f"this is no template: {error.message}", _line(text, name, error.lineno)) from None
    except UndefinedError as error:
        used = meta.find_undeclared_variables(environment.parse(text))
        span = _line(text, name, _failed_line(error))
        unknown = sorted(used - {*names, *environment.globals})
        if not unknown:  # an attribute or item
            raise fail("TIL546", f"this has no value: {error.message}", span) from None
        raise TileError(_missing(each, names, span) for each in unknown) from None
    except (TemplateError, ArithmeticError, TypeError, ValueError, LookupError, RecursionError) as error:
        raise fail("TIL546", f"this has no value: {error}", _line(text, name, _failed_line(error))) from None


@cache
def _environment() -> SandboxedEnvironment:
    from jinja2 import StrictUndefined
    from jinja2.sandbox import SandboxedEnvironment, safe_range

    class Bounded(SandboxedEnvironment):
        intercepted_binops = frozenset(("*", "**"))

        def call_binop(self, context: Context, operator: str, left: object, right: object) -> object:
            if not isinstance(left, int | float) or not isinstance(right, int | float):
                raise TypeError(f"{operator} takes numbers")  # texts and lists would grow without bound
            if operator == "**" and not -_GREATEST_POWER <= right <= _GREATEST_POWER:
                raise ValueError(f"a power above {_GREATEST_POWER}")
            result: object = super().call_binop(context, operator, left, right)
            return result

    environment = Bounded(undefined=StrictUndefined, finalize=_spelt, keep_trailing_newline=True)
    environment.globals.clear()
    environment.globals.update(FUNCTIONS, range=safe_range)
    return environment


def _spelt(value: object) -> object:
    """Return a value as JSON spells it; a text stands as it is, and what JSON cannot spell is left alone."""
    match value:
        case str():
            return value
        case None | bool() | int() | float() | tuple() | list() | dict():
            return json.dumps(value)
        case _:
            return value


def _missing(name: str, names: Mapping[str, Value], span: Span | None) -> Diagnostic:
    return Diagnostic("TIL546", f"{name[:64]} has no value here{nearest(name, names)}", span)


def _line(text: str, name: str, number: int | None) -> Span | None:
    """Return the line of a text, without the white space around it; None where it is not known."""
    source = Source(text, name)
    if number is None or not 0 < number <= len(source.line_starts):
        return None
    start = source.line_starts[number - 1]
    line = text[start:].partition("\n")[0]
    return Span(source, start + len(line) - len(line.lstrip()), start + len(line.rstrip()))


def _failed_line(error: BaseException) -> int | None:
    """Return the line of a template at which it failed, which jinja2 puts into the traceback."""
    number, trace = None, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == _FILE:
            number = trace.tb_lineno
        trace = trace.tb_next
    return number
