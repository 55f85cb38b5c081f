"""Tracing of Python functions as programs: traces, containers, derivatives, and control flow."""
