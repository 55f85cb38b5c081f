"""Schedules of kernels: for groups of threads, for register tiles, and for vectors."""
