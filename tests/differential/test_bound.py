"""Random Tile functions with some of their inputs bound: constants mean what the same arguments mean."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

import tileir
from strategies import means
from strategies.differentiable import places
from strategies.effort import examples
from strategies.families import FAMILIES, written
from strategies.opencl_device import device as opencl_device
from strategies.tile import Case, assert_equal, cases
from tileir.core.json.codec import content_hash, from_json, to_json
from tileir.driver.binding import bind
from tileir.tile.ir import Function
from tileir.tile.text.parser import parse
from tileir.tile.text.printer import to_text
from tileir.tile.traversal import arrays

targets = st.sampled_from(sorted(means.TARGETS))


@st.composite
def bound(draw: st.DrawFn, case: Case) -> Case:
    """Return the case with some of its inputs as constants."""
    names = draw(st.lists(st.sampled_from(sorted(case.inputs)), unique=True)) if case.inputs else []
    function = bind(case.function, {name: case.inputs[name] for name in names})
    left = {name: array for name, array in case.inputs.items() if name not in names}
    return Case(function, left, to_text(function), case.tolerance)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("passes", means.PASSES)
@given(data=st.data(), target=targets)
@examples(60)
def test_bound_functions_compute_what_unbound_ones_do(data: st.DataObject, target: str, passes: str) -> None:
    whole = data.draw(cases(special=True, empty=True))
    expected = whole.expected()
    case = data.draw(bound(whole))
    results = dict(zip([output.name for output in case.function.outputs], expected.values(), strict=True))
    compiled = means.stages(case.function, case.inputs, target, passes)
    named = dict(zip(compiled.typed.outputs, results.values(), strict=True))
    assert_equal(case.expected(), dict(zip(case.typed().outputs, results.values(), strict=True)))
    assert_equal(means.on_device(compiled, case.inputs), named)
    assert_equal(means.by_kernel_interpreter(compiled, case.inputs), named)
    assert_equal(means.by_stripe_interpreter(compiled, case.inputs, scheduled=True), named)
    assert_equal(means.by_stripe_interpreter(compiled, case.inputs, scheduled=False), named)


@given(data=st.data())
@examples(30)
def test_bound_functions_mean_the_same_through_opencl(data: st.DataObject) -> None:
    whole = data.draw(cases(special=True, empty=True))
    case = data.draw(bound(whole))
    executable = tileir.compile(case.function, case.types, device=opencl_device())
    results = executable(**case.inputs)
    actual = results if isinstance(results, tuple) else (results,)
    assert_equal(dict(zip(whole.expected(), actual, strict=True)), whole.expected())


@pytest.mark.sampled(6)
@pytest.mark.parametrize("family", FAMILIES)
@given(data=st.data(), target=targets)
@examples(12)
def test_bound_families(family: str, data: st.DataObject, target: str) -> None:
    whole = data.draw(written(family))
    case = Case(parse(whole.text), whole.arrays(), whole.text)
    expected = case.expected().values()
    fixed = data.draw(bound(case))
    compiled = means.stages(fixed.function, fixed.inputs, target, "cpu")
    actual = means.on_device(compiled, fixed.inputs)
    assert_equal(actual, dict(zip(actual, expected, strict=True)))


@given(data=st.data())
@examples(100)
def test_bound_functions_read_back(data: st.DataObject) -> None:
    case = data.draw(bound(data.draw(cases(special=True, empty=True))))
    function = case.function
    assert parse(to_text(function), arrays=arrays(function)) == function
    again = from_json(to_json(function), Function)
    assert again == function
    assert hash(again) == hash(function)
    assert content_hash(again) == content_hash(function)


@given(data=st.data())
@examples(40)
def test_derivatives_by_what_is_left(data: st.DataObject) -> None:
    """Constants are no other than arguments by which nobody differentiates, also where the gradient is written out."""
    place = data.draw(places())
    inputs = place.case.inputs
    rest = sorted(inputs.keys() - set(place.wrt))
    names = data.draw(st.lists(st.sampled_from(rest), unique=True)) if rest else []
    function = bind(place.case.function, {name: inputs[name] for name in names})
    left = {name: array for name, array in inputs.items() if name not in names}
    expected = tileir.evaluate(tileir.gradient(place.case.function, place.wrt, place.of, ties="even"), inputs)
    for made in (
        tileir.gradient(function, place.wrt, place.of, ties="even"),
        tileir.gradient(function, place.wrt, place.of, arguments=left, ties="even"),
        bind(
            tileir.gradient(place.case.function, place.wrt, place.of, ties="even"),
            {name: inputs[name] for name in names},
        ),
    ):
        results = tileir.evaluate(made, left)
        pairs = zip(
            results if isinstance(results, tuple) else (results,),
            expected if isinstance(expected, tuple) else (expected,),
            strict=True,
        )
        for actual, wanted in pairs:
            np.testing.assert_allclose(actual, wanted, rtol=1e-6, atol=1e-9)


def test_sums_over_a_reshaped_constant() -> None:
    text = "function (A[]) -> (R) { B = reshape(A, 1); R[ : ] = +(A[] * B[i]); }"
    bound = tileir.bind(tileir.parse(text), {"A": np.array(3, np.int64)})
    assert tileir.compile(bound)() == tileir.evaluate(bound) == 9
