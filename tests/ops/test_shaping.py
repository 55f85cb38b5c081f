"""Shapes: what is refused, what compiles to nothing, and slices, pads and the like of all kinds against NumPy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest
from hypothesis import given, strategies as st

import tileir
from strategies.operations import fault_of, run, sample
from tileir import ops
from tileir.semtree.kinds import BufferRole
from tileir.tile.text.printer import expression_text, to_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from tileir.tile.builder import Tensor

S: Final = np.s_
FRACTION: Any = 1.5  # where an integer belongs
TEXT: Any = "1"
TRIPLE: Any = (1, 2, 3)


@pytest.mark.parametrize(
    ("attempt", "code", "message"),
    [
        (lambda x: ops.reshape(x, -1, -1), "TIL217", "at most one size of a reshape is -1"),
        (lambda x: ops.reshape(x, FRACTION), "TIL217", "sizes has to be a dimension, an integer or a sequence of"),
        (lambda x: ops.flatten(x, first=3), "TIL314", "the axis is 3, but the tensor has axes 0 to 2"),
        (lambda x: ops.flatten(x, first=2, last=1), "TIL217", "the last axis, 1, comes before the first, 2"),
        (lambda x: ops.squeeze(x, 5), "TIL314", "the axis is 5, but the tensor has axes 0 to 2"),
        (lambda x: ops.unsqueeze(x, 4), "TIL314", "the axis is 4, but the tensor has axes 0 to 3"),
        (lambda x: ops.unsqueeze(x, (0, -5)), "TIL217", "an axis stands twice among (0, -5)"),
        (
            lambda x: ops.unsqueeze(x, FRACTION),
            "TIL217",
            "unsqueeze: axes has to be an integer or a sequence of integers, not 1.5",
        ),
        (lambda x: ops.transpose(x, (0, 1)), "TIL217", "each of 3 axes stands once in an order of axes, not (0, 1)"),
        (lambda x: ops.transpose(x, (0, 1, 1)), "TIL217", "each of 3 axes stands once in an order of axes"),
        (lambda x: ops.swapaxes(x, 0, 3), "TIL314", "the axis is 3"),
        (lambda x: ops.moveaxis(x, -4, 0), "TIL314", "the axis is -4"),
        (lambda x: ops.broadcast_to(x, 2, 3), "TIL310", "a tensor of rank 3 cannot be broadcast to 2 axes"),
        (
            lambda x: ops.broadcast_to(ops.broadcast_to(x, 2, 2, 2), 2, 2, 3),
            "TIL310",
            "an axis of size 2 cannot be broadcast to 3",
        ),
        (lambda x: ops.tile(x, FRACTION), "TIL217", "counts has to be a dimension, an integer"),
        (lambda x: ops.repeat(x, 2, 3), "TIL314", "the axis is 3"),
        (lambda x: ops.slice(x, S[:, :, :, :]), "TIL209", "there are 4 keys, but the tensor has rank 3"),
        (lambda x: ops.slice(x, S[..., ...]), "TIL217", "at most one key of a slice is ..."),
        (lambda x: ops.slice(x, S[::0]), "TIL217", "the step of a slice is not 0"),
        (lambda x: ops.slice(x, TEXT), "TIL217", "a position is an integer, not '1'"),
        (lambda x: ops.slice(x, S[1.5:]), "TIL217", "a bound of a slice is an integer, not 1.5"),
        (lambda x: ops.slice(x, x), "TIL217", "a tensor is no key of a slice; use gather"),
        (lambda x: ops.slice(ops.slice(x, S[:, 1:3]), S[:, 9]), None, ""),
        (
            lambda x: ops.select(ops.broadcast_to(x, 2, 2, 2), 1, 2),
            "TIL314",
            "the position is 2, but the axis has size 2",
        ),
        (lambda x: ops.flip(x, (0, 0)), "TIL217", "an axis stands twice among (0, 0)"),
        (lambda x: ops.rot90(x, 1, (0, 0)), "TIL217", "an axis stands twice among (0, 0)"),
        (lambda x: ops.rot90(x, 1, (0, 1, 2)), "TIL217", "a rotation has two axes, not 3"),
        (lambda x: ops.roll(x, (1, 2), 0), "TIL217", "there are 2 shifts but 1 axes"),
        (lambda _: ops.concatenate([]), "TIL217", "there is nothing to concatenate"),
        (lambda x: ops.concatenate([x, ops.flatten(x)]), "TIL305", "tensors of rank 3 and 1 cannot be concatenated"),
        (lambda x: ops.concatenate([x, x], 3), "TIL314", "the axis is 3"),
        (
            lambda x: ops.concatenate([ops.reshape(x, 2, 3), ops.reshape(x, 4, 2)]),
            "TIL310",
            "two sizes have to be equal, but are 3 and 2",
        ),
        (lambda x: ops.split(x, 0), "TIL217", "there is at least one part, not 0"),
        (lambda x: ops.split(ops.reshape(x, 5), 2), "TIL310", "two sizes have to be equal, but are 5 and 4"),
        (lambda x: ops.pad(x, [1, 2]), "TIL217", "each of 3 axes needs its widths, but there are 2"),
        (lambda x: ops.pad(x, [TRIPLE, 0, 0]), "TIL217", "the widths of an axis are two: before and behind it"),
        (lambda x: ops.pad(x, FRACTION), "TIL217", "pad: pads has to be a dimension, an integer"),
        (
            lambda x: ops.pad(x, 1, mode="reflective"),
            "TIL217",
            "mode is one of 'constant', 'reflect', 'symmetric', 'edge', 'wrap', not 'reflective'",
        ),
        (lambda x: ops.pad(ops.reshape(x, 0), 2, mode="reflect"), "TIL314", "an axis of size 0 has no position 0"),
        (lambda x: ops.image_patches(ops.flatten(x), 2), "TIL305", "images have a batch, sizes and channels"),
        (lambda x: ops.image_patches(x, 2, strides=0), "TIL217", "strides is from 1 on; it was 0"),
        (lambda x: ops.image_patches(x, (2, 2)), "TIL217", "each of 1 axes needs a number, but there are 2"),
        (lambda x: ops.image_patches(x, 2, padding="full"), "TIL217", "padding is one of 'valid', 'same', not 'full'"),
        (
            lambda x: ops.image_patches(x, 2, padding=[]),
            "TIL217",
            "each of 1 axes needs a pair of widths, but there are 0",
        ),
    ],
)
def test_mistakes(attempt: Callable[[Tensor], object], code: str | None, message: str) -> None:
    x = tileir.FunctionBuilder().input("X", "A", "B", "C")
    if code is None:
        attempt(x)
        return
    found = fault_of(lambda: attempt(x), __file__)
    assert found[0] == code
    assert message in found[1]


@pytest.mark.parametrize(
    ("build", "code", "message"),
    [
        (lambda x: ops.reshape(x, 7), "TIL310", "has 12 elements"),
        (lambda x: ops.squeeze(x, 0), "TIL310", "cannot become [4]"),
        (lambda x: ops.broadcast_to(x, 3, 5), "TIL301", "'X0_1' is 4 and 'ops.broadcast_to(x, 3, 5)' is 5"),
        (lambda x: ops.broadcast_to(x, 1, 4), "TIL312", "'ops.broadcast_to(x, 1, 4)' needs 1"),
        (lambda x: ops.slice(x, S[3]), "TIL312", "'X0_0' is 3, but 'ops.slice(x, S[3])' needs 4"),
        (lambda x: ops.slice(x, S[:, -5]), "TIL312", "'X0_1' is 4, but 'ops.slice(x, S[:, -5])' needs 5"),
        (lambda x: ops.slice(x, x.dims[1]), "TIL312", "'X0_0' is 3, but 'ops.slice(x, x.dims[1])' needs 5"),
        (
            lambda x: ops.concatenate([x, ops.transpose(x)]),
            "TIL312",
            "'X0_1' is 4 and 'X0_0' is 3, but both must match",
        ),
        (lambda x: ops.split(x, 2)[0], "TIL312", "'X0_0' is 3, but 'ops.split(x, 2)' needs 2"),
        (lambda x: ops.split(x, [1, 1])[1], "TIL312", "'ops.split(x, [1, 1])' needs 2"),
    ],
)
def test_mistakes_that_depend_on_sizes(build: Callable[[Tensor], Tensor], code: str, message: str) -> None:
    found = fault_of(lambda: run(build, sample(3, 4)), __file__)
    assert found[0] == code
    assert message in found[1]


@pytest.mark.parametrize("mode", ["edge", "reflect", "symmetric", "wrap"])
def test_nothing_cannot_be_repeated(mode: str) -> None:
    code, message = fault_of(lambda: run(lambda x: ops.pad(x, [1, 0], mode=mode), sample(0, 4)), __file__)
    assert (code, "needs 1" in message) == ("TIL312", True)


def test_sizes_stay_simple() -> None:
    f = tileir.FunctionBuilder()
    x = f.input("X", "N", "C", "H", "W")
    n, c, h, w = x.dims
    assert ops.reshape(x, n, -1, w).dims[1] == c * h
    assert ops.reshape(ops.reshape(x, n, c, -1), (x.dims[0], -1)).dims[1] == c * (h * w)
    assert ops.reshape(ops.broadcast_to(f.scalar("S"), 4, 6), 3, -1).dims[1].value == 8
    assert ops.flip(ops.roll(ops.transpose(x), 1, 0)).dims == (w, h, c, n)
    assert ops.slice(x, S[:, ::1, None]).dims[:2] == (n, c)
    assert [expression_text(dim.expr) for dim in ops.slice(x, S[1:, :-1, ::2, 2:7]).dims] == [
        "max(N - 1, 0)",
        "max(C - 1, 0)",
        "(H + 1) / 2",
        "max(min(7, W) - 2, 0)",
    ]


def test_what_changes_nothing_records_nothing() -> None:
    f = tileir.FunctionBuilder()
    x = f.input("X", "N", "C")
    assert ops.transpose(x, (0, 1)) is x
    assert ops.roll(x, 0, 1) is x
    assert ops.rot90(x, 4) is x
    assert ops.pad(x, 0, mode="edge") is x
    assert to_text(f.build(Y=ops.slice(x, S[:, 1]))).splitlines()[1:-1] == [
        "  T = min(1, match(C, max(C, 2)));",
        "  Y[i0 : N] = =(X[i0, T]);",
    ]


bounds = st.one_of(st.none(), st.integers(-7, 7))
keys = st.builds(slice, bounds, bounds, st.sampled_from([None, 1, 2, 3, -1, -2, -4]))


@given(key=keys, size=st.integers(1, 6), known=st.booleans())
def test_slices_are_those_of_numpy(key: slice, size: int, known: bool) -> None:
    x = sample(size)
    build = (lambda t: ops.slice(ops.reshape(t, size), key)) if known else (lambda t: ops.slice(t, key))
    np.testing.assert_array_equal(run(build, x), x[key])


@given(
    pads=st.tuples(st.integers(0, 9), st.integers(0, 9)),
    mode=st.sampled_from(["constant", "reflect", "symmetric", "edge", "wrap"]),
    size=st.integers(1, 5),
)
def test_pads_are_those_of_numpy(pads: tuple[int, int], mode: Any, size: int) -> None:
    x = sample(size, 2)
    np.testing.assert_array_equal(run(lambda t: ops.pad(t, [pads, 0], mode=mode), x), np.pad(x, (pads, (0, 0)), mode))


@given(shift=st.integers(-9, 9), size=st.integers(0, 4))
def test_rolls_are_those_of_numpy(shift: int, size: int) -> None:
    x = sample(size, 2)
    np.testing.assert_array_equal(run(lambda t: ops.roll(t, shift, 0), x), np.roll(x, shift, 0))


def test_pads_keep_dtypes() -> None:
    x = np.arange(3, dtype=np.int16)
    padded = run(lambda t: ops.pad(t, 1, value=7), x)
    assert padded.dtype == np.int16
    np.testing.assert_array_equal(padded, [7, 0, 1, 2, 7])


def test_positions_that_are_narrowed_to_have_to_exist() -> None:
    x = np.arange(5.0)
    np.testing.assert_array_equal(run(lambda t: ops.narrow(t, 0, -2, 2), x), x[-2:])
    np.testing.assert_array_equal(run(lambda t: ops.narrow(t, 0, 1, t.dims[0] - 1), x), x[1:])
    assert run(lambda t: ops.narrow(t, 0, 5, 0), x).size == 0
    for start, length in ((3, 3), (-2, 3), (-6, 2), (6, 0)):
        assert fault_of(lambda: run(lambda t: ops.narrow(t, 0, start, length), x), __file__)[0] == "TIL312"  # noqa: B023
    fixed = ops.reshape(tileir.FunctionBuilder().input("X", "N"), 5)
    assert fault_of(lambda: ops.narrow(fixed, 0, 3, 3), __file__)[0] == "TIL314"
    assert fault_of(lambda: ops.narrow(fixed, 0, 3, -1), __file__)[0] == "TIL217"


@pytest.mark.parametrize("count", [2, 4])
def test_unstacking_leaves_nothing_out(count: int) -> None:
    assert fault_of(lambda: run(lambda x: ops.unstack(x, count), np.ones((3, 2))), __file__)[0] == "TIL310"
    x = ops.reshape(tileir.FunctionBuilder().input("X", "N"), 3, 2)
    assert fault_of(lambda: ops.unstack(x, count), __file__)[0] == "TIL310"
    assert fault_of(lambda: ops.unstack(x, 0), __file__)[0] == "TIL217"
    assert fault_of(lambda: run(lambda x: ops.cross(x, x), np.ones((2, count))), __file__)[0] == "TIL310"


@given(
    sizes=st.lists(st.integers(0, 5), min_size=1, max_size=9),
    axis=st.integers(0, 2),
    dtype=st.sampled_from([np.float32, np.int8, np.bool_, np.int64]),
)
def test_parts_are_written_one_behind_the_other(sizes: list[int], axis: int, dtype: type[np.generic]) -> None:
    shapes = [tuple(size if place == axis else 2 + place for place in range(3)) for size in sizes]
    parts = [(np.arange(np.prod(shape)).reshape(shape) % 7 - 3).astype(dtype) for shape in shapes]
    result = run(lambda *tensors: ops.concatenate(tensors, axis), *parts)
    np.testing.assert_array_equal(result, np.concatenate(parts, axis))


@pytest.mark.parametrize("count", [2, 3, 4])
def test_up_to_four_parts_are_copied_once(count: int) -> None:
    f = tileir.FunctionBuilder()
    parts = [f.input(f"X{part}", "N", f"M{part}", "K") for part in range(count)]
    shapes = [(3, 2 + part, 5) for part in range(count)]
    executable = tileir.compile(f.build(O=ops.concatenate(parts, 1)), shapes, device="llvm")
    assert not [buffer for buffer in executable.sem.buffers if buffer.role is BufferRole.TEMPORARY]


def test_sizes_are_put_into_a_vector() -> None:
    def build(x: Tensor) -> Tensor:
        return ops.stack([ops.cast(size, "i64") for size in x.dims])

    for shape in ((3,), (3, 4), (3, 4, 5)):
        np.testing.assert_array_equal(run(build, np.zeros(shape)), np.array(shape))
