"""Behaviours of ``torch.compile`` that a back end must not change, each beside eager execution."""

from __future__ import annotations

import copy
import dataclasses
import functools
import gc
import io
from collections import OrderedDict, namedtuple
from collections.abc import Callable
from typing import Any, Final

import pytest
import torch
from torch import nn

import tileir_torch
from beside_eager import alike, compiled, same, tensor

pytestmark = pytest.mark.filterwarnings("ignore")  # PyTorch's own, about what it compiles

BEHAVIOURS: Final[dict[str, Callable[[], None]]] = {}
Point = namedtuple("Point", "x y")
SCALE = 3.0


@dataclasses.dataclass
class Pair:
    first: Any
    second: Any


def behaviour(function: Callable[[], None]) -> Callable[[], None]:
    BEHAVIOURS[function.__name__] = function
    return function


def graphs() -> int:
    return int(torch._dynamo.utils.counters["stats"]["unique_graphs"])


@behaviour
def a_graph_breaks_at_a_print() -> None:
    def function(x: Any) -> Any:
        y = x * 2
        print("here")  # noqa: T201
        return y + 1

    same(function, tensor(3))
    assert graphs() == 2


@behaviour
def branches_depend_on_elements() -> None:
    def function(x: Any) -> Any:
        return x * 2 if x.sum() > 0 else x - 1

    made = same(function, tensor(3).abs())
    alike(made(-tensor(3).abs()), -tensor(3).abs() - 1)


@behaviour
def other_sizes_recompile() -> None:
    made = compiled(lambda x: x.sin() + 1, dynamic=False)
    for n in (3, 4, 5):
        alike(made(tensor(n)), tensor(n).sin() + 1)
    assert graphs() == 3


@behaviour
def other_dtypes_recompile() -> None:
    made = compiled(lambda x: x * 2)
    for dtype in (torch.float32, torch.float64, torch.int64, torch.bool):
        x = tensor(4).to(dtype)
        alike(made(x), x * 2)


@behaviour
def one_graph_of_symbols_serves_sizes() -> None:
    made = compiled(lambda x: (x * 2).sum(0), dynamic=True)
    for n in (3, 5, 8):
        alike(made(tensor(n, 4)), (tensor(n, 4) * 2).sum(0))
    assert graphs() == 1


@behaviour
def sizes_become_dynamic_by_themselves() -> None:
    made = compiled(lambda x: x.softmax(-1))
    for n in (3, 5, 8, 9, 11):
        alike(made(tensor(n, n)), tensor(n, n).softmax(-1))
    assert graphs() == 2


@behaviour
def a_marked_axis_is_dynamic() -> None:
    made = compiled(lambda x: x @ x.T)
    for n in (4, 6):
        x = tensor(n, 3)
        torch._dynamo.mark_dynamic(x, 0)
        alike(made(x), x @ x.T)
    assert graphs() == 1


@behaviour
def sizes_are_arithmetic_of_symbols() -> None:
    made = compiled(lambda x: x.view(x.shape[0] * x.shape[1], 2).sum(1) + x.shape[0], dynamic=True)
    for n in (3, 5):
        alike(made(tensor(n, 4, 2)), tensor(n, 4, 2).view(n * 4, 2).sum(1) + n)


@behaviour
def numbers_are_arguments() -> None:
    made = compiled(lambda x, k: x * k + k)
    for k in (2, 3, 2.5, True):
        alike(made(tensor(3), k), tensor(3) * k + k)


@behaviour
def keywords_defaults_and_variadic_arguments() -> None:
    def function(x: Any, *others: Any, scale: float = 2.0, **named: Any) -> Any:
        return x * scale + sum(others) + sum(named.values())

    made = compiled(function)
    given = (tensor(3), tensor(3, seed=1))
    alike(made(*given, scale=0.5, z=tensor(3, seed=2)), function(*given, scale=0.5, z=tensor(3, seed=2)))


@behaviour
def containers_go_in_and_out() -> None:
    def function(data: dict[str, Any], pair: list[Any]) -> dict[str, Any]:
        return {"sum": data["a"] + pair[0], "pair": (pair[1] * 2, [data["b"]]), "none": None, "number": 3}

    found = compiled(function)({"a": tensor(2), "b": tensor(3)}, [tensor(2, seed=1), tensor(2)])
    wanted = function({"a": tensor(2), "b": tensor(3)}, [tensor(2, seed=1), tensor(2)])
    assert found["none"] is None
    assert found["number"] == 3
    alike((found["sum"], *found["pair"]), (wanted["sum"], *wanted["pair"]))


