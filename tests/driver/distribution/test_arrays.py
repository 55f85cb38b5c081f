"""Distributed arrays: made in parts, indexed and printed like those of NumPy, and handed to programs as they are."""

from __future__ import annotations

import copy
import pickle
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given, strategies as st

import tileir
from strategies.effort import examples
from tileir import distributed
from tileir.core import ArgumentError, BackendError, TileError
from tileir.runtime.transports import THREADS, Threads
from tileir.typed.sharding.interpreter import scattered

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from tileir.runtime.transports import Transport

from_parts: Any = distributed.from_parts  # whatever types are, to be refused

MESHES = ({"x": 2}, {"x": 3}, {"x": 2, "y": 2}, {"x": 2, "y": 3})


class Process:
    """The engine of a process that is one rank of several: here each is a thread."""

    name = "process"

    def __init__(self, end: Transport) -> None:
        self.end = end

    def launch(self, size: int, work: Callable[[Transport], Any]) -> Mapping[int, Any]:
        assert size == self.end.size
        return {self.end.rank: work(self.end)}


def in_processes(work: Callable[[Process], Any], size: int = 2) -> list[Any]:
    """Return what each of several processes returns."""
    return list(THREADS.launch(size, lambda end: work(Process(end))).values())


class Sliced:
    """Rows on a disk, say: it tells how much of it was read."""

    def __init__(self, content: Any) -> None:
        self.content, self.shape, self.read = content, content.shape, 0

    def __getitem__(self, key: Any) -> Any:
        self.read += self.content[key].size
        return self.content[key]


class Whole(Sliced):
    """An array with all of its rows in each slice."""

    def __getitem__(self, key: Any) -> Any:
        return self.content


@st.composite
def placed(draw: st.DrawFn) -> tuple[np.ndarray[Any, Any], distributed.DistributedArray]:
    """Draw an array, and one that is distributed with its elements."""
    mesh = draw(st.sampled_from(MESHES))
    shape = tuple(draw(st.lists(st.integers(0, 7), max_size=3)))
    whole = np.arange(np.prod(shape, dtype=int), dtype=draw(st.sampled_from(["i4", "f8", "u1"]))).reshape(shape)
    return whole, distributed.array(whole, mesh, draw(cuts(mesh, len(shape))))


@st.composite
def cuts(draw: st.DrawFn, mesh: dict[str, int], rank: int) -> tuple[tuple[str, ...], ...]:
    entries: list[list[str]] = [[] for _ in range(rank)]
    for name in mesh if rank else ():
        place = draw(st.integers(-1, rank - 1))
        if place >= 0:
            entries[place].append(name)
    return tuple(map(tuple, entries))


@examples(40)
@given(placed(), st.data())
def test_elements_are_where_they_are_laid_out_and_come_back(
    pair: tuple[np.ndarray[Any, Any], distributed.DistributedArray], data: st.DataObject
) -> None:
    whole, found = pair
    other = found.resharded(data.draw(cuts(dict(found.mesh.axes), whole.ndim)))
    for each in (found, other):
        assert (each.shape, each.dtype, each.ndim, each.size) == (whole.shape, whole.dtype, whole.ndim, whole.size)
        for part, right in zip(each.parts.values(), scattered(whole, each.layout, each.mesh), strict=True):
            np.testing.assert_array_equal(part, right)
        np.testing.assert_array_equal(each.numpy(), whole)
    slices = st.builds(slice, *[st.none() | st.integers(-8, 8)] * 2, st.sampled_from([None, 1, 2, 3, -1, -2]))
    places = [slices if size == 0 else slices | st.integers(-size, size - 1) for size in whole.shape]
    key: tuple[Any, ...] = data.draw(st.tuples(*places))
    key = data.draw(st.sampled_from([key, (*key[:1], ..., *key[2:]) if whole.ndim > 1 else (*key, ...)]))
    np.testing.assert_array_equal(found[key], whole[key], strict=True)


