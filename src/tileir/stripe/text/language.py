"""Spelling of the fields of nodes in Stripe text; the forms of their classes define the rest.

The texts of blocks, indices and refinements depend on the style, and on their context:
:mod:`tileir.stripe.text.printer` writes them, and :mod:`tileir.stripe.text.parser` reads them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from textwrap import indent
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, assert_never

from tileir.core import DType, Span, attrs
from tileir.core.text.forms import FormReader, Language, Part, Spelling
from tileir.core.text.writer import bytes_of_text, bytes_text, listed
from tileir.stripe.dtypes import DTYPES, SPELLING, intrinsic_dtype
from tileir.stripe.ir import Convert, Intrinsic, Load, LoadIndex, Location, Special, Tags, TagValue, TensorShape, While
from tileir.stripe.text.token_parser import NAME

if TYPE_CHECKING:
    from tileir.stripe.text.token_parser import TokenParser

_KINDS: Final = MappingProxyType({"int": DType.I32, "float": DType.F32})
"""Dtypes of constants for which the reference writes only their kind, and means 32 bits."""


@attrs.define(eq=False, repr=False)
class Reader(FormReader):
    """Reader of statements at a cursor; the dtypes of the preceding ``scalars`` determine those of intrinsics."""

    cursor: TokenParser
    scalars: Mapping[str, DType | None]

    def made(self, kind: type, values: dict[str, Any], start: Span) -> Any:
        """Return a node, whose dtype its text may leave out."""
        if kind is LoadIndex:
            values["dtype"] = values["dtype"] or DType.I32
        elif kind is Intrinsic:
            values["dtype"] = values["dtype"] or self._natural(values, start)
        elif kind is Convert:
            if len(values["input"]) != 1:
                raise self.cursor.report_and_abandon("a conversion takes one scalar", start, "TIL102")
            (values["input"],) = values["input"]
        return kind(**values)

    def _natural(self, values: Mapping[str, Any], start: Span) -> DType:
        """Return the dtype of an intrinsic that follows from its operands."""
        op, cursor = values["op"], self.cursor
        found = intrinsic_dtype(op, [self.scalars.get(name) for name in values["inputs"]])
        if found is None and not cursor.faults.found:  # after a fault an operand may be missing for that reason
            message = f"the operands do not tell the dtype: write it, as in {op.value}:fp32(…)"
            raise cursor.report_and_abandon(message, start, "TIL102")
        return found or DType.F32

    def suffix(self, values: dict[str, Any]) -> None:
        """Read ``:dtype`` if present."""
        values["dtype"] = self.cursor.suffixed(":", self.cursor.dtype)

    def arguments(self, values: dict[str, Any]) -> None:
        """Read ``(name, …, key=value, …)``."""
        parameters: list[tuple[str, TagValue]] = []

        def argument() -> str:
            word = self.cursor.name()
            if self.cursor.skip("="):
                parameters.append((word, self.cursor.literal()))
                return ""
            return word

        values["inputs"] = tuple(filter(None, self.cursor.enclosed(argument)))
        values["parameters"] = tuple(parameters)

    def constant_dtype(self) -> DType:
        """Read the dtype of a constant, or its kind."""
        token = self.cursor.token
        return (
            _KINDS[self.cursor.advance().text] if token.kind == NAME and token.text in _KINDS else self.cursor.dtype()
        )

    def content(self) -> bytes:
        """Read bytes between quotes."""
        start = self.cursor.token
        try:
            return bytes_of_text(self.cursor.string())
        except ValueError as error:
            raise self.cursor.hopeless(start, str(error)) from None


def _suffix(natural: DType | None, node: LoadIndex | Intrinsic) -> str:
    """Return the dtype if it differs from the natural one."""
    usual = DType.I32 if isinstance(node, LoadIndex) else natural
    return "" if node.dtype is usual else f":{SPELLING[node.dtype]}"


def _arguments(_: object, node: Special) -> str:
    return f"({listed((*node.inputs, *(f'{key}={literal_text(value)}' for key, value in node.parameters)))})"


def _bytes(_: object, shape: TensorShape) -> str:
    return byte_text(shape.elements * shape.dtype.itemsize)


def _lines(writer: object, nodes: tuple[Any, ...]) -> str:
    return "".join(f"\n{indent(LANGUAGE.text(writer, node), '  ')}" for node in nodes)


def byte_text(count: int) -> str:
    """Return a number of bytes for people: ``48 B``, ``1.5 KiB``."""
    size, units = float(count), ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
    for unit in units[:-1]:
        if size < 1024:
            return f"{_two_decimals(size)} {unit}"
        size /= 1024
    return f"{_two_decimals(size)} {units[-1]}"


def _two_decimals(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")


def literal_text(value: TagValue) -> str:
    """Return the text of a value."""
    match value:
        case None:
            return "none"
        case bool():
            return "true" if value else "false"
        case str():
            return json.dumps(value)
        case int() | float():
            return repr(value)
        case _:
            assert_never(value)


def tags_text(tags: Tags) -> str:
    """Return ``#name`` and ``#name=value``, each followed by a blank."""
    said = ((name, "" if value is None else f"={literal_text(value)}") for name, value in tags.items)
    return "".join(f"#{name}{value} " for name, value in said)


def location_text(location: Location) -> str:
    """Return ``<device[units…]/…>``; empty for an unspecified location."""
    return f"<{'/'.join(LANGUAGE.text(None, device) for device in location)}>" if location else ""


LANGUAGE: Final = Language(
    types=MappingProxyType(
        {
            "str": Spelling(lambda _, name: str(name), lambda reader: reader.cursor.name()),
            "int": Spelling(lambda _, value: str(value), lambda reader: reader.cursor.integer()),
            "Affine": Spelling(lambda _, affine: str(affine), lambda reader: reader.cursor.affine()),
            "DType": Spelling(lambda _, dtype: SPELLING[dtype], lambda reader: reader.cursor.dtype()),
            "kind": Spelling(lambda _, dtype: SPELLING[dtype], Reader.constant_dtype),
            "bool | int | float": Spelling(lambda _, value: literal_text(value), lambda r: r.cursor.number_literal()),
            "scalar": Spelling(lambda _, name: f"${name}", lambda reader: reader.cursor.scalar()),
            "scalars": Spelling(
                lambda _, names: f"({', '.join([f'${name}' for name in names])})",
                lambda reader: reader.cursor.enclosed(reader.cursor.scalar),
            ),
            "operand": Spelling(
                lambda _, name: f"(${name})", lambda reader: reader.cursor.enclosed(reader.cursor.scalar)
            ),
            "names": Spelling(lambda _, names: f"({', '.join(names)})", lambda reader: reader.cursor.names()),
            "Content": Spelling(lambda _, data: f'"{bytes_text(data)}"', Reader.content),
            "location": Spelling(lambda _, location: location_text(location), lambda reader: reader.cursor.location()),
            "times": Spelling(lambda _, times: str(times) if isinstance(times, While) else f"repeat {times}"),
            "lines": Spelling(_lines),
        }
    ),
    words=MappingProxyType({"cast": MappingProxyType({f"cast_{word}": dtype for word, dtype in DTYPES.items()})}),
    parts=MappingProxyType(
        {
            "suffix": Part(_suffix, Reader.suffix),
            "arguments": Part(_arguments, Reader.arguments),
            "bytes": Part(_bytes),
        }
    ),
    lists_end=False,
)
Reader.language = LANGUAGE
DEFINITIONS: Final = LANGUAGE.openings((Load, LoadIndex, Intrinsic, Convert))
"""Definitions of scalars by their first words, and the fields that these determine."""
