"""Kernels in semtree text with rarely lowered features, all of which must run.

``$index`` is the index type of the device. All are checked against the semtree's interpreter.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

PLAIN: Final[Mapping[str, str]] = MappingProxyType(
    {
        "grid of three axes": """
kernel k(out i32 O[30] align(4) noalias) grid(2, 3, 5) index($index) {
  $index a = group_id(0) * 15;
  $index b = group_id(1) * 5;
  O[a + b + group_id(2)] = cast<i32>(a * 2 + b * 3 + group_id(2));
}""",
        "loops inside loops": """
kernel k(out i32 O[12] align(4) noalias, in i32 A[12] align(4) noalias) grid(1) index($index) {
  for ($index i = 0; i < 3; i += 1) {
    i32 s = i32(0);
    for ($index j = 0; j < 4; j += 1) unroll {
      s = s + A[i * 4 + j];
      O[i * 4 + j] = s;
    }
  }
}""",
        "a loop whose bounds and step vary": """
kernel k(out i32 O[10] align(4) noalias, in i32 A[10] align(4) noalias) grid(10) index($index) {
  i32 s = i32(0);
  for ($index i = group_id(0); i < 10; i += 3) {
    s = s + A[i];
  }
  O[group_id(0)] = s;
}""",
        "prefetches, beyond the end too": """
kernel k(out i32 O[10] align(4) noalias, in i32 A[10] align(4) noalias) grid(1) index($index) {
  for ($index i = 0; i < 10; i += 1) {
    prefetch A[i + 4];
    O[i] = A[i] + i32(1);
  }
}""",
        "conditions": """
kernel k(out f32 O[16] align(4) noalias, in f32 A[16] align(4) noalias) grid(16) index($index) {
  f32 x = A[group_id(0)];
  if (x > 0.5) {
    O[group_id(0)] = x * 2.0;
  } else {
    if (group_id(0) < 7) {
      O[group_id(0)] = -x;
    } else {
      O[group_id(0)] = x == x ? 1.0 : 0.0;
    }
  }
}""",
        "vectors of neighbours": """
kernel k(out f32 O[32] align(4) noalias, in f32 A[32] align(4) noalias) grid(8) index($index) {
  f32x4 v = A[group_id(0) * 4 : 4];
  f32x4 w = fma(v, f32x4(2.0), broadcast<4>(A[group_id(0)]));
  O[group_id(0) * 4 : 4] = max(w, v) + (v > f32x4(0.0) ? v : -v);
}""",
        "vectors of far elements": """
kernel k(out i32 O[16] align(4) noalias, in i32 A[16] align(4) noalias) grid(4) index($index) {
  $indexx4 at = ramp<4>(group_id(0), 4);
  i32x4 v = A[at];
  O[at] = v * i32x4(3) + broadcast<4>(reduce<add>(v));
}""",
        "stores over what other lanes read": """
kernel k(inout i32 A[32] align(4) noalias, in i32 B[32] align(4) noalias) grid(1) index($index) {
  A[1 : 8] = A[0 : 8];
  i32x8 v = A[8 : 8];
  A[9 : 8] = B[0 : 8];
  A[0 : 8] = v;
  A[24 : 4] = broadcast<4>(A[26]);
  A[ramp<4>($index(20), 0)] = B[8 : 4];
}""",
        "a private array": """
kernel k(out i64 O[8] align(8) noalias, in i64 A[8] align(8) noalias) grid(2) index($index) {
  private i64 p[4] align(64);
  for ($index i = 0; i < 4; i += 1) {
    p[i] = A[group_id(0) * 4 + i] * i64(5);
  }
  for ($index j = 0; j < 4; j += 1) {
    O[group_id(0) * 4 + j] = p[3 - j];
  }
}""",
        "a parameter that is read and written": """
kernel k(inout f64 A[9] align(8) noalias, in u8 B[9] align(1) noalias) grid(9) index($index) {
  A[group_id(0)] = A[group_id(0)] + cast<f64>(B[group_id(0)]);
}""",
        "halves and bool in memory": """
kernel k(out f16 H[8] align(2) noalias, out bf16 B[8] align(2) noalias, out bool C[8] align(1) noalias,
    in f32 A[8] align(4) noalias) grid(8) index($index) {
  f32 x = A[group_id(0)];
  H[group_id(0)] = cast<f16>(x) * f16(1.5);
  B[group_id(0)] = cast<bf16>(x) + bf16(0.5);
  C[group_id(0)] = cast<bool>(x);
}""",
        "bits of floats": """
