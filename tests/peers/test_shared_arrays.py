"""Arrays of NumPy, PyTorch and JAX in the host's memory, by DLPack there and back; each where it is installed."""

from __future__ import annotations

import gc
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

import ml_dtypes
import numpy as np
import pytest

import tileir
from strategies.peer_arrays import LAYOUTS, TORCH, bits, sample
from tileir.core.dtype import FORMATS, DType
from tileir.runtime.devices.dlpack import knows_versions

if TYPE_CHECKING:
    from collections.abc import Callable

Array = np.ndarray[Any, Any]

INSTALLED: Final = [name for name in ("numpy", "torch", "jax") if find_spec(name)]
PAIRS: Final = [
    (library, dtype)
    for library in INSTALLED
    for dtype in DType
    if library != "numpy" or not (dtype in FORMATS and FORMATS[dtype].registered)
]
"""Libraries, and what they have capsules of: NumPy has none of the floats that it does not know."""

NAMES: Final = [f"{library}-{dtype.value}" for library, dtype in PAIRS]
DEVICES: Final = [each.id for each in tileir.devices() if each.backend in ("llvm", "opencl")]
VERSIONS: Final = {"unversioned": None, "versioned": (1, 0)}
"""Versions of DLPack that consumers ask for; JAX gives capsules with a version, and takes none."""


def made(library: str, array: Array) -> Any:
    """Return an array of a library with these elements."""
    module: Any = import_module(library)
    if library == "numpy":
        return array.copy()
    if library == "jax":
        module.config.update("jax_enable_x64", True)
        return module.device_put(array, module.devices("cpu")[0])
    dtype = DType.of(array.dtype)
    assert dtype is not None
    if dtype.is_bool:
        return module.from_numpy(array.copy())
    whole = module.from_numpy(array.view(f"u{array.itemsize}").copy())
    return whole.view(getattr(module, TORCH[dtype.value]))


def taken(library: str, value: Any) -> Any:
    """Return what a library makes of what has ``__dlpack__``."""
    module: Any = import_module(library)
    return (module.numpy if library == "jax" else module).from_dlpack(value)


@cache
def identity(device: str) -> tileir.Jit:
    return tileir.jit("function (A) -> (B) { B = A; }", device)


def content(value: Any) -> Array:
    return tileir.to_device(value, "llvm").numpy()


class Asked:
    """A producer whose consumers get a capsule of another kind than they ask for."""

    def __init__(self, value: Any, **options: Any) -> None:
        self.value = value
        self.options = options

    def __dlpack__(self, **_: Any) -> Any:
        return self.value.__dlpack__(**{name: option for name, option in self.options.items() if option is not None})

    def __dlpack_device__(self) -> Any:
        return self.value.__dlpack_device__()


@pytest.mark.sampled(6)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("library", "dtype"), PAIRS, ids=NAMES)
def test_arrays_go_through_programs_and_back(library: str, device: str, dtype: DType, layout: str) -> None:
    wanted = LAYOUTS[layout](sample(dtype))
    value = LAYOUTS[layout](made(library, sample(dtype)))
    same = identity(device)
    there = tileir.to_device(value, device)
    assert (there.dtype, there.shape, bits(there.numpy())) == (dtype.numpy, wanted.shape, bits(wanted))
    on_host, on_device = same(value), same(there)
    assert type(on_host) is np.ndarray
    assert bits(on_host) == bits(on_device.numpy()) == bits(wanted)
    again = content(taken(library, on_device))
    assert (again.dtype, again.shape, bits(again)) == (dtype.numpy, wanted.shape, bits(wanted))
    if wanted.size and library != "jax":  # which copies memory that is less aligned than its own
        assert np.shares_memory(again, on_device.numpy())


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("library", "dtype"), PAIRS, ids=NAMES)
def test_capsules_of_both_kinds_are_taken_and_given(library: str, dtype: DType, version: str) -> None:
    if VERSIONS[version] and not knows_versions():
        pytest.skip("this NumPy knows no versions")
    value = made(library, sample(dtype))
    there = tileir.to_device(Asked(value, max_version=VERSIONS[version]), "llvm")
    assert bits(there.numpy()) == bits(sample(dtype))
    assert there.dtype == dtype.numpy
    again = taken(library, Asked(there, max_version=None if library == "jax" else VERSIONS[version]))
    del there
    gc.collect()
    assert bits(content(again)) == bits(sample(dtype))


