"""Conversions of f16 for processors that have no instructions for them, such as x86-64-v2.

LLVM then calls functions of a compiler's library, which the process may not have. These are in LLVM IR, so that they
take and return values as LLVM's own calls do.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from tileir_llvm.modules import object_code

NAMES: Final = (b"__extendhfsf2", b"__truncsfhf2", b"__truncdfhf2")
"""What object code calls that needs them."""


@cache
def half_conversions(features: tuple[str, ...]) -> bytes:
    """Return object code of the functions, each of which rounds once, to nearest even.

    Raises:
        BackendError: TIL805, LLVM refused it.

    """
    return object_code(HALF_CODE, features, optimise=False)


HALF_CODE: Final = """\
define float @__extendhfsf2(half %value) nounwind {
  %short = bitcast half %value to i16
  %bits = zext i16 %short to i32
  %signed = and i32 %bits, 32768
  %sign = shl i32 %signed, 16
  %magnitude = and i32 %bits, 32767
  %moved = shl i32 %magnitude, 13
  %small = bitcast i32 %moved to float
  %scaled = fmul float %small, 0x46F0000000000000  ; 2^112, the distance of the exponents; exact for subnormals too
  %finite = bitcast float %scaled to i32
  %special = or i32 %moved, 2139095040
  %is_special = icmp uge i32 %magnitude, 31744
  %is_nan = icmp ugt i32 %magnitude, 31744
  %quiet = or i32 %special, 4194304
  %other = select i1 %is_nan, i32 %quiet, i32 %special
  %chosen = select i1 %is_special, i32 %other, i32 %finite
  %result = or i32 %chosen, %sign
  %float = bitcast i32 %result to float
  ret float %float
}

define half @__truncsfhf2(float %value) nounwind {
  %bits = bitcast float %value to i32
  %high = lshr i32 %bits, 16
  %sign = and i32 %high, 32768
  %magnitude = and i32 %bits, 2147483647
  %absolute = bitcast i32 %magnitude to float
  %added = fadd float %absolute, 0.5  ; whose last place is the step of subnormals
  %added_bits = bitcast float %added to i32
  %subnormal = sub i32 %added_bits, 1056964608
  %last = lshr i32 %magnitude, 13
  %odd = and i32 %last, 1
  %rebased = add i32 %magnitude, -939520001  ; the distance of the exponents, and half of the last place less one
  %rounded = add i32 %rebased, %odd
  %normal = lshr i32 %rounded, 13
  %is_normal = icmp uge i32 %magnitude, 947912704
  %finite = select i1 %is_normal, i32 %normal, i32 %subnormal
  %is_large = icmp uge i32 %magnitude, 1199566848
  %bounded = select i1 %is_large, i32 31744, i32 %finite
  %is_nan = icmp ugt i32 %magnitude, 2139095040
  %payload = and i32 %last, 511
  %nan = or i32 %payload, 32256
  %chosen = select i1 %is_nan, i32 %nan, i32 %bounded
  %result = or i32 %chosen, %sign
  %short = trunc i32 %result to i16
  %half = bitcast i16 %short to half
  ret half %half
}

; By way of a float that is rounded to odd, which rounding it again to half as many digits cannot tell from the double.
define half @__truncdfhf2(double %value) nounwind {
  %near = fptrunc double %value to float
  %back = fpext float %near to double
  %bits = bitcast float %near to i32
  %lowest = and i32 %bits, 1
  %is_even = icmp eq i32 %lowest, 0
  %is_inexact = fcmp one double %back, %value
  %moves = and i1 %is_even, %is_inexact
  %positive = call double @llvm.fabs.f64(double %value)
  %found = call double @llvm.fabs.f64(double %back)
  %is_beyond = fcmp ogt double %found, %positive
  %step = select i1 %is_beyond, i32 -1, i32 1
  %moved = add i32 %bits, %step
  %chosen = select i1 %moves, i32 %moved, i32 %bits
  %odd = bitcast i32 %chosen to float
  %half = call half @__truncsfhf2(float %odd)
  ret half %half
}
declare double @llvm.fabs.f64(double)
"""
