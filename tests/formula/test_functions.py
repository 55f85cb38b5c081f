"""Descriptions of functions: what is read, and that whatever is wrong is told with its place."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

from tileir.core.errors import TileError
from tileir_formula.definitions.catalogue import catalogue_of, own_functions
from tileir_formula.definitions.function_file import read_functions
from tileir_formula.definitions.functions import Function
from tileir_formula.definitions.parameters import NumberParameter
from tileir_formula.ir import Argument, Boundary, Number, Weights, Word

POINT = "function (Image[H, W, C], Level) -> (R) { R = Image * Level; }\n"
SHARPEN = """\
/// sharpen: takes a blurred copy away,
/// once or more.
/// amount = 0.5 from 0 to 4 step 0.25: how much
/// size = 3 from 1 to 9 step 2: of the window
/// mode = light among light, dark: which edges
/// strict = no: whether 0 stays
/// tint = #ff8000
/// weights = [1 2; 3 4] up to 7
/// Half = size // 2
/// boundary = wrap
/// source: nobody
function (Image[H, W, C], Amount, Size, Mode, Strict, Tint[T], Weights[M, N], Half) -> (Result) {
    Padded = border(Image, Half, Half);
    Sum[y, x, c : H, W, C] = +(Padded[y + i, x + j, c]), i < Size, j < Size;
    Result = Image - Sum * Amount;
}
"""

TEXT_OF_A_PLUGIN = f"/// halve: halves\n/// level = 0.5 from 0 to 1 step 0.5\n{POINT}"


def test_a_description_says_what_controls_need() -> None:
    (sharpen,) = read_functions(SHARPEN)
    assert (sharpen.name, sharpen.about) == ("sharpen", "takes a blurred copy away, once or more.")
    assert (sharpen.source, sharpen.boundary) == ("nobody", Boundary.WRAP)
    assert [each.name for each in sharpen.parameters] == ["amount", "size", "mode", "strict", "tint", "weights"]
    assert (sharpen.pictures, sharpen.has_window, sharpen.is_pointwise) == (("Image",), True, False)
    operands = sharpen.operands((Argument("size", Number(7)), Argument("mode", Word("dark"))))
    assert {name: operands[name] for name in ("amount", "size", "mode", "strict", "Half")} == {
        "amount": 0.5, "size": 7, "mode": 1, "strict": 0, "Half": 3
    }  # fmt: skip
    assert isinstance(operands["size"], int)


def test_numbers_have_neighbours() -> None:
    amount = NumberParameter("amount", Number(0.5), 0, 4, 0.25)
    assert amount.neighbours(0.5) == (0.25, 0.75)
    assert amount.neighbours(0.3) == (0.25, 0.5)
    assert amount.neighbours(4) == (3.75, 4)
    assert amount.neighbours(0) == (0, 0.25)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("amount", Number(5), "from 0.0 to 4.0; it was 5"),
        ("amount", Word("much"), "is a number"),
        ("size", Number(2.5), "whole number"),
        ("mode", Word("ligt"), "did you mean light"),
        ("strict", Word("true"), "yes or no"),
        ("tint", Number(3), "a colour like"),
        ("weights", Weights(((1.0,) * 8,)), "has 1 by 8"),
        ("weights", Weights(((1e200,),)), "too large"),
    ],
)
def test_values_out_of_bounds(name: str, value: Number | Word | Weights, message: str) -> None:
    (sharpen,) = read_functions(SHARPEN)
    (fault,) = sharpen.faults((Argument(name, value),))
    assert fault.code == "TIL224"
    assert message in fault.message


@pytest.mark.parametrize(
    ("before", "after", "code", "message", "place"),
    [
        ("/// sharpen: takes", "/// takes", "TIL226", "begins with a line", "takes a blurred copy away,"),
        ("boundary = wrap", "boundary = warp", "TIL226", "did you mean wrap", "boundary = warp"),
        ("from 0 to 4", "from 4 to 0", "TIL226", "write `name =", "amount = 0.5 from 4 to 0 step 0.25: how much"),
        ("size = 3 from", "size = 13 from", "TIL226", "the default of size is from", None),
        ("among light, dark", "among dark, darker", "TIL226", "the default of mode is one of", None),
        ("Half = size // 2", "Half = sizes // 2", "TIL226", "derived from 'sizes'", None),
        ("Half = size // 2", "Half = 1 // (size - 1)", "TIL226", "has no value where", None),
        ("Half = size // 2", "Half = size //", "TIL226", "write an expression", "Half = size //"),
        ("Amount, Size", "Amounts, Size", "TIL226", "no input 'Amount'", None),
        ("Tint[T]", "Tint[T, U]", "TIL226", "has 1 axes", "Tint[T, U]"),
        ("Image[H, W, C]", "Image", "TIL226", "names its axes", "Image"),
        ("Image - Sum", "Image - Sun", "TIL201", "'Sun' is not defined", "Sun"),
        ("border(Image", "border(Image + 1", "TIL226", "write border(Picture", "border(Image + 1, Half, Half)"),
        ("border(Image, Half", "border(Image, 1, 1, 1, 1, 1, 1, 1, 1, Half", "TIL226", "write border(Picture", None),
        ("= border(", "= 2.0 * border(", "TIL226", "in a statement of its own", "border(Image, Half, Half)"),
        ("= border(", "= border(border(Image, 1), ", "TIL226", "in a statement of its own", "border(Image, 1)"),
        ("border(Image, Half, Half)", "ranked(Image, Size, Half / 2, 50)", "TIL217", "a parameter by its name", None),
        ("border(Image, Half, Half)", "ranked(Image, 4, Size, 50)", "TIL217", "odd; not 4", None),
        ("border(Image, Half, Half)", "ranked(Image, 1, Size, 101)", "TIL217", "not 101", None),
        ("border(Image, Half, Half)", "pick(Image, Tint, 2)", "TIL217", "not 2", None),
        ("Result = ", "Result + ", "TIL102", "expected", "+"),
        ("/// weights", "/// size = 1 from 0 to 2 step 1\n/// weights", "TIL226", "described twice", None),
    ],
)
def test_faults_have_a_place(before: str, after: str, code: str, message: str, place: str | None) -> None:
    assert SHARPEN.count(before) == 1
    with pytest.raises(TileError) as caught:
        read_functions(SHARPEN.replace(before, after))
    faults = [fault for fault in caught.value.diagnostics if fault.code == code and message in fault.message]
    assert faults, caught.value
    assert all(fault.span is not None for fault in caught.value.diagnostics)
    if place is not None:
        assert faults[0].underlined == place


def test_files_of_nothing_and_of_equal_names() -> None:
    for text in ("", POINT, "x\n" + SHARPEN):
        with pytest.raises(TileError, match="begins with a line"):
            read_functions(text)
    with pytest.raises(TileError, match="described twice"):
        read_functions(SHARPEN + SHARPEN)
    with pytest.raises(TileError, match="at most"):
        read_functions(" " * 1_000_001)


def test_own_functions_say_what_they_do() -> None:
    for name, function in own_functions().items():
        assert function.name == name
        assert function.about.endswith(".")
        assert all(parameter.about for parameter in function.parameters), name


def entry(name: str, value: str) -> EntryPoint:
    return EntryPoint(name, f"{__name__.rpartition('.')[2]}:{value}", "tileir.formulas")


def test_plugins_add_functions_and_hide_none(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    offers = {
        "halve": TEXT_OF_A_PLUGIN,
        "again": [Function("gaussian", read_functions(TEXT_OF_A_PLUGIN)[0].body)],
        "broken": "/// broken: is\nfunction",
        "odd": 7,
    }

    def load(self: EntryPoint) -> object:
        if self.name == "gone":
            raise ImportError("no such module")
        return offers[self.name]

    monkeypatch.setattr(EntryPoint, "load", load)
    catalogue = catalogue_of([entry(name, "X") for name in (*offers, "gone")])
    assert catalogue.functions["halve"].about == "halves"
    assert catalogue.functions["gaussian"] is own_functions()["gaussian"]
    assert [fault.code for fault in catalogue.failures] == ["TIL202", "TIL102", "TIL226", "TIL226"]
    assert len(caplog.records) == 4
