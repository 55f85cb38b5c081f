"""Functions that a program defines for itself: what is too long for an expression, or reads an operand twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileir_opencl.spelling import ATOM, register
from tileir_opencl.text import Value

if TYPE_CHECKING:
    from collections.abc import Callable

    from tileir.semtree.ir import Type
    from tileir_opencl.text import KernelText

PARAMETERS = ("x", "y", "z")


def define(out: KernelText, name: str, result: Type, params: tuple[Type, ...], body: Callable[..., Value]) -> str:
    """Return ``name``, a function of the program that returns what ``body`` makes of its parameters.

    ``body`` gets the text of the kernel, for the helpers that it uses itself, and a value for each parameter.
    """

    def make() -> str:
        values = [Value(text, kind, ATOM) for text, kind in zip(PARAMETERS, params, strict=False)]
        declared = ", ".join(f"{register(value.type)} {value.text}" for value in values)
        returned = body(out, *values)
        return f"static inline {register(result)} {name}({declared})\n{{\n  return {returned.text};\n}}\n"

    return out.helpers.use(name, make)
