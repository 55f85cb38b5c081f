"""One row for each operator of ONNX, which maps attributes and inputs to an operation of tileir.

A row maps; the mathematics is in :mod:`tileir.ops`. Each file has one family of operators.
"""
