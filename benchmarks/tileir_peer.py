"""tileir as a peer of the harness: each workload's Tile text through ``tileir.compile``, as it comes."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import numpy as np

import suite
import tileir


class Peer:
    """The harness's protocol for a peer; threads are those that the affinity mask leaves."""

    def __init__(self, threads: int, name: str) -> None:  # noqa: ARG002
        self.version = f"tileir {version('tileir')}"
        self.note = f"Tile texts by tileir.compile on {tileir.devices()[0].id}, {threads} threads; out= buffers reused"
        self._workloads = {workload.name: workload for workload in suite.WORKLOADS}
        ones = np.ones(8, np.float32)
        tileir.jit("function (A[N]) -> (O) { O = A + A; }")(ones)

    def build(self, workload: Any, arrays: dict[str, np.ndarray[Any, Any]]) -> dict[str, Any] | None:
        """Return the call that is timed, and what it writes; None for a workload that the suite lacks."""
        ours = self._workloads.get(workload.name)
        if ours is None:
            return None
        inputs = ours.call_inputs(arrays)
        out = np.empty(ours.shape, ours.dtype)
        self.mark()  # type: ignore[attr-defined]  # the harness sets it: the clock of cold compiles starts
        executable = tileir.compile(ours.text, inputs)
        arguments = tuple(inputs[name] for name in executable.inputs)
        return {"fn": lambda: executable(*arguments, out=out), "out": lambda: out}
