"""Python numbers as arguments: they adapt to what they meet as literals do, on every way into a program."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tileir
from tileir import DType, TensorType, ops
from tileir.core.dtype import promote
from tileir.runtime.caches.disk_cache import DiskCache
from tileir.tile.text.parser import parse
from tileir.typed.inference.inference import infer
from tileir_cli import values as cli_values

Array = np.ndarray[Any, Any]

NUMBERS: dict[str, list[bool | int | float]] = {"integer": [3, 0], "float": [0.1, -7.25], "bool": [True]}
TEXTS = {True: "as_bool(1)", False: "as_bool(0)"}

EXPRESSIONS = [
    "X * K",
    "K - X",
    "X + (1 - K) * K",
    "max(X, K)",
    "min(K, X)",
    "X > K",
    "K == X",
    "X > 0 ? K : X",
    "K > 0.5 ? X : 0.1 * X",
    "X * (K > 0 ? 0.1 : 0.3)",
    "(K ? 3 : 2) * X",
    "X * sqrt(K * K + 1)",
    "X + as_f32(K)",
    "X + as_f64(K) / 3",
    "X * as_like(K, X)",
    "X + -K",
    "logical_and(X, K)",
    "relu(K - 0.05) * X",
    "sign(K) + X",
    "K",
    "K / 3",
    "K + 2",
    "pow(X, 2) * K",
    "X / recip(K + 1)",
]


def sample(dtype: DType) -> Array:
    return np.array([0, 1, 2, 5]).astype(dtype.numpy)


def literal(number: bool | int | float) -> str:
    return TEXTS[number] if isinstance(number, bool) else f"({number})" if number >= 0 else f"(0 - {-number})"


def program(expression: str) -> str:
    return f"function (X[N], K) -> (O) {{ O = {expression}; }}"


def written(expression: str, number: bool | int | float) -> str:
    """Return the program with the number in its text."""
    inside = re.sub(r"\bK\b", literal(number), expression)
    return f"function (X[N]) -> (O) {{ O = {inside}; }}"


def ways(text: str) -> list[Callable[..., Any]]:
    """Return what runs a program: a device, and the interpreter."""
    return [tileir.jit(text), lambda *given: tileir.evaluate(text, given)]


def same(one: Array, other: Array) -> bool:
    return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()


@pytest.mark.sampled(32)
@pytest.mark.parametrize("expression", EXPRESSIONS)
@pytest.mark.parametrize("dtype", ["bool", "i8", "u8", "i32", "i64", "u64", "f16", "bf16", "f32", "f64"])
def test_a_number_means_what_a_literal_means(expression: str, dtype: str) -> None:
    x = sample(DType(dtype))
    for number in (number for kind in NUMBERS.values() for number in kind):
        check_same(tileir.evaluate, program(expression), [x, number], written(expression, number), [x])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("expression", [e for e in EXPRESSIONS if "sqrt" not in e and "pow" not in e])
def test_devices_compute_with_a_number_as_with_a_literal(expression: str) -> None:
    for dtype in (DType.I8, DType.F16, DType.F64):
        x = sample(dtype)
        for number in (3, 0.1):
            check_same(run_on_device, program(expression), [x, number], written(expression, number), [x])


def run_on_device(text: str, values: list[Any]) -> Any:
    return tileir.jit(text)(*values)


def check_same(
    run: Callable[[str, list[Any]], Any], text: str, values: list[Any], other: str, other_values: list[Any]
) -> None:
    """Check that two programs give the same bits, or that neither gives any."""
    try:
        expected = run(other, other_values)
    except tileir.TileError:
        with pytest.raises(tileir.TileError):
            run(text, values)
    else:
        assert same(run(text, values), expected), (text, values)


def stepped(x: Array, number: bool | int | float) -> Array:
    step = tileir.stepper("function (S, X, K) -> (T, O) { T = S; O = X + K; }", {"S": "T"}, {"S": np.zeros(1)})
    result: Array = step(x, number)
    return result


def built(x: Array, number: bool | int | float) -> Array:
    f = tileir.FunctionBuilder()
    result: Array = tileir.evaluate(f.build(O=f.input("X", "N") + number), [x])
    return result


def from_operations(x: Array, number: bool | int | float) -> Array:
    f = tileir.FunctionBuilder()
    tensor = f.input("X", "N")
    result: Array = tileir.evaluate(f.build(O=ops.maximum(tensor, number) + ops.minimum(tensor, number)), [x])
    return result


def on_the_command_line(x: Array, number: bool | int | float) -> Array:
    value = cli_values.load("K", str(number).lower())
    call = cli_values.callable_for(parse(program("X + K")), {"X": x, "K": value}, interpret=False, device=None)
    return call()["O"]


def described(x: Array, number: bool | int | float) -> Array:
    other = {bool: True, int: 1, float: 0.5}[type(number)]  # the executable does not depend on the value
    result: Array = tileir.compile(program("X + K"), [x, other])(x, number)
    return result


ENTRIES: dict[str, Callable[[Array, Any], Array]] = {
    "literal": lambda x, number: tileir.evaluate(written("X + K", number), [x]),
    "jit": lambda x, number: tileir.jit(program("X + K"))(x, K=number),
    "evaluate": lambda x, number: tileir.evaluate(program("X + K"), {"X": x, "K": number}),
    "compile": described,
    "submit": lambda x, number: tileir.jit(program("X + K")).specialise(x, number).submit(x, number).result(),
    "stepper": stepped,
    "builder": built,
    "operations": from_operations,
    "command line": on_the_command_line,
}


def table() -> dict[tuple[str, str], str]:
    """Return the table of the manual: the dtype of a kind of number beside a dtype."""
    text = (Path(__file__).parents[2] / "docs" / "tile.md").read_text()
    rows = [line.strip("|").split("|") for line in text.split("| other operand |")[1].splitlines()[2:]]
    found: dict[tuple[str, str], str] = {}
    for row in rows:
        if len(row) != 4:
            break
        for name in row[0].split(","):
            for kind, cell in zip(NUMBERS, row[1:], strict=True):
                found[name.strip(), kind] = name.strip() if cell.strip() == "that dtype" else cell.strip()
    return found


def test_the_table_of_the_manual_has_every_dtype() -> None:
    assert {name for name, _ in table()} == {*(dtype.value for dtype in DType), "none"}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("entry", ENTRIES)
def test_the_table_of_the_manual_holds(entry: str) -> None:
    for (name, kind), becomes in table().items():
        if name == "none" or (entry == "operations" and kind == "bool"):
            continue
        x = sample(DType(name))
        taken = promote(DType(name), DType(becomes))
        number = NUMBERS[kind][0]
        dtype = DType.I32 if taken.is_bool else taken  # sums of bool are i32
        expected = (x.astype(dtype.numpy) + np.asarray(number).astype(dtype.numpy)).astype(dtype.numpy)
        result = ENTRIES[entry](x, number)
        assert same(result, expected), (name, kind, result)


def test_numbers_alone_have_the_dtypes_of_the_table() -> None:
    for kind, numbers in NUMBERS.items():
        result = tileir.jit("function (K) -> (O) { O = K; }")(numbers[0])
        assert DType.of(result.dtype) is DType(table()["none", kind])
    assert tileir.jit("function (K) -> (O) { O = K; }")(1 << 40).dtype == np.int64


def test_one_number_is_right_beside_every_dtype_that_it_meets() -> None:
    text = "function (A, B, C, K) -> (O, P, Q) { R = 1 - K; O = A * R; P = B * R; Q = C * R; }"
    arrays = [np.ones(1, dtype) for dtype in (np.float64, np.float32, np.float16)]
    for run in ways(text):
        for result, dtype in zip(run(*arrays, 0.9), (np.float64, np.float32, np.float16), strict=True):
            assert result == np.asarray(1 - 0.9, dtype)
            assert result.dtype == dtype


def test_a_new_value_is_no_new_compilation() -> None:
    scaled = tileir.jit("function (X, K) -> (O) { O = X * K; }")
    x = np.ones(2, np.float32)
    assert scaled.specialise(x, 0.1) is scaled.specialise(x, 7.5)
    assert scaled.specialise(x, 0.1) is not scaled.specialise(x, np.float32(0.1))


@pytest.mark.parametrize(
    ("dtype", "number", "expression", "code", "message"),
    [
        ("i1", 300, "X + K", "TIL701", "input 'K' is 300, which i8 cannot hold"),
        ("u1", -1, "X + K", "TIL701", "input 'K' is -1, which u8 cannot hold"),
        ("f2", 1e6, "X + K", "TIL701", "input 'K' is 1000000.0, which f16 cannot hold"),
        ("i1", 100, "X + 2 * K", "TIL701", "a number computed from 'K' is 200, which i8 cannot hold"),
        ("i4", 0, "X + 7 / K", "TIL308", "the divisor of this constant is 0"),
        ("i4", 1 << 70, "X + K", "TIL702", "which no integer type holds"),
    ],
)
def test_a_number_that_does_not_fit_is_an_error(
    dtype: str, number: float, expression: str, code: str, message: str
) -> None:
    x = np.ones(2, dtype)
    for run in ways(program(expression)):
        with pytest.raises(tileir.ArgumentError, match=re.escape(message)) as caught:
            run(x, number)
        assert caught.value.diagnostics[0].code == code


def test_an_executable_for_a_number_takes_numbers_of_its_kind() -> None:
    x = np.ones(2)
    run = tileir.compile(program("X * K"), [x, 0.5])
    assert run(x, 3).tolist() == [3, 3]
    with pytest.raises(tileir.ArgumentError, match="input 'K' is a number here"):
        run(x, np.float64(3))
    with pytest.raises(tileir.ArgumentError, match="input 'K' is a number here"):
        run(x, np.array(3.0))
    whole = tileir.compile(program("X * K"), [np.ones(2, np.int32), 1])
    with pytest.raises(tileir.ArgumentError, match=r"'K' is 0\.5, and it was compiled for an integer"):
        whole(np.ones(2, np.int32), 0.5)
    with pytest.raises(tileir.ArgumentError, match=r"'K' is 0\.5, and it was compiled for a bool"):
        tileir.compile(program("X * K"), [x, True])(x, 0.5)


def test_an_executable_for_a_tensor_takes_a_number_that_fits() -> None:
    run = tileir.compile(program("X * K"), [(DType.I8, (2,)), TensorType(DType.I8, ())])
    assert run(np.ones(2, np.int8), 3).tolist() == [3, 3]
    with pytest.raises(tileir.ArgumentError, match="'K' is 300, which i8 cannot hold"):
        run(np.ones(2, np.int8), 300)


def test_scalars_of_numpy_keep_their_dtype() -> None:
    product = tileir.jit(program("X * K"))
    assert product(np.ones(2), np.float32(0.1))[0] == np.float64(np.float32(0.1))
    assert product(np.ones(2, np.float16), np.float32(0.1)).dtype == np.float32
    assert product(np.ones(2, np.float32), np.float64(0.1)).dtype == np.float64
    assert product(np.ones(2, np.int8), np.array(3, np.int32)).dtype == np.int32


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_the_state_of_a_stepper_keeps_its_dtype(dtype: type) -> None:
    text = "function (W, Rate) -> (V) { V = W - Rate * (1 - Rate) * W; }"
    step = tileir.stepper(text, {"W": "V"}, {"W": np.ones(2, dtype)})
    step(0.1)
    rate = dtype(0.1 * (1 - 0.1))
    assert step.state["W"].dtype == dtype
    assert step.state["W"][0] == dtype(1) - rate


def test_contractions_and_defaults_adapt_numbers() -> None:
    text = "function (A[N], K) -> (O, P) { O[i : N] = =(A[i] * K[]); F[i : N] = =(K[]), i < N; P[i : 1] = +(A[i]); }"
    for dtype in (np.int8, np.float16, np.float64):
        product, _ = tileir.jit(text)(np.ones(3, dtype), 3)
        assert product.dtype == dtype
    defaulted = "function (A[N], K) -> (O) { O[] = >(A[i]), i < 0 + N default K; }"
    assert tileir.jit(defaulted)(np.ones(3), 0.1) == 1
    constant = "function (A[N]) -> (O) { K = 0.1; O[i : N] = =(A[i] * K[]); }"
    assert tileir.evaluate(constant, [np.ones(2)])[0] == 0.1


def test_a_number_is_a_default_in_the_dtype_of_the_result() -> None:
    text = "function (A[N], K) -> (O) { O[] = +(A[i]), i - N < 1 default K; }"
    for run in ways(text):
        assert run(np.ones(3), 0.1) == 0.1


def test_scans_pass_numbers_on() -> None:
    text = """
    function (X[N], B[N], H, K) -> (Y, Z) {
      S = scan(H; X, B; K) function (A, V, W, R) -> (C, D) { C = A * (1 - R) + V; D = W * R; };
      Y = element(S, 0);
      Z = element(S, 1);
    }
    """
    x, b = np.arange(4.0), np.ones(4, np.float32)
    carry = 0.0
    for value in x:
        carry = carry * (1 - 0.1) + value
    for run in ways(text):
        last, rows = run(x, b, 0.0, 0.1)
        assert last.dtype == np.float64
        assert last == pytest.approx(carry, rel=1e-15)
        assert (rows == np.float32(0.1)).all()
        assert rows.dtype == np.float32


def test_literals_are_carries_and_constants_of_the_dtype_that_a_step_needs() -> None:
    text = "function (X[N]) -> (Y) { H = 0; K = 0.1; Y = scan(H; X; K) function (A, V, R) -> (C) { C = A + V * R; }; }"
    assert tileir.evaluate(text, [np.ones(2)]) == 0.1 + 0.1


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("dtype", "wanted"), [("f2", "f2"), ("f4", "f4"), ("f8", "f8"), ("i4", "f4"), ("i8", "f8")])
def test_derivatives_of_a_number_have_the_widest_float_dtype(dtype: str, wanted: str) -> None:
    text = "function (X[N], K) -> (O) { P = X * K * K; O[] = +(P[i]); }"
    found = tileir.vjp(text, [np.ones(3, dtype), 0.5], [1.0], wrt="K")["K"]
    assert found.dtype == np.dtype(wanted)
    assert found == 3
    moved = tileir.jvp(text, [np.ones(3, dtype), 0.5], {"K": 1.0})["O"]
    assert moved.dtype == np.dtype(wanted)
    assert moved == 3


def test_gradients_written_out_for_numbers_keep_them() -> None:
    text = "function (X[N], Rate, K) -> (O) { P = X * K * (1 - Rate); O[] = +(P[i]); }"
    written_out = tileir.gradient(text, arguments=[np.ones(3), 0.9, 0.5])
    for by_x, by_rate, by_k in (tileir.evaluate(written_out, [np.ones(3), 0.9, 0.5]),):
        assert by_x.tolist() == [0.5 * (1 - 0.9)] * 3
        assert by_rate == -1.5
        assert by_k == pytest.approx(3 * (1 - 0.9), rel=1e-15)
    only = tileir.gradient(text, wrt="X", arguments=[np.ones(3), 0.9, 0.5])
    assert [tensor.name for tensor in only.inputs] == ["X", "Rate", "K"]
    assert tileir.evaluate(only, [np.ones(3), 0.9, 0.5]).tolist() == [0.5 * (1 - 0.9)] * 3


def test_programs_with_numbers_come_back_from_the_cache(tmp_path: Path) -> None:
    x = np.ones(2)
    for _ in range(2):
        with tileir.Context(disk_cache=DiskCache(tmp_path / "cache")) as context:
            run = tileir.jit(program("X * (1 - K)"), context=context)
            assert run(x, 0.9).tolist() == [1 - 0.9] * 2
            assert run(x, 0.5).tolist() == [0.5] * 2


def test_numbers_meet_several_dtypes_without_f64_in_kernels() -> None:
    kinds = {
        "A": TensorType(DType.F16, (4,)),
        "B": TensorType(DType.F32, (4,)),
        "K": TensorType(DType.F64, (), weak=True),
    }
    typed = infer(parse("function (A, B, K) -> (O, P) { R = 1 - K; O = A * R; P = B * R; }"), kinds)
    assert {value.dtype for value in (*typed.inputs, *typed.operations)} == {DType.F16, DType.F32}


def test_a_number_is_a_size_if_it_is_an_integer() -> None:
    for text in ("L = K; O = reshape(X, L, 4);", "O = gather(X, index(X, K - 1));", "O = simple_reduce(X, K);"):
        function = tileir.parse(f"function (X[N], K) -> (O) {{ {text} }}")
        assert tileir.evaluate(function, [np.ones(4), 1]).size in (1, 4)
        with pytest.raises(tileir.TileError, match="TIL302"):
            tileir.evaluate(function, [np.ones(4), 1.0])
