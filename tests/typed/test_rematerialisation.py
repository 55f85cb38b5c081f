"""Values computed again are the same to the bit, as many as the rule says, just before they are read."""

from __future__ import annotations

from collections import Counter

import attrs
import numpy as np
import pytest

from tileir.core.dtype import DType
from tileir.core.ops import Op
from tileir.tile.text.parser import parse
from tileir.typed.dataflow import last_uses, order
from tileir.typed.inference.inference import infer
from tileir.typed.interpreter import interpret
from tileir.typed.ir import Checkpoint, Elementwise, Function, Gather, Marker, Recall, Reshape, TensorType, Value
from tileir.typed.simplify.preparation import prepared, rematerialised
from tileir.typed.verifier import verify

F = DType.F64


def typed(text: str, **shapes: tuple[int, ...]) -> Function:
    function = infer(parse(text), {name: TensorType(F, shape) for name, shape in shapes.items()})
    verify(function)
    return function


def chain(layers: int, every: int = 0, *, loss: str = "X{}") -> str:
    """Return tanh again and again, with a checkpoint after each layer whose number ``every`` divides."""
    lines = []
    for layer in range(1, layers + 1):
        value = f"tanh(X{layer - 1} * W)"
        lines.append(f"X{layer} = {f'checkpoint({value})' if every and layer % every == 0 else value};")
    return f"function (X0, W) -> (D) {{ {' '.join(lines)} D = gradient({loss.format(layers)}, W); }}"


def count(function: Function, op: Op = Op.TANH) -> int:
    return sum(isinstance(operation, Elementwise) and operation.op is op for operation in function.operations)


def results(function: Function) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(5)
    return interpret(function, {value.name: generator.uniform(-1, 1, value.shape) for value in function.inputs})


@pytest.mark.parametrize(("layers", "every"), [(7, 1), (7, 2), (7, 3), (7, 7), (9, 3), (12, 5), (40, 6)])
def test_gradients_with_and_without_checkpoints_are_equal_to_the_bit(layers: int, every: int) -> None:
    plain, marked = typed(chain(layers), X0=(3,), W=(3,)), typed(chain(layers, every), X0=(3,), W=(3,))
    expected = results(prepared(plain))["D"]
    for function in (marked, prepared(marked)):
        verify(function)
        assert np.array_equal(results(function)["D"], expected)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("layers", "every"), [(7, 1), (7, 2), (7, 3), (7, 7), (9, 3), (12, 5), (40, 6), (2000, 50)])
def test_what_comes_before_the_last_checkpoint_is_computed_twice_but_for_checkpoints(layers: int, every: int) -> None:
    function = prepared(typed(chain(layers, every), X0=(3,), W=(3,)))
    last = (layers - 1) // every  # one after the last layer marks nothing that is read
    assert count(function) == layers + last * every - last
    assert count(prepared(typed(chain(layers), X0=(3,), W=(3,)))) == layers


def test_each_segment_is_computed_just_before_it_is_read() -> None:
    function = prepared(typed(chain(6, 3, loss="tanh(X{})"), X0=(3,), W=(3,)))
    names = [o.name for o in function.operations if isinstance(o, Elementwise) and o.op is Op.TANH]
    copies = [name for name in names if name.count("_") == 1 and name[:2] in ("X1", "X2", "X4", "X5")]
    assert [name[:2] for name in copies] == ["X4", "X5", "X1", "X2"]
    starts, ends = order(function), last_uses(function)
    assert ends["X5"] < starts[copies[0]]
    assert ends[copies[0]] < starts[copies[2]], "the values of one segment are gone before the next one begins"


def test_a_function_without_recalls_stays_as_it_is() -> None:
    function = typed("function (A) -> (O) { O = checkpoint(exp(A)); }", A=(3,))
    assert rematerialised(function) is function


