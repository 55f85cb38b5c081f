"""The operation library: functions over tensors of the Python builder from which networks are composed.

>>> import tileir
>>> f = tileir.FunctionBuilder()
>>> X = f.input("X", "N", "C")
>>> function = f.build(Y=tileir.ops.relu(X, max_value=6))
"""
# ruff: noqa: A004  NumPy's names

from typing import TYPE_CHECKING

from tileir.core.extensions import EXTENSIONS, Kind
from tileir.ops.arithmetic.comparisons import (
    equal,
    greater,
    greater_equal,
    isclose,
    isfinite,
    isinf,
    isnan,
    less,
    less_equal,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    nan_to_num,
    not_equal,
)
from tileir.ops.arithmetic.cumulative import cummax, cummin, cumprod, cumsum, logcumsumexp
from tileir.ops.arithmetic.einstein import einsum
from tileir.ops.arithmetic.elementwise import (
    acosh,
    asinh,
    atan2,
    atanh,
    bit_cast,
    cast,
    clip,
    copysign,
    deg2rad,
    exp2,
    expm1,
    full_like,
    heaviside,
    hypot,
    lerp,
    log1p,
    log2,
    log10,
    logaddexp,
    logit,
    maximum,
    minimum,
    ones_like,
    rad2deg,
    reciprocal,
    scale_gradient,
    sinc,
    square,
    xlogy,
    zeros_like,
)
from tileir.ops.arithmetic.quotients import floor_divide, fmod, frac, gcd, lcm, remainder
from tileir.ops.arithmetic.random import (
    bernoulli,
    categorical,
    dropout,
    exponential,
    gumbel,
    normal,
    permutation,
    randint,
    random_state,
    shuffle,
    split_state,
    truncated_normal,
    uniform,
)
from tileir.ops.arithmetic.reductions import (
    all,
    any,
    argmax,
    argmin,
    count_nonzero,
    hardmax,
    is_max,
    logsumexp,
    max,
    mean,
    min,
    norm,
    prod,
    std,
    sum,
    var,
    variance,
)
from tileir.ops.arrays.counting import compress, nonzero, unique
from tileir.ops.arrays.indexing import embedding, gather_nd, interpolated_take, reverse_sequence, take, take_along_axis
from tileir.ops.arrays.joining import concatenate, split, stack, unstack
from tileir.ops.arrays.padding import fold, image_patches, pad
from tileir.ops.arrays.scattering import scatter, scatter_along_axis, scatter_nd, update_cache
from tileir.ops.arrays.selection import (
    arange,
    bucketize,
    full,
    index,
    linspace,
    masked_fill,
    one_hot,
    ones,
    searchsorted,
    where,
    zeros,
)
from tileir.ops.arrays.shaping import (
    broadcast_to,
    expand_dims,
    flatten,
    moveaxis,
    permute,
    repeat,
    reshape,
    squeeze,
    swapaxes,
    tile,
    transpose,
    unsqueeze,
)
from tileir.ops.arrays.slicing import diff, flip, narrow, roll, rot90, select, slice
from tileir.ops.arrays.sorting import argsort, kth_value, median, quantile, ranks, sort, top_k
from tileir.ops.images.detection import iou, nms, non_max_suppression
from tileir.ops.images.image import crop, depth_to_space, reorg_yolo, space_to_depth
from tileir.ops.images.interpolation import interpolate, upsample
from tileir.ops.images.regions import deform_conv, roi_align, roi_pool
from tileir.ops.images.resizing import resize
from tileir.ops.images.sampling import affine_grid, grid_sample
from tileir.ops.networks.activations import (
    celu,
    elu,
    gelu,
    glu,
    hard_shrink,
    hard_sigmoid,
    hard_swish,
    hard_tanh,
    leaky_relu,
    log_sigmoid,
    mish,
    prelu,
    relu,
    relu6,
    selu,
    sigmoid,
    silu,
    soft_shrink,
    softplus,
    softsign,
    tanh_shrink,
    threshold,
)
from tileir.ops.networks.attention import (
    attention,
    log_softmax,
    multi_head_attention,
    rotary_embedding,
    scaled_dot_product_attention,
    softmax,
)
from tileir.ops.networks.convolution import conv, conv_transpose, conv_weight_gradient, depthwise_conv, separable_conv
from tileir.ops.networks.initialisers import glorot_normal, glorot_uniform, he_normal, he_uniform
from tileir.ops.networks.linear import (
    cdist,
    cross,
    diag,
    diagonal,
    dot,
    eye,
    gemm,
    inner,
    kron,
    linear,
    matmul,
    outer,
    tensordot,
    trace,
    tril,
    triu,
)
from tileir.ops.networks.losses import (
    binary_crossentropy,
    binary_crossentropy_with_logits,
    cosine_embedding_loss,
    cosine_similarity,
    cross_entropy,
    gaussian_nll_loss,
    hinge_embedding_loss,
    hinge_loss,
    huber_loss,
    kl_divergence,
    l1_loss,
    margin_ranking_loss,
    mse_loss,
    nll_loss,
    poisson_nll_loss,
    smooth_l1_loss,
    soft_margin_loss,
    triplet_margin_loss,
)
from tileir.ops.networks.normalisation import (
    batch_norm,
    batch_norm_inference,
    group_norm,
    instance_norm,
    l2_normalise,
    layer_norm,
    local_response_norm,
    mean_variance_norm,
    rms_norm,
    weight_standardisation,
)
from tileir.ops.networks.optimisers import (
    adagrad,
    adam,
    adamw,
    clip_by_global_norm,
    clip_by_norm,
    clip_by_value,
    lamb,
    lars,
    momentum,
    rmsprop,
    sgd,
)
from tileir.ops.networks.pooling import (
    adaptive_average_pool,
    adaptive_max_pool,
    average_pool,
    global_average_pool,
    global_max_pool,
    lp_pool,
    max_pool,
    max_unpool,
    min_pool,
    sum_pool,
)
from tileir.ops.networks.quantisation import (
    conv_integer,
    dequantize_linear,
    dynamic_quantize_linear,
    matmul_integer,
    quantize_linear,
    requantize_linear,
)
from tileir.ops.networks.recurrent import RecurrentWeights, gru, gru_cell, lstm, lstm_cell, rnn, rnn_cell
from tileir.ops.networks.schedules import (
    cosine_decay,
    exponential_decay,
    inverse_sqrt_decay,
    inverse_time_decay,
    linear_warmup,
    polynomial_decay,
    step_decay,
)
from tileir.ops.networks.sequences import causal_conv, linear_attention
from tileir.ops.shared.alignment import ctc_loss
from tileir.ops.shared.arguments import checked
from tileir.ops.shared.installed import operation_called
from tileir.ops.signals.spectra import cosine_window, dft, mel_weight_matrix, stft
from tileir.ops.special.bessel import (
    bessel_i0,
    bessel_i0e,
    bessel_i1,
    bessel_i1e,
    bessel_j0,
    bessel_j1,
    bessel_k0,
    bessel_k0e,
    bessel_k1,
    bessel_k1e,
    bessel_y0,
    bessel_y1,
    spherical_bessel_j0,
)
from tileir.ops.special.errors import erfc, erfcx, erfinv, log_ndtr, ndtri
from tileir.ops.special.gamma import digamma, lgamma, polygamma, zeta
from tileir.ops.special.polynomials import (
    chebyshev_polynomial_t,
    chebyshev_polynomial_u,
    chebyshev_polynomial_v,
    chebyshev_polynomial_w,
    hermite_polynomial_h,
    hermite_polynomial_he,
    laguerre_polynomial_l,
    legendre_polynomial_p,
)
from tileir.tile.builder_functions import (
    abs,
    acos,
    asin,
    atan,
    ceil,
    cos,
    cosh,
    erf,
    exp,
    floor,
    log,
    pow,
    round,
    rsqrt,
    sign,
    sin,
    sinh,
    sqrt,
    tan,
    tanh,
    trunc,
)

