"""Files of a library in C: a header, a source, a Makefile, and a program that calls it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

import tileir
from tileir.core.array_value import ArrayValue
from tileir_c.aot.lowering import lower
from tileir_c.aot.main_program import main_source, makefile
from tileir_c.aot.program import ahead

if TYPE_CHECKING:
    from collections.abc import Mapping

VECTOR_BYTES: Final = 32
"""Vector width of unnamed processors."""


def sources(
    function: tileir.Function,
    types: Mapping[str, tileir.TensorType],
    name: str,
    *,
    vector_bytes: int = VECTOR_BYTES,
    main: bool = False,
) -> dict[str, str]:
    """Return the texts of the files by name.

    Args:
        function: Function of the library.
        types: Types of its inputs.
        name: Name of its function and files, if that is an identifier of C.
        vector_bytes: Vector width of its preferred processor; it runs on all.
        main: Whether to include a program that reads and writes .npy files.

    Raises:
        TileError: The function is wrong or does not fit the types.
    """
    made = ahead(lower(function, types, vector_bytes), name, described(function))
    stem = made.interface.name
    texts = {f"{stem}.h": made.header, f"{stem}.c": made.source, "Makefile": makefile(made.interface, main=main)}
    return {**texts, f"{stem}_main.c": main_source(made.interface)} if main else texts


def described(function: tileir.Function) -> str:
    """Return the text of a function for people, without the elements of its constant arrays."""
    values = [(statement, getattr(statement, "value", None)) for statement in function.statements]
    arrays = [(each, value) for each, value in values if isinstance(value, ArrayValue) and value.shape]
    left = tuple(each for each, value in values if not (isinstance(value, ArrayValue) and value.shape))
    head, *rest = tileir.to_text(attrs.evolve(function, statements=left)).splitlines()
    types = (f"  // {each.name}: {value.dtype.value}[{', '.join(map(str, value.shape))}]" for each, value in arrays)
    return "\n".join((head, *types, *rest))
