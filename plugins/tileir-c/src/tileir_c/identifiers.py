"""Names of programs as identifiers of C."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tileir.core.text.names import NameScope

_WORDS: Final = (
    # C11, and the additions of C++: a header is for both
    "auto break case char const continue default do double else enum extern float for goto if inline int long "
    "register restrict return short signed sizeof static struct switch typedef union unsigned void volatile while "
    "alignas alignof and and_eq asm bitand bitor bool catch char8_t char16_t char32_t class co_await co_return "
    "co_yield compl concept consteval constexpr constinit const_cast decltype delete dynamic_cast explicit export "
    "false friend mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected public "
    "reinterpret_cast requires static_assert static_cast template this thread_local throw true try typeid "
    "typename using virtual wchar_t xor xor_eq "
    # extensions and predefined macros of some compilers
    "typeof fortran linux unix i386 "
    # names in the emitted text itself
    "scratch workspace memory begin end group stdin stdout stderr errno assert offsetof "
    "INFINITY NAN NULL EOF BUFSIZ UINT8_C UINT16_C UINT32_C UINT64_C INT8_C INT16_C INT32_C INT64_C "
    "int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t size_t "
    "sqrt sqrtf floor floorf ceil ceilf rint rintf trunc truncf fabs fabsf fma fmaf fmod fmodf main "
)

RESERVED: Final = frozenset(_WORDS.split())
"""Words that identifiers must not be."""

_MATHEMATICS: Final = (
    "acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp2 expm1 fabs fdim floor "
    "fma fmax fmin fmod frexp hypot ilogb ldexp lgamma llrint llround log log10 log1p log2 logb lrint lround modf "
    "nan nearbyint nextafter nexttoward pow remainder remquo rint round scalbln scalbn sin sinh sqrt tan tanh "
    "tgamma trunc gamma j0 j1 jn y0 y1 yn exp10 pow10 drem scalb significand sincos "
)
_FUNCTIONS: Final = (
    "abort abs accept access aligned_alloc alarm atexit atof atoi atol bind bsearch calloc chmod clearerr clock "
    "close connect ctime difftime div dup exit fclose feof ferror fflush fgetc fgets fopen fork fprintf fputc "
    "fputs fread free freopen fscanf fseek ftell fwrite getc getchar getenv gets index kill labs ldiv link listen "
    "localtime longjmp lseek malloc memchr memcmp memcpy memmove memset mktime nice open pause perror pipe poll "
    "printf putc putchar puts qsort raise rand read realloc recv remove rename rewind rindex scanf select send "
    "setjmp signal sleep socket sprintf srand stat strcat strchr strcmp strcpy strlen strtod strtol sync system "
    "time times tmpfile ungetc unlink usleep vprintf wait write "
)

_MACRO: Final = re.compile(
    r"(FLT|DBL|LDBL|FP|HUGE|MATH|SIZE|PTRDIFF|WCHAR|WINT|SIG|RAND|EXIT|SEEK|TMP|FOPEN|FILENAME|MB|ATOMIC|TILE|NPY)_\w+"
    r"|U?INT\w*_(MIN|MAX)|E[A-Z0-9]{2,}|(tile|npy)_\w+"
)
"""Macros of C's headers, and possible definitions in the emitted text."""

_STANDARD: Final = frozenset(
    # functions of C's library, and of POSIX where their names are words that a program may have
    [f"{name}{kind}" for name in _MATHEMATICS.split() for kind in ("", "f", "l")] + _FUNCTIONS.split()
)


def identifier(name: str) -> str:
    """Return a C identifier similar to ``name``; different names may get equal identifiers."""
    word = "".join(char if char.isascii() and (char.isalnum() or char == "_") else "_" for char in name)
    if not word or word[0].isdigit() or word[0] == "_":
        return f"v{word}"
    return f"{word}_" if word in RESERVED or _MACRO.fullmatch(word) else word


def identifiers(names: Iterable[str], scope: NameScope) -> dict[str, str]:
    """Return an identifier for each name, all different and fresh in ``scope``."""
    return {name: scope.fresh(identifier(name)) for name in dict.fromkeys(names)}


def function_name(name: str) -> str:
    """Return an identifier for a linkable function that no system function has."""
    word = identifier(name)
    return f"{word}_" if word in _STANDARD else word
