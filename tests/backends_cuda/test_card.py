"""Programs on a card: products of all layouts and sizes, and what becomes of errors. Skipped where there is none."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest

import tileir
from strategies.fragment_kernels import arrays_for, product_by
from tileir import ops
from tileir.core.errors import BackendError
from tileir.core.fragments import FRAGMENTS
from tileir_cuda.architectures import ARCHITECTURES
from tileir_cuda.emit.products import OF_WARPS

if TYPE_CHECKING:
    from tileir.runtime.interface import DeviceInfo

LAYOUTS = {
    "nn": ("A[M, K]", "B[K, N]"),
    "nt": ("A[M, K]", "B[N, K]"),
    "tn": ("A[K, M]", "B[K, N]"),
    "tt": ("A[K, M]", "B[N, K]"),
}
SIZES = [(128, 256, 64), (512, 512, 512), (1000, 1032, 520), (256, 72, 96), (384, 4096, 320), (70, 33, 129), (1, 1, 1)]
DTYPES: dict[str, tuple[Any, float]] = {
    "f16": (np.float16, 1e-2),
    "bf16": (ml_dtypes.bfloat16, 2e-2),
    "f32": (np.float32, 2e-3),
    "f64": (np.float64, 1e-13),
    "f8e4m3fn": (ml_dtypes.float8_e4m3fn, 5e-3),
    "f8e5m2": (ml_dtypes.float8_e5m2, 5e-3),
}


@pytest.fixture(scope="module")
def card() -> DeviceInfo:
    for device in tileir.devices():
        if device.backend == "cuda":
            return device
    pytest.skip("there is no card of NVIDIA's")


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", SIZES)
def test_products(card: DeviceInfo, layout: str, dtype: str, size: tuple[int, int, int]) -> None:
    kind, tolerance = DTYPES[dtype]
    (m, n, k), rng = size, np.random.default_rng(0)
    left, right = LAYOUTS[layout]
    text = f"function ({left}, {right}) -> (C) {{ C[m, n : M, N] = +({left.lower()} * {right.lower()}); }}"
    text = text.replace("a[", "A[").replace("b[", "B[")
    a, b = rng.standard_normal((m, k)).astype(kind), rng.standard_normal((k, n)).astype(kind)
    wanted = a.astype(np.float64) @ b.astype(np.float64)
    given = [np.ascontiguousarray(x.T if side == "t" else x) for x, side in zip((a, b), layout, strict=True)]
    found = tileir.jit(text, device=card, options=tileir.Options(fast_math=True))(*given)
    np.testing.assert_allclose(found.astype(np.float64), wanted, atol=tolerance * abs(wanted).max())


@pytest.mark.parametrize("special", [None, np.nan, np.inf])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("dtype", "bound"), [("f32", 2.0**-9), ("f8e4m3fn", 2.0**-11), ("f8e5m2", 2.0**-11)])
def test_sums_keep_their_digits(card: DeviceInfo, dtype: str, bound: float, layout: str, special: float | None) -> None:
    """By the size of what is added up; long sums are as exact as short ones, and equal each time."""
    kind, rng = DTYPES[dtype][0], np.random.default_rng(1)
    if special == np.inf and np.isnan(np.asarray(special).astype(kind).astype(np.float32)):
        return  # the type has none
    left, right = LAYOUTS[layout]
    text = f"function ({left}, {right}) -> (C) {{ C[m, n : M, N] = +({left.lower()} * {right.lower()}); }}"
    text = text.replace("a[", "A[").replace("b[", "B[")
    for m, n, k in ((512, 640, 1024), (515, 784, 528), (512, 512, 8192)):
        a, b = rng.standard_normal((m, k)).astype(kind), rng.standard_normal((k, n)).astype(kind)
        if special is not None:
            a[rng.integers(m, size=3), rng.integers(k, size=3)] = special
        with np.errstate(invalid="ignore"):
            wanted = a.astype(np.float64) @ b.astype(np.float64)
            size = abs(a.astype(np.float64)) @ abs(b.astype(np.float64))
        given = [np.ascontiguousarray(x.T if side == "t" else x) for x, side in zip((a, b), layout, strict=True)]
        program = tileir.jit(text, device=card, options=tileir.Options(fast_math=dtype == "f32"))
        found = program(*given)
        for _ in range(19):
            np.testing.assert_array_equal(program(*given), found)
        finite = np.isfinite(wanted)
        np.testing.assert_array_equal(np.isfinite(found), finite)
        np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))
        assert np.all(abs(found[finite] - wanted[finite]) <= bound * size[finite])


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("name", OF_WARPS)
def test_fragments(card: DeviceInfo, name: str, turned: bool) -> None:
    fragment = FRAGMENTS[name]
    rows, columns, depth = fragment.mnk
    tile = (2 * rows, 2 * columns, 2 * depth)
    kernel = product_by(fragment, tile, turned=turned, swizzled=False)
    arrays, wanted = arrays_for(fragment, tile, turned=turned, seed=3)
    context = tileir.default_context()
    executor = context.executor(card)
    buffers = [executor.allocate(array.nbytes) for array in arrays]
    for array, buffer in zip(arrays, buffers, strict=True):
        executor.copy(array, buffer).wait()
    executor.prepare(context.compiler(card).build([kernel]), 0).launch(buffers)
    executor.copy(buffers[0], arrays[0]).wait()
    np.testing.assert_array_equal(arrays[0], wanted)


def test_bf16_is_rounded_as_it_is_defined(card: DeviceInfo) -> None:
    """All numbers of bf16 and what lies between them: ties, subnormal numbers, the greatest ones, and no numbers."""
    words = (np.arange(1 << 16, dtype=np.uint32) << 16)[:, None] + np.array(
        [0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF], np.uint32
    )
    given = words.reshape(-1).view(np.float32)
    builder = tileir.FunctionBuilder()
    function = builder.build(B=ops.cast(builder.input("A", "N"), "bf16"))
    found = tileir.jit(function, device=card)(given)
    with np.errstate(invalid="ignore"):
        wanted = given.astype(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(found.astype(np.float32), wanted.astype(np.float32))


@pytest.mark.parametrize("layout", ["nxc", "ncx"])
@pytest.mark.parametrize("channels", [3, 16, 40])
@pytest.mark.parametrize("stride", [1, 2])
def test_borders_of_convolutions_are_in_no_sum(card: DeviceInfo, layout: str, channels: int, stride: int) -> None:
    rng, batch, edge = np.random.default_rng(channels), 3, 23
    x = rng.integers(-3, 4, (batch, edge, edge, channels)).astype(np.float16)
    w = rng.integers(-3, 4, (32, 5, 5, channels)).astype(np.float16)
    w[3, 0, 0, 1], w[4, 4, 2, 0], w[5, 2, 4, 2] = np.inf, -np.inf, np.nan
    kernel_layout = "kxc"
    if layout == "ncx":
        x, w, kernel_layout = x.transpose(0, 3, 1, 2).copy(), w.transpose(0, 3, 1, 2).copy(), "kcx"
    builder = tileir.FunctionBuilder()
    images, weights = builder.input("X", *"ABCD"), builder.input("W", *"EFGH")
    made = ops.conv(images, weights, stride=stride, padding=2, layout=layout, kernel_layout=kernel_layout)
    function = builder.build(R=made)
    wanted = np.asarray(tileir.jit(function, device="llvm")(x, w))
    found = [np.asarray(tileir.jit(function, device=card)(x, w)) for _ in range(3)]
    for each in found:
        np.testing.assert_array_equal(each, wanted)


def test_too_much_memory_is_refused_and_nothing_is_lost(card: DeviceInfo) -> None:
    executor = tileir.default_context().executor(card)
    with pytest.raises(BackendError, match="TIL708"):
        executor.allocate(1 << 50)
    double = tileir.jit("function (A[N]) -> (B) { B = A * 2; }", device=card)
    np.testing.assert_array_equal(double(np.ones(5, np.float32)), np.full(5, 2, np.float32))


def test_a_card_gets_the_code_of_its_architecture(card: DeviceInfo) -> None:
    listing = tileir.compile("function (A[N]) -> (B) { B = A; }", ["f32[8]"], device=card).listing("ptx")
    assert card.features[0] in ARCHITECTURES
    assert f".target {card.features[0]}" in listing


def test_measured_calls_tell_how_long_the_card_was_busy(card: DeviceInfo) -> None:
    context = tileir.default_context()
    options = tileir.Options(profile=True)
    executor = context.executor(card, options)
    event = executor.copy(np.zeros(1 << 20, np.uint8), executor.allocate(1 << 20))
    event.wait()
    assert event.duration is not None
    assert event.duration > 0


DOUBLED = "function (A[N], B[N]) -> (C) { C = A * 2.0 + B; }"


def test_arrays_of_the_card_stay_there(card: DeviceInfo) -> None:
    there = tileir.to_device(np.arange(1000, dtype=np.float32), card)
    result = tileir.jit(DOUBLED)(there, there)
    assert result.device.id == card.id
    np.testing.assert_array_equal(result.numpy(), np.arange(1000, dtype=np.float32) * 3)


@pytest.mark.parametrize("name", ["float32", "float16", "bfloat16", "int32", "float8_e4m3fn"])
def test_tensors_of_torch_are_taken_and_given(card: DeviceInfo, name: str) -> None:
    torch = pytest.importorskip("torch")
    given = torch.full((100,), 3.0, device="cuda").to(getattr(torch, name))
    result = torch.from_dlpack(tileir.jit(DOUBLED, card)(given, given))
    assert result.device.type == "cuda"
    assert result.float().unique().tolist() == [9.0]


def test_streams_of_others_are_followed_and_preceded(card: DeviceInfo) -> None:
    torch = pytest.importorskip("torch")
    double = tileir.jit(DOUBLED, card)
    with torch.cuda.stream(torch.cuda.Stream()):
        for _ in range(20):
            given = torch.zeros(1 << 20, device="cuda")
            for _ in range(10):
                given += 1.0
            rest = torch.from_dlpack(double(given, given)) - 30.0
            assert float(rest.abs().max()) == 0.0


def test_results_are_written_to_tensors(card: DeviceInfo) -> None:
    torch = pytest.importorskip("torch")
    given, out = torch.ones(100, device="cuda"), torch.empty(100, device="cuda")
    assert tileir.jit(DOUBLED, card)(given, given, out=out) is out
    assert out.unique().tolist() == [3.0]


def test_page_locked_memory_is_copied_from_and_to(card: DeviceInfo) -> None:
    regions = tileir.memory(card)
    assert regions.shared.pinned
    assert not regions.device.seen_by_host
    source, there, back = regions.shared.empty(1 << 16), regions.device.empty(1 << 16), regions.shared.empty(1 << 16)
    source[:] = np.arange(1 << 16)
    twice = tileir.jit("function (A) -> (B) { B = A + A; }", card)
    assert twice(source, out=there) is there
    assert twice(there, out=back) is back
    np.testing.assert_array_equal(back, source * 4)
    with pytest.raises(tileir.TileError) as error:
        regions.shared.empty(1 << 60)
    assert error.value.diagnostics[0].code == "TIL708"


LOST = """
import numpy as np
import tileir

