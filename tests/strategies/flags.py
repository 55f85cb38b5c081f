"""Kernels with flags: the last group merges, all go through phases together, and each waits for the one before."""

from __future__ import annotations

from typing import Final

LAST: Final = """
kernel last(inout u32 F[2], inout f32 P[48], out f32 O[8], in f32 A[48]) grid(6) group(8) index(i32) {
  private u32 before[1] align(64);
  i32 t = local_id(0);
  P[group_id(0) * 8 + t] = A[group_id(0) * 8 + t] * 2.0;
  arrive before[0] = F[1];
  if (before[0] == u32(5)) {
    f32 sum = 0.0;
    for (i32 g = 0; g < 6; g += 1) {
      sum = sum + P[g * 8 + (t + 1) % 8];
    }
    O[t] = sum;
    if (t == 0) {
      F[1] = u32(0);
    }
  }
}
"""

PHASES: Final = """
kernel phases(inout u32 F[2], inout f32 P[48], inout f32 O[48], in f32 A[48]) grid(6) group(8) index(i32) {
  private u32 before[1] align(64);
  i32 t = local_id(0);
  i32 g = group_id(0);
  P[g * 8 + t] = A[g * 8 + t] + 1.0;
  arrive before[0] = F[0];
  await F[0] until u32(6);
  O[g * 8 + t] = P[(g + 1) % 6 * 8 + t] * P[(g + 5) % 6 * 8 + t];
  arrive before[0] = F[1];
  await F[1] until u32(6);
  P[g * 8 + t] = O[(g + 2) % 6 * 8 + t];
}
"""

CHAIN: Final = """
kernel chain(inout u32 F[6], inout f32 S[48], out f32 O[48], in f32 A[48]) grid(6) group(8) index(i32) {
  private u32 before[1] align(64);
  i32 t = local_id(0);
  i32 g = group_id(0);
  f32 running = 0.0;
  if (g > 0) {
    await F[g - 1] until u32(1);
    running = S[(g - 1) * 8 + (t + 3) % 8];
  }
  running = running + A[g * 8 + t];
  S[g * 8 + t] = running;
  arrive before[0] = F[g];
  O[g * 8 + t] = running;
}
"""
