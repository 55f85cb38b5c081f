"""Checks of faults planted into emitters: kernels on a device, beside the interpreter of kernels."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from fuzz.semtree.kernel_case import KernelCase, numbered
from fuzz.semtree.kernel_values import content
from strategies.exhaustive import (
    constants_only,
    every_half,
    integers_at_ties,
    pairs_of_bytes,
    pairs_of_special_values,
    wrapped_and_compared,
)
from tileir.core.dtype import DType
from tileir.semtree.interpret import interpreter
from tileir.semtree.simplify.simplifier import simplify
from tileir.semtree.text.printer import to_text
from tileir_testing.semtree_kernels import GROUPS, PLAIN, SCRATCH
from tileir_testing.subject import Subject

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from strategies.exhaustive import Known
    from tileir.semtree.ir import KernelFunction

DEVICES: Final = {"tileir_llvm": "llvm", "tileir_opencl": "opencl", "tileir_c": "tileir_c:BACKEND"}
"""Packages of back ends, and what finds a device of each."""

RANDOM: Final = 320
"""Kernels that are drawn."""

BATCH: Final = 16
"""Kernels that are compiled together: to start a C compiler takes most of the time of a small one."""


def caught(package: str, at: Callable[[str], None]) -> str | None:
    """Return what is wrong with the first kernel that a device gets wrong, with operands or element; None for none.

    Args:
        package: The package of the back end.
        at: Called with each kernel before it runs, as wrong code may end the process.

    """
    device = Subject.of(DEVICES[package])
    cases = [*_written(device), *_random(device)]
    for start in range(0, len(cases), BATCH):
        if found := _wrong(device, cases[start : start + BATCH], at):
            return found
    for known in _exhaustive():
        if found := _wrong(device, [known], at):
            return found
    return None


def caught_in_rules() -> str | None:
    """Return what is wrong with the first kernel that means something else once it has been simplified."""
    for number in range(RANDOM):
        case = numbered(11, number)
        try:
            simple = simplify(case.kernel)
            arrays = case.arrays()
            interpreter.run(simple, arrays)
            case.check(arrays)
        except Exception as error:  # a wrong rule may fail in any way
            return f"simplifier: {error}"
    return None


def _wrong(device: Subject, cases: Sequence[KernelCase | Known], at: Callable[[str], None]) -> str | None:
    name = device.device.name
    at(f"{name}, compiling {len(cases)} kernels from\n{to_text(cases[0].kernel)}")
    try:
        library = device.compiler.build([case.kernel for case in cases])
    except Exception as error:  # a wrong emitter may fail in any way
        return f"{name}: {type(error).__name__}: {error}"
    for number, case in enumerate(cases):
        text = to_text(case.kernel)
        at(f"{name}, running\n{text}")
        try:
            arrays = case.arrays()
            buffers = [device.upload(array) for array in arrays]
            device.executor.prepare(library, number).launch(buffers)
            results = [device.download(buffer, array) for buffer, array in zip(buffers, arrays, strict=True)]
            case.check(results)
        except Exception as error:  # as above
            shown = "" if text in str(error) else f"\n{text}"
            return (
                f"{name}: {type(error).__name__ if not isinstance(error, AssertionError) else 'wrong'}: {error}{shown}"
            )
    return None


def _written(device: Subject) -> Iterator[KernelCase]:
    texts = {**PLAIN, **(SCRATCH if device.device.target.scratch else {}), **GROUPS}
    for text in texts.values():
        kernel = device.kernel(text)
        if _fits(device, kernel) and "exp(" not in text and "multiply(" not in text:
            arrays = (content(param.dtype, param.size, number) for number, param in enumerate(kernel.params))
            yield KernelCase(kernel, tuple(arrays))


def _random(device: Subject) -> Iterator[KernelCase]:
    cases = (numbered(11, number) for number in range(RANDOM))
    return (case for case in cases if _fits(device, case.kernel))


def _fits(device: Subject, kernel: KernelFunction) -> bool:
    return math.prod(kernel.group) <= device.device.target.group_threads


def _exhaustive() -> Iterator[Known]:
    for dtype in DType:
        yield from pairs_of_special_values(dtype)
        if dtype.is_integer:
            yield from wrapped_and_compared(dtype)
            yield from integers_at_ties(dtype)
            yield constants_only(dtype)
    for dtype in (DType.I8, DType.U8):
        yield from pairs_of_bytes(dtype)
    for dtype in (DType.F16, DType.BF16, DType.I16, DType.U16):
        yield from every_half(dtype)
