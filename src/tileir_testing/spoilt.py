"""``python -m tileir_testing.spoilt NAME SPOILER``: loads broken code on a device, in a process that it may end."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from tileir import Options
from tileir.core import BackendError
from tileir_testing.subject import INCREMENT, Subject, numbers


def _flipped(code: bytes) -> bytes:
    middle = len(code) // 2
    return code[:middle] + bytes(255 - byte for byte in code[middle : middle + 1]) + code[middle + 1 :]


SPOILERS: Final[Mapping[str, Callable[[bytes], bytes]]] = {
    "empty": lambda code: code[:0],
    "half": lambda code: code[: len(code) // 2],
    "shifted": lambda code: b"\0" + code,
    "flipped": _flipped,
}
"""What is done to one part of a saved library at a time."""


def main(name: str, spoiler: str) -> None:
    """Load libraries of which one part is spoilt, and run those that are not refused.

    Raises:
        AssertionError: One is refused in another way than by TIL806, or computes something else.
    """
    subject = Subject.of(name)
    with subject.context:
        kernels = [subject.kernel(INCREMENT)]
        parts = subject.compiler.build(kernels).save()
        compiler = subject.backend.compiler(subject.device, Options())
        for part, content in parts.items():
            sys.stdout.write(f"part {part!r} {spoiler}\n")
            sys.stdout.flush()  # what happens next may end the process
            try:
                library = compiler.load(kernels, {**parts, part: SPOILERS[spoiler](content)})
                kernel = subject.executor.prepare(library, 0)
            except BackendError as error:
                if error.diagnostics[0].code != "TIL806":
                    raise AssertionError("not TIL806") from error
                continue
            source, target = subject.upload(numbers()), subject.blank(numbers())
            kernel.launch([target, source])
            np.testing.assert_array_equal(subject.download(target, numbers()), numbers(1))


if __name__ == "__main__":
    main(*sys.argv[1:])
