"""Programs of the driver: built from source in a thread of their own, or made from saved binaries.

pyopencl's own class of programs keeps sources and binaries in a cache on disk, which is ours to do, and turns the log
of every build into a warning; the class below it does neither.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from typing import Final, TypeAlias, cast

import pyopencl as cl
from pyopencl._cl import _Program

from tileir.core.errors import BackendError
from tileir_opencl.run.faults import name_of

NativeProgram: TypeAlias = _Program

log: Final = logging.getLogger("tileir.opencl")

SHOWN_LINES: Final = 8
"""How many lines of the source an error shows at most."""

_PLACE: Final = re.compile(r":(\d+):\d+:")


def built(context: cl.Context, source: str, options: Sequence[str]) -> NativeProgram:
    """Build a program, which may take seconds; other threads run meanwhile.

    Raises:
        BackendError: TIL805, the driver refused the source; the notes have its log and the lines that it names.

    """
    program = _Program(context, source)
    try:
        try:
            _build(program, options)
        except cl.Error:  # at a signal, compilers of drivers delete the files that they are writing
            program = _Program(context, source)
            _build(program, options)
    except cl.Error as error:
        log = build_log(program)
        message = f"the OpenCL driver refused the code ({name_of(error.code)}), which is a defect of tileir"
        notes = (f"the driver's log:\n{log}", *named_lines(source, log))
        raise BackendError.of("TIL805", message, None, *notes) from error
    return program


def loaded(context: cl.Context, binary: bytes, options: Sequence[str]) -> NativeProgram | None:
    """Return the program that a driver saved; None where this driver does not take it."""
    try:
        program = _Program(context, context.devices, [binary])
        _build(program, options)
    except cl.Error:
        return None
    return program


def binary_of(program: NativeProgram) -> bytes:
    """Return what :func:`loaded` makes the program from; empty where the driver gives nothing."""
    try:
        binaries = program.get_info(cl.program_info.BINARIES)
    except cl.Error:
        return b""
    return bytes(binaries[0]) if isinstance(binaries, list) and binaries else b""


def handle_of(program: NativeProgram, name: str) -> cl.Kernel:
    """Return a handle of one kernel of a program.

    pyopencl writes Python code for each kernel that it knows, and keeps that on disk. Where the disk does not let it,
    it does without for the rest of the process.

    Raises:
        BackendError: TIL806, the program has no such kernel.

    """
    try:
        handle = cl.Kernel(program, name)
        handle.get_info(cl.kernel_info.NUM_ARGS)  # some drivers look the name up only when they are asked something
        return handle
    except cl.Error as error:
        raise BackendError.of("TIL806", f"the program has no kernel {name}; compile again ({error})") from error
    except Exception as error:  # whatever file systems and data bases say
        log.info("pyopencl's cache is not used: %s", error)
        cl._PYOPENCL_NO_CACHE = True
        return cl.Kernel(program, name)


def build_log(program: NativeProgram) -> str:
    """Return what the driver's compiler said."""
    devices = cast("list[cl.Device]", program.get_info(cl.program_info.DEVICES))
    logs = [program.get_build_info(device, cl.program_build_info.LOG) for device in devices]
    return "\n".join(str(log).strip() for log in logs)


def named_lines(source: str, log: str) -> list[str]:
    """Return the lines of the source that a log names by numbers, as ``file:3:5: error``."""
    lines = source.splitlines()
    numbers = dict.fromkeys(int(match[1]) for match in _PLACE.finditer(log))
    named = [number for number in numbers if 0 < number <= len(lines)]
    return [f"line {number}: {lines[number - 1].strip()}" for number in named[:SHOWN_LINES]]


def _build(program: NativeProgram, options: Sequence[str]) -> None:
    program._build(" ".join(options).encode(), None)
