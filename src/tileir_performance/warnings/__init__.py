"""Compiler warnings about legal but suspicious programs."""