class Nowhere:
    __cuda_array_interface__ = dict(shape=(64,), typestr="<f4", data=(1 << 46, False), version=3, strides=None)

def told(call):
    try:
        return str(call())
    except tileir.BackendError as error:
        return f"{error.diagnostics[0].code} {'lost' in error.diagnostics[0].message}"

add = tileir.jit("function (A, B) -> (C) { C = A + B; }", "cuda")
there = tileir.to_device(np.ones(64, np.float32), "cuda")
print(told(lambda: add(there, there).numpy()[0]))
print(told(lambda: add(Nowhere(), there).numpy()[0]))
for _ in range(2):
    print(told(lambda: add(there, there).numpy()[0]))
print(told(lambda: tileir.jit("function (A) -> (B) { B = A; }")(np.ones(3, np.float32))[0]))
"""


def test_a_card_that_fails_is_told_and_others_go_on(card: DeviceInfo) -> None:
    """All calls of that process on the card, to its end; its other devices work, and so do other processes."""
    done = subprocess.run([sys.executable, "-c", LOST], capture_output=True, text=True, check=False, timeout=100)
    assert done.stdout.split("\n") == ["2.0", *["TIL808 True"] * 3, "1.0", ""], done.stderr
    assert done.returncode == 0, done.stderr
    there = tileir.to_device(np.ones(64, np.float32), card)
    assert tileir.jit(DOUBLED, card)(there, there).numpy()[0] == 3
