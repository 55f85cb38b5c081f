"""A job of several ranks that meets what its argument names; the tests start it by mpiexec."""

from __future__ import annotations

import importlib.util
import logging
import os
import runpy
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import mpi4py
import numpy as np

if sys.argv[1] in {"own", "ours"}:
    mpi4py.rc.initialize = False

from mpi4py import MPI

import tileir
from tileir import distributed
from tileir.runtime.transports import Transport
from tileir_mpi import Ranks

BLUR = "function (I[H, W]) -> (B) { B[y, x : H, W] = +(I[y + j - 1, x]), j < 3; }"
IMAGE = np.arange(28, dtype=np.float32).reshape(7, 4)
RIGHT = IMAGE + np.vstack([IMAGE[1:], 0 * IMAGE[:1]]) + np.vstack([0 * IMAGE[:1], IMAGE[:-1]])


def say(text: object) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def blur(engine: Ranks, size: int, *sharding: str | None) -> tileir.Distributed:
    program = tileir.partition(BLUR, {"x": size}, {"I": sharding or ("x", None)}, arguments=[IMAGE])
    return tileir.distribute(program, engine)


def failing(how: str, rank: int, size: int) -> None:
    """Let the last rank go astray while the others go on."""
    if how == "early" and rank == size - 1:
        tileir.distribute(tileir.partition(BLUR, {"x": size}, {}, arguments=[IMAGE]), "mpi")
        raise ValueError("no file")
    engine = Ranks(late=0.5)
    run = blur(engine, size)
    assert np.array_equal(run(IMAGE), RIGHT)
    if how == "late":  # all are there now, and what they run is compiled
        run = blur(Ranks(late=0.5, timeout=1.0), size)
    if rank == size - 1:
        match how:
            case "raises":
                raise ValueError("no room")
            case "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            case "leaves":
                sys.exit(3)
            case "late":
                time.sleep(600)
            case "differs":
                run = blur(engine, size, None, "x")
    while True:
        run(IMAGE)


def straying(rank: int, size: int) -> None:
    """Make steps of one program on the last rank, and of another one on the others, when all have made some of both."""
    rows = ("x", None)

    def stepper(divisor: int, engine: Ranks) -> Any:
        text = f"function (U[H, W]) -> (V) {{ S[y, x : H, W] = +(U[y + j - 1, x]), j < 3; V = S / {divisor}; }}"
        program = tileir.partition(text, {"x": size}, {"U": rows}, outputs={"V": rows}, arguments=[IMAGE])
        return tileir.distribute(program, engine).stepper({"U": "V"}, {"U": IMAGE})

    for engine in (Ranks(), Ranks(late=1.0, timeout=4.0)):  # when time counts, all is compiled
        both = [stepper(3, engine), stepper(4, engine)]
        for step in (*both, *both):
            step()
    while True:
        both[rank == size - 1]()


def caught(rank: int, size: int) -> None:
    """Go on after an error within a program that all ranks catch."""
    run = blur(Ranks(), size)

    def work(end: Transport) -> Any:
        if end.rank == 0:
            raise ValueError("no room")
        return run.run(end, {"I": IMAGE[:4]})

    def interrupted(end: Transport) -> Any:
        if end.rank == 0:
            signal.raise_signal(signal.SIGINT)
        return run.run(end, {"I": IMAGE[:4]})

    for each in (work, interrupted):
        try:
            run.engine.launch(size, each)
        except (tileir.BackendError, KeyboardInterrupt) as error:
            say(f"rank {rank} caught {error!r}" if rank == 0 else f"rank {rank} caught {error}")
    assert np.array_equal(run(IMAGE), RIGHT)
    say(f"rank {rank} went on")


def refused(folder: str, rank: int, size: int) -> None:
    """Go on after calls that only rank 0 refuses; one of them the other ranks make without it."""
    rows, engine = ("x", None), Ranks()
    run = blur(engine, size)
    halves = tileir.partition(
        "function (U[H, W]) -> (V) { V = U / 2; }", {"x": size}, {"U": rows}, outputs={"V": rows}, arguments=[IMAGE]
    )
    stepper = tileir.distribute(halves, engine).stepper
    image = distributed.array(IMAGE, {"x": size}, rows, transport=engine)
    distributed.save(folder, {"I": image})
    calls: list[Callable[[], object]] = [
        lambda: run(IMAGE[:3] if rank == 0 else IMAGE),
        lambda: run(IMAGE, **({"J": IMAGE} if rank == 0 else {})),
        lambda: stepper({"U": "V"}, {"U": IMAGE[:3] if rank == 0 else IMAGE}),
        lambda: stepper({"U": "W" if rank == 0 else "V"}, {"U": IMAGE}),
        lambda: distributed.array("missing.npy" if rank == 0 else IMAGE, {"x": size}, rows, transport=engine),
        lambda: distributed.load(folder, {"x": size}, {"J" if rank == 0 else "I": rows}, transport=engine),
        lambda: distributed.save(folder, {"I": image}, {"about": {rank} if rank == 0 else None}),
        lambda: image.resharded(("y" if rank == 0 else None, "x")),
        lambda: image[100 if rank == 0 else 0],
    ]
    for number, call in enumerate(calls):
        try:
            call()
        except tileir.TileError as error:
            say(f"rank {rank} in {number}: {error.diagnostics[0].code}")
        assert np.array_equal(run(IMAGE), RIGHT)
    step = stepper({"U": "V"}, {"U": IMAGE})
    step()
    for call in [lambda: step(*[IMAGE] * (rank == 0)), lambda: run(IMAGE), lambda: run(IMAGE)]:
        try:
            call()
        except tileir.TileError as error:
            say(f"rank {rank}: {error.diagnostics[0].message}")


