"""Execution of partitioned programs of any stage, compiled for each rank, over an engine."""
