"""Partitioned programs that run: made of programs of any stage, compiled for each rank, over an engine."""