@pytest.mark.parametrize("shape", [(3,), (4, 5), (1200,), (40, 70), (3, 8, 60), (0, 2000)])
def test_text_is_that_of_numpy(shape: tuple[int, ...]) -> None:
    whole = np.arange(np.prod(shape), dtype="f4").reshape(shape) / 3
    cut = ("x", *[None] * (len(shape) - 1))
    texts = in_processes(lambda engine: str(distributed.array(whole, {"x": 2}, cut, transport=engine)))
    assert {*texts, str(distributed.array(whole, {"x": 2}, cut))} == {str(whole)}


def test_only_what_is_shown_travels() -> None:
    def work(engine: Process) -> tuple[int, int, int]:
        sent: list[int] = []
        exchange = engine.end.exchange

        def counted(messages: Any, received: Any) -> None:
            sent.append(sum(array.nbytes for _, array in messages if array.dtype != np.uint8))  # digests apart
            exchange(messages, received)

        vars(engine.end)["exchange"] = counted
        cut: Any = ("x", None)
        found = distributed.array(lambda y, x: y + x, {"x": 2}, cut, shape=(400, 300), transport=engine)
        made = sum(sent)
        str(found)
        shown = sum(sent)
        assert found[::100, ::100].shape == (4, 3)
        return made, shown - made, sum(sent) - shown

    assert in_processes(work) == [(0, 8 * 18, 8 * 6)] * 2


def test_functions_see_the_indices_of_their_part_alone() -> None:
    seen = []

    def made(y: Any, x: Any) -> Any:
        seen.append((y.shape, x.shape, int(y[0, 0]), int(x[0, 0])))
        return 10 * y + x

    found = distributed.array(made, {"x": 3}, (None, "x"), shape=(4, 7))
    assert sorted(seen) == [((4, 1), (1, 2), 0, 3), ((4, 1), (1, 2), 0, 5), ((4, 1), (1, 3), 0, 0)]
    np.testing.assert_array_equal(found.numpy(), np.fromfunction(made, (4, 7), dtype=int))
    constant = distributed.array(lambda _: np.float32(3), {"x": 2}, ("x",), shape=(5,))
    assert constant.numpy().tolist() == [3] * 5


def test_files_are_read_in_pieces(tmp_path: Path) -> None:
    whole = np.arange(21, dtype="f4").reshape(7, 3)
    np.save(tmp_path / "a.npy", whole)
    np.testing.assert_array_equal(distributed.array(tmp_path / "a.npy", {"x": 2}, ("x", None)).parts[1], whole[4:])
    source = Sliced(whole)
    np.testing.assert_array_equal(distributed.array(source, {"x": 2}, ("x", None)).numpy(), whole)
    assert source.read == whole.size


def test_ranks_read_their_pieces_of_files_of_hdf5(tmp_path: Path) -> None:
    """Each rank opens the file by itself, as processes do."""
    h5py = pytest.importorskip("h5py")
    whole = np.arange(84, dtype="f4").reshape(7, 4, 3)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("group/u", data=whole, chunks=(2, 2, 3), compression="gzip")

    def work(engine: Process) -> list[Any]:
        with h5py.File(tmp_path / "a.h5") as file:
            source = Sliced(file["group/u"])
            found = distributed.array(source, {"x": 3}, (None, "x", None), transport=engine)
        np.testing.assert_array_equal(found.numpy(), whole)
        return [source.read, *found.parts]

    assert in_processes(work, 3) == [[42, 0], [21, 1], [21, 2]]


def test_parts_of_others_need_not_be_even() -> None:
    split = distributed.Split(("x",), ((0, 3), (3, 6), (6, 7)))
    whole = np.arange(7)
    found = distributed.from_parts(dict(enumerate(np.split(whole, [3, 6]))), {"x": 3}, (split,))
    assert found.resharded(("x",)).on_host(2).tolist() == [5, 6]
    with pytest.raises(ArgumentError, match=r"TIL701.*part of rank 1 is int64\[2\], and its places int64\[3\]"):
        distributed.from_parts(dict(enumerate(np.split(whole, [3, 5]))), {"x": 3}, (split,))


STEP = "function (U[H, W], F) -> (V, M) { S[y, x : H, W] = +(U[y + j - 1, x]), j < 3; V = F * S; M[] = >(V[y, x]); }"
IMAGE = np.arange(28, dtype=np.float32).reshape(7, 4)


