"""Code for kernels: built, shown, saved, loaded."""

from __future__ import annotations

import numpy as np
import pytest

from tileir import Options
from tileir.core import BackendError
from tileir.runtime.interface import Library
from tileir.semtree.ir import KernelFunction
from tileir_testing.subject import INCREMENT, Subject, numbers

LAYER = "function (A[M, K], B[K, N]) -> (O) { C[i, j : M, N] = +(A[i, k] * B[k, j]); O = tanh(C); }"
DOUBLE = """
kernel double(inout i32 A[1000] align(4) noalias) grid(1000) index($index) {
  A[group_id(0)] = A[group_id(0)] * i32(2);
}
"""


def kernels_of(subject: Subject) -> tuple[KernelFunction, ...]:
    layer = subject.kernels(LAYER, {"A": np.zeros((9, 5), np.float32), "B": np.zeros((5, 17), np.float32)})
    return (subject.kernel(INCREMENT), subject.kernel(DOUBLE), *layer)


@pytest.fixture(scope="module")
def library(subject: Subject) -> Library:
    built: Library = subject.compiler.build(kernels_of(subject))
    return built


def check(subject: Subject, library: Library) -> None:
    first, second = (subject.executor.prepare(library, index) for index in range(2))
    source, target = subject.upload(numbers()), subject.blank(numbers())
    second.run([target], [first.run([target, source])]).wait()
    np.testing.assert_array_equal(subject.download(target, numbers()), 2 * numbers(1))


def test_a_library_holds_its_kernels_in_order(subject: Subject, library: Library) -> None:
    assert library.kernels == kernels_of(subject)
    check(subject, library)


def test_a_library_may_be_empty(subject: Subject) -> None:
    assert subject.compiler.build([]).kernels == ()


def test_a_saved_library_works_for_another_compiler(subject: Subject, library: Library) -> None:
    parts = dict(library.save())
    assert all(type(name) is str and type(part) is bytes for name, part in parts.items())
    loaded = subject.backend.compiler(subject.device, Options()).load(library.kernels, parts)
    assert loaded.kernels == library.kernels
    check(subject, loaded)
    assert dict(loaded.save()) == parts


def test_an_identity_is_stable(subject: Subject) -> None:
    first, second = (subject.backend.compiler(subject.device, Options()).identity for _ in range(2))
    assert first == second == subject.compiler.identity
    assert isinstance(first, str)
    assert first


def listings(subject: Subject, library: Library) -> dict[str, str]:
    """Return the code in all forms; forms for other devices of the back end may be refused, with TIL806."""
    texts = {}
    for form in subject.backend.forms:
        try:
            texts[form] = library.listing(form)
        except BackendError as error:
            assert error.diagnostics[0].code == "TIL806"  # noqa: PT017  both outcomes are right
    return texts


def test_code_is_shown(subject: Subject, library: Library) -> None:
    texts = listings(subject, library)
    assert texts or not subject.backend.forms
    assert all(type(text) is str and text.strip() for text in texts.values())


def test_the_same_kernels_give_the_same_text(subject: Subject, library: Library) -> None:
    again = subject.backend.compiler(subject.device, Options()).build(library.kernels)
    assert listings(subject, again) == listings(subject, library)


def test_a_kernel_may_be_prepared_twice(subject: Subject, library: Library) -> None:
    first, second = (subject.executor.prepare(library, 0) for _ in range(2))
    source, target = subject.upload(numbers()), subject.blank(numbers())
    first.launch([target, source])
    second.launch([source, target])
    np.testing.assert_array_equal(subject.download(source, numbers()), numbers(2))
