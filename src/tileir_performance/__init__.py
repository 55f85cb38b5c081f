"""Explanations of what kernels cost, and the search for faster pipelines and schedules, which measures them."""
