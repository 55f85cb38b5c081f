"""Words, signs and precedence of the kernel text, shared by printer and parser."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from tileir.core import COMPUTING, DType, Op
from tileir.core.text.pratt import Infix, Operators
from tileir.semtree.ir import BufferRole, GridLevel, LoopKind, ParamAccess, Region, Type
from tileir.semtree.text.language import EXPRESSIONS, STATEMENTS

TERNARY_RANK: Final = 1
UNARY_RANK: Final = 12

OPERATORS: Final = Operators(
    tuple(
        Infix(op, sign, rank)
        for op, sign, rank in (
            (Op.BIT_OR, "|", 3),
            (Op.BIT_XOR, "^", 4),
            (Op.BIT_AND, "&", 5),
            (Op.CMP_EQ, "==", 6),
            (Op.CMP_NE, "!=", 6),
            (Op.CMP_LT, "<", 7),
            (Op.CMP_LE, "<=", 7),
            (Op.CMP_GT, ">", 7),
            (Op.CMP_GE, ">=", 7),
            (Op.BIT_LEFT, "<<", 8),
            (Op.BIT_RIGHT, ">>", 8),
            (Op.ADD, "+", 9),
            (Op.SUB, "-", 9),
            (Op.MUL, "*", 10),
            (Op.DIV, "/", 10),
            (Op.MOD, "%", 10),
        )
    ),
    TERNARY_RANK,
)
"""The infix operations and the conditional; all of them associate to the left, as in C."""

PREFIX: Final[Mapping[Op, str]] = MappingProxyType({Op.NEG: "-", Op.BIT_NOT: "~"})

GRID_FUNCTIONS: Final[Mapping[GridLevel, str]] = MappingProxyType(
    {GridLevel.GROUP: "group_id", GridLevel.LOCAL: "local_id"}
)

CALLS: Final[Mapping[str, Op]] = MappingProxyType(
    {op.value: op for op in COMPUTING if op not in OPERATORS.known and op not in PREFIX and op is not Op.COND}
)
"""The operations that are written as calls, by name."""

TYPE_PATTERN: Final = re.compile(rf"({'|'.join(d.value for d in DType)})(?:x([1-9][0-9]{{0,5}}))?")
PLAIN_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

_KEYWORDS: Final = frozenset(
    {
        "program", "launch", "repeat", "while", "kernel", "grid", "group", "index", "operations", "align", "noalias",
        "for", "if", "else", "role", "true", "false", "nan", "inf", *EXPRESSIONS, *STATEMENTS,
        *(member.value for kind in (BufferRole, ParamAccess, Region, LoopKind) for member in kind),
        *GRID_FUNCTIONS.values(),
    }
)  # fmt: skip


def is_reserved(word: str) -> bool:
    """Return whether a plain word must be quoted to be a name."""
    return word in _KEYWORDS or TYPE_PATTERN.fullmatch(word) is not None


def spelt_name(name: str) -> str:
    """Return a name as the text writes it: between back quotes if it is reserved or not a plain word."""
    plain = PLAIN_NAME.fullmatch(name) is not None and not is_reserved(name)
    return name if plain else f"`{name}`"


def type_of(word: str) -> Type | None:
    """Return the type that a word names, such as ``f32x16``; None if there is none."""
    match = TYPE_PATTERN.fullmatch(word)
    if match is None or match[2] == "1":
        return None
    return Type(DType(match[1]), int(match[2] or 1))