kernel k(out u32 O[8] align(4) noalias, in f32 A[8] align(4) noalias) grid(8) index($index) {
  u32 bits = bitcast<u32>(A[group_id(0)]);
  O[group_id(0)] = (bits >> u32(23)) ^ (bits << u32(5)) | ~bits & u32(255);
}""",
        "mathematical functions": """
kernel k(out f32 O[8] align(4) noalias, in f32 A[8] align(4) noalias) grid(8) index($index) {
  f32 x = A[group_id(0)];
  O[group_id(0)] = exp(x) + tanh(x) * sin(x) - sqrt(abs(x));
}""",
    }
)
"""Name and text of kernels whose groups have one thread."""

SCRATCH: Final[Mapping[str, str]] = MappingProxyType(
    {
        "a scratch array": """
kernel k(out f32 O[64] align(4) noalias, in f32 A[64] align(4) noalias) grid(4) index($index) {
  scratch f32 s[16] align(64);
  for ($index i = 0; i < 16; i += 1) {
    s[15 - i] = A[group_id(0) * 16 + i];
  }
  for ($index j = 0; j < 16; j += 1) {
    O[group_id(0) * 16 + j] = s[j] * 2.0;
  }
}""",
    }
)
"""Kernels for targets with scratch memory."""

GROUPS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "a group turns its elements round": """
kernel k(out i32 O[32] align(4) noalias, in i32 A[32] align(4) noalias) grid(4) group(8) index($index) {
  local i32 t[8] align(64);
  t[local_id(0)] = A[group_id(0) * 8 + local_id(0)];
  barrier();
  O[group_id(0) * 8 + local_id(0)] = t[7 - local_id(0)] + i32(1);
}""",
        "a group sums by halves": """
kernel k(out f32 O[3] align(4) noalias, in f32 A[48] align(4) noalias) grid(3) group(16) index($index) {
  local f32 t[16] align(64);
  t[local_id(0)] = A[group_id(0) * 16 + local_id(0)];
  barrier();
  if (local_id(0) < 8) {
    t[local_id(0)] = t[local_id(0)] + t[local_id(0) + 8];
  }
  barrier();
  if (local_id(0) < 4) {
    t[local_id(0)] = t[local_id(0)] + t[local_id(0) + 4];
  }
  barrier();
  if (local_id(0) < 2) {
    t[local_id(0)] = t[local_id(0)] + t[local_id(0) + 2];
  }
  barrier();
  if (local_id(0) < 1) {
    O[group_id(0)] = t[0] + t[1];
  }
}""",
        "a group of two axes turns a tile": """
kernel k(out i32 O[64] align(4) noalias, in i32 A[64] align(4) noalias) grid(2, 2) group(4, 4) index($index) {
  local i32 t[20] align(64);
  t[local_id(0) * 5 + local_id(1)] = A[(group_id(0) * 4 + local_id(0)) * 8 + group_id(1) * 4 + local_id(1)];
  barrier();
  O[(group_id(1) * 4 + local_id(0)) * 8 + group_id(0) * 4 + local_id(1)] = t[local_id(1) * 5 + local_id(0)];
}""",
        "a barrier in a loop, and a variable across it": """
kernel k(out i32 O[16] align(4) noalias, in i32 A[16] align(4) noalias) grid(2) group(8) index($index) {
  local i32 t[8] align(64);
  i32 s = cast<i32>(local_id(0));
  for ($index i = 0; i < 4; i += 1) {
    t[local_id(0)] = A[group_id(0) * 8 + local_id(0)] * cast<i32>(i + 1);
    barrier();
    s = s + t[(local_id(0) + i) % 8];
    barrier();
  }
  O[group_id(0) * 8 + local_id(0)] = s;
}""",
        "asynchronous copies": """
kernel k(out f32 O[64] align(4) noalias, in f32 A[256] align(64) noalias) grid(1) group(16) index($index) {
  local f32 t[128] align(64);
  f32 s = 0.0;
  async t[local_id(0) * 4 : 4] = A[local_id(0) * 4 : 4];
  async_commit();
  for ($index i = 1; i < 4; i += 1) {
    async t[i % 2 * 64 + local_id(0) * 4 : 4] = A[i * 64 + local_id(0) * 4 : 4];
    async_commit();
    async_wait(1);
    barrier();
    s = s + t[(i + 1) % 2 * 64 + 63 - local_id(0)];
    barrier();
  }
  async_wait(0);
  O[local_id(0) * 4 : 4] = t[64 + local_id(0) * 4 : 4] + broadcast<4>(s);
}""",
        "a product of matrices": """
