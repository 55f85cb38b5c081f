"""Requirements on descriptions, crafting, feeding and controls of formulas, one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import tileir
from strategies.formulas import FUNCTIONS
from tileir import evaluate
from tileir.core.errors import TileError
from tileir.driver.dispatch import BufferLife, Dispatch
from tileir_formula.definitions.bodies import keeps_size
from tileir_formula.definitions.catalogue import own_functions
from tileir_formula.definitions.function_file import read_functions
from tileir_formula.definitions.offers import offers
from tileir_formula.diagrams.diagram import diagram_of
from tileir_formula.diagrams.diagram_svg import to_svg
from tileir_formula.editing.control_tree import controls_of
from tileir_formula.editing.controls import ChoiceControl, StepControls, each_control
from tileir_formula.ir import Source, Step
from tileir_formula.lower.applying import apply
from tileir_formula.lower.lowering import craft
from tileir_formula.text import bracket
from tileir_formula.text.parser import parse
from tileir_formula.text.printer import to_text

Picture = npt.NDArray[Any]

PHOTO = np.random.default_rng(2).random((40, 52, 3)).astype(np.float32)
PAPER = np.random.default_rng(3).random((40, 52, 3)).astype(np.float32)
ACROSS, DOWN = "[-1 0 1; -2 0 2; -1 0 1]", "[-1 -2 -1; 0 0 0; 1 2 1]"
SOBEL = f"""\
[convolve:(weights=<{ACROSS[1:-1]}>)]
[convolve:(weights=<{DOWN[1:-1]}>)&magnitude{{1}}]
"""
MAX_POOL = read_functions(
    """\
