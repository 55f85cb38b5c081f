"""Grammar shared by lexer, parser, printer and verifier: words, spelling of names, ranks of operators, limits."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from tileir.core.ops import Aggregation, Combination
from tileir.core.text.pratt import Infix, Operators, Side
from tileir.tile.ir import BinaryOperator

MAX_DEPTH: Final = 200
"""Greatest depth of expressions, so that walks over them may be recursive."""
MAX_NODES: Final = 2**18
"""Greatest number of nodes of an expression, in which shared nodes count once for each use."""
MAX_INTEGER: Final = 2**64 - 1
"""Greatest integer literal."""
MAX_SCANS: Final = 8
"""Greatest depth of nested scans."""
MAX_NAME: Final = 1000
"""Greatest number of characters of a name."""
LONGEST_CONSTANT: Final = 256
"""Greatest number of elements of a constant array in a printed text; longer ones are printed as digests."""
DIGEST: Final = "sha256_"
"""Prefix of the digest of an array."""

RESERVED: Final = frozenset({"function", "polynomial", "expression", "contraction", "default", "no_defract"})
"""The lower-case words that are no index names unless they begin with a ``$``."""

_WORD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*'?")
_PLAIN_TENSOR: Final = re.compile(r"[A-Z][A-Za-z0-9_]*'?")
_INDEX: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PLAIN_INDEX: Final = re.compile(r"[a-z][A-Za-z0-9_]*")


def is_tensor_name(name: str) -> bool:
    """Return whether a text can spell ``name`` as a tensor or dimension: any printable text that is not empty."""
    return name.isprintable() and 0 < len(name) <= MAX_NAME


def is_index_name(name: str) -> bool:
    """Return whether a text can spell ``name`` as an index variable."""
    return _INDEX.fullmatch(name) is not None


def spell_tensor(name: str) -> str:
    """Return the spelling of a tensor or dimension: with ``#`` unless it starts with a capital, or quoted."""
    if _PLAIN_TENSOR.fullmatch(name):
        return name
    return f"#{name}" if _WORD.fullmatch(name) else quoted(name)


def quoted(name: str) -> str:
    """Return ``name`` in quotes, with a backslash before quotes and backslashes."""
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def spell_index(name: str) -> str:
    """Return the spelling of an index: with ``$`` unless it starts in lower case and is not reserved."""
    return name if _PLAIN_INDEX.fullmatch(name) and name not in RESERVED else f"${name}"


def spell_word(name: str) -> str:
    """Return a function name, or the parameter of an attribute, which may have either case."""
    return name if _PLAIN_TENSOR.fullmatch(name) else spell_index(name)


_LOOSEST_FIRST: Final = (
    "^",
    "|",
    "&",
    "== !=",
    "< <= > >=",
    "<< >>",
    "+ -",
    "* /",
)

CONDITIONAL_RANK: Final = 1
UNARY_RANK: Final = 2 + len(_LOOSEST_FIRST)
_UNCHAINED: Final = ("== !=", "< <= > >=")
OPERATORS: Final = Operators(
    tuple(
        Infix(BinaryOperator(sign), sign, rank, Side.NEITHER if signs in _UNCHAINED else Side.LEFT)
        for rank, signs in enumerate(_LOOSEST_FIRST, start=2)
        for sign in signs.split()
    ),
    CONDITIONAL_RANK,
)
"""Precedences of infix operators. ``^ | &`` bind weaker than comparisons, and ``^`` is weakest; ``a < b < c`` is an
error. All others associate to the left.
"""

POLYNOMIAL_OPERATORS: Final = (BinaryOperator.ADD, BinaryOperator.SUB, BinaryOperator.MUL, BinaryOperator.DIV)
"""The infix operators of index polynomials."""
POLYNOMIALS: Final = OPERATORS.only(POLYNOMIAL_OPERATORS)
"""Their table."""

AGGREGATIONS: Final[Mapping[str, Aggregation]] = MappingProxyType(
    {
        "+": Aggregation.SUM,
        "*": Aggregation.PROD,
        ">": Aggregation.MAX,
        "<": Aggregation.MIN,
        "=": Aggregation.ASSIGN,
    }
)
"""Aggregations by the sign in front of the parenthesis."""

COMBINATIONS: Final[Mapping[str, Combination]] = MappingProxyType(
    {"+": Combination.ADD, "*": Combination.MUL, "==": Combination.EQ}
)
"""Combinations of two inputs by the sign between them."""
