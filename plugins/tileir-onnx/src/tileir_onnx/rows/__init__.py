"""Table of ONNX operators, whose rows map attributes and inputs to operations of tileir.

The mathematics is in :mod:`tileir.ops`. Each file has one family of operators.
"""
