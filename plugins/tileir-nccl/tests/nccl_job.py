"""A job of several ranks, each with a card, that meets what its argument names; torchrun or mpiexec starts it."""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import Any

import numpy as np

import tileir
from tileir_nccl import Cards

BLUR = "function (I[H, W]) -> (B) { S[y, x : H, W] = +(I[y + j - 1, x]), j < 3; B = S / 3; }"
IMAGE = np.arange(28, dtype=np.float32).reshape(7, 4)


def stepper(engine: Cards) -> Any:
    """Return a stepper on two ranks."""
    rows = ("x", None)
    program = tileir.partition(BLUR, {"x": 2}, {"I": rows}, outputs={"B": rows}, arguments=[IMAGE])
    return tileir.distribute(program, engine).stepper({"I": "B"}, {"I": IMAGE})


def main(how: str) -> None:
    """Step, and let rank 1 go astray while rank 0 goes on."""
    step, right = stepper(Cards(late=2.0, timeout=6.0 if how == "late" else None)), IMAGE
    for _ in range(40):
        step()
        around = np.pad(right, ((1, 1), (0, 0)))
        right = ((around[:-2] + around[1:-1]) + around[2:]) / np.float32(3)
    np.testing.assert_allclose(step.state["I"].numpy(), right, rtol=1e-5)
    sys.stdout.write("right\n")
    sys.stdout.flush()
    rank = next(iter(step.state["I"].parts))
    if rank == 1:
        match how:
            case "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            case "late":
                time.sleep(20)
                os._exit(0)
    begin = time.monotonic()
    try:
        while how != "ends":
            step()
    except tileir.BackendError as error:
        sys.stdout.write(f"rank {rank} after {time.monotonic() - begin:.1f} s: {error}\n")
        sys.stdout.flush()
        os._exit(3)


if __name__ == "__main__":
    main(sys.argv[1])
