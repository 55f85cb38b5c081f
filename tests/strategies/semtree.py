"""Hypothesis strategies of the kernels that :mod:`fuzz.semtree.kernel_case` makes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import strategies as st

from fuzz.semtree.kernel_case import KernelCase, function, kernel
from strategies.tile import Drawn
from tileir.core.dtype import DType

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn

__all__ = ["KernelCase", "function_cases", "kernel_cases"]


@st.composite
def kernel_cases(
    draw: DrawFn, dtypes: tuple[DType, ...] = tuple(DType), depth: int = 2, threads: bool = False
) -> KernelCase:
    """Draw a legal kernel without races and undefined reads, and arrays to run it on."""
    return kernel(Drawn(draw), dtypes, depth, threads=threads)


@st.composite
def function_cases(draw: DrawFn, dtypes: tuple[DType, ...] = (DType.F32, DType.F64)) -> KernelCase:
    """Draw a kernel that applies one mathematical function to an array, as scalars or vectors."""
    return function(Drawn(draw), dtypes)
