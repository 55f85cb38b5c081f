"""A kernel whose warps have roles: one copies rows, four add them up, and others do nothing."""

from __future__ import annotations

from typing import Final

ROWS: Final = """
kernel rows(out f32 O[256] align(256), in f32 A[640] align(256) noalias) grid(2) group(384) index(i32) {
  i32 g = group_id(0);
  i32 t = local_id(0);
  local u64 ready[4] align(64);
  local f32 tile[128] align(64);
  local f32 back[128] align(64);
  role(0, 4) registers(160) {
    private f32 s[1] align(64);
    s[0] = 0.0;
    for (i32 k = 0; k < 5; k += 1) {
      channel receive ready[0];
      s[0] = s[0] + tile[k % 2 * 64 + (t + k) % 64];
      channel release ready[0];
    }
    back[t] = s[0];
    barrier();
    O[g * 128 + t] = back[127 - t];
  }
  role(8, 1) registers(40) {
    for (i32 n = 0; n < 5; n += 1) {
      channel acquire ready[0];
      bulk_copy ready[0] tile[n % 2 * 64] = A[0] box(1, 64) of(10, 64) by(64, 1) at(g * 5 + n, 0);
      channel send ready[0];
    }
  }
}
"""
