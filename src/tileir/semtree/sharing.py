"""Kernels that differ in names only become one, so that a chain of equal layers is compiled once."""

from __future__ import annotations

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
    numbers: dict[KernelFunction, int] = {}
    kept: list[KernelFunction] = []
    chosen: list[int] = []
    for kernel in program.kernels:
        number = numbers.setdefault(anonymous(kernel), len(kept))
        if number == len(kept):
            kept.append(kernel)
        chosen.append(number)
    if len(kept) == len(program.kernels):
        return program
    works = with_launches(program.launches, lambda launch: attrs.evolve(launch, kernel=chosen[launch.kernel]))
    return attrs.evolve(program, kernels=tuple(kept), launches=works)


def anonymous(kernel: KernelFunction) -> KernelFunction:
    """Return a kernel whose names are numbers in the order of their introduction, without comments."""
    names = {name: str(number) for number, name in enumerate(dict.fromkeys(kernel_names(kernel)))}
    params = tuple(attrs.evolve(param, name=names[param.name]) for param in kernel.params)
    return attrs.evolve(kernel, name="", params=params, body=renamed(kernel.body, names), comments=())
