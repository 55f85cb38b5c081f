"""Names of programs as identifiers of C."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tileir.core.names import NameScope

_WORDS: Final = (
    # C11, and what C++ adds: a header is for both
    "auto break case char const continue default do double else enum extern float for goto if inline int long "
    "register restrict return short signed sizeof static struct switch typedef union unsigned void volatile while "
    "alignas alignof and and_eq asm bitand bitor bool catch char8_t char16_t char32_t class co_await co_return "
    "co_yield compl concept consteval constexpr constinit const_cast decltype delete dynamic_cast explicit export "
    "false friend mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected public "
    "reinterpret_cast requires static_assert static_cast template this thread_local throw true try typeid "
    "typename using virtual wchar_t xor xor_eq "
    # extensions and predefined macros of some compilers
    "typeof fortran linux unix i386 "
    # what the emitted text itself says
    "scratch workspace begin end group lane width "
    "INFINITY NAN NULL INT8_MIN INT8_MAX INT16_MIN INT16_MAX INT32_MIN INT32_MAX INT64_MIN INT64_MAX "
    "UINT8_MAX UINT16_MAX UINT32_MAX UINT64_MAX UINT64_C INT64_C "
    "int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t size_t "
    "sqrt sqrtf floor floorf ceil ceilf rint rintf trunc truncf fabs fabsf fma fmaf fmod fmodf memcpy main"
)

RESERVED: Final = frozenset(_WORDS.split())
"""Words that a name of a program must not be spelt as."""

_PREFIX: Final = "tile_"


def identifier(name: str) -> str:
    """Return a C identifier that looks like ``name`` as far as possible; different names may get equal ones."""
    word = "".join(char if char.isascii() and (char.isalnum() or char == "_") else "_" for char in name)
    if not word or word[0].isdigit() or word[0] == "_" or word.startswith(_PREFIX):
        return f"v{word}"
    return f"{word}_" if word in RESERVED else word


def identifiers(names: Iterable[str], scope: NameScope) -> dict[str, str]:
    """Return an identifier for each name, all different and fresh in ``scope``."""
    return {name: scope.fresh(identifier(name)) for name in dict.fromkeys(names)}