kernel k(out f32 O[512] align(8) noalias, in f16 A[512] align(64) noalias, in f16 B[512] align(64) noalias) grid(1)
    group(32) index($index) {
  local f16 l[512] align(64);
  local f16 r[512] align(64);
  private f32 s[16] align(64);
  for ($index i = 0; i < 2; i += 1) {
    async l[i * 256 + local_id(0) * 8 : 8] = A[i * 256 + local_id(0) * 8 : 8];
    async r[i * 256 + local_id(0) * 8 : 8] = B[i * 256 + local_id(0) * 8 : 8];
  }
  async_commit();
  for ($index e = 0; e < 16; e += 1) {
    s[e] = cast<f32>(e);
  }
  async_wait(0);
  barrier();
  multiply(mma_m16n8k16_f16) tile(16, 32, 16) s[0] += l[16] strides(32, 1) * r[0] strides(32, 1);
  for ($index n = 0; n < 4; n += 1) {
    for ($index h = 0; h < 2; h += 1) {
      O[(local_id(0) / 4 + h * 8) * 32 + n * 8 + local_id(0) % 4 * 2 : 2] = s[n * 4 + h * 2 : 2];
    }
  }
}""",
        "a product of swizzled and transposed matrices": """
kernel k(out f32 O[256] align(8) noalias, in bf16 A[512] align(64) noalias, in bf16 B[512] align(64) noalias) grid(1)
    group(32) index($index) {
  local bf16 l[512] align(64);
  local bf16 r[512] align(64);
  private f32 s[8] align(64);
  for ($index i = 0; i < 2; i += 1) {
    $index p = i * 256 + local_id(0) * 8;
    l[p : 8] = A[p : 8];
    r[p ^ ((p >> 3) & 24) : 8] = B[p : 8];
  }
  for ($index e = 0; e < 8; e += 1) {
    s[e] = 0.0;
  }
  barrier();
  multiply(mma_m16n8k16_bf16) tile(16, 16, 32) s[0] += l[0] strides(1, 16) * r[0] strides(1, 32) swizzle(3, 24);
  for ($index n = 0; n < 2; n += 1) {
    for ($index h = 0; h < 2; h += 1) {
      O[(local_id(0) / 4 + h * 8) * 16 + n * 8 + local_id(0) % 4 * 2 : 2] = s[n * 4 + h * 2 : 2];
    }
  }
}""",
        "a product of a folded matrix": """
kernel k(out f32 O[256] align(8) noalias, in bf16 A[256] align(64) noalias, in bf16 B[256] align(64) noalias) grid(1)
    group(32) index($index) {
  local bf16 l[256] align(64);
  local bf16 r[256] align(64);
  private f32 s[8] align(64);
  $index p = local_id(0) * 8;
  l[p : 8] = A[p : 8];
  r[p / 16 * 8 + p / 8 % 2 * 128 : 8] = B[p : 8];
  for ($index e = 0; e < 8; e += 1) {
    s[e] = 0.0;
  }
  barrier();
  multiply(mma_m16n8k16_bf16) tile(16, 16, 16) s[0] += l[0] strides(16, 1) * r[0] strides(16, 1) fold(8, 16, 16);
  for ($index n = 0; n < 2; n += 1) {
    for ($index h = 0; h < 2; h += 1) {
      O[(local_id(0) / 4 + h * 8) * 16 + n * 8 + local_id(0) % 4 * 2 : 2] = s[n * 4 + h * 2 : 2];
    }
  }
}""",
        "a product of matrices in f32": """
kernel k(out f32 O[128] align(8) noalias, in f32 A[256] align(64) noalias, in f32 B[128] align(64) noalias) grid(1)
    group(32) index($index) {
  local f32 l[256] align(64);
  local f32 r[128] align(64);
  private f32 s[4] align(64);
  async l[local_id(0) * 4 : 4] = A[local_id(0) * 4 : 4];
  async l[128 + local_id(0) * 4 : 4] = A[128 + local_id(0) * 4 : 4];
  async r[local_id(0) * 4 : 4] = B[local_id(0) * 4 : 4];
  async_commit();
  s[0 : 4] = f32x4(0.0);
  async_wait(0);
  barrier();
  multiply(mma_m16n8k8_f32) tile(16, 8, 16) s[0] += l[0] strides(16, 1) * r[0] strides(8, 1);
  for ($index h = 0; h < 2; h += 1) {
    O[(local_id(0) / 4 + h * 8) * 8 + local_id(0) % 4 * 2 : 2] = s[h * 2 : 2];
  }
}""",
    }
)
"""Kernels for targets whose groups may have at least 16 threads."""