@pytest.mark.parametrize("intervals", [((0, 3), (3, 6), (6, 7)), ((0, 0), (0, 7), (7, 7)), ((4, 7), (0, 4), (4, 4))])
@pytest.mark.parametrize("axis", [0, 1])
def test_programs_take_arrays_whose_parts_are_not_even(axis: int, intervals: tuple[tuple[int, int], ...]) -> None:
    """As those that PyTorch cuts, where a layout says so, and nothing is exchanged for the change."""
    whole = np.arange(49, dtype=np.float32).reshape(7, 7)
    layout = [distributed.Split((), ((0, 7),))] * 2
    layout[axis] = distributed.Split(("x",), intervals)
    parts = {n: whole[tuple(slice(*each) for each in box)] for n, box in enumerate(boxes(layout, 3))}
    found = distributed.from_parts(parts, {"x": 3}, tuple(layout))
    for text, moves in (("B = A * 2;", False), ("B[i, j : N, M] = +(A[i + k - 1, j + l - 1]), k < 3, l < 3;", True)):
        program = f"function (A[N, M]) -> (B) {{ {text} }}"
        made = tileir.partition(
            program, found.mesh, {"A": found.layout}, outputs={"B": found.layout}, arguments=[found]
        )
        assert moves or not made.collectives
        result = tileir.distribute(made, options=tileir.Options(quick=True))(found)
        assert result.layout == found.layout
        np.testing.assert_array_equal(result.numpy(), tileir.evaluate(program, [whole]))


def boxes(layout: list[distributed.Split], ranks: int) -> list[list[tuple[int, int]]]:
    return [[split.intervals[rank if split.axes else 0] for split in layout] for rank in range(ranks)]


def stepping(transport: Any = "inprocess", **outputs: Any) -> tileir.Distributed:
    program = tileir.partition(STEP, {"x": 2}, {"U": ("x", None)}, outputs=outputs, arguments=[IMAGE, ("f32", ())])
    return tileir.distribute(program, transport, options=tileir.Options(quick=True))


def test_calls_with_distributed_arrays_keep_results_where_they_are() -> None:
    half = np.float32(0.5)
    right, largest = tileir.evaluate(STEP, [IMAGE, half])

    def work(engine: Any) -> dict[int, tuple[int, ...]]:
        u = distributed.array(IMAGE, {"x": 2}, ("x", None), transport=engine)
        run = stepping(engine, V=("x", None))
        found, most = run(u, half)
        np.testing.assert_array_equal(found.numpy(), right)
        np.testing.assert_array_equal(found[1:6:2], right[1:6:2])
        assert float(most) == largest
        np.testing.assert_array_equal(run(IMAGE, half)[0], right)
        return {rank: part.shape for rank, part in found.parts.items()}

    assert work("inprocess") == {0: (4, 4), 1: (3, 4)}
    assert in_processes(work) == [{0: (4, 4)}, {1: (3, 4)}]
    u = distributed.array(IMAGE, {"x": 2}, ("x", None))
    assert tileir.partition(STEP, {"x": 2}, {}, arguments=[u, ("f32", ())]).function.inputs[0].shape == (7, 4)


def test_steppers_keep_their_state_in_parts() -> None:
    run = stepping(V=("x", None))
    step = run.stepper({"U": "V"}, {"U": IMAGE})
    assert (step.inputs, step.outputs) == (("F",), ("M",))
    right = IMAGE
    for factor in (np.float32(0.5), np.float32(0.25)):
        right, most = tileir.evaluate(STEP, [right, factor])
        assert float(step(factor)) == most
    state = step.state
    np.testing.assert_array_equal(state["U"].numpy(), right)
    assert [part.shape for part in state["U"].parts.values()] == [(4, 4), (3, 4)]
    with pytest.raises(ArgumentError, match=r"TIL701"):
        step(IMAGE)
    assert step.state == state
    step.load({"U": IMAGE})
    np.testing.assert_array_equal(step.state["U"].numpy(), IMAGE)
    step.load(state)
    assert step.state == state
    for wrong, code in (({"W": IMAGE}, "TIL705"), ({"U": IMAGE[1:]}, "TIL701"), (3, "TIL707")):
        with pytest.raises(ArgumentError, match=code):
            step.load(wrong)  # type: ignore[arg-type]


