"""Pipelines: the catalogue of passes, their options, and their texts."""
