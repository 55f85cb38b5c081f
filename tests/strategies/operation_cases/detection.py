"""Cases of boxes."""

from __future__ import annotations

from functools import partial
from typing import Final

import numpy as np

from fuzz.wide.images import suppressed
from strategies.operations import Array, Case, sample
from tileir import ops


def _boxes(count: int, seed: int = 0) -> Array:
    corners = sample(count, 2, low=0, high=3, seed=seed)
    return np.concatenate([corners, corners + sample(count, 2, low=0.5, high=2, seed=seed + 1)], 1)


def _iou(a: Array, b: Array) -> Array:
    low, high = np.maximum(a[:, None, :2], b[None, :, :2]), np.minimum(a[:, None, 2:], b[None, :, 2:])
    both = np.clip(high - low, 0, None).prod(-1)
    areas = ((x[:, 2:] - x[:, :2]).prod(-1) for x in (a, b))
    return np.asarray(both / (np.add.outer(*areas) - both))


def _nms(boxes: Array, scores: Array, most: int, least: float = -np.inf) -> tuple[Array, Array]:
    kept: list[int] = []
    overlaps = _iou(boxes, boxes)
    for place in np.argsort(-scores, kind="stable"):
        if scores[place] > least and all(overlaps[place, other] <= 0.5 for other in kept):
            kept.append(int(place))
    kept = kept[:most]
    return np.array(kept + [-1] * (most - len(kept)), np.int32), np.array(len(kept), np.int32)


_BOXES: Final = _boxes(8)
_SCORES: Final = np.array([0.5, 0.9, 0.9, 0.1, -0.5, 0.7, 0.3, 0.2])
_DIMS: Final = {"X": "N D", "S": "N", "Y": "M D"}

CASES: Final = (
    Case(
        "boxes_of_classes",
        lambda b, s: ops.non_max_suppression(b, s, 3, overlap=0.4, least_score=-1.0),
        {"B": sample(2, 5, 4, low=0, high=3), "S": sample(2, 3, 5, seed=1)},
        lambda b, s: suppressed(b, s, 3, 0.4, -1.0),
        wrt=(),
    ),
    Case("iou", ops.iou, {"X": _BOXES, "Y": _boxes(3, 5)}, _iou, dims=_DIMS),
    Case(
        "iou_of_centres",
        partial(ops.iou, form="centre"),
        {"X": np.array([[1.0, 1, 2, 2], [0, 0, 0, 0]]), "Y": np.array([[2.0, 1, 2, 2], [9, 9, 1, 1], [0, 0, 0, 0]])},
        lambda *_: np.array([[1 / 3, 0, 0], [0, 0, 0]]),
        wrt=(),
        dims=_DIMS,
    ),
    Case("nms", partial(ops.nms, most=8), {"X": _BOXES, "S": _SCORES}, partial(_nms, most=8), wrt=(), dims=_DIMS),
    Case(
        "nms_of_few",
        partial(ops.nms, most=3, least_score=0.2),
        {"X": _BOXES, "S": _SCORES},
        partial(_nms, most=3, least=0.2),
        wrt=(),
        dims=_DIMS,
    ),
)
