from __future__ import annotations

from collections import Counter
from fractions import Fraction
from math import gcd, prod

import pytest
from hypothesis import assume, given, strategies as st

from strategies.effort import examples
from strategies.poly import Problem, affines, problems
from strategies.polyhedra import between, domain_points, elements, points_of, set_of, valid_points
from tileir.core.errors import TileError
from tileir.poly.affine import Affine, Rational
from tileir.poly.bounds import Domain, constraint_only_indices, solve, unbounded_indices

ci, co, i, j, k, n, x, y = (Affine.index(name) for name in ("ci", "co", "i", "j", "k", "n", "x", "y"))

Tensor = tuple[list[Affine], list[int]]
Array = dict[tuple[Rational, ...], int]


def domain_of(output: Tensor, *inputs: Tensor, where: list[tuple[Affine, int]] | None = None) -> Domain:
    """Solve a contraction that has valid points."""
    tensors = (output, *inputs)
    domain = solve([p for p, _ in tensors], [s for _, s in tensors], where or [])
    assert domain is not None
    return domain


def shape_of(domain: Domain) -> list[int]:
    """The ranges in order of the names."""
    return [extent for _, extent in domain.ranges]


def residuals(domain: Domain) -> set[str]:
    """The constraints as text."""
    return {str(c) for c in domain.constraints}


def values(domain: Domain, sizes: list[int], *arrays: Array) -> Array:
    """Sum the products of the inputs' elements over the domain."""
    result: Array = {}
    for point in domain_points(domain):
        output, *inputs = elements(domain.accesses, point)
        product = 1
        for array, element in zip(arrays, inputs, strict=True):
            product *= array[element]
        result[output] = result.get(output, 0) + product
    assert all(len(element) == len(sizes) for element in result)
    return result


@examples(200)
@given(problem=problems(), reduce=st.booleans())
def test_domain_holds_each_valid_point_exactly_once(problem: Problem, reduce: bool) -> None:
    names, points = valid_points(problem)
    domain = solve(problem.accesses, problem.sizes, problem.constraints, reduce)
    wanted = Counter(elements(problem.accesses, point) for point in points_of(names, points))
    found = Counter() if domain is None else Counter(elements(domain.accesses, p) for p in domain_points(domain))
    assert found == wanted
    assert (domain is None) == points.is_empty()


@examples(100)
@given(problem=problems(largest=40))
def test_ranges_are_tight_and_constraints_bind(problem: Problem) -> None:
    domain = solve(problem.accesses, problem.sizes, problem.constraints)
    assume(domain is not None)
    assert domain is not None
    names = [name for name, _ in domain.ranges]
    box = {name: set_of(names, [f"0 <= {n} < {r}" for n, r in domain.ranges]) for name in names}
    for name, extent in domain.ranges:
        assert extent >= 2
        points = box[name]
        for constraint in domain.constraints:
            assert constraint.bounds(dict(domain.ranges))[0] < 0
            points = points & set_of(names, [between(constraint, 10**9)])
        for end in (0, extent - 1):
            assert not (points & set_of(names, [f"{name} = {end}"])).is_empty()


def test_unpool_with_overlap() -> None:
    domain = domain_of(([2 * x + i], [100]), ([x], [50]), where=[(i, 4)])
    assert domain.ranges == (("v0_0", 2), ("v0_1", 50), ("v1_0", 2))
    v0_0, v0_1, v1_0 = (Affine.index(name) for name, _ in domain.ranges)
    assert domain.accesses == ((v0_0 + 2 * v0_1,), (v0_1 - v1_0,))
    assert domain.constraints == (v0_1 - v1_0,)


def test_unpool_without_overlap() -> None:
    domain = domain_of(([2 * x + i], [100]), ([x], [50]), where=[(i, 2)])
    assert domain.ranges == (("v0_0", 2), ("v0_1", 50))
    assert domain.constraints == ()


@pytest.mark.parametrize("size", [5, 35, 1000])
def test_subdivision(size: int) -> None:
    domain = domain_of(([i], [2 * size]), ([i / 2 + k / 2], [size]), ([k], [5]))
    assert domain.ranges == (("i_0", 2), ("i_1", size), ("k_0", 3))