/// pool: takes the greatest of four neighbours.
function (Image[H, W, C]) -> (Result) {
    Result[y, x, c : H / 2, W / 2, C] = >(Image[2 * y + i, 2 * x + j, c]), i < 2, j < 2;
}
"""
)[0]


def run(text: str, *pictures: Picture) -> Picture:
    """Return what a formula makes, on the device that is chosen."""
    result: Picture = tileir.craft(text)(*(pictures or (PHOTO,)))
    return result


def interpreted(text: str, *pictures: Picture) -> Any:
    """Return what a formula means."""
    crafted = craft(parse(text), own_functions())
    return evaluate(crafted.function, [*(pictures or (PHOTO,)), *crafted.arguments.values()])


def dispatch(text: str) -> Dispatch:
    return tileir.craft(text).explain(PHOTO).dispatch


# Sobel, in the form of its figure


def test_sobel_is_two_passes_over_the_original_and_a_merge() -> None:
    """Chapters 3 and 4: both differentiations read the original, and a merge of vectors joins what they make."""
    formula = bracket.parse(SOBEL)
    first, second = formula.steps
    assert isinstance(first, Step)
    assert isinstance(second, Step)
    assert (first.sources, second.sources) == ((), (Source("image"),))
    assert second.merge is not None
    assert second.merge.source == Source(1)
    y, x = (
        sum(
            weight * np.pad(PHOTO, ((1, 1), (1, 1), (0, 0)), mode="reflect")[r : r + 40, c : c + 52].astype(float)
            for r, row in enumerate(rows)
            for c, weight in enumerate(row)
        )
        for rows in (((-1, -2, -1), (0, 0, 0), (1, 2, 1)), ((-1, 0, 1), (-2, 0, 2), (-1, 0, 1)))
    )
    np.testing.assert_allclose(run(to_text(formula)), np.hypot(x, y), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(interpreted(to_text(formula)), np.hypot(x, y), rtol=1e-4, atol=1e-5)


def test_one_function_may_stand_for_several_passes() -> None:
    """Chapter 5: a Sobel option for people, which becomes two kernels and a merge."""
    written_out = run(to_text(bracket.parse(SOBEL)))
    sobel = run("sobel")
    scale = sobel.max() / written_out.max()  # of slopes
    np.testing.assert_allclose(sobel, written_out * scale, rtol=1e-3, atol=1e-5)


# Chapter 2: functions, conditions and merges


def test_functions_are_primary_or_merge_two() -> None:
    """Chapter 2: one input and one output, or two inputs and one output; conditions are a kind of their own."""
    counts = {len(function.pictures) for function in own_functions().values()}
    assert counts == {1, 2}


def test_the_flexibility_diagram_lists_what_passes_are_made_of() -> None:
    """Chapter 2: functions around the pass with their arguments and conditions, merges below it, and a legend."""
    functions = own_functions()
    diagram = diagram_of(functions)
    drawn = to_svg(diagram)
    assert {node.name for node in (*diagram.primaries, *diagram.merges)} == set(functions)
    assert all(f">{name}<" in drawn for name in functions)
    assert {letter for node in diagram.primaries for letter in node.conditions} == {
        e.letter for e in diagram.conditions
    }
    (convolve,) = (node for node in diagram.primaries if node.name == "convolve")
    assert [argument.split("=")[0] for argument in convolve.arguments] == ["weights"]


def test_a_pass_computes_then_chooses_then_merges() -> None:
    """Chapter 2: a function of some input, applied by a condition, merged with a second input; both from anywhere."""
    result = run(
        "inputs a, b\nconvolve(weights=[2]) of b where region(0, 0, 10, 52) with blend(amount=0.25) a", PHOTO, PAPER
    )
    chosen = np.concatenate([PAPER[:10] * 2, PAPER[10:]])
    np.testing.assert_allclose(result, chosen + (PHOTO - chosen) * np.float32(0.25), rtol=1e-5)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", [name for name, each in own_functions().items() if len(each.pictures) == 1])
def test_the_input_is_always_within_a_threshold_of_the_pixel_it_is(name: str) -> None:
    """Chapter 2: a condition on the source being near the original pixel never fails, so it changes nothing."""
    if keeps_size(own_functions()[name]):
        small = PHOTO[:9, :10]
        conditional = interpreted(f"{name} where input within 0 of pixel", small)
        np.testing.assert_array_equal(conditional, np.broadcast_to(interpreted(name, small), conditional.shape))


def test_conditions_are_absolute_or_in_percent_of_a_colour_or_the_pixel() -> None:
    """Chapter 2: input or output within a threshold of a colour or of the value that is replaced."""
    made = PHOTO * np.float32(1.5)
    grey = np.float32(128 / 255)
    holds = {
        "output within 0.3 of pixel": np.abs(made - PHOTO) <= 0.3,
        "output within 60% of pixel": np.abs(made - PHOTO) <= 0.6 * PHOTO,
        "output within 40% of pixel": np.abs(made - PHOTO) <= 0.4 * PHOTO,
        "input within 0.2 of #808080": np.abs(PHOTO - grey) <= np.float32(0.2),
        "output within 0.2 of #808080": np.abs(made - grey) <= np.float32(0.2),
        "original within 0.2 of #808080": np.abs(PHOTO - grey) <= np.float32(0.2),
    }
    for condition, near in holds.items():
        expected = np.where(near.all(axis=2, keepdims=True), made, PHOTO)
        np.testing.assert_allclose(
            run(f"convolve(weights=[1.5]) where {condition}"), expected, rtol=1e-6, err_msg=condition
        )


def test_a_separable_window_fetches_twelve_neighbours_in_place_of_forty_eight() -> None:
    """Chapters 1 and 2: a Gaussian of radius 3 may go along rows and then along columns, with the same result."""
    bell = [1, 6, 15, 20, 15, 6, 1]
    both = "; ".join(" ".join(str(y * x) for x in bell) for y in bell)
    line, column = " ".join(map(str, bell)), "; ".join(map(str, bell))
    apart = run(f"convolve(weights=[{line}])\nconvolve(weights=[{column}])")
    np.testing.assert_allclose(run(f"convolve(weights=[{both}])"), apart, rtol=1e-4)
    assert len(bell) ** 2 - 1 == 48
    assert 2 * (len(bell) - 1) == 12


def test_selective_windows_are_not_separable() -> None:
    """Chapter 2: where weights depend on how far a neighbour is from the pixel, two passes make something else."""
    square = run("selective(weights=[1 1 1; 1 1 1; 1 1 1], limit=0.2)")
    apart = run("selective(weights=[1 1 1], limit=0.2)\nselective(weights=[1; 1; 1], limit=0.2)")
    assert np.abs(square - apart).max() > 0.01


# Chapter 3: the description


def test_passes_are_numbered_by_their_place() -> None:
    """Chapter 3: what identifies a pass is implied by its place; a name is a choice."""
    numbered = run("convolve(weights=[2])\nconvolve(weights=[3]) of image\nblend of $1, $2")
    named = run("two = convolve(weights=[2])\nthree = convolve(weights=[3]) of image\nblend of two, three")
    np.testing.assert_array_equal(numbered, named)
    np.testing.assert_allclose(numbered, PHOTO * np.float32(2.5), rtol=1e-6)


@pytest.mark.sampled(0)
def test_every_later_pass_may_read_every_earlier_one() -> None:
    """Chapter 3: the output of any pass could be an input of later ones."""
    lines = ["convolve(weights=[2])", "convolve(weights=[3]) of image", "convolve(weights=[5]) of image"]
    for first in range(1, 4):
        for second in range(1, 4):
            result = run("\n".join([*lines, f"blend of ${first}, ${second}"]))
            factor = ((2, 3, 5)[first - 1] + (2, 3, 5)[second - 1]) / 2
            np.testing.assert_allclose(result, PHOTO * np.float32(factor), rtol=1e-5)


def test_closing_brackets_count_the_passes() -> None:
    """Chapter 3: the text is split at the closing bracket, and the function ends at the first colon."""
    pieces = SOBEL.split("]")[:-1]
    names = [piece.strip().removeprefix("[").split(":")[0] for piece in pieces]
    steps = bracket.parse(SOBEL).steps
    assert names == [step.function for step in steps if isinstance(step, Step)] == ["convolve", "convolve"]


def test_without_curly_brackets_a_pass_reads_the_original() -> None:
    """Chapter 3: inputs stand in curly brackets behind the name; a pass without them reads the original input."""
    steps = bracket.parse("[gaussian:][gaussian:][gaussian:{1,2}]").steps
    sources = [step.sources for step in steps if isinstance(step, Step)]
    assert sources == [(), (Source("image"),), (Source(1), Source(2))]


def test_the_bracket_form_comments_the_whole_formula() -> None:
    """Chapter 3: comments are of the full description, not of each pass."""
    assert bracket.parse("// edges\n[gaussian:]").comments == ("edges",)
    with pytest.raises(TileError, match="whole formula"):
        bracket.parse("[gaussian:]\n// a pass\n[gaussian:]")


def test_functions_have_names_of_their_own() -> None:
    """Chapter 3: each base function needs a unique name."""
    with pytest.raises(TileError, match="described twice"):
        read_functions("/// f: is.\nfunction (I[H]) -> (O) { O = I; }\n" * 2)


def test_descriptions_do_not_know_the_device() -> None:
    """Chapter 3: the description is portable; only crafting knows where it runs."""
    text = "gaussian(sigma=1)\nconvolve(weights=[1 2 1]) of image with blend $1"
    np.testing.assert_allclose(run(text), interpreted(text), rtol=1e-4, atol=1e-5)


def test_constants_are_baked_or_passed() -> None:
    """Chapter 3: parameters are immediate values of kernels, or arguments that change without a new build."""
    baked = tileir.craft("gaussian(sigma=1.5)")
    dragged = baked.with_value("steps[0].arguments.sigma", "1.5")
    assert baked.executable(PHOTO).inputs == ("image",)
    assert "S1_sigma" in dragged.executable(PHOTO).inputs
    np.testing.assert_allclose(dragged(PHOTO), baked(PHOTO), rtol=1e-5)


# Chapter 4: the feeder


@pytest.mark.parametrize("source", ["$1", "previous", "x"])
def test_the_first_pass_has_only_the_original(source: str) -> None:
    """Chapter 4: the first pass has nothing else to run on."""
    assert offers(parse("x = gaussian"), "steps[0]", own_functions()).sources == ("image",)
    with pytest.raises(TileError) as caught:
        tileir.craft(f"x = gaussian of {source}")
    assert caught.value.diagnostics[0].code == "TIL223"


def test_dilation_feeds_erosion() -> None:
    """Chapter 4: dilation followed by erosion removes small dark artifacts."""
    speckled = np.full((20, 20, 1), 0.75, np.float32)
    speckled[7, 9] = 0
    result = run("dilate(size=3)\nerode(size=3)", speckled)
    np.testing.assert_array_equal(result, np.full_like(speckled, 0.75))
    np.testing.assert_array_equal(result, run("close(size=3)", speckled))


def test_passes_over_one_original_are_merged_later() -> None:
    """Chapter 4: passes may read the same original, and a later one merges what they make."""
    result = run("inputs a, b\nconvolve(weights=[2]) of a\nconvolve(weights=[4]) of b\nblend of $1, $2", PHOTO, PAPER)
    np.testing.assert_allclose(result, PHOTO + PAPER * 2, rtol=1e-5)


def chain(length: int) -> str:
    return "convolve(weights=[1 2 3; 0 5 1; 7 8 1]) outside constant\n" * length


@pytest.mark.sampled(0)
def test_two_buffers_are_enough_for_a_chain() -> None:
    """Chapter 4: what no later pass reads is dead, and the next output goes there."""
    short, long = dispatch(chain(4)), dispatch(chain(9))
    largest = max((buffer.nbytes for buffer in long.buffers if buffer.role == "temporary"), default=0)
    assert long.peak_bytes == short.peak_bytes
    assert long.peak_bytes <= 2 * (largest + 64)
    assert long.temporary_bytes >= short.temporary_bytes


@pytest.mark.sampled(0)
def test_what_is_alive_is_kept() -> None:
    """Chapter 4: buffers that a later pass reads are not given to others, however long the chain between."""
    branches = (
        f"{chain(3)}convolve(weights=[0 1 0; 2 3 9; 0 1 1]) of $1\n{chain(4)}magnitude of $1, $3\nblend of $8, $9\n"
    )
    for text in (branches, chain(6), "inputs image\nx = median\ndilate\nerode\nblend of x, $3"):
        made = dispatch(text)
        found = [each for each in made.buffers if each.offset is not None]
        shared = [
            (one.name, other.name)
            for number, one in enumerate(found)
            for other in found[number + 1 :]
            if live_together(one, other) and share_bytes(one, other)
        ]
        assert set(shared) <= set(made.in_place())
    np.testing.assert_allclose(run(branches), interpreted(branches), rtol=1e-3)


def live_together(one: BufferLife, other: BufferLife) -> bool:
    return one.first <= other.last and other.first <= one.last


def share_bytes(one: BufferLife, other: BufferLife) -> bool:
    assert one.offset is not None
    assert other.offset is not None
    apart = one.offset + one.nbytes <= other.offset or other.offset + other.nbytes <= one.offset
    return one.block == other.block and not apart


@pytest.mark.sampled(0)
def test_kernels_run_behind_what_they_read() -> None:
    """Chapter 4: kernels are dispatched in an order in which each finds its inputs."""
    for text in (chain(5), to_text(bracket.parse(SOBEL)), "median\ndilate of image\nblend of $1, $2"):
        found = dispatch(text)
        written = {buffer.name for buffer in found.buffers if buffer.role in ("input", "constant")}
        for launch in found.launches:
            assert set(launch.reads) - set(launch.writes) <= written
            written.update(launch.writes)


@pytest.mark.sampled(0)
def test_equal_passes_share_their_kernels() -> None:
    """Chapter 4: compiled passes are kept by a signature, and iterations of one pass use them again."""
    kernels = [len(tileir.craft(chain(length)).executable(PHOTO).sem.kernels) for length in (4, 9)]
    launches = [len(dispatch(chain(length)).launches) for length in (4, 9)]
    assert kernels[0] == kernels[1]
    assert launches[0] < launches[1] or launches == [1, 1]


def test_frames_share_a_compiled_formula() -> None:
    """Chapter 1: kernels are compiled once, and run on all frames of a video."""
    formula = tileir.craft("gaussian(sigma=1)")
    assert formula.executable(PHOTO) is formula.executable(PAPER)


def test_sizes_may_change_between_passes() -> None:
    """Chapter 4: max-pooling halves a picture; buffers take what each pass needs."""
    formula = tileir.craft("pool\npool", {"pool": MAX_POOL})
    assert not keeps_size(MAX_POOL)
    result = formula(PHOTO)
    np.testing.assert_array_equal(result, PHOTO.reshape(10, 4, 13, 4, 3).max(axis=(1, 3)))
    sizes = {buffer.shape for buffer in formula.explain(PHOTO).dispatch.buffers}
    assert {(40, 52, 3), (10, 13, 3)} <= sizes
    assert offers(parse("pool"), "steps[0]", {"pool": MAX_POOL}).conditions == ()


def test_passes_that_look_at_one_pixel_may_overwrite_it() -> None:
    """Chapter 4: which passes may write to their inputs is known; windows may not, since they need no barriers then."""
    functions = own_functions()
    assert functions["blend"].is_pointwise
    assert not functions["convolve"].is_pointwise
    assert not functions["gaussian"].is_pointwise
    assert dispatch(chain(6)).in_place() == ()


# Chapter 5: controls


def test_controls_tell_the_state_of_each_pass() -> None:
    """Chapter 5: controls are made from the description, and show functions, parameters, inputs and conditions."""
    text = "blur(radius=3)\nadd of $1, image where input within 5% of pixel"
    first, second = controls_of(text, FUNCTIONS).steps
    assert isinstance(first, StepControls)
    assert isinstance(second, StepControls)
    assert first.function.value == "blur"
    assert [parameter.value for parameter in first.parameters] == ["3", "0.5"]
    assert [source.value for source in second.sources] == ["$1", "image"]
    assert second.condition.kind.value == "near"


def test_a_combobox_offers_all_functions_and_changes_one_pass() -> None:
    """Chapter 5: the box of a pass lists all primary functions; choosing one leaves the other passes as they are."""
    text = "blur(radius=3) // first\nblur(radius=4) // second\nblur(radius=5) // third\n"
    box = next(each for each in each_control(controls_of(text, FUNCTIONS)) if each.path == "steps[1].function")
    assert isinstance(box, ChoiceControl)
    assert set(box.words) == set(FUNCTIONS)
    changed = apply(text, box.path, "weigh", FUNCTIONS).edited.text
    assert changed == text.replace("blur(radius=4)", "weigh")


def test_a_changed_description_is_what_runs_next() -> None:
    """Chapter 5: what a control changed is the new description, from which kernels are made again."""
    formula = tileir.craft("convolve(weights=[2])")
    changed = apply(formula.text, "steps[0].arguments.weights", "[3]", formula.functions)
    np.testing.assert_allclose(formula.with_text(changed.edited.text)(PHOTO), PHOTO * 3, rtol=1e-6)


def test_a_control_may_stand_for_several_passes() -> None:
    """Chapter 5: controls need not map to single passes, but must find all places that they stand for."""
    text = "convolve(weights=[1 2 1])\nblur(radius=2)\nblur(radius=2)\n"
    functions = {**FUNCTIONS, **own_functions()}
    paths = ["steps[1].arguments.radius", "steps[2].arguments.radius"]
    made = apply(text, paths, "4", functions)
    assert made.edited.text == text.replace("radius=2", "radius=4")
    assert [path for path, _ in made.changed] == paths