@behaviour
def named_tuples_and_data_classes() -> None:
    found = compiled(lambda p: Point(p.y * 2, p.x))(Point(tensor(2), tensor(3)))
    assert isinstance(found, Point)
    alike(found.x, tensor(3) * 2)
    pair = compiled(lambda p: Pair(p.second + 1, p.first))(Pair(tensor(2), tensor(3)))
    alike(pair.first, tensor(3) + 1)


@behaviour
def an_argument_is_a_result() -> None:
    x = tensor(3)
    first, second = compiled(lambda x: (x, x + 1))(x)
    assert first is x
    alike(second, x + 1)


@behaviour
def nothing_is_computed() -> None:
    assert compiled(lambda _: 5)(tensor(3)) == 5
    assert compiled(lambda: torch.ones(2) * 3)().tolist() == [3.0, 3.0]


@behaviour
def results_are_constants_or_repeated() -> None:
    same(lambda x: (torch.arange(3), y := x + 1, y), tensor(2))


@behaviour
def globals_and_closures_are_watched() -> None:
    factor = 2.0

    def function(x: Any) -> Any:
        return x * factor * SCALE

    made = same(function, tensor(3))
    factor = 5.0
    alike(made(tensor(3)), tensor(3) * 15.0)


@behaviour
def parameters_are_always_current() -> None:
    model = nn.Linear(3, 2)
    made, x = compiled(model), tensor(4, 3)
    alike(made(x), model(x))
    with torch.no_grad():
        model.weight.mul_(2)
    alike(made(x), model(x))
    model.load_state_dict({"weight": torch.ones(2, 3), "bias": torch.zeros(2)})
    alike(made(x), x.sum(1, keepdim=True).expand(4, 2))
    model.weight = nn.Parameter(torch.zeros(2, 3))
    alike(made(x), torch.zeros(4, 2))


@behaviour
def tied_weights_get_one_gradient() -> None:
    def built() -> Any:
        torch.manual_seed(1)
        model = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 3))
        model[2].weight = model[0].weight
        return model

    model, other = built(), built()
    compiled(model)(tensor(2, 3)).sum().backward()
    other(tensor(2, 3)).sum().backward()
    alike(model[0].weight.grad, other[0].weight.grad)


@behaviour
def training_and_evaluation_differ() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    other, made = copy.deepcopy(model), compiled(model)
    alike(made(tensor(5, 3)), other(tensor(5, 3)))
    alike(model[1].running_var, other[1].running_var)
    assert int(model[1].num_batches_tracked) == 1
    model.eval(), other.eval()
    alike(made(tensor(5, 3)), other(tensor(5, 3)))


@behaviour
def buffers_are_updated() -> None:
    class Counting(nn.Module):  # type: ignore[misc]  # types are checked without PyTorch
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("total", torch.zeros(3))

        def forward(self, x: Any) -> Any:
            self.total += x
            return self.total * 2

    model = Counting()
    made = compiled(model)
    for n in (1, 2, 3):
        alike(made(torch.ones(3)), torch.full((3,), 2.0 * n))
    alike(model.total, torch.full((3,), 3.0))


@behaviour
def dropout_is_drawn_by_the_generator() -> None:
    made = compiled(nn.Dropout(0.5))
    torch.manual_seed(3)
    first, second = made(torch.ones(1000)), made(torch.ones(1000))
    torch.manual_seed(3)
    assert torch.equal(made(torch.ones(1000)), first)
    assert not torch.equal(first, second)
    assert 400 < int((first == 2).sum()) < 600
    assert int((first == 0).sum() + (first == 2).sum()) == 1000


@behaviour
def gradients_accumulate() -> None:
    model = nn.Linear(3, 2)
    made, x = compiled(model), tensor(4, 3)
    for _ in range(2):
        made(x).square().sum().backward()
    wanted = torch.autograd.grad(model(x).square().sum(), model.weight)[0] * 2
    alike(model.weight.grad, wanted)