def test_shifted_access() -> None:
    domain = domain_of(([i], [10]), ([i - 5], [10]))
    assert domain == Domain((("i", 5),), ((i + 5,), (i,)), ())


@pytest.mark.parametrize(("a", "b"), [(1, 1), (2, 3), (3, 2), (5, 1)])
@pytest.mark.parametrize("size", [7, 30])
def test_strided_both_ways(a: int, b: int, size: int) -> None:
    domain = domain_of(([a * i], [size]), ([b * i], [size]))
    assert shape_of(domain) == [min(-(-size // a), -(-size // b))]


def test_mixed_fractions_of_a_fancy_output() -> None:
    domain = domain_of(([i / 5 + j], [150]), ([i / 3 + j, i / 2], [150, 150]), ([i / 18], [150]))
    assert shape_of(domain) == [12, 13, 13]
    assert len(domain.constraints) == 4


def test_negative_indices() -> None:
    domain = domain_of(([x], [7]), ([x + i], [7]), where=[(i + 1, 3)])
    assert domain.ranges == (("i", 3), ("x", 7))  # i starts at -1
    assert residuals(domain) == {"-1 + i + x", "7 - i - x"}


def test_gradient_of_a_strided_convolution() -> None:
    domain = domain_of(
        ([n, i + x, j + 2 * y, ci], [1, 3, 6, 1]),
        ([n, x, y, co], [1, 2, 3, 1]),
        ([i, j, ci, co], [2, 2, 1, 1]),
    )
    assert domain.ranges == (("v1_0", 3), ("v2_0", 2), ("v2_1", 3), ("v5_0", 2))
    assert residuals(domain) == {"v1_0 - v5_0", "1 - v1_0 + v5_0"}


def test_output_of_a_transposed_convolution_is_dense() -> None:
    domain = domain_of(([2 * x + i - 1], [112]), ([x], [56]), ([i], [3]))
    assert domain.accesses[0] == (Affine.of({"v0_0": 1, "v0_1": 2}),)
    assert shape_of(domain) == [2, 56, 2]


def test_matrix_product_keeps_names_and_strides() -> None:
    domain = domain_of(([i, j], [4, 5]), ([i, k], [4, 6]), ([k, j], [6, 5]))
    assert domain == Domain((("i", 4), ("j", 5), ("k", 6)), ((i, j), (i, k), (k, j)), ())


def test_indices_with_one_value_are_folded() -> None:
    domain = domain_of(([i, j], [4, 1]), ([i, k - 7], [4, 1]), ([k, j], [9, 1]))
    assert domain == Domain((("i", 4),), ((i, Affine()), (i, Affine()), (Affine.constant(7), Affine())), ())


def test_scalars_have_one_point() -> None:
    assert domain_of(([], []), ([], [])) == Domain((), ((), ()), ())


@pytest.mark.parametrize(
    ("first", "second", "extent"),
    [
        ((i + j, 10), (i + j, 10), 10),  # trivial
        ((i + j, 10), (i + j - 4, 10), 6),  # overlapped
        ((i / 2 + j / 2, 10), (i / 3 + j / 3, 10), 4),  # mixed strides
        ((i + j, 10), (-i - j, 10), 1),  # opposed
    ],
)
def test_parallel_constraints(first: tuple[Affine, int], second: tuple[Affine, int], extent: int) -> None:
    domain = domain_of(([i + j], [100]), ([j], [4]), ([first[0], second[0]], [first[1], second[1]]))
    reached = {elements(domain.accesses, point)[0] for point in domain_points(domain)}
    assert len(reached) == extent


def test_parallel_constraints_without_a_hit() -> None:
    assert solve([[i + j], [i / 2 + j / 2], [(i + j + 1) / 2], [j]], [[10], [10], [10], [4]]) is None
    assert solve([[i + j], [i + j - 20], [j]], [[10], [10], [4]]) is None


def test_fractional_convolution_in_numbers() -> None:
    vector: Array = {(at,): at + 1 for at in range(3)}
    domain = domain_of(([i], [5]), ([(i - j + 1) / 2], [3]), ([j], [3]))
    found = values(domain, [5], vector, vector)
    assert [found.get((at,), 0) for at in range(5)] == [2, 5, 4, 9, 6]


def test_fractional_copy_in_numbers() -> None:
    domain = domain_of(([i], [6]), ([(i - 1) / 2], [3]))
    vector: Array = {(at,): at + 1 for at in range(3)}
    found = values(domain, [6], vector)
    assert [found.get((at,), 0) for at in range(6)] == [0, 1, 0, 2, 0, 3]


def test_transposed_convolution_in_numbers() -> None:
    image = [[1, 3, -1], [0, 2, 4], [1, -1, -2]]
    weights = [[2, 3, 4], [6, -3, -1], [-1, -2, 1]]
    domain = domain_of(([x, y], [5, 5]), ([(x + i - 1) / 2, (y + j - 1) / 2], [3, 3]), ([2 - i, 2 - j], [3, 3]))
    arrays: list[Array] = [
        {(r, c): row[c] for r, row in enumerate(rows) for c in range(3)} for rows in (image, weights)
    ]
    found = values(domain, [5, 5], *arrays)
    direct: Array = {}
    for r, c, a, b in ((r, c, a, b) for r in range(5) for c in range(5) for a in range(3) for b in range(3)):
        s, t = r + a - 1, c + b - 1
        if s % 2 == 0 == t % 2 and 0 <= s // 2 < 3 and 0 <= t // 2 < 3:
            direct[r, c] = direct.get((r, c), 0) + image[s // 2][t // 2] * weights[2 - a][2 - b]
    assert found == direct


@pytest.mark.parametrize("reduce", [True, False])
def test_no_defract_gives_the_same_points(reduce: bool) -> None:
    domain = solve([[2 * x + i], [x]], [[100], [50]], [(i, 4)], reduce)
    assert domain is not None
    assert [name for name, _ in domain.ranges] == (["v0_0", "v0_1", "v1_0"] if reduce else ["i", "x"])
    assert len(list(domain_points(domain))) == 198


@pytest.mark.parametrize(
    ("accesses", "sizes", "constraints"),
    [
        ([[2 * i], [4 * i]], [[10], [10]], [(i - 100, 50)]),
        ([[i], [k]], [[1], [1]], [(i - k - 1, 1)]),
        ([[i], [i + Fraction(1, 2)]], [[4], [4]], []),
        ([[i], [i]], [[0], [0]], []),
        ([[i, j], [i]], [[4, 0], [4]], []),
        ([[i + j], [i, j]], [[4], [0, 3]], []),
        ([[i], [Affine.constant(5)]], [[4], [5]], []),
        ([[i], [i]], [[4], [4]], [(i, 0)]),
    ],
)
def test_no_valid_point_is_no_error(
    accesses: list[list[Affine]], sizes: list[list[int]], constraints: list[tuple[Affine, int]]
) -> None:
    assert solve(accesses, sizes, constraints) is None


@pytest.mark.parametrize(
    ("accesses", "sizes", "constraints", "codes", "quoted"),
    [
        ([[i], [i + j - k]], [[4], [9]], [], ["TIL401"], ["'k'"]),
        ([[i], [i], [j + k], [2 * j + 2 * k]], [[4], [4], [9], [9]], [], ["TIL401"], ["'k'"]),
        ([[i], [i]], [[4], [4]], [(j, 3)], [], []),
        ([[i], [i]], [[4], [4]], [(j - k, 3)], ["TIL401"], ["'k'"]),
        ([[i], [i]], [[4], [4]], [(Affine.constant(5), 5)], ["TIL404"], ["0 <= 5 < 5"]),
        ([[i], [i]], [[4], [4]], [(Affine.constant(-1), 5)], ["TIL404"], ["0 <= -1 < 5"]),
        ([[i], [i / 10**30]], [[10**20], [10**3]], [(i / 10**30, 10**3)], [], []),
        ([[i], [i]], [[2**63 + 1], [2**63 + 1]], [], ["TIL405"], ["64 bits"]),
        ([[i], [j]], [[4], [4]], [(2**70 * i - 3 * j, 2**70)], ["TIL405"], ["64 bits"]),
    ],
)
def test_faults_name_the_index_or_constraint(
    accesses: list[list[Affine]],
    sizes: list[list[int]],
    constraints: list[tuple[Affine, int]],
    codes: list[str],
    quoted: list[str],
) -> None:
    if not codes:
        assert solve(accesses, sizes, constraints) is not None
        return
    with pytest.raises(TileError) as caught:
        solve(accesses, sizes, constraints)
    assert [d.code for d in caught.value.diagnostics] == codes
    assert all(text in d.message for text, d in zip(quoted, caught.value.diagnostics, strict=True))


def test_indices_without_bounds_are_found_whatever_the_sizes() -> None:
    assert unbounded_indices([[i], [i + j]]) == ()
    assert unbounded_indices([[i + j]]) == ("j",)
    assert unbounded_indices([[i + j]], [(i - j, 4)]) == ()
    assert unbounded_indices([[i + j], [2 * i + 2 * j]]) == ("j",)
    with pytest.raises(TileError):
        solve([[i + j]], [[0]])


def test_indices_of_constraints_alone_are_points() -> None:
    domain = domain_of(([i], [4]), ([i], [4]), where=[(j / 2, 3), (i + j - k, 2)])
    assert len(tuple(domain_points(domain))) == 4 * 3 * 2
    assert solve([[i], [i]], [[4], [4]], [(j, 0)]) is None


def test_indices_of_constraints_alone_are_found() -> None:
    assert constraint_only_indices([[i], [i + j]], [(j, 4), (k + x, 5)]) == ("k", "x")


@examples(100)
@given(polynomials=st.lists(affines(), min_size=1, max_size=4))
def test_unbounded_indices_are_those_of_isl(polynomials: list[Affine]) -> None:
    names = sorted({i for p in polynomials for i in p.indices})
    points = set_of(names, [between(p - p.offset, 9) for p in polynomials])
    assert (unbounded_indices([polynomials]) == ()) == points.is_bounded()


def test_hundreds_of_linked_indices_are_solved() -> None:
    names = [f"i{number}" for number in range(300)]
    axes = [Affine.index(name) for name in names]
    pairs = [a + b for a, b in zip(axes[::2], axes[1::2], strict=True)]
    domain = domain_of((axes, [10] * 300), (pairs, [12] * 150))
    assert shape_of(domain) == [10] * 300
    assert len(domain.constraints) == 150


def test_residues_are_those_of_the_window_where_the_dilation_shuffles_them() -> None:
    domain = domain_of(([3 * y + 2 * j], [30]), ([j], [3]), ([y], [10]))
    assert dict(domain.ranges) == {"v0_0": 3, "v0_1": 10}
    v0_0, v0_1 = Affine.index("v0_0"), Affine.index("v0_1")
    assert domain.accesses == ((2 * v0_0 + 3 * v0_1,), (v0_0,), (v0_1,))
    assert domain.constraints == (29 - 2 * v0_0 - 3 * v0_1,)


@pytest.mark.parametrize("stride", [3, 4, 5, 7])
@pytest.mark.parametrize("dilation", [1, 2, 3])
@pytest.mark.parametrize("offset", [0, 1])
def test_windows_up_to_the_stride_take_no_steps(stride: int, dilation: int, offset: int) -> None:
    if gcd(stride, dilation) > 1:
        return
    domain = domain_of(([stride * y + dilation * j - offset], [20 * stride]), ([j], [stride]), ([y], [20]))
    valid = sum(0 <= stride * b + dilation * a - offset < 20 * stride for a in range(stride) for b in range(20))
    assert prod(size for _, size in domain.ranges) <= valid * 1.25


def test_a_problem_is_solved_once_and_refused_each_time() -> None:
    i, j = Affine.index("i"), Affine.index("j")
    first = solve([[i], [i + j]], [[7], [9]], [(j, 3)])
    assert first is not None
    assert solve(((i,), (i + j,)), ((7,), (9,)), ((j, 3),)) is first
    assert solve([[i], [i + j]], [[7], [9]], [(j, 4)]) != first
    for _ in range(2):
        with pytest.raises(TileError, match="TIL404"):
            solve([[i]], [[7]], [(Affine.constant(9), 3)])