def one_part(u: distributed.DistributedArray, engine: Any) -> distributed.DistributedArray:
    return distributed.from_parts({0: u.parts[0]}, u.mesh, u.layout, engine)  # type: ignore[dict-item]


def cut_at(*intervals: tuple[int, int]) -> distributed.Split:
    return distributed.Split(("x",), intervals)


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda u: stepping().stepper({"U": "M"}, {"U": u}), r"TIL709.*result 'M' is f32\[\] at \[\], but input 'U'"),
        (lambda u: stepping(V=(None, "x")).stepper({"U": "V"}, {"U": u}), "TIL709.*by outputs= of tileir.partition"),
        (lambda _: stepping().stepper({"U": "V"}, {}), "TIL705"),
        (
            lambda u: stepping()(u.resharded((None, "x")), np.float32(1)),
            r"TIL352.*'U' has parts \[0:7, x 0:2 2:4\], but the program",
        ),
        (
            lambda u: stepping()(one_part(u, Process(Mock())), np.float32(1)),
            "TIL352.*'U' is on the ranks x=2 by 'process', and not on x=2 by 'inprocess'; make it there",
        ),
        (lambda u: tileir.jit(STEP)(u, np.float32(1)), r"TIL702.*write array.numpy\(\)"),
        (lambda u: u[7], "TIL314.*out of bounds for axis 0 with size 7; write integers or slices"),
        (lambda u: u[None], "TIL314"),
        (lambda u: u[True], "TIL314.*'bool' object is a mask; write integers or slices"),
        (lambda u: u[np.array([1, 2])], "TIL314"),
        (lambda u: u[..., IMAGE > 3], "TIL314"),
        (lambda u: u[::0], "TIL314.*step cannot be zero"),
        (lambda u: u[..., ...], "TIL314"),
        (lambda u: u[1, 2, 3], "TIL314.*there are 2 axes"),
        (lambda u: u.resharded(("z", None)), "TIL352.*names the axis 'z'"),
        (lambda _: distributed.array("no.npy", {"x": 2}, ("x",)), "TIL901.*cannot read no.npy"),
        (lambda _: distributed.array(np.arange, {"x": 2}, ("x",)), r"TIL705.*as in shape=\(4, 6\)"),
        (lambda _: distributed.array(IMAGE, {"x": 2}, ("x", None), shape=(2, 2)), r"TIL701.*of shape \[7, 4\], not"),
        *(
            (lambda _, shape=shape: distributed.array(np.arange, {"x": 2}, ("x",), shape=shape), "TIL707.*no extents")
            for shape in (7, (-3,), (3.5,), "7")
        ),
        (lambda u: from_parts(list(u.parts.values()), u.mesh, u.layout), "TIL707.*parts is a mapping"),
        (lambda u: from_parts(u.parts, u.mesh, ("x", None)), r"TIL707.*a Split for each axis"),
        (lambda u: from_parts(u.parts, u.mesh, u.sharding), r"TIL707.*a Split for each axis"),
        (lambda u: from_parts(u.parts, {"y": 2}, u.layout), "TIL352.*cut along 'x', which the mesh y=2"),
        (lambda u: from_parts(u.parts, {"x": 3}, u.layout), "TIL352.*2 intervals for 3 ranks"),
        (lambda u: from_parts(u.parts, u.mesh, [u.layout[0]] * 2), "TIL352.*cut along 'x' twice"),
        (lambda u: from_parts(u.parts, u.mesh, [cut_at((0, 4), (5, 8))]), "TIL352.*misses places: x 0:4"),
        (lambda u: from_parts(u.parts, u.mesh, [cut_at((0, 4), (5, 5))]), "TIL352.*misses places: x 0:4"),
        (lambda u: from_parts(u.parts, u.mesh, [cut_at((-1, 4), (4, 7))]), "TIL352.*are no intervals"),
        (lambda u: from_parts({}, u.mesh, u.layout), r"TIL701.*parts of the ranks \[\]; give all of them"),
        (lambda u: from_parts({0: u.parts[0], 2: 1}, u.mesh, u.layout), r"TIL701.*of the ranks \[0, 2\]"),
        (lambda u: one_part(u, THREADS), "TIL701.*give all of them, since they are threads"),
        (
            lambda u: from_parts({0: u.parts[0], 1: u.parts[1].astype(int)}, u.mesh, u.layout),
            r"TIL701.*rank 1 is int64\[3, 4\], and its places float32\[3, 4\]",
        ),
        (
            lambda u: from_parts({0: u.parts[0], 1: u.parts[1] * 1j}, u.mesh, u.layout),
            "TIL702.*'the part of rank 1' has elements of type complex64",
        ),
    ],
)
def test_what_does_not_go_together(made: Any, message: str) -> None:
    with pytest.raises(TileError, match=message):
        made(distributed.array(IMAGE, {"x": 2}, ("x", None)))


