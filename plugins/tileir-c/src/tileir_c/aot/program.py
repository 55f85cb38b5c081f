"""Program of kernels as one public C function, with the header that declares it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, assert_never

import attrs
import numpy as np

from tileir.core.dtype import DType
from tileir.core.text.names import NameScope
from tileir.core.text.writer import Writer
from tileir.runtime.plans.placement import place
from tileir.semtree.ir import Branch, BufferRole, Launch, Loop
from tileir.semtree.launches import used_buffers
from tileir.semtree.transform.layout import ALIGNMENT, aligned
from tileir_c.emitter import HEADER, C, comment_line, emit
from tileir_c.identifiers import RESERVED, function_name, identifiers

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tileir.semtree.ir import Buffer, Program, While, Work
    from tileir_c.emitter import Source

FLAGS: Final = "-std=c11 -O3 -ffp-contract=off -fno-math-errno -fno-trapping-math -fno-strict-aliasing"
"""Flags for the source: without the first -f flag a compiler may change results, the others are for speed and for a
workspace that holds numbers of several types in turn.
"""

_NUMBERS_IN_LINE: Final = 12


@attrs.frozen
class Interface:
    """Interface of a program's public function.

    Attributes:
        name: Name, an identifier of C.
        inputs: Input buffers, in declared order.
        outputs: Output buffers, in declared order.
        parameters: Identifier of each of these buffers.
        workspace_bytes: Size of the workspace.
        workspace_alignment: Alignment of the workspace.
    """

    name: str
    inputs: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]
    parameters: Mapping[str, str]
    workspace_bytes: int
    workspace_alignment: int

    @property
    def macro(self) -> str:
        """Prefix of the names of its macros."""
        return self.name.upper()

    def declaration(self) -> list[str]:
        """Return the lines of its declaration, without the end."""
        types = [(f"const {C.element_type(buffer.dtype)}", buffer) for buffer in self.inputs]
        types += [(C.element_type(buffer.dtype), buffer) for buffer in self.outputs]
        lines = [f"    {kind} *{self.parameters[buffer.name]}," for kind, buffer in types]
        return [f"void {self.name}(", *lines, "    void *workspace)"]


@attrs.frozen
class Ahead:
    """A program in C.

    Attributes:
        interface: Its public function.
        header: The text of ``NAME.h``.
        definitions: The text of ``NAME.c`` below its includes.

    """

    interface: Interface
    header: str
    definitions: str

    @property
    def source(self) -> str:
        """The text of ``NAME.c``."""
        name = self.interface.name
        return f'{_compiled_by(name)}#include "{name}.h"\n\n{self.definitions}'

    @property
    def whole(self) -> str:
        """Header and source as one file."""
        return f"{_compiled_by(self.interface.name)}{self.header}\n{self.definitions}"


def _compiled_by(name: str) -> str:
    return f"// Compile with: cc {FLAGS} -march=native -c {name}.c\n"


def ahead(program: Program, name: str, text: str = "") -> Ahead:
    """Return a program in C; ``text`` describes the computation in comments."""
    emitted = emit(program.kernels)
    placement = place(program)
    scratch = max(map(aligned, emitted.scratch_bytes), default=0)
    temporaries = aligned(placement.peak_bytes)
    external = [b for b in program.buffers if b.role in (BufferRole.INPUT, BufferRole.OUTPUT)]
    function = function_name(name)
    macros = (f"{function.upper()}_{end}" for end in ("H", "WORKSPACE_BYTES", "WORKSPACE_ALIGNMENT"))
    scope = NameScope.of((*RESERVED, function, f"{function}_workspace_bytes", *macros))
    needed = [param.alignment for kernel in program.kernels for param in kernel.params]
    interface = Interface(
        function,
        tuple(buffer for buffer in external if buffer.role is BufferRole.INPUT),
        tuple(buffer for buffer in external if buffer.role is BufferRole.OUTPUT),
        identifiers((buffer.name for buffer in external), scope),
        temporaries + scratch,
        max(ALIGNMENT, *needed) if needed else ALIGNMENT,
    )
    offsets = {temporary: found.offset for temporary, found in placement.places.items()}
    body = _Body(program, emitted, interface, offsets, temporaries, scope)
    return Ahead(interface, _header(interface, text), body.definitions())


def _header(interface: Interface, text: str) -> str:
    guard = f"{interface.macro}_H"
    out = Writer()
    out.line(
        "// Made by tileir-c. Arrays are dense and row-major; f16 and bf16 are passed as their bits, bool as 0 or 1."
    )
    for line in text.splitlines():
        out.line(comment_line(line) if line.strip() else "//")
    for line in (f"#ifndef {guard}", f"#define {guard}", "", "#include <stddef.h>", "#include <stdint.h>", ""):
        out.line(line)
    out.line(f"#define {interface.macro}_WORKSPACE_BYTES {interface.workspace_bytes}")
    out.line(f"#define {interface.macro}_WORKSPACE_ALIGNMENT {interface.workspace_alignment}")
    out.line()
    for line in ("#ifdef __cplusplus", 'extern "C" {', "#endif", ""):
        out.line(line)
    out.line(f"// Return {interface.macro}_WORKSPACE_BYTES.")
    out.line(f"size_t {interface.name}_workspace_bytes(void);")
    out.line()
    for what, buffers in (("Read", interface.inputs), ("Write", interface.outputs)):
        for buffer in buffers:
            sizes = ", ".join(map(str, buffer.shape))
            out.line(f"// {what} {interface.parameters[buffer.name]}: {buffer.dtype.value}[{sizes}].")
    out.line(
        "// No output may overlap another array. Nothing is kept between calls, so that several threads may call this,"
    )
    out.line("// each with outputs and a workspace of its own; where that has 0 bytes it may be NULL.")
    for line in interface.declaration()[:-1]:
        out.line(line)
    out.line(f"{interface.declaration()[-1]};")
    for line in ("", "#ifdef __cplusplus", "}", "#endif", "", f"#endif // {guard}"):
        out.line(line)
    return out.text()


@attrs.frozen
class _Body:
    """The source of a program.

    ``offsets`` are those of temporaries in the workspace, whose first ``temporaries`` bytes they fill.
    """

    program: Program
    emitted: Source
    interface: Interface
    offsets: Mapping[str, int]
    temporaries: int
    scope: NameScope

    def definitions(self) -> str:
        name = self.interface.name
        constants = {buffer.name: buffer for buffer in self.program.buffers if buffer.role is BufferRole.CONSTANT}
        spelt = identifiers((f"constant {constant}" for constant in constants), self.scope)
        out = Writer()
        for number, constant_buffer in enumerate(constants.values()):
            _constant(out, constant_buffer, list(spelt.values())[number])
        out.line(f"size_t {name}_workspace_bytes(void) {{ return {self.interface.macro}_WORKSPACE_BYTES; }}")
        out.line()
        *lines, last = self.interface.declaration()
        for line in (*lines, f"{last} {{"):
            out.line(line)
        with out.indented():
            self._memory(out)
            arrays = dict(zip(constants, spelt.values(), strict=True)) | dict(self.interface.parameters)
            self._works(out, self.program.works, arrays)
        out.line("}")
        parts = (HEADER, *(f"{text}\n" for text in self.emitted.functions), out.text())
        return "".join(parts)

    def _memory(self, out: Writer) -> None:
        used = set(used_buffers(self.program.works))
        for buffer in (*self.interface.inputs, *self.interface.outputs):
            if buffer.name not in used:
                out.line(f"(void){self.interface.parameters[buffer.name]};")
        if self.interface.workspace_bytes:
            out.line("unsigned char *const memory = (unsigned char *)workspace;")
        else:
            out.line("(void)workspace;")

    def _works(self, out: Writer, works: Sequence[Work], arrays: Mapping[str, str]) -> None:
        for work in works:
            match work:
                case Launch():
                    self._launch(out, work, arrays)
                case Loop(times=times, works=inner):
                    self._block(out, self._turns(times, arrays), inner, arrays)
                    out.line("}")
                case Branch(condition=condition, then=then, otherwise=otherwise):
                    self._block(out, f"if (*{self._argument(condition, DType.BOOL, arrays)}) {{", then, arrays)
                    if otherwise:
                        self._block(out, "} else {", otherwise, arrays)
                    out.line("}")
                case _:
                    assert_never(work)

    def _turns(self, times: int | While, arrays: Mapping[str, str]) -> str:
        if not isinstance(times, int):
            return f"while (*{self._argument(times.buffer, DType.BOOL, arrays)}) {{"
        turn = self.scope.fresh("turn")
        return f"for (int64_t {turn} = 0; {turn} < INT64_C({times}); ++{turn}) {{"

    def _block(self, out: Writer, head: str, works: Sequence[Work], arrays: Mapping[str, str]) -> None:
        out.line(head)
        with out.indented():
            self._works(out, works, arrays)

    def _argument(self, name: str, dtype: DType, arrays: Mapping[str, str]) -> str:
        if name in self.offsets:
            return f"({C.element_type(dtype)} *)(memory + {self.offsets[name]})"
        return arrays[name]

    def _launch(self, out: Writer, launch: Launch, arrays: Mapping[str, str]) -> None:
        kernel, number = self.program.kernels[launch.kernel], launch.kernel
        words = [
            self._argument(name, param.dtype, arrays)
            for param, name in zip(kernel.params, launch.arguments, strict=True)
        ]
        scratch = f"memory + {self.temporaries}" if self.emitted.scratch_bytes[number] else "NULL"
        words += [scratch, "0", str(math.prod(kernel.grid))]
        out.line(f"{self.emitted.names[number]}({', '.join(words)});")


def _constant(out: Writer, buffer: Buffer, name: str) -> None:
    """Define an array by its values, independent of the processor's byte order."""
    data = np.frombuffer(buffer.data, buffer.dtype.numpy.newbyteorder("<"))
    values = [C.literal(value, buffer.dtype) for value in data.astype(buffer.dtype.numpy).tolist()]
    kind = "1" if buffer.dtype.is_bool else ""
    words = [("1" if value == "true" else "0") if kind else value for value in values] or ["0"]
    out.line(f"static const {C.element_type(buffer.dtype)} {name}[] = {{")
    with out.indented():
        for start in range(0, len(words), _NUMBERS_IN_LINE):
            out.line(f"{', '.join(words[start : start + _NUMBERS_IN_LINE])},")
    out.line("};")
    out.line()
