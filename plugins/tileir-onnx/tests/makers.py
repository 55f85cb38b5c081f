"""Operators that drawn graphs consist of: each maker appends one with inputs and attributes that suit it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from onnx import TensorProto, helper

from drawing import BF16, BOOL, FLOATS, INTEGERS, Drawing, Maker, number_of

_UNARY: Final = [
    "Abs",
    "Acos",
    "Acosh",
    "Asin",
    "Asinh",
    "Atan",
    "Atanh",
    "Ceil",
    "Cos",
    "Cosh",
    "Erf",
    "Exp",
    "Floor",
    "Log",
    "Neg",
    "Not",
    "Reciprocal",
    "Relu",
    "Round",
    "Sigmoid",
    "Sign",
    "Sin",
    "Sinh",
    "Sqrt",
    "Tan",
    "Tanh",
    "Identity",
    "Softplus",
    "Softsign",
    "HardSwish",
    "Mish",
    "IsNaN",
    "IsInf",
    "BitwiseNot",
    "Swish",
    "Gelu",
    "Elu",
    "Celu",
    "Selu",
    "LeakyRelu",
    "ThresholdedRelu",
    "Shrink",
    "HardSigmoid",
]
_NARROW: Final = ("Erf", "HardSwish")
_BINARY: Final = [
    "Add",
    "Sub",
    "Mul",
    "Div",
    "And",
    "Or",
    "Xor",
    "Equal",
    "Greater",
    "Less",
    "GreaterOrEqual",
    "LessOrEqual",
    "Pow",
    "BitwiseAnd",
    "BitwiseOr",
    "BitwiseXor",
    "PRelu",
    "Mod",
    "BitShift",
]
_REDUCTIONS: Final = ["L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare"]
_NUMBERS: Final = (*FLOATS, *INTEGERS)
_ALL: Final = (*_NUMBERS, BOOL)
_PLAIN: Final = tuple(each for each in FLOATS if each != BF16)


def _kinds(g: Drawing, op: str, at: int = 0) -> list[np.dtype[Any]]:
    """Return the dtypes that an operator takes, that of the graph first and oftenest."""
    found = [each for each in _ALL if g.takes(op, each, at)]
    if g.dtype in found and g.random.random() < 0.8:
        return [g.dtype]
    return found


def unary(g: Drawing) -> None:
    op = g.random.choice(_UNARY)
    kinds = [
        each for each in _kinds(g, op) if op not in _NARROW or each != np.float64
    ]  # which the reference has in f32
    if not kinds:
        return
    x = g.pick(kinds)
    attributes: dict[str, Any] = {}
    for name in ("alpha", "beta", "gamma", "lambd", "bias"):
        if g.has_attribute(op, name) and g.random.random() < 0.6:
            attributes[name] = g.random.choice((0.1, 0.5, 1.0, 1.5))
    if g.has_attribute(op, "approximate") and g.random.random() < 0.5:
        attributes["approximate"] = "tanh"
    if op == "IsInf":
        attributes = {f"detect_{side}": g.random.randrange(2) for side in ("positive", "negative")}
    g.node(op, [x], **attributes)


def binary(g: Drawing) -> None:
    op = g.random.choice(_BINARY)
    kinds = _kinds(g, op)
    if not kinds:
        return
    x = g.pick(kinds)
    array = g.values[x]
    if op in ("Mod", "BitShift"):
        y = g.fresh(array.dtype, array.shape[-1:], np.asarray(g.array(array.dtype, array.shape[-1:])) % 3 + 1)
        g.node(op, [x, y], **({"direction": g.random.choice(("LEFT", "RIGHT"))} if op == "BitShift" else _fmod(g, x)))
        return
    y = g.broadcast(x)
    if op == "Div" and array.dtype.kind in "iu" and not np.all(g.values[y]):
        return
    if op == "Pow" and array.dtype in INTEGERS:
        y = g.constant(g.random.randrange(4), array.dtype)
    g.node(op, [y, x] if op != "PRelu" and g.random.random() < 0.4 else [x, y])


def _fmod(g: Drawing, x: str) -> dict[str, int]:
    return {"fmod": 1} if g.values[x].dtype in FLOATS or g.random.random() < 0.5 else {}


def variadic(g: Drawing) -> None:
    op = g.random.choice(("Max", "Min", "Sum", "Mean"))
    kinds = _kinds(g, op)
    if kinds:
        x = g.pick(kinds)
        g.node(op, [x, *(g.broadcast(x) for _ in range(g.random.randint(0, 3)))])


def chosen(g: Drawing) -> None:
    x = g.pick([each for each in _ALL if g.takes("Where", each, 1)] or [g.dtype])
    g.node("Where", [g.broadcast(x, BOOL), x, g.broadcast(x)])


def clip(g: Drawing) -> None:
    x = g.pick(_kinds(g, "Clip") or [g.dtype])
    dtype = g.values[x].dtype
    if g.opset < 11:
        limits: dict[str, Any] = {name: g.random.uniform(-1, 2) for name in ("min", "max") if g.random.random() < 0.7}
        g.node("Clip", [x], **limits)
        return
    ends = (g.fresh(dtype, (), np.asarray(value)) if g.random.random() < 0.7 else "" for value in (0, 2))
    g.node("Clip", [x, *ends])


def reduction(g: Drawing) -> None:
    op = "Reduce" + g.random.choice(_REDUCTIONS)
    x = g.pick(_kinds(g, op) or [g.dtype])
    rank = g.values[x].ndim
    axes = sorted(g.random.sample(range(rank), g.random.randint(0, rank)))
    axes = [each - rank * (g.random.random() < 0.3) for each in axes]
    attributes: dict[str, Any] = {"keepdims": g.random.randrange(2)}
    inputs = [x]
    if g.has_attribute(op, "axes"):
        if axes:
            attributes["axes"] = axes if g.opset >= 11 else [each % rank for each in axes]
    elif axes or g.random.random() < 0.5:
        inputs.append(g.constant(axes))
        attributes["noop_with_empty_axes"] = g.random.randrange(2)
    g.node(op, inputs, **attributes)


def along(g: Drawing) -> None:
    op = g.random.choice(
        ("Softmax", "LogSoftmax", "Hardmax", "ArgMax", "ArgMin", "CumSum", "CumProd", "LpNormalization", "TopK")
    )
    x = g.pick(_kinds(g, op) or [g.dtype], low=1)
    axis = g.axis(x)
    axis = axis if g.opset >= 11 else axis % g.values[x].ndim
    match op:
        case "CumSum" | "CumProd":
            modes = {"exclusive": g.random.randrange(2), "reverse": g.random.randrange(2)}
            g.node(op, [x, g.constant(axis, g.random.choice((np.int32, np.int64)))], **modes)
        case "TopK":
            size = g.values[x].shape[axis]
            if g.opset < 10:
                g.node(op, [x], 2, axis=axis, k=g.random.randint(1, size) if size else 0)
                return
            modes = {"largest": g.random.randrange(2)} if g.opset >= 11 else {}
            g.node(op, [x, g.constant([g.random.randint(0, size)])], 2, axis=axis, **modes)
        case "ArgMax" | "ArgMin":
            modes = {"select_last_index": g.random.randrange(2)} if g.opset >= 12 else {}
            g.node(op, [x], axis=axis, keepdims=g.random.randrange(2), **modes)
        case "LpNormalization":
            g.node(op, [x], axis=axis, p=g.random.choice((1, 2)))
        case _:
            g.node(op, [x], axis=axis)


def reshape(g: Drawing) -> None:
    x = g.pick(_ALL)
    shape = list(g.values[x].shape)
    kind = g.random.randrange(6)
    if kind == 0:
        g.node("Flatten", [x], axis=g.random.randint(0, len(shape)))
        return
    if kind == 1:
        wanted = [-1]
    elif kind == 2 and len(shape) >= 2:
        wanted = [0] * (len(shape) - 2) + [-1]
    elif kind == 3 and len(shape) >= 2:
        at = g.random.randrange(len(shape) - 1)
        wanted = [*shape[:at], shape[at] * shape[at + 1], *shape[at + 2 :]]
    elif kind == 4:
        _reshape_by_shape(g, x)
        return
    else:
        wanted = [*shape, 1]
        g.random.shuffle(wanted)
        if np.prod(wanted) and g.random.random() < 0.5:
            wanted[g.random.randrange(len(wanted))] = -1
    more = {"allowzero": 1} if g.opset >= 14 and 0 in shape and -1 not in wanted else {}
    g.node("Reshape", [x, g.constant(wanted)], **more)


def _reshape_by_shape(g: Drawing, x: str) -> None:
    """Swap two axes by shapes that are computed, as exporters write it."""
    rank = g.values[x].ndim
    found = g.node("Shape", [x])
    if not found or not rank:
        return
    sizes = [g.node("Gather", [*found, g.constant([at])]) for at in g.random.sample(range(rank), rank)]
    if g.random.random() < 0.5:
        sizes[0] = [g.constant([-1])]
    joined = g.node("Concat", [each for several in sizes for each in several], axis=0)
    if joined:
        g.node("Reshape", [x, *joined])


def squeezed(g: Drawing) -> None:
    x = g.pick(_ALL)
    shape = g.values[x].shape
    if g.random.random() < 0.5:
        ones = [at for at, size in enumerate(shape) if size == 1]
        axes = g.random.sample(ones, g.random.randint(0, len(ones)))
        op, needed = "Squeeze", bool(axes)
    else:
        count = g.random.randint(1, 2)
        axes = g.random.sample(range(len(shape) + count), count)
        op, needed = "Unsqueeze", True
    if g.has_attribute(op, "axes"):
        g.node(op, [x], axes=sorted(axes) if needed else None)
    else:
        g.node(op, [x, g.constant(axes)] if needed else [x])


def moved(g: Drawing) -> None:
    x = g.pick(_ALL)
    rank = g.values[x].ndim
    match g.random.randrange(6):
        case 0:
            perm = g.random.sample(range(rank), rank) if g.random.random() < 0.8 else None
            g.node("Transpose", [x], perm=perm)
        case 1:
            wanted = [g.random.choice((1, 2, 3)) if size == 1 else size for size in g.values[x].shape]
            g.node("Expand", [x, g.constant([*g.shape(0, 1), *wanted])])
        case 2:
            op = g.node("Shape", [g.broadcast(x)])
            if op:
                g.node("Expand", [x, *op])
        case 3:
            repeats = [g.random.choice((0, 1, 1, 2, 3)) for _ in range(rank)]
            g.node("Tile", [x, g.constant(repeats)])
        case 4 if rank >= 2:
            k = [g.constant(g.random.randint(-2, 2))] if g.random.random() < 0.6 else []
            g.node("Trilu", [x, *k], upper=g.random.randrange(2))
        case _:
            shape = g.values[x].shape
            if rank == 4 and g.random.random() < 0.7:
                if shape[1] % 4 == 0 and shape[1]:
                    g.node("DepthToSpace", [x], blocksize=2)
                elif not (shape[2] % 2 or shape[3] % 2):
                    g.node("SpaceToDepth", [x], blocksize=2)
            elif rank >= 2:
                counts = np.full(shape[1:2], g.random.randint(1, shape[0] or 1))
                lengths = g.fresh(np.dtype(np.int64), shape[1:2], counts)
                g.node("ReverseSequence", [x, lengths])


def joined(g: Drawing) -> None:
    x = g.pick(_ALL, low=1)
    axis = g.axis(x)
    axis = axis if g.opset >= 11 else axis % g.values[x].ndim
    shape, dtype = list(g.values[x].shape), g.values[x].dtype
    parts = [x]
    for _ in range(g.random.randint(0, 3)):
        own = [*shape]
        own[axis] = g.random.choice((0, 1, 2, shape[axis]))
        parts.append(x if g.random.random() < 0.3 else g.fresh(dtype, own))
    g.random.shuffle(parts)
    g.node("Concat", parts, axis=axis)


def cut(g: Drawing) -> None:
    x = g.pick(_ALL, low=1)
    shape = g.values[x].shape
    axis = g.axis(x)
    axis = axis if g.opset >= 11 else axis % len(shape)
    size = shape[axis]
    if g.random.random() < 0.4:
        first = g.random.randint(0, size)
        parts = [first, size - first]
        if g.opset < 13:
            g.node("Split", [x], 2, axis=axis, split=parts)
        elif g.random.random() < 0.6 or g.opset < 18:
            g.node("Split", [x, g.constant(parts)], 2, axis=axis)
        else:
            g.node("Split", [x], 2, axis=axis, num_outputs=2)
        return
    axes = g.random.sample(range(len(shape)), g.random.randint(1, len(shape)))
    bounds = (-(2**63) + 1, -3, -1, 0, 1, 2, 5, 2**63 - 1)
    starts, ends = ([g.random.choice(bounds) for _ in axes] for _ in range(2))
    steps = [g.random.choice((1, 1, 1, 2, -1, -2)) for _ in axes]
    if g.opset < 10:
        g.node("Slice", [x], starts=starts, ends=ends, axes=axes)
        return
    kind = g.random.choice((np.int64, np.int64, np.int32))
    limit = np.iinfo(kind)
    tables = ([max(limit.min, min(limit.max, each)) for each in table] for table in (starts, ends, axes, steps))
    g.node("Slice", [x, *(g.constant(each, kind) for each in tables)])


def padded(g: Drawing) -> None:
    x = g.pick(_kinds(g, "Pad") or [g.dtype], low=1, high=4)
    shape = g.values[x].shape
    modes = ["constant", "edge", "reflect"] + ["wrap"] * (g.opset >= 19)
    mode = g.random.choice(modes)
    low = -1 if g.random.random() < 0.2 and mode == "constant" else 0
    limit = 3 if mode == "constant" else max(min(shape) - 1, 0)
    pads = [g.random.randint(low, limit) for _ in range(2 * len(shape))]
    if g.opset < 11:
        g.node("Pad", [x], pads=pads, mode=mode, value=g.random.choice((0.0, 1.5)))
        return
    inputs = [x, g.constant(pads)]
    if mode == "constant" and g.random.random() < 0.5:
        inputs.append(g.constant(2, g.values[x].dtype))
    g.node("Pad", inputs, mode=mode)


def sizes(g: Drawing) -> None:
    x = g.pick(_ALL)
    match g.random.randrange(5):
        case 0:
            places = {"start": g.random.randint(-2, 1), "end": g.random.randint(0, 3)}
            g.node("Shape", [x], **(places if g.opset >= 15 and g.random.random() < 0.5 else {}))
        case 1:
            g.node("Size", [x])
        case 2:
            if found := g.node("Shape", [x]):
                value = helper.make_tensor("v", number_of(g.dtype), [1], [1.5])
                g.node("ConstantOfShape", found, **({"value": value} if g.random.random() < 0.7 else {}))
        case 3:
            ends = [g.constant(each) for each in (g.random.randint(-3, 2), g.random.randint(-3, 8))]
            g.node("Range", [*ends, g.constant(g.random.choice((-2, -1, 1, 2)))])
        case _:
            if g.values[x].ndim == 2:
                g.node("EyeLike", [x], k=g.random.randint(-2, 2), dtype=number_of(g.dtype))


def gathered(g: Drawing) -> None:
    x = g.pick(_ALL, low=1)
    shape, axis = g.values[x].shape, g.axis(x)
    size = shape[axis]
    axis = axis if g.opset >= 11 else axis % len(shape)
    int64 = np.dtype(np.int64)
    if not size:
        return
    rng = np.random.default_rng(g.random.getrandbits(32))

    def places(own: Sequence[int], limit: int = size) -> str:
        low = -limit if g.opset >= 11 else 0
        dtype = int64 if g.random.random() < 0.7 else np.dtype(np.int32)
        return g.fresh(dtype, own, rng.integers(low, limit, own))

    match g.random.randrange(6):
        case 0 | 1:
            g.node("Gather", [x, places(g.shape(0, 2))], axis=axis)
        case 2:
            own = list(shape)
            own[axis] = g.random.randint(0, 4)
            g.node("GatherElements", [x, places(own)], axis=axis)
        case 3:
            depth = g.random.randint(1, len(shape))
            points, limits = (*g.shape(0, 2), depth), np.array(shape[:depth])
            if np.all(limits):
                g.node("GatherND", [x, g.fresh(int64, points, rng.integers(0, limits, points))])
        case 4:
            order = np.argsort(rng.random(shape), axis % len(shape))
            update = g.fresh(g.values[x].dtype, shape)
            more: dict[str, Any] = (
                {"reduction": g.random.choice(("none", "add", "mul", "max", "min"))} if g.opset >= 18 else {}
            )
            if g.values[x].dtype == BOOL:
                more = {}
            g.node("ScatterElements", [x, g.fresh(int64, shape, order), update], axis=axis, **more)
        case _:
            rows = rng.permutation(shape[0])[: g.random.randint(0, shape[0])].reshape(-1, 1)
            update = g.fresh(g.values[x].dtype, (len(rows), *shape[1:]))
            more = {"reduction": g.random.choice(("none", "add", "max"))} if g.opset >= 18 else {}
            if g.values[x].dtype == BOOL:
                more = {}
            g.node("ScatterND", [x, g.fresh(int64, rows.shape, rows), update], **more)


def one_hot(g: Drawing) -> None:
    depth = g.random.randint(1, 5)
    places = g.fresh(np.dtype(np.int64), shape := g.shape(0, 2), np.random.default_rng(1).integers(0, depth, shape))
    values = g.fresh(g.dtype, (2,))
    g.node("OneHot", [places, g.constant(depth), values], axis=g.random.randint(-1, len(shape)))


def cast(g: Drawing) -> None:
    x = g.pick(_ALL)
    to = g.random.choice((g.dtype, g.dtype, *_ALL))
    if to.kind == "u" and g.values[x].dtype in FLOATS and np.any(g.values[x] < 0):
        return
    if not g.takes("Cast", to):
        return
    if g.opset >= 15 and g.random.random() < 0.3:
        g.node("CastLike", [x, g.fresh(to, (1,))])
    else:
        g.node("Cast", [x], to=number_of(to))


def product(g: Drawing) -> None:
    x = g.pick(_kinds(g, "MatMul") or [g.dtype], low=1)
    array = g.values[x]
    match g.random.randrange(4):
        case 0 | 1:
            batch = [size if g.random.random() < 0.7 else 1 for size in array.shape[:-2]]
            own = [*batch, array.shape[-1], g.random.choice((1, 2, 4))]
            own = own[-2:-1] if g.random.random() < 0.15 else own
            g.node("MatMul", [x, g.fresh(array.dtype, own)])
        case 2 if array.ndim == 2:
            _gemm(g, x)
        case _:
            if array.ndim == 3:
                word = g.random.choice(("abc,cd->abd", "abc,abd->acd", "abc,b->ac", "abc->ca", "abc,dc->b"))
                by = {"a": array.shape[0], "b": array.shape[1], "c": array.shape[2], "d": 3}
                others = word.split("->")[0].split(",")[1:]
                factors = [g.fresh(array.dtype, [by[each] for each in one]) for one in others]
                g.node("Einsum", [x, *factors], equation=word)


def _gemm(g: Drawing, x: str) -> None:
    array = g.values[x]
    flip, turned = g.random.randrange(2), g.random.randrange(2)
    inner, rows, columns = array.shape[1 - flip], array.shape[flip], g.random.choice((1, 3, 4))
    y = g.fresh(array.dtype, (columns, inner) if turned else (inner, columns))
    c = [g.fresh(array.dtype, g.random.choice(((columns,), (rows, 1), (), (rows, columns))))]
    factors: dict[str, Any] = {"alpha": g.random.choice((1.0, 0.5)), "beta": g.random.choice((1.0, 2.0))}
    if g.opset >= 11 and g.random.random() < 0.3:
        c = []
    g.node("Gemm", [x, y, *c], transA=flip, transB=turned, **factors)


def _image(g: Drawing, low: int = 3, high: int = 4) -> str:
    """Return a value that is a batch of signals or images with some extent."""

    def fits(each: Any) -> bool:
        return bool(min(each.shape[1:]) and max(each.shape[2:]) > 1)

    x = g.pick((g.dtype,), low, high, fits)
    if g.values[x].ndim < 3 or 0 in g.values[x].shape[1:]:
        x = g.fresh(g.dtype, (g.random.choice(list(g.named)), g.random.choice((2, 4)), *[5, 6][: high - 2]))
    return x


def _window(g: Drawing, x: str, is_pool: bool) -> dict[str, Any]:
    space = g.values[x].ndim - 2
    extent = g.values[x].shape[2:]
    kernel = [g.random.randint(1, min(3, size)) for size in extent]
    found: dict[str, Any] = {"kernel_shape": kernel}
    if g.random.random() < 0.5:
        found["strides"] = [g.random.randint(1, 3) for _ in range(space)]
    if g.random.random() < 0.2:
        found["auto_pad"] = g.random.choice(("SAME_UPPER", "SAME_LOWER", "VALID"))
    elif g.random.random() < 0.6:
        found["pads"] = [g.random.randint(0, kernel[at % space] - 1) for at in range(2 * space)]
    if not is_pool and g.random.random() < 0.3 and "auto_pad" not in found:
        found["dilations"] = [2 if 2 * (k - 1) < size else 1 for k, size in zip(kernel, extent, strict=True)]
    return found


def convolution(g: Drawing) -> None:
    x = _image(g)
    if g.values[x].dtype == BF16 and g.opset < 22:
        return
    window, channels = _window(g, x, is_pool=False), g.values[x].shape[1]
    groups = g.random.choice([each for each in (1, 2, channels) if channels % each == 0])
    makes = groups * g.random.choice((1, 2))
    if g.random.random() < 0.6:
        own = (makes, channels // groups, *window["kernel_shape"])
        count, op = makes, "Conv"
    else:
        own = (channels, makes // groups, *window["kernel_shape"])
        count, op = makes, "ConvTranspose"
        window.pop("auto_pad", None)
    bias = [g.fresh(g.dtype, (count,))] if g.random.random() < 0.5 else []
    if g.random.random() < 0.3:
        window.pop("kernel_shape")
    g.node(op, [x, g.fresh(g.dtype, own), *bias], group=groups, **window)


def pooling(g: Drawing) -> None:
    x = _image(g)
    op = g.random.choice(
        ("MaxPool", "AveragePool", "LpPool", "GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool", "LRN", "Upsample")
    )
    if not g.takes(op, g.dtype):
        return
    if op.startswith("Global"):
        g.node(op, [x])
    elif op == "LRN":
        g.node(op, [x], size=g.random.choice((1, 3, 5)), bias=1.5)
    elif op == "Upsample":
        scales = [1.0, 1.0] + [2.0] * (g.values[x].ndim - 2)
        if g.opset >= 9:
            g.node(op, [x, g.constant(scales, np.float32)])
        else:
            g.node(op, [x], scales=scales)
    else:
        window = _window(g, x, is_pool=True)
        if g.has_attribute(op, "ceil_mode") and "auto_pad" not in window:
            window["ceil_mode"] = g.random.randrange(2)
        if op == "AveragePool" and g.random.random() < 0.5:
            window["count_include_pad"] = 1
        g.node(op, [x], [True, op == "MaxPool" and g.random.random() < 0.3][: 2 if op == "MaxPool" else 1], **window)


def normalisation(g: Drawing) -> None:
    op = g.random.choice(
        (
            "BatchNormalization",
            "GroupNormalization",
            "InstanceNormalization",
            "LayerNormalization",
            "MeanVarianceNormalization",
            "RMSNormalization",
        )
    )
    if not g.takes(op, g.dtype):
        return
    if op in ("LayerNormalization", "RMSNormalization"):
        x = g.pick((g.dtype,), 1, 4)
        axis = g.axis(x)
        own = g.values[x].shape[axis:]
        parts = [g.fresh(g.dtype, own) for _ in range(2 if op.startswith("Layer") and g.random.random() < 0.7 else 1)]
        g.node(op, [x, *parts], axis=axis, epsilon=1e-3)
        return
    x = _image(g)
    channels = (g.values[x].shape[1],)
    if op == "MeanVarianceNormalization":
        g.node(op, [x], axes=[0, 2, 3][: g.values[x].ndim - 1])
    elif op == "GroupNormalization":
        groups = g.random.choice([each for each in (1, 2, channels[0]) if channels[0] % each == 0])
        parts = [g.fresh(g.dtype, channels if g.opset >= 21 else (groups,)) for _ in range(2)]
        g.node(op, [x, *parts], num_groups=groups, epsilon=1e-3)
    else:
        parts = [g.fresh(g.dtype, channels) for _ in range(3 if op.startswith("Batch") else 2)]
        if op.startswith("Batch"):
            parts.append(g.fresh(g.dtype, channels, np.abs(g.array(g.dtype, channels)) + 0.5))
        g.node(op, [x, *parts], epsilon=1e-2)


def resize(g: Drawing) -> None:
    x = _image(g)
    if not g.takes("Resize", g.dtype):
        return
    rank = g.values[x].ndim
    mode = g.random.choice(("nearest", "linear", "cubic"))
    attributes: dict[str, Any] = {"mode": mode}
    scales = [1.0, 1.0] + [g.random.choice((0.5, 0.75, 1.0, 2.0, 2.5)) for _ in range(rank - 2)]
    if g.opset == 10:
        g.node("Resize", [x, g.constant(scales, np.float32)], mode="nearest")
        return
    ways: tuple[str, ...] = ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")
    ways += ("half_pixel_symmetric",) * (g.opset >= 19)
    attributes["coordinate_transformation_mode"] = way = g.random.choice(ways)
    least = 1 + (way == "pytorch_half_pixel")  # for a single result the reference differs from the specification
    inner = zip(scales[2:], g.values[x].shape[2:], strict=True)
    scales[2:] = [2.0 if scale * size < least else scale for scale, size in inner]
    if mode == "nearest":
        attributes["nearest_mode"] = g.random.choice(("floor", "ceil", "round_prefer_floor", "round_prefer_ceil"))
    if mode == "cubic" and g.random.random() < 0.3:
        attributes["exclude_outside"] = 1
    if mode != "nearest" and g.opset >= 18 and g.random.random() < 0.3:
        attributes["antialias"] = 1
    roi = "" if g.opset >= 13 else g.constant([], np.float32)
    if g.random.random() < 0.5:
        g.node("Resize", [x, roi, g.constant(scales, np.float32)], **attributes)
    else:
        wanted = [*g.values[x].shape[:2], *(g.random.randint(least, 9) for _ in range(rank - 2))]
        empty = "" if g.opset >= 13 else g.constant([], np.float32)
        g.node("Resize", [x, roi, empty, g.constant(wanted)], **attributes)


def sampled(g: Drawing) -> None:
    x = g.pick((g.dtype,), 4, 4, lambda each: 0 not in each.shape)
    array = g.values[x]
    if array.ndim != 4 or 0 in array.shape or not g.takes("GridSample", g.dtype):
        return
    own = (array.shape[0], 2, 3, 2)
    grid = g.fresh(g.dtype, own, np.random.default_rng(2).uniform(-1.3, 1.3, own))
    mode = g.random.choice(("linear", "nearest", "cubic") if g.opset >= 20 else ("bilinear", "nearest", "bicubic"))
    padding = g.random.choice(("zeros", "border", "reflection"))
    g.node("GridSample", [x, grid], mode=mode, padding_mode=padding, align_corners=g.random.randrange(2))


def quantised(g: Drawing) -> None:
    x = g.pick((g.dtype,), 1, 4)
    dtype = np.dtype(g.random.choice(("u1", "i1")))
    axis = g.axis(x)
    size = g.values[x].shape[axis]
    per_axis = g.opset >= 13 and g.random.random() < 0.5
    own = (size,) if per_axis else ()
    scale_type = g.dtype if g.opset >= 19 else np.dtype(np.float32)
    if not g.takes("QuantizeLinear", g.dtype):
        return
    scale = g.fresh(scale_type, own, np.random.default_rng(3).uniform(0.01, 0.1, own), "weight")
    zero = [g.fresh(dtype, own, np.full(own, g.random.choice((0, 3))))] if g.random.random() < 0.7 else []
    more = {"axis": axis} if per_axis else {}
    found = g.node("QuantizeLinear", [x, scale, *zero], **more)
    if found and g.random.random() < 0.7:
        g.node("DequantizeLinear", [*found, scale, *zero], **more)
    if g.dtype == np.float32 and g.random.random() < 0.3:
        g.node("DynamicQuantizeLinear", [x], 3)
    if found and g.values[found[0]].ndim >= 2:
        other = g.fresh(dtype, (g.values[found[0]].shape[-1], 3))
        g.node("MatMulInteger", [*found, other])


def recurrent(g: Drawing) -> None:
    op, gates = g.random.choice((("RNN", 1), ("GRU", 3), ("LSTM", 4)))
    x = g.pick((g.dtype,), 3, 3, lambda each: 0 not in each.shape)
    if g.values[x].ndim != 3 or 0 in g.values[x].shape or not g.takes(op, g.dtype):
        return
    hidden, batch, size = g.random.choice((1, 2, 3)), g.values[x].shape[1], g.values[x].shape[2]
    direction = g.random.choice(("forward", "reverse", "bidirectional"))
    ways = 1 + (direction == "bidirectional")
    parts = [g.fresh(g.dtype, (ways, gates * hidden, each), kind="weight") for each in (size, hidden)]
    bias = g.fresh(g.dtype, (ways, 2 * gates * hidden), kind="weight") if g.random.random() < 0.6 else ""
    first = ["", g.fresh(g.dtype, (ways, batch, hidden))] if g.random.random() < 0.4 else []
    more = {"linear_before_reset": g.random.randrange(2)} if op == "GRU" else {}
    outputs = [True] * (3 if op == "LSTM" else 2)
    g.node(op, [x, *parts, bias, *first], outputs, hidden_size=hidden, direction=direction, **more)


def attention(g: Drawing) -> None:
    if not g.takes("Attention", g.dtype):
        return
    batch, rows, keys = g.random.choice(list(g.named)), g.random.choice((1, 3, 4)), g.random.choice((3, 5))
    if not batch:
        return
    parts = [g.fresh(g.dtype, (batch, 2, each, 4)) for each in (rows, keys, keys)]
    mask = [g.fresh(BOOL, (rows, keys), np.tri(rows, keys, keys - rows) > 0)] if g.random.random() < 0.5 else []
    g.node("Attention", [*parts, *mask], is_causal=0 if mask else g.random.randrange(2))


def loss(g: Drawing) -> None:
    op = g.random.choice(("SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss"))
    x = g.pick((g.dtype,), 2, 4, lambda each: 0 not in each.shape)
    shape = g.values[x].shape
    if len(shape) < 2 or 0 in shape or not g.takes(op, g.dtype):
        return
    own = (shape[0], *shape[2:])
    target = g.fresh(np.dtype(np.int64), own, np.random.default_rng(4).integers(0, shape[1], own))
    amounts = np.abs(g.array(g.dtype, shape[1:2])) + 0.1
    weights = [g.fresh(g.dtype, shape[1:2], amounts)] if g.random.random() < 0.5 else []
    more: dict[str, Any] = {"ignore_index": 0} if g.random.random() < 0.3 and np.any(g.values[target]) else {}
    g.node(op, [x, target, *weights], reduction=g.random.choice(("none", "mean", "sum")), **more)


def branch(g: Drawing) -> None:
    x = g.pick((g.dtype,))
    y = g.broadcast(x)
    ends = [helper.make_empty_tensor_value_info(name) for name in ("then_y", "else_y")]
    graphs = [
        helper.make_graph([helper.make_node(op, [x, y], [end.name])], end.name, [], [end])
        for op, end in zip(g.random.sample(("Add", "Mul", "Max", "Sub"), 2), ends, strict=True)
    ]
    condition = g.fresh(BOOL, g.random.choice(((), (1,))))
    g.node("If", [condition], then_branch=graphs[0], else_branch=graphs[1])


def loop(g: Drawing) -> None:
    x = g.pick((g.dtype,))
    if g.opset < 11 or g.values[x].shape[:1] == (1,):  # which the reference does not stack
        return
    shape, kind = g.values[x].shape, number_of(g.values[x].dtype)
    y = g.fresh(g.values[x].dtype, shape)
    value = helper.make_tensor_value_info
    inputs = [value("step", TensorProto.INT64, []), value("go_on", TensorProto.BOOL, []), value("state", kind, shape)]
    outputs = [value("go", TensorProto.BOOL, []), value("state_out", kind, shape), value("told", kind, shape)]
    nodes = [helper.make_node("Identity", ["go_on"], ["go"]), helper.make_node("Add", ["state", y], ["sum"])]
    nodes += [helper.make_node("Tanh", ["sum"], ["state_out"]), helper.make_node("Mul", ["state_out", y], ["told"])]
    body = helper.make_graph(nodes, "body", inputs, outputs)
    count = g.constant(g.random.randint(0, 4))
    g.node("Loop", [count, g.constant(1, np.bool_), x], 2, body=body)  # without which the reference takes no step


def scan(g: Drawing) -> None:
    x = g.pick((g.dtype,), 1, 3, lambda each: bool(each.shape[0]))
    shape, kind = g.values[x].shape, number_of(g.values[x].dtype)
    if g.opset < 9 or not shape or not shape[0]:
        return
    first = g.fresh(g.values[x].dtype, shape[1:])
    value = helper.make_tensor_value_info
    inputs = [value(name, kind, shape[1:]) for name in ("state", "row")]
    outputs = [value(name, kind, shape[1:]) for name in ("state_out", "told")]
    nodes = [helper.make_node("Add", ["state", "row"], ["sum"]), helper.make_node("Tanh", ["sum"], ["state_out"])]
    nodes += [helper.make_node("Sub", ["sum", "row"], ["told"])]
    body = helper.make_graph(nodes, "body", inputs, outputs)
    more = {"scan_input_directions": [1]} if g.random.random() < 0.4 else {}
    g.node("Scan", [first, x], 2, body=body, num_scan_inputs=1, **more)


def sequence(g: Drawing) -> None:
    x = g.pick((g.dtype,), 1, 4)
    if g.opset < 11:
        return
    axis = g.axis(x)
    found = g.node("SplitToSequence", [x], axis=axis, keepdims=1)
    if not found or not g.values[found[0]]:
        return
    if g.random.random() < 0.5:
        g.node("SequenceAt", [*found, g.constant(g.random.randrange(-1, 1))])
    else:
        g.node("ConcatFromSequence", found, axis=g.random.choice((axis, 0)), new_axis=g.random.randrange(2))


def counted(g: Drawing) -> None:
    """Append an operator whose sizes follow from values."""
    x = g.pick(_kinds(g, "NonZero") or [g.dtype], low=1)
    if g.random.random() < 0.5:
        g.node("NonZero", [x])
        return
    axis = g.axis(x)
    mask = g.fresh(BOOL, g.values[x].shape[axis : axis + 1 or None])
    g.node("Compress", [x, mask], axis=axis)


MAKERS: Final[tuple[tuple[float, Maker], ...]] = (
    (8, unary),
    (10, binary),
    (3, variadic),
    (2, chosen),
    (2, clip),
    (5, reduction),
    (5, along),
    (5, reshape),
    (4, squeezed),
    (6, moved),
    (4, joined),
    (5, cut),
    (3, padded),
    (3, sizes),
    (5, gathered),
    (1, one_hot),
    (4, cast),
    (5, product),
    (3, convolution),
    (3, pooling),
    (3, normalisation),
    (2, resize),
    (1, sampled),
    (2, quantised),
    (1.5, recurrent),
    (1, attention),
    (1, loss),
    (1, branch),
    (1, loop),
    (1, scan),
    (1, sequence),
    (0.3, counted),
)
"""Makers of nodes and how often each is used."""