@behaviour
def gradients_by_arguments() -> None:
    def function(x: Any, y: Any) -> Any:
        return (x.sin() * y).sum() + (x @ y.T).exp().mean()

    x, y = tensor(3, 3, grad=True), tensor(3, 3, seed=1, grad=True)
    alike(torch.autograd.grad(compiled(function)(x, y), (x, y)), torch.autograd.grad(function(x, y), (x, y)))


@behaviour
def gradients_of_some_arguments() -> None:
    made = compiled(lambda x, y: (x * y, x.detach() + 1, (y > 0)))
    x, y = tensor(3, grad=True), tensor(3, seed=1)
    product, detached, mask = made(x, y)
    assert (product.requires_grad, detached.requires_grad, mask.requires_grad) == (True, False, False)
    product.sum().backward()
    alike(x.grad, y)


@behaviour
def no_gradients_are_recorded() -> None:
    made, x = compiled(lambda x: x * 2), tensor(3, grad=True)
    with torch.no_grad():
        assert not made(x).requires_grad
    assert made(x).requires_grad
    with torch.inference_mode():
        assert made(x).is_inference()


@behaviour
def modes_change_inside() -> None:
    def function(x: Any) -> Any:
        with torch.no_grad():
            y = x * 2
        with torch.enable_grad():
            return y + x.sin()

    x = tensor(3, grad=True)
    compiled(function)(x).sum().backward()
    alike(x.grad, x.detach().cos())


@behaviour
def autocast_inside_and_outside() -> None:
    model, x = nn.Linear(8, 8), tensor(4, 8)

    def function(x: Any) -> Any:
        with torch.autocast("cpu", torch.bfloat16):
            return model(x)

    found = compiled(function)(x)
    assert found.dtype is torch.bfloat16
    alike(found.float(), model(x), rtol=0.05, atol=0.05)
    with torch.autocast("cpu", torch.bfloat16):
        assert compiled(model)(x).dtype is torch.bfloat16


@behaviour
def hooks_of_modules_run() -> None:
    calls: list[str] = []
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU())

    def after(_: Any, __: Any, result: Any) -> Any:
        calls.append("after")
        return result * 2

    model[0].register_forward_hook(after)
    model[1].register_forward_pre_hook(lambda _, __: calls.append("before"))
    made, x = compiled(model), tensor(2, 3)
    alike(made(x), model(x))
    assert calls == ["after", "before"] * 2


@behaviour
def hooks_of_gradients_run() -> None:
    model = nn.Linear(3, 3)
    seen: list[Any] = []

    def doubled(gradient: Any) -> Any:
        seen.append(gradient.clone())
        return gradient * 2

    model.weight.register_hook(doubled)
    compiled(model)(tensor(2, 3)).sum().backward()
    assert len(seen) == 1
    alike(model.weight.grad, seen[0] * 2)


@behaviour
def hooks_of_results_run() -> None:
    seen: list[Any] = []
    x = tensor(3, grad=True)
    found = compiled(lambda x: x * 3)(x)
    found.register_hook(lambda gradient: seen.append(gradient))
    found.sum().backward()
    assert len(seen) == 1
    alike(x.grad, torch.full((3,), 3.0))


@behaviour
def integers_wrap_around() -> None:
    x = torch.tensor([250, 3], dtype=torch.uint8)
    same(lambda x: (x + 300, x * -1, x - 5), x)


@behaviour
def one_mask_of_dropout_serves_both_directions() -> None:
    made = compiled(lambda x: nn.functional.dropout(x, 0.25).sum())
    x = torch.ones(1000, requires_grad=True)
    found = made(x)
    found.backward()
    assert 650 < int((x.grad > 0).sum()) < 850
    alike(found, x.grad.sum())
    alike(compiled(nn.Dropout(0.0))(x), x)
    assert not compiled(nn.Dropout(1.0))(x).any()
    alike(compiled(nn.Dropout(0.5).eval())(x), x)