__all__ = [
    "RecurrentWeights", "abs", "acos", "acosh", "adagrad", "adam", "adamw", "adaptive_average_pool",
    "adaptive_max_pool", "affine_grid", "all", "any", "arange", "argmax", "argmin", "argsort", "asin", "asinh", "atan",
    "atan2", "atanh", "attention", "average_pool", "batch_norm", "batch_norm_inference", "bernoulli", "bessel_i0",
    "bessel_i0e", "bessel_i1", "bessel_i1e", "bessel_j0", "bessel_j1", "bessel_k0", "bessel_k0e", "bessel_k1",
    "bessel_k1e", "bessel_y0", "bessel_y1", "binary_crossentropy", "binary_crossentropy_with_logits", "bit_cast",
    "broadcast_to", "bucketize", "cast", "categorical", "causal_conv", "cdist", "ceil", "celu",
    "chebyshev_polynomial_t", "chebyshev_polynomial_u", "chebyshev_polynomial_v", "chebyshev_polynomial_w", "clip",
    "clip_by_global_norm", "clip_by_norm", "clip_by_value", "compress", "concatenate", "conv", "conv_integer",
    "conv_transpose", "conv_weight_gradient", "copysign", "cos", "cosh", "cosine_decay", "cosine_embedding_loss",
    "cosine_similarity", "cosine_window", "count_nonzero", "crop", "cross", "cross_entropy", "ctc_loss", "cummax",
    "cummin", "cumprod", "cumsum", "deform_conv", "deg2rad", "depth_to_space", "depthwise_conv", "dequantize_linear",
    "dft", "diag", "diagonal", "diff", "digamma", "dot", "dropout", "dynamic_quantize_linear", "einsum", "elu",
    "embedding", "equal", "erf", "erfc", "erfcx", "erfinv", "exp", "exp2", "expand_dims", "expm1", "exponential",
    "exponential_decay", "eye", "flatten", "flip", "floor", "floor_divide", "fmod", "fold", "frac", "full", "full_like",
    "gather_nd", "gaussian_nll_loss", "gcd", "gelu", "gemm", "global_average_pool", "global_max_pool", "glorot_normal",
    "glorot_uniform", "glu", "greater", "greater_equal", "grid_sample", "group_norm", "gru", "gru_cell", "gumbel",
    "hard_shrink", "hard_sigmoid", "hard_swish", "hard_tanh", "hardmax", "he_normal", "he_uniform", "heaviside",
    "hermite_polynomial_h", "hermite_polynomial_he", "hinge_embedding_loss", "hinge_loss", "huber_loss", "hypot",
    "image_patches", "index", "inner", "instance_norm", "interpolate", "interpolated_take", "inverse_sqrt_decay",
    "inverse_time_decay", "iou", "is_max", "isclose", "isfinite", "isinf", "isnan", "kl_divergence", "kron",
    "kth_value", "l1_loss", "l2_normalise", "laguerre_polynomial_l", "lamb", "lars", "layer_norm", "lcm", "leaky_relu",
    "legendre_polynomial_p", "lerp", "less", "less_equal", "lgamma", "linear", "linear_attention", "linear_warmup",
    "linspace", "local_response_norm", "log", "log1p", "log2", "log10", "log_ndtr", "log_sigmoid", "log_softmax",
    "logaddexp", "logcumsumexp", "logical_and", "logical_not", "logical_or", "logical_xor", "logit", "logsumexp",
    "lp_pool", "lstm", "lstm_cell", "margin_ranking_loss", "masked_fill", "matmul", "matmul_integer", "max", "max_pool",
    "max_unpool", "maximum", "mean", "mean_variance_norm", "median", "mel_weight_matrix", "min", "min_pool", "minimum",
    "mish", "momentum", "moveaxis", "mse_loss", "multi_head_attention", "nan_to_num", "narrow", "ndtri", "nll_loss",
    "nms", "non_max_suppression", "nonzero", "norm", "normal", "not_equal", "one_hot", "ones", "ones_like", "outer",
    "pad", "permutation", "permute", "poisson_nll_loss", "polygamma", "polynomial_decay", "pow", "prelu", "prod",
    "quantile", "quantize_linear", "rad2deg", "randint", "random_state", "ranks", "reciprocal", "relu", "relu6",
    "remainder", "reorg_yolo", "repeat", "requantize_linear", "reshape", "resize", "reverse_sequence", "rms_norm",
    "rmsprop", "rnn", "rnn_cell", "roi_align", "roi_pool", "roll", "rot90", "rotary_embedding", "round", "rsqrt",
    "scale_gradient", "scaled_dot_product_attention", "scatter", "scatter_along_axis", "scatter_nd", "searchsorted",
    "select", "selu", "separable_conv", "sgd", "shuffle", "sigmoid", "sign", "silu", "sin", "sinc", "sinh", "slice",
    "smooth_l1_loss", "soft_margin_loss", "soft_shrink", "softmax", "softplus", "softsign", "sort", "space_to_depth",
    "spherical_bessel_j0", "split", "split_state", "sqrt", "square", "squeeze", "stack", "std", "step_decay", "stft",
    "sum", "sum_pool", "swapaxes", "take", "take_along_axis", "tan", "tanh", "tanh_shrink", "tensordot", "threshold",
    "tile", "top_k", "trace", "transpose", "tril", "triplet_margin_loss", "triu", "trunc", "truncated_normal",
    "uniform", "unique", "unsqueeze", "unstack", "update_cache", "upsample", "var", "variance",
    "weight_standardisation", "where", "xlogy", "zeros", "zeros_like", "zeta",
]  # fmt: skip

# The border of the library: arguments are checked where an operation is called by its public name.
for _name in __all__:
    if _name != "RecurrentWeights":
        globals()[_name] = checked(_name, globals()[_name])


def __dir__() -> list[str]:
    return sorted({*__all__, *EXTENSIONS.names(Kind.OPERATION), *(name for name in globals() if name.startswith("__"))})


if not TYPE_CHECKING:  # otherwise every unknown name would have a type

    def __getattr__(name: str) -> object:
        """Return an operation of another distribution; Python calls this for names that tileir does not define."""
        return operation_called(name, __all__)
