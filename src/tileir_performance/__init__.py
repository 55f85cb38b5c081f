"""Costs of kernels predicted and explained, and the search for faster pipelines and schedules, which measures them."""