@behaviour
def errors_of_compiling_leave_a_graph_to_eager_execution() -> None:
    import tileir

    def failing(*_: Any, **__: Any) -> Any:
        raise tileir.TileError.of("TIL605", "told for a test")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tileir, "compile", failing)
        made = compiled(lambda x: x * 2 + 1)
        with pytest.warns(tileir_torch.EagerWarning, match="told for a test"):
            alike(made(tensor(3)), tensor(3) * 2 + 1)
        alike(made(tensor(3)), tensor(3) * 2 + 1)
        given, made = tensor(5), compiled(lambda x: x * 4 + 1)
        memory = given.untyped_storage()._weak_ref()
        with pytest.warns(tileir_torch.EagerWarning):
            made(given)
        del given
        gc.collect()
        assert torch.UntypedStorage._expired(memory)
        torch.UntypedStorage._free_weak_ref(memory)
        with pytest.raises(tileir.TileError, match="told for a test"):
            compiled(lambda x: x * 3 + 1, options={"fullgraph": True})(tensor(3))


@behaviour
def complex_numbers_stay_in_eager_execution() -> None:
    same(lambda x: torch.fft.rfft(x * 2).abs() + 1, tensor(8))
    same(lambda x: x * 2j, torch.complex(tensor(3), tensor(3)))


@behaviour
def sparse_tensors_stay_in_eager_execution() -> None:
    made = compiled(lambda a, x: torch.sparse.mm(a, x) + 1)
    a = tensor(3, 3).relu().to_sparse()
    alike(made(a, tensor(3, 2)), torch.sparse.mm(a, tensor(3, 2)) + 1)


@behaviour
def sizes_that_elements_decide() -> None:
    same(lambda x: (x * 2).nonzero() + 1, tensor(5))
    same(lambda x: x[x > 0] * 2, tensor(5))


@behaviour
def items_are_taken() -> None:
    same(lambda x: x * (x * 2).sum().item(), tensor(3))
    same(lambda x: torch.tensor((x * 2).tolist()) + 1, tensor(3))


@behaviour
def numpy_inside() -> None:
    def function(x: Any) -> Any:
        import numpy as np

        return torch.from_numpy(np.sin((x * 2).numpy())) + 1

    same(function, tensor(3))


@behaviour
def functions_of_autograd() -> None:
    class Doubling(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx: Any, arriving: Any) -> Any:
            return arriving * ctx.saved_tensors[0] * 10

    x = tensor(3, grad=True)
    compiled(lambda x: Doubling.apply(x) + 1)(x).sum().backward()
    alike(x.grad, x.detach() * 10)


@behaviour
def transforms_of_functions() -> None:
    def loss(w: Any, x: Any) -> Any:
        return (x @ w).tanh().sum()

    same(lambda w, x: torch.func.grad(loss)(w, x), tensor(3), tensor(2, 3))
    same(lambda w, x: torch.func.vmap(loss, (None, 0))(w, x), tensor(3), tensor(4, 2, 3))
    same(lambda w, x: torch.func.jvp(lambda w: loss(w, x), (w,), (w,)), tensor(3), tensor(2, 3))


@behaviour
def activations_are_computed_again() -> None:
    from torch.utils.checkpoint import checkpoint

    model = nn.Sequential(nn.Linear(3, 3), nn.Tanh())
    x = tensor(2, 3, grad=True)
    found = compiled(lambda x: checkpoint(model, x, use_reentrant=False).sum())(x)
    alike(torch.autograd.grad(found, x), torch.autograd.grad(model(x).sum(), x))


@behaviour
def errors_are_those_of_eager_execution() -> None:
    made = compiled(lambda x, y: x @ y)
    alike(made(tensor(2, 3), tensor(3, 2)), tensor(2, 3) @ tensor(3, 2))
    with pytest.raises(Exception, match=r"shape|size|mat1"):
        made(tensor(2, 3), tensor(2, 3))
    alike(made(tensor(2, 3), tensor(3, 2)), tensor(2, 3) @ tensor(3, 2))


@behaviour
def exceptions_of_users_go_through() -> None:
    def function(x: Any, bad: bool) -> Any:
        y = x * 2
        if bad:
            raise KeyError("mine")
        return y

    made = compiled(function)
    with pytest.raises(KeyError, match="mine"):
        made(tensor(3), True)
    alike(made(tensor(3), False), tensor(3) * 2)


@behaviour
def a_part_is_not_compiled() -> None:
    def outside(x: Any) -> Any:
        assert not torch.compiler.is_compiling()
        return x + 1

    left_out = torch.compiler.disable(outside)
    same(lambda x: left_out(x * 2) * 3, tensor(3))