@pytest.mark.skipif(not knows_versions(), reason="this NumPy knows no versions")
@pytest.mark.parametrize(("library", "dtype"), PAIRS, ids=NAMES)
def test_read_only_memory_is_told_by_versions_only(library: str, dtype: DType) -> None:
    frozen = sample(dtype)
    frozen.flags.writeable = False
    there = tileir.to_device(frozen, "llvm")
    with pytest.raises(BufferError, match="max_version"):
        there.__dlpack__()
    assert tileir.to_device(Asked(there, max_version=(1, 0)), "llvm").read_only
    copied = Asked(there, max_version=None if library == "jax" else (1, 0), copy=True)
    again = content(taken(library, copied))
    assert bits(again) == bits(frozen)
    assert not np.shares_memory(again, frozen)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("library", "dtype"), PAIRS, ids=NAMES)
def test_results_are_written_to_arrays_of_others(library: str, device: str, dtype: DType) -> None:
    room = made(library, np.zeros((4, 6), dtype.numpy))
    stored = dtype.is_bool or (dtype in FORMATS and FORMATS[dtype].storage)  # sums of these are of another dtype
    twice = tileir.jit(f"function (A) -> (B) {{ B = {'A' if stored else 'A + A'}; }}", device)
    value = made(library, sample(dtype))
    assert twice(value, out=room) is room
    assert bits(content(room)) == bits(twice(sample(dtype)))


@pytest.mark.skipif("torch" not in INSTALLED, reason="PyTorch is not installed")
@pytest.mark.parametrize(
    ("make", "advice"),
    [
        (lambda torch: torch.ones(3, requires_grad=True) * 2, r"tensor\.detach\(\).*torch\.no_grad\(\)"),
        (lambda torch: torch.eye(3).to_sparse(), r"to_dense\(\)"),
        (lambda torch: torch.ones(3, device="meta"), "make it on the host"),
        (lambda torch: torch.ones(3, dtype=torch.complex64), "convert it to one of bool"),
        (lambda torch: torch.ones(3).to(torch.float8_e5m2fnuz), "convert it to one of bool"),
    ],
    ids=["gradient", "sparse", "meta", "complex", "float8_e5m2fnuz"],
)
def test_refusals_of_tensors_say_what_to_do(make: Callable[[Any], Any], advice: str) -> None:
    value = make(import_module("torch"))
    with pytest.raises(tileir.ArgumentError, match=advice) as error:
        tileir.jit("function (A) -> (B) { B = A; }", "llvm")(value)
    assert error.value.diagnostics[0].code == "TIL702"


@pytest.mark.skipif("torch" not in INSTALLED, reason="PyTorch is not installed")
def test_tensors_that_require_gradients_are_no_outputs() -> None:
    room: Any = import_module("torch").zeros(3, requires_grad=True)
    with pytest.raises(tileir.ArgumentError, match=r"not Tensor: .* use tensor\.detach\(\)") as error:
        tileir.jit("function (A) -> (B) { B = A; }", "llvm")(np.ones(3, np.float32), out=room)
    assert error.value.diagnostics[0].code == "TIL703"


@pytest.mark.skipif("jax" not in INSTALLED, reason="JAX is not installed")
def test_arrays_that_jax_traces_have_no_elements() -> None:
    jax: Any = import_module("jax")
    same = tileir.jit("function (A) -> (B) { B = A; }", "llvm")
    with pytest.raises(tileir.ArgumentError, match=r"call this outside, or by a callback such as jax\.pure_callback"):
        jax.jit(same)(jax.numpy.ones(3))


def test_elements_that_numpy_does_not_know_are_told_by_name() -> None:
    with pytest.raises(tileir.ArgumentError, match="elements of type float8_e4m3fnuz; convert it to one of"):
        tileir.to_device(np.ones(3, ml_dtypes.float8_e4m3fnuz), "llvm")
