"""Programs of strangers: they run what the studio gives away by NumPy and pyopencl, or a C compiler, without tileir."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    Array = np.ndarray[Any, np.dtype[Any]]

_LAUNCHER: Final = r"""
import json
import sys
from pathlib import Path

import numpy as np
import pyopencl as cl

folder, wanted = Path(sys.argv[1]), sys.argv[2]
source = (folder / "formula.cl").read_text()
comment = source[: source.index("*/\n")]
facts = json.loads(comment[comment.index("\n{\n") :])
platform = next(each for each in cl.get_platforms() if each.version == wanted)
context = cl.Context(platform.get_devices()[:1])
queue = cl.CommandQueue(context)
program = cl.Program(context, source).build(facts["options"].split())
memory = {each["name"]: cl.Buffer(context, cl.mem_flags.READ_WRITE, max(1, each["bytes"])) for each in facts["buffers"]}
given = sorted(folder.glob("input*.npy"))
for each in facts["buffers"]:
    content = None
    if each["role"] == "input":
        content = np.load(given.pop(0))
    elif each["role"] == "constant":
        content = np.frombuffer(bytes.fromhex(each["hex"]), np.uint8)
    if content is not None:
        assert content.nbytes == each["bytes"], each
        cl.enqueue_copy(queue, memory[each["name"]], np.ascontiguousarray(content))


def holds(name):
    byte = np.empty(1, np.uint8)
    cl.enqueue_copy(queue, byte, memory[name])
    return byte[0] != 0


def launch(works):
    for work in works:
        if "times" in work:
            for _ in range(work["times"]):
                launch(work["launches"])
        elif "while" in work:
            while holds(work["while"]):
                launch(work["launches"])
        elif "if" in work:
            launch(work["launches"] if holds(work["if"]) else work["else"])
        else:
            kernel = cl.Kernel(program, work["kernel"])
            kernel(queue, work["global"], work["local"], *(memory[name] for name in work["arguments"]))


launch(facts["launches"])
for number, each in enumerate(each for each in facts["buffers"] if each["role"] == "output"):
    result = np.empty(each["shape"], {"u": "uint", "f": "float", "i": "int"}[each["dtype"][0]] + each["dtype"][1:])
    cl.enqueue_copy(queue, result, memory[each["name"]])
    np.save(folder / f"output{number}.npy", result)
assert "tileir" not in sys.modules
"""


def by_opencl(source: str, pictures: Sequence[Array], platform: str, folder: Path) -> list[Array]:
    """Return the results of OpenCL source on a platform, given by its version, by a script from the source alone."""
    (folder / "formula.cl").write_text(source)
    (folder / "launcher.py").write_text(_LAUNCHER)
    for number, picture in enumerate(pictures):
        np.save(folder / f"input{number}.npy", picture)
    command = [sys.executable, str(folder / "launcher.py"), str(folder), platform]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    return [np.load(path) for path in sorted(folder.glob("output*.npy"))]
