"""Random kernels straight into the emitters, beside the interpreter of the semtree."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import numpy as np

from fuzz.area import Area, Array, Case, is_there
from fuzz.devices import RARELY, turn_of
from fuzz.semtree.kernel_case import KernelCase, kernel
from fuzz.semtree.kernel_values import aligned_copy
from tileir.core.dtype import DType
from tileir.semtree.text.parser import parse_kernel
from tileir.semtree.text.printer import to_text
from tileir_testing.generated.choices import Choices
from tileir_testing.subject import Subject


def make(choices: Choices) -> Case:
    """Make a kernel of one thread or of groups, and what its parameters hold before it runs."""
    made = kernel(choices, threads=choices.integer(0, 2) == 2)
    contents = [array.tobytes().hex() for array in made.initial]
    return {"kernel": to_text(made.kernel), "contents": contents}


def check(case: Case) -> int:
    """Run the kernel on the devices whose turn it is."""
    parsed = parse_kernel(case["kernel"])
    arrays = [_array(param.dtype, text) for param, text in zip(parsed.params, case["contents"], strict=True)]
    again = KernelCase(parsed, tuple(arrays))
    devices = [name for name in ("llvm", "opencl") if name == "llvm" or turn_of(case) % RARELY == 0]
    there = [name for name in devices if is_there(name)]
    for name in there:
        try:
            again.check(_subject(name).launched(parsed, again.arrays()))
        except AssertionError as error:
            raise AssertionError(f"{name}: {error}") from None
    return len(there)


def _array(dtype: DType, content: str) -> Array:
    return aligned_copy(np.frombuffer(bytes.fromhex(content), dtype.numpy))


@cache
def _subject(name: str) -> Any:
    return Subject.of(name)


AREA: Final = Area("kernels", make, check)