def test_inputs_outputs_and_constants_are_kept() -> None:
    text = """function (X, W) -> (A, D) {
      A = exp(X * W);
      B = sin(A * 2);
      C = checkpoint(cos(B));
      D = gradient(C * C, W);
    }"""
    function = prepared(typed(text, X=(3,), W=(3,)))
    counts = Counter(o.op for o in function.operations if isinstance(o, Elementwise))
    assert counts[Op.EXP] == 1
    assert counts[Op.COS] == 2, "the derivative of sine is a cosine, which is not computed again"


def test_views_of_what_is_kept_are_kept() -> None:
    text = """function (X, W) -> (D) {
      A = exp(X * W);
      B = checkpoint(reshape(A, 3, 2));
      D = gradient(B * B, W);
    }"""
    assert count(prepared(typed(text, X=(6,), W=(6,))), Op.EXP) == 1


def test_gradients_of_two_results_compute_again_for_themselves() -> None:
    text = """function (X, W) -> (D, E) {
      A = tanh(X * W);
      B = checkpoint(tanh(A * W));
      D = gradient(B * B, W);
      E = gradient(exp(B), W);
    }"""
    assert count(prepared(typed(text, X=(3,), W=(3,)))) == 4


def test_indices_and_stopped_values_are_computed_again_too() -> None:
    text = """function (X, T) -> (D) {
      I = as_i32(T * 2.0);
      S = stop_gradient(exp(X));
      R = gather(S * X, I);
      C = checkpoint(R * R);
      D = gradient(C * C, X);
    }"""
    function = typed(text, X=(5,), T=(4,))
    after = prepared(function)
    verify(after)
    assert not any(isinstance(operation, Marker) for operation in after.operations)
    assert sum(isinstance(operation, Gather) for operation in after.operations) == 2
    assert count(after, Op.EXP) == 2
    plain = prepared(typed(text.replace("checkpoint(R * R)", "R * R"), X=(5,), T=(4,)))
    np.testing.assert_array_equal(results(after)["D"], results(plain)["D"])


def test_second_derivatives_through_checkpoints() -> None:
    text = """function (X) -> (H) {
      A = sin(X * X);
      B = checkpoint(exp(A * X));
      D = gradient(tanh(B), X);
      H = gradient(D * D, X);
    }"""
    after, plain = (typed(t, X=(4,)) for t in (text, text.replace("checkpoint", "")))
    for function in (after, prepared(after)):
        verify(function)
        np.testing.assert_allclose(results(function)["H"], results(plain)["H"], rtol=1e-12)


def test_a_recall_that_is_a_result_stays_one() -> None:
    value = Value("A", F, (2, 3))
    operations = (
        Elementwise("B", Op.EXP, ("A",), F, (2, 3)),
        Checkpoint("C", "B", F, (2, 3)),
        Reshape("R", "C", F, (6,)),
        Elementwise("S", Op.SIN, ("R",), F, (6,)),
        Recall("Q", "S", 0, F, (6,)),
        Recall("P", "S", 0, F, (6,)),
    )
    function = Function((value,), ("Q", "P"), operations)
    verify(function)
    after = prepared(function)
    verify(after)
    assert after.outputs == ("Q", "P")
    assert np.array_equal(results(after)["P"], results(function)["Q"])
    assert count(after, Op.SIN) == 1, "one backward pass computes a value once, and the old one is not read"


def test_sweeps_do_not_share() -> None:
    value = Value("A", F, (3,))
    operations = (
        Elementwise("B", Op.EXP, ("A",), F, (3,)),
        Recall("P", "B", 0, F, (3,)),
        Recall("Q", "B", 1, F, (3,)),
        Elementwise("O", Op.ADD, ("P", "Q"), F, (3,)),
    )
    function = Function((value,), ("O",), operations)
    assert count(prepared(function), Op.EXP) == 2
    same = attrs.evolve(function, operations=(*operations[:2], Recall("Q", "B", 0, F, (3,)), operations[3]))
    assert count(prepared(same), Op.EXP) == 1
