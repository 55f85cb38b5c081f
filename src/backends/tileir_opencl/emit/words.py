"""Words that mean something in OpenCL C."""

from __future__ import annotations

import re
from typing import Final

HELPERS: Final = ("magnitude", "rounded", "copy_async", "wait_for_copies", "multiply")
"""First words of the names of helper functions."""

_PATTERN: Final = re.compile(
    r"(?:u?(?:char|short|int|long)|float|double|half|bool|quad)(?:\d+(?:x\d+)?)?"
    r"|(?:convert|as|native|half|get|atomic|atom|async|read|write|work_group|sub_group|ndrange|is|cl|intel)_\w*"
    r"|half\d+_in_\w*|v(?:load|store)\w*|is(?:nan|inf|finite|normal|equal|notequal|less|greater|ordered|unordered)\w*"
    r"|(?:size|ptrdiff|u?intptr|event|sampler|image\w*|queue|clk_event|ndrange|reserve_id)_t"
    rf"|(?:{'|'.join(HELPERS)})_\w*"
    r"|(?:CLK?|M|FLT|DBL|HALF|FP|S?CHAR|UCHAR|U?SHRT|U?INT|U?LONG)_\w*"
    r"|_\w*"
)

_WORDS: Final = frozenset(
    """
    auto break case char const continue default do double else enum extern float for goto if inline int long register
    restrict return short signed sizeof static struct switch typedef union unsigned void volatile while true false
    complex imaginary generic kernel global local private constant pipe uniform read_only write_only read_write
    linux unix NAN INFINITY MAXFLOAT HUGE_VAL HUGE_VALF NULL
    abs abs_diff add_sat all any barrier bitselect ceil clamp clz cos cross degrees distance dot erf exp exp2 fabs fdim
    floor fma fmax fmin fmod fract hadd hypot ilogb isnan ldexp length log log2 log10 mad mad24 mad_hi mad_sat max
    maxmag mem_fence min minmag mix modf mul24 mul_hi nan normalize pow popcount powr prefetch printf radians remainder
    remquo rhadd rint root rotate round rsqrt select shuffle sign sin sincos sinh smoothstep sqrt step sub_sat tan tanh
    tgamma trunc upsample vec_step cosh acos asin atan atan2 asinh acosh atanh cbrt copysign erfc exp10 expm1 frexp
    lgamma log1p logb nextafter pown rootn sinpi cospi tanpi acospi asinpi atanpi atan2pi trunc signbit
    commit_copies load_matrices load_turned round_tf32
    """.split()  # noqa: SIM905  # a list of strings would be longer than the screen
)
"""Keywords, macros, and functions that a variable would hide, the last four of them helpers."""


def means_nothing(name: str) -> bool:
    """Return whether a word is free for variables."""
    return name not in _WORDS and _PATTERN.fullmatch(name) is None
