"""Upstreams are free until the override that they belong to binds them."""

from __future__ import annotations

from tileir.core.dtype import DType
from tileir.tile.text.parser import parse
from tileir.typed.inference.inference import infer
from tileir.typed.ir import TensorType
from tileir.typed.templates import free_upstreams


def free(text: str) -> dict[str, set[str]]:
    function = infer(parse(text), {"A": TensorType(DType.F32, (3,))})
    names = {operation.name for operation in function.operations if operation.name.isalpha()}
    return {name: set(found) for name, found in free_upstreams(function.operations).items() if name in names}


def test_an_override_binds_its_upstream() -> None:
    text = "function (A) -> (O) { B = exp(A); U = upstream(B); G = U * B; O = override_gradient(B, A, G) + 1; }"
    assert free(text) == {"U": {"U"}, "G": {"U"}}


def test_templates_nest() -> None:
    text = """function (A) -> (O) {
      B = exp(A);
      U = upstream(B);
      C = sin(U);
      V = upstream(C);
      G = U + V;
      D = override_gradient(C, U, G);
      O = override_gradient(B, A, D);
    }"""
    assert free(text) == {"U": {"U"}, "C": {"U"}, "V": {"V"}, "G": {"U", "V"}, "D": {"U"}}
