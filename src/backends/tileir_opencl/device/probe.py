"""Trials of capabilities that could crash the process, in a separate process; results are stored on disk."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tileir.core.distributions import version_of
from tileir.runtime.caches.disk_cache import recall, remember
from tileir_opencl.device.trial import PASSED, PTX

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tileir_opencl.device.platforms import PlatformDevice

log: Final = logging.getLogger("tileir.opencl")

SECONDS: Final = 60.0
"""Time limit of a trial: drivers compile slowly, and some never end."""

TRIAL: Final = Path(__file__).with_name("trial.py")


def works_with(found: PlatformDevice, lanes: int) -> bool:
    """Return whether functions of vectors with this many f32 lanes work on a device without crashing the process."""
    return _passes(found, str(lanes), "opencl vectors", f"{lanes} lanes")


def has_ptx(found: PlatformDevice) -> bool:
    """Return whether kernels may use PTX statements for asynchronous copies and matrix products."""
    return _passes(found, PTX, "opencl ptx")


def _passes(found: PlatformDevice, trial: str, *what: str) -> bool:
    """Return whether a device passes a trial; ``what`` names it in the key of the stored result."""
    platform, device = found.platform, found.device
    facts = (platform.name, platform.version, device.name, device.driver_version, f"pyopencl {version_of('pyopencl')}")
    key = " | ".join((*what, *facts))
    return remembered(key, [str(TRIAL), platform.name, platform.version, str(found.number), trial])


def remembered(key: str, program: Sequence[str], seconds: float = SECONDS) -> bool:
    """Return the stored result of an earlier process for ``key``; else run a Python program, and store its result."""
    known = recall(key)
    if known is not None:
        return known == PASSED.encode()
    if not _can_try():
        return False
    verdict = PASSED if survives(program, seconds) else "failed"
    log.info("tried %s: %s", key, verdict)
    remember(key, verdict.encode())
    return verdict == PASSED


def _can_try() -> bool:
    """Return whether this process is a Python that can be started again, and the trial is a file that it can run.

    A packed program would start itself; in an archive there is no file. Neither is a result to be stored.
    """
    return bool(sys.executable) and not getattr(sys, "frozen", False) and TRIAL.is_file()


def survives(program: Sequence[str], seconds: float = SECONDS) -> bool:
    """Run a Python program with its arguments; return whether it reports success, and ends, in time."""
    try:
        done = subprocess.run(
            [sys.executable, "-P", *program],
            capture_output=True,
            timeout=seconds,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0 and done.stdout.strip() == PASSED.encode()
