"""Arrays of PyTorch, CuPy and JAX on a card, there and back; each library where it is installed."""

from __future__ import annotations

import gc
import os
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

import tileir
from strategies.peer_arrays import LAYOUTS, TORCH, bits, sample
from tileir.core.dtype import FORMATS, DType

if TYPE_CHECKING:
    from collections.abc import Callable

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # the card is shared with others

INSTALLED: Final = [name for name in ("torch", "cupy", "jax") if find_spec(name)]
PAIRS: Final = [
    (library, dtype)
    for library in INSTALLED
    for dtype in DType
    if library != "cupy" or not (dtype in FORMATS and FORMATS[dtype].registered)
]
"""Libraries, and what they have on a card: CuPy has the floats that NumPy knows by itself."""
NAMES: Final = [f"{library}-{dtype.value}" for library, dtype in PAIRS]


@pytest.fixture(scope="module")
def card() -> str:
    for device in tileir.devices():
        if device.backend == "cuda":
            return device.id
    pytest.skip("there is no card of NVIDIA's")


def made(library: str, dtype: DType, layout: str) -> Any:
    """Return an array of a library on the card with the elements of a sample."""
    module: Any = import_module(library)
    part = LAYOUTS[layout]
    array = sample(dtype)
    if library == "cupy":
        return part(module.asarray(array))
    if library == "jax":
        module.config.update("jax_enable_x64", True)
        return part(module.device_put(array, module.devices("gpu")[0]))
    if dtype.is_bool:
        return part(module.from_numpy(array).cuda())
    whole = module.from_numpy(array.view(f"u{array.itemsize}").copy()).cuda()
    return part(whole.view(getattr(module, TORCH[dtype.value])))


def taken(library: str, value: Any) -> Any:
    module: Any = import_module(library)
    return (module.numpy if library == "jax" else module).from_dlpack(value)


def address(library: str, array: Any) -> int:
    found: int = {
        "torch": lambda: array.data_ptr(),
        "cupy": lambda: array.data.ptr,
        "jax": lambda: array.unsafe_buffer_pointer(),
    }[library]()
    return found


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("library", "dtype"), PAIRS, ids=NAMES)
def test_arrays_go_through_programs_and_back(card: str, library: str, dtype: DType, layout: str) -> None:
    wanted = LAYOUTS[layout](sample(dtype))
    value = made(library, dtype, layout)
    if layout == "strided" and library == "torch":
        value = value.contiguous()
    elif layout == "strided" and library == "cupy":
        value = value.copy()
    same = tileir.jit("function (A) -> (B) { B = A; }")
    for given in (value, tileir.to_device(value)):
        found = same(given)
        assert found.device.id == card
        assert (found.dtype, found.shape, bits(found.numpy())) == (dtype.numpy, wanted.shape, bits(wanted))
    again = tileir.to_device(taken(library, found))
    assert (again.device.id, again.dtype, again.shape) == (card, dtype.numpy, wanted.shape)
    assert bits(again.numpy()) == bits(wanted)


@pytest.mark.parametrize(("library", "dtype"), PAIRS, ids=NAMES)
def test_memory_is_shared(card: str, library: str, dtype: DType) -> None:
    value = made(library, dtype, "plain")
    there = tileir.to_device(value)
    assert there.device.id == card
    again = taken(library, there)
    assert address(library, again) == address(library, value)
    del value, there
    gc.collect()
    assert bits(tileir.to_device(again).numpy()) == bits(sample(dtype))


@pytest.mark.parametrize("library", [name for name in INSTALLED if name != "jax"])
def test_arrays_with_gaps_are_refused(card: str, library: str) -> None:
    value = made(library, DType.F32, "strided")
    for use in (tileir.to_device, tileir.jit("function (A) -> (B) { B = A; }", card)):
        with pytest.raises(tileir.ArgumentError, match="make it contiguous where it is") as error:
            use(value)
        assert error.value.diagnostics[0].code == "TIL714"


@pytest.mark.parametrize(
    ("library", "dtype"), [pair for pair in PAIRS if pair[0] != "jax"], ids=[n for n in NAMES if "jax" not in n]
)
def test_results_are_written_to_arrays_of_others(card: str, library: str, dtype: DType) -> None:
    stored = dtype.is_bool or (dtype in FORMATS and FORMATS[dtype].storage)  # sums of these are of another dtype
    twice = tileir.jit(f"function (A) -> (B) {{ B = {'A' if stored else 'A + A'}; }}")
    value, room = (made(library, dtype, "plain") for _ in "ab")
    assert twice(value, out=room) is room
    assert bits(tileir.to_device(room).numpy()) == bits(twice(sample(dtype)))


def other_stream(library: str) -> tuple[Any, Callable[[], Any], Callable[[Any], bool]]:
    """Return a stream of a library as a context, what makes an array late in it, and what says that all are 21."""
    module: Any = import_module(library)
    if library == "torch":

        def late() -> Any:
            given = module.zeros(1 << 22, device="cuda")
            for _ in range(10):
                given += 1.0
            return given

        return module.cuda.stream(module.cuda.Stream()), late, lambda found: bool((found == 21.0).all())

    def late_in_cupy() -> Any:
        given = module.zeros(1 << 22, dtype="f4")
        for _ in range(10):
            given += 1.0
        return given

    return module.cuda.Stream(non_blocking=True), late_in_cupy, lambda found: bool((found == 21.0).all())


@pytest.mark.parametrize("library", [name for name in INSTALLED if name != "jax"])
def test_streams_of_others_are_followed_and_preceded(card: str, library: str) -> None:
    program = tileir.jit("function (A) -> (B) { B = A * 2.0 + 1.0; }", card)
    stream, late, right = other_stream(library)
    for _ in range(10):
        with stream:
            assert right(taken(library, program(late())))


@pytest.mark.skipif("jax" not in INSTALLED, reason="JAX is not installed")
def test_what_jax_computes_is_waited_for(card: str) -> None:
    jax: Any = import_module("jax")
    program = tileir.jit("function (A) -> (B) { B = A * 2.0 + 1.0; }", card)
    long = jax.jit(lambda a: jax.lax.fori_loop(0, 200, lambda _, b: b + 0.05, a))
    for _ in range(10):
        found = taken("jax", program(long(jax.numpy.zeros(1 << 22, "float32"))))
        assert abs(np.asarray(found) - 21.0).max() < 1e-2
