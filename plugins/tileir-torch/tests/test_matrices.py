"""Factors of matrices and solutions of equations beside eager execution: values, gradients, and singular matrices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest
import torch

from beside_eager import alike, compiled, tensor

pytestmark = pytest.mark.filterwarnings("ignore")  # PyTorch's own, about what it compiles
WHOLE: Final = {"fullgraph": True, "options": {"fullgraph": True}}


def positive(*shape: int) -> Any:
    x = tensor(*shape)
    return x @ x.mT + torch.eye(shape[-1])


TRIANGLE: Final = tensor(2, 4, 4).tril() + 3 * torch.eye(4)
CASES: Final[dict[str, tuple[Callable[..., Any], tuple[Any, ...]]]] = {
    "det": (torch.linalg.det, (tensor(2, 4, 4),)),
    "det turned": (lambda x: torch.linalg.det(x.mT), (tensor(4, 4),)),
    "det of nothing": (torch.linalg.det, (torch.zeros(3, 0, 0),)),
    "slogdet": (torch.linalg.slogdet, (tensor(3, 5, 5),)),
    "inverse": (lambda x: torch.linalg.inv_ex(x)[0], (tensor(2, 5, 5),)),
    "solve": (lambda a, b: torch.linalg.solve_ex(a, b)[0], (tensor(2, 4, 4), tensor(2, 4, 3, seed=1))),
    "solve vector": (lambda a, b: torch.linalg.solve_ex(a, b)[0], (tensor(4, 4), tensor(4, seed=1))),
    "solve right": (
        lambda a, b: torch.linalg.solve_ex(a, b, left=False)[0],
        (tensor(4, 4), tensor(2, 3, 4, seed=1)),
    ),
    "lu": (torch.linalg.lu, (tensor(2, 5, 3),)),
    "lu of wide": (torch.linalg.lu, (tensor(3, 5),)),
    "lu solve": (
        lambda a, b: torch.linalg.lu_solve(*torch.linalg.lu_factor_ex(a)[:2], b, adjoint=True),
        (tensor(4, 4), tensor(4, 2, seed=1)),
    ),
    "cholesky": (lambda x: torch.linalg.cholesky_ex(x)[0], (positive(2, 5, 5),)),
    "cholesky upper": (lambda x: torch.linalg.cholesky_ex(x, upper=True)[0], (positive(4, 4),)),
    "cholesky solve": (lambda b, x: torch.cholesky_solve(b, x), (tensor(4, 2), TRIANGLE)),
    "cholesky inverse": (lambda x: torch.cholesky_inverse(x.mT, upper=True), (TRIANGLE,)),
    "triangle": (
        lambda a, b: torch.linalg.solve_triangular(a, b, upper=False, left=False),
        (TRIANGLE, tensor(2, 3, 4)),
    ),
    "triangle of ones": (
        lambda a, b: torch.linalg.solve_triangular(a.mT, b, upper=True, unitriangular=True),
        (TRIANGLE, tensor(4, 3)),
    ),
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(name: str) -> None:
    torch._dynamo.reset()
    function, arguments = CASES[name]

    def both(call: Callable[..., Any]) -> list[Any]:
        given = [each.clone().requires_grad_() for each in arguments]
        found = call(*given)
        results = list(found) if isinstance(found, tuple) else [found]
        floats = [each for each in results if each.requires_grad]
        gradients = torch.autograd.grad(sum(each.sin().sum() for each in floats), given)
        return [*(each.detach() for each in results), *gradients]

    alike(both(compiled(function, **WHOLE)), both(function), rtol=2e-4, atol=2e-5)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("function", [torch.linalg.inv_ex, torch.linalg.lu_factor_ex, torch.linalg.cholesky_ex])
def test_the_step_that_fails_is_told(function: Callable[..., Any]) -> None:
    torch._dynamo.reset()
    x = torch.eye(4)
    x[2, 2] = 0
    both = torch.stack([torch.eye(4), x, x[[0, 2, 1, 3]][:, [0, 2, 1, 3]]])
    assert compiled(function, **WHOLE)(both)[-1].tolist() == [0, 3, 2]


def test_singular_matrices_are_errors_as_in_eager() -> None:
    torch._dynamo.reset()
    made = compiled(lambda x: torch.linalg.inv(x) + 1)
    alike(made(tensor(3, 3)), torch.linalg.inv(tensor(3, 3)) + 1, rtol=1e-4, atol=1e-4)
    with pytest.raises(torch.linalg.LinAlgError, match="singular"):
        made(torch.zeros(3, 3))


def test_large_matrices_stay_in_eager() -> None:
    torch._dynamo.reset()
    x = tensor(65, 65)
    alike(compiled(lambda x: torch.linalg.det(x) * 2)(x), torch.linalg.det(x) * 2, rtol=1e-4, atol=1e-4)
    with pytest.raises(Exception, match=r"TIL605.*LAPACK is faster for more than 64"):
        compiled(torch.linalg.det, **WHOLE)(x)
