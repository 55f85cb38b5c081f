"""The functions that formulas call: files of them, their parameters, bodies and rules."""
