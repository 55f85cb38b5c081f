"""Targets and hardware models, as values and as files."""
