"""Costs of kernels predicted and explained, the search for faster pipelines and schedules, and warnings."""
