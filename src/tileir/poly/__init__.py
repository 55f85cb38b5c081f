"""Exact affine mathematics over integer index variables."""