def test_what_is_pickled(tmp_path: Path) -> None:
    """Programs, arrays and steppers come back on the engines that they were on, and go together with others."""
    run, u = stepping(V=("x", None)), distributed.array(IMAGE, {"x": 2}, ("x", None))
    step = run.stepper({"U": "V"}, {"U": u})
    run_again, u_again, step_again = pickle.loads(pickle.dumps((run, u, step)))
    np.testing.assert_array_equal(run_again(u, np.float32(1))[0].numpy(), run(u_again, np.float32(1))[0].numpy())
    for each in (step, step_again):
        each(np.float32(2))
    np.testing.assert_array_equal(step_again.state["U"].numpy(), step.state["U"].numpy())
    distributed.save(tmp_path, {"U": u, "V": u_again})
    copied = copy.deepcopy(stepping(Process(Mock())))
    assert isinstance(copied.engine, Process)
    late = pickle.loads(pickle.dumps(stepping(Threads(late=1.0))))
    assert late.engine == Threads(late=1.0)


def test_arrays_are_put_together_where_that_is_said_alone() -> None:
    found = distributed.array(IMAGE, {"x": 2}, ("x", None))
    assert repr(found) == "DistributedArray(float32[7, 4] cut (x, _) over x=2)"
    assert found.nbytes == IMAGE.nbytes
    with pytest.raises(TileError, match=r"TIL714.*write array.numpy\(\), or array\[::8\]"):
        np.asarray(found)
    with pytest.raises(TypeError):
        iter(found)


@pytest.mark.parametrize(
    ("work", "message"),
    [
        (
            lambda u, rank: distributed.array(IMAGE[:, rank:], u.mesh, ("x", None), transport=u.engine),
            "dtype of an array",
        ),
        (
            lambda u, rank: distributed.array(
                IMAGE.astype(("f4", "f8")[rank]), u.mesh, ("x", None), transport=u.engine
            ),
            "dtype",
        ),
        (lambda u, rank: u.resharded(([(None, "x"), (None, None)])[rank]), "how they lay an array out"),
        (lambda u, rank: u[rank:], "the elements that they read"),
    ],
)
def test_ranks_that_differ_are_refused(work: Any, message: str) -> None:
    def run(engine: Process) -> None:
        u = distributed.array(IMAGE, {"x": 2}, ("x", None), transport=engine)
        work(u, engine.end.rank)

    with pytest.raises(BackendError, match=f"TIL815.: rank 1 differs from rank 0 in .*{message}"):
        in_processes(run)


def test_a_rank_that_cannot_make_its_part_is_named() -> None:
    def made(y: Any) -> Any:
        if y[0]:
            raise OSError("no such rows")
        return y

    with pytest.raises(BackendError, match=r"TIL814.*rank 1 failed, and so the others stopped: OSError: no such rows"):
        distributed.array(made, {"x": 2}, ("x",), shape=(4,))


@pytest.mark.parametrize(
    ("source", "has"),
    [
        (lambda *_: np.zeros((3, 3)), "3, 3"),
        (lambda y, x: np.zeros((1, *np.broadcast_shapes(y.shape, x.shape))), "1, 2, 3"),
        (Whole(np.zeros((4, 3))), "4, 3"),
    ],
    ids=["another size", "one more axis", "slices that are not sliced"],
)
def test_parts_of_another_shape_are_refused(source: Any, has: str) -> None:
    with pytest.raises(BackendError, match=rf"TIL814.*TIL701.*of shape \[{has}\] for a part of shape \[2, 3\]"):
        distributed.array(source, {"x": 2}, ("x", None), shape=(4, 3))
