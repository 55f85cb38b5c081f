"""C ahead of time: compiled without warnings, run without Python, and checked by sanitizers."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given

import tileir
from c_ahead import SANITIZERS, build, offers_sanitizers, run, write
from c_values import element, mapped, padded, special_values
from strategies.effort import examples
from strategies.semtree import kernel_cases
from strategies.semtree_values import ALL_DTYPES, allowed_ops, same_content
from tileir.core.dtype import DType
from tileir.core.numbers import arithmetic
from tileir.core.ops import Op
from tileir.semtree.analysis.constant_works import constant_works
from tileir.semtree.interpret import interpreter
from tileir.semtree.ir import Apply, Buffer, BufferRole, Cast, KernelFunction, Launch, ParamAccess, Program, Type
from tileir.semtree.simplify.simplifier import simplify
from tileir_c.aot.lowering import lower
from tileir_c.aot.program import ahead
from tileir_emit.c_like import NATIVE
from tileir_testing.generated.case import Manner, assert_equal, make
from tileir_testing.generated.choices import Seeded
from tileir_testing.generated.works import works_case

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from strategies.semtree import KernelCase
    from tileir_c.aot.program import Ahead

    Array = np.ndarray[Any, np.dtype[Any]]

needs_sanitizers = pytest.mark.skipif(not offers_sanitizers(), reason="the compiler has no sanitizers")

MATMUL = "function (A[M, K], B[K, N], F) -> (C, D) { C[i, j: M, N] = +(A[i, k] * B[k, j]); D = tanh(C) * F; }"


def made(source: str, inputs: Mapping[str, Array], vector_bytes: int = 32) -> Ahead:
    types = {name: tileir.TensorType(arithmetic.dtype_of(array), array.shape) for name, array in inputs.items()}
    return ahead(lower(source, types, vector_bytes), "program", source)


def random_inputs() -> dict[str, Array]:
    generator = np.random.default_rng(3)
    return {
        "A": generator.normal(size=(37, 30)).astype(np.float32),
        "B": generator.normal(size=(30, 50)).astype(np.float32),
        "F": np.array(2.5, np.float16),
    }


@pytest.mark.sampled(1)
@pytest.mark.parametrize("vector_bytes", [16, 64])
@pytest.mark.parametrize("flags", [("-O2",), pytest.param(("-O1", *SANITIZERS), marks=needs_sanitizers)])
def test_a_program_gives_what_the_interpreter_does(vector_bytes: int, flags: Sequence[str], tmp_path: Path) -> None:
    inputs = random_inputs()
    results = run(made(MATMUL, inputs, vector_bytes), inputs, tmp_path, *flags)
    for name, expected in zip(("C", "D"), tileir.evaluate(MATMUL, inputs), strict=True):
        np.testing.assert_allclose(results[name], expected, rtol=1e-5, atol=1e-5)


def _of_weights(rows: int) -> tuple[tileir.Function, Array]:
    """Return a product with what is made of weights, on the left and on the right, and the weights."""
    weights = np.random.default_rng(rows).standard_normal((rows, 96), np.float32)
    f = tileir.FunctionBuilder()
    factors = tileir.ops.softmax(f.constant(weights), 0)
    product = tileir.ops.matmul(f.input("X", 7, 96), tileir.ops.transpose(factors))
    return f.build(Y=tileir.ops.matmul(product, factors) + 1.0), weights


@pytest.mark.sampled(1)
@pytest.mark.parametrize("rows", [40, 70_000])
def test_what_depends_on_constants_alone_is_a_constant_unless_there_is_much_of_it(rows: int) -> None:
    function, _ = _of_weights(rows)
    program = lower(function, {"X": tileir.TensorType(DType.F32, (7, 96))}, 32)
    assert bool(constant_works(program)) == (rows > 40)


def test_results_of_constants_are_right_in_c(tmp_path: Path) -> None:
    function, weights = _of_weights(40)
    x = np.random.default_rng(0).standard_normal((7, 96), np.float32)
    program = lower(function, {"X": tileir.TensorType(DType.F32, x.shape)}, 32)
    exponents = np.exp(weights.astype(np.float64))
    factors = exponents / exponents.sum(0)
    found = run(ahead(program, "program"), {"X": x}, tmp_path)
    np.testing.assert_allclose(found["Y"], x @ factors.T @ factors + 1, rtol=1e-4, atol=1e-5)


@pytest.mark.sampled(2)
@needs_sanitizers
@pytest.mark.parametrize("number", range(6))
def test_loops_and_branches_give_what_the_interpreter_does(number: int, tmp_path: Path) -> None:
    case = works_case(Seeded(f"ahead {number}"))
    whole = ahead(case.program, "program")
    case.check(run(whole, case.inputs, tmp_path, "-Wno-unused-function", *SANITIZERS))


@needs_sanitizers
def test_every_dtype_passes_through_files(tmp_path: Path) -> None:
    names = {dtype: f"X_{dtype.value}" for dtype in ALL_DTYPES}
    outs = {dtype: f"O_{dtype.value}" for dtype in ALL_DTYPES}
    body = " ".join(f"{outs[dtype]} = {names[dtype]};" for dtype in ALL_DTYPES)
    source = f"function ({', '.join(names.values())}) -> ({', '.join(outs.values())}) {{ {body} }}"
    inputs = {names[dtype]: special_values(dtype) for dtype in ALL_DTYPES}
    results = run(made(source, inputs), inputs, tmp_path, *SANITIZERS)
    for dtype in ALL_DTYPES:
        assert results[outs[dtype]].tobytes() == inputs[names[dtype]].tobytes()


def test_names_that_c_has_taken(tmp_path: Path) -> None:
    source = "function (INFINITY[N], NAN) -> (NULL, INT32_MAX) { NULL = INFINITY * 3 + NAN; INT32_MAX = NULL > 4; }"
    inputs = {"INFINITY": np.arange(5, dtype=np.int32), "NAN": np.array(2, np.int32)}
    program = made(source, inputs)
    assert "const int32_t *INFINITY_," in program.header
    results = run(program, inputs, tmp_path)
    for name, expected in zip(("NULL", "INT32_MAX"), tileir.evaluate(source, inputs), strict=True):
        np.testing.assert_array_equal(results[name], expected)


def test_names_in_quotes_become_identifiers(tmp_path: Path) -> None:
    source = (
        'function ("a/b"[N], "a b"[N], "a_b"[N], "int"[N], "*/"[N]) -> ("x*/y", "x /y") '
        '{ "x*/y" = "a/b" + "a b" * 2 + "a_b" * 3; "x /y" = "int" * "*/"; }'
    )
    inputs = {name: np.arange(3, dtype=np.float32) + at for at, name in enumerate(("a/b", "a b", "a_b", "int", "*/"))}
    program = made(source, inputs)
    given = {buffer.name: array for buffer, array in zip(program.interface.inputs, inputs.values(), strict=True)}
    assert len(set(program.interface.parameters.values())) == 7
    results = run(program, given, tmp_path)
    for found, expected in zip(results.values(), tileir.evaluate(source, inputs), strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", ["read", "exp", "main", "sinf", "tile_x", "3d", "double", "npy_fail", "a-b", "été"])
def test_functions_that_others_have_taken(name: str, tmp_path: Path) -> None:
    names = ("EOF", "MEMORY", "SIG_DFL", "FLT_MAX")
    source = f"function ({', '.join(names)}) -> (NPY_TENSORS) {{ NPY_TENSORS = {' + '.join(names)}; }}"
    inputs = {word: np.arange(3, dtype=np.int32) for word in names}
    types = {word: tileir.TensorType(DType.I32, array.shape) for word, array in inputs.items()}
    results = run(ahead(lower(source, types, 16), name), inputs, tmp_path)
    assert results["NPY_TENSORS"].tolist() == [0, 4, 8]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("dtype", ALL_DTYPES, ids=lambda dtype: dtype.value)
def test_constants_keep_every_bit(dtype: DType, tmp_path: Path) -> None:
    values = padded(special_values(dtype))
    data = Buffer("table", dtype, values.shape, BufferRole.CONSTANT, values.tobytes())
    result = Buffer("O", dtype, values.shape, BufferRole.OUTPUT)
    kernel = mapped("copy", (dtype,), dtype, values.size, 16, element(0, dtype, 16))
    program = Program((kernel,), (data, result), (Launch(0, ("table", "O")),))
    results = run(ahead(program, "program"), {}, tmp_path)
    with np.errstate(invalid="ignore"):
        assert same_content(results["O"], values)


def test_empty_arrays_and_no_workspace(tmp_path: Path) -> None:
    source = "function (A[N, M]) -> (B, C) { B[n: N] = +(A[n, m]); C = A + A; }"
    inputs = {"A": np.zeros((3, 0), np.float32)}
    program = made(source, inputs)
    assert program.interface.workspace_bytes == 0
    results = run(program, inputs, tmp_path)
    assert results["B"].tolist() == [0, 0, 0]
    assert results["C"].shape == (3, 0)


@pytest.mark.sampled(2)
@needs_sanitizers
@pytest.mark.parametrize("seed", range(6))
def test_generated_programs(seed: int, tmp_path: Path) -> None:
    manner = Manner(ALL_DTYPES, special=True, functions=False, least_size=0, largest_size=5, statements=6)
    case = make(Seeded(str(seed)), manner)
    program = ahead(lower(case.function, case.types, 32), "program", case.text)
    results = run(program, case.inputs, tmp_path, *SANITIZERS)
    assert_equal(results, case.expected())


def of_kernels(kernels: Sequence[KernelFunction], inputs: Mapping[str, Array]) -> Program:
    """Return a program that launches each kernel once: what it reads are inputs, and all that it writes are outputs."""
    buffers = [Buffer(name, arithmetic.dtype_of(a), a.shape, BufferRole.INPUT) for name, a in inputs.items()]
    launches = []
    for number, kernel in enumerate(kernels):
        words = []
        for param in kernel.params:
            if param.access is ParamAccess.READ:
                words.append(param.name)
            else:
                words.append(f"{param.name} of {number}")
                buffers.append(Buffer(words[-1], param.dtype, (param.size,), BufferRole.OUTPUT))
        launches.append(Launch(number, tuple(words)))
    return Program(tuple(kernels), tuple(buffers), tuple(launches))


@pytest.mark.sampled(1)
@needs_sanitizers
@pytest.mark.parametrize("dtype", ALL_DTYPES, ids=lambda dtype: dtype.value)
def test_no_operation_is_undefined_for_any_value(dtype: DType, tmp_path: Path) -> None:
    values = special_values(dtype)
    left, right = (padded(side.reshape(-1)) for side in np.meshgrid(values, values))
    inputs = {"in0": left, "in1": right, "in2": np.ascontiguousarray(np.roll(left, 3))}
    arrays = list(inputs.values())
    kernels, expected = [], []
    comparisons = [op for op in Op if op.info.compares and op.works_on(dtype)]
    for op in [op for op in allowed_ops(dtype) if op in NATIVE or not dtype.is_float] + comparisons:
        value = Apply(op, tuple(element(number, dtype, 16) for number in range(op.info.arity)))
        kernels.append(mapped(op.value, (dtype,) * op.info.arity, value.type.dtype, left.size, 16, value))
        expected.append(arithmetic.apply(op, *arrays[: op.info.arity]))
    for target in ALL_DTYPES:
        converted = Cast(element(0, dtype, 16), Type(target, 16))
        kernels.append(mapped(target.value, (dtype,), target, left.size, 16, converted))
        expected.append(arithmetic.cast(left, target))
    results = run(ahead(of_kernels(kernels, inputs), "program"), inputs, tmp_path, *SANITIZERS)
    for result, wanted, kernel in zip(results.values(), expected, kernels, strict=True):
        with np.errstate(invalid="ignore"):
            assert same_content(result, np.ascontiguousarray(wanted)), kernel.name


@needs_sanitizers
@examples(8)
@given(case=kernel_cases().filter(lambda case: all(p.access is not ParamAccess.READ_WRITE for p in case.kernel.params)))
def test_no_random_kernel_is_undefined(tmp_path_factory: pytest.TempPathFactory, case: KernelCase) -> None:
    inputs, outputs = {}, []
    for fill in (0, 1):
        arrays = case.arrays()
        for param, array in zip(case.kernel.params, arrays, strict=True):
            if param.access is ParamAccess.READ:
                inputs[param.name] = array
            else:
                array[...] = fill
        interpreter.run(case.kernel, arrays)
        outputs.append(arrays)
    program = ahead(of_kernels([simplify(case.kernel)], inputs), "program")
    silenced = ("-Wno-bool-compare", "-Wno-unknown-warning-option")  # a random kernel may ask if a bool is below false
    results = run(program, inputs, tmp_path_factory.mktemp("kernel"), *silenced, *SANITIZERS)
    for param, first, second in zip(case.kernel.params, *outputs, strict=True):
        if param.access is not ParamAccess.READ:
            written = first.view(np.uint8).reshape(first.size, -1) == second.view(np.uint8).reshape(first.size, -1)
            places = written.all(axis=1)
            assert same_content(results[f"{param.name} of 0"][places], first[places])


def test_the_header_is_for_cpp_too(tmp_path: Path) -> None:
    compiler = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("there is no C++ compiler")
    name = write(made(MATMUL, random_inputs()), tmp_path)
    (tmp_path / "use.cpp").write_text(
        f'#include "{name}.h"\nint main() {{ return {name}_workspace_bytes() == PROGRAM_WORKSPACE_BYTES ? 0 : 1; }}\n'
    )
    subprocess.run(["cc", "-std=c11", "-c", f"{name}.c"], cwd=tmp_path, check=True)
    flags = ["-Wall", "-Wextra", "-Werror", "-pedantic"]
    subprocess.run([compiler, *flags, "use.cpp", f"{name}.o", "-lm", "-o", "use"], cwd=tmp_path, check=True)
    subprocess.run([str(tmp_path / "use")], check=True)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (np.zeros((30, 37), np.float32), "another shape"),
        (np.zeros((37, 30), np.float64), "another kind"),
        (np.zeros((37, 30), ">f4"), "another byte order"),
        (np.asfortranarray(np.zeros((37, 30), np.float32)), "by columns"),
        (np.zeros((37, 30, 1), np.float32), "another shape"),
        (np.zeros(37, np.float32), "another shape"),
    ],
)
def test_a_wrong_array_is_refused(wrong: Array, message: str, program: Path) -> None:
    np.save(program.parent / "wrong.npy", wrong)
    done = subprocess.run(
        [program, "wrong.npy", *"BFCD"], cwd=program.parent, text=True, capture_output=True, check=False
    )
    assert done.returncode == 1
    assert message in done.stderr
    assert "A of kind f4 and shape (37, 30)" in done.stderr


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "no .npy file"),
        (b"\x93NUMPY\x02\x00\x10\x00", "too short"),
        (b"\x93NUMPY\x01\x00\x10\x00{}              \n", "broken"),
        (b"\x93NUMPY\x02\x00\xff\xff\xff\xff", "too long"),
    ],
)
def test_a_broken_file_is_refused(content: bytes, message: str, program: Path) -> None:
    (program.parent / "broken.npy").write_bytes(content)
    words = [str(program), "broken.npy", *"BFCD"]
    done = subprocess.run(words, cwd=program.parent, text=True, capture_output=True, check=False)
    assert done.returncode == 1
    assert message in done.stderr


def test_usage_and_missing_files(program: Path) -> None:
    done = subprocess.run([program], text=True, capture_output=True, check=False)
    assert done.returncode == 2
    assert "A.npy B.npy F.npy C.npy D.npy" in done.stderr
    done = subprocess.run([program, *"ABFCD"], text=True, capture_output=True, check=False)
    assert done.returncode == 1
    assert "cannot be opened" in done.stderr


def test_bf16_is_read_as_ml_dtypes_saves_it(tmp_path: Path) -> None:
    values = np.array([1.5, -2.0, 3.0], ml_dtypes.bfloat16)
    np.save(tmp_path / "x.npy", values)
    assert b"V2" in (tmp_path / "x.npy").read_bytes()
    results = run(made("function (A) -> (B) { B = A * A; }", {"A": values}), {"A": values}, tmp_path)
    assert results["B"].astype(np.float32).tolist() == [2.25, 4.0, 9.0]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(made(MATMUL, random_inputs()), tmp_path_factory.mktemp("program"), "-O0")


LOOP = """function (A[N], Xs[T, U, N]) -> (H, Ys) {
  S = scan(A; Xs) function (A[N], X[U, N]) -> (A3, Y) {
    R = scan(A; X) reverse function (A[N], X[N]) -> (A2, Y) { A2 = A * 3 - X; Y = A ^ X; };
    A3 = element(R, 0);
    Z = element(R, 1);
    Y[n : N] = +(Z[u, n]);
  };
  H = element(S, 0);
  Ys = element(S, 1);
}"""


@needs_sanitizers
def test_loops_are_loops_of_c(tmp_path: Path) -> None:
    inputs = {"A": np.arange(5, dtype=np.int32), "Xs": np.arange(140, dtype=np.int32).reshape(7, 4, 5)}
    results = run(made(LOOP, inputs), inputs, tmp_path, *SANITIZERS)
    expected = tileir.evaluate(LOOP, inputs)
    assert all(np.array_equal(results[name], array) for name, array in zip(("H", "Ys"), expected, strict=True))
