"""Whole program as OpenCL C, with a comment from which any host program can run it.

The comment ends with a JSON document: the options for the driver's compiler, the buffers with the content of constants,
and the launches in order, with repetitions and conditions.
"""

from __future__ import annotations

import json
import math
from typing import Any, Final, assert_never

from tileir.runtime.interface import DeviceInfo
from tileir.semtree.ir import Branch, Buffer, Launch, Loop, Program, Work
from tileir_opencl.device.devices import device_of
from tileir_opencl.emit.emitter import emit, scratch_bytes, symbol
from tileir_opencl.run.compiler import build_options

_SCRATCH: Final = "scratch"
_HOW: Final = """\
The kernels below are launched in the order of `launches`, each with its `arguments`, which are buffers, on `global`
work items in work groups of `local`; where `launches` stand inside, they run `times` times, one after the other, or
`while` the buffer of that name, of one byte, does not hold 0, which is looked up before each time, or once `if` it does
not, and those of `else` otherwise.
Buffers are dense, rows first: those of the role `input` are read, those of the role `output` hold the results,
`constant` ones hold the bytes that `hex` spells, and what is in the others before does not matter.
"""


def whole(program: Program, device: DeviceInfo, text: str) -> str:
    """Return the source of a program for a device; ``text`` describes the computation.

    Raises:
        BackendError: TIL801, there is no such device; TIL804, kernels need unsupported features.
    """
    entry = device_of(device)
    source = emit(program.kernels, entry.capabilities.features)
    scratch = max((_scratch_bytes(program, number) for number in range(len(program.kernels))), default=0)
    taken = {buffer.name for buffer in program.buffers}
    name = next(name for name in (f"{_SCRATCH}{'_' * count}" for count in range(len(taken) + 1)) if name not in taken)
    buffers = [_buffer(buffer) for buffer in program.buffers]
    buffers += [{"name": name, "role": _SCRATCH, "bytes": scratch}] * (scratch > 0)
    parts = (
        ("options", " ".join(build_options(entry))),
        ("buffers", buffers),
        ("launches", [_work(program, work, name) for work in program.works]),
    )
    document = ",\n".join(f"{json.dumps(key)}: {_in_lines(value)}" for key, value in parts)
    described = "".join(f"    {line}".rstrip() + "\n" for line in text.splitlines())
    comment = (
        f"Kernels by tileir, for arrays of these sizes:\n\n{_comment(described)}\n{_HOW}\n{{\n{_json(document)}\n}}\n"
    )
    return f"/*\n{comment}*/\n{source}"


def _buffer(buffer: Buffer) -> dict[str, Any]:
    nbytes = buffer.elements * buffer.dtype.itemsize
    said = {"name": buffer.name, "role": buffer.role.value, "bytes": nbytes}
    kind = {"dtype": buffer.dtype.value, "shape": list(buffer.shape)}
    return {**said, **kind, **({"hex": buffer.data.hex()} if buffer.data else {})}


def _work(program: Program, work: Work, scratch: str) -> dict[str, Any]:
    def inside(works: tuple[Work, ...]) -> list[dict[str, Any]]:
        return [_work(program, each, scratch) for each in works]

    match work:
        case Launch():
            return _launch(program, work, scratch)
        case Loop(times=times, works=works):
            how = {"times": times} if isinstance(times, int) else {"while": times.buffer}
            return {**how, "launches": inside(works)}
        case Branch(condition=condition, then=then, otherwise=otherwise):
            return {"if": condition, "launches": inside(then), "else": inside(otherwise)}
        case _:
            assert_never(work)


def _launch(program: Program, launch: Launch, scratch: str) -> dict[str, Any]:
    kernel = program.kernels[launch.kernel]
    rank = max(len(kernel.grid), len(kernel.group))
    grid, group = (tuple(each) + (1,) * (rank - len(each)) for each in (kernel.grid, kernel.group))
    further = [scratch] if scratch_bytes(kernel) else []
    return {
        "kernel": symbol(launch.kernel, kernel),
        "arguments": [*launch.arguments, *further],
        "global": list(map(int.__mul__, grid, group)),
        "local": list(group),
    }


def _scratch_bytes(program: Program, number: int) -> int:
    kernel = program.kernels[number]
    return scratch_bytes(kernel) * math.prod(kernel.grid)


def _in_lines(value: str | list[dict[str, Any]]) -> str:
    """Return JSON with a line for each element of a list."""
    if isinstance(value, str):
        return json.dumps(value)
    return "[" + ",".join(f"\n  {json.dumps(each)}" for each in value) + "\n]"


def _json(document: str) -> str:
    """Return JSON that cannot end a comment."""
    return document.replace("*/", "*\\/")


def _comment(text: str) -> str:
    """Return a text that cannot end a comment, in characters that every compiler reads."""
    plain = "".join(each if each == "\n" or " " <= each <= "~" else ascii(each)[1:-1] for each in text)
    return plain.replace("*/", "* /")
