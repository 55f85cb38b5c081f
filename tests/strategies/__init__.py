"""Hypothesis strategies and tables that several test packages share, one module for each stage."""
