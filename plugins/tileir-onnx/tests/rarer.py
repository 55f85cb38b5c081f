"""Makers of operators that few models have."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from onnx import TensorProto, helper

from drawing import INTEGERS, Drawing, Maker, number_of

_INT64: Final = np.dtype(np.int64)
_F32: Final = np.dtype(np.float32)


def sequences(g: Drawing) -> None:
    """Append nodes that make a sequence, change it, and take an element or join all."""
    x = g.pick((g.dtype,), 1, 3)
    parts = [x, *(g.fresh(g.dtype, g.values[x].shape) for _ in range(g.random.randint(0, 2)))]
    found = g.node("SequenceConstruct", parts)
    if g.opset < 11 or not found:
        return
    count = len(parts)
    if g.random.random() < 0.5:
        place = [g.constant(g.random.randint(-count, count - 1))] if g.random.random() < 0.6 else []
        found = g.node("SequenceInsert", [*found, g.fresh(g.dtype, g.values[x].shape), *place]) or found
        count = len(g.values[found[0]])
    if count > 1 and g.random.random() < 0.5:
        place = [g.constant(g.random.randint(-count, count - 1))] if g.random.random() < 0.6 else []
        found = g.node("SequenceErase", [*found, *place]) or found
    g.node("SequenceLength", found)
    g.node("SequenceAt", [*found, g.constant(g.random.choice((0, -1)))])
    g.node("ConcatFromSequence", found, axis=g.axis(x), new_axis=g.random.randrange(2))


def cropped(g: Drawing) -> None:
    x = g.pick(None, 1, 4)
    shape = g.values[x].shape
    axes = g.random.sample(range(len(shape)), g.random.randint(1, len(shape)))
    g.node("CenterCropPad", [x, g.constant([g.random.randint(1, 6) for _ in axes])], axes=axes)


def determinant(g: Drawing) -> None:
    size = g.random.randint(1, 4)
    if g.dtype.kind == "f" and g.dtype != np.float16:
        g.node("Det", [g.fresh(g.dtype, (*g.shape(0, 2), size, size))])


def columns(g: Drawing) -> None:
    if not g.takes("Col2Im", g.dtype):
        return
    kernel, image = (g.random.randint(1, 2), g.random.randint(1, 3)), (g.random.randint(3, 5), 4)
    pads = [g.random.randint(0, 1) for _ in range(4)]
    counts = [
        size + pads[axis] + pads[axis + 2] - tap + 1 for axis, (size, tap) in enumerate(zip(image, kernel, strict=True))
    ]
    x = g.fresh(g.dtype, (2, 3 * kernel[0] * kernel[1], counts[0] * counts[1]))
    g.node("Col2Im", [x, g.constant(image), g.constant(kernel)], pads=pads)


def regions(g: Drawing) -> None:
    x = g.pick((g.dtype,), 4, 4, lambda each: 0 not in each.shape)
    if g.values[x].ndim != 4 or 0 in g.values[x].shape or not g.takes("RoiAlign", g.dtype):
        return
    rng = np.random.default_rng(g.random.getrandbits(32))
    corners = np.sort(rng.uniform(0, 6, (3, 2, 2)), 1).reshape(3, 4)
    images = g.fresh(_INT64, (3,), rng.integers(0, g.values[x].shape[0], 3))
    sizes = {"output_height": g.random.randint(1, 3), "output_width": 2, "sampling_ratio": g.random.randint(0, 2)}
    g.node("RoiAlign", [x, g.fresh(g.dtype, (3, 4), corners), images], spatial_scale=0.75, **sizes)


def grids(g: Drawing) -> None:
    if g.takes("AffineGrid", g.dtype):
        sizes = [g.random.randint(2, 4) for _ in range(g.random.choice((2, 3)))]
        theta = g.fresh(g.dtype, (2, len(sizes), len(sizes) + 1))
        g.node("AffineGrid", [theta, g.constant([2, 3, *sizes])], align_corners=g.random.randrange(2))


def bits(g: Drawing) -> None:
    x = g.pick(INTEGERS)
    same = [each for each in (*INTEGERS, g.dtype) if each.itemsize == g.values[x].dtype.itemsize and each.kind in "iu"]
    g.node("BitCast", [x], to=number_of(g.random.choice(same)))


def dropped(g: Drawing) -> None:
    x = g.pick()
    if g.opset < 12:
        g.node("Dropout", [x], ratio=0.3)
    else:
        g.node("Dropout", [x, g.constant(0.3, np.float32), g.constant(0, np.bool_)], [True, g.random.random() < 0.5])


def cached(g: Drawing) -> None:
    if not g.takes("TensorScatter", g.dtype):
        return
    batch, size = g.random.choice([each for each in g.named if each]), g.random.randint(2, 6)
    length = g.random.randint(1, size)
    mode = g.random.choice(("linear", "circular"))
    limit = size - length + 1 if mode == "linear" else size
    starts = g.fresh(_INT64, (batch,), np.random.default_rng(5).integers(0, limit, batch))
    parts = [g.fresh(g.dtype, (batch, 2, each, 3)) for each in (size, length)]
    g.node("TensorScatter", [*parts, starts], mode=mode)


def rotated(g: Drawing) -> None:
    if not g.takes("RotaryEmbedding", g.dtype):
        return
    batch, length = (g.random.choice([each for each in g.named if each]) for _ in range(2))
    x = g.fresh(g.dtype, (batch, 2, length, 4))
    if g.random.random() < 0.5:
        tables = [g.fresh(g.dtype, (batch, length, 2)) for _ in range(2)]
        g.node("RotaryEmbedding", [x, *tables], interleaved=g.random.randrange(2))
    else:
        tables = [g.fresh(g.dtype, (10, 2)) for _ in range(2)]
        places = g.fresh(_INT64, (batch, length), np.random.default_rng(6).integers(0, 10, (batch, length)))
        g.node("RotaryEmbedding", [x, *tables, places], interleaved=g.random.randrange(2))


def signals(g: Drawing) -> None:
    if g.opset < 17:
        return
    match g.random.randrange(3):
        case 0:
            op = g.random.choice(("HannWindow", "HammingWindow", "BlackmanWindow"))
            g.node(op, [g.constant(g.random.randint(2, 9))], periodic=g.random.randrange(2))
        case 1:
            x = g.fresh(_F32, (2, g.random.choice((4, 5, 8)), g.random.choice((1, 2))))
            options = {"inverse": 0, "onesided": g.random.randrange(2) if g.values[x].shape[2] == 1 else 0}
            if g.opset >= 20:
                g.node("DFT", [x, "", g.constant(1)], **options)
            else:
                g.node("DFT", [x], axis=1, **options)
        case _:
            x = g.fresh(_F32, (2, 16, 1))
            g.node("STFT", [x, g.constant(4), g.fresh(_F32, (8,)), g.constant(8)], onesided=1)


def integers(g: Drawing) -> None:
    """Append products of quantised numbers."""
    kinds = [np.dtype(g.random.choice(("u1", "i1"))) for _ in range(2)]
    if g.opset < 10:
        return
    scale = [g.fresh(_F32, (), np.asarray(each), "weight") for each in (0.5, 0.25, 2.0)]
    zeros = [g.fresh(kind, (), np.asarray(g.random.choice((0, 2))), "weight") for kind in (*kinds, kinds[0])]
    if g.random.random() < 0.5:
        x, y = g.fresh(kinds[0], (*g.shape(0, 1), 3, 4)), g.fresh(kinds[1], (4, 2))
        g.node("QLinearMatMul", [x, scale[0], zeros[0], y, scale[1], zeros[1], scale[2], zeros[2]])
        return
    x, w = g.fresh(kinds[0], (g.random.choice(list(g.named)), 2, 5, 4)), g.fresh(kinds[1], (3, 2, 2, 2))
    options: dict[str, Any] = {
        "pads": [g.random.randrange(2) for _ in range(4)],
        "strides": [g.random.randint(1, 2), 1],
    }
    if g.random.random() < 0.5:
        g.node("ConvInteger", [x, w, zeros[0]], **options)
    else:
        g.node("QLinearConv", [x, scale[0], zeros[0], w, scale[1], zeros[1], scale[2], zeros[2]], **options)


def unpooled(g: Drawing) -> None:
    if not g.takes("MaxUnpool", g.dtype):
        return
    x = g.fresh(g.dtype, (2, 2, 4, 4))
    found = g.node("MaxPool", [x], 2, kernel_shape=[2, 2], strides=[2, 2])
    if found:
        g.node("MaxUnpool", found, kernel_shape=[2, 2], strides=[2, 2])


def optional(g: Drawing) -> None:
    x = g.pick()
    found = g.node("Optional", [x])
    if found:
        g.node("OptionalHasElement", found)
        g.node("OptionalGetElement", found)


def distinct(g: Drawing) -> None:
    """Append an operator whose sizes follow from values, of which nodes behind it read nothing."""
    if g.random.random() < 0.5:
        x = g.pick((_INT64, g.dtype), 1, 1)
        g.node("Unique", [x], g.random.choice((1, 4)), sorted=1)
        return
    rng = np.random.default_rng(g.random.getrandbits(32))
    corners = np.sort(rng.uniform(0, 6, (1, 5, 2, 2)), 2).reshape(1, 5, 4)
    boxes, scores = g.fresh(_F32, (1, 5, 4), corners), g.fresh(_F32, (1, 2, 5))
    limits = [g.constant(2), g.constant(0.4, np.float32), g.constant(-0.5, np.float32)]
    if g.opset >= 10:
        g.node("NonMaxSuppression", [boxes, scores, *limits])


def nested(g: Drawing) -> None:
    """Append a loop with a branch, both of which read values from around them."""
    x = g.pick((g.dtype,), 0, 3)
    shape, kind = g.values[x].shape, number_of(g.values[x].dtype)
    if g.opset < 16 or shape[:1] == (1,):
        return
    y, last = g.fresh(g.values[x].dtype, shape), g.constant(g.random.randint(0, 2))
    value = helper.make_tensor_value_info
    branches = [
        helper.make_graph([helper.make_node(op, ["state", y], [name])], name, [], [value(name, kind, shape)])
        for op, name in (("Max", "then_y"), ("Min", "else_y"))
    ]
    nodes = [
        helper.make_node("Less", ["step", last], ["early"]),
        helper.make_node("If", ["early"], ["chosen"], then_branch=branches[0], else_branch=branches[1]),
        helper.make_node("Sub", ["chosen", y], ["moved"]),
        helper.make_node("Tanh", ["moved"], ["state_out"]),
        helper.make_node("Identity", ["go_on"], ["go"]),
    ]
    inputs = [value("step", TensorProto.INT64, []), value("go_on", TensorProto.BOOL, []), value("state", kind, shape)]
    outputs = [value("go", TensorProto.BOOL, []), value("state_out", kind, shape)]
    body = helper.make_graph(nodes, "body", inputs, outputs)
    count = g.constant(g.random.choice((1, 3, 70)))
    g.node("Loop", [count, g.constant(1, np.bool_), x], body=body)


def shuffled(g: Drawing) -> None:
    """Append sizes that are computed and cast, by which a value is given another shape and back."""
    x = g.pick(None, 2, 4)
    kind = g.random.choice((TensorProto.INT32, TensorProto.INT64))
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    shape = g.node("Shape", [x])
    cast = g.node("Cast", shape, to=kind) if shape else []
    if not cast:
        return
    product = g.node("ReduceProd", cast, axes=[0], keepdims=1) if g.opset < 18 else []
    if not product:
        first = g.node("Gather", [*cast, g.constant([0])])
        product = g.node("Mul", [*first, g.constant([1], dtype)]) if first else []
    if not product:
        return
    joined = g.node("Concat", [g.constant([-1], dtype), *product], axis=0)
    target = g.node("Cast", joined, to=TensorProto.INT64) if joined else []
    if target and g.values[x].size:
        flat = g.node("Reshape", [x, *target])
        if flat:
            g.node("Reshape", [*flat, *shape])
    g.node("Max", [*cast, g.constant([2], dtype)])


RARER: Final[tuple[tuple[float, Maker], ...]] = (
    (1.5, sequences),
    (1, cropped),
    (0.5, determinant),
    (1, columns),
    (1, regions),
    (0.5, grids),
    (1, bits),
    (0.7, dropped),
    (1, cached),
    (1, rotated),
    (1, signals),
    (1.5, integers),
    (0.7, unpooled),
    (0.5, optional),
    (0.3, distinct),
    (1, nested),
    (2, shuffled),
)
"""Makers of nodes and how often each is used."""
