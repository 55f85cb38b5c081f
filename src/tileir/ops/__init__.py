"""The operation library: functions over tensors of the Python builder that record what networks are made of.

>>> import tileir
>>> f = tileir.FunctionBuilder()
>>> X = f.input("X", "N", "C")
>>> function = f.build(Y=tileir.ops.relu(X, max_value=6))
"""

from tileir.ops.elementwise import relu
from tileir.ops.reductions import sum  # noqa: A004  NumPy's name

__all__ = ["relu", "sum"]
