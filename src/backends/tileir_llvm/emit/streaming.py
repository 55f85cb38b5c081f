"""Results that are written past the caches, which would not hold them anyway.

A store to memory that no cache has reads the line before, and has another one written back. Non-temporal stores of
whole lines only write: a copy moves two thirds as much.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from typing import Final

from tileir.semtree.ir import KernelFunction, ParamAccess
from tileir_llvm.emit.memory import LINE

_PAGE: Final = 4096
_NEAR: Final = 1024
"""Loads so many bytes behind the last stores in another page wait for these: processors compare the low bits first."""

_LARGE: Final = 4096
"""Inputs of fewer elements, such as a bias, are not looked at."""


def streamed_results(kernel: KernelFunction, cache_bytes: int) -> frozenset[str]:
    """Return the results of which the last cache holds a part at most: who reads them next finds none of them there."""
    written = (param for param in kernel.params if param.access is ParamAccess.WRITE)
    return frozenset(param.name for param in written if param.size * param.dtype.itemsize >= cache_bytes)


def jump_where_they_fit(kernel: KernelFunction, streamed: Set[str]) -> Iterator[str]:
    """Yield the lines that jump to ``past`` if each streamed result begins at a line, else to ``plain``.

    Arguments are ``%a0`` and so on. By the low bits of addresses, nor may a large input begin closely before a result.
    """
    parameters = list(enumerate(kernel.params))
    results = [number for number, param in parameters if param.name in streamed]
    inputs = [n for n, param in parameters if param.access is ParamAccess.READ and param.size >= _LARGE]
    for number in (*results, *inputs):
        yield f"  %n{number} = ptrtoint ptr %a{number} to i64"
    tests = []
    for number in results:
        yield f"  %low{number} = and i64 %n{number}, {LINE - 1}"
        yield f"  %whole{number} = icmp eq i64 %low{number}, 0"
        tests.append(f"%whole{number}")
        for other in inputs:
            pair = f"{number}.{other}"
            yield f"  %apart{pair} = sub i64 %n{number}, %n{other}"
            yield f"  %behind{pair} = sub i64 %apart{pair}, 1"  # at the same place, loads are in front of stores
            yield f"  %in_page{pair} = and i64 %behind{pair}, {_PAGE - 1}"
            yield f"  %far{pair} = icmp uge i64 %in_page{pair}, {_NEAR}"
            tests.append(f"%far{pair}")
    fits = "true"
    for number, test in enumerate(tests):
        yield f"  %fits{number} = and i1 {fits}, {test}"
        fits = f"%fits{number}"
    yield f"  br i1 {fits}, label %past, label %plain"
