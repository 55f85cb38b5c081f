"""Kernels that show what OpenCL source looks like, one for each part of the language."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

KERNELS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "guarded": """
// L = log(X)
kernel guarded(out f32 L[260] align(128) noalias, in f32 X[260] align(128) noalias) grid(9) group(32) index(i32) {
  i32 gid = group_id(0);
  i32 tid = local_id(0);
  if (gid * 32 + tid < 260) {
    L[gid * 32 + tid] = log(X[gid * 32 + tid]);
  }
}
""",
        "dot": """
// S[i : 64] = +(A[i, k] * B[k])
kernel dot(out f32 S[64] align(128) noalias, in f32 A[4096] align(128) noalias, in f32 B[64] align(4) noalias)
    grid(8, 8) group(4, 8) index(i32) {
  local f32 stage[64] align(64);
  private f32 sum[8] align(32);
  for (i32 n = 0; n < 2; n += 1) {
    i32 place = n * 32 + local_id(0) + local_id(1) * 4;
    stage[place] = B[min(max(place, 0), 63)];
  }
  barrier();
  sum[0 : 8] = f32x8(0.0);
  i32 row = group_id(0) * 512 + group_id(1) * 64;
  for (i32 k = 0; k < 64; k += 8) unroll {
    sum[0 : 8] = fma(A[row + k : 8], stage[k : 8], sum[0 : 8]);
  }
  if (local_id(0) + local_id(1) < 1) {
    S[group_id(0) * 8 + group_id(1)] = reduce<add>(sum[0 : 8]);
  } else {
    f32 rest = sum[0];
    rest = rest + 1.0;
    sum[0] = max(rest, sum[1]);
  }
}
""",
        "memory": """
kernel memory(
    inout f32 P[256] align(128) noalias, in f32 Q[256] align(4) noalias, inout i32 N[256] align(16), in u8 I[64]
) grid(4) index(i32) {
  i32 at = group_id(0) * 16;
  P[at : 4] = Q[at : 4];
  P[at + 4 : 2] = Q[ramp<2>(at, 3)];
  P[at + 6 : 3] = Q[at : 3];
  N[ramp<4>(at, 2)] = N[at : 4] + N[at + 8 : 4];
  i32x4 places = cast<i32x4>(I[at : 4]) & i32x4(15);
  P[places + broadcast<4>(at)] = Q[places];
  P[at : 16] = max(P[at : 16], broadcast<16>(Q[at]));
}
""",
        "narrow": """
kernel narrow(out f16 H[64] align(128), in bf16 B[64] align(128), inout bool T[64], out i8 C[64]) grid(4) index(i32) {
  local f16 shared[16] align(64);
  private f16 mine[4] align(64);
  i32 at = group_id(0) * 16;
  f16 h = cast<f16>(B[at]) + f16(0.1);
  mine[0] = h;
  shared[1] = mine[0] * h;
  H[at : 4] = cast<f16x4>(B[at : 4] * B[at + 4 : 4]);
  H[at + 4] = shared[1];
  T[at] = h < f16(1.0) & T[at + 1];
  T[at + 4 : 4] = B[at : 4] != bf16x4(0.0) | T[at + 4 : 4];
  C[at] = cast<i8>(h) / cast<i8>(B[at]);
  C[at + 1] = cast<i8>(h) << cast<i8>(B[at]) + i8(100);
}
""",
        "integers": """
kernel integers(inout i32 X[64], inout u32 U[64], inout i64 L[64]) grid(64) index(i32) {
  i32 g = group_id(0);
  i32 x = X[g];
  u32 u = U[g];
  X[g] = x * x + g * 3 - abs(x) % (x - 7) + x / 3;
  U[g] = (u << u32(7) | u >> u32(25)) ^ u * u32(2654435769);
  L[g] = max(L[g], i64(-9223372036854775808)) >> cast<i64>(x);
  X[g] = min(max(x, -5), 5);
  U[g] = bitcast<u32>(cast<f32>(u) * 0.1);
}
""",
        "chunks": """
kernel chunks(out f32 P[128] align(128) noalias, in f32 Q[128] align(128) noalias) grid(4) index(i32) {
  f32x32 x = Q[group_id(0) * 32 : 32];
  f32x32 y = x * broadcast<32>(reduce<max>(x));
  P[group_id(0) * 32 : 32] = y < f32x32(2.0) ? y : x;
}
""",
        "staged": """
kernel staged(out f64 R[512] align(8), in f64 A[512] align(8)) grid(2, 4) group(64) index(i32) {
  scratch f64 rows[64] align(64);
  scratch bool marks[64] align(1);
  rows[local_id(0)] = A[group_id(0) * 256 + group_id(1) * 64 + local_id(0)];
  marks[local_id(0)] = rows[local_id(0)] > f64(0.5);
  barrier();
  i32 other = 63 - local_id(0);
  if (marks[other]) {
    R[group_id(0) * 256 + group_id(1) * 64 + local_id(0)] = rows[other] / f64(3.0) + f64(inf);
  }
}
""",
        "names": """
// a comment that ends with \\
// and one with ü
kernel `it's a kernel`(
    out f32 float[4], in f32 `in`[4], in f32 half_of[4], in f32 `a b`[4], in f32 v_a_b[4]
) index(i32) {
  f32 max = `in`[0] + half_of[1];
  f32 native_exp = max + `a b`[2] * v_a_b[2];
  float[3] = max(max, native_exp);
}
""",
    }
)