@attrs.frozen(eq=False)
class Watched:
    """A data set that notes what is read of it."""

    data: Any
    keys: list[tuple[slice, ...]]

    @property
    def shape(self) -> tuple[int, ...]:
        shape: tuple[int, ...] = self.data.shape
        return shape

    def __getitem__(self, key: tuple[slice, ...]) -> Any:
        self.keys.append(key)
        return self.data[key]


def read_by_ranks(path: str, rank: int, size: int) -> None:
    """Read the piece of each rank of a file of HDF5, by rows and by columns, and compute with it."""
    import h5py

    with h5py.File(path) as file:
        for cut in (("x", None), (None, "x")):
            keys: list[tuple[slice, ...]] = []
            found = distributed.array(Watched(file["image"], keys), {"x": size}, cut, transport="mpi")
            assert keys == [tuple(slice(*interval) for interval in found.box(rank))]
            assert np.array_equal(found.parts[rank], IMAGE[keys[0]])
            program = tileir.partition(BLUR, {"x": size}, {"I": cut}, arguments=[IMAGE])
            assert np.array_equal(tileir.distribute(program, "mpi")(found).numpy(), RIGHT)
        whole = distributed.array(file["image"], {"x": size}, (None, None), transport="mpi")
        assert np.array_equal(whole.numpy(), IMAGE)
    say(f"rank {rank} read {found.dtype}[{', '.join(map(str, found.parts[rank].shape))}]")


def resuming(folder: str, ranks: int, steps: float, delay: float) -> None:
    """Go on from where a job was killed, and save each fifth step; a rank may be killed so long after its first one."""
    rows = ("x", None)
    text = "function (U[H, W]) -> (V) { S[y, x : H, W] = +(U[y + j - 1, x]), j < 3; V = S / 3; }"
    program = tileir.partition(text, {"x": ranks}, {"U": rows}, outputs={"V": rows}, arguments=[IMAGE])
    run = tileir.distribute(program, "mpi", options=tileir.Options(quick=True))
    step, first = run.stepper({"U": "V"}, {"U": IMAGE}), 0
    if distributed.saved(folder):
        found = distributed.load(folder, {"x": ranks}, {"U": rows}, transport="mpi")
        step.load(found.arrays)
        first = found.about["steps"]
        say(f"went on from {first}")
    done = first
    while done < steps:
        done += 5
        for _ in range(5):
            step()
        distributed.save(folder, step.state, {"steps": done})
        say(f"saved {done}")
        if delay and done == first + 5:
            threading.Timer(delay, os.kill, (os.getpid(), signal.SIGKILL)).start()
    anew = run.stepper({"U": "V"}, {"U": IMAGE})
    for _ in range(done):
        anew()
    say(np.array_equal(step.state["U"].numpy(), anew.state["U"].numpy()))


def sorting(size: int) -> None:
    """Sort what ranks have of one axis, and take back where its elements came from."""
    text = "function (X[N]) -> (S, P, U) { P = argsort(X, 0); S = gather(X, P); U = scatter(S, P, X); }"
    array = np.random.default_rng(0).integers(-9, 9, 300_011).astype(np.float32)
    array[::7] = np.nan
    program = tileir.partition(text, {"x": size}, {"X": ("x",)}, arguments=[array])
    found = tileir.distribute(program, "mpi", options=tileir.Options(quick=True))(array)
    order = np.argsort(array, kind="stable")
    for actual, right in zip(found, (array[order], order, array), strict=True):
        assert np.array_equal(np.asarray(actual), np.asarray(right), equal_nan=True)
    say(f"{len(program.meetings)} meetings, {len(program.remarks)} remarks")


def looping(size: int) -> None:
    """Halve what ranks share until its sum is small, on which they agree before each step."""
    text = """function (X[N], S[]) -> (Y, Steps) {
        L = while(X, S) function (Y, I) -> (More) { P[] = +(Y[i]); More = P > 1000; } do function (Y, I) -> (Z, J) {
            M[] = >(Y[i]);
            Z = Y > M / 2 ? Y - M / 2 : Y;
            J = I + 1;
        };
        Y = element(L, 0);
        Steps = element(L, 1);
    }"""
    array, start = np.random.default_rng(0).integers(0, 4000, 500_009).astype(np.float64), np.zeros((), np.int32)
    program = tileir.partition(text, {"x": size}, {"X": ("x",)}, arguments=[array, start])
    found = tileir.distribute(program, "mpi", options=tileir.Options(quick=True))(array, start)
    state, steps = array, 0
    while state.sum() > 1000:
        half = state.max() / 2
        state, steps = np.where(state > half, state - half, state), steps + 1
    assert np.array_equal(found[0], state)
    say(f"{len(program.rounds)} loop, as many steps as on one rank: {steps > 10 and found[1] == steps}")


