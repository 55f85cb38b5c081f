"""C compiler of this machine: its command, features and results."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs

from tileir.core.errors import BackendError

if TYPE_CHECKING:
    from collections.abc import Mapping

CANDIDATES: Final = ("cc", "gcc", "clang")
"""Commands that are tried if the environment variable ``CC`` names none."""

PRECISE: Final = ("-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math")
"""Flags that keep every result to the bit: kernels use neither errno nor the floating-point exceptions."""

FAST_MATH: Final = (
    "-ffp-contract=fast",
    "-fno-signed-zeros",
    "-freciprocal-math",
    "-fno-math-errno",
    "-fno-trapping-math",
)
"""Flags for :attr:`tileir.runtime.interface.Options.fast_math`. Infinities and NaN keep their meaning, and sums are not
reassociated, which would undo the roundings that mathematical functions rely on.
"""

_CLANG_LIMITS: Final = ("-fbracket-depth=4096",)
_GCC_LIMITS: Final = ("--param=max-completely-peeled-insns=64",)
"""Limits for GCC, which takes very long for nested loops that it unrolled because it could not vectorise them. The
pragma that forbids it for a single loop makes GCC 12 drop stores.
"""

_NATIVE: Final = ("-march=native", "-mcpu=native")
_MACRO: Final = re.compile(r"#define (\w+) ?(.*)")


@attrs.frozen
class Toolchain:
    """C compiler.

    Attributes:
        command: Command to call it.
        version: First line of its version text.
        native: Flag for using all of this processor; none if there is no such flag.
        macros: Predefined macros with that flag, including facts of the processor.
    """

    command: tuple[str, ...]
    version: str
    native: tuple[str, ...]
    macros: Mapping[str, str] = attrs.field(repr=False, hash=False)

    @property
    def is_clang(self) -> bool:
        """True for Clang, or a descendant of it."""
        return "__clang__" in self.macros

    def flags(self, *, fast_math: bool, language: tuple[str, ...] = ("-std=c11",)) -> tuple[str, ...]:
        """Return the flags for a shared object, after those for the language of the source."""
        numbers = FAST_MATH if fast_math else PRECISE
        limits = _CLANG_LIMITS if self.is_clang else _GCC_LIMITS
        return (*language, "-O3", *self.native, *numbers, "-fno-strict-aliasing", *limits, "-fPIC", "-shared")

    @property
    def identity(self) -> str:
        """Identity of the code beside source and flags: the compiler's version, and a digest of its macros."""
        digest = hashlib.sha256(repr(sorted(self.macros.items())).encode()).hexdigest()
        return f"{self.version} {digest[:16]}"

    def compile(self, source: str, flags: tuple[str, ...]) -> bytes:
        """Return the code compiled from a source; no file is left behind.

        Raises:
            BackendError: TIL805, the compiler refused the source or could not be run.
        """
        try:
            with tempfile.TemporaryDirectory(prefix="tileir-c-") as folder:
                path, result = Path(folder) / "kernels.c", Path(folder) / "kernels.so"
                path.write_text(source, encoding="utf-8")
                done = _run((*self.command, *flags, "-o", str(result), str(path), "-lm"))
                if done.returncode == 0:
                    return result.read_bytes()
        except OSError as error:
            raise _failed(self, str(error)) from error
        raise _failed(self, done.stderr.replace(f"{folder}{os.sep}", ""))


def _failed(toolchain: Toolchain, reason: str) -> BackendError:
    message = f"the C compiler {shlex.join(toolchain.command)} ({toolchain.version}) failed"
    return BackendError.of("TIL805", message, None, *reason.strip().splitlines()[:20])


def find_toolchain() -> Toolchain:
    """Return the compiler that ``CC`` names, else the first existing of :data:`CANDIDATES`.

    Raises:
        BackendError: TIL802, there is none, or it does not work; the message has a remedy.
    """
    if sys.platform == "win32":
        raise _missing("the C back end needs a system with POSIX's dlopen; use tileir[llvm] on Windows")
    wanted = os.environ.get("CC", "").strip()
    try:
        command = tuple(shlex.split(wanted))
    except ValueError as error:
        raise _missing(f"the environment variable CC={wanted!r} cannot be split into words: {error}") from error
    if command:
        if shutil.which(command[0]) is None:
            raise _missing(f"the environment variable CC names {command[0]!r}, which is not found; correct or unset it")
        return _probe(command)
    for name in CANDIDATES:
        if shutil.which(name) is not None:
            return _probe((name,))
    listed = ", ".join(CANDIDATES)
    raise _missing(f"there is no C compiler ({listed}); install gcc or clang, or set the environment variable CC")


@cache
def _probe(command: tuple[str, ...]) -> Toolchain:
    """Query a compiler for its facts. Failures are not cached."""
    try:
        version = _run((*command, "--version")).stdout.partition("\n")[0].strip()
        for native in (*((flag,) for flag in _NATIVE), ()):
            done = _run((*command, "-std=c11", *native, "-dM", "-E", "-x", "c", os.devnull))
            if done.returncode == 0:
                found = (match for line in done.stdout.splitlines() if (match := _MACRO.fullmatch(line)))
                macros = {match[1]: match[2] for match in found}
                return Toolchain(command, version, native, macros)
    except OSError as error:
        raise _missing(f"the C compiler {shlex.join(command)} cannot be run: {error}") from error
    reason = done.stderr.strip().partition("\n")[0]
    raise _missing(f"{shlex.join(command)} is no C compiler that works like GCC or Clang: {reason}")


def _run(command: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    """Run a command with messages in English."""
    environment = {**os.environ, "LC_ALL": "C"}
    return subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        env=environment,
        check=False,
    )


def _missing(message: str) -> BackendError:
    return BackendError.of("TIL802", message)
