"""Kernels and programs as text, and back."""