def run_examples() -> None:
    """Run all examples of several ranks on small data, in one process: most of the time would go to importing."""
    folder = Path(__file__).parents[3] / "examples"
    for words in (
        *[["heat_2d", "--size", "130", "--steps", "20", "--ranks", ranks] for ranks in "123"],
        *[["heat_3d", "--size", "13", "--steps", "6", "--every", "2", "--ranks", ranks] for ranks in "26"],
        ["tensor_parallel", "--width", "16", "--time", "5", "--heads", "2", "--blocks", "2"],
        ["summa", "--size", "65", "--repeat", "1", "--ranks", "2"],
        ["sample_sort", "--keys", "10007"],
        *[["digits_in_parallel", "--epochs", "1"] for _ in range(importlib.util.find_spec("sklearn") is not None)],
    ):
        sys.argv = [str(folder / f"{words[0]}.py"), *words[1:]]
        runpy.run_path(sys.argv[0], run_name="__main__")


class Told(logging.Handler):
    """Files in the folder of the job that say which of several calls a rank has logged something in."""

    number = 0

    def emit(self, record: logging.LogRecord) -> None:
        (Path(sys.argv[2]) / str(self.number)).write_text(record.getMessage())

    def wait(self, number: int) -> None:
        """Be late: until another rank says so."""
        while not (Path(sys.argv[2]) / str(number)).exists():
            time.sleep(0.05)


def many(rank: int, size: int) -> None:
    """Run on some of the ranks, wait for one that is late, and refuse numbers of ranks that are not there."""
    half = MPI.COMM_WORLD.Split(rank % 2)
    assert np.array_equal(blur(Ranks(half), half.size)(IMAGE), RIGHT)
    run, told = blur(Ranks(late=0.2), size), Told()
    if rank == 0:
        logging.getLogger("tileir_mpi").addHandler(told)
    for number in range(2):
        if rank == 1:
            told.wait(number)
        told.number = number
        assert np.array_equal(run(IMAGE), RIGHT)
    try:
        blur(Ranks(), size + 1)(IMAGE)
    except tileir.BackendError as error:
        say(f"rank {rank}: {error}")
    half.Free()


def in_pieces(size: int) -> None:
    """Merge products that are large enough to be computed in pieces: to the bits that threads come to."""
    text = "function (A[M, K], B[K, N]) -> (C) { C[i, j : M, N] = +(A[i, k] * B[k, j]); }"
    a, b = (np.random.default_rng(number).standard_normal((1024, 1024)).astype(np.float32) for number in range(2))
    for rows in ((None, None), ("x", None)):
        cut = {"A": (None, "x"), "B": ("x", None)}
        program = tileir.partition(text, {"x": size}, cut, outputs={"C": rows}, arguments=[a, b])
        found = tileir.distribute(program, "mpi")(a, b)
        assert np.allclose(found, a @ b, atol=1e-3)
        if MPI.COMM_WORLD.rank == 0:
            assert np.array_equal(found, tileir.distribute(program)(a, b))


def initialised(how: str, size: int) -> None:
    """Initialise and finalise MPI here, or leave both to the engine."""
    if how == "own":
        MPI.Init()
    assert np.array_equal(blur(Ranks(), size)(IMAGE), RIGHT)
    assert MPI.Is_initialized()
    if how == "own":
        MPI.Finalize()
        try:
            blur(Ranks(), size)(IMAGE)
        except tileir.BackendError as error:
            say(error)


def main() -> None:
    logging.basicConfig()
    how = sys.argv[1]
    if how in {"own", "ours"}:
        initialised(how, int(sys.argv[2]))
        return
    rank, size = MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size
    match how:
        case "alone":
            say(np.array_equal(blur(Ranks(), 2)(IMAGE), RIGHT))
        case "caught":
            caught(rank, size)
        case "refused":
            refused(sys.argv[2], rank, size)
        case "hdf5":
            read_by_ranks(sys.argv[2], rank, size)
        case "resuming":
            ranks = size if size > 1 else int(sys.argv[3])
            resuming(sys.argv[2], ranks, float(sys.argv[4]), float(sys.argv[5]) if rank == int(sys.argv[6]) else 0)
        case "examples":
            run_examples()
        case "sorts":
            sorting(size)
            looping(size)
        case "strays":
            straying(rank, size)
        case "many":
            many(rank, size)
            in_pieces(size)
        case _:
            failing(how, rank, size)


if __name__ == "__main__":
    main()
