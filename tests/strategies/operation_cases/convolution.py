"""Cases of convolutions: dimensions, strides, dilations, paddings, groups and layouts."""

from __future__ import annotations

import functools
import itertools
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from strategies.operations import Case, integers, sample
from tileir import ops

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strategies.operations import Array


def convolved(
    x: Array,
    w: Array,
    *,
    stride: Sequence[int] = (),
    pads: Sequence[tuple[int, int]] = (),
    dilation: Sequence[int] = (),
    groups: int = 1,
) -> Array:
    """Return the definition: each result is the sum of one window of what is padded, times the kernels."""
    space = x.ndim - 2
    stride, dilation = tuple(stride) or (1,) * space, tuple(dilation) or (1,) * space
    padded = np.pad(x, [(0, 0), (0, 0), *(pads or [(0, 0)] * space)])
    kernel = w.shape[2:]
    spans = [d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True)]
    counts = [(n - m) // s + 1 for n, m, s in zip(padded.shape[2:], spans, stride, strict=True)]
    result = np.zeros((x.shape[0], w.shape[0], *counts), np.result_type(x, w))
    inputs, outputs = x.shape[1] // groups, w.shape[0] // groups
    for group, place in itertools.product(range(groups), np.ndindex(*counts)):
        window = [slice(p * s, p * s + m, d) for p, s, m, d in zip(place, stride, spans, dilation, strict=True)]
        part = padded[(slice(None), slice(group * inputs, (group + 1) * inputs), *window)]
        kernels = w[group * outputs : (group + 1) * outputs]
        values = part.reshape(len(x), -1) @ kernels.reshape(outputs, -1).T
        result[(slice(None), slice(group * outputs, (group + 1) * outputs), *place)] = values
    return result


def transposed(y: Array, w: Array, size: Sequence[int], **options: Any) -> Array:
    """Return the gradient of ``convolved`` by data of the given spatial size: by columns of its matrix."""
    groups = options.get("groups", 1)
    shape = (w.shape[1] * groups, *size)
    columns = np.eye(int(np.prod(shape))).reshape(-1, *shape)
    matrix = convolved(columns, w, **options).reshape(len(columns), -1)
    result: Array = y.reshape(len(y), -1) @ matrix.T
    return result.reshape(len(y), *shape)


def dilated(x: Array, steps: Sequence[int]) -> Array:
    """Return the data with zeros between its elements."""
    shape = [s * (n - 1) + 1 for n, s in zip(x.shape[2:], steps, strict=True)]
    result = np.zeros((*x.shape[:2], *shape))
    result[(slice(None), slice(None), *(slice(None, None, s) for s in steps))] = x
    return result


def spread(w: Array, groups: int) -> Array:
    """Return kernels in_C, each input channel of which belongs to one group, as kernels in_K."""
    return np.concatenate(np.split(w, groups, axis=1), axis=0)


def _first(axes: Sequence[int], x: Array) -> Array:
    return np.transpose(x, axes)


_NHWC: Final = functools.partial(_first, (0, 3, 1, 2))  # to the layout of the definition
_TO_NHWC: Final = functools.partial(_first, (0, 2, 3, 1))
_HWIO: Final = functools.partial(_first, (3, 2, 0, 1))

_LINE: Final = {"X": sample(2, 3, 9), "W": sample(4, 3, 3, seed=1)}
_PLANE: Final = {"X": sample(2, 2, 6, 5), "W": sample(3, 2, 3, 3, seed=1)}
_TALL: Final = {"X": sample(1, 2, 8, 9), "W": sample(3, 2, 3, 2, seed=1)}
_GROUPED: Final = {"X": sample(1, 4, 5, 4), "W": sample(6, 2, 3, 2, seed=1)}
_NHWC_PLANE: Final = {"X": sample(1, 5, 4, 2), "W": sample(3, 3, 2, 3, seed=1)}
_DEPTHWISE: Final = {"X": sample(1, 3, 5, 4), "W": sample(3, 2, 3, 3, seed=1)}

_FORWARD: Final = (
    Case("line", ops.conv, _LINE, convolved, lambda t, x, w: t.nn.functional.conv1d(x, w)),
    Case(
        "bias",
        ops.conv,
        _LINE | {"B": sample(4, seed=2)},
        lambda x, w, b: convolved(x, w) + b[:, None],
        lambda t, x, w, b: t.nn.functional.conv1d(x, w, b),
    ),
    Case(
        "same",
        lambda x, w: ops.conv(x, w, padding="same"),
        _PLANE,
        lambda x, w: convolved(x, w, pads=[(1, 1), (1, 1)]),
        lambda t, x, w: t.nn.functional.conv2d(x, w, padding=1),
    ),
    Case(
        "same_sizes_halved",
        lambda x, w: ops.conv(x, w, padding="same_upper", stride=2),
        _PLANE,
        lambda x, w: convolved(x, w, pads=[(0, 1), (1, 1)], stride=(2, 2)),
    ),
    Case(
        "more_padding_before",
        lambda x, w: ops.conv(x, w, padding="same_lower", stride=2),
        _PLANE,
        lambda x, w: convolved(x, w, pads=[(1, 0), (1, 1)], stride=(2, 2)),
    ),
    Case(
        "pairs_of_padding",
        lambda x, w: ops.conv(x, w, padding=((2, 0), (1, 3))),
        _PLANE,
        lambda x, w: convolved(x, w, pads=[(2, 0), (1, 3)]),
    ),
    Case(
        "strides",
        lambda x, w: ops.conv(x, w, stride=(2, 3)),
        _TALL,
        lambda x, w: convolved(x, w, stride=(2, 3)),
        lambda t, x, w: t.nn.functional.conv2d(x, w, stride=(2, 3)),
    ),
    Case(
        "dilations",
        lambda x, w: ops.conv(x, w, dilation=(2, 3)),
        _TALL,
        lambda x, w: convolved(x, w, dilation=(2, 3)),
        lambda t, x, w: t.nn.functional.conv2d(x, w, dilation=(2, 3)),
    ),
    Case(
        "strides_dilations_and_padding",
        lambda x, w: ops.conv(x, w, stride=(3, 2), dilation=(2, 3), padding=(2, 1)),
        _TALL,
        lambda x, w: convolved(x, w, stride=(3, 2), dilation=(2, 3), pads=[(2, 2), (1, 1)]),
        lambda t, x, w: t.nn.functional.conv2d(x, w, stride=(3, 2), dilation=(2, 3), padding=(2, 1)),
    ),
    Case(
        "strides_on_a_row",
        lambda x, w: ops.conv(x, w, stride=(2, 3)),
        {"X": sample(1, 2, 1, 6), "W": sample(2, 2, 1, 2, seed=1)},
        lambda x, w: convolved(x, w, stride=(2, 3)),
        lambda t, x, w: t.nn.functional.conv2d(x, w, stride=(2, 3)),
    ),
    Case(
        "ceil",
        lambda x, w: ops.conv(x, w, stride=2, ceil_mode=True),
        _PLANE,
        lambda x, w: convolved(x, w, stride=(2, 2), pads=[(0, 1), (0, 0)]),
    ),
    Case(
        "dilated_data",
        lambda x, w: ops.conv(x, w, data_dilation=(2, 3), padding=1),
        _PLANE,
        lambda x, w: convolved(dilated(x, (2, 3)), w, pads=[(1, 1), (1, 1)]),
    ),
    Case(
        "space",
        lambda x, w: ops.conv(x, w, padding=1, stride=(1, 2, 2)),
        {"X": sample(1, 2, 3, 4, 5), "W": sample(2, 2, 3, 2, 3, seed=1)},
        lambda x, w: convolved(x, w, pads=[(1, 1)] * 3, stride=(1, 2, 2)),
        lambda t, x, w: t.nn.functional.conv3d(x, w, padding=1, stride=(1, 2, 2)),
    ),
    Case(
        "channels_last",
        lambda x, w: ops.conv(x, w, padding=1, layout="nxc", kernel_layout="xck"),
        _NHWC_PLANE,
        lambda x, w: _TO_NHWC(convolved(_NHWC(x), _HWIO(w), pads=[(1, 1), (1, 1)])),
    ),
    Case(
        "channels_last_with_bias",
        lambda x, w, b: ops.conv(x, w, b, layout="nxc", kernel_layout="xck"),
        _NHWC_PLANE | {"B": sample(3, seed=2)},
        lambda x, w, b: _TO_NHWC(convolved(_NHWC(x), _HWIO(w))) + b,
    ),
    Case(
        "without_batch",
        lambda x, w: ops.conv(x, w, layout="cx"),
        {"X": sample(3, 7), "W": sample(2, 3, 3, seed=1)},
        lambda x, w: convolved(x[None], w)[0],
        lambda t, x, w: t.nn.functional.conv1d(x, w),
    ),
    Case(
        "integers",
        lambda x, w: ops.conv(x, w, padding=1),
        {"X": integers(1, 2, 4, 4), "W": integers(3, 2, 3, 3, seed=1)},
        lambda x, w: convolved(x, w, pads=[(1, 1), (1, 1)]),
        dtypes=("f32",),
    ),
)

_GROUPS: Final = (
    Case(
        "groups",
        lambda x, w: ops.conv(x, w, groups=2),
        _GROUPED,
        lambda x, w: convolved(x, w, groups=2),
        lambda t, x, w: t.nn.functional.conv2d(x, w, groups=2),
    ),
    Case(
        "groups_in_c",
        lambda x, w: ops.conv(x, w, groups=2, groups_in="c"),
        {"X": sample(1, 4, 5, 4), "W": sample(3, 4, 3, 2, seed=1)},
        lambda x, w: convolved(x, spread(w, 2), groups=2),
    ),
    Case(
        "axis_of_groups",
        lambda x, w: ops.conv(x, w, kernel_layout="gkcx"),
        {"X": sample(1, 4, 5, 4), "W": sample(2, 3, 2, 3, 2, seed=1)},
        lambda x, w: convolved(x, w.reshape(6, 2, 3, 2), groups=2),
    ),
    Case(
        "axis_of_groups_behind_channels_last",
        lambda x, w: ops.conv(x, w, layout="nxc", kernel_layout="xgck"),
        {"X": sample(1, 5, 4, 4), "W": sample(3, 2, 2, 2, 3, seed=1)},
        lambda x, w: _TO_NHWC(convolved(_NHWC(x), w.transpose(2, 4, 3, 0, 1).reshape(6, 2, 3, 2), groups=2)),
    ),
    Case(
        "depthwise",
        lambda x, w: ops.depthwise_conv(x, w, padding=1),
        _DEPTHWISE,
        lambda x, w: convolved(x, w.reshape(6, 1, 3, 3), pads=[(1, 1), (1, 1)], groups=3),
        lambda t, x, w: t.nn.functional.conv2d(x, w.reshape(6, 1, 3, 3), padding=1, groups=3),
    ),
    Case(
        "depthwise_once_for_each_channel",
        lambda x, w: ops.depthwise_conv(x, w, layout="nxc", kernel_layout="xg"),
        {"X": sample(1, 5, 4, 3), "W": sample(3, 2, 3, seed=1)},
        lambda x, w: _TO_NHWC(convolved(_NHWC(x), w.transpose(2, 0, 1)[:, None], groups=3)),
    ),
    Case(
        "separable",
        lambda x, d, p: ops.separable_conv(x, d, p, stride=2),
        {"X": sample(1, 3, 5, 5), "D": sample(3, 2, 3, 3, seed=1), "P": sample(4, 6, 1, 1, seed=2)},
        lambda x, d, p: convolved(convolved(x, d.reshape(6, 1, 3, 3), stride=(2, 2), groups=3), p),
    ),
)

_TRANSPOSED: Final = (
    Case(
        "transposed_line",
        lambda y, w: ops.conv_transpose(y, w, stride=2),
        {"Y": sample(1, 2, 5), "W": sample(2, 3, 3, seed=1)},
        lambda y, w: transposed(y, w, [11], stride=[2]),
        lambda t, y, w: t.nn.functional.conv_transpose1d(y, w, stride=2),
    ),
    Case(
        "transposed",
        lambda y, w: ops.conv_transpose(y, w, stride=(2, 1), padding=1, output_padding=(1, 0), dilation=(1, 2)),
        {"Y": sample(1, 2, 3, 4), "W": sample(2, 2, 3, 3, seed=1)},
        lambda y, w: transposed(y, w, [6, 6], stride=[2, 1], pads=[(1, 1), (1, 1)], dilation=[1, 2]),
        lambda t, y, w: t.nn.functional.conv_transpose2d(
            y, w, stride=(2, 1), padding=1, output_padding=(1, 0), dilation=(1, 2)
        ),
    ),
    Case(
        "transposed_to_a_size",
        lambda y, w, b: ops.conv_transpose(y, w, b, stride=2, padding=1, output_size=(6, 7)),
        {"Y": sample(1, 2, 3, 4), "W": sample(2, 2, 3, 3, seed=1), "B": sample(2, seed=2)},
        lambda y, w, b: transposed(y, w, [6, 7], stride=[2, 2], pads=[(1, 1), (1, 1)]) + b[:, None, None],
    ),
    Case(
        "transposed_and_doubled",
        lambda y, w: ops.conv_transpose(y, w, stride=2, padding="same_upper"),
        {"Y": sample(1, 2, 3, 3), "W": sample(2, 2, 3, 3, seed=1)},
        lambda y, w: transposed(y, w, [6, 6], stride=[2, 2], pads=[(0, 1), (0, 1)]),
    ),
    Case(
        "transposed_space",
        lambda y, w: ops.conv_transpose(y, w, stride=2),
        {"Y": sample(1, 2, 2, 2, 2), "W": sample(2, 2, 2, 3, 2, seed=1)},
        lambda y, w: transposed(y, w, [4, 5, 4], stride=[2, 2, 2]),
        lambda t, y, w: t.nn.functional.conv_transpose3d(y, w, stride=2),
    ),
    Case(
        "transposed_groups",
        lambda y, w: ops.conv_transpose(y, w, stride=2, groups=2),
        {"Y": sample(1, 4, 3, 2), "W": sample(4, 2, 3, 2, seed=1)},
        lambda y, w: transposed(y, w, [7, 4], stride=[2, 2], groups=2),
        lambda t, y, w: t.nn.functional.conv_transpose2d(y, w, stride=2, groups=2),
    ),
    Case(
        "weight_gradient",
        lambda x, dy: ops.conv_weight_gradient(x, dy, (3, 2), stride=2, padding=1, groups=2),
        {"X": sample(2, 4, 5, 4), "D": sample(2, 6, 3, 3, seed=1)},
        lambda x, dy: np.stack(
            [
                convolved(x, kernel, stride=(2, 2), pads=[(1, 1), (1, 1)], groups=2).ravel() @ dy.ravel()
                for kernel in np.eye(72).reshape(72, 6, 2, 3, 2)
            ]
        ).reshape(6, 2, 3, 2),
        lambda t, x, dy: t.nn.grad.conv2d_weight(x, (6, 2, 3, 2), dy, stride=2, padding=1, groups=2),
        wrt=("X",),
    ),
)

CASES: Final = (*_FORWARD, *_GROUPS, *_TRANSPOSED)
