"""Cases of operations that move, repeat, cut, join and pad elements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from strategies.operations import Array, Case, sample
from tileir import ops

if TYPE_CHECKING:
    from collections.abc import Callable

_X: Final = sample(3, 4, 5)
_IMAGES: Final = sample(2, 5, 6, 3)
_S: Final = np.s_


def _one(
    name: str,
    build: Callable[..., Any],
    numpy: Callable[..., Any],
    torch: Callable[..., Any] | None = None,
    x: Array = _X,
) -> Case:
    return Case(name, build, {"X": x}, numpy, torch)


def _slice(name: str, keys: Any, torch: bool = True) -> Case:
    return _one(
        f"slice_{name}",
        lambda x: ops.slice(x, keys),
        lambda x: x[keys],
        (lambda _, x: x[keys]) if torch else None,
    )


def _pad(mode: str, *pads: tuple[int, int]) -> Case:
    return _one(
        f"pad_{mode}_{'_'.join(f'{a}_{b}' for a, b in pads)}",
        lambda x: ops.pad(x, pads, mode=mode),
        lambda x: np.pad(x, pads, mode),  # type: ignore[call-overload]  # any of NumPy's modes
    )


def _torch_pad(mode: str, *pads: int) -> Callable[..., Any]:
    return lambda torch, x: torch.nn.functional.pad(x, pads, mode)


def _patches(x: Array, size: tuple[int, int], stride: int, gap: int, border: tuple[int, int, int, int]) -> Array:
    x = np.pad(x, ((0, 0), border[:2], border[2:], (0, 0)))
    spans = [(count - 1) * gap + 1 for count in size]
    rows = range(0, x.shape[1] - spans[0] + 1, stride)
    columns = range(0, x.shape[2] - spans[1] + 1, stride)
    windows = [
        [x[:, r : r + spans[0] : gap, c : c + spans[1] : gap].reshape(len(x), -1) for c in columns] for r in rows
    ]
    return np.array(windows).transpose(2, 0, 1, 3)


_SHAPES: Final = (
    _one(
        "reshape", lambda x: ops.reshape(x, 2, -1, 3), lambda x: x.reshape(2, 10, 3), lambda _, x: x.reshape(2, -1, 3)
    ),
    _one("reshape_by_dims", lambda x: ops.reshape(x, (x.dims[0], -1)), lambda x: x.reshape(3, 20)),
    _one("flatten", ops.flatten, lambda x: x.reshape(60), lambda _, x: x.flatten()),
    _one("flatten_behind", lambda x: ops.flatten(x, first=1), lambda x: x.reshape(3, 20), lambda _, x: x.flatten(1)),
    _one("flatten_scalar", ops.flatten, lambda x: x.reshape(1), lambda _, x: x.flatten(), np.array(2.5)),
    _one("squeeze", lambda x: ops.squeeze(ops.unsqueeze(x, (0, -1)), 0), lambda x: x[..., None]),
    _one("squeeze_known", lambda x: ops.squeeze(ops.sum(x, 1, keepdims=True)), lambda x: x.sum(1)),
    _one(
        "squeeze_unknown", lambda x: ops.squeeze(x, -2), lambda x: x[:, 0], lambda _, x: x.squeeze(-2), sample(3, 1, 4)
    ),
    _one("unsqueeze", lambda x: ops.unsqueeze(x, -2), lambda x: x[:, :, None], lambda _, x: x.unsqueeze(-2)),
    _one("transpose", ops.transpose, np.transpose, lambda _, x: x.permute(2, 1, 0)),
    _one(
        "permute", lambda x: ops.permute(x, (1, -1, 0)), lambda x: x.transpose(1, 2, 0), lambda _, x: x.permute(1, 2, 0)
    ),
    _one("swapaxes", lambda x: ops.swapaxes(x, 0, -1), lambda x: x.swapaxes(0, 2), lambda _, x: x.swapaxes(0, 2)),
    _one("moveaxis", lambda x: ops.moveaxis(x, 0, -1), lambda x: np.moveaxis(x, 0, -1), lambda _, x: x.movedim(0, -1)),
    _one(
        "broadcast_to",
        lambda x: ops.broadcast_to(x, 2, 3, -1),
        lambda x: np.broadcast_to(x, (2, 3, 4)),
        lambda _, x: x.expand(2, 3, 4),
        sample(1, 4),
    ),
    _one("tile", lambda x: ops.tile(x, 2, 1, 3), lambda x: np.tile(x, (2, 1, 3)), lambda _, x: x.tile(2, 1, 3)),
    _one("tile_to_more_axes", lambda x: ops.tile(x, (2, 3)), lambda x: np.tile(x, (2, 3)), None, sample(3)),
    _one("tile_of_last_axes", lambda x: ops.tile(x, 2), lambda x: np.tile(x, 2), lambda _, x: x.tile(2)),
    _one("repeat", lambda x: ops.repeat(x, 3, 1), lambda x: np.repeat(x, 3, 1), lambda _, x: x.repeat_interleave(3, 1)),
)

_SLICES: Final = (
    _slice("inside", _S[1:-1, :, 2:]),
    _slice("steps", _S[::2, 1::2, :4:3]),
    _slice("backwards", _S[::-1, 3:0:-2, ::-3], torch=False),
    _slice("from_the_end", _S[-2:, -3:-1, -5::2]),
    _slice("backwards_from_the_end", _S[-1:-3:-1, -2::-1], torch=False),
    _slice("outside", _S[-9:9, 2:99, 0:-1:7]),
    _slice("of_nothing", _S[2:1, 7:, :-9], torch=False),
    _slice("backwards_outside", _S[9::-2, :-9:-1, 3:9:-1], torch=False),
    _slice("positions", _S[1, ..., -2]),
    _slice("new_axes", _S[None, 1, :, None, 3]),
    _slice("dots", _S[..., 1:3]),
    _slice("one_position", 2),
    Case("slice_by_dims", lambda x: ops.slice(x, _S[x.dims[0] - 2 :]), {"X": _X}, lambda x: x[1:]),
    _one("diff", lambda x: ops.diff(x, 1, 0), lambda x: np.diff(x, 1, 0), lambda _, x: x.diff(1, 0)),
    _one("diff_twice", lambda x: ops.diff(x, 2), lambda x: np.diff(x, 2), lambda _, x: x.diff(2)),
    _one("narrow", lambda x: ops.narrow(x, 1, 1, 2), lambda x: x[:, 1:3], lambda _, x: x.narrow(1, 1, 2)),
    _one("select", lambda x: ops.select(x, 2, -1), lambda x: x[:, :, -1], lambda _, x: x.select(2, -1)),
    _one("flip", lambda x: ops.flip(x, (0, -1)), lambda x: x[::-1, :, ::-1], lambda _, x: x.flip((0, 2))),
    _one("flip_all", ops.flip, np.flip, lambda _, x: x.flip((0, 1, 2))),
    *(
        _one(
            f"rot90_by_{turns}",
            lambda x, turns=turns: ops.rot90(x, turns, (1, 2)),
            lambda x, turns=turns: np.rot90(x, turns, (1, 2)),
            lambda _, x, turns=turns: x.rot90(turns, (1, 2)),
        )
        for turns in (0, 1, 2, 3)
    ),
    _one("roll", lambda x: ops.roll(x, 2, 1), lambda x: np.roll(x, 2, 1), lambda _, x: x.roll(2, 1)),
    _one("roll_of_two", lambda x: ops.roll(x, (-7, 9), (0, 2)), lambda x: np.roll(x, (-7, 9), (0, 2))),
)

_PARTS: Final = (
    Case(
        "concatenate",
        lambda x, y, z: ops.concatenate([x, y, z], 1),
        {"X": sample(2, 3), "Y": sample(2, 1), "Z": sample(2, 4)},
        lambda *parts: np.concatenate(parts, 1),
        lambda torch, *parts: torch.cat(parts, 1),
    ),
    Case(
        "concatenate_one_axis",
        lambda *parts: ops.concatenate(parts, -1),
        {name: sample(size) for name, size in zip("ABCDE", (1, 3, 2, 4, 2), strict=True)},
        lambda *parts: np.concatenate(parts),
        lambda torch, *parts: torch.cat(parts),
    ),
    Case(
        "stack",
        lambda x, y: ops.stack([x, y], 1),
        {"X": sample(2, 3), "Y": sample(2, 3, seed=1)},
        lambda x, y: np.stack([x, y], 1),
        lambda torch, x, y: torch.stack([x, y], 1),
    ),
    _one("unstack", lambda x: ops.unstack(x, 3), lambda x: tuple(x), lambda _, x: x.unbind(0)),
    _one(
        "unstack_of_a_last_axis",
        lambda x: ops.unstack(ops.slice(x, slice(None), slice(0, 2)), 2, 1),
        lambda x: tuple(np.moveaxis(x[:, :2], 1, 0)),
        lambda _, x: x[:, :2].unbind(1),
    ),
    _one("split", lambda x: ops.split(x, 2, 1), lambda x: tuple(np.split(x, 2, 1)), lambda _, x: x.split(2, 1)),
    _one(
        "split_by_sizes",
        lambda x: ops.split(x, [1, x.dims[2] - 3, 2], -1),
        lambda x: (x[..., :1], x[..., 1:3], x[..., 3:]),
        lambda _, x: x.split([1, 2, 2], -1),
    ),
)

_BORDERS: Final = (
    _pad("constant", (1, 0), (0, 2), (3, 1)),
    *(_pad(mode, (2, 1), (0, 0), (3, 4)) for mode in ("reflect", "symmetric", "edge", "wrap")),
    _pad("symmetric", (3, 3), (0, 4), (0, 0)),
    _pad("wrap", (3, 3), (4, 0), (5, 5)),
    _pad("edge", (7, 0), (0, 9), (0, 0)),
    _one("pad_one_number", lambda x: ops.pad(x, 1), lambda x: np.pad(x, 1), _torch_pad("constant", 1, 1, 1, 1, 1, 1)),
    _one(
        "pad_reflect",
        lambda x: ops.pad(x, [0, 0, (2, 3)], mode="reflect"),
        lambda x: np.pad(x, ((0, 0), (0, 0), (2, 3)), "reflect"),
        _torch_pad("reflect", 2, 3),
    ),
    _one(
        "pad_edge",
        lambda x: ops.pad(x, [0, 0, (2, 3)], mode="edge"),
        lambda x: np.pad(x, ((0, 0), (0, 0), (2, 3)), "edge"),
        _torch_pad("replicate", 2, 3),
    ),
    _one(
        "pad_wrap",
        lambda x: ops.pad(x, [0, 0, (2, 3)], mode="wrap"),
        lambda x: np.pad(x, ((0, 0), (0, 0), (2, 3)), "wrap"),
        _torch_pad("circular", 2, 3),
    ),
    _one(
        "pad_value",
        lambda x: ops.pad(x, [(1, 2), 0, (0, 1)], value=2.5),
        lambda x: np.pad(x, ((1, 2), (0, 0), (0, 1)), constant_values=2.5),
        lambda torch, x: torch.nn.functional.pad(x, (0, 1, 0, 0, 1, 2), value=2.5),
    ),
    Case(
        "pad_infinity",
        lambda x: ops.pad(x, 1, value=-np.inf),
        {"X": _X},
        lambda x: np.pad(x, 1, constant_values=-np.inf),
        wrt=(),
    ),
    _one(
        "pad_cuts",
        lambda x: ops.pad(x, [(-1, 2), 0, (1, -2)]),
        lambda x: np.pad(x[1:, :, :3], ((0, 2), (0, 0), (1, 0))),
    ),
    _one(
        "image_patches",
        lambda x: ops.image_patches(x, (2, 3)),
        lambda x: _patches(x, (2, 3), 1, 1, (0, 0, 0, 0)),
        None,
        _IMAGES,
    ),
    _one(
        "image_patches_same",
        lambda x: ops.image_patches(x, (3, 3), strides=2, padding="same"),
        lambda x: _patches(x, (3, 3), 2, 1, (1, 1, 0, 1)),
        None,
        _IMAGES,
    ),
    _one(
        "image_patches_dilated",
        lambda x: ops.image_patches(x, 2, strides=2, dilations=2, padding=[(1, 0), (0, 2)]),
        lambda x: _patches(x, (2, 2), 2, 2, (1, 0, 0, 2)),
        None,
        _IMAGES,
    ),
)

CASES: Final = (*_SHAPES, *_SLICES, *_PARTS, *_BORDERS)
