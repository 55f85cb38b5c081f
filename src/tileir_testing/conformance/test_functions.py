"""Every builtin function on every dtype, at special values; floats within the bounds of the expansions."""

from __future__ import annotations

import pytest

from tileir_testing.subject import Subject
from tileir_testing.tables import FUNCTION_PROGRAMS


@pytest.mark.parametrize("index", range(len(FUNCTION_PROGRAMS)), ids=[program.name for program in FUNCTION_PROGRAMS])
def test_functions(subject: Subject, index: int) -> None:
    program = FUNCTION_PROGRAMS[index]
    program.check(subject.run(program.text, program.inputs))
