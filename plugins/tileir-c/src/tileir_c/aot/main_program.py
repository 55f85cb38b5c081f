"""Main program of the public function, which reads and writes .npy files, and the Makefile for both."""

from __future__ import annotations

from importlib.resources import files
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from tileir.core.dtype import FORMATS, DType
from tileir.core.text.writer import Writer
from tileir.semtree.transform.layout import ALIGNMENT
from tileir_c.aot.program import FLAGS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tileir_c.aot.program import Interface

KINDS: Final[Mapping[DType, str]] = MappingProxyType(
    {
        DType.BOOL: "b1",
        # NumPy has no name for some, which are saved as untyped bytes.
        **{dtype: f"{'V' if row.registered else 'f'}{dtype.itemsize}" for dtype, row in FORMATS.items()},
        **{dtype: f"{'i' if dtype.is_signed else 'u'}{dtype.itemsize}" for dtype in DType if dtype.is_integer},
    }
)
"""Dtype names in headers of .npy files, after the byte order."""

_PLACE: Final = "/* NPY_TENSORS */\n"


def main_source(interface: Interface) -> str:
    """Return the text of ``NAME_main.c``."""
    text = files("tileir_c.aot").joinpath("npy_main.c").read_text(encoding="utf-8")
    before, _, after = text.partition(_PLACE)
    return before + _tables(interface) + after


def _tables(interface: Interface) -> str:
    out = Writer()
    buffers = (*interface.inputs, *interface.outputs)
    out.line(f'#include "{interface.name}.h"')
    out.line()
    for number, buffer in enumerate(buffers):
        sizes = ", ".join(map(str, buffer.shape)) or "1"
        out.line(f"static const size_t npy_sizes{number}[] = {{{sizes}}};")
    out.line("static const struct npy_tensor npy_tensors[] = {")
    with out.indented():
        for number, buffer in enumerate(buffers):
            name, kind = interface.parameters[buffer.name], KINDS[buffer.dtype]
            out.line(f'{{"{name}", "{kind}", {buffer.dtype.itemsize}, {len(buffer.shape)}, npy_sizes{number}}},')
    out.line("};")
    words = f"NPY_INPUTS = {len(interface.inputs)}, NPY_TENSORS = {len(buffers)}"
    out.line(f"enum {{ {words} }};")
    out.line(f"#define NPY_WORKSPACE_BYTES {interface.macro}_WORKSPACE_BYTES")
    out.line(f'_Static_assert({interface.macro}_WORKSPACE_ALIGNMENT <= {ALIGNMENT}, "the workspace is not aligned");')
    out.line()
    out.line("static void npy_call(void *const *memory, void *workspace) {")
    with out.indented():
        arguments = "".join(f"memory[{number}], " for number in range(len(buffers)))
        out.line(f"{interface.name}({arguments}workspace);")
    out.line("}")
    return out.text()


def makefile(interface: Interface, *, main: bool) -> str:
    """Return the text of a Makefile for the object file and, with ``main``, the program."""
    name = interface.name
    lines = [
        "# The optimisation may be changed, the flags in REQUIRED belong to the source.",
        "CC ?= cc",
        "CFLAGS ?= -O3 -march=native",
        f"REQUIRED = {FLAGS.replace(' -O3', '')}",
        "",
        f"all: {name}" if main else f"all: {name}.o",
        "",
        f"{name}.o: {name}.c {name}.h",
        f"\t$(CC) $(CFLAGS) $(REQUIRED) -c -o $@ {name}.c",
    ]
    if main:
        lines += [
            "",
            f"{name}: {name}_main.c {name}.o {name}.h",
            f"\t$(CC) $(CFLAGS) -std=c11 -o $@ {name}_main.c {name}.o -lm",
        ]
    cleaned = f"{name} {name}.o" if main else f"{name}.o"
    return "\n".join((*lines, "", ".PHONY: all clean", "clean:", f"\trm -f {cleaned}", ""))
