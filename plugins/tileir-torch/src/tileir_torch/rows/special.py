"""Special functions: gamma and error functions, Bessel functions, orthogonal polynomials."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from tileir import ops
from tileir.tile.builder import Tensor
from tileir_torch.importing import Call
from tileir_torch.rows.arguments import wide
from tileir_torch.rows.table import row

_UNARY: Final[Mapping[str, Callable[..., Tensor]]] = MappingProxyType(
    {
        "digamma": ops.digamma,
        "erfinv": ops.erfinv,
        "i0": ops.bessel_i0,
        "lgamma": ops.lgamma,
        "special_bessel_j0": ops.bessel_j0,
        "special_bessel_j1": ops.bessel_j1,
        "special_bessel_y0": ops.bessel_y0,
        "special_bessel_y1": ops.bessel_y1,
        "special_erfcx": ops.erfcx,
        "special_i0e": ops.bessel_i0e,
        "special_i1": ops.bessel_i1,
        "special_i1e": ops.bessel_i1e,
        "special_log_ndtr": ops.log_ndtr,
        "special_modified_bessel_i0": ops.bessel_i0,
        "special_modified_bessel_i1": ops.bessel_i1,
        "special_modified_bessel_k0": ops.bessel_k0,
        "special_modified_bessel_k1": ops.bessel_k1,
        "special_ndtri": ops.ndtri,
        "special_scaled_modified_bessel_k0": ops.bessel_k0e,
        "special_scaled_modified_bessel_k1": ops.bessel_k1e,
        "special_spherical_bessel_j0": ops.spherical_bessel_j0,
    }
)
"""Functions of one tensor computed in the dtype of the result."""


def _mapped(function: Callable[..., Tensor], call: Call, x: Any) -> Tensor:
    return function(call.operand(x, wide(call.dtype)))


for _name, _function in _UNARY.items():
    row(f"{_name}.default")(partial(_mapped, _function))


@row("polygamma.default", "special_polygamma.default")
def polygamma(call: Call, n: int, x: Any) -> Tensor:
    return ops.polygamma(n, call.operand(x, wide(call.dtype)))


@row("special_zeta.default", "special_zeta.self_scalar", "special_zeta.other_scalar")
def zeta(call: Call, s: Any, q: Any) -> Tensor:
    s, q = (call.operand(each, wide(call.dtype)) for each in (s, q))
    return ops.zeta(s, q)


def _polynomial(function: Callable[..., Tensor], is_shifted: bool, call: Call, x: Any, n: Any) -> Tensor:
    x, n = (call.operand(each, wide(call.dtype)) for each in (x, n))
    return function(2 * x - 1 if is_shifted else x, n)


_POLYNOMIALS: Final = (
    *(f"chebyshev_polynomial_{letter}" for letter in "tuvw"),
    *("hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l", "legendre_polynomial_p"),
)
"""Polynomials of a tensor and a degree; those of Chebyshev also have shifted variants, for x from 0 to 1."""

for _name in _POLYNOMIALS:
    for _prefix in ("", "shifted_") if _name.startswith("chebyshev") else ("",):
        _overloads = (f"special_{_prefix}{_name}.{_which}" for _which in ("default", "x_scalar", "n_scalar"))
        row(*_overloads)(partial(_polynomial, getattr(ops, _name), bool(_prefix)))
