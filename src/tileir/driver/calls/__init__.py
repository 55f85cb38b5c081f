"""Calls of executables: arguments, operands on the host and on devices, and calls in flight."""