@behaviour
def code_knows_that_it_is_compiled() -> None:
    assert compiled(lambda x: x + 1 if torch.compiler.is_compiling() else x)(torch.zeros(1)).item() == 1


@behaviour
def compiling_can_be_turned_off() -> None:
    made = compiled(lambda x: x * 2)
    with torch.compiler.set_stance("force_eager"):
        alike(made(tensor(3)), tensor(3) * 2)
    assert graphs() == 0


@behaviour
def methods_and_partial_functions() -> None:
    class Scaled:
        factor = 3.0

        def by(self, x: Any) -> Any:
            return x * self.factor

    alike(compiled(Scaled().by)(tensor(3)), tensor(3) * 3)
    alike(compiled(functools.partial(torch.add, alpha=2))(tensor(3), tensor(3)), tensor(3) * 3)


@behaviour
def loops_and_comprehensions() -> None:
    def function(x: Any) -> Any:
        parts = [x[at] * at for at in range(3)]
        for part in parts[1:]:
            parts[0] = parts[0] + part
        return torch.stack(parts)

    same(function, tensor(3, 2))


@behaviour
def a_compiled_module_calls_another() -> None:
    inner = compiled(nn.Linear(3, 3))
    made = compiled(lambda x: inner(x).relu())
    alike(made(tensor(2, 3)), inner(tensor(2, 3)).relu())


@behaviour
def a_module_compiles_in_place() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    wanted = model(tensor(2, 3))
    model.compile(backend=tileir_torch.backend)
    alike(model(tensor(2, 3)), wanted)


@behaviour
def a_compiled_module_is_copied() -> None:
    made = compiled(nn.Linear(3, 2))
    made(tensor(2, 3))
    other = copy.deepcopy(made)
    with torch.no_grad():
        other.weight.zero_()
    alike(other(tensor(2, 3)), other.bias.expand(2, 2))
    assert made.weight.any()


@behaviour
def the_state_of_a_compiled_module_is_saved() -> None:
    made, file = compiled(nn.Linear(3, 2)), io.BytesIO()
    wanted = made(tensor(2, 3))
    torch.save(made.state_dict(), file)
    file.seek(0)
    other = compiled(nn.Linear(3, 2))
    other.load_state_dict(torch.load(file))
    alike(other(tensor(2, 3)), wanted)


@behaviour
def a_compiled_module_is_saved_whole() -> None:
    made, file = compiled(nn.Linear(3, 2)), io.BytesIO()
    wanted = made(tensor(2, 3))
    torch.save(made, file)
    file.seek(0)
    alike(torch.load(file, weights_only=False)(tensor(2, 3)), wanted)


@behaviour
def parameters_in_lists_and_dictionaries() -> None:
    class Listed(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(3, 3) for _ in range(2))
            self.scales = nn.ParameterDict(OrderedDict(a=nn.Parameter(torch.ones(3)), b=nn.Parameter(torch.ones(3))))

        def forward(self, x: Any) -> Any:
            for layer, scale in zip(self.layers, self.scales.values(), strict=True):
                x = layer(x) * scale
            return x

    model = Listed()
    alike(compiled(model)(tensor(2, 3)), model(tensor(2, 3)))


@behaviour
def frozen_parameters_get_no_gradient() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 1))
    model[0].requires_grad_(False)
    compiled(model)(tensor(2, 3)).sum().backward()
    assert model[0].weight.grad is None
    assert model[1].weight.grad is not None


@behaviour
def cond_chooses_a_branch() -> None:
    made = compiled(lambda x: torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,)))
    alike(made(torch.ones(3)), torch.full((3,), 2.0))
    alike(made(-torch.ones(3)), torch.full((3,), -2.0))


@behaviour
def custom_operations_are_called() -> None:
    double = tileir_torch.op("tileirtests::double", "function (X) -> (Y) { Y = X * 2; }")
    x = tensor(3, grad=True)
    found = compiled(lambda x: double(x.sin()) + 1)(x)
    alike(found, x.sin() * 2 + 1)
    alike(torch.autograd.grad(found.sum(), x)[0], x.detach().cos() * 2)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", BEHAVIOURS)
def test_behaviours(name: str) -> None:
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    torch.manual_seed(0)
    BEHAVIOURS[name]()
