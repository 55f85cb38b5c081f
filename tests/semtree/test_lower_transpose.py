from __future__ import annotations

import numpy as np
import pytest

from tileir.core.dtype import DType
from tileir.core.text.names import NameScope
from tileir.semtree.ir import Declare, Shuffle, Type, Var
from tileir.semtree.lower.specials import is_square_power, transposed


@pytest.mark.parametrize("lanes", [2, 4, 8, 16, 32])
@pytest.mark.parametrize("dtype", [DType.U8, DType.F16, DType.F32, DType.F64])
def test_columns_come_out_where_rows_went_in(lanes: int, dtype: DType) -> None:
    kind = Type(dtype, lanes)
    rows = [Var(f"r{number}", kind) for number in range(lanes)]
    columns, statements = transposed(list(rows), NameScope())
    values = {row.name: np.arange(lanes) + lanes * number for number, row in enumerate(rows)}
    for statement in statements:
        assert isinstance(statement, Declare)
        assert isinstance(statement.value, Shuffle)
        both = np.concatenate(
            [values[operand.name] for operand in statement.value.operands if isinstance(operand, Var)]
        )
        values[statement.variable.name] = both[list(statement.value.lanes)]
    matrix = np.stack([values[column.name] for column in columns if isinstance(column, Var)])
    np.testing.assert_array_equal(matrix, np.arange(lanes * lanes).reshape(lanes, lanes).T)
    assert len(statements) == lanes * (lanes.bit_length() - 1)


@pytest.mark.parametrize(
    ("rows", "columns", "fits"), [(4, 4, True), (16, 16, True), (1, 1, False), (4, 8, False), (6, 6, False)]
)
def test_only_squares_of_powers_of_two_can_be_turned(rows: int, columns: int, *, fits: bool) -> None:
    assert is_square_power(rows, columns) is fits
