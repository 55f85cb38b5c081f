"""Kernels that multiply by one fragment of the table, and what they compute."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from tileir.semtree.text.parser import parse_kernel

if TYPE_CHECKING:
    from tileir.core.fragments import Fragment, Layout
    from tileir.semtree.ir import KernelFunction

_TEXT: Final = """
kernel product(inout {c} C[{sums}], in {a} A[{left}],
    in {b} B[{right}]) grid(1) group({group}) index(i32) {{
  i32 t = local_id(0);
  local {a} l[{left}] align(128);
  local {b} r[{right}] align(128);
  private {c} s[{held}] align(64);
  for (i32 i = t; i < {left}; i += {group}) {{
    l[{swizzled}] = A[i];
  }}
  for (i32 j = t; j < {right}; j += {group}) {{
    r[j] = B[j];
  }}
  for (i32 e = 0; e < {held}; e += 1) {{
    s[e] = C[t * {held} + e];
  }}
  barrier();
  multiply({name}) tile({m}, {n}, {k}) s[0] += l[t / {threads} * {one}] strides({k}, 1){swizzle} * r[0] strides({right_strides});
  for (i32 o = 0; o < {held}; o += 1) {{
    C[t * {held} + o] = s[o];
  }}
}}
"""  # noqa: E501

_HELD: Final = """
kernel product(inout {c} C[{sums}], in {a} A[{left}],
    in {b} B[{right}]) grid(1) group({group}) index(i32) {{
  i32 t = local_id(0);
  private {a} l[{own}] align(64);
  local {b} r[{right}] align(128);
  private {c} s[{held}] align(64);
  for (i32 j = t; j < {right}; j += {group}) {{
    r[j] = B[j];
  }}
  for (i32 e = 0; e < {held}; e += 1) {{
    s[e] = C[t * {held} + e];
  }}
  barrier();
  for (i32 n = 0; n < 2; n += 1) {{
    for (i32 e = 0; e < {own}; e += 1) {{
      l[e] = A[(n * {group} + t) * {own} + e];
    }}
    multiply({name}) tile({m}, {n}, {k}) s[0] += l[0] strides(0, 0) held({own}) * r[0] strides({n}, 1);
  }}
  for (i32 o = 0; o < {held}; o += 1) {{
    C[t * {held} + o] = s[o];
  }}
}}
"""


def held_product_by(fragment: Fragment, tile: tuple[int, int, int]) -> KernelFunction:
    """Return a kernel of two groups of a fragment's threads, which hold the left operands of two products each."""
    (m, n, k), threads = tile, fragment.threads
    a, b, c = (dtype.value for dtype in fragment.dtypes)
    return parse_kernel(
        _HELD.format(
            a=a, b=b, c=c, sums=2 * m * n, left=4 * m * k, right=k * n, held=m * n // threads, own=m * k // threads,
            group=2 * threads, name=fragment.name, m=m, n=n, k=k,
        )
    )  # fmt: skip


def held_arrays_for(
    fragment: Fragment, tile: tuple[int, int, int], *, seed: int
) -> tuple[list[np.ndarray], np.ndarray]:
    """Return C, A and B as the kernel takes them, each thread's elements of A side by side, and what C becomes."""
    (m, n, k), generator = tile, np.random.default_rng(seed)
    left, right, sums = (
        generator.integers(0 if dtype.value.startswith("u") else -4, 5, shape)
        for dtype, shape in zip(fragment.dtypes, ((2, 2 * m, k), (k, n), (2 * m, n)), strict=True)
    )
    assert fragment.a.layout is not None
    order = _order(fragment, fragment.sums, "mn", (m, n))
    own = _order(fragment, fragment.a.layout, "mk", (m, k))
    given = (sums[order], np.stack([each[own] for each in left]), right)
    numpy = [dtype.numpy for dtype in (fragment.c.dtype, fragment.a.dtype, fragment.b.dtype)]
    arrays = [np.ascontiguousarray(each).reshape(-1).astype(kind) for each, kind in zip(given, numpy, strict=True)]
    return arrays, (sums + (left[0] + left[1]) @ right)[order].astype(numpy[0])


def _order(fragment: Fragment, layout: Layout, axes: str, extents: tuple[int, int]) -> tuple[np.ndarray, ...]:
    """Return the rows and columns of what the threads of two groups hold of two tiles, one below the other."""
    units = [fragment.mnk["mnk".index(axis)] for axis in axes]
    places = [
        (high + layout.at(axes[0], thread, e), wide + layout.at(axes[1], thread, e))
        for half in (0, extents[0])
        for thread in range(fragment.threads)
        for high in range(half, half + extents[0], units[0])
        for wide in range(0, extents[1], units[1])
        for e in range(layout.held)
    ]
    return tuple(np.array(places).T)


def product_by(fragment: Fragment, tile: tuple[int, int, int], *, turned: bool, swizzled: bool) -> KernelFunction:
    """Return a kernel of two groups of a fragment's threads, each of which multiplies some rows.

    Each thread has what it holds of C side by side. ``turned``, B is stored by columns. ``swizzled``, A lies in local
    memory as wgmma takes it.
    """
    (m, n, k), threads = tile, fragment.threads
    mask = 0x70 // fragment.a.dtype.itemsize if swizzled else 0
    a, b, c = (dtype.value for dtype in fragment.dtypes)
    return parse_kernel(
        _TEXT.format(
            a=a, b=b, c=c, sums=2 * m * n, left=2 * m * k, right=k * n, held=m * n // threads, group=2 * threads,
            name=fragment.name, m=m, n=n, k=k, threads=threads, one=m * k,
            swizzled=f"i ^ (i >> 3) & {mask}" if mask else "i", swizzle=f" swizzle(3, {mask})" if mask else "",
            right_strides=f"1, {k}" if turned else f"{n}, 1",
        )
    )  # fmt: skip


def arrays_for(
    fragment: Fragment, tile: tuple[int, int, int], *, turned: bool, seed: int
) -> tuple[list[np.ndarray], np.ndarray]:
    """Return C, A and B as the kernel takes them, small whole numbers, and what C becomes."""
    (m, n, k), generator = tile, np.random.default_rng(seed)
    left, right, sums = (
        generator.integers(0 if dtype.value.startswith("u") else -4, 5, shape)
        for dtype, shape in zip(fragment.dtypes, ((2 * m, k), (k, n), (2 * m, n)), strict=True)
    )
    order = _order(fragment, fragment.sums, "mn", (m, n))
    given = (sums[order], left, right.T if turned else right)
    numpy = [dtype.numpy for dtype in (fragment.c.dtype, fragment.a.dtype, fragment.b.dtype)]
    arrays = [np.ascontiguousarray(each).reshape(-1).astype(kind) for each, kind in zip(given, numpy, strict=True)]
    return arrays, (sums + left @ right)[order].astype(numpy[0])
