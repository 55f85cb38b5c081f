"""Kernels that differ in names only become one, so that a chain of equal layers is compiled once."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import attrs

from tileir.semtree.launches import with_launches
from tileir.semtree.rewrite import kernel_names, renamed

if TYPE_CHECKING:
    from tileir.semtree.ir import KernelFunction, Program


def share_kernels(program: Program) -> Program:
    """Return a program that runs the first of each set of equal kernels; itself where no two are equal.

    Names of kernels, parameters, variables and arrays do not count, and neither do comments.
    """
    heads = [_head(kernel) for kernel in program.kernels]
    counts = Counter(heads)
    numbers: dict[object, int] = {}
    kept: list[KernelFunction] = []
    chosen: list[int] = []
    for kernel, head in zip(program.kernels, heads, strict=True):
        # Most kernels of most programs have a head of their own, and bodies need no look.
        number = numbers.setdefault(head if counts[head] == 1 else anonymous(kernel), len(kept))
        if number == len(kept):
            kept.append(kernel)
        chosen.append(number)
    if len(kept) == len(program.kernels):
        return program
    works = with_launches(program.works, lambda launch: attrs.evolve(launch, kernel=chosen[launch.kernel]))
    return attrs.evolve(program, kernels=tuple(kept), works=works)


def _head(kernel: KernelFunction) -> object:
    """Return what is soon told of a kernel, and the same for all that differ in names only."""
    params = tuple(attrs.evolve(param, name="") for param in kernel.params)
    return attrs.evolve(kernel, name="", params=params, body=(), comments=()), tuple(map(type, kernel.body))


def anonymous(kernel: KernelFunction) -> KernelFunction:
    """Return a kernel whose names are numbers in the order of their introduction, without comments."""
    names = {name: str(number) for number, name in enumerate(dict.fromkeys(kernel_names(kernel)))}
    params = tuple(attrs.evolve(param, name=names[param.name]) for param in kernel.params)
    return attrs.evolve(kernel, name="", params=params, body=renamed(kernel.body, names), comments=())
