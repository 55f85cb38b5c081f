"""JSON of nodes: round trips, canonical bytes, and what is wrong with bad JSON."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from fractions import Fraction
from typing import Any

import attrs
import pytest
from hypothesis import given, strategies as st

from strategies.effort import examples
from strategies.semtree import KernelCase, kernel_cases
from strategies.stripe import programs
from strategies.tile import Case, cases
from strategies.tile_text import functions
from tileir.core.dtype import DType
from tileir.core.errors import TileError
from tileir.core.json.codec import content_hash, from_json, quick_json, to_json
from tileir.core.json.decoder import MAX_DEPTH
from tileir.core.ops import Aggregation, Combination, Op
from tileir.core.text.span import Source, Span
from tileir.poly.affine import Affine
from tileir.semtree import ir as sem
from tileir.stripe import ir as stripe
from tileir.tile import ir as tile
from tileir.typed import ir as typed

SPAN = Span(Source("text"), 0, 1)
F32 = sem.Type(DType.F32)

TILE = tile.Function(
    inputs=(tile.Input("A", (tile.Name("N"),), span=SPAN), tile.Input("B")),
    outputs=(tile.Output("C"),),
    statements=(
        tile.Assignment(
            "C",
            tile.Binary(tile.BinaryOperator.ADD, tile.Name("A"), tile.FloatLiteral(math.inf)),
            (tile.Attribute("pid", ("label",)),),
            span=SPAN,
        ),
        tile.Contraction(
            "D",
            (tile.IndexName("i"),),
            (tile.Name("N"),),
            Aggregation.MAX,
            Combination.NONE,
            (tile.Access("A", (tile.IntLiteral(1 << 70),)),),
            default=tile.Name("A"),
        ),
    ),
)
TYPED = typed.Function(
    inputs=(typed.Value("A", DType.BF16, (3, 4)),),
    outputs=("B",),
    operations=(
        typed.Constant("c", DType.F64, -0.0, span=SPAN),
        typed.Contraction(
            "B",
            (Affine.of({"i": Fraction(1, 2), "j": -3}, Fraction(-7, 3)),),
            (typed.Access("A", (Affine.index("i"), Affine.index("j"))),),
            Aggregation.SUM,
            Combination.NONE,
            DType.BF16,
            DType.F32,
            DType.BF16,
            (5,),
        ),
    ),
)
STRIPE = stripe.Program(
    memory=(
        stripe.Refinement("A", stripe.Direction.NONE, "", (Affine(),), stripe.TensorShape.dense(DType.I8, (4,))),
        stripe.Refinement("C", stripe.Direction.NONE, "", (Affine(),), stripe.TensorShape.dense(DType.BOOL, (1,))),
    ),
    kernels=(
        stripe.Kernel(
            (stripe.Parameter("A", stripe.TensorShape.dense(DType.I8, (4,)), (stripe.Device("CPU"),), 0),),
            stripe.Block(
                indices=(stripe.Index("i", 4, Affine.index("j")),),
                statements=(
                    stripe.Constant(
                        "x", DType.U64, (1 << 64) - 1, stripe.Tags.of("a", b=1, c=1.0, d="1", e=True, f=-math.inf)
                    ),
                ),
                refinements=(
                    stripe.Refinement(
                        "A",
                        stripe.Direction.INOUT,
                        "A",
                        (Affine.index("i"),),
                        stripe.TensorShape.dense(DType.I8, (4,)),
                        location=(stripe.Device("CPU", (Affine.constant(1),)),),
                        cache_unit=Affine(),
                    ),
                ),
            ),
        ),
    ),
    works=(
        stripe.Launch(0, ("A",), "first", ("A = …",)),
        stripe.Loop(3, (stripe.Launch(0, ("A",)),), (stripe.Carry("A", "A"),), deps=(0,)),
        stripe.Loop(stripe.While("C"), (stripe.Branch("C", (), (stripe.Launch(0, ("A",)),)),)),
    ),
    inputs=("A",),
    outputs=(),
    buffers=(stripe.Buffer("K", b"\x00\xff"),),
    name="program",
    tags=stripe.Tags.of(total_macs=3),
)
KERNEL = sem.KernelFunction(
    "kernel",
    (sem.Param("A", DType.F32, 8, sem.ParamAccess.READ_WRITE),),
    (
        sem.For(
            sem.Var("i", sem.Type(DType.I64)),
            sem.Const(0, sem.Type(DType.I64)),
            sem.Const(8, sem.Type(DType.I64)),
            1,
            (
                sem.Assign(
                    sem.Subscript("A", sem.Var("i", sem.Type(DType.I64)), F32),
                    sem.Apply(Op.EXP, (sem.Const(math.nan, F32),)),
                ),
                sem.Barrier(),
            ),
        ),
    ),
)
SEM = sem.Program((KERNEL,), (sem.Buffer("A", DType.F32, (8,), sem.BufferRole.INPUT),), (sem.Launch(0, ("A",)),))
NODES: list[attrs.AttrsInstance] = [TILE, TYPED, STRIPE, KERNEL, SEM]


def fault(data: bytes | str, cls: type = stripe.Program) -> tuple[str, str]:
    with pytest.raises(TileError) as caught:
        from_json(data, cls)
    (diagnostic,) = caught.value.diagnostics
    return diagnostic.code, diagnostic.message


@pytest.mark.parametrize("node", NODES, ids=lambda node: type(node).__module__)
def test_from_json_undoes_to_json(node: attrs.AttrsInstance) -> None:
    data = to_json(node)
    back = from_json(data, type(node))
    assert repr(back) == repr(node)
    assert to_json(back) == data
    assert to_json(from_json(data.decode(), type(node))) == data
    assert to_json(from_json(quick_json(node), type(node))) == data


def test_nodes_compare_equal_after_a_round_trip() -> None:
    for node in (TILE, TYPED, STRIPE):
        assert from_json(to_json(node), type(node)) == node


@given(programs())
@examples(30)
def test_stripe_programs_survive(program: stripe.Program) -> None:
    assert from_json(to_json(program), stripe.Program) == program


@given(functions())
@examples(30)
def test_tile_functions_survive(function: tile.Function) -> None:
    assert from_json(to_json(function), tile.Function) == function


@given(cases(special=True, functions=True))
@examples(30)
def test_typed_functions_survive(case: Case) -> None:
    assert from_json(to_json(case.typed()), typed.Function) == case.typed()


@given(kernel_cases())
@examples(30)
def test_kernels_survive(case: KernelCase) -> None:
    data = to_json(case.kernel)
    assert to_json(from_json(data, sem.KernelFunction)) == data


TAG_VALUES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec="utf-8"))


@given(st.dictionaries(st.text(st.characters(codec="utf-8")), TAG_VALUES))
def test_scalars_survive(values: dict[str, stripe.TagValue]) -> None:
    tags = stripe.Tags(tuple(sorted(values.items())))
    assert repr(from_json(to_json(tags), stripe.Tags)) == repr(tags)


@given(st.fractions(), st.fractions())
def test_fractions_survive(coefficient: Fraction, offset: Fraction) -> None:
    affine = Affine.of({"i": coefficient}, offset)
    assert repr(from_json(to_json(affine), Affine)) == repr(affine)


def test_the_form_is_canonical() -> None:
    assert to_json(sem.Launch(3, ("A",))) == (
        b'{"format":"tileir.semtree.Launch","node":{"$":"Launch","arguments":["A"],"kernel":3},"version":1}'
    )


def test_spans_are_left_out() -> None:
    assert b"span" not in to_json(TILE)
    assert content_hash(tile.Name("A", span=SPAN)) == content_hash(tile.Name("A"))


def test_the_hash_tells_values_apart() -> None:
    zeros = [sem.Const(zero, F32) for zero in (0, 0.0, -0.0, False)]
    assert len({content_hash(zero) for zero in zeros}) == 4


def test_the_hash_is_that_of_every_process() -> None:
    script = (
        "from tileir.core.json.codec import content_hash; from tileir.semtree.ir import Program;"
        "print(content_hash(Program((), (), ())))"
    )
    for seed in ("0", "2026"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        out = subprocess.run(
            [sys.executable, "-c", script], env=environment, capture_output=True, check=True, text=True
        )
        assert out.stdout.strip() == content_hash(sem.Program((), (), ()))


@pytest.mark.parametrize("node", NODES, ids=lambda node: type(node).__module__)
def test_every_truncation_is_reported(node: attrs.AttrsInstance) -> None:
    data = to_json(node)
    for length in range(len(data)):
        assert fault(data[:length], type(node))[0] == "TIL601"


@pytest.mark.parametrize(
    "data", [b"", b"\xff", b'{"\xc3": 1}', "[NaN]", "\ud800", "{'a': 1}", b"[" * 100_000, "[" * 100_000]
)
def test_what_is_not_json(data: bytes | str) -> None:
    assert fault(data)[0] == "TIL601"


def envelope(node: object, kind: str = "tileir.semtree.Const") -> str:
    return json.dumps({"format": kind, "version": 1, "node": node})


GOOD_TYPE = {"$": "Type", "dtype": "f32", "lanes": 1}


@pytest.mark.parametrize(
    ("node", "place"),
    [
        ([], "$.node"),
        ({}, "$.node"),
        (None, "$.node"),
        ({"$": "Var", "value": 1, "type": GOOD_TYPE}, "$.node"),
        ({"$": ["Const"], "value": 1, "type": GOOD_TYPE}, "$.node"),
        ({"$": "Const", "type": GOOD_TYPE}, "$.node"),
        ({"$": "Const", "value": 1, "type": GOOD_TYPE, "extra": 1}, "$.node"),
        ({"$": "Const", "valve": 1, "type": GOOD_TYPE}, "$.node"),
        ({"$": "Const", "value": "1", "type": GOOD_TYPE}, "$.node.value"),
        ({"$": "Const", "value": None, "type": GOOD_TYPE}, "$.node.value"),
        ({"$": "Const", "value": [], "type": GOOD_TYPE}, "$.node.value"),
        ({"$": "Const", "value": {"$": "float", "value": "1.0"}, "type": GOOD_TYPE}, "$.node.value"),
        ({"$": "Const", "value": {"$": "float"}, "type": GOOD_TYPE}, "$.node.value"),
        ({"$": "Const", "value": {"$": "int", "value": "12"}, "type": GOOD_TYPE}, "$.node.value"),
        ({"$": "Const", "value": 1, "type": {**GOOD_TYPE, "dtype": "f33"}}, "$.node.type.dtype"),
        ({"$": "Const", "value": 1, "type": {**GOOD_TYPE, "dtype": 3}}, "$.node.type.dtype"),
        ({"$": "Const", "value": 1, "type": {**GOOD_TYPE, "lanes": True}}, "$.node.type.lanes"),
        ({"$": "Const", "value": 1, "type": {**GOOD_TYPE, "lanes": 1.0}}, "$.node.type.lanes"),
        ({"$": "Const", "value": 1, "type": {**GOOD_TYPE, "lanes": 10**30}}, "$.node.type.lanes"),
    ],
)
def test_wrong_shapes_say_where(node: object, place: str) -> None:
    code, message = fault(envelope(node), sem.Const)
    assert code == "TIL602"
    assert message.startswith(f"{place}: ")


@pytest.mark.parametrize(
    "document",
    [
        [],
        {},
        {"format": "tileir.semtree.Const", "version": 2, "node": {}},
        {"format": "tileir.semtree.Const", "version": True, "node": {}},
        {"format": "tileir.semtree.Var", "version": 1, "node": {}},
        {"format": 1, "version": 1, "node": {}},
        {"format": "tileir.semtree.Const", "version": 1, "node": {}, "more": 1},
    ],
)
def test_wrong_envelopes(document: object) -> None:
    code, message = fault(json.dumps(document), sem.Const)
    assert code == "TIL602"
    assert message.startswith("$: ")


def test_places_count_array_items() -> None:
    document = json.loads(to_json(STRIPE))
    document["node"]["kernels"][0]["block"]["indices"][0]["affine"]["terms"][0][1] = "2/4"
    code, message = fault(json.dumps(document))
    assert code == "TIL602"
    assert message.startswith("$.node.kernels[0].block.indices[0].affine.terms[0][1]: expected a fraction")
    document["node"]["kernels"][0]["block"]["indices"][0]["affine"]["terms"][0] = ["i"]
    assert "terms[0]: expected an array of 2" in fault(json.dumps(document))[1]


def test_huge_fractions_are_refused_calmly() -> None:
    node = {"$": "Affine", "terms": [], "offset": "1/" + "3" * 5000}
    assert fault(envelope(node, "tileir.poly.affine.Affine"), Affine)[0] == "TIL602"


def nested(depth: int) -> sem.Apply:
    expression = sem.Apply(Op.NEG, (sem.Var("x", F32),))
    for _ in range(depth - 1):
        expression = sem.Apply(Op.NEG, (expression,))
    return expression


def test_depth_is_bounded_both_ways() -> None:
    deep = nested(200)
    data = to_json(deep)
    assert to_json(from_json(data, sem.Apply)) == data
    assert from_json(quick_json(deep), sem.Apply) == deep
    for written in (to_json, quick_json):
        with pytest.raises(TileError) as caught:
            written(nested(100_000))
        assert [d.code for d in caught.value.diagnostics] == ["TIL602"]
    code, message = fault(b"[" * (MAX_DEPTH + 2) + b"]" * (MAX_DEPTH + 2))
    assert code == "TIL602"
    assert "nested" in message


JUNK: list[object] = [None, True, 0, -1, 1.5, "", "x", [], [[]], {}, {"$": "Affine"}, {"$": 1}, 10**30, "1/2"]


@given(st.data())
@examples(200)
def test_mutations_never_crash(data: st.DataObject) -> None:
    """Replace one value somewhere: what comes back is a node or a diagnostic."""
    node: attrs.AttrsInstance = data.draw(st.sampled_from(NODES))
    document: object = json.loads(to_json(node))
    parent = document
    while isinstance(parent, (dict, list)):
        keys: list[Any] = sorted(parent) if isinstance(parent, dict) else list(range(len(parent)))
        key = data.draw(st.sampled_from(keys))
        if not parent[key] or not isinstance(parent[key], (dict, list)) or data.draw(st.integers(0, 5)) == 0:
            parent[key] = data.draw(st.sampled_from(JUNK))
            break
        parent = parent[key]
    assert codes(json.dumps(document), type(node)) in ((), ("TIL602",))


def codes(data: str, cls: type) -> tuple[str, ...]:
    try:
        from_json(data, cls)
    except TileError as error:
        return tuple(diagnostic.code for diagnostic in error.diagnostics)
    return ()
