"""Families of operations with their options, as calls of ours and of PyTorch's that mean the same.

A call is ``[name, arguments, keywords]``; an argument ``"$X"`` is the input ``X``. PyTorch's names are paths below
``torch``; one that starts with a point is a method of the first argument. Where PyTorch has no such call there is none,
and devices are compared with the interpreter.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tileir.core.dtype import DType
from tileir.testing.fuzz.area import Case, array_spec
from tileir.testing.generated.choices import Choices

F: Final = "nn.functional."


def shape(choices: Choices, rank: int, least: int = 1, most: int = 7) -> tuple[int, ...]:
    """Choose a shape."""
    return tuple(choices.integer(least, most) for _ in range(rank))


def normal(choices: Choices, sizes: tuple[int, ...], kind: str = "normal", dtype: DType = DType.F64) -> Case:
    """Describe an array of floats, or of other values of a kind."""
    spec = array_spec(choices, dtype, sizes, kind)
    return spec if spec["layout"] != "broadcast" else {**spec, "layout": "plain"}  # ties have no one gradient


def call(name: str, *arguments: Any, **keywords: Any) -> list[Any]:
    """Return a call as data."""
    return [name, list(arguments), keywords]


def case(inputs: dict[str, Case], ours: list[Any], torch: list[Any] | None, **more: Any) -> Case:
    """Return a case; all inputs of floats are differentiated by, unless ``wrt`` says otherwise."""
    return {"inputs": inputs, "ours": ours, "torch": torch, "wrt": more.get("wrt", list(inputs))}


def convolution(choices: Choices) -> Case:
    """Make a convolution of one to three axes with strides, paddings, dilations and groups."""
    rank, groups = choices.integer(1, 3), choices.pick((1, 1, 2, 3))
    channels, features = groups * choices.integer(1, 3), groups * choices.integer(1, 3)
    kernel = shape(choices, rank, 1, 3)
    dilation, stride, padding = (shape(choices, rank, low, high) for low, high in ((1, 2), (1, 3), (0, 2)))
    sizes = tuple(d * (k - 1) + 1 + choices.integer(0, 5) for k, d in zip(kernel, dilation, strict=True))
    inputs = {
        "X": normal(choices, (choices.integer(1, 2), channels, *sizes)),
        "W": normal(choices, (features, channels // groups, *kernel)),
    }
    biased = choices.integer(0, 1) == 1
    if biased:
        inputs["B"] = normal(choices, (features,))
    arguments = [f"${name}" for name in inputs]
    options = {"stride": list(stride), "padding": list(padding), "dilation": list(dilation), "groups": groups}
    return case(inputs, call("conv", *arguments, **options), call(f"{F}conv{rank}d", *arguments, **options))


def transposed_convolution(choices: Choices) -> Case:
    """Make a transposed convolution."""
    rank, groups = choices.integer(1, 2), choices.pick((1, 1, 2))
    channels, features = groups * choices.integer(1, 3), choices.integer(1, 3)
    kernel, stride, dilation = shape(choices, rank, 1, 4), shape(choices, rank, 1, 3), shape(choices, rank, 1, 2)
    padding = [choices.integer(0, min(2, d * (k - 1))) for k, d in zip(kernel, dilation, strict=True)]
    extra = [choices.integer(0, max(s, d) - 1) for s, d in zip(stride, dilation, strict=True)]
    inputs = {
        "X": normal(choices, (choices.integer(1, 2), channels, *shape(choices, rank, 3, 6))),
        "W": normal(choices, (channels, features, *kernel)),
    }
    options = {
        "stride": list(stride), "padding": padding, "output_padding": extra, "groups": groups,
        "dilation": list(dilation),
    }  # fmt: skip
    return case(
        inputs, call("conv_transpose", "$X", "$W", **options), call(f"{F}conv_transpose{rank}d", "$X", "$W", **options)
    )


def pooling(choices: Choices) -> Case:
    """Make a pooling by maxima or averages, also of windows that are cut at the end."""
    rank = choices.integer(1, 3)
    kernel, stride = shape(choices, rank, 1, 3), shape(choices, rank, 1, 3)
    padding = [choices.integer(0, k // 2) for k in kernel]
    sizes = tuple(k + choices.integer(0, 5) for k in kernel)
    inputs = {"X": normal(choices, (choices.integer(1, 2), choices.integer(1, 3), *sizes))}
    options: dict[str, Any] = {"stride": list(stride), "padding": padding, "ceil_mode": choices.integer(0, 1) == 1}
    if choices.integer(0, 1):
        options["count_include_pad"] = choices.integer(0, 1) == 1
        name, theirs = "average_pool", f"{F}avg_pool{rank}d"
    else:
        name, theirs = "max_pool", f"{F}max_pool{rank}d"
    return case(inputs, call(name, "$X", list(kernel), **options), call(theirs, "$X", list(kernel), **options))


def reduction(choices: Choices) -> Case:
    """Make a reduction over some axes."""
    sizes = shape(choices, choices.integer(1, 4), 1, 9)
    axes = [axis for axis in range(len(sizes)) if choices.integer(0, 1)] or [len(sizes) - 1]
    if choices.integer(0, 1):
        axes = [axis - len(sizes) for axis in axes]
    name, theirs = choices.pick((
        ("sum", "sum"), ("mean", "mean"), ("max", "amax"), ("min", "amin"), ("logsumexp", "logsumexp"), ("var", "var"),
        ("std", "std"), ("norm", "linalg.vector_norm"),
    ))  # fmt: skip
    options: dict[str, Any] = {"keepdims": choices.integer(0, 1) == 1}
    their_options: dict[str, Any] = {"keepdim": options["keepdims"]}
    if name in ("var", "std"):
        options["correction"] = their_options["correction"] = 0
    inputs = {"X": normal(choices, sizes)}
    return case(
        inputs, call(name, "$X", axes, **options), call(theirs, "$X", dim=axes, **their_options),
        wrt=[] if name == "std" and 1 in sizes else ["X"],
    )  # fmt: skip


def running(choices: Choices) -> Case:
    """Make a running sum, product or logarithm of sums, or a softmax."""
    sizes = shape(choices, choices.integer(1, 3), 1, 40)
    axis = choices.integer(-len(sizes), len(sizes) - 1)
    name = choices.pick(("cumsum", "cumprod", "logcumsumexp", "softmax", "log_softmax"))
    inputs = {"X": normal(choices, sizes, "positive" if name == "cumprod" else "normal")}
    return case(inputs, call(name, "$X", axis), call(name, "$X", axis))


def normalisation(choices: Choices) -> Case:
    """Make a normalisation of layers, groups or instances."""
    groups = choices.integer(1, 3)
    sizes = (choices.integer(1, 3), groups * choices.integer(1, 3), *shape(choices, choices.integer(1, 2), 2, 6))
    name = choices.pick(("layer_norm", "group_norm", "instance_norm"))
    inputs = {"X": normal(choices, sizes)}
    weighted = choices.integer(0, 1) == 1
    own = sizes[-1:] if name == "layer_norm" else sizes[1:2]
    if weighted:
        inputs |= {"G": normal(choices, own), "B": normal(choices, own)}
    extra = ["$G", "$B"] if weighted else []
    match name:
        case "layer_norm":
            theirs = call(f"{F}layer_norm", "$X", list(own), *extra)
            return case(inputs, call(name, "$X", *extra), theirs)
        case "group_norm":
            return case(inputs, call(name, "$X", groups, *extra), call(f"{F}group_norm", "$X", groups, *extra))
    return case(inputs, call(name, "$X", *extra), call(f"{F}instance_norm", "$X", None, None, *extra))


def interpolation(choices: Choices) -> Case:
    """Make an interpolation to other sizes."""
    rank = choices.integer(1, 2)
    inputs = {"X": normal(choices, (1, choices.integer(1, 2), *shape(choices, rank, 1, 7)))}
    sizes = list(shape(choices, rank, 1, 12))
    mode = choices.pick(("nearest", "linear", "cubic") if rank == 2 else ("nearest", "linear"))
    options: dict[str, Any] = {} if mode == "nearest" else {"align_corners": choices.integer(0, 1) == 1}
    theirs = {"nearest": "nearest", "linear": "bilinear" if rank == 2 else "linear", "cubic": "bicubic"}[mode]
    return case(
        inputs, call("interpolate", "$X", sizes, mode=mode, **options),
        call(f"{F}interpolate", "$X", sizes, mode=theirs, **options),
    )  # fmt: skip


def padding(choices: Choices) -> Case:
    """Make a padding of the last axes."""
    rank = choices.integer(1, 2)
    sizes = shape(choices, rank, 3, 7)
    pads = [[choices.integer(0, 2), choices.integer(0, 2)] for _ in range(rank)]
    mode, theirs = choices.pick(
        (("constant", "constant"), ("edge", "replicate"), ("reflect", "reflect"), ("wrap", "circular"))
    )
    inputs = {"X": normal(choices, (1, choices.integer(1, 2), *sizes))}
    flat = [amount for pair in reversed(pads) for amount in pair]
    return case(inputs, call("pad", "$X", [[0, 0], [0, 0], *pads], mode=mode), call(f"{F}pad", "$X", flat, mode=theirs))


def activation(choices: Choices) -> Case:
    """Make an activation with its parameters."""
    amount = choices.pick((0.25, 0.5, 1.0, 1.5))  # PyTorch rounds some of these to f32
    variants: tuple[tuple[str, dict[str, Any], str], ...] = (
        ("elu", {"alpha": amount}, "elu"), ("celu", {"alpha": amount}, "celu"), ("selu", {}, "selu"),
        ("mish", {}, "mish"),
        ("leaky_relu", {"negative_slope": amount}, "leaky_relu"), ("gelu", {"approximate": "tanh"}, "gelu"),
        ("gelu", {}, "gelu"), ("silu", {}, "silu"), ("softplus", {"beta": amount}, "softplus"),
        ("log_sigmoid", {}, "logsigmoid"), ("softsign", {}, "softsign"), ("tanh_shrink", {}, "tanhshrink"),
        ("hard_swish", {}, "hardswish"), ("relu6", {}, "relu6"),
    )  # fmt: skip
    name, options, theirs = choices.pick(variants)
    inputs = {"X": normal(choices, shape(choices, choices.integer(0, 3), 0, 20))}
    return case(inputs, call(name, "$X", **options), call(f"{F}{theirs}", "$X", **options))


def loss(choices: Choices) -> Case:
    """Make a loss of two tensors."""
    reduction = choices.pick(("mean", "sum", "none"))
    amount = choices.pick((0.25, 1.0, 2.0))
    variants: tuple[tuple[str, dict[str, Any], str], ...] = (
        ("mse_loss", {}, "mse_loss"), ("l1_loss", {}, "l1_loss"),
        ("smooth_l1_loss", {"beta": amount}, "smooth_l1_loss"),
        ("huber_loss", {"delta": amount}, "huber_loss"), ("poisson_nll_loss", {}, "poisson_nll_loss"),
        ("soft_margin_loss", {}, "soft_margin_loss"),
        ("binary_crossentropy_with_logits", {}, "binary_cross_entropy_with_logits"),
    )  # fmt: skip
    name, more, theirs = choices.pick(variants)
    sizes = shape(choices, choices.integer(1, 3), 1, 9)
    inputs = {"X": normal(choices, sizes), "T": normal(choices, sizes, "positive")}
    options = {"reduction": reduction, **more}
    return case(inputs, call(name, "$X", "$T", **options), call(f"{F}{theirs}", "$X", "$T", **options), wrt=["X"])


def classification(choices: Choices) -> Case:
    """Make a cross entropy with classes, weights of them and smoothing."""
    classes = choices.integer(4, 9)
    sizes = (choices.integer(1, 5), *shape(choices, choices.integer(0, 2), 1, 4))
    inputs = {
        "X": normal(choices, (sizes[0], classes, *sizes[1:])),
        "T": normal(choices, sizes, "positive", DType.I64),
    }
    options: dict[str, Any] = {"reduction": choices.pick(("mean", "sum", "none"))}
    if choices.integer(0, 1):
        inputs["W"] = normal(choices, (classes,), "positive")
        options["weight"] = "$W"
    if choices.integer(0, 1):
        options["label_smoothing"] = choices.pick((0.1, 0.4))
    if choices.integer(0, 1):
        options["ignore_index"] = choices.integer(0, 2)
    return case(
        inputs,
        call("cross_entropy", "$X", "$T", **options),
        call(f"{F}cross_entropy", "$X", "$T", **options),
        wrt=["X"],
    )


def attention(choices: Choices) -> Case:
    """Make an attention over heads, causal or not."""
    batch, heads, queries, keys, depth = shape(choices, 5, 1, 6)
    causal = choices.integer(0, 1) == 1
    keys = queries if causal else keys
    inputs = {
        "Q": normal(choices, (batch, heads, queries, depth)),
        "K": normal(choices, (batch, heads, keys, depth)),
        "V": normal(choices, (batch, heads, keys, depth)),
    }
    scale = choices.pick((None, 0.3))
    name = "scaled_dot_product_attention"
    return case(
        inputs, call(name, "$Q", "$K", "$V", causal=causal, scale=scale),
        call(f"{F}{name}", "$Q", "$K", "$V", is_causal=causal, scale=scale),
    )  # fmt: skip


def product(choices: Choices) -> Case:
    """Make a product of matrices that broadcasts, or an einsum."""
    subscripts = choices.pick((
        "ij,jk->ik", "bij,bjk->bik", "ij,kj->ik", "ij,ij->", "ij->ji", "bhqd,bhkd->bhqk", "ij,j->i", "i,j->ij",
        "ijj->i", "abc,cd,bd->a", "ii->", "ijk,ilm->jklm",
    ))  # fmt: skip
    if choices.integer(0, 3) == 0:
        rows, depth, columns = shape(choices, 3, 1, 20)
        batch = shape(choices, choices.integer(0, 2), 1, 3)
        inputs = {"X": normal(choices, (*batch, rows, depth)), "Y": normal(choices, (*batch[1:], depth, columns))}
        return case(inputs, call("matmul", "$X", "$Y"), call("matmul", "$X", "$Y"))
    operands = subscripts.partition("->")[0].split(",")
    sizes = {letter: choices.integer(1, 6) for letter in sorted(set("".join(operands)))}
    inputs = {name: normal(choices, tuple(sizes[c] for c in axes)) for name, axes in zip("XYZ", operands, strict=False)}
    arguments = [f"${name}" for name in inputs]
    return case(inputs, call("einsum", subscripts, *arguments), call("einsum", subscripts, *arguments))


def movement(choices: Choices) -> Case:
    """Make an operation that moves elements."""
    rank = choices.integer(2, 3)
    sizes = shape(choices, rank, 1, 7)
    axis, amount = choices.integer(0, rank - 1), choices.integer(-3, 3)
    counts = list(shape(choices, rank, 1, 3))
    order = list(range(rank))
    order = [order.pop(choices.integer(0, len(order) - 1)) for _ in range(rank)]
    ours, theirs = choices.pick((
        (call("roll", "$X", amount, axis), call("roll", "$X", amount, axis)),
        (call("flip", "$X", [axis]), call("flip", "$X", [axis])),
        (call("rot90", "$X", amount), call("rot90", "$X", amount)),
        (call("tile", "$X", *counts), call("tile", "$X", counts)),
        (call("repeat", "$X", counts[0], axis), call("repeat_interleave", "$X", counts[0], axis)),
        (call("transpose", "$X", order), call("permute", "$X", order)),
        (call("tril", "$X", offset=amount), call("tril", "$X", amount)),
        (call("triu", "$X", offset=amount), call("triu", "$X", amount)),
        (call("diff", "$X", 1, axis), call("diff", "$X", 1, axis)),
        (call("swapaxes", "$X", 0, axis), call("swapaxes", "$X", 0, axis)),
    ))  # fmt: skip
    return case({"X": normal(choices, sizes)}, ours, theirs)


def order(choices: Choices) -> Case:
    """Make an operation that puts elements in order."""
    sizes = shape(choices, choices.integer(1, 2), 2, 17)
    axis = choices.integer(-len(sizes), len(sizes) - 1)
    descending = choices.integer(0, 1) == 1
    ours, theirs = choices.pick((
        (call("sort", "$X", axis, descending=descending), call("sort", "$X", dim=axis, descending=descending)),
        (call("top_k", "$X", 2, axis), call("topk", "$X", 2, axis)),
        (call("kth_value", "$X", 2, axis), call("kthvalue", "$X", 2, axis)),
        (call("quantile", "$X", 0.3, axis), call("quantile", "$X", 0.3, axis)),
    ))  # fmt: skip
    return case({"X": normal(choices, sizes)}, ours, theirs)


def distance(choices: Choices) -> Case:
    """Make a distance or a similarity."""
    rows, others, depth = shape(choices, 3, 1, 7)
    inputs = {"X": normal(choices, (rows, depth)), "Y": normal(choices, (rows, depth))}
    if choices.integer(0, 1):
        degree = choices.pick((1.0, 2.0, 3.0))
        inputs["Y"] = normal(choices, (others, depth))
        return case(inputs, call("cdist", "$X", "$Y", order=degree), call("cdist", "$X", "$Y", degree))
    theirs = call(f"{F}cosine_similarity", "$X", "$Y", dim=-1)
    return case(inputs, call("cosine_similarity", "$X", "$Y"), theirs, wrt=[] if depth == 1 else ["X", "Y"])


def sampling(choices: Choices) -> Case:
    """Make a grid sample."""
    batch, channels, height, width, rows, columns = shape(choices, 6, 1, 5)
    inputs = {"X": normal(choices, (batch, channels, height, width)), "G": normal(choices, (batch, rows, columns, 2))}
    padding_mode, theirs = choices.pick((("zeros", "zeros"), ("border", "border")))
    corners = choices.integer(0, 1) == 1
    return case(
        inputs, call("grid_sample", "$X", "$G", padding=padding_mode, align_corners=corners),
        call(f"{F}grid_sample", "$X", "$G", padding_mode=theirs, align_corners=corners), wrt=["X"],
    )  # fmt: skip


def adaptive(choices: Choices) -> Case:
    """Make an adaptive pooling."""
    sizes = shape(choices, 2, 1, 9)
    wanted = [choices.integer(1, size) for size in sizes]
    inputs = {"X": normal(choices, (1, choices.integer(1, 2), *sizes))}
    ours, theirs = choices.pick(
        (("adaptive_average_pool", "adaptive_avg_pool2d"), ("adaptive_max_pool", "adaptive_max_pool2d"))
    )
    return case(inputs, call(ours, "$X", wanted), call(f"{F}{theirs}", "$X", wanted))


def gating(choices: Choices) -> Case:
    """Make a gated or weighted activation."""
    channels = choices.integer(1, 4)
    sizes = (choices.integer(1, 4), 2 * channels, choices.integer(1, 5))
    inputs = {"X": normal(choices, sizes)}
    if choices.integer(0, 1):
        return case(inputs, call("glu", "$X", axis=1), call(f"{F}glu", "$X", 1))
    inputs["W"] = normal(choices, (2 * channels,))
    return case(inputs, call("prelu", "$X", "$W"), call(f"{F}prelu", "$X", "$W"))


FAMILIES: Final[tuple[Callable[[Choices], Case], ...]] = (
    activation, adaptive, attention, classification, convolution, distance, gating, interpolation, loss, movement,
    normalisation, order, padding, pooling, product, reduction, running, sampling, transposed_convolution,
)  # fmt: skip
"""All families."""
